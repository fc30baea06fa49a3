//! Scan: meet the objects of one partition, a page at a time.
//!
//! ```text
//! request  prefix: most objects | beginning of the keys | slot u16 | cursor u64
//! reply    head: ok, count, length, version | cursor u64 | last slot u16 | 0 u48 | objects
//! object   key length u16 | flags u16 | value length u32 | version u64 | expiry u64? | key | value?
//! ```

use std::ops::Range;

use weft_transport::limits::MESSAGE_MAX;

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::key::Key;
use crate::limits::SCAN_PAGE_BYTES;
use crate::operation::Operation;
use crate::prefix::{FLAG_VALUES, PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::slot::Slot;
use crate::table::TableId;
use crate::version::Version;

/// Bytes of a page before the first object.
const PAGE_HEAD_LEN: usize = HEAD_LEN + 16;
/// Bytes of an object without expiry, key and value.
const OBJECT_HEAD_LEN: usize = 16;
/// The flag of an object that says that an expiry follows.
const OBJECT_EXPIRY: u16 = 1 << 0;
/// The flag of an object that says that its value follows.
const OBJECT_VALUE: u16 = 1 << 1;

/// Asks for the next objects of the partition that has `slot`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scan<'a> {
    /// The table whose objects are wanted.
    pub table: TableId,
    /// The low 32 bits of the epoch of the client's map.
    pub map_epoch: u32,
    /// What keys have to begin with.
    pub key_prefix: Key<'a>,
    /// The most objects to return. A node may return fewer, or none, and not be done.
    pub objects_max: u32,
    /// Whether values are wanted as well.
    pub with_values: bool,
    /// One of the partition's slots. All of them are scanned.
    pub slot: Slot,
    /// Where to go on: 0 at first, then what the last page says.
    pub cursor: u64,
}

impl<'a> Scan<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        prefix.takes_flags(FLAG_VALUES)?;
        let key_prefix = reader.key(prefix.key_len)?;
        let slot = reader.slot()?;
        let cursor = reader.u64()?;
        reader.finish()?;
        let Prefix { table, map_epoch, argument: objects_max, .. } = prefix;
        let with_values = prefix.flags & FLAG_VALUES != 0;
        Ok(Self { table, map_epoch, key_prefix, objects_max, with_values, slot, cursor })
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        PREFIX_LEN + self.key_prefix.len() + 10
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let prefix = Prefix {
            operation: Operation::Scan,
            flags: if self.with_values { FLAG_VALUES } else { 0 },
            table: self.table,
            map_epoch: self.map_epoch,
            key_len: self.key_prefix.wire_len(),
            argument: self.objects_max,
        };
        let mut writer = Writer::new(buffer);
        prefix.encode(&mut writer);
        writer.bytes(&self.key_prefix);
        writer.u16(self.slot.number());
        writer.u64(self.cursor);
        writer.finish();
    }
}

/// An object that a scan has met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanObject<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its version.
    pub version: Version,
    /// When it ceases to be, in milliseconds of Unix time; `None` is never.
    pub expires_at_ms: Option<u64>,
    /// Bytes of its value.
    pub value_len: u32,
    /// Where in the message its value is. `None` if it is not wanted, or too large for a page: then it is
    /// to be got by itself.
    pub value_range: Option<Range<usize>>,
}

/// The answer to a [`Scan`]: a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanReply<'a> {
    /// The newest version that the partition has given out.
    pub version: Version,
    /// Where to go on; 0 if this was the last page of the partition.
    pub cursor: u64,
    /// The last slot of the partition, by the node's map.
    pub last_slot: Slot,
    count: usize,
    objects: &'a [u8],
}

impl<'a> ScanReply<'a> {
    /// Reads a reply, with all its objects.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to a scan.
    pub fn decode(message: &'a [u8]) -> Result<Self, ReplyError<'a>> {
        let (head, body) = ReplyHead::decode(message)?;
        if head.status != Status::Ok {
            return Err(head.unexpected().into());
        }
        let mut reader = Reader::new(body);
        let (cursor, last_slot) = (reader.u64()?, reader.slot()?);
        reader.take(6)?;
        let page = Self {
            version: Version(head.version),
            cursor,
            last_slot,
            count: usize::from(head.index),
            objects: reader.rest(),
        };
        for _ in 0..page.count {
            read_object(&mut reader, message.len())?;
        }
        reader.finish()?;
        Ok(page)
    }

    /// How many objects the page holds.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether it holds none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The objects, in the partition's order.
    pub fn objects(&self) -> impl Iterator<Item = ScanObject<'a>> + use<'a> {
        let mut reader = Reader::new(self.objects);
        let message_len = PAGE_HEAD_LEN + self.objects.len();
        (0..self.count).map(move |_| {
            read_object(&mut reader, message_len).expect("it was read when the page was")
        })
    }
}

/// The next object of a message that `reader` reads to its end.
fn read_object<'a>(
    reader: &mut Reader<'a>,
    message_len: usize,
) -> Result<ScanObject<'a>, DecodeError> {
    let (key_len, flags, value_len) = (reader.u16()?, reader.u16()?, reader.u32()?);
    let version = Version(reader.u64()?);
    if flags & !(OBJECT_EXPIRY | OBJECT_VALUE) != 0 {
        return Err(DecodeError::UnsupportedObjectFlags { flags });
    }
    let expires_at_ms = if flags & OBJECT_EXPIRY != 0 { Some(reader.u64()?) } else { None };
    let key = reader.take(usize::from(key_len))?;
    let value_range = if flags & OBJECT_VALUE != 0 {
        let start = message_len - reader.rest().len();
        reader.take(value_len as usize)?;
        Some(start..start + value_len as usize)
    } else {
        None
    };
    Ok(ScanObject { key, version, expires_at_ms, value_len, value_range })
}

/// Collects objects into a page of about [`SCAN_PAGE_BYTES`]. It keeps its buffer.
#[derive(Debug, Clone, Default)]
pub struct ScanPage {
    bytes: Vec<u8>,
    count: u16,
}

/// How far a page was filled.
#[derive(Debug, Clone, Copy)]
pub struct ScanMark {
    len: usize,
    count: u16,
}

impl ScanMark {
    /// Whether there was nothing in it.
    pub const fn is_start(self) -> bool {
        self.count == 0
    }
}

/// The object does not fit the page any more: it is the first of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageFull;

impl ScanPage {
    /// Takes all objects out.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(PAGE_HEAD_LEN, 0);
        self.count = 0;
    }

    /// How many objects it holds.
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// How far it is filled.
    pub const fn mark(&self) -> ScanMark {
        ScanMark { len: self.bytes.len(), count: self.count }
    }

    /// Takes the objects out that were added since.
    pub fn truncate(&mut self, mark: ScanMark) {
        self.bytes.truncate(mark.len);
        self.count = mark.count;
    }

    /// Adds an object; of its value, if it is given, only the length when it alone is too much for a page.
    ///
    /// # Errors
    ///
    /// [`PageFull`]; the page stays as it was.
    pub fn push(
        &mut self,
        key: &[u8],
        version: Version,
        expires_at_ms: Option<u64>,
        value_len: usize,
        value: Option<&[u8]>,
    ) -> Result<(), PageFull> {
        let value = value.filter(|value| value.len() <= SCAN_PAGE_BYTES / 2);
        self.push_within(SCAN_PAGE_BYTES, key, version, expires_at_ms, value_len, value)
    }

    /// Adds an object that may come in no other page, without its value: a message is larger than a page.
    ///
    /// # Errors
    ///
    /// [`PageFull`]; the page stays as it was.
    pub fn push_over(
        &mut self,
        key: &[u8],
        version: Version,
        expires_at_ms: Option<u64>,
        value_len: usize,
    ) -> Result<(), PageFull> {
        self.push_within(MESSAGE_MAX, key, version, expires_at_ms, value_len, None)
    }

    fn push_within(
        &mut self,
        limit: usize,
        key: &[u8],
        version: Version,
        expires_at_ms: Option<u64>,
        value_len: usize,
        value: Option<&[u8]>,
    ) -> Result<(), PageFull> {
        let len = OBJECT_HEAD_LEN + 8 + key.len() + value.map_or(0, <[u8]>::len);
        if self.bytes.len() + len > limit || self.count == u16::MAX {
            return Err(PageFull);
        }
        if self.bytes.len() + len > self.bytes.capacity() {
            // A buffer that doubles without bound would take twice what a page may have.
            let wanted = (2 * self.bytes.capacity()).clamp(self.bytes.len() + len, limit);
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        let expiry = if expires_at_ms.is_some() { OBJECT_EXPIRY } else { 0 };
        let flags = expiry | if value.is_some() { OBJECT_VALUE } else { 0 };
        self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(&flags.to_le_bytes());
        self.bytes.extend_from_slice(&(value_len as u32).to_le_bytes());
        self.bytes.extend_from_slice(&version.0.to_le_bytes());
        if let Some(expires_at_ms) = expires_at_ms {
            self.bytes.extend_from_slice(&expires_at_ms.to_le_bytes());
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.count += 1;
        Ok(())
    }

    /// The page's bytes.
    pub fn finish(&mut self, version: Version, cursor: u64, last_slot: Slot) -> &[u8] {
        let head = ReplyHead {
            index: self.count,
            length: (self.bytes.len() - HEAD_LEN) as u32,
            ..ReplyHead::bare(Status::Ok, version)
        };
        let mut writer = Writer::new(&mut self.bytes[..PAGE_HEAD_LEN]);
        writer.bytes(&head.to_bytes());
        writer.u64(cursor);
        writer.u16(last_slot.number());
        writer.bytes(&[0; 6]);
        writer.finish();
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::KEY_MAX;
    use crate::request::Request;
    use crate::round_trip::*;

    fn slot(number: u16) -> Slot {
        Slot::from_number(number).unwrap()
    }

    #[test]
    fn a_page_takes_no_more_memory_than_it_may_have_bytes() {
        for key_len in [1, 100, 3_333, KEY_MAX] {
            let mut page = ScanPage::default();
            page.clear();
            let key = vec![b'k'; key_len];
            while page.push(&key, Version::new(1, 7), None, 4, Some(b"weft")).is_ok() {
                assert!(page.bytes.capacity() <= SCAN_PAGE_BYTES);
            }
            while page.push_over(&key, Version::new(1, 7), None, 4).is_ok() {
                assert!(page.bytes.capacity() <= MESSAGE_MAX);
            }
            assert!(page.bytes.capacity() <= MESSAGE_MAX);
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let request = Scan {
            table: TableId(2),
            map_epoch: 7,
            key_prefix: key(b"lo"),
            objects_max: 100,
            with_values: true,
            slot: slot(0),
            cursor: 0x0102_0304_0000_0040,
        };
        let bytes = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(bytes, documented("scan request"));

        let mut page = ScanPage::default();
        page.clear();
        page.push(b"loom", Version::new(1, 7), Some(5), 4, Some(b"weft")).unwrap();
        page.push(b"low", Version::new(1, 8), None, 300_000, Some(&[0; 300_000])).unwrap();
        let bytes = page.finish(Version::new(1, 9), 0, slot(8191));
        assert_eq!(bytes, documented("scan reply"));
    }

    #[test]
    fn a_page_that_is_full_says_so_and_one_that_is_empty_takes_every_key() {
        let mut page = ScanPage::default();
        page.clear();
        let long = vec![1; KEY_MAX];
        page.push(&long, Version(1), Some(1), 1 << 20, Some(&vec![2; 1 << 20])).unwrap();
        let value = vec![3; SCAN_PAGE_BYTES / 2];
        page.push(b"other", Version(2), None, value.len(), Some(&value)).unwrap();
        let mark = page.mark();
        page.push(b"short", Version(3), None, 0, None).unwrap();
        page.truncate(mark);
        assert_eq!(page.push(&long, Version(4), None, value.len(), Some(&value)), Err(PageFull));
        assert!(!page.mark().is_start());
        let mark = page.mark();
        for _ in 0..12 {
            page.push_over(&long, Version(4), None, value.len()).unwrap();
        }
        page.truncate(mark);
        let bytes = page.finish(Version(9), 5, slot(1)).to_vec();
        assert!(bytes.len() <= SCAN_PAGE_BYTES);
        let page = ScanReply::decode(&bytes).unwrap();
        let objects: Vec<_> = page.objects().collect();
        assert_eq!((page.len(), page.cursor, page.last_slot), (2, 5, slot(1)));
        assert_eq!((objects[0].value_len, &objects[0].value_range), (1 << 20, &None));
        assert!(bytes[objects[1].value_range.clone().unwrap()] == value);
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            (table, map_epoch) in tables(),
            bytes in bytes(40),
            (objects_max, with_values, cursor) in any::<(u32, bool, u64)>(),
            number in 0..Slot::COUNT,
        ) {
            let (key_prefix, slot) = (key(&bytes), slot(number));
            check_request(Request::Scan(Scan {
                table, map_epoch, key_prefix, objects_max, with_values, slot, cursor,
            }));
        }

        #[test]
        fn replies_are_read_as_written(
            (version, cursor) in (versions(), any::<u64>()),
            number in 0..Slot::COUNT,
            objects in prop::collection::vec(
                (bytes(20), versions(), any::<Option<u64>>(), prop::option::of(bytes(30))),
                0..8,
            ),
        ) {
            let mut page = ScanPage::default();
            page.clear();
            for (key, version, expires_at_ms, value) in &objects {
                let value = value.as_deref();
                page.push(key, *version, *expires_at_ms, value.map_or(7, <[u8]>::len), value).unwrap();
            }
            let message = page.finish(version, cursor, slot(number)).to_vec();
            let reply = ScanReply::decode(&message).unwrap();
            prop_assert_eq!((reply.version, reply.cursor), (version, cursor));
            prop_assert_eq!((reply.last_slot, reply.len()), (slot(number), objects.len()));
            let read = reply.objects().map(|object| {
                let value = object.value_range.map(|range| message[range].to_vec());
                (object.key.to_vec(), object.version, object.expires_at_ms, value)
            });
            prop_assert_eq!(read.collect::<Vec<_>>(), objects);
            check_cut(&message, ScanReply::decode);
        }

        #[test]
        fn hostile_replies_are_survived(message in hostile(documented("scan reply"))) {
            if let Ok(reply) = ScanReply::decode(&message) {
                prop_assert_eq!(reply.objects().count(), reply.len());
                for object in reply.objects() {
                    object.value_range.map(|range| message[range].len());
                }
            }
        }
    }
}
