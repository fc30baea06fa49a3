//! Streamed bodies, on every link.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{Either, join, join_all, select};
use weft_transport::limits::{BODIES_MAX, BODY_AHEAD_MAX, BODY_HEAD_MAX, CHUNK_BYTES, MESSAGE_MAX};
use weft_transport::{
    Applied, Batch, BodyError, BodyPiece, BodyReader, BodyWriter, Connection, Endpoint, Handler,
    IncomingKind, LinkKind, Shared,
};

use super::SECOND;
use super::large::{echoes, held, pattern, pause, shared, until};
use super::world::{Node, World};

/// What has come with a body, and what it is answered through.
pub(crate) struct Came {
    pub(crate) head: Vec<u8>,
    pub(crate) body: BodyReader,
    pub(crate) reply: Option<BodyWriter>,
}

/// Keeps what comes with a body, and replies to its calls with bodies that somebody else writes. Replies to
/// others with their own body.
#[derive(Default)]
pub(crate) struct Bodies {
    pub(crate) came: Mutex<VecDeque<Came>>,
}

impl Handler for Bodies {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let head = incoming.body.to_vec();
            let Some(body) = incoming.take_body() else {
                if let IncomingKind::Call(call) = incoming.kind {
                    batch.reply(call, &head[..]);
                }
                continue;
            };
            assert!(incoming.take_body().is_none(), "a body is taken once");
            let reply = match incoming.kind {
                IncomingKind::Call(call) => Some(batch.reply_body(call, &head[..]).unwrap()),
                IncomingKind::Message => None,
            };
            self.came.lock().unwrap().push_back(Came { head, body, reply });
        }
    }
}

/// A node that keeps bodies, and a connection to it.
pub(crate) struct Pair {
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) server: Node,
    pub(crate) client: Endpoint,
    pub(crate) connection: Connection,
}

impl Pair {
    pub(crate) fn new(world: &World) -> Self {
        let bodies = Arc::new(Bodies::default());
        let server = world.node(1, Arc::clone(&bodies) as _);
        let client = world.client();
        let connect = client.connect(server.address, world.deadline());
        let connection = world.run(connect).unwrap();
        Self { bodies, server, client, connection }
    }

    /// What has come, or comes soon.
    pub(crate) async fn came(&self, world: &World) -> Came {
        let deadline = world.deadline();
        loop {
            if let Some(came) = self.bodies.came.lock().unwrap().pop_front() {
                return came;
            }
            assert!(world.now() < deadline, "nothing comes");
            pause(&self.client, SECOND / 5000).await;
        }
    }

    /// Both ends of a body that a message brings.
    pub(crate) async fn open(&self, world: &World) -> (BodyWriter, BodyReader) {
        let writer = self.connection.send_body(b"head", world.deadline()).await.unwrap();
        (writer, self.came(world).await.body)
    }
}

/// Reads to the end; says how much it was, if it is what `pattern` makes of `seed`.
pub(crate) async fn read(body: &mut BodyReader, expected: &[u8]) -> Result<u64, BodyError> {
    let mut at = 0;
    while let Some(piece) = body.next().await? {
        assert!(!piece.is_empty() && *piece == expected[at..at + piece.len()], "changed at {at}");
        at += piece.len();
    }
    assert_eq!((at, at as u64), (expected.len(), body.taken()));
    Ok(at as u64)
}

/// Writes all of it in one piece, and ends the body.
pub(crate) async fn write(mut writer: BodyWriter, bytes: &[u8]) -> Result<u64, BodyError> {
    writer.write(bytes).await?;
    writer.finish().await
}

pub(crate) fn bodies_of_every_length_arrive_with_what_they_began_with(world: &World) {
    let pair = Pair::new(world);
    world.run(async {
        let mut lens = vec![0, 1, 7, 8, 1000, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1];
        lens.extend([BODY_AHEAD_MAX, BODY_AHEAD_MAX + 1, MESSAGE_MAX + 12_345]);
        for len in lens {
            let (bytes, head) = (pattern(len, 1), pattern(len % (BODY_HEAD_MAX + 1), 2));
            let sent = async {
                let writer = pair.connection.send_body(&head[..], world.deadline()).await.unwrap();
                write(writer, &bytes).await.unwrap()
            };
            let came = async {
                let mut came = pair.came(world).await;
                assert!(came.head == head && came.reply.is_none());
                assert_eq!(came.body.peer().node, pair.client.node());
                read(&mut came.body, &bytes).await.unwrap()
            };
            assert_eq!(join(sent, came).await, (len as u64, len as u64));

            // There and back in a call.
            let calls = async {
                let call = pair.connection.call_body(&head[..], world.deadline());
                let (writer, mut replies) = call.await.unwrap();
                let reply = replies.next().await.unwrap().unwrap();
                assert_eq!(*reply, head);
                assert!(replies.next().await.is_none());
                let mut back = reply.take_body().unwrap();
                assert!(reply.take_body().is_none(), "a body is taken once");
                let both = join(write(writer, &bytes), read(&mut back, &bytes)).await;
                (both.0.unwrap(), both.1.unwrap())
            };
            let serves = async {
                let Came { head: came, mut body, reply } = pair.came(world).await;
                assert_eq!(came, head);
                let mut reply = reply.unwrap();
                while let Some(piece) = body.next().await.unwrap() {
                    reply.write_shared(piece.into_shared()).await.unwrap();
                }
                reply.finish().await.unwrap()
            };
            let (both, served) = join(calls, serves).await;
            assert_eq!((both, served), ((len as u64, len as u64), len as u64));
        }
        let before = held(&pair.client) + held(&pair.server.endpoint);
        until(world, &pair.client, || {
            held(&pair.client) + held(&pair.server.endpoint) <= before.min(1 << 20)
        })
        .await;
    });
}

/// More than may be in one message, with little memory on either side.
pub(crate) fn a_long_body_takes_no_more_memory_than_a_short_one(world: &World) {
    const LIMIT: u64 = 12 << 20;
    let total = match world.link() {
        LinkKind::Sim => 6 << 20,
        LinkKind::Verbs => 66 << 20,
        _ => 200 << 20,
    };
    let bodies = Arc::new(Bodies::default());
    let server = world.node_with_memory(1, Arc::clone(&bodies) as _, LIMIT);
    let client = world.client_with_memory(LIMIT);
    let connection = world.run(client.connect(server.address, world.deadline())).unwrap();
    let pair = Pair { bodies, server, client, connection };
    let bytes = pattern(1 << 20, 3);
    let whole = shared(pair.client.memory(), &bytes);
    world.run(async {
        let account = || [&pair.client, &pair.server.endpoint].map(held);
        let before = account();
        let most = std::cell::Cell::new([0, 0]);
        let note =
            || {
                let now = account();
                most.set([0, 1].map(|side: usize| {
                    most.get()[side].max(now[side] - before[side].min(now[side]))
                }));
            };
        let writes = async {
            let mut writer = pair.connection.send_body(b"", world.deadline()).await.unwrap();
            while writer.written() < total {
                // What is lent and what is copied, in turn.
                if writer.written().is_multiple_of(2 << 20) {
                    writer.write_shared(whole.clone()).await.unwrap();
                } else {
                    writer.write(&bytes).await.unwrap();
                }
                note();
            }
            writer.finish().await.unwrap()
        };
        let reads = async {
            let mut body = pair.came(world).await.body;
            let mut at = 0;
            while let Some(piece) = body.next().await.unwrap() {
                let start = at % bytes.len();
                let end = bytes.len().min(start + piece.len());
                let (here, next) = piece.split_at(end - start);
                assert!(*here == bytes[start..end] && *next == bytes[..next.len()], "at {at}");
                at += piece.len();
                note();
            }
            at as u64
        };
        assert_eq!(join(writes, reads).await, (total, total));
        // 256 KiB wait and 64 KiB are filled, or 256 KiB are granted; and buffers that any receive takes.
        let bound = 2 * BODY_AHEAD_MAX as u64 + (1 << 20);
        assert!(most.get().iter().all(|most| *most < bound), "{:?} of {bound}", most.get());
        assert_eq!(whole.holders(), 1);
    });
}

/// What is flushed arrives before anything else is written, whatever its length; what is written and not
/// flushed comes with what follows.
pub(crate) fn what_is_flushed_arrives_before_more_is_written(world: &World) {
    let pair = Pair::new(world);
    world.run(async {
        let (mut writer, mut body) = pair.open(world).await;
        let bytes = pattern(1 << 20, 4);
        let whole = shared(pair.client.memory(), &bytes);
        let mut at = 0;
        for (turn, len) in
            [1, 7, 64, 5000, 3, 70_000, 1, 4096, 4097, 65_536, 9, 150_000].iter().enumerate()
        {
            let end = at + len;
            if turn % 2 == 0 {
                writer.write(&bytes[at..end]).await.unwrap();
            } else {
                writer.write_shared(whole.slice(at..end)).await.unwrap();
            }
            writer.send_now();
            while at < end {
                let piece = body.next().await.unwrap().unwrap();
                assert!(*piece == bytes[at..at + piece.len()], "changed at {at}");
                at += piece.len();
            }
            assert_eq!(at, end);
        }
        drop(body);
    });
}

/// A writer that is held back because nobody reads holds up nobody else; and when somebody reads, it goes on.
pub(crate) fn a_slow_reader_holds_back_its_own_sender_alone(world: &World) {
    let pair = Pair::new(world);
    world.run(async {
        let bytes = pattern(2 << 20, 5);
        let (mut writer, mut body) = pair.open(world).await;
        let mut at = 0;
        loop {
            let wrote = std::pin::pin!(writer.write(&bytes[at..at + 1000]));
            let waited = std::pin::pin!(pause(&pair.client, SECOND / 4));
            match select(wrote, waited).await {
                Either::Left((wrote, _)) => wrote.unwrap(),
                Either::Right(_) => break,
            }
            at += 1000;
        }
        // What may be granted, and what may wait.
        let written = writer.written();
        assert!(
            (BODY_AHEAD_MAX as u64..=3 * BODY_AHEAD_MAX as u64).contains(&written),
            "{written}"
        );
        // Others go on: small calls, large ones, and other bodies.
        for _ in 0..20 {
            echoes(&pair.connection, b"small", world.deadline()).await;
        }
        echoes(&pair.connection, &pattern(MESSAGE_MAX + 99, 6), world.deadline()).await;
        let (other, mut other_body) = pair.open(world).await;
        let both = join(write(other, &bytes), read(&mut other_body, &bytes)).await;
        assert_eq!(both, (Ok(bytes.len() as u64), Ok(bytes.len() as u64)));
        assert_eq!(writer.written(), written);
        let rest = &bytes[written as usize..];
        let both = join(write(writer, rest), read(&mut body, &bytes)).await;
        assert_eq!(both, (Ok(bytes.len() as u64), Ok(bytes.len() as u64)));
    });
}

/// Whoever holds on to pieces holds back the sender; whoever takes their memory over does not.
pub(crate) fn pieces_that_are_held_hold_the_sender_back(world: &World) {
    let pair = Pair::new(world);
    world.run(async {
        let bytes = pattern(1 << 20, 7);
        let (writer, mut body) = pair.open(world).await;
        let writes = write(writer, &bytes);
        let reads = async {
            let mut held: Vec<BodyPiece> = Vec::new();
            loop {
                let next = std::pin::pin!(body.next());
                let waited = std::pin::pin!(pause(&pair.client, SECOND / 4));
                match select(next, waited).await {
                    Either::Left((piece, _)) => held.extend(piece.unwrap()),
                    Either::Right(_) => break,
                }
            }
            let len: usize = held.iter().map(|piece| piece.len()).sum();
            assert_eq!(len, BODY_AHEAD_MAX);
            let mut kept: Vec<Shared> = held.into_iter().map(BodyPiece::into_shared).collect();
            // The sender hears of it at once, not when somebody happens to look.
            let began = world.now();
            kept.extend(body.next().await.unwrap().map(BodyPiece::into_shared));
            let waited = world.now().since(began);
            assert!(!world.is_simulated() || waited < SECOND / 100, "{waited:?}");
            while let Some(piece) = body.next().await.unwrap() {
                kept.push(piece.into_shared());
            }
            kept.iter().flat_map(|part| part.to_vec()).collect::<Vec<u8>>()
        };
        let (written, read) = join(writes, reads).await;
        assert_eq!(written, Ok(bytes.len() as u64));
        assert!(read == bytes);
    });
}

/// More bodies than may be under way, there and back, each with calls beside it.
pub(crate) fn many_bodies_at_once_arrive_whole(world: &World) {
    let pair = Pair::new(world);
    let count = 2 * BODIES_MAX as u64 + 3;
    world.run(async {
        let deadline = world.deadline();
        let calls = (0..count).map(|seed| {
            let pair = &pair;
            async move {
                let bytes = pattern(100_000 + seed as usize * 7919, seed);
                let head = seed.to_le_bytes();
                let call = pair.connection.call_body(&head, deadline);
                let (writer, mut replies) = call.await.unwrap();
                let written = write(writer, &bytes);
                let read = async {
                    let reply = replies.next().await.unwrap().unwrap();
                    read(&mut reply.take_body().unwrap(), &bytes).await
                };
                let (written, read) = join(written, read).await;
                echoes(&pair.connection, b"small", deadline).await;
                assert_eq!((written, read), (Ok(bytes.len() as u64), Ok(bytes.len() as u64)));
            }
        });
        let serves = async {
            let serves = (0..count).map(|_| async {
                let Came { mut body, reply, .. } = pair.came(world).await;
                let mut reply = reply.unwrap();
                while let Some(piece) = body.next().await.unwrap() {
                    reply.write(&piece).await.unwrap();
                }
                reply.finish().await.unwrap();
            });
            join_all(serves).await
        };
        join(join_all(calls), serves).await;
    });
}

pub(crate) fn small_calls_go_on_beside_a_streamed_body(world: &World) {
    let pair = Pair::new(world);
    world.run(async {
        let bytes = pattern(if world.is_simulated() { 4 << 20 } else { 32 << 20 }, 8);
        let (writer, mut body) = pair.open(world).await;
        let streams = join(write(writer, &bytes), read(&mut body, &bytes));
        let mut streams = std::pin::pin!(streams);
        let mut answered = 0;
        loop {
            let small = std::pin::pin!(echoes(&pair.connection, b"small", world.deadline()));
            match select(streams, small).await {
                Either::Left((both, _)) => {
                    assert_eq!(both, (Ok(bytes.len() as u64), Ok(bytes.len() as u64)));
                    break;
                }
                Either::Right(((), rest)) => streams = rest,
            }
            answered += 1;
        }
        assert!(answered >= 3, "{answered} small calls were answered meanwhile");
    });
}

pub(crate) fn a_head_that_is_too_long_is_refused_at_once(world: &World) {
    let pair = Pair::new(world);
    world.run(async {
        let head = vec![0; BODY_HEAD_MAX + 1];
        let expected = BodyError::HeadTooLong { len: head.len(), limit: BODY_HEAD_MAX };
        let error = pair.connection.send_body(&head[..], world.deadline()).await.unwrap_err();
        assert_eq!(error, expected);
        let error = pair.connection.call_body(&head[..], world.deadline()).await.unwrap_err();
        assert_eq!((error.applied(), error), (Applied::No, expected));
        echoes(&pair.connection, b"small", world.deadline()).await;
    });
}

/// Pieces of any length, lent and copied, flushed or not, are one sequence of bytes to the reader; and whoever
/// reads takes some now and then.
pub(crate) fn however_it_is_written_and_read_it_is_one_sequence(world: &World) {
    let pair = Pair::new(world);
    let bytes = pattern(3 << 20, 12);
    let whole = shared(pair.client.memory(), &bytes);
    world.run(async {
        let draws = pattern(80_000, world.seed());
        let (mut writer, mut body) = pair.open(world).await;
        let writes = async {
            let mut at = 0;
            for draw in draws.chunks_exact(4) {
                let draw = u32::from_le_bytes(draw.try_into().unwrap()) as usize;
                let len = match draw % 5 {
                    0 => draw / 8 % 20,
                    1 => draw / 8 % 5000,
                    2 | 3 => draw / 8 % 70_000,
                    _ => draw / 8 % 300_000,
                };
                let end = bytes.len().min(at + len);
                if (draw / 8).is_multiple_of(3) {
                    writer.write_shared(whole.slice(at..end)).await.unwrap();
                } else {
                    writer.write(&bytes[at..end]).await.unwrap();
                }
                if draw / 8 % 7 < 2 {
                    writer.send_now();
                }
                at = end;
                if at == bytes.len() {
                    break;
                }
            }
            assert_eq!(at, bytes.len());
            writer.finish().await
        };
        let reads = async {
            let (mut at, mut kept) = (0, VecDeque::new());
            let mut draws = draws.iter().cycle();
            while let Some(piece) = body.next().await.unwrap() {
                assert!(*piece == bytes[at..at + piece.len()], "changed at {at}");
                at += piece.len();
                kept.push_back(piece);
                let draw = draws.next().unwrap();
                if kept.len() > usize::from(draw % 3) {
                    kept.drain(..kept.len() / 2 + 1);
                }
                if draw.is_multiple_of(16) {
                    pause(&pair.client, Duration::from_micros(u64::from(*draw))).await;
                }
            }
            at
        };
        let (written, read) = join(writes, reads).await;
        assert_eq!((written, read), (Ok(bytes.len() as u64), bytes.len()));
    });
}
