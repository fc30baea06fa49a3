//! Values of a program as records of segments: what is moved, and kept in files.

use weft_transport::{Memory, MemoryError, Purpose};

use crate::error::Full;
use crate::pair::Pair;
use crate::segment::Segment;
use crate::text::Text;
use crate::text_key::TextKey;
use crate::text_writer::TextSegmentWriter;
use crate::types::Types;
use crate::view::View;
use crate::wire::Wire;
use crate::writer::SegmentWriter;

/// A value as a program has it, and how it lies in a segment: values that are [`Wire`] as they are, and pairs whose key is a
/// [`TextKey`] with a [`Text`] in its place.
pub trait Record: Sized {
    /// As it lies there. It has to be one of the types agreed on.
    type Form: Wire;
    /// What writes it there.
    type Writer;

    /// Begins a segment of up to `bytes` bytes of pages.
    ///
    /// # Errors
    /// No memory for that many.
    ///
    /// # Panics
    /// If [`Form`](Self::Form) is not one of `types`, or no segment may have so few or so many bytes.
    fn writer(memory: &Memory, types: &Types, bytes: usize) -> Result<Self::Writer, MemoryError>;

    /// Bytes of pages that a segment needs to have room for it.
    fn segment_bytes(&self) -> usize;

    /// Appends it to a segment.
    ///
    /// # Errors
    /// The segment is full.
    fn write(&self, writer: &mut Self::Writer) -> Result<(), Full>;

    /// How many were appended.
    fn count(writer: &Self::Writer) -> usize;

    /// Completes a segment.
    fn freeze(writer: Self::Writer) -> Segment;

    /// From where it lies.
    fn read<B>(form: &Self::Form, view: &View<B>) -> Self;

    /// Bytes of memory that it has beside those of the value itself.
    fn heap_bytes(&self) -> usize;

    /// Cuts its text off, if it has one of more than so many bytes, at the end of a character.
    fn truncate(&mut self, text_bytes: usize);
}

impl<R: Wire> Record for R {
    type Form = R;
    type Writer = SegmentWriter<R>;

    fn writer(memory: &Memory, types: &Types, bytes: usize) -> Result<Self::Writer, MemoryError> {
        SegmentWriter::new(memory, Purpose::Send, types, bytes)
    }

    fn segment_bytes(&self) -> usize {
        size_of::<R>()
    }

    #[inline]
    fn write(&self, writer: &mut Self::Writer) -> Result<(), Full> {
        writer.push(*self)
    }

    fn count(writer: &Self::Writer) -> usize {
        writer.len()
    }

    fn freeze(writer: Self::Writer) -> Segment {
        writer.freeze()
    }

    #[inline]
    fn read<B>(form: &R, _: &View<B>) -> R {
        *form
    }

    #[inline]
    fn heap_bytes(&self) -> usize {
        0
    }

    fn truncate(&mut self, _: usize) {}
}

impl<V: Wire> Record for Pair<TextKey, V> {
    type Form = Pair<Text, V>;
    type Writer = TextSegmentWriter<Pair<Text, V>>;

    fn writer(memory: &Memory, types: &Types, bytes: usize) -> Result<Self::Writer, MemoryError> {
        TextSegmentWriter::new(memory, Purpose::Send, types, bytes)
    }

    fn segment_bytes(&self) -> usize {
        TextSegmentWriter::<Self::Form>::bytes_for(self.key.len())
    }

    #[inline]
    fn write(&self, writer: &mut Self::Writer) -> Result<(), Full> {
        writer.push(|texts| Ok(Pair { key: texts.text(&self.key)?, value: self.value }))
    }

    fn count(writer: &Self::Writer) -> usize {
        writer.len()
    }

    fn freeze(writer: Self::Writer) -> Segment {
        writer.freeze()
    }

    #[inline]
    fn read<B>(form: &Self::Form, view: &View<B>) -> Self {
        Self { key: view.text(&form.key).into(), value: form.value }
    }

    #[inline]
    fn heap_bytes(&self) -> usize {
        self.key.heap_bytes()
    }

    fn truncate(&mut self, text_bytes: usize) {
        if self.key.len() > text_bytes {
            self.key = self.key[..self.key.floor_char_boundary(text_bytes)].into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_off_at_the_end_of_a_character_and_comes_no_later_then() {
        for (text, bytes, expected) in [
            ("größe", 4, "grö"),
            ("größe", 3, "gr"),
            ("größe", 7, "größe"),
            ("", 0, ""),
            ("ab", 0, ""),
        ] {
            let mut pair = Pair { key: TextKey::from(text), value: 7_u64 };
            pair.truncate(bytes);
            assert_eq!((&*pair.key, pair.value), (expected, 7));
            assert!(pair.key <= TextKey::from(text));
        }
        let mut flat = Pair { key: u64::MAX, value: 7_u64 };
        flat.truncate(0);
        assert_eq!((flat.key, flat.value), (u64::MAX, 7));
    }
}
