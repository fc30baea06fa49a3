//! What of all that waits or is under way goes next, and what it becomes on the wire.

use std::collections::VecDeque;
use std::task::Waker;

use super::super::bodies::Ended;
use super::super::control::{ANNOUNCEMENT_COST, source_frame};
use super::super::departure::Departure;
use super::super::places::has_place;
use super::{Announced, Queue};
use crate::frame::{Announcement, Class, HEADER_BYTES, Header, Kind, frame_len};
use crate::limits::{CHUNK_BYTES, TRANSFERS_MAX};
use crate::link::Transfer;
use crate::session::outbound::Queued;

/// What has been taken of what waited.
#[derive(Debug, Default)]
pub(in crate::session::departures) struct Taken {
    /// What is charged to its window.
    pub(in crate::session::departures) charged_bytes: usize,
    /// How many bodies leave from where they lay before.
    pub(in crate::session::departures) tails: u64,
    /// What it was, if nothing more of it is to be sent.
    pub(in crate::session::departures) whole: Option<Departure>,
    /// What it was, if a body has begun with it.
    pub(in crate::session::departures) opened: Option<Departure>,
    /// Who writes that body, and has waited for it.
    pub(in crate::session::departures) waker: Option<Waker>,
}

/// What has been taken in turn: a chunk, or the end of a body.
#[derive(Debug, Default)]
pub(in crate::session::departures) struct TakenChunk {
    /// Whether it was of a transfer.
    pub(in crate::session::departures) is_transfer: bool,
    /// What the transfer was and whether it had been offered, if it has ended.
    pub(in crate::session::departures) transfer: Option<(Departure, bool)>,
    /// The body, if it has ended.
    pub(in crate::session::departures) body: Option<Ended>,
    /// Who writes it, and has waited for room.
    pub(in crate::session::departures) waker: Option<Waker>,
}

impl Queue {
    /// Whose chunk is next, if any may be sent: a transfer's or a body's.
    pub(in crate::session::departures) fn next_chunk(&self) -> Option<usize> {
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
    pub(in crate::session::departures) fn take_chunk(
        &mut self,
        at: usize,
        batch: &mut VecDeque<Queued>,
    ) -> TakenChunk {
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
    pub(in crate::session::departures) fn next_waiting(&self) -> Option<usize> {
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
            if departure.is_held_up() {
                return false;
            }
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

    /// Whether something goes as soon as what its sender had sent before has been taken.
    pub(in crate::session::departures) fn any_held_up(&self) -> bool {
        !self.closed && self.waiting.iter().any(Departure::is_held_up)
    }

    /// Moves the announcement of what waits at `at` to `batch`, with an offer if `link` makes one, or all of
    /// it if it is not large.
    pub(in crate::session::departures) fn take_waiting(
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
}
