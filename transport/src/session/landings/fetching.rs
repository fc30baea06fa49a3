//! Bodies that the peer has offered, and that are read from its memory instead of being sent.

use crate::error::CloseReason;
use crate::frame::Kind;
use crate::limits::TAKEN_TOLD_EVERY;
use crate::link::Source;
use crate::session::call::CallKey;
use crate::session::departures::Control;
use crate::session::inbound::Delivery;

use super::{Landing, Landings, Stage};

/// Pieces that an offered body may lie in.
const PIECES_MAX: usize = 2;

/// When reading ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum Until {
    /// When all has been read.
    Whole,
    /// When what has been begun has come: nobody waits for it any more.
    Refused,
    /// Likewise: the peer wants its memory back.
    Withdrawn,
}

impl Landings {
    /// The peer says where a piece of transfer `number`, which it announces next, can be read.
    pub(in crate::session) fn offer(
        &mut self,
        number: u64,
        body: &[u8],
    ) -> Result<(), CloseReason> {
        let source = Source::decode(body).filter(|source| source.len > 0);
        let source = source.ok_or(CloseReason::Violation("a source of nothing"))?;
        if number != self.numbers + 1 || self.sources.len() == PIECES_MAX {
            return Err(CloseReason::Violation("a source of no transfer, or one too many"));
        }
        self.sources.push(source);
        Ok(())
    }

    /// The peer wants the memory of transfer `number` back, which ends when it has been told that nothing
    /// more is read there.
    pub(in crate::session) fn withdraw(
        &mut self,
        number: u64,
        to: &mut Delivery<'_>,
    ) -> Result<(), CloseReason> {
        if self.bodies.find(number).is_some() {
            return Err(CloseReason::Violation("a withdrawal of a streamed body"));
        }
        let Some(at) = self.open.iter().position(|landing| landing.number == number) else {
            // It has been told already.
            let is_known = (1..=self.numbers).contains(&number);
            return is_known.then_some(()).ok_or(CloseReason::Violation("a withdrawal of nothing"));
        };
        let landing = &mut self.open[at];
        if landing.sources.is_empty() {
            return Err(CloseReason::Violation("a withdrawal of what was not offered"));
        }
        if let Stage::Fetching(_, until) = &mut landing.stage
            && landing.fetches > 0
        {
            *until = Until::Withdrawn;
            return Ok(());
        }
        self.end_withdrawn(at, to);
        Ok(())
    }

    fn end_withdrawn(&mut self, at: usize, to: &mut Delivery<'_>) {
        let Landing { number, len, .. } = self.open[at];
        self.drop_landing(at, to);
        let position = len as u64;
        to.session.departures.tell(Control::Taken { number, position });
        *to.grant_due = true;
    }

    /// Takes in the parts of bodies that have been read by now.
    pub(in crate::session) fn handle_fetched(&mut self, to: &mut Delivery<'_>) {
        let mut at = 0;
        while let Some(landing) = self.open.get_mut(at) {
            let Stage::Fetching(fetch, until) = &mut landing.stage else {
                at += 1;
                continue;
            };
            let (parts, bytes) = fetch.take_arrived();
            landing.received += bytes;
            landing.fetches -= parts;
            self.granted_bytes -= bytes;
            self.fetches -= parts;
            self.chunks += parts as u64;
            if *until == Until::Whole
                && landing.kind == Kind::Reply
                && !to.session.calls.is_waiting(CallKey(landing.id))
            {
                *until = Until::Refused;
            }
            let (until, number) = (*until, landing.number);
            if until == Until::Whole && landing.received == landing.len {
                self.finish(at, to);
            } else if until == Until::Withdrawn && landing.fetches == 0 {
                self.end_withdrawn(at, to);
            } else if until == Until::Refused && landing.fetches == 0 {
                landing.stage = Stage::Refused;
                to.session.departures.tell(Control::Refuse { number });
                *to.grant_due = true;
            } else {
                if landing.received - landing.told >= TAKEN_TOLD_EVERY {
                    landing.told = landing.received;
                    let position = landing.received as u64;
                    to.session.departures.tell(Control::Taken { number, position });
                    *to.grant_due = true;
                }
                at += 1;
            }
        }
    }
}
