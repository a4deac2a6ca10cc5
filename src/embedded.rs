//! A one-machine stand-in for a cluster: the part of the Kubernetes API that kubepermit uses.

pub mod sandbox;
