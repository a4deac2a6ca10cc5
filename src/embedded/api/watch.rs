//! Watches: a response that never ends by itself, one JSON event a line.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::objects::select;
use super::request::{Parameters, is_true};
use super::selectors::Selectors;
use super::status::ApiError;
use crate::embedded::cluster::Cluster;
use crate::embedded::store::{Change, ChangeKind, Kind};

/// How long a watch lasts when the caller names no time: the API server picks 30 to 60 minutes.
const DEFAULT_LIFE: Duration = Duration::from_secs(45 * 60);

/// How often a watch with bookmarks gets one: about a minute, as the API server's.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// Starts a watch.
///
/// # Errors
/// 400 for a wrong version or selector, 410 for a version that is too old, 504 for one from the future.
pub fn watch<K: Kind>(
    cluster: &Arc<Cluster>,
    namespace: Option<String>,
    selectors: Selectors,
    parameters: &Parameters,
) -> Result<Response, ApiError> {
    let text = parameters.resource_version.as_deref().unwrap_or_default();
    let wanted: u64 = match text {
        "" => 0,
        text => text
            .parse()
            .map_err(|_| ApiError::bad_request(format!("Invalid value: {text:?}: must be a number")))?,
    };
    let collection = K::collection(&cluster.store);
    let streaming_list = is_true(parameters.send_initial_events.as_deref());
    // Subscribed before the first look, so that no change falls between the two.
    let receiver = collection.subscribe();
    let mut lines = VecDeque::new();
    let mut version = wanted;
    let (objects, current) = select::<K>(cluster, namespace.as_deref(), &selectors)?;
    // Version 0 or none, and a streaming list, start with what is there.
    if wanted == 0 || streaming_list {
        version = current;
        lines.extend(objects.iter().map(|object| line("ADDED", &**object)));
        if streaming_list {
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            lines.push_back(bookmark::<K>(version, &annotations));
        }
    } else if wanted > current {
        return Err(ApiError::too_large_version(wanted, current));
    } else if let Err(old) = collection.since(wanted) {
        return Err(ApiError::expired(wanted, old.oldest));
    }
    let now = Instant::now();
    let life = parameters.timeout_seconds.map_or(DEFAULT_LIFE, Duration::from_secs).min(DEFAULT_LIFE * 2);
    let watcher = Watcher {
        cluster: Arc::clone(cluster),
        namespace,
        selectors,
        version,
        receiver,
        lines,
        ends: now + life,
        bookmark: is_true(parameters.allow_watch_bookmarks.as_deref()).then_some(now + BOOKMARK_EVERY),
        failed: false,
    };
    let events = stream::unfold(watcher, |mut watcher| async move {
        let bytes = watcher.next::<K>().await?;
        Some((Ok::<_, std::convert::Infallible>(bytes), watcher))
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(events)).into_response())
}

struct Watcher {
    cluster: Arc<Cluster>,
    namespace: Option<String>,
    selectors: Selectors,
    /// Everything up to this version has been sent.
    version: u64,
    receiver: tokio::sync::watch::Receiver<u64>,
    lines: VecDeque<Bytes>,
    ends: Instant,
    bookmark: Option<Instant>,
    failed: bool,
}

impl Watcher {
    /// The next lines, or `None` at the watch's end.
    async fn next<K: Kind>(&mut self) -> Option<Bytes> {
        loop {
            if !self.lines.is_empty() {
                return Some(self.lines.drain(..).collect::<Vec<_>>().concat().into());
            }
            if self.failed {
                return None;
            }
            self.receiver.borrow_and_update();
            self.collect::<K>();
            if !self.lines.is_empty() {
                continue;
            }
            let next_bookmark = self.bookmark.unwrap_or(self.ends);
            tokio::select! {
                changed = self.receiver.changed() => changed.ok()?,
                () = self.cluster.stop.cancelled() => return None,
                () = sleep_until(self.ends) => return None,
                () = sleep_until(next_bookmark), if self.bookmark.is_some() => {
                    self.bookmark = Some(Instant::now() + BOOKMARK_EVERY);
                    self.lines.push_back(bookmark::<K>(self.version, &json!({})));
                }
            }
        }
    }

    /// Takes over what happened since the last look.
    fn collect<K: Kind>(&mut self) {
        let changes = match K::collection(&self.cluster.store).since(self.version) {
            Ok(changes) => changes,
            Err(old) => return self.fail(&ApiError::expired(self.version, old.oldest)),
        };
        for change in changes {
            self.version = change.version;
            let namespace = change.object.metadata().namespace.as_deref();
            if self.namespace.is_some() && self.namespace.as_deref() != namespace {
                continue;
            }
            match self.event(&change) {
                Ok(event) => self.lines.extend(event),
                Err(error) => return self.fail(&error),
            }
        }
    }

    /// What a change means for this watch: an object that starts or stops to match comes or goes.
    fn event<K: Kind>(&self, change: &Change<K>) -> Result<Option<Bytes>, ApiError> {
        let object = &*change.object;
        let was = match &change.previous {
            Some(previous) => self.selectors.matches(&**previous)?,
            None => false,
        };
        let is = change.kind != ChangeKind::Deleted && self.selectors.matches(object)?;
        Ok(match (was, is) {
            (false, true) => Some(line("ADDED", object)),
            (true, true) => Some(line("MODIFIED", object)),
            (true, false) => Some(line("DELETED", object)),
            (false, false) => None,
        })
    }

    fn fail(&mut self, error: &ApiError) {
        self.lines.push_back(line("ERROR", &error.status()));
        self.failed = true;
    }
}

fn line<T: Serialize>(kind: &str, object: &T) -> Bytes {
    // A typed object of ours always serialises; were it not so, the client must see a broken watch.
    let mut text = serde_json::to_vec(&json!({"type": kind, "object": object})).unwrap_or_default();
    text.push(b'\n');
    text.into()
}

fn bookmark<K: Kind>(version: u64, annotations: &Value) -> Bytes {
    let metadata = json!({"resourceVersion": version.to_string(), "annotations": annotations});
    let object = json!({"kind": K::KIND, "apiVersion": K::API_VERSION, "metadata": metadata});
    line("BOOKMARK", &object)
}
