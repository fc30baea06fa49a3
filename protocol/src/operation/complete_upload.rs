//! Complete-upload: make the value that was uploaded the object of its key.
//!
//! ```text
//! request  prefix: effect | completion id? | key | upload u64 | expected version u64
//! reply    that of put (effect 0), compare-and-set (1) or get-and-put (2)
//! ```

use crate::codec::{Reader, Writer};
use crate::error::DecodeError;
use crate::operation::Operation;
use crate::prefix::Prefix;
use crate::target::Target;
use crate::version::Version;

/// Ends an upload: all of its value is the object of the key from then on, or nothing of it ever is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompleteUpload<'a> {
    /// Which object.
    pub target: Target<'a>,
    /// The upload's number.
    pub upload: u64,
    /// What is done with the value.
    pub effect: UploadEffect,
}

/// As which operation an upload ends, and is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadEffect {
    /// A [put](crate::Put).
    Put,
    /// A [compare-and-set](crate::CompareAndSet) that expects this version.
    CompareAndSet(Version),
    /// A [get-and-put](crate::GetAndPut).
    GetAndPut,
}

impl<'a> CompleteUpload<'a> {
    pub(crate) fn decode(prefix: Prefix, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let target = Target::decode(&prefix, &mut reader)?;
        let upload = reader.u64()?;
        let expected = Version(reader.u64()?);
        reader.finish()?;
        let effect = match prefix.argument {
            1 => UploadEffect::CompareAndSet(expected),
            _ if expected != Version::NONE => {
                return Err(DecodeError::ReservedField { field: "expected version" });
            }
            0 => UploadEffect::Put,
            2 => UploadEffect::GetAndPut,
            effect => return Err(DecodeError::UnsupportedEffect { effect }),
        };
        Ok(Self { target, upload, effect })
    }

    /// Bytes of the request's message.
    pub fn encoded_len(&self) -> usize {
        self.target.encoded_len(None) + 16
    }

    /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
    /// bytes long.
    pub fn encode(&self, buffer: &mut [u8]) {
        let (effect, expected) = match self.effect {
            UploadEffect::Put => (0, Version::NONE),
            UploadEffect::CompareAndSet(expected) => (1, expected),
            UploadEffect::GetAndPut => (2, Version::NONE),
        };
        let mut writer = Writer::new(buffer);
        self.target.encode(Operation::CompleteUpload, effect, None, &mut writer);
        writer.u64(self.upload);
        writer.u64(expected.0);
        writer.finish();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Request;
    use crate::round_trip::*;

    #[test]
    fn the_bytes_are_those_of_the_docs() {
        let effect = UploadEffect::CompareAndSet(Version::new(1, 8));
        let request = CompleteUpload { target: documented_target(), upload: 17, effect };
        let bytes = encode(request.encoded_len(), |buffer| request.encode(buffer));
        assert_eq!(bytes, documented("complete-upload request"));
    }

    #[test]
    fn effects_are_those_of_the_protocol() {
        let good = documented("complete-upload request");
        let with_effect = |effect: u8, version: u8| {
            let mut bytes = good.clone();
            bytes[12] = effect;
            let version_at = bytes.len() - 8;
            bytes[version_at..].fill(0);
            bytes[version_at] = version;
            Request::decode(&bytes).map(|_| ())
        };
        assert_eq!(with_effect(1, 7), Ok(()));
        assert_eq!(with_effect(2, 0), Ok(()));
        assert_eq!(with_effect(3, 0), Err(DecodeError::UnsupportedEffect { effect: 3 }));
        let reserved = DecodeError::ReservedField { field: "expected version" };
        assert_eq!(with_effect(0, 7), Err(reserved));
        assert_eq!(with_effect(2, 7), Err(reserved));
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            target in targets(),
            upload: u64,
            effect in prop_oneof![
                Just(UploadEffect::Put),
                versions().prop_map(UploadEffect::CompareAndSet),
                Just(UploadEffect::GetAndPut),
            ],
        ) {
            let request = CompleteUpload { target: target.get(), upload, effect };
            check_request(Request::CompleteUpload(request));
        }
    }
}
