//! The launcher's outer process: takes the order, makes the namespaces, watches the lifeline, reports the end.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use super::Confinement;
use super::memory::Meter;
use super::user::{self, Identity};
use super::wire::{
    Applied, Ended, Failure, HIDDEN_WORD, Order, ROLE_CONTAINER, Report, Step, TERMINATE, read_order,
    send_report,
};
use super::{memory, staging, sweep};

/// Runs the container that the gateway behind the socket of this name orders.
pub fn run(socket: &str) -> ExitCode {
    close_what_was_left_open();
    let Ok(mut gateway) = connect(socket) else {
        return ExitCode::FAILURE;
    };
    let Ok(order) = read_order(&mut gateway) else {
        return ExitCode::FAILURE;
    };
    let report = match supervise(order, &gateway) {
        Ok(ended) => Report::Exited(ended),
        Err(failure) => Report::Failed(failure),
    };
    // A gateway that is gone has no use for the report.
    let _gone = send_report(&gateway, &report);
    ExitCode::SUCCESS
}

/// Closes what the gateway itself inherited from a shell or a service manager that left it open across `exec`. It
/// would go on to the command. Nothing in this process owns a descriptor above 2 yet.
fn close_what_was_left_open() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return;
    };
    let open: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // The one of the listing is closed already.
        let _closed = nix::unistd::close(descriptor);
    }
}

fn connect(socket: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(socket)?)
}

fn supervise(order: Order, gateway: &UnixStream) -> Result<Ended, Failure> {
    let confinement = order.confinement;
    let order = match confinement {
        Confinement::Namespaces => enter_namespaces(order)?,
        Confinement::LandlockOnly | Confinement::Unconfined => become_subreaper(order)?,
    };
    let deaths = Deaths::listen().step("listen for the end of the command")?;
    let (mut status, mut child) = spawn_container(&order)?;
    let ended = report_start(&mut status, gateway, &child)
        .and_then(|()| watch(&mut child, &deaths, gateway, Meter::of(&order)).step("watch the command"));
    // Nothing to do if it ended by itself.
    let _gone = child.kill().and_then(|()| child.wait());
    match confinement {
        // The first process of a PID namespace takes all others with it.
        Confinement::Namespaces => {}
        Confinement::LandlockOnly | Confinement::Unconfined => sweep::kill_all_children(),
    }
    ended
}

/// A user namespace in which this process may do what the container's set-up needs, and a PID namespace for its
/// child. Whatever else there is to unshare, the child does.
fn enter_namespaces(order: Order) -> Result<Order, Failure> {
    let order = if user::is_root() {
        // The sources may lie in folders that only root can enter. Show them in a place anyone can reach, then
        // stop being root before the first user namespace exists: a slip of the kernel's in user namespaces, of
        // which there were many, then gives the rights of nobody.
        let order = staging::stage(order)?;
        user::become_unprivileged(order.uid)?;
        order
    } else {
        staging::resolve(order)?
    };
    let identity = Identity::current();
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID).step("make a user namespace")?;
    user::map(0, identity)?;
    Ok(order)
}

/// Without a PID namespace, orphans must come to this process instead of to the machine's init, or they would
/// outlive the container.
fn become_subreaper(order: Order) -> Result<Order, Failure> {
    let order = staging::resolve(order)?;
    if user::is_root() {
        staging::give_away(&order)?;
        user::become_unprivileged(order.uid)?;
    }
    prctl::set_child_subreaper(true).step("become the reaper of orphans")?;
    Ok(order)
}

/// Starts the inner process with the order in a memory file and a pipe for its status, both inherited by number.
///
/// Clearing close-on-exec is a race in a process with threads, where another spawn may pick the descriptor up. This
/// process has one thread and spawns once.
fn spawn_container(order: &Order) -> Result<(File, Child), Failure> {
    let memory = memfd_create("order", MFdFlags::MFD_CLOEXEC).step("make a memory file")?;
    let mut memory = File::from(memory);
    memory.write_all(&super::wire::encode(order).step("write the order")?).step("write the order")?;
    let (status, theirs) = nix::unistd::pipe2(OFlag::O_CLOEXEC).step("make a pipe")?;
    inherit(&memory).step("pass on the order")?;
    inherit(&theirs).step("pass on the pipe")?;
    let child = Command::new("/proc/self/exe")
        .arg(HIDDEN_WORD)
        .arg(ROLE_CONTAINER)
        .arg(memory.as_raw_fd().to_string())
        .arg(theirs.as_raw_fd().to_string())
        .env_clear()
        .spawn()
        .step("start the container's process")?;
    let_go_of_streams().step("let go of the command's streams")?;
    Ok((File::from(status), child))
}

fn inherit(descriptor: impl AsFd) -> nix::Result<()> {
    fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::empty())).map(drop)
}

/// The command's input and output must end when the command closes them, not when this process ends.
fn let_go_of_streams() -> io::Result<()> {
    let null: OwnedFd = File::options().read(true).write(true).open("/dev/null")?.into();
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    Ok(())
}

/// Reads what the inner process says before it turns into the command: what confines it, then nothing more if the
/// command runs, or why it does not.
fn report_start(status: &mut File, gateway: &UnixStream, child: &Child) -> Result<(), Failure> {
    let mut text = String::new();
    status.read_to_string(&mut text).step("read the container's status")?;
    let mut lines = text.lines().map(serde_json::from_str::<Result<Applied, Failure>>);
    let applied = match (lines.next(), lines.next()) {
        (Some(Ok(Ok(applied))), None) => applied,
        (Some(Ok(Err(failure))), None) | (Some(Ok(Ok(_))), Some(Ok(Err(failure)))) => return Err(failure),
        _ => {
            return Err(Failure::setup("start the container's process", "it ended without a word"));
        }
    };
    let pid = pid_of(child).step("report the start")?;
    // If the gateway is gone, the lifeline tells.
    let _gone = send_report(gateway, &Report::Started { pid: pid.as_raw(), applied });
    Ok(())
}

/// SIGCHLD as something to poll: a thread per wait is no choice, as the kernel allows no more threads to a process
/// whose children go to another PID namespace.
struct Deaths(SignalFd);

impl Deaths {
    fn listen() -> nix::Result<Self> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        // The standard library gives children an empty mask.
        mask.thread_block()?;
        Ok(Self(SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    fn forget(&self) -> nix::Result<()> {
        while self.0.read_signal()?.is_some() {}
        Ok(())
    }
}

/// Waits for the command's end and reaps orphans, while doing what the gateway says: kills the command when the
/// gateway closes its side or is gone, or when it uses more memory than it may.
fn watch(
    child: &mut Child,
    deaths: &Deaths,
    gateway: &UnixStream,
    mut meter: Option<Meter>,
) -> io::Result<Ended> {
    let mut lifeline = Some(gateway);
    let mut out_of_memory = false;
    let patience = match &meter {
        Some(_) => PollTimeout::try_from(memory::INTERVAL).map_err(io::Error::other)?,
        None => PollTimeout::NONE,
    };
    loop {
        let mut wanted = vec![PollFd::new(deaths.0.as_fd(), PollFlags::POLLIN)];
        wanted.extend(lifeline.map(|gateway| PollFd::new(gateway.as_fd(), PollFlags::POLLIN)));
        match poll(&mut wanted, patience) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        deaths.forget()?;
        if let Some(ended) = reap(child)? {
            return Ok(Ended { out_of_memory, ..ended });
        }
        if !out_of_memory && meter.as_mut().is_some_and(Meter::is_above) {
            child.kill()?;
            out_of_memory = true;
        }
        let spoken = wanted.get(1).is_some_and(|gateway| gateway.any().unwrap_or(true));
        if let (true, Some(mut stream)) = (spoken, lifeline) {
            let mut byte = [0];
            match stream.read(&mut byte) {
                Ok(1) if byte == [TERMINATE] => kill(pid_of(child)?, Signal::SIGTERM)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => {
                    child.kill()?;
                    lifeline = None;
                }
            }
        }
    }
}

/// Reaps whoever is dead; the command's end, if it is among them.
///
/// The command is looked at before it is reaped, so that the standard library's handle learns of its end too and
/// never signals a process id that is somebody else's by now.
fn reap(child: &mut Child) -> io::Result<Option<Ended>> {
    let command = pid_of(child)?;
    loop {
        match waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG) {
            Ok(WaitStatus::StillAlive) => return Ok(None),
            Ok(status) if status.pid() == Some(command) => {
                return child.wait().map(|status| Some(ended(status)));
            }
            Ok(status) => {
                waitpid(status.pid(), Some(WaitPidFlag::WNOHANG))?;
            }
            Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn ended(status: ExitStatus) -> Ended {
    Ended { code: status.code(), signal: status.signal(), out_of_memory: false }
}

fn pid_of(child: &Child) -> io::Result<Pid> {
    i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)
}
