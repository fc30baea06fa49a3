//! Bodies that are too long for one frame, on every link.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use weft_transport::limits::{CHUNK_BYTES, LARGE_MAX, MESSAGE_MAX};
use weft_transport::{
    Applied, Batch, Body, CallError, CloseReason, Connection, Endpoint, Handler, IncomingKind,
    LinkKind, Memory, MemoryConfig, Purpose, Shared, Time,
};

use super::SECOND;
use super::world::{Echo, Keeper, Silent, World};

/// Bytes that differ with `seed`, and from their neighbours far and near.
pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes.extend_from_slice(&(state >> 8).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Memory with the bytes of `pattern` in it.
pub(crate) fn shared(memory: &Memory, bytes: &[u8]) -> Shared {
    let mut block = memory.allocate(bytes.len(), Purpose::Log).unwrap();
    block.mark_touched(bytes.len());
    block[..bytes.len()].copy_from_slice(bytes);
    block.freeze().slice(0..bytes.len())
}

pub(crate) async fn pause(endpoint: &Endpoint, time: Duration) {
    endpoint.sleep_until(endpoint.clock().now() + time).await;
}

/// Waits until `is_so`.
pub(crate) async fn until(world: &World, endpoint: &Endpoint, is_so: impl Fn() -> bool) {
    let deadline = world.deadline();
    while !is_so() {
        assert!(world.now() < deadline, "it never becomes so");
        pause(endpoint, SECOND / 200).await;
    }
}

/// What an endpoint holds for bodies, in bytes.
pub(crate) fn held(endpoint: &Endpoint) -> u64 {
    let account = endpoint.memory().account();
    account.allocated_for(Purpose::Send) + account.allocated_for(Purpose::Receive)
}

pub(crate) async fn echoes(connection: &Connection, body: &[u8], deadline: Time) {
    let reply = connection.call(body, deadline).await.unwrap();
    assert!(*reply == *body, "{} bytes came back changed", body.len());
}

pub(crate) fn large_bodies_arrive_whole(world: &World) {
    let server = world.node(1, Arc::new(Echo));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let mut sizes =
            vec![MESSAGE_MAX + 1, MESSAGE_MAX + 7, 24 * CHUNK_BYTES, 2 * MESSAGE_MAX + 12_345];
        if !world.is_simulated() {
            sizes.extend([9_999_999, 16 << 20, LARGE_MAX - 1, LARGE_MAX]);
        }
        for size in sizes {
            echoes(&connection, &pattern(size, size as u64), world.deadline()).await;
        }
    });
}

/// Keeps copies of messages; to a call, replies how many there are.
#[derive(Default)]
struct Collector {
    bodies: Mutex<Vec<Vec<u8>>>,
}

impl Handler for Collector {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let mut bodies = self.bodies.lock().unwrap();
            match incoming.kind {
                IncomingKind::Message => bodies.push(incoming.body.to_vec()),
                IncomingKind::Call(call) => batch.reply(call, &bodies.len().to_le_bytes()),
            }
        }
    }
}

pub(crate) fn large_messages_arrive_whole_and_from_where_they_lie(world: &World) {
    let collector = Arc::new(Collector::default());
    let server = world.node(1, Arc::clone(&collector) as _);
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let before = client.stats().bodies_gathered;
        let (head, body) = (pattern(1001, 1), pattern(3 * MESSAGE_MAX + 5, 2));
        let tail = shared(client.memory(), &body);
        connection.send_shared(&head[..], tail.clone()).await.unwrap();
        connection.send_shared(&b""[..], tail.clone()).await.unwrap();
        connection.send(&body[..]).await.unwrap();
        let count = || collector.bodies.lock().unwrap().len();
        until(world, &client, || count() == 3 && tail.holders() == 1).await;
        let mut bodies = std::mem::take(&mut *collector.bodies.lock().unwrap());
        bodies.sort_by_key(Vec::len);
        assert!(bodies[0] == body && bodies[1] == body && bodies[2] == [head, body].concat());
        assert_eq!(client.stats().bodies_gathered, before + 2);
    });
}

/// Replies in parts of the lengths that the beginning of the request says, some of them gathered.
struct PartsOf {
    bytes: Shared,
}

impl Handler for PartsOf {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            let lens = incoming.body[..incoming.body.len().min(64)]
                .chunks(4)
                .map(|len| u32::from_le_bytes(len.try_into().unwrap()));
            let count = lens.len();
            for (at, len) in lens.enumerate() {
                let part = self.bytes.slice(at..at + len as usize);
                match (at + 1 < count, at % 2 == 0) {
                    (true, true) => batch.reply_part(call, &part[..]),
                    (true, false) => batch.reply_part_shared(call, &part[..0], part.clone()),
                    (false, true) => batch.reply(call, &part[..]),
                    (false, false) => batch.reply_shared(call, &part[..0], part.clone()),
                }
            }
        }
    }
}

pub(crate) fn parts_of_a_large_reply_come_in_order(world: &World) {
    let bytes = pattern(4 << 20, 3);
    let memory = Memory::new(MemoryConfig { limit_bytes: 8 << 20 }).unwrap();
    let whole = shared(&memory, &bytes);
    let server = world.node(1, Arc::new(PartsOf { bytes: whole.clone() }));
    let client = world.client();
    let large = MESSAGE_MAX as u32 + 1;
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        for lens in [
            &[1, large, 5, 2 * large, 0][..],
            &[large, 0, 70_000, 3],
            &[large + 9, large],
            &[17, 2 * large],
        ] {
            let body: Vec<u8> = lens.iter().flat_map(|len: &u32| len.to_le_bytes()).collect();
            let mut replies = connection.call_streamed(&body[..], world.deadline()).await.unwrap();
            for (at, len) in lens.iter().enumerate() {
                let part = replies.next().await.unwrap().unwrap();
                assert!(*part == bytes[at..at + *len as usize], "part {at} of {lens:?}");
            }
            assert!(replies.next().await.is_none());
        }
        until(world, &client, || whole.holders() == 2).await;
    });
}

pub(crate) fn many_large_bodies_at_once_arrive_whole(world: &World) {
    let server = world.node(1, Arc::new(Echo));
    let client = world.client();
    let connect = || client.connect(server.address, world.deadline());
    let connection = world.run(connect()).unwrap();
    let deadline = world.deadline();
    let many = |first: u64| {
        let connection = connection.clone();
        let calls = (first..first + 10).map(move |seed| {
            let connection = connection.clone();
            async move {
                let len = MESSAGE_MAX + 1 + seed as usize * 77_777;
                echoes(&connection, &pattern(len, seed), deadline).await;
                echoes(&connection, &pattern(1000, seed), deadline).await;
            }
        });
        join_all(calls)
    };
    if world.is_simulated() {
        world.run(many(0));
        return;
    }
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (client, calls) = (client.clone(), &many);
            scope.spawn(move || client.block_on(calls(thread * 10)));
        }
    });
}

/// A small call waits for no more of a large body than is granted at a time, which is 128 KiB, or read at a time over
/// verbs, which is 256: while one goes there and back, small ones are answered in proportion to its length.
pub(crate) fn small_calls_go_on_beside_a_large_one(world: &World) {
    let server = world.node(1, Arc::new(Echo));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let body = pattern(if world.is_simulated() { 4 << 20 } else { 32 << 20 }, 5);
        let part = if world.link() == LinkKind::Verbs { 256 << 10 } else { 128 << 10 };
        // Half as many as there are parts of that size in one direction.
        let expected = body.len() / (2 * part);
        let mut most = 0;
        // A thread that is kept from running for a moment misses many. Whoever had to wait would do so each time.
        for _ in 0..10 {
            let mut large = std::pin::pin!(echoes(&connection, &body, world.deadline()));
            let mut answered = 0;
            loop {
                let small = std::pin::pin!(echoes(&connection, b"small", world.deadline()));
                match select(large, small).await {
                    Either::Left(_) => break,
                    Either::Right(((), rest)) => large = rest,
                }
                answered += 1;
            }
            most = most.max(answered);
            if most >= expected {
                return;
            }
        }
        panic!(
            "no more than {most} small calls were answered meanwhile, where {expected} could be"
        );
    });
}

pub(crate) fn both_sides_can_flood_each_other_with_large_bodies(world: &World) {
    let nodes = [world.node(1, Arc::new(Echo)), world.node(2, Arc::new(Echo))];
    let count = if world.is_simulated() { 6 } else { 30 };
    world.run(async {
        let flood = |from: usize| {
            let (nodes, world) = (&nodes, world);
            async move {
                let (from, to) = (&nodes[from], &nodes[1 - from]);
                let connection = from.endpoint.connect(to.address, world.deadline()).await.unwrap();
                let body = pattern(MESSAGE_MAX + 123_457, from.endpoint.node().0);
                let calls = (0..count).map(|_| echoes(&connection, &body, world.deadline()));
                let small = (0..100).map(|_| echoes(&connection, b"small", world.deadline()));
                futures_util::join!(join_all(calls), join_all(small));
            }
        };
        futures_util::join!(flood(0), flood(1));
    });
}

/// Lets `call` go on for a moment, and drops it.
async fn give_up(client: &Endpoint, call: impl Future, after: Duration) {
    select(std::pin::pin!(call), std::pin::pin!(pause(client, after))).await;
}

pub(crate) fn a_large_call_that_is_given_up_frees_its_memory(world: &World) {
    let reply_len = if world.is_simulated() { 3 << 20 } else { 30 << 20 };
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
    let whole = shared(&memory, &pattern(reply_len + 64, 6));
    let server = world.node(1, Arc::new(PartsOf { bytes: whole.clone() }));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let few = [1u8, 0, 0, 0];
        connection.call(&few, world.deadline()).await.unwrap();
        let before = (held(&client), held(&server.endpoint));
        let request = vec![0; reply_len / 3 + MESSAGE_MAX];
        let reply = (reply_len as u32).to_le_bytes();
        for after in [0, 1, 3, 10, 30].map(|steps| steps * SECOND / 5000) {
            give_up(&client, connection.call(&request[..], world.deadline()), after).await;
            give_up(&client, connection.call(&reply, world.deadline()), after).await;
            // The connection lives, and has room for others.
            connection.call(&few, world.deadline()).await.unwrap();
        }
        until(world, &client, || whole.holders() == 2).await;
        // Receive buffers and lanes of a usual size may have come or gone.
        let usual = 2 << 20;
        until(world, &client, || {
            held(&client) <= before.0 + usual && held(&server.endpoint) <= before.1 + usual
        })
        .await;
        assert!(connection.is_open());
    });
}

pub(crate) fn a_large_call_ends_at_its_deadline(world: &World) {
    let server = world.node(1, Arc::new(Silent));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let deadline = client.clock().now() + SECOND / 10;
        let body = vec![1; 3 << 20];
        let calls = (0..20).map(|_| connection.call(&body[..], deadline));
        for result in join_all(calls).await {
            let error = result.unwrap_err();
            assert!(matches!(error, CallError::DeadlineExceeded { .. }), "{error}");
        }
        assert!(client.clock().now() >= deadline);
        until(world, &client, || held(&client) < 2 << 20).await;
        assert!(connection.is_open());
    });
}

pub(crate) fn a_request_that_never_fits_is_refused(world: &World) {
    let server = world.node_with_memory(1, Arc::new(Echo), 8 << 20);
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let body = pattern(3 << 20, 7);
        let error = connection.call(&body[..], world.deadline()).await.unwrap_err();
        assert_eq!(error, CallError::PeerMemory);
        assert_eq!(error.applied(), Applied::No);
        echoes(&connection, &pattern(MESSAGE_MAX + 1, 8), world.deadline()).await;
        let sent = connection.send(&body[..]).await;
        assert_eq!(sent, Ok(()));
        until(world, &client, || !connection.is_open()).await;
        let error = connection.call(b"x", world.deadline()).await.unwrap_err();
        let CallError::Disconnected { reason: CloseReason::Goodbye(goodbye), .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(goodbye.code, 14);
    });
}

pub(crate) fn a_reply_that_never_fits_fails_its_call_only(world: &World) {
    let memory = Memory::new(MemoryConfig { limit_bytes: 8 << 20 }).unwrap();
    let bytes = shared(&memory, &pattern(4 << 20, 9));
    let server = world.node(1, Arc::new(PartsOf { bytes: bytes.clone() }));
    let client = world.client_with_memory(8 << 20);
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let len = (3u32 << 20).to_le_bytes();
        let error = connection.call(&len, world.deadline()).await.unwrap_err();
        assert_eq!(error, CallError::ReplyMemory);
        assert_eq!(error.applied(), Applied::Maybe);
        let reply = connection.call(&(1_500_000u32).to_le_bytes(), world.deadline()).await.unwrap();
        assert!(*reply == bytes[..1_500_000]);
        until(world, &client, || bytes.holders() == 2).await;
    });
}

/// Longer than any reply may be. Nobody asks for its bytes.
struct TooLong;

impl Body for TooLong {
    fn len(&self) -> usize {
        LARGE_MAX + 1
    }

    fn write(self, _: &mut [u8]) {
        panic!("it is refused for its length");
    }
}

/// Replies to some requests with more than a reply may have, in each of the ways in which that can be given.
struct Overlong {
    tail: Shared,
}

impl Handler for Overlong {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            match incoming.body {
                b"whole" => batch.reply(call, TooLong),
                b"shared" => batch.reply_shared(call, TooLong, self.tail.clone()),
                b"part" => batch.reply_part(call, TooLong),
                b"after a part" => {
                    batch.reply_part(call, b"part");
                    batch.reply(call, TooLong);
                }
                body => batch.reply(call, body),
            }
        }
    }
}

pub(crate) fn a_reply_that_is_too_long_fails_its_call_only(world: &World) {
    let memory = Memory::new(MemoryConfig { limit_bytes: 8 << 20 }).unwrap();
    let server = world.node(1, Arc::new(Overlong { tail: shared(&memory, &[7; 100]) }));
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let ways: [&[u8]; 4] = [b"whole", b"shared", b"part", b"after a part"];
        for way in ways {
            let error = match connection.call_streamed(way, world.deadline()).await {
                Ok(mut replies) => loop {
                    match replies.next().await {
                        Some(Ok(part)) => assert_eq!((way, &*part), (ways[3], &b"part"[..])),
                        Some(Err(error)) => break error,
                        None => panic!("it ends with an error"),
                    }
                },
                Err(error) => panic!("{error}"),
            };
            assert_eq!(error, CallError::Unanswered);
            echoes(&connection, b"small", world.deadline()).await;
        }
        assert!(connection.is_open());
    });
}

pub(crate) fn large_messages_wait_while_there_is_no_memory_for_them(world: &World) {
    const LEN: usize = 3 << 20;
    let kept = Arc::new(Keeper::default());
    let server = world.node_with_memory(1, Arc::clone(&kept) as _, 16 << 20);
    let client = world.client();
    world.run(async {
        let connection = client.connect(server.address, world.deadline()).await.unwrap();
        let mut sent = 0;
        loop {
            let body = pattern(LEN, sent);
            let send = std::pin::pin!(connection.send(&body[..]));
            let wait = std::pin::pin!(pause(&client, SECOND / 2));
            match select(send, wait).await {
                Either::Left((result, _)) => result.unwrap(),
                Either::Right(_) => break,
            }
            sent += 1;
            assert!(sent < 20, "nothing holds the sender back");
        }
        let mut arrived = Vec::new();
        let deadline = world.deadline();
        while arrived.len() < sent as usize {
            assert!(world.now() < deadline, "{} of {sent} arrived", arrived.len());
            arrived.extend(kept.kept.lock().unwrap().drain(..).map(|message| message.to_vec()));
            pause(&client, SECOND / 100).await;
        }
        arrived.sort();
        let mut expected: Vec<_> = (0..sent).map(|seed| pattern(LEN, seed)).collect();
        expected.sort();
        assert!(arrived == expected);
        assert!(connection.is_open());
    });
}
