//! What becomes of one Job's pod: a watch, and a list behind it in case the watch misses something.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, ObjectList};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher;
use tokio::time::{Instant, sleep_until, timeout};

use crate::executor::api::ApiError;
use crate::executor::fault::Fault;

/// The pauses between lists: short at first, because most jobs are short.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(5)];

/// How long one list may take.
const LIST_DEADLINE: Duration = Duration::from_secs(5);

/// How long an API server may be away before the job is given up: longer than a control plane's upgrade of
/// one instance, shorter than a caller's patience.
const OUTAGE: Duration = Duration::from_secs(30);

/// One piece of news.
#[derive(Debug)]
pub(crate) enum News {
    /// The pod as it is now.
    Pod(Box<Pod>),
    /// The Job has no pod yet.
    NoPod,
    /// The pod is gone; its last known state.
    Gone(Box<Pod>),
    /// The API server does not tell.
    Unreachable(String),
}

/// The stream of news about the one pod that belongs to a Job. Dropping a pending [`PodFeed::next`] loses nothing.
pub(crate) struct PodFeed {
    pods: Api<Pod>,
    selector: String,
    job_uid: String,
    watch: BoxStream<'static, watcher::Result<watcher::Event<Pod>>>,
    list: Option<(Instant, BoxFuture<'static, Listing>)>,
    next_list: Instant,
    lists: usize,
    /// The pod as last seen, and when.
    last: Option<(Box<Pod>, Instant)>,
    /// Whether the pod was among the objects of the watch's current initial list.
    in_initial_list: bool,
    /// When that list was asked for.
    initial_list: Instant,
    failing_since: Option<Instant>,
}

type Listing = Result<ObjectList<Pod>, ApiError>;

impl PodFeed {
    /// News about the pods with the label selector `selector` that the Job with UID `job_uid` owns.
    pub(crate) fn new(pods: Api<Pod>, selector: String, job_uid: String) -> Self {
        Self {
            watch: watch(&pods, &selector),
            pods,
            selector,
            job_uid,
            list: None,
            next_list: Instant::now(),
            lists: 0,
            last: None,
            in_initial_list: false,
            initial_list: Instant::now(),
            failing_since: None,
        }
    }

    /// Waits for the next piece of news.
    pub(crate) async fn next(&mut self) -> News {
        loop {
            let news = tokio::select! {
                event = self.watch.next() => self.watched(event),
                (asked, listing) = Self::listing(&mut self.list, self.next_list, &self.pods, &self.selector) => {
                    self.list = None;
                    self.listed(asked, listing)
                }
            };
            if let Some(news) = news {
                return news;
            }
        }
    }

    async fn listing(
        list: &mut Option<(Instant, BoxFuture<'static, Listing>)>,
        due: Instant,
        pods: &Api<Pod>,
        selector: &str,
    ) -> (Instant, Listing) {
        if list.is_none() {
            sleep_until(due).await;
        }
        let (asked, future) = list.get_or_insert_with(|| {
            let (pods, params) = (pods.clone(), ListParams::default().labels(selector));
            let future = async move {
                match timeout(LIST_DEADLINE, pods.list(&params)).await {
                    Ok(result) => result.map_err(|error| ApiError::of("list pods", error)),
                    Err(_) => Err(ApiError::Unavailable { what: "list pods", cause: Fault::no_answer() }),
                }
            };
            (Instant::now(), future.boxed())
        });
        (*asked, future.await)
    }

    fn watched(&mut self, event: Option<watcher::Result<watcher::Event<Pod>>>) -> Option<News> {
        match event {
            Some(Ok(event)) => {
                self.failing_since = None;
                match event {
                    watcher::Event::Apply(pod) => self.seen(pod),
                    watcher::Event::InitApply(pod) => {
                        self.in_initial_list |= self.is_ours(&pod);
                        self.seen(pod)
                    }
                    watcher::Event::Delete(pod) => self.is_ours(&pod).then(|| News::Gone(Box::new(pod))),
                    watcher::Event::Init => {
                        self.in_initial_list = false;
                        self.initial_list = Instant::now();
                        None
                    }
                    watcher::Event::InitDone if self.in_initial_list => None,
                    // A pod that the other list has shown meanwhile may have been made after this one was.
                    watcher::Event::InitDone => self
                        .last
                        .take_if(|(_, seen)| *seen < self.initial_list)
                        .map(|(pod, _)| News::Gone(pod)),
                }
            }
            // kube's watcher keeps the resource version that the server no longer has and asks with it for ever.
            Some(Err(watcher::Error::WatchStartFailed(kube::Error::Api(status)))) if status.code == 410 => {
                self.watch = watch(&self.pods, &self.selector);
                None
            }
            // The watcher tries again by itself; whether the server is away is the list's to say.
            Some(Err(error)) => {
                tracing::debug!(error = %Fault::of_watch(&error), "watch of pods interrupted");
                None
            }
            None => {
                self.watch = watch(&self.pods, &self.selector);
                None
            }
        }
    }

    fn listed(&mut self, asked: Instant, listing: Listing) -> Option<News> {
        let pause = PAUSES.get(self.lists).or(PAUSES.last());
        self.next_list = Instant::now() + pause.copied().unwrap_or(LIST_DEADLINE);
        self.lists += 1;
        let pods = match listing {
            Ok(pods) => pods,
            Err(error) => {
                let since = *self.failing_since.get_or_insert_with(Instant::now);
                // Rights do not come back by waiting.
                let refused = matches!(error.code(), Some(401 | 403));
                return (refused || since.elapsed() >= OUTAGE).then(|| News::Unreachable(error.to_string()));
            }
        };
        self.failing_since = None;
        // What the watch told since the question is newer than this answer.
        if self.last.as_ref().is_some_and(|(_, seen)| *seen >= asked) {
            return None;
        }
        match pods.items.into_iter().find(|pod| self.is_ours(pod)) {
            Some(pod) => self.seen(pod),
            None => Some(match self.last.take() {
                Some((pod, _)) => News::Gone(pod),
                None => News::NoPod,
            }),
        }
    }

    fn seen(&mut self, pod: Pod) -> Option<News> {
        if !self.is_ours(&pod) {
            return None;
        }
        let pod = Box::new(pod);
        self.last = Some((pod.clone(), Instant::now()));
        Some(News::Pod(pod))
    }

    /// A label can be put on any pod; the owner is written by the Job controller.
    fn is_ours(&self, pod: &Pod) -> bool {
        pod.metadata.owner_references.iter().flatten().any(|owner| owner.uid == self.job_uid)
    }
}

fn watch(pods: &Api<Pod>, selector: &str) -> BoxStream<'static, watcher::Result<watcher::Event<Pod>>> {
    watcher::watcher(pods.clone(), watcher::Config::default().labels(selector)).default_backoff().boxed()
}
#[cfg(test)]
mod tests {
    use kube::{Client, Config};
    use serde_json::json;

    use super::*;

    fn pod() -> Pod {
        let owner = json!({ "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u" });
        serde_json::from_value(json!({ "metadata": { "name": "p", "ownerReferences": [owner] } })).unwrap()
    }

    /// A watch's initial list may have been taken before the pod was made that the other list shows already.
    #[tokio::test]
    async fn an_older_list_does_not_make_a_pod_disappear() {
        let client = Client::try_from(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let feed = || PodFeed::new(Api::namespaced(client.clone(), "n"), "a=b".to_owned(), "u".to_owned());

        let mut feed_of_new = feed();
        assert!(feed_of_new.watched(Some(Ok(watcher::Event::Init))).is_none());
        assert!(matches!(feed_of_new.seen(pod()), Some(News::Pod(_))));
        assert!(feed_of_new.watched(Some(Ok(watcher::Event::InitDone))).is_none());

        let mut feed_of_gone = feed();
        assert!(matches!(feed_of_gone.seen(pod()), Some(News::Pod(_))));
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(feed_of_gone.watched(Some(Ok(watcher::Event::Init))).is_none());
        assert!(matches!(feed_of_gone.watched(Some(Ok(watcher::Event::InitDone))), Some(News::Gone(_))));
    }
}
