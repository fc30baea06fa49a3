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

use std::io::ErrorKind;
use std::time::Duration;

use weft_transport::{LinkKind, LinkPolicy, PollPolicy, StreamConfig, WeftListener};

/// Far longer than anything takes on a machine that is busy elsewhere.
const PATIENCE: Duration = Duration::from_secs(60);

async fn over(links: LinkPolicy, check: impl AsyncFn(StreamConfig) -> anyhow::Result<LinkKind>) {
    let expected = match links {
        LinkPolicy::Tcp => LinkKind::Tcp,
        LinkPolicy::Verbs => LinkKind::Verbs,
        LinkPolicy::Shm | LinkPolicy::Auto => LinkKind::Shm,
    };
    for poll in [PollPolicy::Busy, PollPolicy::Adaptive, PollPolicy::Park] {
        let config = StreamConfig { links, poll, ..StreamConfig::default() };
        let checked = tokio::time::timeout(PATIENCE, check(config)).await;
        let link = checked.unwrap_or_else(|_| panic!("hangs over {links}, poll {poll}"));
        assert_eq!(link.unwrap(), expected);
    }
}

/// Whether this machine can carry streams over `links`: verbs need a device.
#[expect(clippy::print_stderr, reason = "says that a test was skipped")]
async fn can_carry(links: LinkPolicy) -> bool {
    let config = StreamConfig { links, ..StreamConfig::default() };
    match WeftListener::bind("127.0.0.1:0", config).await {
        Ok(_) => true,
        Err(error) if links == LinkPolicy::Verbs && error.kind() == ErrorKind::Unsupported => {
            eprintln!("skipped: {error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

macro_rules! on_links {
    ($(($module:ident, $links:expr)),*) => {$(
        mod $module {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_grpc_service_by_tonic() {
                if can_carry($links).await {
                    over($links, grpc::check).await;
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn an_http_server_by_hyper() {
                if can_carry($links).await {
                    over($links, http::check).await;
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn the_redis_client_and_redis_behind_a_relay() {
                if can_carry($links).await {
                    let redis = redis_server::RedisServer::start().unwrap();
                    over($links, async |config| redis_relay::check(config, redis.address()).await)
                        .await;
                }
            }
        }
    )*};
}

on_links!((tcp, LinkPolicy::Tcp), (shm, LinkPolicy::Shm), (verbs, LinkPolicy::Verbs));
