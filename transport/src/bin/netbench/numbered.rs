//! A message that says who produced it and as which of its messages, so that the receiver can check
//! the order.

use weft_transport::Body;

/// Producer and sequence number.
pub(crate) const SIZE_MIN: usize = 12;

/// A message of a given size; after the number comes filling.
#[derive(Clone, Copy)]
pub(crate) struct Numbered<'a> {
    pub(crate) producer: u32,
    pub(crate) sequence: u64,
    /// The bytes after the number. They are copied as a value would be.
    pub(crate) filling: &'a [u8],
}

impl Numbered<'_> {
    /// Producer and sequence of a received message; `None` if it is too short to be one.
    #[inline]
    pub(crate) fn number(body: &[u8]) -> Option<(u32, u64)> {
        let (producer, rest) = body.split_first_chunk()?;
        let sequence = rest.first_chunk()?;
        Some((u32::from_le_bytes(*producer), u64::from_le_bytes(*sequence)))
    }
}

impl Body for Numbered<'_> {
    #[inline]
    fn len(&self) -> usize {
        SIZE_MIN + self.filling.len()
    }

    #[inline]
    fn write(self, buffer: &mut [u8]) {
        buffer[..4].copy_from_slice(&self.producer.to_le_bytes());
        buffer[4..12].copy_from_slice(&self.sequence.to_le_bytes());
        buffer[12..].copy_from_slice(self.filling);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_survives_the_trip_and_a_short_message_has_none() {
        let message = Numbered { producer: 7, sequence: 1 << 40, filling: &[9; 52] };
        let mut bytes = vec![0; message.len()];
        message.write(&mut bytes);
        assert_eq!(bytes.len(), 64);
        assert_eq!(Numbered::number(&bytes), Some((7, 1 << 40)));
        assert_eq!(Numbered::number(&bytes[..SIZE_MIN - 1]), None);
    }
}
