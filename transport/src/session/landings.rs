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
mod chunks;
mod fetching;
mod sharing;

use std::sync::Arc;

use crate::error::{CallError, CloseReason};
use crate::frame::{Announcement, Class, Header, Kind};
use crate::limits::{LARGE_MAX, LARGE_SHARE, MESSAGE_MAX, TRANSFERS_MAX};
use crate::link::{Fetch, Source};
use crate::memory::{Block, Shared};

use super::Session;
use super::call::CallKey;
use super::departures::Control;
use super::inbound::{Delivery, FrameRef};
use super::inflow::Inflow;
#[cfg(test)]
use super::ledger::ReceivedBody;
use super::posting::Claim;

use bodies::Bodies;
use fetching::Until;
use sharing::can_take;

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
