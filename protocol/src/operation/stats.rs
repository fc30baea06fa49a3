//! Stats: ask a node how it is.
//!
//! ```text
//! request  prefix
//! reply    head: ok, length | node u64 | incarnation u64 | uptime ms u64 | count u32 |
//!          (name length u16 | name | value u64) ...
//! ```

use std::borrow::Cow;

use weft_transport::{Incarnation, NodeId};

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, ReplyError};
use crate::limits::{COUNTER_NAME_MAX, COUNTERS_MAX};
use crate::operation::Operation;
use crate::prefix::{PREFIX_LEN, Prefix};
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::version::Version;

/// Asks a node for its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats;

impl Stats {
    pub(crate) fn decode(prefix: &Prefix, reader: Reader<'_>) -> Result<Self, DecodeError> {
        prefix.takes_flags(0)?;
        prefix.takes_no_key()?;
        prefix.takes_no_argument()?;
        reader.finish()?;
        Ok(Self)
    }

    /// Bytes of the request's message.
    pub const fn encoded_len(&self) -> usize {
        PREFIX_LEN
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        Prefix::bare(Operation::Stats).encode(&mut writer);
        writer.finish();
    }
}

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
