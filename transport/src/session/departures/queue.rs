//! The large bodies of one connection in the order in which they go.

mod turns;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use crate::error::{CloseReason, StopReason};
use crate::frame::{Class, Kind};
use crate::link::Offer;
#[cfg(test)]
use crate::session::ledger::SentBody;
use crate::session::outbound::Queued;
use crate::session::sends::Leaving;

use super::bodies::{Bodies, Ended};
use super::control::{ANNOUNCEMENT_COST, Control};
use super::departure::Departure;

/// What waits and what is under way.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// What is told to the peer about its own transfers, and of ours that were given up.
    controls: VecDeque<Control>,
    /// Not announced yet.
    waiting: VecDeque<Departure>,
    /// Announced, and not wholly gathered.
    announced: Vec<Announced>,
    /// Streamed bodies that have begun.
    bodies: Bodies,
    /// Whose chunk is next: among what is announced, and the bodies behind it.
    turn: usize,
    /// How many have been announced.
    numbers: u64,
    tickets: u64,
    /// Those who wait for room.
    pub(super) waiters: Vec<Waker>,
    /// Who has set requests aside because so many replies wait.
    pub(super) refused: Option<Waker>,
    closed: bool,
}

/// A transfer that the peer knows of.
#[derive(Debug)]
struct Announced {
    number: u64,
    departure: Departure,
    sent: usize,
    granted: usize,
    /// What the peer may read by itself, unless the connection has ended: all pieces, or none.
    offers: Vec<Box<dyn Offer>>,
    was_offered: bool,
    /// It was given up, and the peer has yet to say that it reads nothing more.
    withdrawn: bool,
}

/// What has been granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Granted {
    /// It has ended.
    Nothing,
    Transfer,
    Body,
}

impl Queue {
    /// Those who are to try again now that something has gone.
    pub(super) fn take_waiters(&mut self) -> Vec<Waker> {
        let mut waiters = std::mem::take(&mut self.waiters);
        waiters.extend(self.refused.take());
        waiters
    }

    /// Adds what goes behind all others. Returns its ticket, and the posted buffer that it was if nothing
    /// is sent any more.
    pub(super) fn push(&mut self, mut departure: Departure) -> (u64, Option<Arc<Leaving>>) {
        self.tickets += 1;
        departure.ticket = self.tickets;
        let refused = if self.closed { departure.let_go() } else { None };
        self.waiting.push_back(departure);
        (self.tickets, refused)
    }

    /// All that has not been gathered to its end.
    pub(super) fn all(&self) -> impl Iterator<Item = &Departure> {
        self.announced.iter().map(|announced| &announced.departure).chain(&self.waiting)
    }

    /// All that the peer cannot have received.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Departure> {
        let announced = self.announced.iter().filter(|announced| !announced.was_offered);
        announced.map(|announced| &announced.departure).chain(&self.waiting)
    }

    /// Takes out the request of call `id`, if there is one and the peer is not reading it; also returns
    /// what it still held of which window.
    pub(super) fn cancel_request(
        &mut self,
        id: u64,
    ) -> Option<(Option<Departure>, (Class, usize))> {
        // What a body begins with goes once it has been given here, as a small request does.
        let is_it = |departure: &Departure| {
            departure.kind == Kind::Request && departure.id == id && !departure.opens()
        };
        if let Some(at) = self.waiting.iter().position(is_it) {
            let departure = self.waiting.remove(at)?;
            let class = departure.class;
            return Some((Some(departure), (class, ANNOUNCEMENT_COST)));
        }
        let at = self.announced.iter().position(|announced| is_it(&announced.departure))?;
        let announced = &mut self.announced[at];
        let window = (announced.departure.class, 0);
        if !announced.was_offered {
            return Some((Some(self.cancel(at)), window));
        }
        if !std::mem::replace(&mut announced.withdrawn, true) {
            let number = announced.number;
            self.tell(Control::Withdraw { number });
        }
        Some((None, window))
    }

    /// Transfer or body `number` may go on to `position`. Returns whether it is still under way, and a transfer.
    pub(super) fn grant(&mut self, number: u64, position: u64) -> Result<Granted, CloseReason> {
        if let Some(at) = self.bodies.find(number) {
            self.bodies.grant(at, position);
            return Ok(Granted::Body);
        }
        let Some(at) = self.find(number)? else { return Ok(Granted::Nothing) };
        let announced = &mut self.announced[at];
        if position > announced.departure.len as u64 {
            return Err(CloseReason::Violation("a grant beyond the end of a transfer"));
        }
        announced.granted = announced.granted.max(position as usize);
        Ok(Granted::Transfer)
    }

    /// The peer takes nothing more of body `number`, for the reason that `reason` is. Returns what it was, if
    /// it is one that is under way.
    pub(super) fn refuse_body(
        &mut self,
        number: u64,
        reason: &[u8],
    ) -> Result<Option<Ended>, CloseReason> {
        let Some(at) = self.bodies.find(number) else { return Ok(None) };
        let reason = StopReason::decode(reason)
            .ok_or(CloseReason::Violation("a refusal for a reason that is none"))?;
        let place = self.announced.len() + at;
        self.turn -= usize::from(self.turn > place);
        let ended = self.bodies.refuse(at, reason);
        self.tell(Control::CancelBody { number });
        Ok(Some(ended))
    }

    /// The peer takes nothing more of transfer `number`, which is taken out if it is still under way.
    pub(super) fn refuse(
        &mut self,
        number: u64,
        reason: &[u8],
    ) -> Result<Option<Departure>, CloseReason> {
        let Some(at) = self.find(number)? else { return Ok(None) };
        if !reason.is_empty() {
            return Err(CloseReason::Violation("a refusal of no streamed body, for a reason"));
        }
        if self.announced[at].departure.kind == Kind::Message {
            return Err(CloseReason::Violation("a refusal of a message"));
        }
        // That it was withdrawn says that nothing more comes.
        let withdrawn = self.announced[at].withdrawn;
        Ok(Some(if withdrawn { self.end(at) } else { self.cancel(at) }))
    }

    /// The peer has read transfer `number` up to `position`. Returns what it was if that ends it.
    pub(super) fn take(
        &mut self,
        number: u64,
        position: u64,
    ) -> Result<Option<Departure>, CloseReason> {
        let Some(at) = self.find(number)? else {
            return match self.bodies.find(number) {
                Some(_) => Err(CloseReason::Violation("a streamed body was not offered")),
                None => Ok(None),
            };
        };
        let announced = &self.announced[at];
        let len = announced.departure.len as u64;
        if !announced.was_offered || position > len {
            return Err(CloseReason::Violation("more was read than had been offered"));
        }
        Ok((position == len).then(|| self.end(at)))
    }

    /// Has `control` told. The grants of one transfer become one; a refusal takes the place of them.
    pub(super) fn tell(&mut self, control: Control) {
        if let Control::Grant { number, .. }
        | Control::Refuse { number }
        | Control::RefuseBody { number, .. }
        | Control::Taken { number, .. } = &control
        {
            self.forget(*number);
        }
        self.controls.push_back(control);
    }

    /// Nothing is to be told any more about the peer's transfer or body `number`.
    pub(super) fn forget(&mut self, number: u64) {
        self.controls.retain(|control| match control {
            Control::Grant { number: other, .. }
            | Control::Refuse { number: other }
            | Control::RefuseBody { number: other, .. }
            | Control::Taken { number: other, .. } => *other != number,
            Control::Cancel { .. } | Control::CancelBody { .. } | Control::Withdraw { .. } => true,
        });
    }

    /// Moves what is to be told to `batch`.
    pub(super) fn take_controls(&mut self, batch: &mut VecDeque<Queued>) {
        if self.closed {
            return self.controls.clear();
        }
        for control in self.controls.drain(..) {
            control.put(batch);
        }
    }

    /// Lets go of all bodies: nothing is sent any more. What they were is kept. Returns the posted
    /// buffers among them.
    pub(super) fn close(&mut self) -> Vec<Arc<Leaving>> {
        self.closed = true;
        self.controls.clear();
        for announced in &mut self.announced {
            announced.offers.clear();
        }
        self.bodies.close();
        let announced = self.announced.iter_mut().map(|announced| &mut announced.departure);
        announced.chain(&mut self.waiting).filter_map(Departure::let_go).collect()
    }

    #[cfg(test)]
    pub(super) fn ledger(&self) -> Vec<SentBody> {
        self.bodies.ledger()
    }

    /// The writers of bodies that wait.
    pub(super) fn take_writers(&self, wakers: &mut Vec<Waker>) {
        self.bodies.take_wakers(wakers);
        let waiting = self.waiting.iter().filter_map(|departure| departure.flow.as_ref());
        wakers.extend(waiting.filter_map(|flow| flow.take_waker()));
    }

    /// Where transfer `number` is, unless it has ended or is a body.
    fn find(&self, number: u64) -> Result<Option<usize>, CloseReason> {
        if number == 0 || number > self.numbers {
            return Err(CloseReason::Violation("a transfer that was never announced"));
        }
        Ok(self.announced.iter().position(|announced| announced.number == number))
    }

    /// Takes out the transfer at `at`, and has the peer told.
    fn cancel(&mut self, at: usize) -> Departure {
        let number = self.announced[at].number;
        self.tell(Control::Cancel { number });
        self.end(at)
    }

    /// Takes out the transfer at `at`. What was offered of it is no longer.
    fn end(&mut self, at: usize) -> Departure {
        self.turn -= usize::from(self.turn > at);
        self.announced.remove(at).departure
    }
}
