//! The reply of operations that return what they replace or remove.
//!
//! ```text
//! head: ok, length, version | version of what was there u64 | its value
//! head: absent, version
//! ```

use crate::codec::Writer;
use crate::error::ReplyError;
use crate::numbered::NumberedHead;
use crate::reply::{HEAD_LEN, ReplyHead, Status};
use crate::version::Version;

/// What came of a mutation, and what was there before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreviousReply<'a> {
    /// The version of the mutation; if nothing was there to remove, the newest that the key's
    /// partition has given out.
    pub version: Version,
    /// The object that was there; `None` if there was none.
    pub previous: Option<Previous<'a>>,
}

/// An object that is no longer the key's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Previous<'a> {
    /// Its version.
    pub version: Version,
    /// Its value: in the reply, what follows [`NumberedHead::LEN`].
    pub value: &'a [u8],
}

impl<'a> PreviousReply<'a> {
    /// What precedes the value of the object that was there, if the value is gathered behind it.
    #[inline]
    pub const fn head(version: Version, previous: Version, value_len: usize) -> NumberedHead {
        NumberedHead::new(version, previous.0, value_len)
    }

    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`]: the server's refusal, or bytes that are no such reply.
    #[inline]
    pub fn decode(message: &'a [u8]) -> Result<Self, ReplyError<'a>> {
        let (head, body) = ReplyHead::decode(message)?;
        if head.status == Status::Absent {
            let (version, _) = head.presence()?;
            return Ok(Self { version, previous: None });
        }
        let (version, previous, value) = NumberedHead::split(&head, body)?;
        Ok(Self { version, previous: Some(Previous { version: Version(previous), value }) })
    }

    /// Bytes of the reply's message.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        match self.previous {
            Some(previous) => NumberedHead::LEN + previous.value.len(),
            None => HEAD_LEN,
        }
    }

    /// Writes the reply's message into `buffer`, which is [`encoded_len`](Self::encoded_len) bytes
    /// long.
    #[inline]
    pub fn encode(&self, buffer: &mut [u8]) {
        let mut writer = Writer::new(buffer);
        match self.previous {
            Some(Previous { version, value }) => {
                Self::head(self.version, version, value.len()).write(&mut writer);
                writer.bytes(value);
            }
            None => writer.bytes(&ReplyHead::of_presence(self.version, false).to_bytes()),
        }
        writer.finish();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::round_trip::*;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let previous = Previous { version: Version::new(1, 7), value: b"warp" };
        let reply = PreviousReply { version: Version::new(1, 9), previous: Some(previous) };
        let bytes = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
        assert_eq!(bytes, documented("get-and-put reply"));
    }

    proptest! {
        #[test]
        fn replies_are_read_as_written(
            version in versions(),
            previous in prop::option::of((versions(), bytes(60))),
        ) {
            let previous = previous.as_ref();
            let previous = previous.map(|(version, value)| Previous { version: *version, value });
            let reply = PreviousReply { version, previous };
            let message = encode(reply.encoded_len(), |buffer| reply.encode(buffer));
            prop_assert_eq!(PreviousReply::decode(&message), Ok(reply));
            check_cut(&message, PreviousReply::decode);
            if let Some(Previous { version: was, value }) = previous {
                let head = PreviousReply::head(version, was, value.len());
                let gathered = encode(head.encoded_len(), |buffer| head.encode(buffer));
                prop_assert_eq!([&gathered, value].concat(), message);
            }
        }

        #[test]
        fn hostile_replies_are_survived(message in hostile(documented("get-and-put reply"))) {
            if let Ok(PreviousReply { previous: Some(previous), .. }) =
                PreviousReply::decode(&message)
            {
                prop_assert_eq!(NumberedHead::LEN + previous.value.len(), message.len());
            }
        }
    }
}
