//! The `redis` crate: its client over a stream, to a relay that has redis-server behind it.

use std::net::SocketAddr;

use anyhow::ensure;
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, AsyncConnectionConfig, RedisConnectionInfo};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use weft_transport::{LinkKind, StreamConfig, WeftListener, WeftStream};

/// Relays, asks, and returns what the requests went over.
pub(crate) async fn check(config: StreamConfig, redis: SocketAddr) -> anyhow::Result<LinkKind> {
    let listener = WeftListener::bind("127.0.0.1:0", config.clone()).await?;
    let address = listener.local_addr()?;
    let relaying = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let mut server = TcpStream::connect(redis).await?;
        server.set_nodelay(true)?;
        // Ends when both have said that they are done: half-close goes through in both directions.
        copy_bidirectional(&mut stream, &mut server).await
    });

    let stream = WeftStream::connect(address, config).await?;
    let link = stream.link();
    let (mut client, connection) = MultiplexedConnection::new_with_config(
        &RedisConnectionInfo::default(),
        stream,
        AsyncConnectionConfig::default(),
    )
    .await?;
    let talking = tokio::spawn(connection);
    for len in [0, 1, 1000, 1 << 20] {
        let value = vec![b'w'; len];
        let () = client.set("streams:value", &value).await?;
        let found: Vec<u8> = client.get("streams:value").await?;
        ensure!(found == value, "{len} bytes came back as {}", found.len());
    }
    let () = client.del("streams:count").await?;
    let mut pipeline = redis::pipe();
    for _ in 0..1000 {
        pipeline.incr("streams:count", 1);
    }
    let counts: Vec<u64> = pipeline.query_async(&mut client).await?;
    ensure!(counts.into_iter().eq(1..=1000), "a pipeline was answered out of order");
    drop(client);
    talking.await?;
    relaying.await??;
    Ok(link)
}
