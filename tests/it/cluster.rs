//! The product on a cluster, end to end: the binary over stdio, with the rights that `deploy/` gives it and no more.
//!
//! Without further ado the cluster is the embedded one. With `KUBEPERMIT_TEST_KUBECONFIG`, an administrator's
//! kubeconfig, it is that Kubernetes: each test gets a namespace of its own, made from `deploy/kubernetes.yaml`, and
//! the server gets a token of the service account there. `tests/cluster/README.md` tells more.

mod background;
mod ends;
mod latency;
mod reads;
mod results;
mod role;
mod site;

pub(crate) use site::Site;
