//! What lies in a batch, to be written by a link.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::frame::Header;
use crate::lane::Piece;
use crate::limits::BATCH_BYTES;
use crate::link::lent::LENT_MIN;
use crate::memory::Shared;
use crate::session::departures::ANNOUNCEMENT_COST;
use crate::session::sends::Leaving;

/// A part of a batch.
#[derive(Debug)]
pub(in crate::session) enum Queued {
    Piece(Piece),
    /// A short frame, or a part of one, from `start` to `end`.
    Frame {
        bytes: [u8; ANNOUNCEMENT_COST],
        start: u8,
        end: u8,
    },
    /// A part of a large body, or of a posted buffer. The bytes go first.
    Body {
        bytes: Shared,
        leaving: Option<Arc<Leaving>>,
    },
    /// Whole frames, copied one behind the other.
    Frames {
        bytes: Vec<u8>,
        sent: usize,
    },
}

impl Queued {
    /// Bytes that are no body.
    pub(in crate::session) fn frame(bytes: &[u8]) -> Self {
        let mut frame = [0; ANNOUNCEMENT_COST];
        frame[..bytes.len()].copy_from_slice(bytes);
        Self::Frame { bytes: frame, start: 0, end: bytes.len() as u8 }
    }

    pub(in crate::session) fn header(header: Header) -> Self {
        Self::frame(&header.encode())
    }

    /// Copies a frame to the end of `batch`, behind others that are copied.
    pub(in crate::session) fn copy(batch: &mut VecDeque<Self>, header: Header, body: &[u8]) {
        let has_room = |queued: &Self| {
            // What has been sent of it stays until all of it has.
            matches!(queued, Self::Frames { bytes, .. } if bytes.len() < BATCH_BYTES)
        };
        if !batch.back().is_some_and(has_room) {
            batch.push_back(Self::Frames { bytes: Vec::new(), sent: 0 });
        }
        let Some(Self::Frames { bytes, .. }) = batch.back_mut() else { return };
        bytes.extend_from_slice(&header.encode());
        bytes.extend_from_slice(body);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Piece(piece) => piece.bytes(),
            Self::Frame { bytes, start, end } => &bytes[usize::from(*start)..usize::from(*end)],
            Self::Body { bytes, .. } => bytes,
            Self::Frames { bytes, sent } => &bytes[*sent..],
        }
    }

    /// The memory that it lies in, where it is long enough to be sent from there, and the posted buffer that this is.
    pub(super) fn memory(&self) -> Option<(&Shared, Option<&Arc<Leaving>>)> {
        let (memory, leaving) = match self {
            Self::Piece(Piece::Tail(memory)) => (memory, None),
            Self::Body { bytes, leaving } => (bytes, leaving.as_ref()),
            Self::Piece(_) | Self::Frame { .. } | Self::Frames { .. } => return None,
        };
        (memory.len() >= LENT_MIN).then_some((memory, leaving))
    }

    pub(super) fn advance(&mut self, count: usize) {
        match self {
            Self::Piece(piece) => piece.advance(count),
            Self::Frame { start, .. } => *start += count as u8,
            Self::Body { bytes, leaving } => {
                *bytes = bytes.slice(count..bytes.len());
                if let Some(leaving) = leaving {
                    leaving.note_sent(count);
                }
            }
            Self::Frames { sent, .. } => *sent += count,
        }
    }
}
