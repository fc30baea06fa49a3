//! Watch-next: ask for the events of a watch, and wait for one if there is none.
//!
//! ```text
//! request  prefix: wait in ms | id u64 | received u64
//! reply    head: ok, count, length, sequence of the first event | events
//! ```
//!
//! Events are numbered from 1. A node keeps those that the client has not said to have received, so that what a lost connection
//! takes with it comes again.

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::operation::Operation;
use crate::prefix::{PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::watch_event::WatchEvents;

/// Asks for the next events of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchNext {
    /// The watch.
    pub id: u64,
    /// Events up to this one were received, and the node forgets them; 0 at first.
    pub received: u64,
    /// For how many milliseconds the node is to wait for an event if there is none. It may answer sooner.
    pub wait_ms: u32,
}

impl WatchNext {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        prefix.takes_flags(0)?;
        prefix.takes_no_key()?;
        let (id, received) = (reader.u64()?, reader.u64()?);
        reader.finish()?;
        Ok(Self { id, received, wait_ms: prefix.argument })
    }

    /// Bytes of the request's message.
    pub const fn encoded_len(&self) -> usize {
        PREFIX_LEN + 16
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let prefix = Prefix::bare(Operation::WatchNext);
        Prefix { argument: self.wait_ms, ..prefix }.encode(&mut writer);
        writer.u64(self.id);
        writer.u64(self.received);
        writer.finish();
    }
}

/// The answer to a [`WatchNext`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchNextReply<'a> {
    /// The sequence of the first event, or of the one that is awaited if there is none. The others follow it without a gap.
    pub first: u64,
    /// The events.
    pub events: WatchEvents<'a>,
}

impl<'a> WatchNextReply<'a> {
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
        let events = WatchEvents::parse(head.index, body)?;
        Ok(Self { first: head.version, events })
    }

    /// Bytes of the reply's message.
    pub const fn encoded_len(&self) -> usize {
        HEAD_LEN + self.events.bytes().len()
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let head = ReplyHead {
            status: Status::Ok,
            index: self.events.len() as u16,
            length: self.events.bytes().len() as u32,
            version: self.first,
        };
        writer.bytes(&head.to_bytes());
        writer.bytes(self.events.bytes());
        writer.finish();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::WATCH_EVENTS_MAX;
    use crate::request::Request;
    use crate::round_trip::*;
    use crate::slot::Slot;
    use crate::version::Version;
    use crate::watch_event::{KeyChange, TableRemoval, WatchEvent};

    fn encoded<'a>(events: impl IntoIterator<Item = WatchEvent<'a>>) -> (u16, Vec<u8>) {
        let (mut count, mut bytes) = (0, Vec::new());
        for event in events {
            let before = bytes.len();
            bytes.extend(event.head());
            bytes.extend(event.key_bytes());
            assert_eq!(bytes.len() - before, event.encoded_len());
            let key_len = event.head()[WatchEvent::KEY_LEN_AT].try_into().unwrap();
            assert_eq!(usize::from(u16::from_le_bytes(key_len)), event.key_bytes().len());
            count += 1;
        }
        (count, bytes)
    }

    fn slot(number: u16) -> Slot {
        Slot::from_number(number % Slot::COUNT).unwrap()
    }

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let id = 0x0123_4567_89ab_cdef;
        let request = WatchNext { id, received: 4, wait_ms: 5_000 };
        let message = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(message, documented("watch-next request"));

        let written = WatchEvent::Key {
            key: key(b"loom"),
            change: KeyChange::Written,
            version: Version::new(1, 10),
        };
        let truncated = WatchEvent::Table {
            first_slot: slot(0),
            last_slot: slot(8_191),
            change: TableRemoval::Truncated,
            version: Version::new(1, 11),
        };
        let (count, bytes) = encoded([written, truncated]);
        let events = WatchEvents::parse(count, &bytes).unwrap();
        let reply = WatchNextReply { first: 5, events };
        let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(message, documented("watch-next reply"));
        let events: Vec<_> = reply.events.iter().collect();
        assert_eq!(events, [written, truncated]);
    }

    #[test]
    fn what_is_no_event_is_refused() {
        let with = |offset: usize, byte: u8| {
            let mut message = documented("watch-next reply");
            message[HEAD_LEN + offset] = byte;
            WatchNextReply::decode(&message).map(|reply| reply.events.len()).map_err(|error| {
                let ReplyError::Malformed(error) = error else { panic!("{error}") };
                error
            })
        };
        for change in [0, 7, 255] {
            assert_eq!(with(8, change), Err(DecodeError::UnknownChange { change }));
        }
        // What has no meaning does not matter.
        assert_eq!(with(9, 1), Ok(2));
        // A table has no key, and its slots are some.
        assert_eq!(with(8, 5), Err(DecodeError::ReservedField { field: "key length" }));
        assert!(matches!(with(16 + 4 + 15, 0x40), Err(DecodeError::Map(_))));
        let mut message = documented("watch-next reply");
        let count = WATCH_EVENTS_MAX + 1;
        message[2..4].copy_from_slice(&(count as u16).to_le_bytes());
        let error = DecodeError::ListTooLong { field: "events", count, limit: WATCH_EVENTS_MAX };
        assert_eq!(WatchNextReply::decode(&message), Err(error.into()));
    }

    /// Bytes of a key, which change, slots, and the version.
    type Owned = (Vec<u8>, usize, (u16, u16), Version);

    fn event((bytes, change, slots, version): &Owned) -> WatchEvent<'_> {
        match KeyChange::ALL.get(*change) {
            Some(&change) => WatchEvent::Key { key: key(bytes), change, version: *version },
            None => WatchEvent::Table {
                first_slot: slot(slots.0),
                last_slot: slot(slots.1),
                change: TableRemoval::ALL[change - KeyChange::ALL.len()],
                version: *version,
            },
        }
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written((id, received, wait_ms) in any::<(u64, u64, u32)>()) {
            check_request(Request::WatchNext(WatchNext { id, received, wait_ms }));
        }

        #[test]
        fn replies_are_read_as_written(
            first: u64,
            owned in prop::collection::vec((bytes(40), 0_usize..6, any::<(u16, u16)>(), versions()), 0..9),
        ) {
            let expected: Vec<_> = owned.iter().map(event).collect();
            let (count, bytes) = encoded(expected.iter().copied());
            let events = WatchEvents::parse(count, &bytes).unwrap();
            prop_assert_eq!(events.is_empty(), owned.is_empty());
            let reply = WatchNextReply { first, events };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            let read = WatchNextReply::decode(&message).unwrap();
            prop_assert_eq!(read, reply);
            prop_assert_eq!(read.events.iter().collect::<Vec<_>>(), expected);
            check_cut(&message, WatchNextReply::decode);
        }

        #[test]
        fn hostile_replies_are_survived(message in hostile(documented("watch-next reply"))) {
            if let Ok(reply) = WatchNextReply::decode(&message) {
                prop_assert_eq!(reply.events.iter().count(), reply.events.len());
                let len: usize = reply.events.iter().map(|event| event.encoded_len()).sum();
                prop_assert_eq!(HEAD_LEN + len, message.len());
            }
        }
    }
}
