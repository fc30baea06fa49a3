//! Programs that know nothing of Weft, over its streams: a gRPC service by tonic, an HTTP/1 server by
//! hyper, and the `redis` crate against a redis-server behind a relay. Not a line of theirs is
//! changed; what is ours is where a connection comes from and where it is accepted.
//!
//! `cargo run --release -p weft-bench --example streams`, and with `--features weft-transport/verbs` over an RDMA device too.

#![expect(
    clippy::disallowed_methods,
    reason = "a program that starts another, with sockets and a clock"
)]
#![expect(clippy::print_stdout, reason = "a program for people")]

mod grpc;
mod http;
mod redis_relay;
mod redis_server;

use std::time::Instant;

use weft_transport::{LinkPolicy, PollPolicy, StreamConfig, WeftListener};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let redis = redis_server::RedisServer::start()?;
    for links in [LinkPolicy::Tcp, LinkPolicy::Shm, LinkPolicy::Verbs] {
        let poll = PollPolicy::Adaptive;
        let config = StreamConfig { links, poll, ..StreamConfig::default() };
        if let Err(error) = WeftListener::bind("127.0.0.1:0", config.clone()).await {
            println!("nothing goes over {links}: {error}");
            continue;
        }
        let began = Instant::now();
        let link = grpc::check(config.clone()).await?;
        println!("tonic over {link}: calls, a stream and an error, {:?}", began.elapsed());
        let began = Instant::now();
        let link = http::check(config.clone()).await?;
        println!("hyper over {link}: requests, small and large, {:?}", began.elapsed());
        let began = Instant::now();
        let link = redis_relay::check(config, redis.address()).await?;
        println!("redis over {link}: values, small and large, a pipeline, {:?}", began.elapsed());
    }
    Ok(())
}
