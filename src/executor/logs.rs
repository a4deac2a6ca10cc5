//! Reads a container's log after the fact: no following, which loses the end of short logs.

use std::time::Duration;

use futures::AsyncBufReadExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use tokio::time::{Instant, sleep, timeout_at};

use crate::executor::fault::Fault;
use crate::output::{Tail, Text};

/// A container's output.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) text: Text,
    /// Why the text does not reach the end of the output, when it does not.
    pub(crate) problem: Option<String>,
}

/// How often a log that cannot be read to its end is tried.
const ATTEMPTS: u32 = 3;

/// The newest `cap` bytes of what `container` wrote. An empty log is a log: only errors are tried again.
pub(crate) async fn read(pods: &Api<Pod>, pod: &str, container: &str, cap: usize, deadline: Instant) -> Log {
    let params = LogParams { container: Some(container.to_owned()), ..LogParams::default() };
    let mut best = Tail::new(cap);
    let mut problem = Fault::no_answer();
    for attempt in 0..ATTEMPTS {
        sleep(Duration::from_millis(100) * attempt).await;
        let mut tail = Tail::new(cap);
        let read = timeout_at(deadline, pump(pods, pod, &params, &mut tail)).await;
        if tail.seen() >= best.seen() {
            best = tail;
        }
        problem = match read {
            Ok(Ok(())) => {
                return Log { text: best.finish(), problem: None };
            }
            Ok(Err(problem)) => problem,
            Err(_) => Fault::from("no end within the time for it"),
        };
        if Instant::now() >= deadline {
            break;
        }
    }
    Log { text: best.finish(), problem: Some(format!("the output could not be read to its end: {problem}")) }
}

async fn pump(pods: &Api<Pod>, pod: &str, params: &LogParams, tail: &mut Tail) -> Result<(), Fault> {
    let log = pods.log_stream(pod, params).await.map_err(|error| Fault::of(&error))?;
    let mut log = std::pin::pin!(log);
    loop {
        let chunk = log.fill_buf().await.map_err(|error| Fault::of_connection(&error))?;
        let length = chunk.len();
        if length == 0 {
            return Ok(());
        }
        tail.push(chunk);
        log.as_mut().consume_unpin(length);
    }
}
