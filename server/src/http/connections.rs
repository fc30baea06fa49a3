//! Serving HTTP connections: each has one request, a limit on its head and a deadline.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::limits::{HTTP_CONNECTIONS_MAX, HTTP_HEAD_MAX, HTTP_REQUEST_TIMEOUT};
use crate::places::Places;

/// Serves whoever connects, and does not end. A connection has one request, so the oldest is the one whose request has been unfinished for longest.
pub(super) async fn serve(listener: TcpListener, routes: Router) {
    let mut places = Places::new("HTTP", HTTP_CONNECTIONS_MAX);
    loop {
        let stream = places.accept(&listener).await;
        places.give(answer_one(stream, routes.clone())).await;
    }
}

/// Reads one request head, answers it and closes. A request's body is not read.
async fn answer_one(stream: TcpStream, routes: Router) {
    let mut protocol = http1::Builder::new();
    protocol.keep_alive(false).max_buf_size(HTTP_HEAD_MAX);
    let service = TowerToHyperService::new(routes);
    let connection = protocol.serve_connection(TokioIo::new(stream), service);
    match timeout(HTTP_REQUEST_TIMEOUT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "an HTTP connection failed"),
        Err(_) => tracing::debug!("an HTTP request was not finished in time"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    async fn start() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, Router::new().route("/", get(|| async { "here\n" }))));
        address
    }

    /// What it is answered, until the node closes.
    async fn answer_to(address: SocketAddr, request: &[u8]) -> String {
        let mut peer = TcpStream::connect(address).await.unwrap();
        peer.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        peer.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn a_connection_has_one_request() {
        let address = start().await;
        let answer = answer_to(address, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("here\n"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }

    #[tokio::test]
    async fn a_head_that_is_too_long_is_refused() {
        let address = start().await;
        // Exactly what is read of it, so that the refusal is not lost to bytes that nobody reads.
        let mut request = b"GET / HTTP/1.1\r\nHost: ".to_vec();
        request.resize(HTTP_HEAD_MAX, b'a');
        let answer = answer_to(address, &request).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }

    /// The clock of this test runs ahead whenever nothing else can happen.
    #[tokio::test(start_paused = true)]
    async fn a_head_that_never_ends_times_out_however_often_a_byte_comes() {
        let mut peer = TcpStream::connect(start().await).await.unwrap();
        peer.write_all(b"GET / HTTP/1.1\r\nX: ").await.unwrap();
        let begun = Instant::now();
        let mut byte = [0];
        let closed = loop {
            let trickle = timeout(HTTP_REQUEST_TIMEOUT / 5, peer.read(&mut byte));
            match trickle.await {
                Ok(closed) => break closed,
                // Writing to it fails when it has been closed meanwhile, which reading shows too.
                Err(_) => drop(peer.write_all(b"a").await),
            }
        };
        assert!(matches!(closed, Ok(0) | Err(_)));
        assert!(begun.elapsed() >= HTTP_REQUEST_TIMEOUT);
    }
}
