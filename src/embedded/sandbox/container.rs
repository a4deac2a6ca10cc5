//! The launcher's inner process: confines itself, then turns into the container's command.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{AccessFlags, sethostname, setsid};

use super::Confinement;
use super::access::Restricted;
use super::user::{self, Identity};
use super::wire::{Applied, Failure, FailureKind, Order, Step, read_order};
use super::{access, filter, limits, root};

/// Where commands are looked up when the environment has no `PATH`: what container runtimes use.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Turns into the command of the order at descriptor `order`; tells descriptor `status` what it did.
pub fn run(order: &str, status: &str) -> ExitCode {
    let Ok(mut status) = take(status, File::options().write(true)) else {
        return ExitCode::FAILURE;
    };
    let Err(failure) = become_command(order, &mut status);
    let _gone = tell(&mut status, &Err(failure));
    ExitCode::FAILURE
}

fn become_command(order: &str, status: &mut File) -> Result<Infallible, Failure> {
    // If the supervisor is killed, which only its own user or root can do, this process goes too.
    prctl::set_pdeathsig(Signal::SIGKILL).step("tie the container to its supervisor")?;
    let mut memory = take(order, File::options().read(true)).step("take the order")?;
    let order = read_order(&mut memory).step("read the order")?;
    drop(memory);
    umask(Mode::from_bits_truncate(0o022));
    // No terminal of the gateway's, and no signal meant for its process group.
    setsid().step("make a session")?;
    match order.confinement {
        Confinement::Namespaces => enter_root(&order)?,
        Confinement::LandlockOnly | Confinement::Unconfined => refuse_ambient_rights()?,
    }
    limits::apply(&order).step("set the limits")?;
    std::env::set_current_dir(&order.spec.working_dir).map_err(|error| Failure {
        kind: FailureKind::WorkingDir,
        message: format!(
            "cannot enter the working directory `{}`: {error}",
            order.spec.working_dir.display()
        ),
    })?;
    prctl::set_no_new_privs().step("give up new privileges")?;
    let Restricted { files: landlock, scopes: landlock_scopes } = access::restrict(&order)?;
    let seccomp = filter::apply(&order, landlock_scopes)?;
    tell(status, &Ok(Applied { landlock, landlock_scopes, seccomp })).step("report")?;
    Err(exec(&order))
}

/// Makes the container's own view of the machine, and gives up the rights that this took.
fn enter_root(order: &Order) -> Result<(), Failure> {
    let network = if order.spec.network { CloneFlags::empty() } else { CloneFlags::CLONE_NEWNET };
    unshare(network | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS)
        .step("make the namespaces")?;
    sethostname(&order.spec.hostname).step("set the host name")?;
    root::build(order)?;
    // A second user namespace, which owns none of the others: in it the command is an ordinary user, and even all
    // capabilities in it would give no right over the mounts or the network.
    let identity = Identity::current();
    unshare(CloneFlags::CLONE_NEWUSER).step("make the inner user namespace")?;
    user::map(order.uid, identity)
}

/// Capabilities end at `exec`, as the command's user is not root, except the ambient ones that a service manager may
/// have given the gateway. A new user namespace starts without them; here they would go on to the command.
fn refuse_ambient_rights() -> Result<(), Failure> {
    let status = fs::read_to_string("/proc/self/status").step("look at the capabilities")?;
    let ambient = status.lines().find_map(|line| line.strip_prefix("CapAmb:"));
    match ambient.map(|set| set.trim().bytes().all(|digit| digit == b'0')) {
        Some(true) => Ok(()),
        Some(false) | None => Err(Failure::setup(
            "give up capabilities",
            "the gateway was started with ambient capabilities; start it without",
        )),
    }
}

fn exec(order: &Order) -> Failure {
    let [name, arguments @ ..] = order.spec.argv.as_slice() else {
        return Failure { kind: FailureKind::NotFound, message: "the command is empty".to_owned() };
    };
    let program = match look_up(name, order) {
        Ok(program) => program,
        Err(failure) => return failure,
    };
    let environment = order.spec.env.iter().map(|(name, value)| (name, value));
    let error = Command::new(&program).arg0(name).args(arguments).env_clear().envs(environment).exec();
    let kind = match error.kind() {
        // Also when the program exists and its interpreter does not.
        io::ErrorKind::NotFound => FailureKind::NotFound,
        _ => FailureKind::NotExecutable,
    };
    // The kernel does not say which file it misses.
    let hint = match kind {
        FailureKind::NotFound if program.exists() => {
            "; the program is there, but its interpreter or loader is not: is a folder mounted over it?"
        }
        _ => "",
    };
    Failure { kind, message: format!("cannot run `{}`: {error}{hint}", program.display()) }
}

/// Finds the program as a container runtime does: a name with a slash is a path, any other is looked up in `PATH`.
fn look_up(name: &str, order: &Order) -> Result<PathBuf, Failure> {
    if name.contains('/') {
        // `exec` says what is wrong with it.
        return Ok(PathBuf::from(name));
    }
    let path =
        order.spec.env.iter().find(|(key, _)| key == "PATH").map_or(DEFAULT_PATH, |(_, path)| path.as_str());
    let mut found_but = None;
    for folder in path.split(':').filter(|folder| !folder.is_empty()) {
        let candidate = Path::new(folder).join(name);
        if !candidate.is_file() {
            continue;
        }
        if nix::unistd::access(&candidate, AccessFlags::X_OK).is_ok() {
            return Ok(candidate);
        }
        found_but = Some(candidate);
    }
    Err(match found_but {
        Some(file) => Failure {
            kind: FailureKind::NotExecutable,
            message: format!("`{}` is not executable", file.display()),
        },
        None => {
            Failure { kind: FailureKind::NotFound, message: format!("`{name}` is not in the PATH `{path}`") }
        }
    })
}

/// Takes over an inherited descriptor. Opening it anew gives an owned one that closes itself at `exec`; the
/// inherited number is then closed.
fn take(descriptor: &str, options: &fs::OpenOptions) -> io::Result<File> {
    let number: i32 = descriptor.parse().map_err(io::Error::other)?;
    let file = options.open(format!("/proc/self/fd/{number}"))?;
    nix::unistd::close(number)?;
    Ok(file)
}

fn tell(status: &mut File, message: &Result<Applied, Failure>) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    status.write_all(&line)
}
