//! The streamed bodies of the peer: each has memory for what it may send ahead, and no more.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use crate::catching;
use crate::error::{CloseReason, StopReason};
use crate::frame::{Class, Header, Kind};
use crate::limits::{BODIES_MAX, BODY_BLOCKS, BODY_EXPECTED_FOR, CHUNK_BYTES, PLACED_MIN};
use crate::memory::{Filling, Memory, Purpose};
use crate::session::Session;
use crate::session::call::CallKey;
use crate::session::departures::Control;
use crate::session::inbound::{Delivery, FrameRef};
use crate::session::inflow::{End, Inflow, LentBlock};
#[cfg(test)]
use crate::session::ledger::ReceivedBody;

use super::{Landed, Landings, can_take};

/// Those that have begun and not ended.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    open: Vec<Body>,
    /// How many blocks have been filled.
    filled: u64,
    /// For how many receives more a chunk is to be expected.
    expected_for: u32,
}

#[derive(Debug)]
struct Body {
    number: u64,
    class: Class,
    flow: Arc<Inflow>,
    /// What is granted and not full: the first has what came last, at most.
    blocks: VecDeque<Block>,
    received: u64,
    granted: u64,
    /// What the peer has been told of that.
    told: u64,
    /// Nothing more of it is taken, and the peer is to say that nothing more comes.
    refused: bool,
}

#[derive(Debug)]
struct Block {
    filling: Filling,
    lent: Arc<LentBlock>,
}

impl Landings {
    /// The peer sends a message, request or reply, and a body behind it.
    pub(in crate::session) fn open(
        &mut self,
        header: &Header,
        kind: Kind,
        head: &[u8],
        to: &mut Delivery<'_>,
    ) -> Result<(), CloseReason> {
        if !self.sources.is_empty() {
            return Err(CloseReason::Violation("a source of a streamed body"));
        }
        if header.more {
            return Err(CloseReason::Violation("a streamed body in the middle of a reply"));
        }
        if self.bodies.open.len() == BODIES_MAX {
            return Err(CloseReason::Violation("too many streamed bodies at once"));
        }
        let mut block =
            to.memory.allocate(head.len(), Purpose::Receive).map_err(|_| CloseReason::Memory)?;
        block.mark_touched(head.len());
        block[..head.len()].copy_from_slice(head);
        self.numbers += 1;
        let Header { class, id, .. } = *header;
        let frame = FrameRef { kind, class, id, body: 0..head.len() };
        let is_taken = match kind {
            Kind::Reply => to.session.calls.is_waiting(CallKey(id)),
            Kind::Message => !to.session.receives.are_posted(),
            _ => true,
        };
        let flow = self.bodies.begin(self.numbers, class);
        if is_taken {
            to.landed.push(Landed { frame, block: block.freeze(), flow: Some(flow) });
        } else {
            // What it began with goes the same way.
            flow.stop(StopReason::NotTaken);
            *to.grant_due |= to.session.receive_credit.release(class, frame.cost());
        }
        Ok(())
    }

    /// All of body `number` has been sent.
    pub(in crate::session) fn end(
        &mut self,
        number: u64,
        total: &[u8],
        to: &mut Delivery<'_>,
    ) -> Result<(), CloseReason> {
        let Some(at) = self.bodies.find(number) else {
            return Err(CloseReason::Violation("the end of no streamed body"));
        };
        if *total != self.bodies.open[at].received.to_le_bytes() {
            return Err(CloseReason::Violation("a streamed body that is longer or shorter"));
        }
        self.bodies.end(at, End::Whole, to);
        Ok(())
    }
}

impl Bodies {
    fn begin(&mut self, number: u64, class: Class) -> Arc<Inflow> {
        let flow = Arc::new(Inflow::default());
        self.open.push(Body {
            number,
            class,
            flow: Arc::clone(&flow),
            blocks: VecDeque::new(),
            received: 0,
            granted: 0,
            told: 0,
            refused: false,
        });
        flow
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Where body `number` is, unless it has not begun, or has ended.
    pub(super) fn find(&self, number: u64) -> Option<usize> {
        self.open.iter().position(|body| body.number == number)
    }

    /// Whether a chunk of the body at `at` may come that has this header.
    pub(super) fn admit(&self, at: usize, header: &Header) -> Result<(), CloseReason> {
        let body = &self.open[at];
        let room = CHUNK_BYTES - (body.received % CHUNK_BYTES as u64) as usize;
        if header.len == 0 || header.len as usize > room {
            return Err(CloseReason::Violation("a chunk of nothing, or of two blocks of a body"));
        }
        if body.received + u64::from(header.len) > body.told {
            return Err(CloseReason::WindowExceeded);
        }
        Ok(())
    }

    /// Where the next `len` bytes of the body at `at` go; nothing if they are dropped.
    pub(super) fn place(&mut self, at: usize, len: usize) -> Option<&mut [u8]> {
        let block = self.open[at].blocks.front_mut()?;
        Some(&mut block.filling.unfilled()[..len])
    }

    /// The next `len` bytes of the body at `at`, which were admitted, are in their place or dropped.
    pub(super) fn handle_chunk(&mut self, at: usize, len: usize, wakers: &mut Vec<Waker>) {
        let body = &mut self.open[at];
        let number = body.received / CHUNK_BYTES as u64;
        body.received += len as u64;
        if len >= PLACED_MIN {
            self.expected_for = BODY_EXPECTED_FOR;
        }
        let is_full = body.received.is_multiple_of(CHUNK_BYTES as u64);
        self.filled += u64::from(is_full);
        if body.refused {
            return body.blocks.clear();
        }
        let Some(block) = body.blocks.front_mut() else { return };
        let start = block.filling.filled();
        block.filling.fill(len);
        wakers.extend(body.flow.arrive(&block.filling, start, number, &block.lent));
        if is_full {
            body.blocks.pop_front();
        }
    }

    /// The body at `at` has ended.
    pub(super) fn end(&mut self, at: usize, end: End, to: &mut Delivery<'_>) {
        let body = self.open.remove(at);
        to.session.departures.forget(body.number);
        to.wakers.extend(body.flow.end(end));
    }

    /// Refuses those whose readers take nothing more, and grants the others what there is memory for. Returns
    /// whether the peer is to be told something.
    pub(super) fn share_out(&mut self, session: &Session, memory: &Memory) -> bool {
        let mut told = false;
        for body in self.open.iter_mut().filter(|body| !body.refused) {
            let number = body.number;
            if let Some(reason) = body.flow.stopped() {
                body.refused = true;
                // A chunk may have come in part; its place stays until it is whole.
                body.blocks.truncate(1);
                session.departures.tell(Control::RefuseBody { number, reason });
                told = true;
                continue;
            }
            while body.has_room() && body.grow(memory) {}
            // Half of what may be granted at a time, unless the peer has less than that.
            let half = (BODY_BLOCKS / 2 * CHUNK_BYTES) as u64;
            let news = body.granted - body.told;
            if news >= half || news > 0 && body.told - body.received <= half {
                body.told = body.granted;
                session.departures.tell(Control::Grant { number, position: body.told });
                told = true;
            }
        }
        told
    }

    /// A receive begins: chunks are to be expected for some time after the last one.
    pub(super) fn begin_receive(&mut self) {
        self.expected_for = self.expected_for.saturating_sub(1);
    }

    /// Whether a chunk is likely to be what comes next.
    pub(super) fn expects(&self) -> bool {
        self.expected_for > 0 && self.open.iter().any(|body| !body.blocks.is_empty())
    }

    #[cfg(test)]
    pub(super) fn ledger(&self) -> Vec<ReceivedBody> {
        let room = |block: &Block| (CHUNK_BYTES - block.filling.filled()) as u64;
        let received = self.open.iter().map(|body| ReceivedBody {
            number: body.number,
            received: body.received,
            told: body.told,
            granted: body.granted,
            room: body.blocks.iter().map(room).sum(),
            blocks: body.flow.blocks(),
            refused: body.refused,
        });
        received.collect()
    }

    /// If they have memory, how many blocks have been filled so far.
    pub(super) fn filled(&self) -> Option<u64> {
        self.open.iter().any(|body| body.flow.blocks() > 0).then_some(self.filled)
    }
}

impl Body {
    /// Whether it may have one more block.
    fn has_room(&self) -> bool {
        if self.flow.blocks() < BODY_BLOCKS {
            return true;
        }
        self.flow.note_full();
        // One may have come back meanwhile, without anybody being told.
        self.flow.blocks() < BODY_BLOCKS
    }

    /// Takes memory for one more block, if there is some, and grants it.
    fn grow(&mut self, memory: &Memory) -> bool {
        if !can_take(self.class, CHUNK_BYTES, memory) {
            return false;
        }
        let Ok(block) = memory.allocate(CHUNK_BYTES, Purpose::Receive) else { return false };
        self.blocks.push_back(Block { filling: block.fill_up(), lent: self.flow.lend() });
        self.granted += CHUNK_BYTES as u64;
        true
    }
}

impl Drop for Body {
    /// The connection ends, or the body has.
    fn drop(&mut self) {
        if let Some(waker) = self.flow.end(End::Closed) {
            catching::wake(waker);
        }
    }
}

#[cfg(test)]
mod tests;
