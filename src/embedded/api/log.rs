//! `pods/log`: a container's output.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::stream;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde::Deserialize;
use tokio::sync::watch;

use super::objects::find;
use super::request::is_true;
use super::status::ApiError;
use crate::embedded::cluster::Cluster;
use crate::embedded::kubelet::log::Log;

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// The parameters of `pods/log`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LogOptions {
    container: Option<String>,
    follow: Option<String>,
    previous: Option<String>,
    timestamps: Option<String>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    since_seconds: Option<i64>,
    since_time: Option<String>,
}

/// Sends a container's output.
pub async fn log(
    State(cluster): State<Arc<Cluster>>,
    Path((namespace, name)): Path<(String, String)>,
    Query(options): Query<LogOptions>,
) -> Result<Response, ApiError> {
    let pod = find::<Pod>(&cluster, &namespace, &name)?;
    let container = pick_container(&pod, options.container.as_deref())?;
    if options.tail_lines.is_some_and(|n| n < 0) {
        return Err(ApiError::bad_request("tailLines must be greater than or equal to 0"));
    }
    if options.limit_bytes.is_some_and(|n| n < 1) {
        return Err(ApiError::bad_request("limitBytes must be greater than 0"));
    }
    if pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
        // No node, no output: the API server answers with nothing.
        return Ok(text(Body::empty()));
    }
    if is_true(options.previous.as_deref()) {
        let message = format!("previous terminated container {container:?} in pod {name:?} not found");
        return Err(ApiError::bad_request(message));
    }
    check_started(&pod, &container)?;
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let log = cluster.kubelet.log(uid, &container).ok_or_else(|| ApiError::internal("the log is gone"))?;
    let position = start(&log, &options)?;
    let reader = Reader {
        grown: log.subscribe(),
        follow: is_true(options.follow.as_deref()),
        timestamps: is_true(options.timestamps.as_deref()),
        left: options.limit_bytes.and_then(|n| usize::try_from(n).ok()),
        end: log.range().1,
        line_start: true,
        position,
        log,
        cluster,
    };
    let chunks = stream::unfold(reader, |mut reader| async move {
        let bytes = reader.next().await?;
        Some((Ok::<_, Infallible>(bytes), reader))
    });
    Ok(text(Body::from_stream(chunks)))
}

/// The container that a request means: the only one, where it names none.
///
/// # Errors
/// 400 when it names none of several, or one that the pod does not have.
pub fn pick_container(pod: &Pod, wanted: Option<&str>) -> Result<String, ApiError> {
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let spec = pod.spec.clone().unwrap_or_default();
    let main: Vec<&str> = spec.containers.iter().map(|c| c.name.as_str()).collect();
    let init: Vec<&str> = spec.init_containers.iter().flatten().map(|c| c.name.as_str()).collect();
    match (wanted.filter(|name| !name.is_empty()), main.as_slice()) {
        (Some(name), _) if main.contains(&name) || init.contains(&name) => Ok(name.to_owned()),
        (Some(name), _) => {
            Err(ApiError::bad_request(format!("container {name} is not valid for pod {pod_name}")))
        }
        (None, [only]) if init.is_empty() => Ok((*only).to_owned()),
        (None, _) => {
            let mut message = format!(
                "a container name must be specified for pod {pod_name}, choose one of: [{}]",
                main.join(" ")
            );
            if !init.is_empty() {
                message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
            }
            Err(ApiError::bad_request(message))
        }
    }
}

fn check_started(pod: &Pod, container: &str) -> Result<(), ApiError> {
    let status = pod.status.clone().unwrap_or_default();
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let own: Option<&ContainerStatus> = all.into_iter().find(|c| c.name == container);
    let waiting = match own.map(|c| c.state.clone().unwrap_or_default()) {
        Some(state) if state.running.is_some() || state.terminated.is_some() => return Ok(()),
        Some(state) => state.waiting.and_then(|w| w.reason).unwrap_or_default(),
        None => String::new(),
    };
    let pod = pod.metadata.name.as_deref().unwrap_or_default();
    let why = match waiting.as_str() {
        "" => {
            return Err(ApiError::bad_request(format!(
                "container {container:?} in pod {pod:?} is not available"
            )));
        }
        "ErrImagePull" => "image can't be pulled",
        "ImagePullBackOff" => "trying and failing to pull image",
        other => other,
    };
    Err(ApiError::bad_request(format!("container {container:?} in pod {pod:?} is waiting to start: {why}")))
}

/// Where the wanted output starts.
fn start(log: &Log, options: &LogOptions) -> Result<u64, ApiError> {
    let unreadable = |e: std::io::Error| ApiError::internal(e.to_string());
    let mut position = match options.tail_lines.and_then(|lines| u64::try_from(lines).ok()) {
        Some(lines) => log.tail(lines).map_err(unreadable)?,
        None => log.range().0,
    };
    let since = match (&options.since_time, options.since_seconds) {
        (Some(text), _) => {
            Some(text.parse::<Timestamp>().map_err(|_| ApiError::bad_request("sinceTime is no time"))?)
        }
        (None, Some(seconds)) => Timestamp::now().checked_sub(SignedDuration::from_secs(seconds)).ok(),
        (None, None) => None,
    };
    if let Some(since) = since {
        position = position.max(log.since(since));
    }
    Ok(position)
}

fn text(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "text/plain")], body).into_response()
}

struct Reader {
    cluster: Arc<Cluster>,
    log: Arc<Log>,
    grown: watch::Receiver<u64>,
    position: u64,
    /// Where a reader that does not follow stops.
    end: u64,
    follow: bool,
    timestamps: bool,
    /// How many bytes may still be sent.
    left: Option<usize>,
    line_start: bool,
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.left == Some(0) {
                return None;
            }
            self.grown.borrow_and_update();
            let closed = self.log.is_closed();
            let (start, mut bytes) = self.log.read(self.position, CHUNK).ok()?;
            if !self.follow {
                let room = self.end.saturating_sub(start);
                bytes.truncate(usize::try_from(room).unwrap_or(usize::MAX));
            }
            if bytes.is_empty() {
                if !self.follow || closed {
                    return None;
                }
                tokio::select! {
                    changed = self.grown.changed() => changed.ok()?,
                    () = self.cluster.stop.cancelled() => return None,
                }
                continue;
            }
            self.position = start + bytes.len() as u64;
            if self.timestamps {
                bytes = self.stamp(start, &bytes);
            }
            if let Some(left) = &mut self.left {
                bytes.truncate(*left);
                *left -= bytes.len();
            }
            return Some(bytes.into());
        }
    }

    /// Puts the time before every line that starts in `bytes`.
    fn stamp(&mut self, start: u64, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() * 2);
        let mut position = start;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line_start {
                out.extend(format!("{:.9} ", self.log.time_of(position)).bytes());
            }
            out.extend(line);
            position += line.len() as u64;
            self.line_start = line.ends_with(b"\n");
        }
        out
    }
}
