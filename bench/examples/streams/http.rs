//! hyper: an HTTP/1 server that sends back what it was sent, and a client that keeps its connection.

use std::convert::Infallible;

use anyhow::ensure;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use weft_transport::{LinkKind, StreamConfig, WeftListener, WeftStream};

/// From nothing to more than a ring and a socket buffer hold.
const LENGTHS: [usize; 5] = [0, 1, 1000, 65_536, 8 << 20];

/// Serves, asks, and returns what the requests went over.
pub(crate) async fn check(config: StreamConfig) -> anyhow::Result<LinkKind> {
    let listener = WeftListener::bind("127.0.0.1:0", config.clone()).await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service_fn(echo));
        anyhow::Ok(connection.await?)
    });

    let stream = WeftStream::connect(address, config).await?;
    let link = stream.link();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let talking = tokio::spawn(connection);
    for len in LENGTHS {
        let body = Bytes::from(vec![b'w'; len]);
        let request = Request::builder()
            .method(Method::POST)
            .uri("/echo")
            .header(hyper::header::HOST, "weft")
            .body(Full::new(body.clone()))?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        ensure!(response.status() == StatusCode::OK, "the server said {}", response.status());
        let answer = response.into_body().collect().await?.to_bytes();
        ensure!(answer == body, "{len} bytes came back as {}", answer.len());
    }
    // The client's end of the connection is the server's end of its own.
    drop(sender);
    talking.await??;
    serving.await??;
    Ok(link)
}

async fn echo(request: Request<Incoming>) -> Result<Response<Incoming>, Infallible> {
    Ok(Response::new(request.into_body()))
}
