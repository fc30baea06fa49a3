//! Programs that know nothing of Weft run over its streams as they are: what the example shows, on
//! each link and with each way to wait.

#![expect(clippy::disallowed_methods, reason = "the tests start redis-server")]
#![expect(clippy::unwrap_used, reason = "in a test, what fails should panic")]

#[path = "../examples/streams/grpc.rs"]
mod grpc;
#[path = "../examples/streams/http.rs"]
mod http;
#[path = "../examples/streams/redis_relay.rs"]
mod redis_relay;
#[path = "../examples/streams/redis_server.rs"]
mod redis_server;

use std::time::Duration;

use weft_transport::{LinkKind, LinkPolicy, PollPolicy, StreamConfig};

/// Far longer than anything takes on a machine that is busy elsewhere.
const PATIENCE: Duration = Duration::from_secs(60);

const LINKS: [(LinkPolicy, LinkKind); 2] =
    [(LinkPolicy::Tcp, LinkKind::Tcp), (LinkPolicy::Shm, LinkKind::Shm)];

async fn on_each_link(check: impl AsyncFn(StreamConfig) -> anyhow::Result<LinkKind>) {
    for (links, expected) in LINKS {
        for poll in [PollPolicy::Busy, PollPolicy::Adaptive, PollPolicy::Park] {
            let checked = tokio::time::timeout(PATIENCE, check(StreamConfig { links, poll })).await;
            let link = checked.unwrap_or_else(|_| panic!("hangs over {links}, poll {poll}"));
            assert_eq!(link.unwrap(), expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grpc_service_by_tonic() {
    on_each_link(grpc::check).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http_server_by_hyper() {
    on_each_link(http::check).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_redis_client_and_redis_behind_a_relay() {
    let redis = redis_server::RedisServer::start().unwrap();
    on_each_link(async |config| redis_relay::check(config, redis.address()).await).await;
}
