//! Blocks of a streamed body that a reader gives back are granted again at once, not when somebody looks.

use std::time::Duration;

use futures_util::FutureExt as _;

use super::*;
use crate::connection::BodyReader;
use crate::handler::{Batch, Handler, NoHandler};
use crate::limits::{BODY_BLOCKS, CHUNK_BYTES};
use crate::sync::Mutex;

/// Long enough for a grant to go there and for what it allows to come back.
const PAUSE: Duration = Duration::from_millis(5);

/// How often the reader has all the blocks that it may have, and gives them back.
const ROUNDS: usize = 16;

/// Keeps the body of what comes.
#[derive(Default)]
struct Keeping {
    body: Mutex<Option<BodyReader>>,
}

impl Handler for Keeping {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            *self.body.lock() = incoming.take_body();
        }
    }
}

#[test]
fn a_reader_that_gives_all_its_blocks_back_is_sent_more_at_once() {
    let mut world = World::new(1);
    world.node(1, Arc::new(NoHandler), 16 << 20, |_| {});
    let keeping = Arc::new(Keeping::default());
    let address = world.node(2, Arc::clone(&keeping) as _, 16 << 20, |_| {});
    let connection = world.connect(0, address);
    let (began, deadline) = (world.clock.now(), world.after(Duration::from_secs(60)));
    let len = ROUNDS * BODY_BLOCKS * CHUNK_BYTES;
    world.tasks.push(Box::pin(async move {
        let mut writer = connection.send_body(b"head", deadline).await.unwrap();
        writer.write(&vec![1; len]).await.unwrap();
        assert_eq!(writer.finish().await.unwrap(), len as u64);
    }));
    let (endpoint, clock) = (world.endpoints[1].clone(), world.clock.clone());
    world.tasks.push(Box::pin(async move {
        let mut read = 0;
        let mut held = Vec::new();
        while read < len {
            endpoint.sleep_until(clock.now() + PAUSE).await;
            held.clear();
            let mut body = keeping.body.lock();
            let Some(reader) = body.as_mut() else { continue };
            while let Some(next) = reader.next().now_or_never() {
                let Some(piece) = next.unwrap() else { break };
                read += piece.len();
                held.push(piece);
            }
        }
        drop(keeping.body.lock().take());
    }));
    while !world.tasks.is_empty() {
        assert!(world.step() || world.advance(), "both come to the end");
    }
    let took = world.clock.now().since(began);
    assert!(took < 3 * PAUSE * ROUNDS as u32, "{took:?} for {ROUNDS} times all blocks");
}
