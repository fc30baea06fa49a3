//! Credits of a connection: nobody is sent more messages than they have posted receives for.
//!
//! Each side posts [`RECEIVES`] receives for a connection. Whoever sends counts its messages, and
//! learns in the 32 bits that every message carries how many receives the peer has posted again.
//! Where nothing goes back by itself, an empty message does. That takes a receive too, so the last
//! [`RESERVE`] are kept for those: what a window of data brings back on its way never needs more.
//! Positions have 30 bits and only grow, in a circle.

/// Receives that a side posts for a connection.
pub(in crate::link) const RECEIVES: u32 = 32;

/// How many of them data may not use.
pub(in crate::link) const RESERVE: u32 = 8;

/// How many receives that data has used are posted again before the peer is told by a message of
/// its own.
const RETURN_AT: u32 = (RECEIVES - RESERVE) / 3;

/// How many receives that data has used are worth a call to post them again when there is nothing else to do: whoever
/// waits for a message that comes does not wait for that.
pub(in crate::link) const POST_AT: u32 = RETURN_AT / 2;

/// How many are posted again at once though there is something else to do. So few that the peer always has room while they are
/// kept, and while as many more as it has not been told of are posted.
pub(in crate::link) const POST_MAX: u32 = RETURN_AT;

const _: () = assert!(POST_MAX + RETURN_AT < RECEIVES - RESERVE);

/// The fewest receives that a peer may have: data has room beyond the reserve.
pub(in crate::link) const RECEIVES_MIN: u32 = 2 * RESERVE;

/// The most that are used of a peer's.
pub(in crate::link) const RECEIVES_MAX: u32 = 1024;

const POSITIONS: u32 = 1 << 30;

/// What a message is for; the two highest bits of what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) enum Kind {
    /// Bytes of the stream.
    Data,
    /// Nothing but credit.
    Credit,
    /// Nothing, and nothing comes after it.
    End,
}

impl Kind {
    /// What the 32 bits of a message say: what it is for, and a position of receives posted again.
    pub(in crate::link) fn of(immediate: u32) -> Option<(Self, u32)> {
        let kind = match immediate / POSITIONS {
            0 => Self::Data,
            1 => Self::Credit,
            2 => Self::End,
            _ => return None,
        };
        Some((kind, immediate % POSITIONS))
    }
}

/// Both directions' counts of one side of a connection.
#[derive(Debug)]
pub(in crate::link) struct Credits {
    /// Receives that the peer has for us.
    theirs: u32,
    /// Messages that we have sent.
    sent: u32,
    /// Those of them that the peer has posted receives for again.
    returned: u32,
    /// Receives that we have posted again.
    posted: u32,
    /// Those of them that data had used, and that the peer has not been told of.
    untold: u32,
}

impl Credits {
    /// Of a connection to a peer that has posted `theirs` receives for us.
    pub(in crate::link) fn new(theirs: u32) -> Self {
        Self { theirs, sent: 0, returned: 0, posted: 0, untold: 0 }
    }

    /// Messages that the peer has not posted receives for again.
    fn outstanding(&self) -> u32 {
        distance(self.returned, self.sent)
    }

    /// How many messages with data may be sent.
    pub(in crate::link) fn room(&self) -> u32 {
        (self.theirs - RESERVE).saturating_sub(self.outstanding())
    }

    /// Whether an empty message may be sent.
    pub(in crate::link) fn has_reserve(&self) -> bool {
        self.outstanding() < self.theirs
    }

    /// Counts a message as sent. Returns the 32 bits that it carries.
    pub(in crate::link) fn send(&mut self, kind: Kind) -> u32 {
        debug_assert!(self.has_reserve(), "no message is sent without a receive for it");
        self.sent = (self.sent + 1) % POSITIONS;
        self.untold = 0;
        kind as u32 * POSITIONS + self.posted
    }

    /// The peer says how many receives it has posted again. Returns false if that cannot be.
    #[must_use]
    pub(in crate::link) fn hear(&mut self, position: u32) -> bool {
        let is_possible = distance(self.returned, position) <= self.outstanding();
        if is_possible {
            self.returned = position;
        }
        is_possible
    }

    /// The receives of `count` messages of that kind have been posted again.
    pub(in crate::link) fn post(&mut self, kind: Kind, count: u32) {
        self.posted = (self.posted + count) % POSITIONS;
        if kind == Kind::Data {
            self.untold += count;
        }
    }

    /// Whether the peer is to be told, with a message of its own if there is no other.
    pub(in crate::link) fn is_return_due(&self) -> bool {
        self.untold >= RETURN_AT && self.has_reserve()
    }
}

/// From `from` to `to`, in the circle of positions.
fn distance(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from) % POSITIONS
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug)]
    struct Side {
        credits: Credits,
        /// Messages on their way to this side.
        coming: VecDeque<u32>,
        /// Data that has come and not been read.
        unread: u32,
        /// Receives that have been read and are yet to be posted again.
        emptied: u32,
    }

    impl Side {
        fn new() -> Self {
            Self { credits: Credits::new(RECEIVES), coming: VecDeque::new(), unread: 0, emptied: 0 }
        }
    }

    /// One side does what it can of `what`; returns whether that was anything.
    fn step(sides: &mut [Side; 2], who: usize, what: u8) -> bool {
        let (me, peer) = match (sides, who) {
            ([one, other], 0) => (one, other),
            ([one, other], _) => (other, one),
        };
        let did = match what {
            0 if me.credits.room() > 0 => {
                peer.coming.push_back(me.credits.send(Kind::Data));
                true
            }
            1 => match me.coming.pop_front() {
                Some(immediate) => {
                    let (kind, position) = Kind::of(immediate).unwrap();
                    assert!(me.credits.hear(position));
                    match kind {
                        Kind::Data => me.unread += 1,
                        kind => me.credits.post(kind, 1),
                    }
                    true
                }
                None => false,
            },
            2 if me.unread > 0 => {
                me.unread -= 1;
                me.emptied += 1;
                if me.emptied == POST_MAX {
                    me.credits.post(Kind::Data, std::mem::take(&mut me.emptied));
                }
                true
            }
            3 if me.emptied >= POST_AT => {
                me.credits.post(Kind::Data, std::mem::take(&mut me.emptied));
                true
            }
            _ => false,
        };
        if me.credits.is_return_due() {
            peer.coming.push_back(me.credits.send(Kind::Credit));
        }
        for side in [me, peer] {
            let used = side.coming.len() as u32 + side.unread + side.emptied;
            assert!(used <= RECEIVES, "more than was posted");
        }
        did
    }

    proptest! {
        /// Whatever the order, nobody is sent more than they have receives for, and when everything
        /// has been read both can send again.
        #[test]
        fn credits_are_neither_overdrawn_nor_lost(
            steps in prop::collection::vec((0usize..2, 0u8..4), 0..4000)
        ) {
            let mut sides = [Side::new(), Side::new()];
            for (who, what) in steps {
                step(&mut sides, who, what);
            }
            while (0..2).any(|who| step(&mut sides, who, 1) || step(&mut sides, who, 2)) {}
            for side in &sides {
                prop_assert!(side.credits.room() > 0);
            }
        }
    }

    #[test]
    fn one_way_data_never_stops_for_want_of_an_empty_message() {
        let mut sides = [Side::new(), Side::new()];
        // Two laps of the circle would take a while; a start near its end does as well.
        for side in &mut sides {
            let near_end = POSITIONS - 50;
            (side.credits.sent, side.credits.returned) = (near_end, near_end);
            side.credits.posted = near_end;
        }
        for _ in 0..1000 {
            while step(&mut sides, 0, 0) {}
            while step(&mut sides, 1, 1) || step(&mut sides, 1, 2) {}
            while step(&mut sides, 0, 1) {}
            assert!(sides[0].credits.room() > 0);
        }
    }

    #[test]
    fn a_position_that_cannot_be_is_refused() {
        let mut credits = Credits::new(RECEIVES);
        assert!(!credits.hear(1));
        credits.send(Kind::Data);
        assert!(credits.hear(1));
        assert!(!credits.hear(0), "positions only grow");
        assert_eq!(Kind::of(u32::MAX), None);
        assert_eq!(Kind::of(2 << 30 | 5), Some((Kind::End, 5)));
    }
}
