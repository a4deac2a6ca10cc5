//! What several targets share: the stages before the policy, as the program joins them.

use kubepermit::ids::DecisionId;
use kubepermit::plan::{
    self, AllowedImages, JobExtras, JobSettings, KubectlSettings, Plan, PodProfile, Settings,
};
use kubepermit::refusal::Refusal;
use kubepermit::schema::{Catalogue, ToolCall};
use serde_json::Value;

/// Untrusted JSON to a plan.
pub struct Front {
    pub catalogue: Catalogue,
    pub settings: Settings,
    pub images: AllowedImages,
}

impl Front {
    /// With the images that are given, and the program's defaults.
    pub fn new(images: &[&str]) -> Self {
        let jobs = JobSettings {
            namespace: "mcp-ephemeral".to_owned(),
            instance: "fuzz".to_owned(),
            default_timeout_s: 60,
            default_cpu_millis: 1000,
            default_memory_bytes: 512 << 20,
            helper_image: "docker.io/library/busybox:1.36".to_owned(),
            user: 65532,
            profile: PodProfile::Restricted,
            extras: JobExtras::default(),
        };
        let kubectl = KubectlSettings {
            context: "fuzz".to_owned(),
            cache_dir: "/nonexistent".to_owned(),
            request_timeout_s: 20,
        };
        Self {
            catalogue: Catalogue::load().expect("the catalogue is compiled in"),
            settings: Settings { jobs, kubectl },
            images: AllowedImages::new(images.iter().map(|image| image.parse().expect("an image reference"))),
        }
    }

    /// The call and its plan, or why there is none.
    pub fn plan(&self, tool: &str, arguments: Value) -> Result<(ToolCall, Plan), Refusal> {
        let call = self.catalogue.admit(DecisionId::mint(), tool, arguments)?;
        let plan = plan::plan(&call, &self.settings, &self.images)?;
        Ok((call, plan))
    }
}

/// Every refusal names a code and says something.
pub fn is_told(refusal: &Refusal) {
    assert!(!refusal.reasons.is_empty());
    for reason in &refusal.reasons {
        assert!(reason.code.contains('.') && !reason.message.is_empty(), "{reason:?}");
    }
}
