//! The embedded cluster as tests start it, and a client of whatever cluster a kubeconfig names.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use kubepermit::embedded::{Embedded, EmbeddedExtras, EmbeddedOptions};

/// A confined embedded cluster with one namespace.
pub(crate) async fn embedded(namespace: &str, extras: EmbeddedExtras) -> Embedded {
    let options = EmbeddedOptions {
        namespaces: vec![namespace.to_owned()],
        launcher: env!("CARGO_BIN_EXE_kubepermit").into(),
        unconfined: false,
        extras,
    };
    Embedded::start(options).await.unwrap()
}

/// A client with what the kubeconfig says.
pub(crate) async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}
