//! What a client may ask: the one enum that every request decodes to.

use crate::error::DecodeError;
use crate::operation::Operation;
use crate::operation::delete::Delete;
use crate::operation::exists::Exists;
use crate::operation::get::Get;
use crate::operation::map::Map;
use crate::operation::multi_delete::MultiDelete;
use crate::operation::multi_get::MultiGet;
use crate::operation::multi_put::MultiPut;
use crate::operation::put::Put;
use crate::operation::stats::Stats;
use crate::prefix::Prefix;

/// A request, borrowed from the message that carried it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Read the object of one key.
    Get(Get<'a>),
    /// Write the object of one key.
    Put(Put<'a>),
    /// Remove the object of one key.
    Delete(Delete<'a>),
    /// Ask whether a key has an object.
    Exists(Exists<'a>),
    /// Read the objects of many keys.
    MultiGet(MultiGet<'a>),
    /// Write the objects of many keys.
    MultiPut(MultiPut<'a>),
    /// Remove the objects of many keys.
    MultiDelete(MultiDelete<'a>),
    /// Ask a node how it is.
    Stats(Stats),
    /// Ask who owns which slots.
    Map(Map),
}

impl<'a> Request<'a> {
    /// Reads a request, and checks everything that it announces against the bytes that are there.
    ///
    /// # Errors
    ///
    /// A [`DecodeError`] that says what is wrong; `ErrorReply::from` makes the answer of it.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (prefix, reader) = Prefix::decode(bytes)?;
        Ok(match prefix.operation {
            Operation::Get => Self::Get(Get::decode(&prefix, reader)?),
            Operation::Put => Self::Put(Put::decode(&prefix, reader)?),
            Operation::Delete => Self::Delete(Delete::decode(&prefix, reader)?),
            Operation::Exists => Self::Exists(Exists::decode(&prefix, reader)?),
            Operation::MultiGet => Self::MultiGet(MultiGet::decode(&prefix, reader)?),
            Operation::MultiPut => Self::MultiPut(MultiPut::decode(&prefix, reader)?),
            Operation::MultiDelete => Self::MultiDelete(MultiDelete::decode(&prefix, reader)?),
            Operation::Stats => Self::Stats(Stats::decode(&prefix, reader)?),
            Operation::Map => Self::Map(Map::decode(&prefix, reader)?),
        })
    }

    /// Which operation this is.
    #[inline]
    pub const fn operation(&self) -> Operation {
        match self {
            Self::Get(_) => Operation::Get,
            Self::Put(_) => Operation::Put,
            Self::Delete(_) => Operation::Delete,
            Self::Exists(_) => Operation::Exists,
            Self::MultiGet(_) => Operation::MultiGet,
            Self::MultiPut(_) => Operation::MultiPut,
            Self::MultiDelete(_) => Operation::MultiDelete,
            Self::Stats(_) => Operation::Stats,
            Self::Map(_) => Operation::Map,
        }
    }

    /// Bytes of the request's message.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Get(request) => request.encoded_len(),
            Self::Put(request) => request.encoded_len(),
            Self::Delete(request) => request.encoded_len(),
            Self::Exists(request) => request.encoded_len(),
            Self::MultiGet(request) => request.encoded_len(),
            Self::MultiPut(request) => request.encoded_len(),
            Self::MultiDelete(request) => request.encoded_len(),
            Self::Stats(request) => request.encoded_len(),
            Self::Map(request) => request.encoded_len(),
        }
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    #[inline]
    pub fn encode(&self, buffer: &mut [u8]) {
        match self {
            Self::Get(request) => request.encode(buffer),
            Self::Put(request) => request.encode(buffer),
            Self::Delete(request) => request.encode(buffer),
            Self::Exists(request) => request.encode(buffer),
            Self::MultiGet(request) => request.encode(buffer),
            Self::MultiPut(request) => request.encode(buffer),
            Self::MultiDelete(request) => request.encode(buffer),
            Self::Stats(request) => request.encode(buffer),
            Self::Map(request) => request.encode(buffer),
        }
    }
}
