//! Who may go on: memory, places and grants for what the peer has announced.

use super::fetching::Until;
use super::{Landing, Landings, Stage};
use crate::frame::Class;
use crate::limits::{CHUNK_BYTES, FETCHED_MAX, FETCHES_MAX, FREE_SHARE, GRANTED_MAX, LANDING_MAX};
use crate::link::Transfer;
use crate::memory::{Memory, Purpose};
use crate::session::Session;
use crate::session::departures::Control;

/// Whether something that comes in `class` may have `len` bytes of `memory`. Each class leaves a part to those that
/// it waits for, which free what it takes.
pub(super) fn can_take(class: Class, len: usize, memory: &Memory) -> bool {
    match class {
        Class::Reply => true,
        Class::Replication => memory.can_spare(len as u64, 2 * FREE_SHARE),
        Class::Request => memory.can_spare(len as u64, FREE_SHARE),
    }
}

impl Landings {
    /// Gives blocks to transfers that wait for memory, as far as there is some, and grants what may be
    /// granted. Returns whether the peer is to be told something.
    pub(in crate::session) fn share_out(
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
            let (bytes, limit) = match &landing.stage {
                Stage::Fetching(fetch, _) => (fetch.next_len(), FETCHED_MAX),
                _ => (CHUNK_BYTES.min(landing.len - landing.granted), GRANTED_MAX),
            };
            if self.granted_bytes + bytes > limit || self.fetches == FETCHES_MAX {
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

    /// Repeats to the peer how far it may go with what waits for a receive to be posted, so that it knows
    /// that it is not forgotten. Returns whether there is such.
    pub(in crate::session) fn remind(&self, session: &Session) -> bool {
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

    /// If the peer is to send something, how many chunks have come so far.
    pub(in crate::session) fn progress(&self) -> Option<u64> {
        (self.granted_bytes > 0).then_some(self.chunks)
    }
}
