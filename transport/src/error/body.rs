//! What can go wrong with a streamed body, and what its two sides tell each other about it.

use std::time::Duration;

use super::{Applied, CloseReason};
use crate::memory::MemoryError;

/// Why a streamed body did not begin, or did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The peer knows nothing of streamed bodies. Nothing was sent.
    #[error("the peer takes no streamed bodies")]
    Unsupported,
    /// What the body was to begin with is too long. Nothing was sent.
    #[error("the head of a body of {len} bytes, where at most {limit} are allowed")]
    HeadTooLong {
        /// Bytes of the head.
        len: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The body could not begin in time. Nothing was sent.
    #[error("deadline exceeded before the body began")]
    DeadlineExceeded,
    /// There was no memory to write into. Of a body that had begun, the peer is told.
    #[error("no memory for the body")]
    Memory(#[source] MemoryError),
    /// The connection ended first.
    #[error("disconnected: {reason} ({applied})")]
    Disconnected {
        /// Whether any of it had left: the peer may have handled that part then.
        applied: Applied,
        /// Why the connection ended.
        reason: CloseReason,
    },
    /// Who sends the body gave it up in the middle. What came before that was lent to the reader.
    #[error("the sender gave the body up: {0}")]
    Aborted(StopReason),
    /// Who receives the body takes nothing more of it. It may have used what came before.
    #[error("the receiver gave the body up: {0}")]
    Refused(StopReason),
    /// The peer has sent nothing, or taken nothing, for as long as this side is patient. It is told.
    #[error("the peer has not gone on with the body for {patience:?}")]
    Silent {
        /// For how long.
        patience: Duration,
    },
}

impl BodyError {
    /// Whether the peer may have got any of it.
    pub fn applied(&self) -> Applied {
        match self {
            Self::Unsupported | Self::HeadTooLong { .. } | Self::DeadlineExceeded => Applied::No,
            Self::Disconnected { applied, .. } => *applied,
            Self::Memory(_) | Self::Aborted(_) | Self::Refused(_) | Self::Silent { .. } => {
                Applied::Maybe
            }
        }
    }
}

/// Why one side of a streamed body gave it up, as it tells the other one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopReason {
    /// It was dropped before the end, without a word.
    #[error("dropped before its end")]
    Dropped,
    /// The other side did not go on with it for too long.
    #[error("the other side did not go on with it")]
    Silent,
    /// There was no memory for it.
    #[error("no memory")]
    Memory,
    /// Nobody wants it: its call is over, or who was given the head left the body alone.
    #[error("nobody takes it")]
    NotTaken,
    /// The program's own reason.
    #[error("{text} (code {code})")]
    Program {
        /// A number that both programs know.
        code: u32,
        /// The reason in words. What is longer than 248 bytes is cut.
        text: String,
    },
    /// A reason that this version does not know.
    #[error("for a reason that is unknown to this version ({0})")]
    Unknown(u32),
}

impl StopReason {
    /// The longest reason as bytes.
    pub(crate) const BYTES_MAX: usize = 256;

    const FIXED_BYTES: usize = 8;

    /// The reason as the body of a cancel or a refusal.
    pub fn encode(&self) -> Vec<u8> {
        let (reason, code, text) = match self {
            Self::Program { code, text } => (0, *code, text.as_str()),
            Self::Dropped => (1, 0, ""),
            Self::Silent => (2, 0, ""),
            Self::Memory => (3, 0, ""),
            Self::NotTaken => (4, 0, ""),
            Self::Unknown(reason) => (*reason, 0, ""),
        };
        let end = text.floor_char_boundary(Self::BYTES_MAX - Self::FIXED_BYTES);
        let mut bytes = Vec::with_capacity(Self::FIXED_BYTES + end);
        bytes.extend_from_slice(&u32::to_le_bytes(reason));
        bytes.extend_from_slice(&code.to_le_bytes());
        bytes.extend_from_slice(&text.as_bytes()[..end]);
        bytes
    }

    /// Reads a reason; nothing if it is none. An empty one is that of who gave none.
    pub fn decode(body: &[u8]) -> Option<Self> {
        if body.is_empty() {
            return Some(Self::Dropped);
        }
        let (reason, rest) = body.split_first_chunk()?;
        let (code, text) = rest.split_first_chunk()?;
        Some(match u32::from_le_bytes(*reason) {
            0 => Self::Program {
                code: u32::from_le_bytes(*code),
                text: String::from_utf8_lossy(text).into_owned(),
            },
            1 => Self::Dropped,
            2 => Self::Silent,
            3 => Self::Memory,
            4 => Self::NotTaken,
            unknown => Self::Unknown(unknown),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reason() -> impl Strategy<Value = StopReason> {
        prop_oneof![
            Just(StopReason::Dropped),
            Just(StopReason::Silent),
            Just(StopReason::Memory),
            Just(StopReason::NotTaken),
            (5u32..).prop_map(StopReason::Unknown),
            (any::<u32>(), ".{0,400}").prop_map(|(code, text)| StopReason::Program { code, text }),
        ]
    }

    proptest! {
        #[test]
        fn a_reason_comes_as_it_was_sent_but_for_the_end_of_a_long_text(reason in reason()) {
            let bytes = reason.encode();
            prop_assert!(bytes.len() <= StopReason::BYTES_MAX);
            match (StopReason::decode(&bytes).unwrap(), reason) {
                (StopReason::Program { code, text }, StopReason::Program { code: sent, text: all }) => {
                    prop_assert_eq!(code, sent);
                    prop_assert!(all.starts_with(&text) && (text == all || text.len() > 240));
                }
                (came, sent) => prop_assert_eq!(came, sent),
            }
        }

        #[test]
        fn whatever_comes_as_a_reason_is_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let is_cut = (1..8).contains(&bytes.len());
            prop_assert_eq!(StopReason::decode(&bytes).is_none(), is_cut);
        }
    }
}
