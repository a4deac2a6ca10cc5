//! The one container that may use the machine's network: what it reaches with that, and what it still does not.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use kubepermit::embedded::sandbox::Exit;

use super::{allowed, pod};

#[tokio::test]
async fn it_can_connect_and_resolve_but_not_listen_or_reach_the_machines_own_sockets() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let name = format!("kubepermit-network-{}", std::process::id());
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    hidden.set_nonblocking(true).unwrap();
    let script = format!(
        r#"
import socket as s
def attempt(name, do):
    try: do(); print("REACHED", name)
    except OSError as error: print(name, error.errno)
attempt("tcp", lambda: s.create_connection(("localhost", {port})))
attempt("udp", lambda: s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", {port})))
attempt("listen", lambda: s.socket().bind(("127.0.0.1", 0)))
attempt("raw", lambda: s.socket(s.AF_NETLINK, s.SOCK_RAW))
attempt("vsock", lambda: s.socket(s.AF_VSOCK, s.SOCK_STREAM))
attempt("abstract", lambda: s.socket(s.AF_UNIX).connect("\0{name}"))
attempt("pair", lambda: s.socketpair(s.AF_UNIX, s.SOCK_DGRAM)[0].sendto(b"x", "\0{name}"))
"#,
        port = tcp.local_addr().unwrap().port(),
    );
    for &confinement in allowed() {
        let mut pod = pod(confinement, &["python3", "-c", &script]).await;
        pod.spec.network = true;
        let (exit, out, err) = pod.run().await;
        assert_eq!(exit, Exit::Code(0), "{out}{err}");
        let reached: BTreeSet<&str> = out.lines().filter_map(|line| line.strip_prefix("REACHED ")).collect();
        assert_eq!(reached, BTreeSet::from(["tcp", "udp"]), "{confinement:?}: {out}");
        assert_eq!(out.lines().count(), 7, "{out}");
        assert!(hidden.accept().is_err());
    }
}
