//! The kubeconfigs through which the rest of the program, and kubectl, reach the embedded cluster.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

/// The name of the kubeconfig's context.
pub const CONTEXT: &str = "kubepermit-embedded";

/// The file for kubectl.
pub const FOR_KUBECTL: &str = "kubeconfig";

/// The file for this program.
const FOR_GATEWAY: &str = "gateway.kubeconfig";

/// Writes two kubeconfigs that only this user may read, and returns the one for this program. JSON is YAML, too.
///
/// `reader` is the path prefix for clients that send no token, which kubectl needs. It is in the other file alone:
/// URLs end up in error messages and logs, and what this program does not know it cannot pass on to an agent.
///
/// # Errors
/// When a file cannot be written.
pub fn write(
    directory: &Path,
    address: SocketAddr,
    (token, reader): (&str, &str),
    namespace: &str,
) -> io::Result<PathBuf> {
    let gateway = directory.join(FOR_GATEWAY);
    write_one(&gateway, &format!("http://{address}"), token, namespace)?;
    write_one(&directory.join(FOR_KUBECTL), &format!("http://{address}/{reader}"), token, namespace)?;
    Ok(gateway)
}

fn write_one(path: &Path, server: &str, token: &str, namespace: &str) -> io::Result<()> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [{"name": CONTEXT, "cluster": {"server": server}}],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [{
            "name": CONTEXT,
            "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": namespace},
        }],
    });
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(config.to_string().as_bytes())
}
