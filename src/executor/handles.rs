//! The jobs in the background that this process answers for: who may ask for them, and how they ended.
//!
//! A handle is found by its key alone, which is made of the token and of the caller; so a caller who holds
//! another's token finds nothing. An end is kept for [`KEPT`] and handed out as often as wanted; a sweep, not the
//! next call, drops it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ids::HandleKey;

/// How long an end is kept after it came, as by the reference server.
pub const KEPT: Duration = Duration::from_secs(60 * 60);

/// The most jobs that are known at once, running and ended.
const MOST_HANDLES: usize = 1000;

/// The most bytes of results that are kept in memory. Nothing that was promised is dropped for room: a new job is
/// refused instead.
const MOST_BYTES: usize = 512 * 1024 * 1024;

/// How a job in the background ended, as `fetch_job` tells it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobEnd {
    /// `error` for what was cancelled or not seen to its end; `done` for every other end.
    pub status: EndStatus,
    /// The class of an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What happened and what to do, of an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The result as `run_job` gives it; absent when it is withheld or there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

impl JobEnd {
    /// Whether the command ran and exited with 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        let status = self.result.as_ref().and_then(|result| result.get("status"));
        self.status == EndStatus::Done && status.and_then(Value::as_str) == Some("succeeded")
    }
}

/// `status` of an ended job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndStatus {
    /// The command ran and ended, or its time ran out.
    Done,
    /// It was cancelled, or the cluster kept it from its end.
    Error,
}

/// There is no room for another job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "too many jobs or results are kept already; fetch them, and submit again when their 60 minutes are over"
)]
pub struct NoRoom;

/// All handles of this process. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Handles(Arc<Mutex<HashMap<HandleKey, Entry>>>);

#[derive(Debug)]
struct Entry {
    handle: Handle,
    ended: Option<(Instant, usize)>,
}

/// One job in the background, for whoever waits for it.
#[derive(Debug, Clone)]
pub struct Handle {
    end: watch::Receiver<Option<Arc<JobEnd>>>,
    cancel: CancellationToken,
}

/// The duty to tell how a job ended. Dropped without, as by a panic, it tells that.
#[derive(Debug)]
pub struct Ending {
    handles: Handles,
    key: HandleKey,
    tell: watch::Sender<Option<Arc<JobEnd>>>,
    cancel: CancellationToken,
    told: bool,
}

impl Handles {
    /// Takes note of a job before it exists.
    ///
    /// # Errors
    /// [`NoRoom`]; also for a key that is taken, which only a repeated recovery can bring about.
    pub fn begin(&self, key: &HandleKey) -> Result<Ending, NoRoom> {
        let mut all = self.lock();
        let bytes: usize = all.values().filter_map(|entry| entry.ended).map(|(_, bytes)| bytes).sum();
        if all.len() >= MOST_HANDLES || bytes >= MOST_BYTES || all.contains_key(key) {
            return Err(NoRoom);
        }
        let (tell, end) = watch::channel(None);
        let cancel = CancellationToken::new();
        all.insert(key.clone(), Entry { handle: Handle { end, cancel: cancel.clone() }, ended: None });
        Ok(Ending { handles: self.clone(), key: key.clone(), tell, cancel, told: false })
    }

    /// The job of that key, while it is known.
    #[must_use]
    pub fn find(&self, key: &HandleKey) -> Option<Handle> {
        self.find_at(key, Instant::now())
    }

    fn find_at(&self, key: &HandleKey, now: Instant) -> Option<Handle> {
        let all = self.lock();
        // Between two sweeps, too, nothing is given out past its time.
        all.get(key).filter(|entry| entry.is_kept(now)).map(|entry| entry.handle.clone())
    }

    /// Asks for the end of every job that runs.
    pub fn cancel_all(&self) {
        self.lock().values().filter(|entry| entry.ended.is_none()).for_each(|entry| entry.handle.cancel());
    }

    /// Drops what ended long enough ago.
    pub fn sweep(&self) {
        self.sweep_at(Instant::now());
    }

    fn sweep_at(&self, now: Instant) {
        self.lock().retain(|_, entry| entry.is_kept(now));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<HandleKey, Entry>> {
        // A panic elsewhere leaves the map whole: every change is one insert, write or removal.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn is_kept(&self, now: Instant) -> bool {
        self.ended.is_none_or(|(at, _)| now.saturating_duration_since(at) < KEPT)
    }
}

impl Handle {
    /// The end, if it has come.
    #[must_use]
    pub fn end(&self) -> Option<Arc<JobEnd>> {
        self.end.borrow().clone()
    }

    /// Waits for the end. `None` when somebody else follows the job now.
    pub async fn wait(&mut self) -> Option<Arc<JobEnd>> {
        self.end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone())
    }

    /// Asks for the job's end.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }
}

impl Ending {
    /// Which job, and whose.
    #[must_use]
    pub fn key(&self) -> &HandleKey {
        &self.key
    }

    /// Fires when the job's end is asked for.
    #[must_use]
    pub fn cancel(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Tells how the job ended. Only now can it be fetched.
    pub fn tell(mut self, end: JobEnd) {
        self.finish(end);
    }

    /// Forgets the job: another process follows it, or none yet.
    pub fn withdraw(mut self) {
        self.told = true;
        self.handles.lock().remove(&self.key);
    }

    fn finish(&mut self, end: JobEnd) {
        self.told = true;
        let bytes = end.result.as_ref().map_or(0, size);
        if let Some(entry) = self.handles.lock().get_mut(&self.key) {
            entry.ended = Some((Instant::now(), bytes));
        }
        self.tell.send_replace(Some(Arc::new(end)));
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if !self.told {
            let error = "the gateway failed inside this job; it was stopped and is being deleted";
            self.finish(JobEnd {
                status: EndStatus::Error,
                reason: Some("internal".to_owned()),
                error: Some(error.to_owned()),
                result: None,
            });
        }
    }
}

/// About how much memory a document takes: its texts are nearly all of it.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() + size(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ids::JobToken;

    fn end() -> JobEnd {
        JobEnd { status: EndStatus::Done, reason: None, error: None, result: Some(json!({ "exit_code": 0 })) }
    }

    #[tokio::test]
    async fn an_end_is_kept_for_its_time_and_no_longer() {
        let handles = Handles::default();
        let token = JobToken::mint();
        let key = HandleKey::new(&token, "a");
        let ending = handles.begin(&key).unwrap();
        assert!(handles.begin(&key).is_err(), "a key leads to one job");
        assert!(handles.find(&HandleKey::new(&token, "b")).is_none(), "another caller finds nothing");
        let mut waiting = handles.find(&key).unwrap();
        assert_eq!(waiting.end(), None);
        // However long it runs, a running job is known.
        handles.sweep_at(Instant::now() + KEPT * 3);
        let told = tokio::spawn(async move { waiting.wait().await });
        let before = Instant::now();
        ending.tell(end());
        assert_eq!(told.await.unwrap().as_deref(), Some(&end()));
        let late = before + KEPT - Duration::from_secs(1);
        handles.sweep_at(late);
        for _ in 0..3 {
            assert_eq!(handles.find_at(&key, late).unwrap().end().as_deref(), Some(&end()));
        }
        let over = Instant::now() + KEPT;
        assert!(handles.find_at(&key, over).is_none(), "not given out past its time, sweep or not");
        assert_eq!(handles.lock().len(), 1);
        handles.sweep_at(over);
        assert_eq!(handles.lock().len(), 0);
    }

    #[tokio::test]
    async fn a_broken_job_says_so_and_a_withdrawn_one_is_forgotten() {
        let handles = Handles::default();
        let keys = [(); 2].map(|()| HandleKey::new(&JobToken::mint(), "a"));
        drop(handles.begin(&keys[0]).unwrap());
        let broken = handles.find(&keys[0]).unwrap().wait().await.unwrap();
        assert_eq!((broken.status, broken.reason.as_deref()), (EndStatus::Error, Some("internal")));
        let ending = handles.begin(&keys[1]).unwrap();
        let mut waiting = handles.find(&keys[1]).unwrap();
        ending.withdraw();
        assert_eq!(waiting.wait().await, None);
        assert!(handles.find(&keys[1]).is_none());
    }

    #[test]
    fn there_is_an_end_to_the_room() {
        let handles = Handles::default();
        let all: Vec<_> = (0..MOST_HANDLES)
            .map(|_| handles.begin(&HandleKey::new(&JobToken::mint(), "a")).unwrap())
            .collect();
        assert!(handles.begin(&HandleKey::new(&JobToken::mint(), "a")).is_err());
        drop(all);
        assert!(handles.begin(&HandleKey::new(&JobToken::mint(), "a")).is_err(), "ends are kept, too");
    }
}
