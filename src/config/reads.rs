//! What the reads need: kubectl, a cluster, and their bounds.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::config::reader::Reader;
use crate::config::{Environment, Setting, defaults};

/// The settings of the reads, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadConfig {
    /// Replaces the policy's list when set; a star is every namespace.
    pub allow_namespaces: Option<Vec<String>>,
    /// kubectl's absolute path: the operator's, or the first on the `PATH`.
    pub kubectl: Option<PathBuf>,
    /// Which cluster is read, where it is not the embedded one.
    pub cluster: ReadCluster,
    /// The context of its kubeconfig; `None` is its current one.
    pub context: Option<String>,
    /// Cap on the output of a read, in characters.
    pub max_output: u64,
    /// How long kubectl may run, in seconds.
    pub timeout_s: u64,
    /// How many kubectl may run at once.
    pub at_once: u64,
}

/// Where the credentials for reads come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadCluster {
    /// A kubeconfig that was named for the reads alone.
    OwnKubeconfig(PathBuf),
    /// The kubeconfig of the jobs.
    Kubeconfig(PathBuf),
    /// None was named: the pod's service account, or else kubectl's own files.
    Ambient {
        /// `host:port` of a pod's API server.
        service: Option<String>,
        /// Absolute paths.
        files: Vec<PathBuf>,
    },
}

impl ReadConfig {
    pub(super) fn read(
        reader: &mut Reader<'_>,
        kubeconfig: Option<&Path>,
        context: Option<String>,
        environment: &Environment,
    ) -> Self {
        let named = reader.text(Setting::Kubectl).map(PathBuf::from);
        if let Some(path) = named.as_ref().filter(|path| !path.is_absolute()) {
            reader.fault(Setting::Kubectl, &format!("`{}` is not an absolute path", path.display()));
        }
        let own = reader.text(Setting::ReadKubeconfig).map(PathBuf::from);
        Self {
            allow_namespaces: reader.list(Setting::AllowNamespaces),
            kubectl: named.or_else(|| find_kubectl(environment.path.as_deref()?)),
            cluster: match (own, kubeconfig) {
                (Some(path), _) => ReadCluster::OwnKubeconfig(path),
                (None, Some(path)) => ReadCluster::Kubeconfig(path.to_owned()),
                (None, None) => {
                    ReadCluster::Ambient { service: environment.service(), files: environment.kubeconfigs() }
                }
            },
            context,
            max_output: reader.whole(Setting::MaxOutput, defaults::MAX_OUTPUT, 1),
            timeout_s: reader.whole(Setting::ReadTimeoutS, defaults::READ_TIMEOUT_S, 1),
            at_once: reader.whole(Setting::MaxReads, defaults::MAX_READS, 1),
        }
    }
}

impl Environment {
    /// `host:port`, with an IPv6 address in brackets.
    fn service(&self) -> Option<String> {
        let (host, port) = self.service.as_ref()?;
        Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
    }

    /// The files that kubectl would use, except relative ones: those lead into the working directory.
    fn kubeconfigs(&self) -> Vec<PathBuf> {
        match self.kubeconfig.as_ref().filter(|list| !list.is_empty()) {
            Some(list) => std::env::split_paths(list).filter(|path| path.is_absolute()).collect(),
            None => {
                let home = self.home.iter().filter(|home| home.is_absolute());
                home.map(|home| home.join(".kube").join("config")).collect()
            }
        }
    }
}

/// The first file named `kubectl` in a list of directories (the form of `PATH`) that may be executed. Relative
/// entries are passed over: they lead into the working directory, which may be an agent's repository.
fn find_kubectl(path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("kubectl"))
        .find(|candidate| {
            std::fs::metadata(candidate)
                .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
        })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::find_kubectl;
    use crate::config::Environment;

    #[test]
    fn kubectl_is_the_first_executable_on_an_absolute_path() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str, mode: u32| {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            let path = folder.path().join(name).join("kubectl");
            std::fs::write(&path, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let (_, first, _) = (place("not", 0o644), place("first", 0o755), place("second", 0o755));
        std::fs::create_dir_all(folder.path().join("folder/kubectl")).unwrap();
        let list = ["", ".", "relative", "/absent"].map(PathBuf::from).into_iter();
        let list = list.chain(["folder", "not", "first", "second"].map(|name| folder.path().join(name)));
        let path = std::env::join_paths(list).unwrap();
        assert_eq!(find_kubectl(&path), Some(first));
        assert_eq!(find_kubectl("::.:bin".as_ref()), None);
    }

    #[test]
    fn relative_kubeconfigs_are_passed_over() {
        let of = |kubeconfig: &str, home: &str| {
            let kubeconfig = Some(kubeconfig.into());
            Environment { home: Some(home.into()), kubeconfig, ..Environment::default() }.kubeconfigs()
        };
        assert_eq!(of("", "/home/a"), [PathBuf::from("/home/a/.kube/config")]);
        assert_eq!(of("/k1:k2::/k3", "/home/a"), ["/k1", "/k3"].map(PathBuf::from));
        assert!(of("k", "/home/a").is_empty(), "a set variable keeps the default away");
        assert!(of("", "home").is_empty());
    }

    #[test]
    fn a_pods_api_server_may_have_an_ipv6_address() {
        let of = |host: &str| {
            Environment { service: Some((host.into(), "443".into())), ..Environment::default() }
                .service()
                .unwrap()
        };
        assert_eq!(of("10.0.0.1"), "10.0.0.1:443");
        assert_eq!(of("fd00::1"), "[fd00::1]:443");
    }
}
