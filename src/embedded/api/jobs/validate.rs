//! What the API server refuses about a Job, in its words.

pub fn job(_job: &k8s_openapi::api::batch::v1::Job) -> Vec<crate::embedded::api::status::Cause> {
    Vec::new()
}
