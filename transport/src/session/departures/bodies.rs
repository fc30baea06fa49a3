//! The streamed bodies of one connection that have begun, and what they become on the wire.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use crate::error::StopReason;
use crate::frame::{Class, Header, Kind, padded};
use crate::limits::BODIES_MAX;
#[cfg(test)]
use crate::session::ledger::SentBody;
use crate::session::outbound::Queued;
use crate::session::outflow::{Outflow, Over, Part, Step};

use super::departure::Departure;
use super::places::has_place;

/// Those whose head has been taken for sending, and not their end.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    open: Vec<Body>,
}

#[derive(Debug)]
struct Body {
    /// Counted with the transfers.
    number: u64,
    class: Class,
    flow: Arc<Outflow>,
    granted: u64,
}

/// A body that has ended, and what is to be done about that.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) class: Class,
    pub(super) waker: Option<Waker>,
}

impl Bodies {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether one more may begin in `class`.
    pub(super) fn has_place(&self, class: Class) -> bool {
        has_place(class, self.open.iter().map(|body| body.class), BODIES_MAX)
    }

    /// The body that `departure` begins with has this number. Returns who is to be woken.
    pub(super) fn begin(&mut self, number: u64, departure: &Departure) -> Option<Waker> {
        let flow = Arc::clone(departure.flow.as_ref()?);
        let waker = flow.open();
        self.open.push(Body { number, class: departure.class, flow, granted: 0 });
        waker
    }

    /// Where body `number` is, if it has begun and not ended.
    pub(super) fn find(&self, number: u64) -> Option<usize> {
        self.open.iter().position(|body| body.number == number)
    }

    /// The body at `at` may go on to `position`.
    pub(super) fn grant(&mut self, at: usize, position: u64) {
        let body = &mut self.open[at];
        body.granted = body.granted.max(position);
    }

    /// The receiver takes nothing more of the body at `at`.
    pub(super) fn refuse(&mut self, at: usize, reason: StopReason) -> Ended {
        self.open.remove(at).end(Over::Refused(reason))
    }

    /// Whether there is something to send of the body at `at`.
    pub(super) fn is_ready(&self, at: usize) -> bool {
        let body = &self.open[at];
        body.flow.is_ready(body.granted)
    }

    /// Moves a chunk of the body at `at` to `batch`, or its end if it is there by then. Returns who is to be
    /// woken, and what it was if it has ended.
    pub(super) fn take(
        &mut self,
        at: usize,
        batch: &mut VecDeque<Queued>,
    ) -> (Option<Waker>, Option<Ended>) {
        let Body { number, class, flow, granted } = &self.open[at];
        let (id, class, more) = (*number, *class, false);
        let mut padding = 0;
        let (step, waker) = flow.take(*granted, |part| match part {
            Part::Chunk(len) => {
                padding = padded(len) - len;
                let kind = Kind::Chunk;
                batch.push_back(Queued::header(Header { len: len as u32, kind, class, more, id }));
            }
            Part::Piece(bytes) => batch.push_back(Queued::Body { bytes, leaving: None }),
        });
        if padding > 0 {
            batch.push_back(Queued::frame(&[0; 8][..padding]));
        }
        let over = match step {
            Some(Step::End) => {
                let total = flow.taken().to_le_bytes();
                let (kind, len) = (Kind::End, total.len() as u32);
                Queued::copy(batch, Header { len, kind, class, more, id }, &total);
                Over::Whole
            }
            Some(Step::Cancel(reason)) => {
                let (kind, reason) = (Kind::Cancel, reason.encode());
                let len = reason.len() as u32;
                Queued::copy(batch, Header { len, kind, class, more, id }, &reason);
                Over::Aborted
            }
            Some(Step::Chunk(_)) | None => return (waker, None),
        };
        (waker, Some(self.open.remove(at).end(over)))
    }

    #[cfg(test)]
    pub(super) fn ledger(&self) -> Vec<SentBody> {
        let sent = self.open.iter().map(|body| {
            let Body { number, granted, flow, .. } = body;
            SentBody { number: *number, taken: flow.taken(), granted: *granted }
        });
        sent.collect()
    }

    /// Ends all of them: nothing is sent any more. What they are is kept.
    pub(super) fn close(&self) {
        self.open.iter().for_each(|body| body.flow.close());
    }

    /// The writers that wait.
    pub(super) fn take_wakers(&self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.open.iter().filter_map(|body| body.flow.take_waker()));
    }
}

impl Body {
    fn end(self, over: Over) -> Ended {
        Ended { class: self.class, waker: self.flow.end(over) }
    }
}
