//! The frame: sixteen bytes of header, then the body, padded to eight bytes.
//!
//! `docs/wire-format.md` draws it. Every frame begins at a multiple of eight bytes, so that a body
//! can be read in place, whatever it holds.

use crate::error::StopReason;
use crate::limits::{BODY_HEAD_MAX, CHUNK_BYTES, GREETING_MAX, MESSAGE_MAX};

pub use crate::link::Source;

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 16;

/// Bytes that a frame with a body of `body` bytes takes on the wire: header, body, padding. This
/// is also what it costs of its class's window.
pub const fn frame_len(body: usize) -> usize {
    HEADER_BYTES + padded(body)
}

/// `len` rounded up to the eight bytes that frames are aligned to.
pub(crate) const fn padded(len: usize) -> usize {
    (len + 7) & !7
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The first frame in each direction: who speaks, and in what version.
    Hello = 1,
    /// The last frame in a direction: why the connection ends.
    Goodbye = 2,
    /// A cumulative grant of window for the frame's class.
    Credit = 3,
    /// A message that is not answered.
    Message = 4,
    /// A message that wants a reply.
    Request = 5,
    /// A reply, or a part of one.
    Reply = 6,
    /// A message, request or reply that is longer than one frame may be, and comes in chunks.
    Announce = 7,
    /// How much of an announced transfer may be sent.
    Grant = 8,
    /// The next bytes of an announced transfer.
    Chunk = 9,
    /// The receiver takes nothing more of a transfer.
    Refuse = 10,
    /// The sender sends nothing more of a transfer, which ends with this.
    Cancel = 11,
    /// Where a piece of the body that is announced next lies in the sender's memory: the receiver may read
    /// it by itself.
    Source = 12,
    /// How much of an announced transfer the receiver has read by itself; all of it, or that it reads
    /// nothing more, ends it.
    Taken = 13,
    /// The sender wants back the memory of a transfer that the receiver may be reading.
    Withdraw = 14,
    /// A message with which a streamed body begins.
    OpenMessage = 15,
    /// A request with which a streamed body begins.
    OpenRequest = 16,
    /// A reply, or the last part of one, with which a streamed body begins.
    OpenReply = 17,
    /// The end of a streamed body, all of which has been sent.
    End = 18,
    /// A call gets no reply: whoever was to give it has dropped it.
    Unanswered = 19,
}

impl Kind {
    fn from_wire(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Hello,
            2 => Self::Goodbye,
            3 => Self::Credit,
            4 => Self::Message,
            5 => Self::Request,
            6 => Self::Reply,
            7 => Self::Announce,
            8 => Self::Grant,
            9 => Self::Chunk,
            10 => Self::Refuse,
            11 => Self::Cancel,
            12 => Self::Source,
            13 => Self::Taken,
            14 => Self::Withdraw,
            15 => Self::OpenMessage,
            16 => Self::OpenRequest,
            17 => Self::OpenReply,
            18 => Self::End,
            19 => Self::Unanswered,
            _ => return None,
        })
    }

    /// The longest body a frame of this kind may have.
    const fn body_max(self) -> usize {
        match self {
            Self::Hello | Self::Goodbye => GREETING_MAX,
            Self::Credit | Self::Withdraw | Self::Unanswered => 0,
            // Of a transfer they are empty; which it is of is not in the header.
            Self::Refuse | Self::Cancel => StopReason::BYTES_MAX,
            Self::Announce => Announcement::BYTES,
            Self::Source => Source::BYTES,
            Self::Grant | Self::Taken | Self::End => 8,
            Self::Chunk => CHUNK_BYTES,
            Self::Message | Self::Request | Self::Reply => MESSAGE_MAX,
            Self::OpenMessage | Self::OpenRequest | Self::OpenReply => BODY_HEAD_MAX,
        }
    }

    /// What a frame of this kind is apart from the body that begins with it, if one does.
    pub(crate) const fn opened(self) -> Option<Self> {
        match self {
            Self::OpenMessage => Some(Self::Message),
            Self::OpenRequest => Some(Self::Request),
            Self::OpenReply => Some(Self::Reply),
            _ => None,
        }
    }

    /// The kind of a frame of this kind with which a body begins.
    pub(crate) const fn opening(self) -> Self {
        match self {
            Self::Message => Self::OpenMessage,
            Self::Request => Self::OpenRequest,
            Self::Reply => Self::OpenReply,
            other => other,
        }
    }
}

/// Which window a frame is charged to. A class waits only for those named before it, so that no
/// cycle of nodes that wait for one another can lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// Replies to calls.
    Reply = 0,
    /// What storage nodes send one another on behalf of a client's request.
    Replication = 1,
    /// Calls and messages of clients.
    Request = 2,
}

impl Class {
    /// All classes, in the order in which they may wait for one another.
    pub const ALL: [Self; 3] = [Self::Reply, Self::Replication, Self::Request];

    fn from_wire(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the body, without padding.
    pub len: u32,
    /// What the frame is.
    pub kind: Kind,
    /// The window that it is charged to; of a credit, the one that it grants.
    pub class: Class,
    /// For replies: more parts of the same reply follow.
    pub more: bool,
    /// Of a request or reply, announced or whole, the caller's id of the call; of a credit, the
    /// position granted; of what belongs to a transfer or a streamed body, its number.
    pub id: u64,
}

/// The body of an announcement; the rest of what it says is in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement {
    /// Bytes that follow in chunks.
    pub total: u64,
    /// What they are: a message, a request or a reply.
    pub kind: Kind,
}

impl Announcement {
    /// Bytes of an announcement's body.
    pub const BYTES: usize = 16;

    /// The body as bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.total.to_le_bytes());
        bytes[8] = self.kind as u8;
        bytes
    }

    /// Reads a body; nothing if it is none. How long the transfer is has not been checked then.
    pub fn decode(body: &[u8]) -> Option<Self> {
        let (total, rest) = body.split_first_chunk()?;
        let (&kind, zeros) = rest.split_first()?;
        let kind = match Kind::from_wire(kind)? {
            kind @ (Kind::Message | Kind::Request | Kind::Reply) => kind,
            _ => return None,
        };
        let is_whole = zeros.len() == Self::BYTES - 9 && zeros.iter().all(|byte| *byte == 0);
        is_whole.then_some(Self { total: u64::from_le_bytes(*total), kind })
    }
}

/// Why bytes are no frame. Each closes the connection, after a goodbye with its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The kind byte is none that this version knows.
    #[error("unknown frame kind {0}")]
    UnknownKind(u8),
    /// The class byte is none that this version knows.
    #[error("unknown frame class {0}")]
    UnknownClass(u8),
    /// A flag is set that this version does not know.
    #[error("unknown frame flags {0:#06x}")]
    UnknownFlags(u16),
    /// The body is longer than frames of its kind may be.
    #[error("frame of {len} bytes, where at most {limit} are allowed")]
    TooLong {
        /// Bytes announced.
        len: u32,
        /// Bytes allowed.
        limit: usize,
    },
}

const FLAG_MORE: u16 = 1;

impl Header {
    /// The header as bytes.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&self.len.to_le_bytes());
        bytes[4] = self.kind as u8;
        bytes[5] = self.class as u8;
        bytes[6..8].copy_from_slice(&(if self.more { FLAG_MORE } else { 0 }).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        bytes
    }

    /// Reads a header and checks everything in it that can be checked without the body; nothing
    /// may be allocated for a frame before this has succeeded.
    ///
    /// # Errors
    /// What is wrong with it; the connection cannot be read any further.
    #[inline]
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let len = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let kind = Kind::from_wire(bytes[4]).ok_or(FrameError::UnknownKind(bytes[4]))?;
        let class = Class::from_wire(bytes[5]).ok_or(FrameError::UnknownClass(bytes[5]))?;
        let flags = u16::from_le_bytes([bytes[6], bytes[7]]);
        if flags & !FLAG_MORE != 0 {
            return Err(FrameError::UnknownFlags(flags));
        }
        if len as usize > kind.body_max() {
            return Err(FrameError::TooLong { len, limit: kind.body_max() });
        }
        let id = u64::from_le_bytes([
            bytes[8], bytes[9], bytes[10], bytes[11], bytes[12], bytes[13], bytes[14], bytes[15],
        ]);
        Ok(Self { len, kind, class, more: flags & FLAG_MORE != 0, id })
    }

    /// Bytes of the whole frame on the wire.
    #[inline]
    pub const fn frame_len(&self) -> usize {
        frame_len(self.len as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_frame_that_announces_4_gib_is_refused_before_anything_is_allocated() {
        let mut bytes =
            Header { len: 0, kind: Kind::Request, class: Class::Request, more: false, id: 7 }
                .encode();
        bytes[0..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(
            Header::decode(&bytes),
            Err(FrameError::TooLong { len: u32::MAX, limit: MESSAGE_MAX })
        );
    }

    proptest! {
        #[test]
        fn whatever_decodes_encodes_to_the_same_bytes(bytes: [u8; HEADER_BYTES]) {
            if let Ok(header) = Header::decode(&bytes) {
                prop_assert_eq!(header.encode(), bytes);
            }
        }

        #[test]
        fn whatever_announces_encodes_to_the_same_bytes(
            mut bytes: [u8; Announcement::BYTES], kind in 0u8..16, clean: bool, len in 0usize..=16,
        ) {
            bytes[8] = kind;
            if clean {
                bytes[9..].fill(0);
            }
            match Announcement::decode(&bytes[..len]) {
                Some(announcement) => prop_assert_eq!(announcement.encode(), bytes),
                None => prop_assert!(len < 16 || !clean || !(4..=6).contains(&kind)),
            }
        }

        #[test]
        fn headers_survive_a_round_trip(
            len in 0..=MESSAGE_MAX as u32, kind in 4u8..=6, class in 0u8..3, more: bool, id: u64,
        ) {
            let header = Header {
                len,
                kind: Kind::from_wire(kind).expect("one of the message kinds"),
                class: Class::from_wire(class).expect("one of the classes"),
                more,
                id,
            };
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        }
    }
}
