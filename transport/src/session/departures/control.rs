//! What the two sides of a transfer or streamed body tell each other about it, and its frames.

use std::collections::VecDeque;

use crate::error::StopReason;
use crate::frame::{Announcement, Class, HEADER_BYTES, Header, Kind, frame_len};
use crate::link::Source;
use crate::session::outbound::Queued;

/// What an announcement costs of its class's window.
pub(crate) const ANNOUNCEMENT_COST: usize = frame_len(Announcement::BYTES);

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

/// The frame that says where a piece of transfer `number` lies.
pub(super) fn source_frame(number: u64, source: &Source) -> Queued {
    let (kind, class) = (Kind::Source, Class::Reply);
    let len = Source::BYTES as u32;
    let mut frame = [0; HEADER_BYTES + Source::BYTES];
    let header = Header { len, kind, class, more: false, id: number };
    frame[..HEADER_BYTES].copy_from_slice(&header.encode());
    frame[HEADER_BYTES..].copy_from_slice(&source.encode());
    Queued::frame(&frame)
}

impl Control {
    pub(super) fn put(self, batch: &mut VecDeque<Queued>) {
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
