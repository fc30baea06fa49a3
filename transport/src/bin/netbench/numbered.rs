//! A message that says who produced it and as which of its messages, so that the receiver can check
//! the order.
//!
//! From 12 bytes on it holds a number of the producer and one of the message. A shorter one has a
//! byte for the producer and the lowest bytes of the message's number; a single byte has four bits
//! for each.

use weft_transport::Body;

/// From here on the numbers are whole.
const WHOLE: usize = 12;

/// A message of a given size; after the number comes filling.
#[derive(Clone, Copy)]
pub(crate) struct Numbered<'a> {
    pub(crate) producer: u32,
    pub(crate) sequence: u64,
    /// As many bytes as the message has. Those after the number are copied as a value would be.
    pub(crate) filling: &'a [u8],
}

/// What a message says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Number {
    pub(crate) producer: u32,
    sequence: u64,
    /// The bits of the sequence number that there was room for.
    mask: u64,
}

impl Number {
    /// Whether it can be the message with this number.
    #[inline]
    pub(crate) fn is(&self, sequence: u64) -> bool {
        self.sequence == sequence & self.mask
    }
}

/// How many producers can be told apart in messages of `size` bytes.
pub(crate) fn producers_max(size: usize) -> usize {
    match size {
        0 => 0,
        1 => 1 << 4,
        2..WHOLE => 1 << 8,
        _ => u32::MAX as usize,
    }
}

impl Numbered<'_> {
    /// Producer and sequence of a received message; `None` if it is empty.
    #[inline]
    pub(crate) fn number(body: &[u8]) -> Option<Number> {
        if let Some((producer, rest)) = body.split_first_chunk()
            && let Some(sequence) = rest.first_chunk()
        {
            let producer = u32::from_le_bytes(*producer);
            return Some(Number {
                producer,
                sequence: u64::from_le_bytes(*sequence),
                mask: u64::MAX,
            });
        }
        let (first, rest) = body.split_first()?;
        if rest.is_empty() {
            let (producer, sequence) = (u32::from(first >> 4), u64::from(first & 0xf));
            return Some(Number { producer, sequence, mask: 0xf });
        }
        let mut sequence = [0; 8];
        let len = rest.len().min(8);
        sequence[..len].copy_from_slice(&rest[..len]);
        let mask = u64::MAX >> (64 - 8 * len);
        let producer = u32::from(*first);
        Some(Number { producer, sequence: u64::from_le_bytes(sequence), mask })
    }
}

impl Body for Numbered<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.filling.len()
    }

    #[inline]
    fn write(self, buffer: &mut [u8]) {
        if buffer.len() >= WHOLE {
            buffer[..4].copy_from_slice(&self.producer.to_le_bytes());
            buffer[4..12].copy_from_slice(&self.sequence.to_le_bytes());
            buffer[12..].copy_from_slice(&self.filling[12..]);
            return;
        }
        match buffer {
            [only] => *only = (self.producer << 4) as u8 | (self.sequence & 0xf) as u8,
            [first, rest @ ..] => {
                *first = self.producer as u8;
                let len = rest.len().min(8);
                rest[..len].copy_from_slice(&self.sequence.to_le_bytes()[..len]);
            }
            [] => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_survives_the_trip_as_far_as_there_is_room() {
        for size in [1, 2, 3, 8, 9, 10, 11, 12, 13, 64] {
            for (producer, sequence) in [(7, 1 << 40), (15, u64::MAX - 1), (0, 0)] {
                let filling = vec![9; size];
                let message = Numbered { producer, sequence, filling: &filling };
                let mut bytes = vec![0; message.len()];
                message.write(&mut bytes);
                let number = Numbered::number(&bytes).unwrap();
                assert_eq!(number.producer, producer, "{size}");
                assert!(number.is(sequence), "{size}");
                assert!(!number.is(sequence.wrapping_add(1)), "{size}");
                assert!(!number.is(sequence.wrapping_sub(1)), "{size}");
            }
        }
        assert_eq!(Numbered::number(&[]), None);
    }
}
