use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// Small, so that its end is often in the middle of a message.
const RING: u32 = 4 << 10;

/// One end with its ring, and what is on its way to it.
struct End {
    flow: Flow,
    ring: Vec<u8>,
    coming: VecDeque<(Message, u64, Vec<u8>)>,
    /// Receives that are posted.
    receives: u32,
    written: u64,
    read: u64,
}

fn byte(position: u64) -> u8 {
    (position.wrapping_mul(31) >> 3) as u8
}

impl End {
    fn new() -> Self {
        let mut flow = Flow::new(RING);
        flow.meet(RING, RECEIVES);
        let (ring, coming) = (vec![0; RING as usize], VecDeque::new());
        Self { flow, ring, coming, receives: RECEIVES, written: 0, read: 0 }
    }

    /// A message goes to `peer`, with these bytes for its ring.
    fn send(peer: &mut Self, immediate: u32, offset: u64, bytes: Vec<u8>) {
        let message = Message { len: bytes.len(), immediate: Some(immediate) };
        peer.coming.push_back((message, offset, bytes));
        assert!(peer.coming.len() as u32 <= peer.receives, "more than was posted");
    }

    fn write(&mut self, peer: &mut Self, wanted: usize) -> bool {
        if self.flow.messages() == 0 {
            return false;
        }
        let (offset, to_end) = self.flow.place(0);
        let len = wanted.min(self.flow.room()).min(to_end);
        if len == 0 {
            return false;
        }
        let bytes = (self.written..).take(len).map(byte).collect();
        self.written += len as u64;
        Self::send(peer, self.flow.write(len), offset, bytes);
        true
    }

    fn end(&mut self, peer: &mut Self) {
        let immediate = self.flow.send_empty(Kind::End);
        Self::send(peer, immediate, 0, Vec::new());
    }

    /// Takes in what has come; the device writes as it comes.
    fn poll(&mut self, peer: &mut Self) -> bool {
        let mut did = false;
        while let Some((message, offset, bytes)) = self.coming.pop_front() {
            let unread = self.flow.ready();
            for (at, byte) in bytes.iter().enumerate() {
                self.ring[(offset as usize) + at] = *byte;
            }
            self.receives -= 1;
            self.flow.hear(message).unwrap();
            assert!(self.flow.ready() <= RING as usize, "{unread} before");
            did = true;
        }
        self.receives += self.flow.post_again();
        self.tell(peer);
        did
    }

    fn read(&mut self, peer: &mut Self, wanted: usize) -> bool {
        let (offset, there) = self.flow.unread();
        let len = wanted.min(there);
        for at in 0..len {
            assert_eq!(self.ring[offset + at], byte(self.read + at as u64));
        }
        self.flow.consume(len);
        self.read += len as u64;
        self.tell(peer);
        len > 0
    }

    fn tell(&mut self, peer: &mut Self) {
        if self.flow.is_return_due() {
            let immediate = self.flow.send_empty(Kind::Credit);
            Self::send(peer, immediate, 0, Vec::new());
        }
    }
}

/// One end does what it can of `what`; returns whether that was anything.
fn step(ends: &mut [End; 2], who: usize, what: u8, len: usize) -> bool {
    let [one, other] = ends;
    let (me, peer) = if who == 0 { (one, other) } else { (other, one) };
    match what {
        0 => me.write(peer, len),
        1 => me.poll(peer),
        _ => me.read(peer, len),
    }
}

proptest! {
    /// Whatever the order and the lengths: no byte is written over before it was read, no message is sent without a
    /// receive for it, and when everything has been read, both can write again.
    #[test]
    fn bytes_arrive_in_order_and_room_is_never_lost(
        steps in prop::collection::vec((0usize..2, 0u8..3, 1usize..5000), 0..3000),
        small in any::<bool>(),
    ) {
        let mut ends = [End::new(), End::new()];
        for (who, what, len) in steps {
            step(&mut ends, who, what, if small { len % 16 + 1 } else { len });
        }
        while (0..2).any(|who| step(&mut ends, who, 1, 0) || step(&mut ends, who, 2, 5000)) {}
        for who in 0..2 {
            prop_assert_eq!(ends[who].read, ends[1 - who].written);
            prop_assert!(ends[who].flow.messages() > 0);
            // What was read and not told of yet is less than what is told unasked.
            prop_assert!(ends[who].flow.room() as u64 > u64::from(RING) * 3 / 4 - UNIT);
        }
    }

    /// Nothing that a peer says makes an end panic, write beyond the peer's ring, or read beyond its own.
    #[test]
    fn a_peer_that_says_anything_harms_nobody(
        messages in prop::collection::vec(
            (prop_oneof![0usize..2, 0usize..5000, any::<usize>()], any::<Option<u32>>()), 0..200),
        honest in prop::collection::vec(0usize..100, 0..200),
    ) {
        let mut flow = Flow::new(RING);
        flow.meet(RING, RECEIVES);
        for ((len, immediate), write) in messages.into_iter().zip(honest) {
            if write > 0 && flow.room() >= write && flow.messages() > 0 {
                flow.write(write);
            }
            let before = (flow.arrived, flow.consumed);
            if flow.hear(Message { len, immediate }).is_err() {
                prop_assert_eq!((flow.arrived, flow.consumed), before);
            }
            flow.post_again();
            prop_assert!(flow.room() <= RING as usize && flow.messages() <= RECEIVES as usize);
            let (offset, there) = flow.unread();
            prop_assert!(offset + there <= RING as usize);
            flow.consume(there / 2);
        }
    }
}

fn met() -> Flow {
    let mut flow = Flow::new(RING);
    flow.meet(RING, RECEIVES);
    flow
}

fn bytes(len: usize, immediate: u32) -> Message {
    Message { len, immediate: Some(immediate) }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let refused = |flow: &mut Flow, message| flow.hear(message).unwrap_err().0;
    assert_eq!(refused(&mut met(), Message { len: 1, immediate: None }), "a message says nothing");
    assert_eq!(refused(&mut met(), bytes(0, 3 << 30)), "a message is of no known kind");
    assert_eq!(refused(&mut met(), bytes(0, 0)), "bytes are announced and none are there");
    assert_eq!(refused(&mut met(), bytes(7, 1 << 30)), "bytes come unannounced");
    assert_eq!(
        refused(&mut met(), bytes(RING as usize + 1, 0)),
        "bytes are written over others that have not been read"
    );
    assert_eq!(
        refused(&mut met(), bytes(0, 1 << 30 | 1 << 20)),
        "more receives are posted again than were used"
    );
    let mut flow = met();
    flow.write(63);
    assert_eq!(
        refused(&mut flow, bytes(0, 1 << 30 | 1)),
        "more bytes have been read than were written"
    );
    flow.write(1);
    assert_eq!(flow.hear(bytes(0, 1 << 30 | 1)), Ok(Kind::Credit));
    assert_eq!(flow.room(), RING as usize);

    let mut flow = met();
    assert_eq!(flow.hear(bytes(0, 2 << 30)), Ok(Kind::End));
    assert_eq!(flow.hear(bytes(0, 1 << 30)), Ok(Kind::Credit), "credit comes after the end, too");
    assert_eq!(refused(&mut flow, bytes(1, 0)), "bytes come after the end");
    assert_eq!(refused(&mut flow, bytes(0, 2 << 30)), "the end comes twice");
}

#[test]
fn a_ring_that_is_full_of_unread_bytes_takes_no_more() {
    let mut flow = met();
    assert_eq!(flow.hear(bytes(RING as usize, 0)), Ok(Kind::Bytes));
    assert!(flow.hear(bytes(1, 0)).is_err());
    flow.consume(1);
    assert!(flow.hear(bytes(2, 0)).is_err());
    assert_eq!(flow.hear(bytes(1, 0)), Ok(Kind::Bytes));
}

#[test]
fn after_the_end_nothing_is_written_and_the_other_direction_goes_on() {
    let mut ends = [End::new(), End::new()];
    let [one, other] = &mut ends;
    assert!(one.write(other, 100));
    one.end(other);
    assert_eq!(one.flow.room(), 0);
    // Much more than a ring holds, and more messages than there are receives.
    for _ in 0..1000 {
        while other.write(one, 700) {}
        one.poll(other);
        while one.read(other, 300) {}
        other.poll(one);
    }
    assert!(other.written > 100 * u64::from(RING) && one.read == other.written);
    assert!(other.read(one, 200) && other.flow.has_peer_ended());
    assert_eq!(other.read, 100);
}

#[test]
fn single_bytes_in_one_direction_go_on_and_credit_is_not_answered_by_credit() {
    let mut ends = [End::new(), End::new()];
    let [one, other] = &mut ends;
    for _ in 0..1000 {
        while one.write(other, 1) {}
        while other.poll(one) || other.read(one, 100) {}
        one.poll(other);
    }
    assert!(one.written >= 1000 * RETURN_AT, "{} bytes", one.written);
    assert_eq!(one.flow.sent, one.written, "nothing goes there but bytes");
}

#[test]
fn the_end_always_finds_a_receive() {
    let mut ends = [End::new(), End::new()];
    let [one, other] = &mut ends;
    while one.write(other, 1) {}
    one.end(other);
    assert!(other.poll(one));
    assert!(other.flow.has_peer_ended());
}

#[test]
fn one_who_has_not_met_the_peer_can_send_nothing() {
    let flow = Flow::new(RING);
    assert_eq!((flow.room(), flow.messages(), flow.has_reserve()), (0, 0, false));
}
