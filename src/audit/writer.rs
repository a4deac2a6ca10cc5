//! The thread that owns the log. Everybody else sends it records and waits for its answer.
//!
//! A thread and not a task: a disk that does not answer blocks it and nothing else. The queue has no bound of
//! its own; each record in it holds a slot, and there are [`SLOTS`] of them.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::audit::log::Log;
use crate::audit::{AuditError, OpenRecord};

/// How many calls may be recorded or open at once. An open call keeps its slot until its outcome is written,
/// so that an outcome never waits for a place, and the queue of a disk that hangs stays within 1024 lines of
/// 64 KiB.
///
/// So this is also the most jobs that run at once: the next call waits for a slot and is refused at the commit
/// deadline. That is far above what comes before it: each job is a pod with a watch of its own, and one
/// gateway's quota, connections and memory (each result may hold tens of MiB) end at hundreds.
pub(in crate::audit) const SLOTS: usize = 1024;

/// What the writer is asked to do. `members` is encoded text.
pub(in crate::audit) enum Request {
    /// Write the decision of an allowed call, and hand its record back.
    Admit { members: Vec<u8>, open: OpenRecord, reply: oneshot::Sender<Result<OpenRecord, AuditError>> },
    /// Write any other record.
    Record {
        members: Vec<u8>,
        slot: OwnedSemaphorePermit,
        reply: Option<oneshot::Sender<Result<(), AuditError>>>,
    },
    /// Write the last record and end.
    Stop { members: Vec<u8>, reply: oneshot::Sender<Result<(), AuditError>> },
}

/// Starts the thread.
pub(in crate::audit) fn spawn(log: Log) -> Result<Sender<Request>, AuditError> {
    let (sender, receiver) = channel();
    thread::Builder::new()
        .name("audit".to_owned())
        .spawn(move || run(log, &receiver))
        .map_err(|source| AuditError::Thread { source })?;
    Ok(sender)
}

/// Ends after `Stop`, or when nobody is left who could send. One commit per record; a batch would be taken
/// from the queue here.
fn run(mut log: Log, requests: &Receiver<Request>) {
    while let Ok(request) = requests.recv() {
        match request {
            Request::Admit { members, open, reply } => admit(&mut log, &members, open, reply),
            Request::Record { members, slot, reply } => {
                let written = log.commit(&members);
                drop(slot);
                match reply {
                    Some(reply) => {
                        if let Err(Err(error)) = reply.send(written) {
                            tracing::error!(
                                error = &error as &dyn std::error::Error,
                                "a call's audit record is lost"
                            );
                        }
                    }
                    None => {
                        if let Err(error) = written {
                            tracing::error!(
                                error = &error as &dyn std::error::Error,
                                "an abandoned call's audit record is lost"
                            );
                        }
                    }
                }
            }
            Request::Stop { members, reply } => {
                let written = log.commit(&members);
                // The lock is free when the caller hears of it.
                drop(log);
                // Whoever asked may be gone; there is nobody else to tell.
                let _ = reply.send(written);
                return;
            }
        }
    }
}

fn admit(
    log: &mut Log,
    members: &[u8],
    mut open: OpenRecord,
    reply: oneshot::Sender<Result<OpenRecord, AuditError>>,
) {
    // The call gave up while it waited: it was told that it is not recorded, so it is not.
    if reply.is_closed() {
        return;
    }
    let answer = log.commit(members).map(|()| {
        open.arm();
        open
    });
    // When the call gives up from here on, its record comes back in the error or is dropped with the
    // channel, and closes itself as abandoned.
    let _ = reply.send(answer);
}
