//! The 16 bytes that every reply starts with, and the reply that says why there is no other.

use std::borrow::Cow;
use std::fmt;

use crate::codec::{Writer, word_bytes, words};
use crate::error::{DecodeError, LimitError, ReplyError};
use crate::error_code::ErrorCode;
use crate::limits::ERROR_DETAIL_MAX;
use crate::prefix::PROTOCOL_VERSION;
use crate::version::Version;

/// Bytes of a reply's head. What a reply carries (a get's value, a map) starts at this offset.
pub(crate) const HEAD_LEN: usize = 16;

/// The first of the statuses that are numbers of error codes.
const FIRST_ERROR: u16 = 1000;

/// What came of a request or of an item of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Done, or found.
    Ok,
    /// The key has no object.
    Absent,
    /// Left undone because the reply had no more room: ask again. Items of multi-requests only.
    Unprocessed,
    /// Left undone because the object is of another version than the request wants to replace.
    Conflict,
    /// Refused or failed, with the number of an [`ErrorCode`].
    Error(u16),
}

impl Status {
    /// The number on the wire.
    #[inline]
    pub const fn number(self) -> u16 {
        match self {
            Self::Ok => 0,
            Self::Absent => 1,
            Self::Unprocessed => 2,
            Self::Conflict => 3,
            Self::Error(number) => number,
        }
    }

    #[inline]
    const fn from_number(number: u16) -> Result<Self, DecodeError> {
        match number {
            0 => Ok(Self::Ok),
            1 => Ok(Self::Absent),
            2 => Ok(Self::Unprocessed),
            3 => Ok(Self::Conflict),
            FIRST_ERROR.. => Ok(Self::Error(number)),
            status => Err(DecodeError::UnexpectedStatus { status }),
        }
    }
}

/// The head of a reply, and of an item in a part of a multi-operation's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHead {
    /// What came of it.
    pub status: Status,
    /// In an item: which of the request's keys it answers. In a part: how many items it holds. Zero
    /// elsewhere.
    pub index: u16,
    /// How many bytes follow and belong to this head.
    pub length: u32,
    /// The version of the object, the map's epoch, or the argument of an error.
    pub version: u64,
}

impl ReplyHead {
    /// Bytes of a head.
    pub const LEN: usize = HEAD_LEN;

    /// A head that nothing follows.
    #[inline]
    pub(crate) const fn bare(status: Status, version: Version) -> Self {
        Self { status, index: 0, length: 0, version: version.0 }
    }

    /// The head's bytes.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEAD_LEN] {
        let first = u64::from(self.status.number())
            | u64::from(self.index) << 16
            | u64::from(self.length) << 32;
        word_bytes([first, self.version])
    }

    #[inline]
    pub(crate) fn from_bytes(bytes: &[u8; HEAD_LEN]) -> Result<Self, DecodeError> {
        let [first, version] = words(bytes);
        Ok(Self {
            status: Status::from_number(first as u16)?,
            index: (first >> 16) as u16,
            length: (first >> 32) as u32,
            version,
        })
    }

    /// Splits a whole reply into its head and the bytes that follow, which are as many as the head
    /// says.
    ///
    /// # Errors
    ///
    /// [`ReplyError::Refused`] if the server answered with an error, [`ReplyError::Malformed`] if
    /// the bytes are no reply.
    #[inline]
    pub fn decode(message: &[u8]) -> Result<(Self, &[u8]), ReplyError<'_>> {
        let Some((head, body)) = message.split_first_chunk::<HEAD_LEN>() else {
            return Err(DecodeError::Truncated { missing: HEAD_LEN - message.len() }.into());
        };
        let head = Self::from_bytes(head)?;
        let length = head.length as usize;
        if body.len() < length {
            return Err(DecodeError::Truncated { missing: length - body.len() }.into());
        }
        if body.len() > length {
            return Err(DecodeError::TrailingBytes { extra: body.len() - length }.into());
        }
        match head.status {
            Status::Error(number) => Err(refused(number, &head, body)),
            _ => Ok((head, body)),
        }
    }

    /// Fails if bytes follow a head of an operation that sends none.
    #[inline]
    pub(crate) const fn takes_no_body(&self) -> Result<(), DecodeError> {
        match self.length {
            0 => Ok(()),
            extra => Err(DecodeError::TrailingBytes { extra: extra as usize }),
        }
    }

    /// The head of a reply that says whether there is, or was, an object, and nothing more.
    #[inline]
    pub(crate) const fn of_presence(version: Version, is_there: bool) -> Self {
        Self::bare(if is_there { Status::Ok } else { Status::Absent }, version)
    }

    /// What such a head says.
    #[inline]
    pub(crate) fn presence(&self) -> Result<(Version, bool), DecodeError> {
        self.takes_no_body()?;
        match self.status {
            Status::Ok => Ok((Version(self.version), true)),
            Status::Absent => Ok((Version(self.version), false)),
            Status::Unprocessed | Status::Conflict | Status::Error(_) => Err(self.unexpected()),
        }
    }

    /// What to say of a status that the operation does not answer with.
    #[inline]
    pub(crate) const fn unexpected(&self) -> DecodeError {
        DecodeError::UnexpectedStatus { status: self.status.number() }
    }
}

#[cold]
fn refused<'a>(number: u16, head: &ReplyHead, body: &'a [u8]) -> ReplyError<'a> {
    match ErrorReply::decode(number, head, body) {
        Ok(reply) => ReplyError::Refused(reply),
        Err(error) => ReplyError::Malformed(error),
    }
}

/// The reply that says why there is no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorReply<'a> {
    /// What is wrong.
    pub code: ErrorCode,
    /// A number that goes with the code: the epoch of the server's map for
    /// [`WrongOwner`](ErrorCode::WrongOwner), the limit for the codes that are about one, the
    /// newest version spoken for [`UnsupportedVersion`](ErrorCode::UnsupportedVersion), else zero.
    pub argument: u64,
    /// What exactly, as a lowercase fragment; may be empty.
    pub detail: Cow<'a, str>,
}

impl<'a> ErrorReply<'a> {
    /// The reply for `code`, with nothing to add.
    pub const fn new(code: ErrorCode) -> Self {
        Self { code, argument: 0, detail: Cow::Borrowed("") }
    }

    /// The reply to a request for a slot that this node does not own, by its map of `map_epoch`.
    /// A client with an older map fetches the map again.
    pub const fn wrong_owner(map_epoch: u64) -> Self {
        Self { code: ErrorCode::WrongOwner, argument: map_epoch, detail: Cow::Borrowed("") }
    }

    /// The reply to a write that would pass the memory limit of `limit` bytes.
    pub const fn memory_limit(limit: u64) -> Self {
        Self { code: ErrorCode::MemoryLimitReached, argument: limit, detail: Cow::Borrowed("") }
    }

    /// The same with `detail`, of which at most [`ERROR_DETAIL_MAX`] bytes are sent.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Cow<'a, str>>) -> Self {
        self.detail = detail.into();
        self
    }

    /// The same, owning its detail.
    pub fn into_owned(self) -> ErrorReply<'static> {
        let detail = Cow::Owned(self.detail.into_owned());
        ErrorReply { code: self.code, argument: self.argument, detail }
    }

    /// Bytes of the reply's message.
    pub fn encoded_len(&self) -> usize {
        HEAD_LEN + self.sent_detail().len()
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        writer.bytes(&self.head(0).to_bytes());
        writer.bytes(self.sent_detail().as_bytes());
        writer.finish();
    }

    /// The head of the reply, as answer to item `index` of a request.
    pub(crate) fn head(&self, index: u16) -> ReplyHead {
        ReplyHead {
            status: Status::Error(self.code.number()),
            index,
            length: self.sent_detail().len() as u32,
            version: self.argument,
        }
    }

    /// As much of the detail as is sent, cut between two characters.
    pub(crate) fn sent_detail(&self) -> &str {
        &self.detail[..self.detail.floor_char_boundary(ERROR_DETAIL_MAX)]
    }

    /// Reads the error with `number`. One that a newer server has and this crate has not keeps its
    /// number in the detail.
    pub(crate) fn decode(
        number: u16,
        head: &ReplyHead,
        body: &'a [u8],
    ) -> Result<Self, DecodeError> {
        let Ok(detail) = std::str::from_utf8(body) else {
            return Err(DecodeError::InvalidText { field: "detail" });
        };
        let argument = head.version;
        Ok(match ErrorCode::from_number(number) {
            Some(code) => Self { code, argument, detail: Cow::Borrowed(detail) },
            None => {
                let detail = Cow::Owned(format!("WEFT-{number}: {detail}"));
                Self { code: ErrorCode::Unrecognized, argument, detail }
            }
        })
    }
}

impl From<LimitError> for ErrorReply<'static> {
    #[cold]
    fn from(error: LimitError) -> Self {
        let detail = Cow::Owned(error.to_string());
        Self { code: error.code(), argument: error.limit(), detail }
    }
}

/// What a server answers to bytes that are no request.
impl From<DecodeError> for ErrorReply<'static> {
    #[cold]
    fn from(error: DecodeError) -> Self {
        let argument = match error {
            DecodeError::Limit(limit) => limit.limit(),
            DecodeError::UnsupportedVersion { .. } => u64::from(PROTOCOL_VERSION),
            _ => 0,
        };
        Self { code: error.code(), argument, detail: Cow::Owned(error.to_string()) }
    }
}

/// `WEFT-1101 wrong owner`, and the detail after a colon if there is one.
impl fmt::Display for ErrorReply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.code.name())?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
