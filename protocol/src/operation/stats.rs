//! Stats: ask a node how it is.
//!
//! ```text
//! request  prefix
//! reply    head: ok, length | node u64 | incarnation u64 | uptime ms u64 | count u32 |
//!          (name length u16 | name | value u64) ...
//! ```

use std::borrow::Cow;

use weft_transport::{Incarnation, NodeId};

use crate::bare::bare_request;
use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::limits::{COUNTER_NAME_MAX, COUNTERS_MAX};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::version::Version;

bare_request!(
    /// Asks a node for its counters.
    Stats
);

/// A number with a name. Which there are may change from release to release, so that a reader looks
/// up the names it knows ([`stat_name`](crate::stat_name)) and lists the others as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter<'a> {
    /// The counter's name: lower-case words, joined by `_`, in groups joined by `.`; at most
    /// [`COUNTER_NAME_MAX`] bytes.
    pub name: Cow<'a, str>,
    /// The counter's value; the name says the unit.
    pub value: u64,
}

/// The answer to [`Stats`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsReply<'a> {
    /// The node that answers.
    pub node: NodeId,
    /// Which life of it this is.
    pub incarnation: Incarnation,
    /// How long it has been up.
    pub uptime_ms: u64,
    /// Its counters; the first [`COUNTERS_MAX`] are sent.
    pub counters: Vec<Counter<'a>>,
}

impl<'a> StatsReply<'a> {
    /// Adds a counter.
    pub fn push(&mut self, name: impl Into<Cow<'a, str>>, value: u64) {
        self.counters.push(Counter { name: name.into(), value });
    }

    /// The value of the counter with this name.
    pub fn value(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|counter| counter.name == name).map(|counter| counter.value)
    }

    /// The same, owning its names.
    pub fn into_owned(self) -> StatsReply<'static> {
        let owned = |counter: Counter<'_>| Counter {
            name: Cow::Owned(counter.name.into_owned()),
            value: counter.value,
        };
        StatsReply {
            node: self.node,
            incarnation: self.incarnation,
            uptime_ms: self.uptime_ms,
            counters: self.counters.into_iter().map(owned).collect(),
        }
    }

    /// Reads a reply. Names are borrowed from `message`.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no reply to a stats request.
    pub fn decode(message: &'a [u8]) -> Result<Self, ReplyError<'a>> {
        let (head, body) = ReplyHead::decode(message)?;
        match head.status {
            Status::Ok => Ok(Self::decode_body(Reader::new(body))?),
            _ => Err(head.unexpected().into()),
        }
    }

    fn decode_body(mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let node = NodeId(reader.u64()?);
        let incarnation = Incarnation(reader.u64()?);
        let uptime_ms = reader.u64()?;
        let count = reader.u32()? as usize;
        if count > COUNTERS_MAX {
            let (field, limit) = ("counters", COUNTERS_MAX);
            return Err(DecodeError::ListTooLong { field, count, limit });
        }
        let mut counters = Vec::with_capacity(count.min(reader.rest().len() / COUNTER_LEN_MIN));
        for _ in 0..count {
            let name_len = reader.u16()?;
            let name = Cow::Borrowed(reader.text(name_len, "counter name")?);
            counters.push(Counter { name, value: reader.u64()? });
        }
        reader.finish()?;
        Ok(Self { node, incarnation, uptime_ms, counters })
    }

    /// Bytes of the reply's message.
    pub fn encoded_len(&self) -> usize {
        HEAD_LEN + self.body_len()
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        let head = ReplyHead {
            length: self.body_len() as u32,
            ..ReplyHead::bare(Status::Ok, Version::NONE)
        };
        writer.bytes(&head.to_bytes());
        writer.u64(self.node.0);
        writer.u64(self.incarnation.0);
        writer.u64(self.uptime_ms);
        writer.u32(self.sent().len() as u32);
        for counter in self.sent() {
            let name = sent_name(counter);
            writer.u16(name.len() as u16);
            writer.bytes(name.as_bytes());
            writer.u64(counter.value);
        }
        writer.finish();
    }

    fn body_len(&self) -> usize {
        let counter_len = |counter| COUNTER_LEN_MIN + sent_name(counter).len();
        FIXED_LEN + self.sent().iter().map(counter_len).sum::<usize>()
    }

    fn sent(&self) -> &[Counter<'a>] {
        &self.counters[..self.counters.len().min(COUNTERS_MAX)]
    }
}

/// Bytes before the counters.
const FIXED_LEN: usize = 8 + 8 + 8 + 4;

/// Bytes of a counter without a name.
const COUNTER_LEN_MIN: usize = 2 + 8;

fn sent_name<'c>(counter: &'c Counter<'_>) -> &'c str {
    &counter.name[..counter.name.floor_char_boundary(COUNTER_NAME_MAX)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Request;
    use crate::round_trip::*;

    fn reply(counters: Vec<Counter<'_>>) -> StatsReply<'_> {
        let (node, incarnation) = (NodeId(3), Incarnation(4));
        StatsReply { node, incarnation, uptime_ms: 5, counters }
    }

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        check_request(Request::Stats(Stats));
        let request = encode(Stats.encoded_len(), |buffer| Stats.encode(buffer));
        assert_eq!(request, documented("stats request"));

        let mut stats = reply(Vec::new());
        stats.push("keys", 6);
        let message = encode(stats.encoded_len(), |buffer| stats.encode(buffer));
        assert_eq!(message, documented("stats reply"));
    }

    #[test]
    fn a_node_is_never_absent() {
        let mut message = documented("stats reply");
        message[0] = 1;
        let error = DecodeError::UnexpectedStatus { status: 1 };
        assert_eq!(StatsReply::decode(&message), Err(error.into()));
    }

    #[test]
    fn a_counter_is_found_by_name() {
        let mut stats = reply(Vec::new());
        stats.push("a", 1);
        stats.push(format!("{}{}", "a.", "b"), 2);
        assert_eq!(stats.value("a.b"), Some(2));
        assert_eq!(stats.value("b"), None);
        assert_eq!(stats.clone().into_owned(), stats);
    }

    #[test]
    fn what_is_too_much_is_left_out_when_it_is_sent() {
        let name = "ü".repeat(COUNTER_NAME_MAX);
        let counter = Counter { name: Cow::Borrowed(name.as_str()), value: 1 };
        let stats = reply(vec![counter; COUNTERS_MAX + 1]);
        let message = encode(stats.encoded_len(), |buffer| stats.encode(buffer));
        assert!(message.len() <= weft_transport::limits::MESSAGE_MAX);
        let read = StatsReply::decode(&message).unwrap();
        assert_eq!(read.counters.len(), COUNTERS_MAX);
        assert_eq!(read.counters[0].name, "ü".repeat(COUNTER_NAME_MAX / 2));
    }

    #[test]
    fn a_count_that_the_bytes_do_not_hold_is_refused() {
        let message = |count: u32| {
            let fixed = hex(
                "0000 0000 1c000000 0000000000000000 030000000000000004000000000000000500000000000000",
            );
            [fixed, count.to_le_bytes().to_vec()].concat()
        };
        assert_eq!(StatsReply::decode(&message(0)), Ok(reply(Vec::new())));
        let error = DecodeError::Truncated { missing: 2 };
        assert_eq!(StatsReply::decode(&message(COUNTERS_MAX as u32)), Err(error.into()));
        let (field, count, limit) = ("counters", u32::MAX as usize, COUNTERS_MAX);
        let error = DecodeError::ListTooLong { field, count, limit };
        assert_eq!(StatsReply::decode(&message(u32::MAX)), Err(error.into()));
    }

    proptest! {
        #[test]
        fn replies_are_read_as_written(
            (node, incarnation, uptime_ms) in any::<(u64, u64, u64)>(),
            counters in prop::collection::vec(("[a-zü._]{0,20}", any::<u64>()), 0..20),
        ) {
            let (node, incarnation) = (NodeId(node), Incarnation(incarnation));
            let mut stats = StatsReply { node, incarnation, uptime_ms, counters: Vec::new() };
            for (name, value) in &counters {
                stats.push(name.as_str(), *value);
            }
            let message = encode(stats.encoded_len(), |buffer| stats.encode(buffer));
            prop_assert_eq!(StatsReply::decode(&message), Ok(stats));
            for cut in cuts(message.len()) {
                prop_assert!(StatsReply::decode(&message[..cut]).is_err());
            }
        }

        #[test]
        fn hostile_replies_are_survived(message in hostile(documented("stats reply"))) {
            let _ = StatsReply::decode(&message);
        }
    }
}
