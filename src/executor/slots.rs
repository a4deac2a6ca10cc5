//! How many jobs may exist at once, and who comes next when a place is free.
//!
//! Every call enters a line of its caller's and leaves it with a place, or without one when its patience is over.
//! Free places go round: one to each caller that waits, in turn; within a caller the first to come is the first
//! served. So a caller with a hundred calls delays another's only call by one job, not by a hundred.
//!
//! A place is a value. Whoever holds it may have a pod; dropping it gives the place to the next in turn.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Calls of one caller that may wait, for each place there is. More would wait longer than a caller does.
const WAITING_PER_SLOT: usize = 8;

/// How many callers may have that many calls waiting before no more may come: a bound for memory.
const FULL_LINES: usize = 8;

/// When a call that was turned away may try again.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// The places for jobs of one gateway. Clones share them.
#[derive(Debug, Clone)]
pub struct JobSlots {
    shared: Arc<Shared>,
}

/// A call's place in its caller's line, and later its place for a job. Dropping it gives up either.
#[derive(Debug)]
pub struct Ticket {
    shared: Arc<Shared>,
    caller: Arc<str>,
    id: u64,
    /// Fires when the place is this ticket's.
    granted: oneshot::Receiver<()>,
}

/// The right to have one job. It goes back when this is dropped.
#[derive(Debug)]
pub struct JobSlot {
    _ticket: Ticket,
}

/// Why a call got no place. Nothing of it ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    why: Why,
    at_once: usize,
    own: Option<usize>,
    waiting: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The caller's line, or all of them together, are as long as they may be.
    Full,
    /// No place came free within this time.
    Patience(Duration),
    /// The call was cancelled while it waited.
    Cancelled,
}

#[derive(Debug)]
struct Shared {
    at_once: usize,
    patience: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Places that are taken.
    used: usize,
    /// Tickets that wait, of all callers.
    waiting: usize,
    next_id: u64,
    /// Callers with a place or a waiting ticket.
    lines: HashMap<Arc<str>, Line>,
    /// Callers with waiting tickets, the next to be served first.
    turn: VecDeque<Arc<str>>,
}

#[derive(Debug, Default)]
struct Line {
    used: usize,
    /// The most places that the caller may have, as of its last call.
    most: Option<usize>,
    waiting: VecDeque<(u64, oneshot::Sender<()>)>,
}

impl JobSlots {
    /// `at_once` places, at least one. A call waits for one at most `patience`.
    #[must_use]
    pub fn new(at_once: usize, patience: Duration) -> Self {
        let state = Mutex::default();
        Self { shared: Arc::new(Shared { at_once: at_once.max(1), patience, state }) }
    }

    /// Joins the line of `caller`, who may have `most` places at once (at least one; `None`: as many as there are).
    /// Does not wait.
    ///
    /// # Errors
    /// [`Busy`] when the line is as long as it may be.
    pub fn enter(&self, caller: &str, most: Option<usize>) -> Result<Ticket, Busy> {
        let shared = &self.shared;
        let mut state = shared.lock();
        let own = most.map(|most| most.max(1));
        let line = state.lines.entry(Arc::from(caller)).or_default();
        line.most = own;
        let must_wait = line.is_full() || !line.waiting.is_empty();
        let longest = shared.at_once.saturating_mul(WAITING_PER_SLOT);
        let too_long = line.waiting.len() >= longest;
        let must_wait = must_wait || state.used >= shared.at_once;
        if must_wait && (too_long || state.waiting >= longest.saturating_mul(FULL_LINES)) {
            let busy = shared.busy(Why::Full, own, state.waiting);
            state.forget(caller);
            return Err(busy);
        }
        let (grant, granted) = oneshot::channel();
        let id = state.next_id;
        state.next_id += 1;
        let caller: Arc<str> = Arc::from(caller);
        state.join(&caller, id, grant);
        state.serve(shared.at_once);
        drop(state);
        Ok(Ticket { shared: Arc::clone(shared), caller, id, granted })
    }

    /// A place for a job of `caller` that exists already, beyond the number if it must be: others wait for it all the
    /// same.
    #[must_use]
    pub fn take(&self, caller: &str) -> JobSlot {
        let shared = &self.shared;
        let mut state = shared.lock();
        let caller: Arc<str> = Arc::from(caller);
        state.lines.entry(Arc::clone(&caller)).or_default().used += 1;
        state.used += 1;
        let id = state.next_id;
        state.next_id += 1;
        drop(state);
        let (_, granted) = oneshot::channel();
        JobSlot { _ticket: Ticket { shared: Arc::clone(shared), caller, id, granted } }
    }
}

impl Ticket {
    /// Whether the place is still to come.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.granted.is_empty()
    }

    /// Waits for the place.
    ///
    /// # Errors
    /// [`Busy`] when none came free in time, or `cancel` fired. The ticket has left the line then.
    pub async fn slot(mut self, cancel: &CancellationToken) -> Result<JobSlot, Busy> {
        let why = tokio::select! {
            biased;
            () = cancel.cancelled() => Why::Cancelled,
            granted = &mut self.granted => match granted {
                Ok(()) => return Ok(JobSlot { _ticket: self }),
                Err(_) => Why::Full,
            },
            () = sleep(self.shared.patience) => Why::Patience(self.shared.patience),
        };
        let state = self.shared.lock();
        let own = state.lines.get(&self.caller).and_then(|line| line.most);
        // Not counting this one.
        let busy = self.shared.busy(why, own, state.waiting.saturating_sub(1));
        drop(state);
        Err(busy)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.leave(&self.caller, self.id);
        state.serve(self.shared.at_once);
        state.forget(&self.caller);
    }
}

impl Busy {
    /// The machine-readable cause: `limits.busy`, or `limits.cancelled`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self.why {
            Why::Full | Why::Patience(_) => "limits.busy",
            Why::Cancelled => "limits.cancelled",
        }
    }

    /// What to do about it; empty when nothing is to be done.
    #[must_use]
    pub fn hint(&self) -> String {
        match self.why {
            Why::Full | Why::Patience(_) => {
                format!("nothing ran; make the same call again in about {} s", RETRY_AFTER.as_secs())
            }
            Why::Cancelled => String::new(),
        }
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            Why::Full => f.write_str("too many calls wait for a place for a job already: ")?,
            Why::Patience(within) => {
                write!(f, "no place for a job came free within {} s: ", within.as_secs())?;
            }
            Why::Cancelled => return f.write_str("the call was cancelled while it waited for a place"),
        }
        write!(f, "at most {} exist at once", self.at_once)?;
        if let Some(own) = self.own.filter(|own| *own < self.at_once) {
            write!(f, ", {own} of them for this caller")?;
        }
        write!(f, ", and {} calls wait", self.waiting)
    }
}

impl Shared {
    /// Whoever panicked under the lock left the counts whole: nothing in between can fail.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn busy(&self, why: Why, own: Option<usize>, waiting: usize) -> Busy {
        Busy { why, at_once: self.at_once, own, waiting }
    }
}

impl State {
    fn join(&mut self, caller: &Arc<str>, id: u64, grant: oneshot::Sender<()>) {
        let line = self.lines.entry(Arc::clone(caller)).or_default();
        if line.waiting.is_empty() {
            self.turn.push_back(Arc::clone(caller));
        }
        line.waiting.push_back((id, grant));
        self.waiting += 1;
    }

    /// Gives free places to those who are next.
    fn serve(&mut self, at_once: usize) {
        while self.used < at_once {
            let may = |caller: &Arc<str>| self.lines.get(caller).is_some_and(|line| !line.is_full());
            let Some(caller) = self.turn.iter().position(may).and_then(|next| self.turn.remove(next)) else {
                return;
            };
            let Some(line) = self.lines.get_mut(&caller) else { return };
            let Some((_, grant)) = line.waiting.pop_front() else { return };
            line.used += 1;
            self.used += 1;
            self.waiting -= 1;
            if !line.waiting.is_empty() {
                self.turn.push_back(caller);
            }
            // The receiver is the ticket's, which cannot go without this lock.
            let _ = grant.send(());
        }
    }

    fn leave(&mut self, caller: &Arc<str>, id: u64) {
        let Some(line) = self.lines.get_mut(caller) else { return };
        match line.waiting.iter().position(|(waiting, _)| *waiting == id) {
            Some(place) => {
                line.waiting.remove(place);
                self.waiting -= 1;
                if line.waiting.is_empty() {
                    self.turn.retain(|other| other != caller);
                }
            }
            None => {
                line.used -= 1;
                self.used -= 1;
            }
        }
    }

    /// A caller with nothing here is not remembered.
    fn forget(&mut self, caller: &str) {
        if self.lines.get(caller).is_some_and(|line| line.used == 0 && line.waiting.is_empty()) {
            self.lines.remove(caller);
        }
    }
}

impl Line {
    fn is_full(&self) -> bool {
        self.most.is_some_and(|most| self.used >= most)
    }
}

#[cfg(test)]
mod tests;
