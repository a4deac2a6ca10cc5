//! What a container's command can do and what it cannot.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use kubepermit::embedded::sandbox::{Confinement, ContainerSpec, Exit, Limits, Mount, Sandbox, Streams};
use tokio::io::AsyncReadExt;

/// The program that confines.
fn launcher() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_kubepermit"))
}

/// A container of `sh -c script` with `/work` and `/tmp`.
struct Pod {
    sandbox: Sandbox,
    folder: tempfile::TempDir,
    spec: ContainerSpec,
}

async fn pod(confinement: Confinement, script: &str) -> Pod {
    let sandbox = Sandbox::try_out(launcher(), confinement).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mounts = ["work", "tmp"]
        .map(|name| {
            let host = folder.path().join(name);
            std::fs::create_dir(&host).unwrap();
            Mount {
                host,
                path: PathBuf::from(format!("/{name}")),
                read_only: false,
            }
        })
        .to_vec();
    let spec = ContainerSpec {
        hostname: "pod-1".into(),
        argv: ["sh", "-c", script].map(String::from).to_vec(),
        env: vec![
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("HOME".into(), "/tmp".into()),
        ],
        working_dir: "/work".into(),
        mounts,
        limits: Limits::default(),
    };
    Pod {
        sandbox,
        folder,
        spec,
    }
}

impl Pod {
    /// Runs it to its end: exit, standard output, standard error.
    async fn run(&self) -> (Exit, String, String) {
        let streams = Streams {
            stdin: Stdio::null(),
            stdout: Stdio::piped(),
            stderr: Stdio::piped(),
        };
        let mut process = self.sandbox.start(&self.spec, streams).await.unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        let (mut stdout, mut stderr) = (process.stdout.take().unwrap(), process.stderr.take().unwrap());
        let (a, b) = tokio::join!(stdout.read_to_string(&mut out), stderr.read_to_string(&mut err));
        (a.unwrap(), b.unwrap());
        (process.wait().await.unwrap(), out, err)
    }
}

#[tokio::test]
async fn a_command_runs_in_a_root_of_its_own() {
    let pod = pod(
        Confinement::Namespaces,
        "echo $$; pwd; id -u; hostname; echo hello > /work/file; exit 3",
    )
    .await;
    let (exit, out, err) = pod.run().await;
    assert_eq!(
        (exit, out.as_str(), err.as_str()),
        (Exit::Code(3), "1\n/work\n65532\npod-1\n", "")
    );
    assert_eq!(
        std::fs::read_to_string(pod.folder.path().join("work/file")).unwrap(),
        "hello\n"
    );
}
