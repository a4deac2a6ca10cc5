//! The listener: takes connections on the loopback address and serves the API on each.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::api::access;
use super::cluster::Cluster;

/// How long a client may take to send a request's head.
const HEADER_TIME: Duration = Duration::from_secs(10);

/// The pause after a connection could not be taken, as when no file descriptor is left.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves until the cluster ends.
pub async fn run(cluster: Arc<Cluster>, listener: TcpListener, router: Router) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = cluster.stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                cluster.tasks.spawn(serve(Arc::clone(&cluster), stream, router.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "the embedded cluster cannot take a connection");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn serve(cluster: Arc<Cluster>, stream: TcpStream, router: Router) {
    // Small lines of a watch must not wait for each other.
    let _ = stream.set_nodelay(true);
    let router = TowerToHyperService::new(router);
    let gate = Arc::clone(&cluster);
    let service = service_fn(move |mut request| {
        access::strip_prefix(&gate, &mut request);
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::select! {
        result = connection => {
            if let Err(error) = result {
                tracing::trace!(%error, "a connection to the embedded cluster broke");
            }
        }
        () = cluster.stop.cancelled() => {}
    }
}
