//! One body that is to be sent.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::frame::{Class, Kind, padded};
use crate::lane::Mark;
use crate::limits::{COPIED_MAX, MESSAGE_MAX, REPLY_QUEUED_COST};
use crate::memory::Shared;
use crate::session::outbound::Queued;
use crate::session::outflow::Outflow;
use crate::session::sends::Leaving;

/// One body that is to be sent. A part of a reply that follows a large one waits here too, whatever
/// its length, so that parts stay in order.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(super) kind: Kind,
    pub(super) class: Class,
    /// The id of the call.
    pub(super) id: u64,
    pub(super) more: bool,
    pub(super) len: usize,
    /// The body, in at most two pieces.
    pub(super) pieces: [Option<Shared>; 2],
    /// What follows it, if it is the head of a streamed body.
    pub(super) flow: Option<Arc<Outflow>>,
    /// The posted buffer that it is.
    pub(super) leaving: Option<Arc<Leaving>>,
    /// What its sender had sent by a lane before, and it may not overtake.
    behind: Option<Mark>,
    pub(super) ticket: u64,
}

/// What room is made for: `head` bytes in memory of their own, and `tail`, which lies elsewhere. Senders wait
/// for the room; of replies, requests do, so no more of the tail is counted than that there is one.
pub(crate) fn queued_cost(kind: Kind, head: usize, tail: Option<&Shared>) -> usize {
    let of_tail = |tail: &Shared| match kind {
        Kind::Reply => REPLY_QUEUED_COST,
        _ => tail.len(),
    };
    head + tail.map_or(0, of_tail)
}

impl Departure {
    pub(crate) fn new(
        (kind, class, id, more): (Kind, Class, u64, bool),
        head: Option<Shared>,
        tail: Option<Shared>,
    ) -> Self {
        let pieces = [head, tail];
        let len = pieces.iter().flatten().map(|piece| piece.len()).sum();
        let (flow, leaving, behind) = (None, None, None);
        Self { kind, class, id, more, len, pieces, flow, leaving, behind, ticket: 0 }
    }

    /// Begins when all before `mark` has been taken for sending. The lane has been announced by now, or
    /// nobody would take it.
    pub(crate) fn behind(self, mark: Option<Mark>) -> Self {
        Self { behind: mark, ..self }
    }

    /// Whether it would overtake what its sender has sent before.
    pub(super) fn is_held_up(&self) -> bool {
        self.behind.as_ref().is_some_and(|mark| !mark.is_reached())
    }

    /// The head of a streamed body.
    pub(crate) fn opening(
        (kind, class, id): (Kind, Class, u64),
        head: Option<Shared>,
        flow: &Arc<Outflow>,
    ) -> Self {
        let flow = Some(Arc::clone(flow));
        Self { flow, ..Self::new((kind, class, id, false), head, None) }
    }

    /// What is sent from a posted buffer.
    pub(crate) fn posted(
        header: (Kind, Class, u64, bool),
        body: Shared,
        leaving: Arc<Leaving>,
    ) -> Self {
        Self { leaving: Some(leaving), ..Self::new(header, None, Some(body)) }
    }

    /// Bytes that it counts for among those that wait: those of a posted buffer are its owner's, and no room
    /// is made for the head of a request or message, which the window bounds.
    pub(crate) fn queued_bytes(&self) -> usize {
        match (&self.flow, &self.leaving) {
            (Some(_), _) if self.is_reply() => REPLY_QUEUED_COST,
            (Some(_), _) | (_, Some(_)) => 0,
            (None, None) => {
                let [head, tail] = self.pieces.each_ref().map(|piece| piece.as_ref());
                queued_cost(self.kind, head.map_or(0, |head| head.len()), tail)
            }
        }
    }

    /// The posted buffer that it is; the departure is of no use any more then.
    pub(super) fn into_leaving(self) -> Option<Arc<Leaving>> {
        self.leaving
    }

    /// Lets go of the body.
    pub(super) fn let_go(&mut self) -> Option<Arc<Leaving>> {
        if let Some(flow) = &self.flow {
            flow.close();
        }
        self.pieces = [None, None];
        self.leaving.take()
    }

    pub(super) fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Whether a streamed body begins with it.
    pub(super) fn opens(&self) -> bool {
        self.flow.is_some()
    }

    pub(super) fn is_reply(&self) -> bool {
        self.kind == Kind::Reply
    }

    /// Whether a part of it lay elsewhere before, and is sent from there.
    pub(super) fn has_tail(&self) -> bool {
        self.pieces[1].is_some() && !self.is_copied()
    }

    /// Whether it is copied out of a posted buffer.
    pub(super) fn is_copied(&self) -> bool {
        self.leaving.is_some() && self.len <= COPIED_MAX
    }

    pub(super) fn is_large(&self) -> bool {
        self.len > MESSAGE_MAX
    }

    /// Puts the bytes at `range`, and what pads them, at the end of `batch`.
    pub(super) fn put(&self, range: std::ops::Range<usize>, batch: &mut VecDeque<Queued>) {
        let mut begin = 0;
        for piece in self.pieces.iter().flatten() {
            let end = begin + piece.len();
            let (from, to) = (range.start.clamp(begin, end), range.end.clamp(begin, end));
            if from < to {
                let bytes = piece.slice(from - begin..to - begin);
                batch.push_back(Queued::Body { bytes, leaving: self.leaving.clone() });
            }
            begin = end;
        }
        if range.end == self.len
            && let Some(leaving) = &self.leaving
        {
            leaving.note_gathered();
        }
        let padding = padded(range.len()) - range.len();
        if padding > 0 {
            batch.push_back(Queued::frame(&[0; 8][..padding]));
        }
    }
}
