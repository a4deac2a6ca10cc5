//! The kubeconfig through which the rest of the program reaches the embedded cluster.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

/// The name of the kubeconfig's context.
pub const CONTEXT: &str = "kubepermit-embedded";

/// Writes a kubeconfig that only this user may read. JSON is YAML, too. `reader` is the path prefix for clients
/// that send no token.
///
/// # Errors
/// When the file cannot be written.
pub fn write(
    directory: &Path,
    address: SocketAddr,
    (token, reader): (&str, &str),
    namespace: &str,
) -> io::Result<PathBuf> {
    let path = directory.join("kubeconfig");
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [{"name": CONTEXT, "cluster": {"server": format!("http://{address}/{reader}")}}],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [{
            "name": CONTEXT,
            "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": namespace},
        }],
    });
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(config.to_string().as_bytes())?;
    Ok(path)
}
