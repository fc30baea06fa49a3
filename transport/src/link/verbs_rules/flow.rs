//! Flow control of a stream over verbs: what one end may write into the ring of the other, and what it
//! believes of what the other says.
//!
//! Each end has a ring of memory that the other writes into by itself (as rsockets has it), and posts receives, of which every
//! message takes one. A message is the next stretch of bytes, which begins where the one before it ended, or it
//! is empty. Nobody writes over bytes that have not been read, or sends what no receive is posted for:
//! whoever reads tells in the 32 bits that each message carries how far it is. Where nothing goes back by itself, an
//! empty message does. That takes a receive too, so the last [`RESERVE`] are kept for those.

/// Receives that an end posts.
pub(in crate::link) const RECEIVES: u32 = 64;

/// How many of them bytes may not use: for the probe, for the end, and for what a window of bytes brings back, which is an
/// empty message a third of the others, and one a quarter of the ring.
pub(in crate::link) const RESERVE: u32 = 16;

/// How many receives are posted again before the peer is told by a message of its own. Credit alone never uses as many up:
/// it only comes for bytes, and those have told of it.
const RETURN_AT: u64 = (RECEIVES - RESERVE) as u64 / 3;

/// The fewest receives that a peer may have: bytes have room beyond the reserve.
pub(in crate::link) const RECEIVES_MIN: u32 = 2 * RESERVE;

/// The most that are used of a peer's: half of what positions of them can tell apart.
pub(in crate::link) const RECEIVES_MAX: u32 = (RECEIVE_POSITIONS / 2) as u32;

/// The smallest ring that a peer may have, in bytes.
pub(in crate::link) const RING_BYTES_MIN: u32 = 4 << 10;

/// The largest, in bytes: half of what positions in it can tell apart.
pub(in crate::link) const RING_BYTES_MAX: u32 = (BYTE_POSITIONS / 2 * UNIT) as u32;

/// What has been read is told in units of so many bytes; lengths of rings are multiples of it.
pub(in crate::link) const UNIT: u64 = 64;

/// Positions of receives are told modulo this.
const RECEIVE_POSITIONS: u64 = 1 << 10;

/// Positions of units that have been read are told modulo this.
const BYTE_POSITIONS: u64 = 1 << 20;

/// What a message is for; the two highest bits of what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) enum Kind {
    /// The next bytes of the stream, which its sender has written into the ring.
    Bytes,
    /// Nothing but credit.
    Credit,
    /// Nothing, and no bytes come after it. Credit may.
    End,
}

/// A message, as the device tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) struct Message {
    /// Bytes that were written.
    pub(in crate::link) len: usize,
    /// The 32 bits that it carries, if it does.
    pub(in crate::link) immediate: Option<u32>,
}

/// What the peer has done that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::link) struct Violation(pub(in crate::link) &'static str);

/// One end's counts of both directions. They only grow; what is told of them goes in a circle.
#[derive(Debug)]
pub(in crate::link) struct Flow {
    /// Bytes of the peer's ring; none before it has been met.
    ring: u64,
    /// Receives that the peer has posted for us.
    receives: u64,
    /// Bytes that we have written.
    written: u64,
    /// Units of them that the peer has said to have read.
    read: u64,
    /// Messages that we have sent.
    sent: u64,
    /// Those of them that the peer has posted receives for again.
    returned: u64,
    /// We have said that no bytes come any more.
    ended: bool,

    /// Bytes of our ring.
    own: u64,
    /// Bytes that the peer has written.
    arrived: u64,
    /// Those of them that have been read.
    consumed: u64,
    /// Up to where the peer has been told so.
    told: u64,
    /// Messages that have come and whose receives are to be posted again.
    taken: u64,
    /// Receives that have been posted again.
    posted: u64,
    /// Those of them that the peer has not been told of.
    untold: u64,
    /// The peer has said that no bytes come any more.
    peer_ended: bool,
}

impl Flow {
    /// Of an end with a ring of `own` bytes, that has yet to meet its peer.
    pub(in crate::link) fn new(own: u32) -> Self {
        Self {
            ring: 0,
            receives: 0,
            written: 0,
            read: 0,
            sent: 0,
            returned: 0,
            ended: false,
            own: own.into(),
            arrived: 0,
            consumed: 0,
            told: 0,
            taken: 0,
            posted: 0,
            untold: 0,
            peer_ended: false,
        }
    }

    /// The peer has a ring of so many bytes, and has posted so many receives.
    pub(in crate::link) fn meet(&mut self, ring: u32, receives: u32) {
        (self.ring, self.receives) = (ring.into(), receives.into());
    }

    /// How many bytes may be written now.
    pub(in crate::link) fn room(&self) -> usize {
        if self.ended {
            return 0;
        }
        (self.ring - (self.written - self.read * UNIT)) as usize
    }

    /// In how many messages.
    pub(in crate::link) fn messages(&self) -> usize {
        let bound = self.receives.saturating_sub(RESERVE.into());
        bound.saturating_sub(self.sent - self.returned) as usize
    }

    /// Where in the peer's ring the byte goes that is `ahead` from the next, and how many there are from there to the
    /// end of the ring.
    pub(in crate::link) fn place(&self, ahead: usize) -> (u64, usize) {
        let offset = (self.written + ahead as u64) % self.ring;
        (offset, (self.ring - offset) as usize)
    }

    /// Counts `len` bytes as written by a message. Returns the 32 bits that it carries.
    pub(in crate::link) fn write(&mut self, len: usize) -> u32 {
        debug_assert!(
            len > 0 && len <= self.room(),
            "only as much is written as there is room for"
        );
        self.written += len as u64;
        self.tell(Kind::Bytes)
    }

    /// Whether an empty message may be sent.
    pub(in crate::link) fn has_reserve(&self) -> bool {
        self.sent - self.returned < self.receives
    }

    /// Counts an empty message as sent. Returns the 32 bits that it carries.
    pub(in crate::link) fn send_empty(&mut self, kind: Kind) -> u32 {
        self.ended |= kind == Kind::End;
        self.tell(kind)
    }

    fn tell(&mut self, kind: Kind) -> u32 {
        debug_assert!(self.has_reserve(), "no message is sent without a receive for it");
        self.sent += 1;
        (self.untold, self.told) = (0, self.consumed);
        let receives = (self.posted % RECEIVE_POSITIONS) as u32;
        let units = (self.consumed / UNIT % BYTE_POSITIONS) as u32;
        (kind as u32) << 30 | receives << 20 | units
    }

    /// Takes in a message of the peer's.
    ///
    /// # Errors
    /// What cannot be: then the stream is of no use any more.
    pub(in crate::link) fn hear(&mut self, message: Message) -> Result<Kind, Violation> {
        let Message { len, immediate } = message;
        let immediate = immediate.ok_or(Violation("a message says nothing"))?;
        let kind = match immediate >> 30 {
            0 => Kind::Bytes,
            1 => Kind::Credit,
            2 => Kind::End,
            _ => return Err(Violation("a message is of no known kind")),
        };
        self.hear_positions(immediate)?;
        let len = len as u64;
        match kind {
            Kind::Bytes if len == 0 => {
                return Err(Violation("bytes are announced and none are there"));
            }
            Kind::Bytes if self.peer_ended => return Err(Violation("bytes come after the end")),
            Kind::Bytes if len > self.own - (self.arrived - self.consumed) => {
                return Err(Violation("bytes are written over others that have not been read"));
            }
            Kind::Credit | Kind::End if len > 0 => return Err(Violation("bytes come unannounced")),
            Kind::End if self.peer_ended => return Err(Violation("the end comes twice")),
            Kind::Bytes | Kind::Credit => {}
            Kind::End => self.peer_ended = true,
        }
        self.arrived += len;
        self.taken += 1;
        Ok(kind)
    }

    /// The peer says how far it is.
    fn hear_positions(&mut self, immediate: u32) -> Result<(), Violation> {
        let bits = u64::from(immediate);
        let receives = (bits >> 20).wrapping_sub(self.returned) % RECEIVE_POSITIONS;
        let units = (bits % BYTE_POSITIONS).wrapping_sub(self.read) % BYTE_POSITIONS;
        if receives > self.sent - self.returned {
            return Err(Violation("more receives are posted again than were used"));
        }
        if units > self.written / UNIT - self.read {
            return Err(Violation("more bytes have been read than were written"));
        }
        self.returned += receives;
        self.read += units;
        Ok(())
    }

    /// How many receives are to be posted again now: they count as posted from here on.
    pub(in crate::link) fn post_again(&mut self) -> u32 {
        let count = std::mem::take(&mut self.taken);
        self.posted += count;
        self.untold += count;
        u32::try_from(count).expect("no more come than are posted")
    }

    /// How many bytes have come and not been read.
    pub(in crate::link) fn ready(&self) -> usize {
        (self.arrived - self.consumed) as usize
    }

    /// Where in our ring the bytes lie that are to be read next, and how many there are in one piece.
    pub(in crate::link) fn unread(&self) -> (usize, usize) {
        let offset = self.consumed % self.own;
        let there = (self.arrived - self.consumed).min(self.own - offset);
        (offset as usize, there as usize)
    }

    /// So many of them have been read.
    pub(in crate::link) fn consume(&mut self, len: usize) {
        debug_assert!(len <= self.unread().1, "only what has arrived is read");
        self.consumed += len as u64;
    }

    /// Whether the peer has said that no bytes come any more; what has come may not have been read.
    pub(in crate::link) fn has_peer_ended(&self) -> bool {
        self.peer_ended
    }

    /// Whether the peer is to be told how far we are, with a message of its own if there is no other.
    pub(in crate::link) fn is_return_due(&self) -> bool {
        let is_due = self.untold >= RETURN_AT || self.consumed - self.told >= self.own / 4;
        is_due && self.has_reserve()
    }
}

#[cfg(test)]
mod tests;
