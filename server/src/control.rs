//! The control port: how operators and programs see the cluster and change it. Never on the way of data.
//!
//! Every node serves the API of `protocol/proto/weft/control/v1/control.proto`, by gRPC, and has the coordinators answer what is asked: see
//! [`NodeHandler::ask`]. One thread of its own, as for the [HTTP port](crate::http), and the same rule for connections: when all places are
//! taken, the oldest is ended, and whoever still needs it connects again. What they can take at most is charged to the node's memory while
//! the port is open.
//!
//! - `service`: the calls; `proposing`: what changes something, once however often it is asked for.
//! - `joining`: what a node is admitted by; `loss`: where partitions begin anew; `table`: what tables are like, in the API's terms.
//! - `map_watch`: who is told what becomes of the map; `difference`: what has changed in it.
//! - `refusal`: why something was not done.

mod difference;
mod joining;
mod loss;
mod map_watch;
mod proposing;
pub(crate) mod refusal;
mod service;
mod table;
#[cfg(test)]
pub(crate) mod tests;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use weft_protocol::control::v1::control_server::ControlServer as Calls;
use weft_transport::{Charge, Memory, Purpose};

use crate::handler::NodeHandler;
use crate::limits::{
    CONTROL_CALLS_MAX, CONTROL_CONNECTION_BYTES, CONTROL_HEADERS_MAX, CONTROL_KEEP_ALIVE,
    CONTROL_REQUEST_MAX, CONTROL_STOP_PATIENCE, CONTROL_WINDOW_BYTES, control_connections_max,
};
use crate::places::Places;

use self::service::Service;

/// The control port of a node. It closes when this is dropped: watches end, and what else is under way has
/// [a moment](crate::limits::CONTROL_STOP_PATIENCE) to be answered.
#[derive(Debug)]
pub struct ControlServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _charge: Charge,
}

impl ControlServer {
    /// Listens on `address` and answers there from now on what is asked of `node`. What its connections may take is charged to `network`.
    ///
    /// # Errors
    /// What the system said when it refused the address or a thread; [`OutOfMemory`](io::ErrorKind::OutOfMemory) if `network` has no room.
    pub fn start(
        address: SocketAddr,
        node: Arc<NodeHandler>,
        network: &Memory,
    ) -> io::Result<ControlServer> {
        let connections_max = control_connections_max(network.account().limit_bytes);
        let bytes = connections_max as u64 * CONTROL_CONNECTION_BYTES;
        let charge = network.charge(bytes, Purpose::Session);
        let charge = charge.map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error))?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(address))?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || runtime.block_on(serve(listener, node, connections_max, stopped)))?;
        Ok(ControlServer { address, stop: Some(stop), thread: Some(thread), _charge: charge })
    }

    /// Where it listens, with the real port if it was told 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the control thread panicked");
        }
    }
}

/// Serves whoever connects until it is `stopped`.
async fn serve(
    listener: TcpListener,
    node: Arc<NodeHandler>,
    connections_max: usize,
    stopped: oneshot::Receiver<()>,
) {
    let (tell, is_stopping) = watch::channel(false);
    let calls = Calls::new(Service::new(node, is_stopping.clone()))
        .max_decoding_message_size(CONTROL_REQUEST_MAX);
    let mut places = Places::new("control", connections_max);
    let accept = async {
        loop {
            let stream = places.accept(&listener).await;
            places.give(answer(stream, calls.clone(), is_stopping.clone())).await;
        }
    };
    tokio::select! {
        () = accept => {}
        _ = stopped => {}
    }
    drop(listener);
    tell.send_replace(true);
    if timeout(CONTROL_STOP_PATIENCE, places.ended()).await.is_err() {
        tracing::debug!("calls of the control port were cut off");
    }
}

/// Answers the calls of a connection.
async fn answer(stream: TcpStream, calls: Calls<Service>, mut is_stopping: watch::Receiver<bool>) {
    // Answers are short, and somebody waits for each.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection to the control port is gone");
        return;
    }
    let mut protocol = http2::Builder::new(TokioExecutor::new());
    protocol
        .timer(TokioTimer::new())
        .max_concurrent_streams(CONTROL_CALLS_MAX)
        .max_header_list_size(CONTROL_HEADERS_MAX as u32)
        .initial_stream_window_size(CONTROL_WINDOW_BYTES)
        .initial_connection_window_size(CONTROL_WINDOW_BYTES)
        .max_send_buf_size(CONTROL_WINDOW_BYTES as usize)
        .keep_alive_interval(CONTROL_KEEP_ALIVE)
        .keep_alive_timeout(CONTROL_KEEP_ALIVE);
    let connection =
        protocol.serve_connection(TokioIo::new(stream), TowerToHyperService::new(calls));
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stopping(&mut is_stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the control port failed");
    }
}

/// Until the port is to close.
async fn stopping(is_stopping: &mut watch::Receiver<bool>) {
    // Whoever would say so is gone, otherwise.
    drop(is_stopping.wait_for(|is_stopping| *is_stopping).await);
}
