//! Requests that are a prefix alone: which operation is wanted is all that they say.

/// A request of the operation of the same name.
macro_rules! bare_request {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name;

        impl $name {
            pub(crate) fn decode(
                prefix: $crate::prefix::Prefix,
                reader: $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::error::DecodeError> {
                prefix.takes_flags(0)?;
                prefix.takes_no_key()?;
                prefix.takes_no_argument()?;
                reader.finish()?;
                Ok(Self)
            }

            /// Bytes of the request's message.
            pub const fn encoded_len(&self) -> usize {
                $crate::prefix::PREFIX_LEN
            }

            /// Writes the request's message into `buffer`, which is [`encoded_len`](Self::encoded_len)
            /// bytes long.
            pub fn encode(&self, buffer: &mut [u8]) {
                let mut writer = $crate::codec::Writer::new(buffer);
                $crate::prefix::Prefix::bare($crate::operation::Operation::$name).encode(&mut writer);
                writer.finish();
            }
        }
    };
}

pub(crate) use bare_request;
