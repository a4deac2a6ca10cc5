//! Events: what the cluster's parts tell about an object.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::node::NODE_NAME;
use super::store::{Kind, Store};

/// How many events are kept. A real cluster keeps them for an hour.
const KEPT: usize = 1000;

/// Which part of the cluster speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `default-scheduler`.
    Scheduler,
    /// `kubelet`.
    Kubelet,
    /// `job-controller`.
    JobController,
}

/// What is told.
#[derive(Debug, Clone, Copy)]
pub struct Note<'a> {
    /// Who speaks.
    pub source: Source,
    /// Whether it is a `Warning`.
    pub warning: bool,
    /// `Scheduled`, `BackOff`, ...
    pub reason: &'a str,
    /// One sentence.
    pub message: &'a str,
    /// The container it is about, as `spec.containers{name}`.
    pub field_path: Option<&'a str>,
}

/// Records an event about `object`. The same words again only raise the event's count.
pub fn record<K: Kind>(store: &Store, object: &K, note: Note<'_>) {
    let meta = object.metadata();
    let (Some(namespace), Some(name), Some(uid)) = (&meta.namespace, &meta.name, &meta.uid) else {
        return;
    };
    let now = Time(Timestamp::now());
    let (events, _) = store.events.list(Some(namespace));
    let same = events.iter().find(|event| {
        event.involved_object.uid.as_ref() == Some(uid)
            && event.reason.as_deref() == Some(note.reason)
            && event.message.as_deref() == Some(note.message)
            && event.involved_object.field_path.as_deref() == note.field_path
    });
    if let Some(known) = same.map(|event| &event.metadata) {
        let (name, uid) =
            (known.name.as_deref().unwrap_or_default(), known.uid.as_deref().unwrap_or_default());
        store.events.update(namespace, name, uid, |event| {
            event.count = Some(event.count.unwrap_or(1).saturating_add(1));
            event.last_timestamp = Some(now.clone());
            true
        });
        return;
    }
    let component = match note.source {
        Source::Scheduler => "default-scheduler",
        Source::Kubelet => "kubelet",
        Source::JobController => "job-controller",
    };
    let mut event = Event {
        metadata: ObjectMeta { namespace: Some(namespace.clone()), name: None, ..ObjectMeta::default() },
        involved_object: ObjectReference {
            api_version: Some(K::API_VERSION.to_owned()),
            kind: Some(K::KIND.to_owned()),
            namespace: Some(namespace.clone()),
            name: Some(name.clone()),
            uid: Some(uid.clone()),
            resource_version: meta.resource_version.clone(),
            field_path: note.field_path.map(str::to_owned),
        },
        reason: Some(note.reason.to_owned()),
        message: Some(note.message.to_owned()),
        type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
        source: Some(EventSource {
            component: Some(component.to_owned()),
            host: (note.source == Source::Kubelet).then(|| NODE_NAME.to_owned()),
        }),
        reporting_component: Some(component.to_owned()),
        reporting_instance: Some(String::new()),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Event::default()
    };
    // Named by the time, so that events of one second stay in order; the next free one is taken.
    let nanoseconds = Timestamp::now().as_nanosecond();
    for number in nanoseconds..nanoseconds.saturating_add(100) {
        event.metadata.name = Some(format!("{name}.{number:x}"));
        if store.events.create(event.clone()).is_ok() {
            break;
        }
    }
    forget_old(store);
}

/// Drops the oldest events over the limit.
fn forget_old(store: &Store) {
    let (events, _) = store.events.list(None);
    if events.len() <= KEPT {
        return;
    }
    let version =
        |event: &Event| event.metadata.resource_version.as_ref().and_then(|v| v.parse::<u64>().ok());
    let Some(oldest) = events.iter().min_by_key(|event| version(event)) else {
        return;
    };
    let meta = &oldest.metadata;
    if let (Some(namespace), Some(name), Some(uid)) = (&meta.namespace, &meta.name, &meta.uid) {
        store.events.remove(namespace, name, uid);
    }
}
