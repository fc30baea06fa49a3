//! The large bodies of one connection in the order in which they go, and what they become on the wire.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use crate::error::{CloseReason, StopReason};
use crate::frame::{Announcement, Class, HEADER_BYTES, Header, Kind, frame_len};
use crate::limits::{CHUNK_BYTES, TRANSFERS_MAX};
use crate::link::{Offer, Source, Transfer};
#[cfg(test)]
use crate::session::ledger::SentBody;
use crate::session::outbound::Queued;
use crate::session::sends::Leaving;

use super::bodies::{Bodies, Ended};
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
    closed: bool,
}

/// What the receiver of a transfer tells its sender, or the other way round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Control {
    /// Bytes up to `position` may be sent.
    Grant { number: u64, position: u64 },
    /// Nothing more of it is taken.
    Refuse { number: u64 },
    /// Nothing more of a streamed body is taken.
    RefuseBody { number: u64, reason: StopReason },
    /// Nothing more of it is sent.
    Cancel { number: u64 },
    /// Nothing more of a streamed body is sent: the receiver has refused it.
    CancelBody { number: u64 },
    /// Bytes up to `position` have been read, if not sent.
    Taken { number: u64, position: u64 },
    /// Nothing more of it is to be read.
    Withdraw { number: u64 },
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

/// What has been taken of what waited.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// What is charged to its window.
    pub(super) charged_bytes: usize,
    /// How many bodies leave from where they lay before.
    pub(super) tails: u64,
    /// What it was, if nothing more of it is to be sent.
    pub(super) whole: Option<Departure>,
    /// What it was, if a body has begun with it.
    pub(super) opened: Option<Departure>,
    /// Who writes that body, and has waited for it.
    pub(super) waker: Option<Waker>,
}

/// What has been taken in turn: a chunk, or the end of a body.
#[derive(Debug, Default)]
pub(super) struct TakenChunk {
    /// Whether it was of a transfer.
    pub(super) is_transfer: bool,
    /// What the transfer was and whether it had been offered, if it has ended.
    pub(super) transfer: Option<(Departure, bool)>,
    /// The body, if it has ended.
    pub(super) body: Option<Ended>,
    /// Who writes it, and has waited for room.
    pub(super) waker: Option<Waker>,
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

    /// Whose chunk is next, if any may be sent: a transfer's or a body's.
    pub(super) fn next_chunk(&self) -> Option<usize> {
        if self.closed {
            return None;
        }
        let count = self.announced.len() + self.bodies.len();
        let in_turn = (0..count).map(|step| (self.turn + step) % count);
        in_turn.into_iter().find(|at| {
            let Some(announced) = self.announced.get(*at) else {
                return self.bodies.is_ready(*at - self.announced.len());
            };
            let Announced { sent, granted, departure, withdrawn, .. } = announced;
            let end = departure.len.min(sent + CHUNK_BYTES);
            !withdrawn && end <= *granted
        })
    }

    /// Moves the next chunk of what is at `at` to `batch`, or the end of a body. Returns what has ended with
    /// that.
    pub(super) fn take_chunk(&mut self, at: usize, batch: &mut VecDeque<Queued>) -> TakenChunk {
        let mut taken = TakenChunk::default();
        self.turn = at + 1;
        let Some(announced) = self.announced.get_mut(at) else {
            (taken.waker, taken.body) = self.bodies.take(at - self.announced.len(), batch);
            self.turn -= usize::from(taken.body.is_some());
            return taken;
        };
        let Announced { number, departure, sent, .. } = announced;
        let end = departure.len.min(*sent + CHUNK_BYTES);
        let (kind, class) = (Kind::Chunk, departure.class);
        let len = (end - *sent) as u32;
        batch.push_back(Queued::header(Header { len, kind, class, more: false, id: *number }));
        departure.put(*sent..end, batch);
        *sent = end;
        taken.is_transfer = true;
        if end == departure.len {
            self.turn = at;
            let ended = self.announced.remove(at);
            taken.transfer = Some((ended.departure, ended.was_offered));
        }
        taken
    }

    /// What may be announced next, or sent whole.
    pub(super) fn next_waiting(&self) -> Option<usize> {
        if self.closed || self.waiting.is_empty() {
            return None;
        }
        let announced = || self.announced.iter().map(|announced| &announced.departure);
        let places = Class::ALL.map(|class| {
            let classes = announced().map(|departure| departure.class);
            [has_place(class, classes, TRANSFERS_MAX), self.bodies.has_place(class)]
        });
        // A body that has to wait keeps nothing else from going, and no class another.
        let first = Class::ALL.map(|class| {
            [false, true].map(|opens| {
                let is_it =
                    |departure: &Departure| departure.class == class && departure.opens() == opens;
                self.waiting.iter().position(is_it)
            })
        });
        (0..self.waiting.len()).find(|at| {
            let departure = &self.waiting[*at];
            let (class, opens) = (departure.class as usize, usize::from(departure.opens()));
            if (departure.is_large() || departure.opens()) && !places[class][opens] {
                return false;
            }
            if !departure.is_reply() {
                return first[class][opens] == Some(*at);
            }
            let mut earlier = announced().chain(self.waiting.range(..at));
            !earlier.any(|other| other.is_reply() && other.id == departure.id)
        })
    }

    /// Moves the announcement of what waits at `at` to `batch`, with an offer if `link` makes one, or all of
    /// it if it is not large.
    pub(super) fn take_waiting(
        &mut self,
        at: usize,
        batch: &mut VecDeque<Queued>,
        link: &dyn Transfer,
    ) -> Taken {
        let departure = self.waiting.remove(at).expect("it was just found");
        let Departure { kind, class, id, more, len, .. } = departure;
        if departure.opens() {
            let kind = kind.opening();
            batch.push_back(Queued::header(Header { len: len as u32, kind, class, more, id }));
            departure.put(0..len, batch);
            self.numbers += 1;
            let waker = self.bodies.begin(self.numbers, &departure);
            let charged_bytes = frame_len(len);
            return Taken { charged_bytes, waker, opened: Some(departure), ..Taken::default() };
        }
        if let (Some(leaving), true) = (&departure.leaving, departure.is_copied()) {
            let header = Header { len: len as u32, kind, class, more, id };
            Queued::copy(batch, header, departure.pieces[1].as_deref().unwrap_or_default());
            leaving.note_gathered();
            leaving.note_sent(len);
            let charged_bytes = frame_len(len);
            return Taken { charged_bytes, whole: Some(departure), ..Taken::default() };
        }
        if !departure.is_large() {
            batch.push_back(Queued::header(Header { len: len as u32, kind, class, more, id }));
            departure.put(0..len, batch);
            let tails = u64::from(departure.has_tail());
            let charged_bytes = frame_len(len);
            return Taken { charged_bytes, tails, whole: Some(departure), ..Taken::default() };
        }
        let header =
            Header { len: Announcement::BYTES as u32, kind: Kind::Announce, class, more, id };
        let mut frame = [0; ANNOUNCEMENT_COST];
        frame[..HEADER_BYTES].copy_from_slice(&header.encode());
        frame[HEADER_BYTES..].copy_from_slice(&Announcement { total: len as u64, kind }.encode());
        self.numbers += 1;
        let number = self.numbers;
        let pieces = departure.pieces.iter().flatten();
        let offers: Option<Vec<_>> = match departure.leaving {
            // It goes back to its owner as soon as the link has it.
            Some(_) => None,
            None => pieces.map(|piece| link.offer(piece)).collect(),
        };
        let offers = offers.unwrap_or_default();
        batch.extend(offers.iter().map(|offer| source_frame(number, &offer.source())));
        batch.push_back(Queued::frame(&frame));
        let tails = u64::from(!offers.is_empty() && departure.has_tail());
        self.announced.push(Announced {
            number,
            departure,
            sent: 0,
            granted: 0,
            was_offered: !offers.is_empty(),
            offers,
            withdrawn: false,
        });
        Taken { charged_bytes: ANNOUNCEMENT_COST, tails, ..Taken::default() }
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

/// The frame that says where a piece of transfer `number` lies.
fn source_frame(number: u64, source: &Source) -> Queued {
    let (kind, class) = (Kind::Source, Class::Reply);
    let len = Source::BYTES as u32;
    let mut frame = [0; HEADER_BYTES + Source::BYTES];
    let header = Header { len, kind, class, more: false, id: number };
    frame[..HEADER_BYTES].copy_from_slice(&header.encode());
    frame[HEADER_BYTES..].copy_from_slice(&source.encode());
    Queued::frame(&frame)
}

/// Whether one more may begin of `class`, beside those under way, of all `max` that there may be. Each class leaves
/// to those that it waits for as many places as it has itself: a request never keeps from going what is sent on
/// behalf of another, nor that a reply.
pub(super) fn has_place(class: Class, under_way: impl Iterator<Item = Class>, max: usize) -> bool {
    let (mut all, mut bounded) = (0, 0);
    for other in under_way {
        all += 1;
        bounded += usize::from(other as usize >= class as usize);
    }
    let share = max / Class::ALL.len();
    all < max && bounded < share * (Class::ALL.len() - class as usize)
}

/// What an announcement costs of its class's window.
pub(crate) const ANNOUNCEMENT_COST: usize = frame_len(Announcement::BYTES);

impl Control {
    fn put(self, batch: &mut VecDeque<Queued>) {
        let class = Class::Reply;
        let (kind, number, len) = match &self {
            Self::Grant { number, .. } => (Kind::Grant, *number, size_of::<u64>()),
            Self::Refuse { number } => (Kind::Refuse, *number, 0),
            Self::Cancel { number } | Self::CancelBody { number } => (Kind::Cancel, *number, 0),
            Self::Taken { number, .. } => (Kind::Taken, *number, size_of::<u64>()),
            Self::Withdraw { number } => (Kind::Withdraw, *number, 0),
            Self::RefuseBody { number, reason } => {
                let (kind, reason) = (Kind::Refuse, reason.encode());
                let len = reason.len() as u32;
                let header = Header { len, kind, class, more: false, id: *number };
                return Queued::copy(batch, header, &reason);
            }
        };
        let header = Header { len: len as u32, kind, class, more: false, id: number }.encode();
        batch.push_back(match self {
            Self::Grant { position, .. } | Self::Taken { position, .. } => {
                let mut frame = [0; HEADER_BYTES + size_of::<u64>()];
                frame[..HEADER_BYTES].copy_from_slice(&header);
                frame[HEADER_BYTES..].copy_from_slice(&position.to_le_bytes());
                Queued::frame(&frame)
            }
            _ => Queued::frame(&header),
        });
    }
}
