//! The HTTP port: what operators and their tools ask a node. Never on the way of data.
//!
//! | path | answer |
//! |---|---|
//! | `/health` | 200 as long as the process runs; 503 when a log of objects or the coordinator has failed, and only a restart helps |
//! | `/ready` | 200 while the node takes data connections, 503 before and after |
//! | `/metrics` | every counter of the node in the Prometheus text format |
//!
//! One thread of its own, so that a slow scraper costs the reactors nothing. What its connections
//! can take at most is charged to the node's memory while the port is open.

mod connections;
mod metrics;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::oneshot;
use weft_transport::Charge;

use crate::monitor::Monitor;

/// The HTTP port of a node. It closes when this is dropped.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _charge: Charge,
}

impl HttpServer {
    /// Listens on `address` and answers there from now on. `charge` is what its connections may
    /// take: [`HTTP_BYTES`](crate::limits::HTTP_BYTES).
    ///
    /// # Errors
    /// What the system said when it refused the address or a thread.
    pub fn start(address: SocketAddr, monitor: Monitor, charge: Charge) -> io::Result<HttpServer> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(address))?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let serve = connections::serve(listener, routes(monitor));
        let work = async move {
            // Nothing here is worth waiting for at the end, so the runtime is dropped with whatever
            // is open.
            tokio::select! {
                () = serve => {}
                _ = stopped => {}
            }
        };
        let thread = std::thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || runtime.block_on(work))?;
        Ok(HttpServer { address, stop: Some(stop), thread: Some(thread), _charge: charge })
    }

    /// Where it listens, with the real port if it was told 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the HTTP thread panicked");
        }
    }
}

fn routes(monitor: Monitor) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(monitor))
}

async fn health(State(monitor): State<Arc<Monitor>>) -> impl IntoResponse {
    match monitor.failure() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(failure) => (StatusCode::SERVICE_UNAVAILABLE, format!("{failure}\n")),
    }
}

async fn ready(State(monitor): State<Arc<Monitor>>) -> impl IntoResponse {
    if monitor.is_serving() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not serving\n")
    }
}

async fn metrics(State(monitor): State<Arc<Monitor>>) -> impl IntoResponse {
    let content_type = (header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
    ([content_type], metrics::render(&monitor.figures()))
}
