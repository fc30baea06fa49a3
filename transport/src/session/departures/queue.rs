//! The large bodies of one connection in the order in which they go, and what they become on the wire.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use crate::error::CloseReason;
use crate::frame::{Announcement, Class, HEADER_BYTES, Header, Kind, frame_len};
use crate::limits::{CHUNK_BYTES, TRANSFERS_MAX, TRANSFERS_MAX_WITHOUT_REPLIES};
use crate::link::{Offer, Source, Transfer};
use crate::session::outbound::Queued;
use crate::session::sends::Leaving;

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
    /// Whose chunk is next.
    turn: usize,
    /// How many have been announced.
    numbers: u64,
    tickets: u64,
    /// Those who wait for room.
    pub(super) waiters: Vec<Waker>,
    closed: bool,
}

/// What the receiver of a transfer tells its sender, or the other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// Bytes up to `position` may be sent.
    Grant { number: u64, position: u64 },
    /// Nothing more of it is taken.
    Refuse { number: u64 },
    /// Nothing more of it is sent.
    Cancel { number: u64 },
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
    /// what it still held of its window.
    pub(super) fn cancel_request(&mut self, id: u64) -> Option<(Option<Departure>, usize)> {
        let is_it = |departure: &Departure| departure.kind == Kind::Request && departure.id == id;
        if let Some(at) = self.waiting.iter().position(is_it) {
            return Some((self.waiting.remove(at), ANNOUNCEMENT_COST));
        }
        let at = self.announced.iter().position(|announced| is_it(&announced.departure))?;
        let announced = &mut self.announced[at];
        if !announced.was_offered {
            return Some((Some(self.cancel(at)), 0));
        }
        if !std::mem::replace(&mut announced.withdrawn, true) {
            let number = announced.number;
            self.tell(Control::Withdraw { number });
        }
        Some((None, 0))
    }

    /// Transfer `number` may go on to `position`. Returns whether it is still under way.
    pub(super) fn grant(&mut self, number: u64, position: u64) -> Result<bool, CloseReason> {
        let Some(at) = self.find(number)? else { return Ok(false) };
        let announced = &mut self.announced[at];
        if position > announced.departure.len as u64 {
            return Err(CloseReason::Violation("a grant beyond the end of a transfer"));
        }
        announced.granted = announced.granted.max(position as usize);
        Ok(true)
    }

    /// The peer takes nothing more of transfer `number`, which is taken out if it is still under way.
    pub(super) fn refuse(&mut self, number: u64) -> Result<Option<Departure>, CloseReason> {
        let Some(at) = self.find(number)? else { return Ok(None) };
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
        let Some(at) = self.find(number)? else { return Ok(None) };
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
        | Control::Taken { number, .. } = control
        {
            self.forget(number);
        }
        self.controls.push_back(control);
    }

    /// Nothing is to be told any more about the peer's transfer `number`.
    pub(super) fn forget(&mut self, number: u64) {
        self.controls.retain(|control| match *control {
            Control::Grant { number: other, .. }
            | Control::Refuse { number: other }
            | Control::Taken { number: other, .. } => other != number,
            Control::Cancel { .. } | Control::Withdraw { .. } => true,
        });
    }

    /// Moves what is to be told to `batch`.
    pub(super) fn take_controls(&mut self, batch: &mut VecDeque<Queued>) {
        if self.closed {
            return self.controls.clear();
        }
        batch.extend(self.controls.drain(..).map(Control::into_frame));
    }

    /// Whose chunk is next, if any may be sent.
    pub(super) fn next_chunk(&self) -> Option<usize> {
        let count = self.announced.len();
        let in_turn = (0..count).map(|step| (self.turn + step) % count);
        in_turn.into_iter().find(|at| {
            let Announced { sent, granted, departure, withdrawn, .. } = &self.announced[*at];
            let end = departure.len.min(sent + CHUNK_BYTES);
            !self.closed && !withdrawn && end <= *granted
        })
    }

    /// Moves the next chunk of the transfer at `at` to `batch`. If that ends it, returns what it was, and
    /// whether it had been offered.
    pub(super) fn take_chunk(
        &mut self,
        at: usize,
        batch: &mut VecDeque<Queued>,
    ) -> Option<(Departure, bool)> {
        let Announced { number, departure, sent, .. } = &mut self.announced[at];
        let end = departure.len.min(*sent + CHUNK_BYTES);
        let (kind, class) = (Kind::Chunk, departure.class);
        let len = (end - *sent) as u32;
        batch.push_back(Queued::header(Header { len, kind, class, more: false, id: *number }));
        departure.put(*sent..end, batch);
        *sent = end;
        self.turn = at + 1;
        (end == departure.len).then(|| {
            self.turn = at;
            let ended = self.announced.remove(at);
            let was_offered = ended.was_offered;
            (ended.departure, was_offered)
        })
    }

    /// What may be announced next, or sent whole.
    pub(super) fn next_waiting(&self) -> Option<usize> {
        if self.closed || self.waiting.is_empty() {
            return None;
        }
        let announced = || self.announced.iter().map(|announced| &announced.departure);
        let others = announced().filter(|departure| !departure.is_reply()).count();
        let first = self.waiting.iter().position(|departure| !departure.is_reply());
        (0..self.waiting.len()).find(|at| {
            let departure = &self.waiting[*at];
            if !departure.is_reply() {
                let has_room =
                    others < TRANSFERS_MAX_WITHOUT_REPLIES && self.announced.len() < TRANSFERS_MAX;
                return first == Some(*at) && (has_room || !departure.is_large());
            }
            let mut earlier = announced().chain(self.waiting.range(..at));
            let is_next = !earlier.any(|other| other.is_reply() && other.id == departure.id);
            is_next && (!departure.is_large() || self.announced.len() < TRANSFERS_MAX)
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
        if let (Some(leaving), true) = (&departure.leaving, departure.is_copied()) {
            let header = Header { len: len as u32, kind, class, more, id };
            Queued::copy(batch, header, departure.pieces[1].as_deref().unwrap_or_default());
            leaving.note_gathered();
            leaving.note_sent(len);
            return Taken { charged_bytes: frame_len(len), tails: 0, whole: Some(departure) };
        }
        if !departure.is_large() {
            batch.push_back(Queued::header(Header { len: len as u32, kind, class, more, id }));
            departure.put(0..len, batch);
            let tails = u64::from(departure.has_tail());
            return Taken { charged_bytes: frame_len(len), tails, whole: Some(departure) };
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
        Taken { charged_bytes: ANNOUNCEMENT_COST, tails, whole: None }
    }

    /// Lets go of all bodies: nothing is sent any more. What they were is kept. Returns the posted
    /// buffers among them.
    pub(super) fn close(&mut self) -> Vec<Arc<Leaving>> {
        self.closed = true;
        self.controls.clear();
        for announced in &mut self.announced {
            announced.offers.clear();
        }
        let announced = self.announced.iter_mut().map(|announced| &mut announced.departure);
        announced.chain(&mut self.waiting).filter_map(Departure::let_go).collect()
    }

    /// Where transfer `number` is, unless it has ended.
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

/// What an announcement costs of its class's window.
pub(crate) const ANNOUNCEMENT_COST: usize = frame_len(Announcement::BYTES);

impl Control {
    fn into_frame(self) -> Queued {
        let (kind, number, len) = match self {
            Self::Grant { number, .. } => (Kind::Grant, number, size_of::<u64>()),
            Self::Refuse { number } => (Kind::Refuse, number, 0),
            Self::Cancel { number } => (Kind::Cancel, number, 0),
            Self::Taken { number, .. } => (Kind::Taken, number, size_of::<u64>()),
            Self::Withdraw { number } => (Kind::Withdraw, number, 0),
        };
        let class = Class::Reply;
        let header = Header { len: len as u32, kind, class, more: false, id: number }.encode();
        match self {
            Self::Grant { position, .. } | Self::Taken { position, .. } => {
                let mut frame = [0; HEADER_BYTES + size_of::<u64>()];
                frame[..HEADER_BYTES].copy_from_slice(&header);
                frame[HEADER_BYTES..].copy_from_slice(&position.to_le_bytes());
                Queued::frame(&frame)
            }
            Self::Refuse { .. } | Self::Cancel { .. } | Self::Withdraw { .. } => {
                Queued::frame(&header)
            }
        }
    }
}
