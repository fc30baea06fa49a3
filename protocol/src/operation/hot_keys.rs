//! Hot-keys: ask a node which keys it was asked for the most of late.
//!
//! ```text
//! request  prefix: most keys
//! reply    head: ok, count, length, 0 | covered ms u64 | requests u64 | sampled one in u32 | 0 u32 | keys
//! key      table u16 | key length u16 | kept length u16 | 0 u16 | CRC-32C u32 | 0 u32
//!          | reads u64 | writes u64 | error u64 | kept
//! ```

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::limits::{HOT_KEY_BYTES_MAX, HOT_KEYS_MAX};
use crate::operation::Operation;
use crate::prefix::{PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::table::TableId;

/// Bytes between the head and the first key.
const COUNTED_LEN: usize = 24;
/// Bytes of a key's entry without what is kept of it.
const ENTRY_LEN: usize = 40;

/// Asks a node for the keys that it was asked for the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotKeys {
    /// The most keys to return.
    pub keys_max: u32,
}

impl HotKeys {
    pub(crate) fn decode(prefix: Prefix, reader: Reader<'_>) -> Result<Self, DecodeError> {
        prefix.takes_flags(0)?;
        prefix.takes_no_key()?;
        reader.finish()?;
        Ok(Self { keys_max: prefix.argument })
    }

    /// Bytes of the request's message.
    pub const fn encoded_len(&self) -> usize {
        PREFIX_LEN
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        Prefix { argument: self.keys_max, ..Prefix::bare(Operation::HotKeys) }.encode(&mut writer);
        writer.finish();
    }
}

/// A key, and how often a node was asked for it since it counts that. Numbers of requests are estimates by samples; they
/// and [`HotKeysReply::covered_ms`] are halved in intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHeat<'a> {
    /// Its table.
    pub table: TableId,
    /// How long the key is, in bytes.
    pub key_len: u16,
    /// The key, or its first [`HOT_KEY_BYTES_MAX`] bytes if it is longer.
    pub kept: &'a [u8],
    /// CRC-32C of the whole key, which tells long ones apart that begin alike.
    pub checksum: u32,
    /// Requests that read it.
    pub reads: u64,
    /// Requests that write it.
    pub writes: u64,
    /// How many more requests there may have been, before the key had a counter.
    pub error: u64,
}

impl KeyHeat<'_> {
    /// How long the key is, in bytes.
    pub const fn key_len(&self) -> usize {
        self.key_len as usize
    }

    /// Whether all of the key is kept.
    pub const fn is_whole_key(&self) -> bool {
        self.kept.len() == self.key_len()
    }

    /// Requests that were seen.
    pub const fn requests(&self) -> u64 {
        self.reads.saturating_add(self.writes)
    }
}

/// The answer to [`HotKeys`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotKeysReply<'a> {
    /// For how many milliseconds the counts stand: requests by this is a rate.
    pub covered_ms: u64,
    /// Requests for all keys in this time; each key of a multi-request is one.
    pub requests: u64,
    /// Of how many requests one is looked at.
    pub sampled_one_in: u32,
    /// The keys, the hottest first.
    pub keys: Vec<KeyHeat<'a>>,
}

impl<'a> HotKeysReply<'a> {
    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to this.
    pub fn decode(message: &'a [u8]) -> Result<Self, ReplyError<'a>> {
        let (head, body) = ReplyHead::decode(message)?;
        if head.status != Status::Ok {
            return Err(head.unexpected().into());
        }
        let count = usize::from(head.index);
        at_most(HOT_KEYS_MAX, "hot keys", count)?;
        let mut reader = Reader::new(body);
        let (covered_ms, requests) = (reader.u64()?, reader.u64()?);
        let sampled_one_in = reader.u32()?;
        reader.take(4)?;
        let mut keys = Vec::with_capacity(count.min(body.len() / ENTRY_LEN));
        for _ in 0..count {
            keys.push(read_key(&mut reader)?);
        }
        reader.finish()?;
        Ok(Self { covered_ms, requests, sampled_one_in, keys })
    }

    /// Bytes of the reply's message.
    pub fn encoded_len(&self) -> usize {
        HEAD_LEN + self.body_len()
    }

    fn body_len(&self) -> usize {
        COUNTED_LEN + self.keys.iter().map(|key| ENTRY_LEN + key.kept.len()).sum::<usize>()
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let head = ReplyHead {
            status: Status::Ok,
            index: self.keys.len() as u16,
            length: self.body_len() as u32,
            version: 0,
        };
        writer.bytes(&head.to_bytes());
        writer.u64(self.covered_ms);
        writer.u64(self.requests);
        writer.u32(self.sampled_one_in);
        writer.u32(0);
        for KeyHeat { table, key_len, kept, checksum, reads, writes, error } in &self.keys {
            writer.u16(table.0);
            writer.u16(*key_len);
            writer.u16(kept.len() as u16);
            writer.u16(0);
            writer.u32(*checksum);
            writer.u32(0);
            writer.u64(*reads);
            writer.u64(*writes);
            writer.u64(*error);
            writer.bytes(kept);
        }
        writer.finish();
    }
}

fn read_key<'a>(reader: &mut Reader<'a>) -> Result<KeyHeat<'a>, DecodeError> {
    let (table, key_len) = (TableId(reader.u16()?), reader.u16()?);
    let kept_len = usize::from(reader.u16()?);
    at_most(HOT_KEY_BYTES_MAX.min(usize::from(key_len)), "kept bytes", kept_len)?;
    reader.take(2)?;
    let checksum = reader.u32()?;
    reader.take(4)?;
    let (reads, writes, error) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let kept = reader.take(kept_len)?;
    Ok(KeyHeat { table, key_len, kept, checksum, reads, writes, error })
}

fn at_most(limit: usize, field: &'static str, count: usize) -> Result<(), DecodeError> {
    if count > limit {
        return Err(DecodeError::ListTooLong { field, count, limit });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Request;
    use crate::round_trip::*;

    type OwnedHeat = (Vec<u8>, (u16, u16, u32), (u64, u64, u64));

    fn heat(owned: &OwnedHeat) -> KeyHeat<'_> {
        let (kept, (table, more, checksum), (reads, writes, error)) = owned;
        KeyHeat {
            table: TableId(*table),
            key_len: (kept.len() as u16).saturating_add(*more),
            kept,
            checksum: *checksum,
            reads: *reads,
            writes: *writes,
            error: *error,
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let request = HotKeys { keys_max: 10 };
        check_request(Request::HotKeys(request));
        let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(message, documented("hot-keys request"));

        let loom = KeyHeat {
            table: TableId(2),
            key_len: 4,
            kept: b"loom",
            checksum: crc32c::crc32c(b"loom"),
            reads: 24_000,
            writes: 640,
            error: 128,
        };
        let long = KeyHeat {
            table: TableId::DEFAULT,
            key_len: 300,
            kept: &[b'w'; HOT_KEY_BYTES_MAX],
            checksum: crc32c::crc32c(&[b'w'; 300]),
            reads: 64,
            writes: 0,
            error: 4_800,
        };
        assert!(loom.is_whole_key() && !long.is_whole_key());
        assert_eq!(loom.requests(), 24_640);
        let keys = vec![loom, long];
        let (covered_ms, requests) = (15_000, 1_000_000);
        let reply = HotKeysReply { covered_ms, requests, sampled_one_in: 64, keys };
        let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(message, documented("hot-keys reply"));
        assert_eq!(HotKeysReply::decode(&message), Ok(reply));
        check_cut(&message, HotKeysReply::decode);
    }

    #[test]
    fn more_keys_and_bytes_than_there_can_be_are_refused() {
        let mut message = documented("hot-keys reply");
        let at_key = HEAD_LEN + COUNTED_LEN;
        message[at_key + 4] = 5;
        let error = DecodeError::ListTooLong { field: "kept bytes", count: 5, limit: 4 };
        assert_eq!(HotKeysReply::decode(&message), Err(error.into()));
        message[at_key + 3..at_key + 6].copy_from_slice(&[2, 1, 1]);
        let error = DecodeError::ListTooLong { field: "kept bytes", count: 257, limit: 256 };
        assert_eq!(HotKeysReply::decode(&message), Err(error.into()));
        message[2..4].copy_from_slice(&[1, 4]);
        let error = DecodeError::ListTooLong { field: "hot keys", count: 1_025, limit: 1_024 };
        assert_eq!(HotKeysReply::decode(&message), Err(error.into()));
    }

    proptest! {
        #[test]
        fn replies_are_read_as_written(
            (covered_ms, requests, sampled_one_in) in any::<(u64, u64, u32)>(),
            keys in prop::collection::vec(
                (bytes(HOT_KEY_BYTES_MAX), any::<(u16, u16, u32)>(), any::<(u64, u64, u64)>()),
                0..9,
            ),
        ) {
            let keys = keys.iter().map(heat).collect();
            let reply = HotKeysReply { covered_ms, requests, sampled_one_in, keys };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            check_cut(&message, HotKeysReply::decode);
            prop_assert_eq!(HotKeysReply::decode(&message), Ok(reply));
        }

        #[test]
        fn hostile_replies_are_survived(message in hostile(documented("hot-keys reply"))) {
            if let Ok(reply) = HotKeysReply::decode(&message) {
                prop_assert!(reply.keys.iter().all(|key| key.kept.len() <= key.key_len()));
                prop_assert_eq!(reply.encoded_len(), message.len());
            }
        }
    }
}
