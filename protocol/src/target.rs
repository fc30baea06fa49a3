//! What every request to change the object of one key begins with.
//!
//! ```text
//! prefix | completion id? | expiry? | key
//! ```

use crate::codec::{Reader, Writer};
use crate::completion::Completion;
use crate::error::DecodeError;
use crate::key::Key;
use crate::limits::EXPIRY_LEN;
use crate::operation::Operation;
use crate::prefix::{FLAG_COMPLETION, FLAG_EXPIRY, PREFIX_LEN, Prefix};
use crate::table::TableId;

/// Which object a mutation is for, and which mutation it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// The table that the key belongs to.
    pub table: TableId,
    /// The low 32 bits of the epoch of the client's map.
    pub map_epoch: u32,
    /// Which mutation this is, for exactly-once effect.
    pub completion: Option<Completion>,
    /// The key.
    pub key: Key<'a>,
}

impl<'a> Target<'a> {
    /// Reads the target of an operation that takes no expiry.
    #[inline]
    pub(crate) fn decode(prefix: &Prefix, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(FLAG_COMPLETION)?;
        let completion = prefix.completion(1, reader)?;
        Self::with_key(prefix, completion, reader)
    }

    /// Reads the target of an operation that takes an expiry, and the expiry.
    #[inline]
    pub(crate) fn decode_expiring(
        prefix: &Prefix,
        reader: &mut Reader<'a>,
    ) -> Result<(Self, Option<u64>), DecodeError> {
        prefix.takes_flags(FLAG_COMPLETION | FLAG_EXPIRY)?;
        let completion = prefix.completion(1, reader)?;
        let expires_at_ms =
            if prefix.flags & FLAG_EXPIRY != 0 { Some(reader.u64()?) } else { None };
        Ok((Self::with_key(prefix, completion, reader)?, expires_at_ms))
    }

    #[inline]
    fn with_key(
        prefix: &Prefix,
        completion: Option<Completion>,
        reader: &mut Reader<'a>,
    ) -> Result<Self, DecodeError> {
        let key = reader.key(prefix.key_len)?;
        Ok(Self { table: prefix.table, map_epoch: prefix.map_epoch, completion, key })
    }

    /// Bytes of all that comes up to the end of the key.
    #[inline]
    pub(crate) fn encoded_len(&self, expires_at_ms: Option<u64>) -> usize {
        let (_, completion) = Completion::flag_and_len(self.completion);
        let expiry = if expires_at_ms.is_some() { EXPIRY_LEN } else { 0 };
        PREFIX_LEN + completion + expiry + self.key.len()
    }

    /// Writes all that comes up to the end of the key.
    #[inline]
    pub(crate) fn encode(
        &self,
        operation: Operation,
        argument: u32,
        expires_at_ms: Option<u64>,
        writer: &mut Writer<'_>,
    ) {
        let (completion, _) = Completion::flag_and_len(self.completion);
        let expiry = if expires_at_ms.is_some() { FLAG_EXPIRY } else { 0 };
        let prefix = Prefix {
            operation,
            flags: completion | expiry,
            table: self.table,
            map_epoch: self.map_epoch,
            key_len: self.key.wire_len(),
            argument,
        };
        prefix.encode(writer);
        if let Some(completion) = self.completion {
            completion.encode(writer);
        }
        if let Some(expires_at_ms) = expires_at_ms {
            writer.u64(expires_at_ms);
        }
        writer.bytes(&self.key);
    }
}
