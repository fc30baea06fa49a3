//! Calls that are answered when their handler has returned, and what is sent on behalf of requests that still wait.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_util::future::{join, join_all};
use weft_transport::limits::{MESSAGE_MAX, WINDOW_MAX};
use weft_transport::{
    Applied, Batch, BodyError, BodyReader, CallError, CloseReason, Connection, Handler,
    IncomingKind, Purpose, Responder, Retained, SendError,
};

use crate::world::World;

/// Keeps calls with what they say, and messages, for somebody else.
#[derive(Default)]
struct Kept {
    calls: Mutex<Vec<Call>>,
    messages: Mutex<Vec<Retained>>,
}

/// What answers a call, what it says, and what is streamed behind that.
type Call = (Responder, Retained, Option<BodyReader>);

impl Handler for Kept {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(mut incoming) = batch.next() {
            match incoming.kind {
                IncomingKind::Call(_) => {
                    let responder = incoming.responder().unwrap();
                    assert!(incoming.responder().is_none(), "there is one of a call");
                    let body = incoming.take_body();
                    self.calls.lock().unwrap().push((responder, incoming.retain().unwrap(), body));
                }
                IncomingKind::Message => {
                    assert!(incoming.responder().is_none(), "nobody waits for a reply");
                    self.messages.lock().unwrap().push(incoming.retain().unwrap());
                }
            }
        }
    }
}

impl Kept {
    /// All calls, once there are `count`.
    async fn calls(&self, count: usize) -> Vec<Call> {
        poll_fn(|context| {
            let mut calls = self.calls.lock().unwrap();
            if calls.len() == count {
                return Poll::Ready(std::mem::take(&mut *calls));
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }
}

/// As long as the number says, and full of it.
fn body(number: usize) -> Vec<u8> {
    let len = match number % 5 {
        0 => number,
        1 => 5_000,
        2 => 100_000,
        3 => 250_000,
        _ => 2 * MESSAGE_MAX + number,
    };
    vec![number as u8; len]
}

pub(crate) fn calls_are_answered_when_their_handler_has_returned(world: &World) {
    const CALLS: usize = 20;
    let kept = Arc::<Kept>::default();
    let server = world.node(1, Arc::clone(&kept) as _);
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let asked: Vec<Vec<u8>> = (0..CALLS).map(body).collect();
        let calls = join_all(asked.iter().enumerate().map(async |(number, asked)| {
            let called = connection.call(&asked[..], world.deadline()).await;
            let reply = called.unwrap_or_else(|error| panic!("call {number}: {error}"));
            let Some(mut reader) = reply.take_body() else { return reply.to_vec() };
            let mut came = reply.to_vec();
            while let Some(piece) = reader.next().await.unwrap() {
                came.extend_from_slice(&piece);
            }
            came
        }));
        let answers = async {
            let asked = kept.calls(CALLS).await;
            // Each as it likes, and the last one first.
            let answers =
                asked.into_iter().rev().enumerate().map(async |(at, (responder, asked, _))| {
                    assert!(responder.peer().node.is_client());
                    let half = asked.len() / 2;
                    match at % 4 {
                        0 => responder.reply(&asked[..]).await.unwrap(),
                        1 => {
                            let memory = server.endpoint.memory();
                            let mut block = memory.allocate(half.max(1), Purpose::Send).unwrap();
                            block[..half].copy_from_slice(&asked[..half]);
                            let tail = block.freeze().slice(0..half);
                            responder.reply_shared(&asked[half..], tail).await.unwrap();
                        }
                        2 => match responder.try_reply(&asked[..], None) {
                            Ok(()) => assert!(asked.len() <= MESSAGE_MAX),
                            Err((responder, _)) => responder.reply(&asked[..]).await.unwrap(),
                        },
                        _ => {
                            let head = asked.len().min(1000);
                            let mut writer = responder.reply_body(&asked[..head]).await.unwrap();
                            writer.write(&asked[head..]).await.unwrap();
                            writer.finish().await.unwrap();
                        }
                    }
                });
            join_all(answers).await;
        };
        let (came, ()) = join(calls, answers).await;
        assert!(came == asked, "what was answered is what was asked");
    });
    assert_eq!(server.endpoint.stats().retained_bytes, 0);
}

pub(crate) fn a_call_whose_responder_is_dropped_fails_at_once(world: &World) {
    let kept = Arc::<Kept>::default();
    let server = world.node(1, Arc::clone(&kept) as _);
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let calls = join_all((0..3u8).map(|number| {
            let connection = &connection;
            async move { connection.call(&[number], weft_transport::Time::MAX).await }
        }));
        let answers = async {
            for (responder, asked, _) in kept.calls(3).await {
                match asked[0] {
                    1 => drop(responder),
                    // Nothing of it is sent.
                    2 => {
                        let head = vec![0; MESSAGE_MAX];
                        let refused = responder.reply_body(&head[..]).await;
                        assert!(matches!(refused, Err(BodyError::HeadTooLong { .. })));
                    }
                    _ => responder.reply(&[7]).await.unwrap(),
                }
            }
        };
        let (came, ()) = join(calls, answers).await;
        let [first, second, third] = came.try_into().unwrap();
        assert_eq!(&*first.unwrap(), [7]);
        assert_eq!(second.unwrap_err(), CallError::Unanswered);
        let third = third.unwrap_err();
        assert_eq!((&third, third.applied()), (&CallError::Unanswered, Applied::Maybe));
        assert!(connection.is_open());
    });
}

/// Takes a responder of each call, and replies with the batch nevertheless.
struct ThinksAgain;

impl Handler for ThinksAgain {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(mut incoming) = batch.next() {
            if let Some(responder) = incoming.responder() {
                responder.reply_with(batch, &[incoming.body[0] + 1]);
            }
        }
    }
}

pub(crate) fn a_responder_replies_with_the_batch_that_its_call_came_with(world: &World) {
    let server = world.node(1, Arc::new(ThinksAgain));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let calls = join_all((0..3u8).map(|number| {
            let connection = &connection;
            async move { connection.call(&[number], world.deadline()).await.unwrap()[0] }
        }));
        assert_eq!(calls.await, [1, 2, 3]);
    });
}

pub(crate) fn an_answer_to_who_is_gone_is_an_error(world: &World) {
    let kept = Arc::<Kept>::default();
    let server = world.node(1, Arc::clone(&kept) as _);
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let call = async {
            let called = connection.call(&[1], world.deadline()).await.unwrap_err();
            assert!(matches!(called, CallError::Disconnected { .. }), "{called:?}");
        };
        let answer = async {
            let (responder, ..) = kept.calls(1).await.remove(0);
            connection.close();
            // Until the other side has heard of it, an answer is taken.
            poll_fn(|context| {
                if server.endpoint.stats().connections == 0 {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
            let answered = responder.reply(&[7]).await.unwrap_err();
            let SendError::Disconnected(reason) = &answered else { panic!("{answered:?}") };
            assert!(matches!(reason, CloseReason::Goodbye(_) | CloseReason::PeerGone), "{reason}");
        };
        join(call, answer).await;
    });
}

pub(crate) fn what_requests_have_taken_up_is_not_missed_by_replication(world: &World) {
    let kept = Arc::<Kept>::default();
    let server = world.node(1, Arc::clone(&kept) as _);
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        // Messages that are kept hold the window, until there is none.
        let message = vec![1; MESSAGE_MAX];
        let mut context = Context::from_waker(Waker::noop());
        let mut sent = 0;
        while pin!(connection.send(&message[..])).as_mut().poll(&mut context).is_ready() {
            sent += 1;
            assert!(sent <= WINDOW_MAX / MESSAGE_MAX as u32, "the window is full at some time");
        }
        assert!(connection.try_send(&message[..], &mut None).is_pending());
        let replication: Connection = connection.for_replication();
        for number in 0..5 {
            let asked = body(number);
            let call = async {
                let reply = replication.call(&asked[..], world.deadline()).await.unwrap();
                assert!(*reply == asked[..]);
            };
            let streamed = async {
                let called = replication.call_body(&[9][..], world.deadline()).await;
                let (mut writer, mut replies) = called.unwrap();
                writer.write(&[3; 50_000]).await.unwrap();
                writer.finish().await.unwrap();
                assert_eq!(*replies.next().await.unwrap().unwrap(), [9]);
            };
            let answers = async {
                for (responder, asked, body) in kept.calls(2).await {
                    if let Some(mut body) = body {
                        while body.next().await.unwrap().is_some() {}
                    }
                    responder.reply(&asked[..]).await.unwrap();
                }
            };
            join(join(call, streamed), answers).await;
            replication.send(&[2][..]).await.unwrap();
        }
        // A request still waits.
        let waits = pin!(connection.send(&message[..])).as_mut().poll(&mut context).is_pending();
        assert!(waits, "nothing has been let go of");
    });
    kept.messages.lock().unwrap().clear();
}
