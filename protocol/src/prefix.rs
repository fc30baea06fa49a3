//! The 16 bytes that every request starts with.

use crate::codec::{Reader, Writer, word_bytes, words};
use crate::completion::Completion;
use crate::error::DecodeError;
use crate::limits::COMPLETION_LEN;
use crate::operation::Operation;
use crate::table::TableId;

/// The version of the protocol that this crate speaks. It grows when an existing operation changes
/// its bytes or its meaning; new operations, flags, error codes and counters leave it alone.
pub const PROTOCOL_VERSION: u8 = 1;

/// Bytes of the prefix.
pub const PREFIX_LEN: usize = 16;

/// The flag that says that a completion id follows the prefix. Mutations take it.
pub const FLAG_COMPLETION: u8 = 1 << 0;

/// The flag that says that an expiry follows. `put` takes it.
pub const FLAG_EXPIRY: u8 = 1 << 1;

/// The flag that says that values are wanted. `scan` takes it.
pub const FLAG_VALUES: u8 = 1 << 2;

/// The flag that says that the key is the prefix of those that are meant. `watch` takes it.
pub const FLAG_PREFIX: u8 = 1 << 3;

/// The decoded prefix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prefix {
    pub(crate) operation: Operation,
    pub(crate) flags: u8,
    pub(crate) table: TableId,
    pub(crate) map_epoch: u32,
    pub(crate) key_len: u16,
    /// The value's length, the list's count, or zero, as the operation says.
    pub(crate) argument: u32,
}

impl Prefix {
    /// A prefix of an operation that has no table and no key.
    #[inline]
    pub(crate) const fn bare(operation: Operation) -> Self {
        Self { operation, flags: 0, table: TableId::DEFAULT, map_epoch: 0, key_len: 0, argument: 0 }
    }

    /// Splits a request into its prefix and what follows.
    #[inline]
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, Reader<'_>), DecodeError> {
        let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_LEN>() else {
            return Err(DecodeError::Truncated { missing: PREFIX_LEN - bytes.len() });
        };
        let [first, second] = words(prefix);
        let (version, reserved) = (second as u8, (second >> 8) as u8);
        if version != PROTOCOL_VERSION {
            return Err(DecodeError::UnsupportedVersion { version });
        }
        if reserved != 0 {
            return Err(DecodeError::ReservedField { field: "reserved" });
        }
        let operation = first as u8;
        let Some(operation) = Operation::from_number(operation) else {
            return Err(DecodeError::UnknownOperation { operation });
        };
        let prefix = Self {
            operation,
            flags: (first >> 8) as u8,
            table: TableId((first >> 16) as u16),
            map_epoch: (first >> 32) as u32,
            key_len: (second >> 16) as u16,
            argument: (second >> 32) as u32,
        };
        Ok((prefix, Reader::new(rest)))
    }

    #[inline]
    pub(crate) fn encode(&self, writer: &mut Writer<'_>) {
        let first = u64::from(self.operation as u8)
            | u64::from(self.flags) << 8
            | u64::from(self.table.0) << 16
            | u64::from(self.map_epoch) << 32;
        let second = u64::from(PROTOCOL_VERSION)
            | u64::from(self.key_len) << 16
            | u64::from(self.argument) << 32;
        writer.bytes(&word_bytes([first, second]));
    }

    /// Refuses flags other than `taken`: a flag may not be ignored, since it changes what the
    /// request means or how its bytes are laid out.
    #[inline]
    pub(crate) fn takes_flags(&self, taken: u8) -> Result<(), DecodeError> {
        match self.flags & !taken {
            0 => Ok(()),
            flags => Err(DecodeError::UnsupportedFlags { operation: self.operation, flags }),
        }
    }

    /// Refuses a key length, for operations that carry no single key.
    #[inline]
    pub(crate) fn takes_no_key(&self) -> Result<(), DecodeError> {
        match self.key_len {
            0 => Ok(()),
            _ => Err(DecodeError::ReservedField { field: "key length" }),
        }
    }

    /// Refuses an argument, for operations that have none.
    #[inline]
    pub(crate) fn takes_no_argument(&self) -> Result<(), DecodeError> {
        match self.argument {
            0 => Ok(()),
            _ => Err(DecodeError::ReservedField { field: "argument" }),
        }
    }

    /// Reads the completion id that the flags announce, of a request with `count` items.
    #[inline]
    pub(crate) fn completion(
        &self,
        count: u32,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Completion>, DecodeError> {
        if self.flags & FLAG_COMPLETION == 0 {
            return Ok(None);
        }
        let (client, sequence, span) = (reader.u64()?, reader.u64()?, reader.u32()?);
        Completion::checked(client, sequence, span, count).map(Some)
    }
}

impl Completion {
    /// The flag and the bytes that an optional id adds to a request.
    #[inline]
    pub(crate) const fn flag_and_len(completion: Option<Self>) -> (u8, usize) {
        if completion.is_some() { (FLAG_COMPLETION, COMPLETION_LEN) } else { (0, 0) }
    }

    #[inline]
    pub(crate) fn encode(&self, writer: &mut Writer<'_>) {
        writer.u64(self.id.client);
        writer.u64(self.id.sequence);
        writer.u32(self.span());
    }
}
