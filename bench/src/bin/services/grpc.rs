//! tonic's side of an echo: texts by a codec of their own, which only copies, over TCP.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use anyhow::Result;
use bytes::{Buf, BufMut};
use futures_util::future::BoxFuture;
use tokio::runtime::Runtime;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{Body, Service, StdError, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

const PATH: &str = "/weft.bench.Echo/Echo";

/// Serves on a thread of its own, for as long as the process lives. Returns where.
pub(crate) fn serve() -> Result<SocketAddr> {
    let runtime = runtime()?;
    let incoming = runtime.block_on(async { TcpIncoming::bind(([127, 0, 0, 1], 0).into()) })?;
    let incoming = incoming.with_nodelay(Some(true));
    let address = incoming.local_addr()?;
    std::thread::spawn(move || {
        let server = Server::builder().add_service(Echo);
        runtime.block_on(server.serve_with_incoming(incoming))
    });
    Ok(address)
}

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Who calls, with a thread that drives its connection while it waits.
pub(crate) struct Caller {
    runtime: Runtime,
    client: tonic::client::Grpc<Channel>,
}

impl Caller {
    pub(crate) fn connect(address: &str) -> Result<Caller> {
        let runtime = runtime()?;
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
        let channel = runtime.block_on(endpoint.connect())?;
        Ok(Caller { runtime, client: tonic::client::Grpc::new(channel) })
    }

    pub(crate) fn echo(&mut self, text: &str) -> Result<String> {
        let Self { runtime, client } = self;
        runtime.block_on(async {
            client.ready().await?;
            let request = Request::new(text.to_owned());
            let answer = client.unary(request, PathAndQuery::from_static(PATH), Texts).await?;
            Ok(answer.into_inner())
        })
    }
}

#[derive(Clone)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "weft.bench.Echo";
}

impl<B> Service<http::Request<B>> for Echo
where
    B: Body<Error: Into<StdError> + Send + 'static> + Send + 'static,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        Box::pin(async { Ok(tonic::server::Grpc::new(Texts).unary(Echo, request).await) })
    }
}

impl UnaryService<String> for Echo {
    type Response = String;
    type Future = Ready<Result<Response<String>, Status>>;

    fn call(&mut self, request: Request<String>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}

/// Texts as their bytes.
#[derive(Clone, Copy)]
struct Texts;

impl Codec for Texts {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Texts {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, text: String, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(text.as_bytes());
        Ok(())
    }
}

impl Decoder for Texts {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let mut text = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut text);
        String::from_utf8(text).map(Some).map_err(|_| Status::invalid_argument("no text"))
    }
}
