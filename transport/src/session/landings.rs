//! Large bodies on their way in: announced by the peer, granted as there is memory, received in chunks.
//!
//! Each gets a block of its own once there is memory for all of it, and grants only then: a few at a
//! time, in turn. A message for which a receive is to be posted lands in that buffer, and is granted
//! nothing before there is one. What never fits, and a reply that nobody waits for, is refused. Until the
//! peer has said that it sends nothing more of a refused transfer, what it had been granted may still
//! come, and is dropped. What the peer has offered is read from its memory instead of being granted, if
//! the link can ([`fetching`]): the same in turn and in bounds. Bodies that are streamed have memory for what
//! they may send ahead, and no more ([`bodies`]). What lands in a posted buffer always comes in chunks.

mod bodies;
mod fetching;

use std::sync::Arc;
use std::task::Waker;

use crate::error::{CallError, CloseReason, StopReason};
use crate::frame::{Announcement, Class, Header, Kind};
use crate::limits::{
    CHUNK_BYTES, FETCHES_MAX, FREE_SHARE, GRANTED_MAX, LANDING_MAX, LARGE_MAX, LARGE_SHARE,
    MESSAGE_MAX, TRANSFERS_MAX,
};
use crate::link::{Fetch, Source, Transfer};
use crate::memory::{Block, Memory, Purpose, Shared};
use crate::reply::Reply;

use super::Session;
use super::call::CallKey;
use super::departures::{ANNOUNCEMENT_COST, Control};
use super::inbound::{Delivery, FrameRef};
use super::inflow::{End, Inflow};
#[cfg(test)]
use super::ledger::ReceivedBody;
use super::posting::Claim;

use bodies::Bodies;
use fetching::Until;

/// The transfers of the peer that have not ended.
#[derive(Debug, Default)]
pub(crate) struct Landings {
    /// In the order in which they were announced.
    open: Vec<Landing>,
    /// Those that are streamed.
    bodies: Bodies,
    /// Where the body lies that is announced next.
    sources: Vec<Source>,
    /// How many have been announced, or have begun to be streamed.
    numbers: u64,
    /// Bytes that are granted and have not come.
    granted_bytes: usize,
    /// Who is granted something next.
    turn: usize,
    /// How many chunks have come.
    chunks: u64,
    /// How many parts are being read.
    fetches: usize,
}

#[derive(Debug)]
struct Landing {
    number: u64,
    kind: Kind,
    class: Class,
    id: u64,
    more: bool,
    len: usize,
    stage: Stage,
    /// Where it can be read.
    sources: Vec<Source>,
    /// Granted, or begun to be read.
    granted: usize,
    /// What the peer has been told of that.
    told: usize,
    received: usize,
    /// Parts of it that are being read.
    fetches: usize,
}

#[derive(Debug)]
enum Stage {
    /// For memory.
    Waiting,
    /// For a receive to be posted.
    Unmatched,
    /// The body, as far as it has come.
    Landing(Block),
    /// Likewise, in a posted buffer.
    Posted(Claim),
    /// The body, as it is being read.
    Fetching(Box<dyn Fetch>, Until),
    /// The peer is to say that nothing more comes.
    Refused,
}

/// A large message or request that has come whole, or what a streamed body begins with, a reply too.
#[derive(Debug)]
pub(crate) struct Landed {
    pub(crate) frame: FrameRef,
    pub(crate) block: Shared,
    /// The body that is streamed behind it.
    pub(crate) flow: Option<Arc<Inflow>>,
}

impl Landings {
    /// The peer announces a transfer, which has been charged to its window.
    pub(super) fn announce(
        &mut self,
        header: &Header,
        announcement: Announcement,
        to: &mut Delivery<'_>,
    ) -> Result<(), CloseReason> {
        if !(MESSAGE_MAX as u64 + 1..=LARGE_MAX as u64).contains(&announcement.total) {
            return Err(CloseReason::Violation("a transfer that is too long or too short"));
        }
        let sources = std::mem::take(&mut self.sources);
        let offered: u64 = sources.iter().map(|source| u64::from(source.len)).sum();
        if !sources.is_empty() && offered != announcement.total {
            return Err(CloseReason::Violation("sources of more or less than a transfer"));
        }
        if self.open.len() == TRANSFERS_MAX {
            return Err(CloseReason::Violation("too many transfers at once"));
        }
        let Header { class, id, more, .. } = *header;
        let (kind, call, calls) = (announcement.kind, CallKey(id), &to.session.calls);
        let receives = &to.session.receives;
        let stage = if kind == Kind::Reply && !calls.is_waiting(call) {
            Stage::Refused
        } else if kind == Kind::Message && receives.are_posted() {
            let (number, len) = (self.numbers + 1, announcement.total as usize);
            receives.announce(number, len, to.memory, to.wakers);
            Stage::Unmatched
        } else if to.memory.could_hold(announcement.total, LARGE_SHARE) {
            Stage::Waiting
        } else {
            match kind {
                Kind::Reply => calls.fail(call, CallError::ReplyMemory, to.wakers),
                Kind::Request => {}
                _ => return Err(CloseReason::Memory),
            }
            Stage::Refused
        };
        self.numbers += 1;
        let number = self.numbers;
        if let Stage::Refused = stage {
            to.session.departures.tell(Control::Refuse { number });
            *to.grant_due = true;
        }
        let len = announcement.total as usize;
        self.open.push(Landing {
            number,
            kind,
            class,
            id,
            more,
            len,
            stage,
            sources,
            granted: 0,
            told: 0,
            received: 0,
            fetches: 0,
        });
        Ok(())
    }

    /// Whether a chunk may come that has this header.
    pub(super) fn admit(&self, header: &Header) -> Result<(), CloseReason> {
        if let Some(at) = self.bodies.find(header.id) {
            return self.bodies.admit(at, header);
        }
        let at = self.find(header.id)?;
        let landing = &self.open[at];
        if let Stage::Fetching(..) = landing.stage {
            return Err(CloseReason::Violation("a chunk of what is being read"));
        }
        let end = landing.received + header.len as usize;
        if header.len as usize != CHUNK_BYTES.min(landing.len - landing.received) {
            return Err(CloseReason::Violation("a chunk that is too long or too short"));
        }
        if end > landing.granted {
            return Err(CloseReason::WindowExceeded);
        }
        Ok(())
    }

    /// Where the chunk with this header goes, which was admitted; nothing if it is dropped.
    pub(super) fn place(&mut self, header: &Header) -> Option<&mut [u8]> {
        let number = header.id;
        if let Some(at) = self.bodies.find(number) {
            return self.bodies.place(at, header.len as usize);
        }
        let landing = self.open.iter_mut().find(|landing| landing.number == number)?;
        let bytes = match &mut landing.stage {
            Stage::Landing(block) => &mut block[..],
            Stage::Posted(claim) => claim.bytes(),
            Stage::Waiting | Stage::Unmatched | Stage::Fetching(..) | Stage::Refused => {
                return None;
            }
        };
        let len = CHUNK_BYTES.min(landing.len - landing.received);
        Some(&mut bytes[landing.received..landing.received + len])
    }

    /// A chunk that was admitted is in its place, or has been dropped.
    pub(super) fn handle_chunk(
        &mut self,
        header: &Header,
        to: &mut Delivery<'_>,
    ) -> Result<(), CloseReason> {
        if let Some(at) = self.bodies.find(header.id) {
            self.bodies.handle_chunk(at, header.len as usize, to.wakers);
            return Ok(());
        }
        let at = self.find(header.id)?;
        let landing = &mut self.open[at];
        landing.received += header.len as usize;
        self.granted_bytes -= header.len as usize;
        self.chunks += 1;
        if landing.received == landing.len {
            self.finish(at, to);
        } else if let Stage::Posted(claim) = &mut landing.stage {
            claim.mark_touched(landing.received);
        } else if let Stage::Landing(block) = &mut landing.stage {
            block.mark_touched(landing.received);
            let call = CallKey(landing.id);
            if landing.kind == Kind::Reply && !to.session.calls.is_waiting(call) {
                landing.stage = Stage::Refused;
                to.session.departures.tell(Control::Refuse { number: landing.number });
                *to.grant_due = true;
            }
        }
        Ok(())
    }

    /// The peer sends nothing more of transfer `number`, or of a body, which is for a reason then.
    pub(super) fn cancel(
        &mut self,
        number: u64,
        reason: &[u8],
        to: &mut Delivery<'_>,
    ) -> Result<(), CloseReason> {
        if let Some(at) = self.bodies.find(number) {
            let reason = StopReason::decode(reason)
                .ok_or(CloseReason::Violation("a cancel for a reason that is none"))?;
            self.bodies.end(at, End::Aborted(reason), to);
            return Ok(());
        }
        if !reason.is_empty() {
            return Err(CloseReason::Violation("a cancel of no streamed body, for a reason"));
        }
        let at = self.find(number)?;
        if let Stage::Fetching(..) = self.open[at].stage {
            return Err(CloseReason::Violation("a cancel of what is being read"));
        }
        self.drop_landing(at, to);
        Ok(())
    }

    /// Takes out a transfer that comes no further.
    fn drop_landing(&mut self, at: usize, to: &mut Delivery<'_>) {
        let Landing { number, class, stage, .. } = self.remove(at, to.session);
        *to.grant_due |= to.session.receive_credit.release(class, ANNOUNCEMENT_COST as u64);
        let claim = match stage {
            Stage::Posted(claim) => Some(claim),
            Stage::Unmatched => None,
            Stage::Waiting | Stage::Landing(_) | Stage::Fetching(..) | Stage::Refused => return,
        };
        let matched = to.session.receives.forget(number, claim, to.memory);
        *to.grant_due |= to.session.release_all(&matched.taken);
        to.wakers.extend(matched.wakers);
    }

    /// Gives blocks to transfers that wait for memory, as far as there is some, and grants what may be
    /// granted. Returns whether the peer is to be told something.
    pub(super) fn share_out(
        &mut self,
        session: &Session,
        memory: &Memory,
        link: &dyn Transfer,
    ) -> bool {
        let told = self.bodies.share_out(session, memory);
        if self.open.is_empty() {
            return told;
        }
        for class in Class::ALL {
            self.begin(class, memory, link);
        }
        self.begin_posted(session);
        while let Some(at) = self.next_to_grant() {
            let landing = &mut self.open[at];
            let bytes = match &landing.stage {
                Stage::Fetching(fetch, _) => fetch.next_len(),
                _ => CHUNK_BYTES.min(landing.len - landing.granted),
            };
            if self.granted_bytes + bytes > GRANTED_MAX || self.fetches == FETCHES_MAX {
                break;
            }
            if let Stage::Fetching(fetch, _) = &mut landing.stage {
                fetch.begin_next();
                landing.fetches += 1;
                self.fetches += 1;
            }
            landing.granted += bytes;
            self.granted_bytes += bytes;
            self.turn = at + 1;
        }
        let mut told = told;
        let untold = |landing: &&mut Landing| match landing.stage {
            Stage::Fetching(..) => false,
            _ => landing.granted > landing.told,
        };
        for landing in self.open.iter_mut().filter(untold) {
            landing.told = landing.granted;
            let (number, position) = (landing.number, landing.granted as u64);
            session.departures.tell(Control::Grant { number, position });
            told = true;
        }
        told
    }

    /// If the peer is to send something, how many chunks have come so far.
    pub(super) fn progress(&self) -> Option<u64> {
        (self.granted_bytes > 0).then_some(self.chunks)
    }

    /// Begins to look for what one receive brings.
    pub(super) fn begin_receive(&mut self) {
        self.bodies.begin_receive();
    }

    /// Whether a chunk that has its place is likely to be what comes next.
    pub(super) fn expects(&self) -> bool {
        self.bodies.expects()
            || self
                .open
                .iter()
                .any(|landing| landing.is_taken() && landing.received < landing.granted)
    }

    /// Repeats to the peer how far it may go with what waits for a receive to be posted, so that it knows
    /// that it is not forgotten. Returns whether there is such.
    pub(super) fn remind(&self, session: &Session) -> bool {
        let mut told = false;
        for landing in &self.open {
            if let Stage::Unmatched = landing.stage {
                let (number, position) = (landing.number, landing.granted as u64);
                session.departures.tell(Control::Grant { number, position });
                told = true;
            }
        }
        told
    }

    #[cfg(test)]
    pub(super) fn granted_bytes(&self) -> usize {
        self.granted_bytes
    }

    #[cfg(test)]
    pub(super) fn ledger(&self) -> Vec<ReceivedBody> {
        self.bodies.ledger()
    }

    /// The number of the first transfer that has a block.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.open.iter().find(|landing| landing.has_block()).map(|landing| landing.number)
    }

    /// Whether no transfer is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.bodies.is_empty()
    }

    /// Whether a streamed body is under way.
    pub(super) fn streams(&self) -> bool {
        !self.bodies.is_empty()
    }

    /// If streamed bodies have memory, how much of it has been filled so far.
    pub(super) fn streamed(&self) -> Option<u64> {
        self.bodies.filled()
    }

    /// Lets what comes in `class` have blocks in the order in which it came.
    fn begin(&mut self, class: Class, memory: &Memory, link: &dyn Transfer) {
        let same = |landing: &&mut Landing| landing.class == class;
        let landing = self.open.iter_mut().filter(same).filter(|landing| landing.has_block());
        let room = LANDING_MAX - landing.count();
        let waiting = self.open.iter_mut().filter(same);
        let waiting = waiting.filter(|landing| matches!(landing.stage, Stage::Waiting));
        for landing in waiting.take(room) {
            if !can_take(class, landing.len, memory) {
                return;
            }
            let Ok(block) = memory.allocate(landing.len, Purpose::Receive) else { return };
            // What cannot be read comes in chunks.
            landing.stage = match landing.sources.is_empty() {
                true => Stage::Landing(block),
                false => match link.fetch(block, &landing.sources) {
                    Ok(fetch) => Stage::Fetching(fetch, Until::Whole),
                    Err(block) => Stage::Landing(block),
                },
            };
        }
    }

    /// Lets messages land in buffers that have been posted for them.
    fn begin_posted(&mut self, session: &Session) {
        let is_posted = |landing: &&mut Landing| matches!(landing.stage, Stage::Posted(_));
        let room = LANDING_MAX - self.open.iter_mut().filter(is_posted).count();
        let is_matched = |landing: &&mut Landing| {
            matches!(landing.stage, Stage::Unmatched) && session.receives.is_matched(landing.number)
        };
        for landing in self.open.iter_mut().filter(is_matched).take(room) {
            if let Some(claim) = session.receives.take_matched(landing.number) {
                landing.stage = Stage::Posted(claim);
            }
        }
    }

    /// Whose turn it is to be granted something, if anybody can be.
    fn next_to_grant(&self) -> Option<usize> {
        let count = self.open.len();
        (0..count).map(|step| (self.turn + step) % count).find(|at| {
            let landing = &self.open[*at];
            landing.takes_more() && landing.granted < landing.len
        })
    }

    /// Delivers a transfer that has come whole.
    fn finish(&mut self, at: usize, to: &mut Delivery<'_>) {
        let Landing { number, kind, class, id, more, len, stage, .. } = self.remove(at, to.session);
        let released = |to: &mut Delivery<'_>| {
            *to.grant_due |= to.session.receive_credit.release(class, ANNOUNCEMENT_COST as u64);
        };
        let landed = match stage {
            Stage::Landing(block) => Some(block),
            Stage::Fetching(fetch, _) => {
                let position = len as u64;
                to.session.departures.tell(Control::Taken { number, position });
                *to.grant_due = true;
                fetch.into_block()
            }
            Stage::Posted(mut claim) => {
                claim.mark_touched(len);
                to.wakers.extend(claim.complete(len));
                None
            }
            Stage::Waiting | Stage::Unmatched | Stage::Refused => None,
        };
        let Some(mut block) = landed else { return released(to) };
        block.mark_touched(len);
        let block = block.freeze();
        if kind == Kind::Reply {
            *to.replied = true;
            let reply = Reply::received(&block, 0..len);
            let woken: Option<Waker> = to.session.calls.deliver(CallKey(id), reply, more);
            to.wakers.extend(woken);
            released(to);
        } else {
            let frame = FrameRef { kind, class, id, body: 0..len };
            to.landed.push(Landed { frame, block, flow: None });
        }
    }

    /// Takes out the transfer at `at`, with what it was granted and is not to use.
    fn remove(&mut self, at: usize, session: &Session) -> Landing {
        let landing = self.open.remove(at);
        self.turn -= usize::from(self.turn > at);
        self.granted_bytes -= landing.granted - landing.received;
        self.fetches -= landing.fetches;
        session.departures.forget(landing.number);
        landing
    }

    fn find(&self, number: u64) -> Result<usize, CloseReason> {
        let found = self.open.iter().position(|landing| landing.number == number);
        found.ok_or(CloseReason::Violation("a chunk or the end of no transfer"))
    }
}

/// Whether something that comes in `class` may have `len` bytes of `memory`. Each class leaves a part to those that
/// it waits for, which free what it takes.
fn can_take(class: Class, len: usize, memory: &Memory) -> bool {
    match class {
        Class::Reply => true,
        Class::Replication => memory.can_spare(len as u64, 2 * FREE_SHARE),
        Class::Request => memory.can_spare(len as u64, FREE_SHARE),
    }
}

impl Landing {
    /// Whether it has memory of this side.
    fn has_block(&self) -> bool {
        matches!(self.stage, Stage::Landing(_) | Stage::Fetching(..))
    }

    /// Whether more of it may be granted, or read.
    fn takes_more(&self) -> bool {
        self.is_taken() || matches!(self.stage, Stage::Fetching(_, Until::Whole))
    }

    /// Whether it has memory, this side's or a user's.
    fn is_taken(&self) -> bool {
        matches!(self.stage, Stage::Landing(_) | Stage::Posted(_))
    }
}

#[cfg(test)]
mod tests;
