use std::io::{self, IoSlice, IoSliceMut};

use proptest::prelude::*;

use super::*;
use crate::frame::{FrameError, frame_len};
use crate::handshake::{BODIES, LARGE};
use crate::identity::{Incarnation, NodeId};
use crate::limits::{MESSAGE_MAX, SEND_AHEAD_MAX};
use crate::memory::MemoryConfig;
use crate::session::receives::Messages;

fn hello() -> Vec<u8> {
    let (node, incarnation) = (NodeId(1), Incarnation(1));
    let features = LARGE | BODIES;
    Hello { node, incarnation, features, windows: Windows::default(), secret: None }.encode()
}

fn frame(kind: Kind, class: Class, body: &[u8]) -> Vec<u8> {
    let header = Header { len: body.len() as u32, kind, class, more: false, id: 0 };
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(body);
    bytes.resize(frame_len(body.len()), 0);
    bytes
}

/// Nothing is sent here.
struct NoLink;

impl Transfer for NoLink {
    fn send(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        unreachable!("nothing is sent")
    }

    fn receive(&self, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        unreachable!("the test moves the bytes")
    }

    fn finish_connect(&self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&self) {}

    fn shutdown(&self) {}
}

/// Feeds `bytes` to a session in chunks, as a reactor would, and returns the bodies of what came
/// out, or why the connection would be closed.
fn feed(bytes: &[u8], chunks: &[usize]) -> Result<Vec<Vec<u8>>, CloseReason> {
    let memory = Memory::new(MemoryConfig { limit_bytes: 16 << 20 }).unwrap();
    let session = Session::new(&Windows::default(), Messages::Handled);
    let mut inbound = Inbound::new();
    let mut bodies = Vec::new();
    let (mut rest, mut chunks) = (bytes, chunks.iter().cycle());
    while !rest.is_empty() {
        let chunk = (*chunks.next().expect("a cycle")).clamp(1, rest.len().min(60_000));
        let (now, later) = rest.split_at(chunk);
        rest = later;
        let (mut wakers, mut frames, mut hello) = (Vec::new(), Vec::new(), None);
        let (mut replied, mut grant_due) = (false, false);
        let mut delivery = Delivery {
            session: &session,
            link: &NoLink,
            memory: &memory,
            wakers: &mut wakers,
            frames: &mut frames,
            landed: &mut Vec::new(),
            left: &mut None,
            hello: &mut hello,
            replied: &mut replied,
            grant_due: &mut grant_due,
        };
        let mut scratch = memory.allocate(64 << 10, Purpose::Receive).unwrap();
        let front = inbound.copy_carry(&mut scratch);
        let own = inbound.fill(now);
        let now = &now[own..];
        scratch[front..front + now.len()].copy_from_slice(now);
        let end = front + now.len();
        if own > 0
            && let Some(block) = inbound.handle_filled(own, &mut delivery)?
        {
            bodies.extend(delivery.frames.drain(..).map(|f| block[f.body].to_vec()));
        }
        let buffer = scratch.freeze();
        inbound.handle_bytes(&buffer, 0..end, &mut delivery)?;
        bodies.extend(frames.drain(..).map(|frame| buffer[frame.body].to_vec()));
    }
    Ok(bodies)
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => proptest::collection::vec(any::<u8>(), 0..200),
        2 => (0usize..100_000, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
    ]
}

proptest! {
    #[test]
    fn frames_come_out_whole_however_they_are_cut(
        bodies in proptest::collection::vec(body(), 1..20),
        chunks in proptest::collection::vec(1usize..50_000, 1..20),
    ) {
        let mut bytes = hello();
        for body in &bodies {
            bytes.extend(frame(Kind::Message, Class::Request, body));
        }
        prop_assert!(feed(&bytes, &chunks) == Ok(bodies));
    }

    #[test]
    fn garbage_never_panics(
        greet: bool,
        garbage in proptest::collection::vec(any::<u8>(), 0..2000),
        kind in 0u8..20,
        chunk in 1usize..100,
    ) {
        let mut bytes = if greet { hello() } else { Vec::new() };
        let start = bytes.len();
        bytes.extend(garbage);
        // Some of it looks like a frame at first.
        if let Some(byte) = bytes.get_mut(start + 4) {
            *byte = kind;
        }
        let _ = feed(&bytes, &[chunk]);
    }

    #[test]
    fn a_mutated_conversation_never_panics(
        bodies in proptest::collection::vec(body(), 1..5),
        mutations in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..10),
    ) {
        let mut bytes = hello();
        for body in &bodies {
            bytes.extend(frame(Kind::Request, Class::Request, body));
            bytes.extend(frame(Kind::Credit, Class::Request, b""));
            bytes.extend(frame(Kind::Reply, Class::Reply, body));
        }
        for (at, byte) in mutations {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let _ = feed(&bytes, &[7000]);
    }
}

#[test]
fn nothing_but_a_hello_may_come_first() {
    let bytes = frame(Kind::Request, Class::Request, b"too early");
    assert_eq!(feed(&bytes, &[1000]), Err(CloseReason::Violation("no hello first")));
    let twice = [hello(), hello()].concat();
    assert_eq!(feed(&twice, &[1000]), Err(CloseReason::Violation("a second hello")));
}

#[test]
fn a_frame_of_4_gib_is_refused_at_its_header() {
    let mut bytes = hello();
    let start = bytes.len();
    bytes.extend(frame(Kind::Request, Class::Request, b""));
    bytes[start..start + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = FrameError::TooLong { len: u32::MAX, limit: MESSAGE_MAX };
    assert_eq!(feed(&bytes, &[1000]), Err(CloseReason::Frame(error)));
}

#[test]
fn a_peer_that_sends_more_than_its_window_is_cut_off() {
    let mut bytes = hello();
    let message = frame(Kind::Message, Class::Request, &vec![0; MESSAGE_MAX]);
    for _ in 0..4 {
        bytes.extend_from_slice(&message);
    }
    assert_eq!(feed(&bytes, &[60_000]), Err(CloseReason::WindowExceeded));
}

#[test]
fn a_window_may_be_filled_to_its_last_byte_and_nothing_that_takes_it_may_come_behind() {
    let requests = [Kind::Message, Kind::Request, Kind::OpenMessage, Kind::OpenRequest];
    let replies = [Kind::Reply, Kind::Unanswered, Kind::OpenReply];
    let behind = [
        (Class::Request, Kind::Request, &requests[..]),
        (Class::Replication, Kind::Message, &requests),
        (Class::Reply, Kind::Reply, &replies),
    ];
    for (class, filling, behind) in behind {
        let longest = frame(filling, class, &vec![0; MESSAGE_MAX]);
        let window = Windows::default().of(class) as usize;
        let fill = |left: usize| {
            let mut bytes = hello();
            for _ in 0..window / longest.len() {
                bytes.extend_from_slice(&longest);
            }
            let rest = window % longest.len() - frame_len(left);
            bytes.extend(frame(filling, class, &vec![0; rest]));
            bytes
        };
        assert!(feed(&fill(0), &[60_000]).is_ok(), "{class:?}");
        // Frames are of multiples of 8 bytes, so that is the least that one can be too long by.
        let bytes = fill(8);
        for &kind in behind {
            let beyond = [&bytes[..], &frame(kind, class, b"")].concat();
            let ended = feed(&beyond, &[60_000]);
            assert_eq!(ended, Err(CloseReason::WindowExceeded), "{class:?}, {kind:?}");
        }
    }
}

#[test]
fn a_grant_for_what_was_never_sent_is_refused() {
    let mut bytes = hello();
    let mut grant = frame(Kind::Credit, Class::Request, b"");
    grant[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    bytes.extend(grant);
    let reason = CloseReason::Violation("window granted for what was never sent");
    assert_eq!(feed(&bytes, &[1000]), Err(reason));
}

#[test]
fn no_more_of_a_window_is_used_than_may_wait_for_one_peer() {
    let generous = Windows { reply: 64 << 20, ..Windows::default() };
    let session = Session::new(&Windows::default(), Messages::Handled);
    session.open(&generous, 0);
    assert_eq!(session.send_credit.room(Class::Reply), SEND_AHEAD_MAX);
    session.send_credit.try_reserve(Class::Reply, 1 << 20);
    session.grant(Class::Reply, (64 << 20) + (1 << 20), 64 << 20, &mut Vec::new());
    assert_eq!(session.send_credit.room(Class::Reply), SEND_AHEAD_MAX);
}
