//! What goes by another way than short frames do, because it is long or has no end yet, does not overtake what the same
//! thread has sent before.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use weft_transport::limits::MESSAGE_MAX;
use weft_transport::{Batch, BodyWriter, Handler, IncomingKind};

use super::SECOND;
use super::bodies::{read, write};
use super::large::{pattern, pause};
use super::world::World;

/// Replies with `parts` parts of `len` bytes, and a last one that is long or has a body behind it.
#[derive(Default)]
struct InParts {
    writers: Mutex<Vec<BodyWriter>>,
}

/// What is asked for: parts, bytes of each, and whether the last is streamed.
type Asked = (u8, u16, bool);

const LAST: &[u8] = b"the last";

impl Handler for InParts {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { panic!("only calls come") };
            let &[parts, low, high, streamed] = incoming.body else { panic!("four bytes") };
            let len = usize::from(u16::from_le_bytes([low, high]));
            for number in 0..parts {
                batch.reply_part(call, &vec![number; len][..]);
            }
            if streamed == 1 {
                let writer = batch.reply_body(call, LAST).expect("a body can be streamed");
                self.writers.lock().expect("nobody panics with it").push(writer);
            } else {
                batch.reply(call, &pattern(2 * MESSAGE_MAX, 3)[..]);
            }
        }
    }
}

pub(crate) fn the_last_part_of_a_reply_comes_last(world: &World) {
    let handler = Arc::new(InParts::default());
    let server = world.node(1, Arc::clone(&handler) as _);
    let client = world.client();
    let connection = world.run(client.connect(server.address, world.deadline())).unwrap();
    let asked: [Asked; 4] =
        [(5, 100, true), (20, 30_000, true), (40, 2_000, true), (20, 30_000, false)];
    for (parts, len, streamed) in asked {
        let [low, high] = len.to_le_bytes();
        let request = [parts, low, high, u8::from(streamed)];
        let call = async || {
            let call = connection.call_streamed(&request[..], world.deadline());
            let mut replies = call.await.unwrap();
            for number in 0..parts {
                let part = replies.next().await.expect("a part").unwrap();
                assert!(*part == vec![number; usize::from(len)], "part {number} of {parts}");
            }
            let last = replies.next().await.expect("the last part").unwrap();
            if streamed {
                assert_eq!(*last, *LAST);
                let writer = handler.writers.lock().unwrap().pop().expect("one a call");
                write(writer, b"behind").await.unwrap();
                read(&mut last.take_body().expect("a body"), b"behind").await.unwrap();
            } else {
                assert!(*last == pattern(2 * MESSAGE_MAX, 3));
            }
            assert!(replies.next().await.is_none(), "there is no more");
        };
        // Several at once, so that some find the link full.
        world.run(join_all((0..3).map(|_| call())));
    }
}

/// Notes how long the messages are that come.
#[derive(Default)]
struct Lens {
    lens: Mutex<Vec<usize>>,
}

impl Handler for Lens {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            self.lens.lock().expect("nobody panics with it").push(incoming.body.len());
        }
    }
}

pub(crate) fn a_body_comes_behind_the_messages_that_were_sent_before_it(world: &World) {
    let handler = Arc::new(Lens::default());
    let server = world.node(1, Arc::clone(&handler) as _);
    let client = world.client();
    let connection = world.run(client.connect(server.address, world.deadline())).unwrap();
    let rounds = 30;
    world.run(async {
        for round in 1..=rounds {
            for len in [100, 200, 300] {
                connection.send(&vec![1; len][..]).await.unwrap();
            }
            let writer = connection.send_body(&[2; 777][..], world.deadline()).await.unwrap();
            drop(writer);
            while handler.lens.lock().unwrap().len() < 4 * round {
                pause(&client, SECOND / 5000).await;
            }
        }
    });
    assert_eq!(*handler.lens.lock().unwrap(), [100, 200, 300, 777].repeat(rounds));
}
