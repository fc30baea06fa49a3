//! tonic: gRPC's own health service, called, watched, and asked for what it does not know.

use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::{Context as _, ensure};
use futures_util::stream;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{mpsc, oneshot};
use tonic::Code;
use tonic::transport::server::Connected;
use tonic::transport::{Endpoint, Server};
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus as Status;
use tonic_health::pb::health_client::HealthClient;
use weft_transport::{LinkKind, StreamConfig, WeftListener, WeftStream};

/// Serves, calls, and returns what the calls went over.
pub(crate) async fn check(config: StreamConfig) -> anyhow::Result<LinkKind> {
    let listener = WeftListener::bind("127.0.0.1:0", config.clone()).await?;
    let address = listener.local_addr()?;
    let (reporter, service) = tonic_health::server::health_reporter();
    reporter.set_service_status("weft", ServingStatus::Serving).await;

    // The acceptor: a stream of connections.
    let incoming = stream::unfold(listener, async |listener| {
        let accepted = listener.accept().await.map(|(stream, _)| Accepted(stream));
        Some((accepted, listener))
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let server = Server::builder().add_service(service);
    let serving = tokio::spawn(server.serve_with_incoming_shutdown(Box::pin(incoming), async {
        // Dropping the other end stops the server, too.
        let _ = stopped.await;
    }));

    // The connector: a function of the address.
    let (linked, mut links) = mpsc::unbounded_channel();
    let channel = Endpoint::from_shared(format!("http://{address}"))?
        .connect_with_connector(tower::service_fn(move |_| {
            let (linked, config) = (linked.clone(), config.clone());
            async move {
                let stream = WeftStream::connect(address, config).await?;
                // Nobody listens any more if it connects a second time.
                let _ = linked.send(stream.link());
                std::io::Result::Ok(TokioIo::new(stream))
            }
        }))
        .await?;

    let mut client = HealthClient::new(channel);
    let asked = |name: &str| HealthCheckRequest { service: name.to_owned() };
    for _ in 0..100 {
        let answer = client.check(asked("weft")).await?.into_inner();
        ensure!(answer.status() == Status::Serving, "the service is said to be {answer:?}");
    }
    let unknown = client.check(asked("nobody")).await.err().context("nobody serves")?;
    ensure!(unknown.code() == Code::NotFound, "asked for nobody, it said {unknown}");
    let mut watched = client.watch(asked("weft")).await?.into_inner();
    let first = watched.message().await?.context("the watch ended")?;
    reporter.set_service_status("weft", ServingStatus::NotServing).await;
    let second = watched.message().await?.context("the watch ended")?;
    ensure!((first.status(), second.status()) == (Status::Serving, Status::NotServing));

    let link = links.recv().await.context("nothing was connected")?;
    drop((watched, client, stop));
    serving.await??;
    Ok(link)
}

/// tonic asks an accepted connection what there is to know of it.
struct Accepted(WeftStream);

impl Connected for Accepted {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
