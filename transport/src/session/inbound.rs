//! Incoming: from bytes to frames, checked, with replies and credits delivered.
//!
//! Whoever drives the reactor drives this. Frames are read where they were received. One that is
//! cut off by the end of a receive is carried over to the front of the next one if it is short;
//! a long one gets a block of exactly its length, which the rest is received into. The chunks of a
//! large body go where it lands ([`landings`](super::landings)), and messages into buffers that have been
//! posted for them ([`receives`](super::receives)); what is cut is received there straight away, and
//! while such is to be expected, little is received elsewhere. Nothing is allocated before the header
//! has been checked.

mod frames;

use std::ops::Range;
use std::task::Waker;

use super::Session;
use super::departures::ANNOUNCEMENT_COST;
use super::landings::{Landed, Landings};
#[cfg(test)]
use super::ledger::ReceivedBody;
use super::posting::Claim;
use crate::error::CloseReason;
use crate::frame::{Class, HEADER_BYTES, Header, Kind, frame_len, padded};
use crate::handshake::{Hello, Windows};
use crate::limits::{CARRY_MAX, MESSAGE_MAX, PLACED_HEAD_BYTES, PLACED_MIN, RECEIVE_BYTES};
use crate::link::Transfer;
use crate::memory::{Block, Memory, Purpose, Shared};

/// The receiver's half of a session.
#[derive(Debug)]
pub(crate) struct Inbound {
    /// The beginning of a short frame that was cut off.
    carry: Vec<u8>,
    /// A long frame that is being received into its place.
    partial: Option<Partial>,
    landings: Landings,
    greeted: bool,
    /// What the peer granted in its hello.
    windows: Windows,
    /// Bytes received, a class.
    received: [u64; 3],
    /// Frames that have come whole.
    frames: u64,
    /// Bytes of replies that were delivered and are still to be let go of, with all of the same input: an atomic operation.
    let_go: u64,
    /// Where padding goes that has no room behind its body.
    padding: [u8; 8],
}

#[derive(Debug)]
enum Partial {
    /// A frame in a block of its own.
    Frame { block: Block, filled: usize, len: usize },
    /// A body, and its padding, of which the body goes to its place.
    Placed { header: Header, filled: usize, place: Place },
}

/// Where a body goes that does not come in a block of its own.
#[derive(Debug)]
enum Place {
    /// It is a chunk, and goes where that lands.
    Landing,
    /// It is a message, and goes into a posted buffer.
    Posted(Claim),
}

/// What the layer above has to handle: a message or a request in the received bytes.
#[derive(Debug, Clone)]
pub(crate) struct FrameRef {
    pub(crate) kind: Kind,
    pub(crate) class: Class,
    pub(crate) id: u64,
    pub(crate) body: Range<usize>,
}

impl FrameRef {
    /// What the frame costs of its window.
    #[inline]
    pub(crate) fn cost(&self) -> u64 {
        if self.is_large() { ANNOUNCEMENT_COST as u64 } else { frame_len(self.body.len()) as u64 }
    }

    /// Whether it came in chunks.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.body.len() > MESSAGE_MAX
    }
}

/// What a session's receiving half delivers to.
pub(crate) struct Delivery<'a> {
    pub(crate) session: &'a Session,
    /// What may read large bodies from the peer's memory.
    pub(crate) link: &'a dyn Transfer,
    /// What long frames are received into.
    pub(crate) memory: &'a Memory,
    /// Those whose reply or window has come.
    pub(crate) wakers: &'a mut Vec<Waker>,
    /// Messages and requests, with ranges in the bytes that were passed.
    pub(crate) frames: &'a mut Vec<FrameRef>,
    /// Large messages and requests that have come whole.
    pub(crate) landed: &'a mut Vec<Landed>,
    /// The peer's hello, when it comes.
    pub(crate) hello: &'a mut Option<Hello>,
    /// The peer leaves: it will send replies and nothing else.
    pub(crate) left: &'a mut Option<CloseReason>,
    /// Replies were delivered, so the connection is no one-way stream.
    pub(crate) replied: &'a mut bool,
    /// A window has let enough go that a grant is due, or there is something to tell about a transfer.
    pub(crate) grant_due: &'a mut bool,
}

impl Inbound {
    pub(crate) fn new() -> Self {
        Self {
            carry: Vec::new(),
            partial: None,
            landings: Landings::default(),
            greeted: false,
            windows: Windows::default(),
            received: [0; 3],
            frames: 0,
            let_go: 0,
            padding: [0; 8],
        }
    }

    /// If the peer is in the middle of a frame, how many came before it.
    pub(crate) fn unfinished(&self) -> Option<u64> {
        (!self.carry.is_empty() || self.partial.is_some()).then_some(self.frames)
    }

    /// How many frames have come whole.
    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    /// Whether a streamed body is on its way in.
    pub(crate) fn streams(&self) -> bool {
        self.landings.streams()
    }

    /// If streamed bodies have memory, how much of it has been filled so far.
    pub(crate) fn streamed(&self) -> Option<u64> {
        self.landings.streamed()
    }

    /// If the peer is to go on with a large body, how much of such has come.
    pub(crate) fn landing_progress(&self) -> Option<u64> {
        self.landings.progress()
    }

    /// The number of the first transfer that has memory.
    pub(crate) fn oldest_landing(&self) -> Option<u64> {
        self.landings.oldest()
    }

    /// Whether a large body is on its way in.
    pub(crate) fn is_landing(&self) -> bool {
        !self.landings.is_empty()
    }

    #[cfg(test)]
    pub(super) fn granted_bytes(&self) -> usize {
        self.landings.granted_bytes()
    }

    /// The streamed bodies that have begun and not ended.
    #[cfg(test)]
    pub(crate) fn ledger(&self) -> Vec<ReceivedBody> {
        self.landings.ledger()
    }

    /// Lets transfers that wait for memory have some. Returns whether the peer is to be told.
    pub(crate) fn retry_landings(
        &mut self,
        session: &Session,
        memory: &Memory,
        link: &dyn Transfer,
    ) -> bool {
        self.landings.share_out(session, memory, link)
    }

    /// Takes in what the link has read of the peer's memory by now.
    pub(crate) fn handle_fetched(&mut self, to: &mut Delivery<'_>) {
        self.landings.handle_fetched(to);
        *to.grant_due |= self.landings.share_out(to.session, to.memory, to.link);
    }

    /// Repeats to the peer what it may go on with, as far as that waits for a receive to be posted. Returns
    /// whether there is such.
    pub(crate) fn remind(&self, session: &Session) -> bool {
        self.landings.remind(session)
    }

    /// How much is to be received besides what has a place: less, if what comes next has one too.
    pub(crate) fn receive_max(&self, session: &Session) -> usize {
        let expects = self.landings.expects() || session.receives.expects(PLACED_MIN);
        if expects { PLACED_HEAD_BYTES } else { RECEIVE_BYTES }
    }

    /// The unfilled rest of a frame that has a place of its own, and of its padding if that goes
    /// elsewhere; what is received goes there first.
    pub(crate) fn unfilled(&mut self) -> Option<[&mut [u8]; 2]> {
        Some(match self.partial.as_mut()? {
            Partial::Frame { block, filled, len } => [&mut block[*filled..*len], &mut []],
            Partial::Placed { header, filled, place } => {
                let len = header.len as usize;
                let bytes = match place {
                    Place::Landing => self.landings.place(header),
                    Place::Posted(claim) => Some(&mut claim.bytes()[..len]),
                };
                let bytes = bytes.expect("a body that has begun has its place");
                let padding = &mut self.padding[..padded(len) - (*filled).max(len)];
                [&mut bytes[(*filled).min(len)..], padding]
            }
        })
    }

    /// Puts as much of `bytes` as has a place there; returns how much that is.
    #[cfg(test)]
    pub(super) fn fill(&mut self, bytes: &[u8]) -> usize {
        let mut filled = 0;
        for unfilled in self.unfilled().into_iter().flatten() {
            let count = unfilled.len().min(bytes.len() - filled);
            unfilled[..count].copy_from_slice(&bytes[filled..filled + count]);
            filled += count;
        }
        filled
    }

    /// Puts what has to stand in front of the next bytes into `buffer`; returns how much that is.
    pub(crate) fn copy_carry(&self, buffer: &mut [u8]) -> usize {
        buffer[..self.carry.len()].copy_from_slice(&self.carry);
        self.carry.len()
    }

    /// `count` bytes have been received into [`unfilled`](Self::unfilled). If that completes the
    /// frame, it is handled and its block returned; frames in `to` have their ranges in it.
    pub(crate) fn handle_filled(
        &mut self,
        count: usize,
        to: &mut Delivery<'_>,
    ) -> Result<Option<Shared>, CloseReason> {
        match self.partial.take().expect("something was unfilled") {
            Partial::Frame { mut block, mut filled, len } => {
                filled += count;
                block.mark_touched(filled);
                if filled < len {
                    self.partial = Some(Partial::Frame { block, filled, len });
                    return Ok(None);
                }
                let block = block.freeze();
                self.handle_bytes(&block, 0..len, to)?;
                Ok(Some(block))
            }
            Partial::Placed { header, mut filled, mut place } => {
                filled += count;
                if let Place::Posted(claim) = &mut place {
                    claim.mark_touched(filled);
                }
                if filled < padded(header.len as usize) {
                    self.partial = Some(Partial::Placed { header, filled, place });
                    return Ok(None);
                }
                self.frames += 1;
                match place {
                    Place::Landing => self.landings.handle_chunk(&header, to)?,
                    Place::Posted(claim) => {
                        to.wakers.extend(claim.complete(header.len as usize));
                        *to.grant_due |= to.session.release_all(&[header]);
                    }
                }
                *to.grant_due |= self.landings.share_out(to.session, to.memory, to.link);
                Ok(None)
            }
        }
    }

    /// Handles all frames in `range` of `buffer`, and keeps the beginning of one that is cut off.
    ///
    /// # Errors
    /// Why the connection has to be closed. Frames before the offence have been delivered.
    pub(crate) fn handle_bytes(
        &mut self,
        buffer: &Shared,
        range: Range<usize>,
        to: &mut Delivery<'_>,
    ) -> Result<(), CloseReason> {
        self.landings.begin_receive();
        let result = self.handle_frames(buffer, range, to);
        let let_go = std::mem::take(&mut self.let_go);
        *to.grant_due |= let_go > 0 && to.session.receive_credit.release(Class::Reply, let_go);
        *to.grant_due |= self.landings.share_out(to.session, to.memory, to.link);
        result
    }

    fn handle_frames(
        &mut self,
        buffer: &Shared,
        range: Range<usize>,
        to: &mut Delivery<'_>,
    ) -> Result<(), CloseReason> {
        self.carry.clear();
        let bytes = &buffer[..range.end];
        let mut at = range.start;
        while let Some(header) = bytes[at..].first_chunk::<HEADER_BYTES>() {
            let header = Header::decode(header)?;
            let len = header.frame_len();
            if bytes.len() - at < len {
                self.admit(&header)?;
                if len > CARRY_MAX {
                    return self.begin_partial(&header, &bytes[at..], to);
                }
                break;
            }
            let body = at + HEADER_BYTES..at + HEADER_BYTES + header.len as usize;
            self.handle_frame(&header, buffer, body, to)?;
            at += len;
        }
        self.carry.extend_from_slice(&bytes[at..]);
        Ok(())
    }

    fn begin_partial(
        &mut self,
        header: &Header,
        start: &[u8],
        to: &mut Delivery<'_>,
    ) -> Result<(), CloseReason> {
        let body = &start[HEADER_BYTES..];
        if header.kind == Kind::Chunk
            && let Some(place) = self.landings.place(header)
        {
            let filled = copy_start(body, place);
            self.partial = Some(Partial::Placed { header: *header, filled, place: Place::Landing });
            return Ok(());
        }
        let len = header.len as usize;
        if header.kind == Kind::Message
            && let Some(mut claim) = to.session.receives.place(len, to.memory, to.wakers)
        {
            self.charge(header, header.kind, &to.session.receive_credit)?;
            let filled = copy_start(body, &mut claim.bytes()[..len]);
            claim.mark_touched(filled);
            self.partial =
                Some(Partial::Placed { header: *header, filled, place: Place::Posted(claim) });
            return Ok(());
        }
        let len = header.frame_len();
        let mut block =
            to.memory.allocate(len, Purpose::Receive).map_err(|_| CloseReason::Memory)?;
        block[..start.len()].copy_from_slice(start);
        self.partial = Some(Partial::Frame { block, filled: start.len(), len });
        Ok(())
    }
}

/// Copies the beginning of a body, and maybe of its padding, to its place. Returns how much has come.
fn copy_start(start: &[u8], place: &mut [u8]) -> usize {
    let count = start.len().min(place.len());
    place[..count].copy_from_slice(&start[..count]);
    start.len()
}

#[cfg(test)]
mod tests;
