//! One kind's objects with their recent changes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::sync::watch;
use uuid::Uuid;

use super::Kind;

/// How many changes a collection remembers for late watches. A real API server keeps about five minutes.
const HISTORY: usize = 4096;

/// Objects by namespace and name.
type Objects<K> = BTreeMap<(String, String), Arc<K>>;

/// One kind's objects. Cheap reads: objects are shared, never copied out.
#[derive(Debug)]
pub struct Collection<K> {
    version: Arc<AtomicU64>,
    inner: Mutex<Inner<K>>,
    changed: watch::Sender<u64>,
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was created.
    Added,
    /// It was written.
    Modified,
    /// It was removed; the object is its last state.
    Deleted,
}

/// One change, as watches see it.
#[derive(Debug)]
pub struct Change<K> {
    /// The change's `resourceVersion`.
    pub version: u64,
    /// What happened.
    pub kind: ChangeKind,
    /// The object after the change.
    pub object: Arc<K>,
    /// The object before it, when it was there: a watch with a selector sees an object leave.
    pub previous: Option<Arc<K>>,
}

impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        Self {
            version: self.version,
            kind: self.kind,
            object: Arc::clone(&self.object),
            previous: self.previous.clone(),
        }
    }
}

/// An object of that name is there already.
#[derive(Debug)]
pub struct AlreadyExists;

/// Changes after the wanted version are no longer remembered.
#[derive(Debug)]
pub struct TooOld {
    /// The oldest version from which a watch can start.
    pub oldest: u64,
}

#[derive(Debug)]
struct Inner<K> {
    objects: Objects<K>,
    history: VecDeque<Change<K>>,
    /// Version of the newest change that was dropped from the history.
    forgotten: u64,
}

impl<K: Kind> Collection<K> {
    pub(super) fn new(version: &Arc<AtomicU64>) -> Self {
        let inner = Inner { objects: BTreeMap::new(), history: VecDeque::new(), forgotten: 0 };
        Self { version: Arc::clone(version), inner: Mutex::new(inner), changed: watch::Sender::new(0) }
    }

    /// Adds an object, and fills in its `uid` where it has none, `creationTimestamp` and `resourceVersion`.
    ///
    /// # Errors
    /// When the name is taken.
    pub fn create(&self, mut object: K) -> Result<Arc<K>, AlreadyExists> {
        let mut inner = self.lock();
        let meta = object.metadata_mut();
        let key = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        if inner.objects.contains_key(&key) {
            return Err(AlreadyExists);
        }
        meta.uid.get_or_insert_with(|| Uuid::new_v4().to_string());
        meta.creation_timestamp = Some(Time(Timestamp::now()));
        Ok(self.put(&mut inner, key, object, None))
    }

    /// The object of that name.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.lock().objects.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// All objects, of one namespace or of all, and the version at which this is the truth.
    #[must_use]
    pub fn list(&self, namespace: Option<&str>) -> (Vec<Arc<K>>, u64) {
        let inner = self.lock();
        let wanted = |key: &(String, String)| namespace.is_none_or(|ns| key.0 == ns);
        let items = inner.objects.iter().filter(|(key, _)| wanted(key)).map(|(_, o)| Arc::clone(o)).collect();
        (items, self.version.load(Ordering::SeqCst))
    }

    /// Changes the object with that UID; `change` says by `true` that it did. Returns the object as it now is,
    /// or `None` when it is gone or is another one of the same name.
    pub fn update(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        change: impl FnOnce(&mut K) -> bool,
    ) -> Option<Arc<K>> {
        let mut inner = self.lock();
        let key = (namespace.to_owned(), name.to_owned());
        let before = inner.objects.get(&key).filter(|o| o.metadata().uid.as_deref() == Some(uid)).cloned()?;
        let mut object = K::clone(&before);
        if !change(&mut object) {
            return Some(before);
        }
        Some(self.put(&mut inner, key, object, Some(before)))
    }

    /// Removes the object with that UID and returns its last state.
    pub fn remove(&self, namespace: &str, name: &str, uid: &str) -> Option<Arc<K>> {
        let mut inner = self.lock();
        let key = (namespace.to_owned(), name.to_owned());
        let before = inner.objects.get(&key).filter(|o| o.metadata().uid.as_deref() == Some(uid)).cloned()?;
        inner.objects.remove(&key);
        let mut last = K::clone(&before);
        let version = self.next(&mut last);
        let last = Arc::new(last);
        let change =
            Change { version, kind: ChangeKind::Deleted, object: Arc::clone(&last), previous: Some(before) };
        self.remember(&mut inner, change);
        Some(last)
    }

    /// The changes after `version`, oldest first.
    ///
    /// # Errors
    /// When some of them are no longer known.
    pub fn since(&self, version: u64) -> Result<Vec<Change<K>>, TooOld> {
        let inner = self.lock();
        if version < inner.forgotten {
            return Err(TooOld { oldest: inner.forgotten });
        }
        Ok(inner.history.iter().rev().take_while(|c| c.version > version).cloned().collect::<Vec<_>>()).map(
            |mut changes| {
                changes.reverse();
                changes
            },
        )
    }

    /// The newest version of the whole store.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// Wakes whenever the collection has changed.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn put(
        &self,
        inner: &mut Inner<K>,
        key: (String, String),
        mut object: K,
        previous: Option<Arc<K>>,
    ) -> Arc<K> {
        let version = self.next(&mut object);
        let object = Arc::new(object);
        inner.objects.insert(key, Arc::clone(&object));
        let kind = if previous.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        self.remember(inner, Change { version, kind, object: Arc::clone(&object), previous });
        object
    }

    fn next(&self, object: &mut K) -> u64 {
        let version = self.version.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        object.metadata_mut().resource_version = Some(version.to_string());
        version
    }

    fn remember(&self, inner: &mut Inner<K>, change: Change<K>) {
        let version = change.version;
        inner.history.push_back(change);
        if inner.history.len() > HISTORY
            && let Some(dropped) = inner.history.pop_front()
        {
            inner.forgotten = dropped.version;
        }
        self.changed.send_replace(version);
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        // A panic elsewhere leaves the maps whole: every change is one insert or remove.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Event, Pod};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;
    use crate::embedded::store::Store;

    fn named(name: &str) -> ObjectMeta {
        ObjectMeta { name: Some(name.to_owned()), namespace: Some("ns".to_owned()), ..ObjectMeta::default() }
    }

    fn pod(name: &str) -> Pod {
        Pod { metadata: named(name), ..Pod::default() }
    }

    /// API conventions: a version of any kind is newer than every version seen before.
    #[test]
    fn versions_rise_over_all_kinds() {
        let store = Store::new();
        let first = store.pods.create(pod("a")).unwrap();
        let event = Event { metadata: named("e"), ..Event::default() };
        let second = store.events.create(event).unwrap();
        let uid = first.metadata.uid.clone().unwrap();
        let third = store.pods.update("ns", "a", &uid, |_| true).unwrap();
        let fourth = store.pods.remove("ns", "a", &uid).unwrap();
        let versions = [
            first.metadata.resource_version.clone(),
            second.metadata.resource_version.clone(),
            third.metadata.resource_version.clone(),
            fourth.metadata.resource_version.clone(),
        ];
        assert_eq!(versions.map(Option::unwrap), ["1", "2", "3", "4"]);
        let kinds: Vec<ChangeKind> = store.pods.since(0).unwrap().iter().map(|c| c.kind).collect();
        assert_eq!(kinds, [ChangeKind::Added, ChangeKind::Modified, ChangeKind::Deleted]);
    }

    #[test]
    fn another_object_of_the_same_name_is_left_alone() {
        let store = Store::new();
        let old = store.pods.create(pod("a")).unwrap().metadata.uid.clone().unwrap();
        assert!(store.pods.create(pod("a")).is_err());
        store.pods.remove("ns", "a", &old).unwrap();
        store.pods.create(pod("a")).unwrap();
        assert!(store.pods.update("ns", "a", &old, |_| true).is_none());
        assert!(store.pods.remove("ns", "a", &old).is_none());
        assert!(store.pods.get("ns", "a").is_some());
    }

    #[test]
    fn what_is_forgotten_is_said_to_be() {
        let store = Store::new();
        let uid = store.pods.create(pod("a")).unwrap().metadata.uid.clone().unwrap();
        for _ in 0..HISTORY {
            store.pods.update("ns", "a", &uid, |_| true).unwrap();
        }
        assert_eq!(store.pods.since(0).unwrap_err().oldest, 1);
        assert_eq!(store.pods.since(1).unwrap().len(), HISTORY);
    }
}
