//! What senders and receivers of graphs say to each other. Integers are little-endian.
//!
//! ```text
//!  0        4         5      6     8         16       24       28     32
//!  +--------+---------+------+-----+---------+--------+--------+------+==============
//!  | "WCHN" | version | kind | zero| channel | number | index  | zero | types, or
//!  |        |         |      |     |         |        |        |      | segments
//!  +--------+---------+------+-----+---------+--------+--------+------+==============
//! ```
//! A reply is a status (4 bytes), zero (4), how many bytes the channel has been granted so far (8), and words.

/// Bytes ahead of a segment: it begins as aligned as the message.
pub(super) const HEADER_BYTES: usize = 32;
pub(super) const REPLY_BYTES: usize = 16;
/// Bytes of a reply's words that are read.
const WORDS_MAX: usize = 4096;

const MAGIC: [u8; 4] = *b"WCHN";
const VERSION: u8 = 1;

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A call: a channel begins. The sender's types follow.
    Open = 1,
    /// A message: segments of graph `number`, one behind the other, its `index`th message.
    Segments = 2,
    /// A call with the last segments of a graph: answered when all of it is there.
    Last = 3,
    /// A call without: the same, all segments having gone as messages.
    Held = 4,
    /// A call: answered when `number` bytes have been granted.
    More = 5,
    /// A message: nothing follows.
    Close = 6,
}

/// What every message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) channel: u64,
    pub(super) number: u64,
    pub(super) index: u32,
}

impl Header {
    pub(super) fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.kind as u8;
        bytes[8..16].copy_from_slice(&self.channel.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.index.to_le_bytes());
        bytes
    }

    /// The header that `body` begins with, if it is one of this version.
    pub(super) fn decode(body: &[u8]) -> Option<Header> {
        let header = body.first_chunk::<HEADER_BYTES>()?;
        let kind = match header[5] {
            1 => Kind::Open,
            2 => Kind::Segments,
            3 => Kind::Last,
            4 => Kind::Held,
            5 => Kind::More,
            6 => Kind::Close,
            _ => return None,
        };
        let is_one = header[..4] == MAGIC && header[4] == VERSION && header[6..8] == [0; 2];
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
        let (channel, number, index) = (word(8), word(16), word(24));
        let index = u32::try_from(index).ok()?;
        is_one.then_some(Header { kind, channel, number, index })
    }
}

/// How a call was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Status {
    Done = 0,
    TypesDiffer = 1,
    Refused = 2,
    Closed = 3,
    TooMany = 4,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: Status,
    /// Bytes granted since the channel began.
    pub(super) granted: u64,
    pub(super) words: String,
}

impl Answer {
    pub(super) fn done(granted: u64) -> Answer {
        Answer { status: Status::Done, granted, words: String::new() }
    }

    pub(super) fn failed(status: Status, words: String) -> Answer {
        Answer { status, granted: 0, words }
    }

    pub(super) fn encode(&self) -> ([u8; REPLY_BYTES], &[u8]) {
        let mut bytes = [0; REPLY_BYTES];
        bytes[..4].copy_from_slice(&(self.status as u32).to_le_bytes());
        bytes[8..].copy_from_slice(&self.granted.to_le_bytes());
        (bytes, self.words.as_bytes())
    }

    pub(super) fn decode(reply: &[u8]) -> Option<Answer> {
        let (head, words) = reply.split_first_chunk::<REPLY_BYTES>()?;
        let status = match u32::from_le_bytes([0, 1, 2, 3].map(|at| head[at])) {
            0 => Status::Done,
            1 => Status::TypesDiffer,
            2 => Status::Refused,
            3 => Status::Closed,
            4 => Status::TooMany,
            _ => return None,
        };
        let granted = u64::from_le_bytes(std::array::from_fn(|byte| head[8 + byte]));
        let words = &words[..words.len().min(WORDS_MAX)];
        Some(Answer { status, granted, words: String::from_utf8_lossy(words).into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        for kind in [Kind::Open, Kind::Segments, Kind::Last, Kind::Held, Kind::More, Kind::Close] {
            let header = Header { kind, channel: 7, number: 1 << 40, index: 3 };
            assert_eq!(Header::decode(&header.encode()), Some(header));
            for at in 0..8 {
                let mut other = header.encode();
                other[at] ^= 0x80;
                assert_eq!(Header::decode(&other), None, "byte {at}");
            }
            assert_eq!(Header::decode(&header.encode()[..31]), None);
        }
        let answer = Answer { status: Status::Refused, granted: 5, words: "why".to_owned() };
        let (head, words) = answer.encode();
        assert_eq!(Answer::decode(&[&head, words].concat()), Some(answer));
        assert_eq!(Answer::decode(&head[..15]), None);
        assert_eq!(Answer::decode(&[9; 16]), None);
    }
}
