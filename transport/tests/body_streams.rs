//! Streamed bodies as tokio's byte streams.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failure of it")]

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use weft_transport::{
    Batch, BodyError, Endpoint, EndpointConfig, Handler, Incarnation, IncomingKind, Memory,
    MemoryConfig, NoHandler, NodeId, StopReason,
};

/// Replies with the body of the request; to a request that begins with "half", with the half of it.
struct Mirror {
    runtime: tokio::runtime::Handle,
}

impl Handler for Mirror {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            let mut body = incoming.take_body().unwrap();
            let mut back = batch.reply_body(call, incoming.body).unwrap();
            let is_half = incoming.body == b"half";
            self.runtime.spawn(async move {
                if is_half {
                    let mut bytes = [0; 1000];
                    body.read_exact(&mut bytes).await.unwrap();
                    back.write_all(&bytes).await.unwrap();
                    back.flush().await.unwrap();
                    return back.abort(1, "only half of it");
                }
                tokio::io::copy_buf(&mut body, &mut back).await.unwrap();
                back.shutdown().await.unwrap();
            });
        }
    }
}

fn start(node: NodeId, handler: Arc<dyn Handler>) -> Endpoint {
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
    Endpoint::start(EndpointConfig::new(node, Incarnation(1), memory), handler).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_and_lines_come_back_through_tokio() {
    let runtime = tokio::runtime::Handle::current();
    let server = start(NodeId(1), Arc::new(Mirror { runtime }));
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let client = start(NodeId::client(1), Arc::new(NoHandler));
    let deadline = client.clock().now() + Duration::from_secs(60);
    let connection = client.connect(address, deadline).await.unwrap();

    let (mut writer, mut replies) = connection.call_body(b"lines", deadline).await.unwrap();
    let reply = replies.next().await.unwrap().unwrap();
    let back = reply.take_body().unwrap();
    let writes = tokio::spawn(async move {
        for number in 0..100_000 {
            writer.write_all(format!("line {number}\n").as_bytes()).await.unwrap();
        }
        writer.shutdown().await.unwrap();
    });
    let mut lines = back.lines();
    for number in 0..100_000 {
        assert_eq!(lines.next_line().await.unwrap().unwrap(), format!("line {number}"));
    }
    assert_eq!(lines.next_line().await.unwrap(), None);
    writes.await.unwrap();

    // What is written after the end has failed is an error of its kind; so is what is read then.
    let (mut writer, mut replies) = connection.call_body(b"half", deadline).await.unwrap();
    let mut back = replies.next().await.unwrap().unwrap().take_body().unwrap();
    writer.write_all(&[7; 2000]).await.unwrap();
    writer.send_now();
    let mut half = [0; 1000];
    back.read_exact(&mut half).await.unwrap();
    assert_eq!(half, [7; 1000]);
    let error = back.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
    let reason = StopReason::Program { code: 1, text: "only half of it".into() };
    let inner = error.get_ref().unwrap().downcast_ref::<BodyError>();
    assert_eq!(inner, Some(&BodyError::Aborted(reason)));
    let error = loop {
        if let Err(error) = writer.write_all(&[7; 100_000]).await {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

/// What was read as bytes is not lent again, and what follows it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pieces_go_on_where_reading_as_bytes_has_got_to() {
    let runtime = tokio::runtime::Handle::current();
    let server = start(NodeId(1), Arc::new(Mirror { runtime }));
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let client = start(NodeId::client(2), Arc::new(NoHandler));
    let deadline = client.clock().now() + Duration::from_secs(60);
    let connection = client.connect(address, deadline).await.unwrap();
    let (mut writer, mut replies) = connection.call_body(b"all", deadline).await.unwrap();
    let mut back = replies.next().await.unwrap().unwrap().take_body().unwrap();
    let sent: Vec<u8> = (0..200_000_u32).map(|at| (at * 7 / 3) as u8).collect();
    writer.write(&sent).await.unwrap();
    writer.finish().await.unwrap();
    let mut read = vec![0; 12_345];
    back.read_exact(&mut read).await.unwrap();
    while let Some(piece) = back.next().await.unwrap() {
        read.extend_from_slice(&piece);
    }
    assert!(read == sent);
}
