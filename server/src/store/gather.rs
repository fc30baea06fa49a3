//! Bytes that lie in several places: short ones copied one after the other, long ones left where they are.

use weft_transport::Shared;

use super::header::{self, Head};

/// Values that are longer are sent from where they lie; shorter ones are copied, since a view keeps its whole segment and costs an
/// element of a gathered write.
pub(super) const COPIED_MAX: usize = 4 << 10;
/// Capacity that is kept for the next use: what is longer was an exception.
const KEPT_BYTES: usize = 64 << 10;

/// Bytes one after the other, some of them views of memory that stays where it is.
#[derive(Debug, Default)]
pub struct Gather {
    bytes: Vec<u8>,
    /// Each with where among the bytes it belongs, in order.
    views: Vec<(usize, Shared)>,
    views_len: usize,
}

/// A part of a [`Gather`], which is one too.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gathered<'a> {
    /// Where among the gather's bytes these begin.
    start: usize,
    bytes: &'a [u8],
    views: &'a [(usize, Shared)],
}

/// Some of the bytes.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// They have to be copied by who wants to keep them.
    Bytes(&'a [u8]),
    /// They can be kept as they are.
    View(&'a Shared),
}

/// An end of what a gather held at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    bytes: usize,
    views: usize,
}

impl Gather {
    /// How many bytes these are.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.views_len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it.
    pub fn all(&self) -> Gathered<'_> {
        self.between(Mark::default(), self.end())
    }

    /// Lets go of everything, but for some capacity.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.views.clear();
        self.views_len = 0;
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds a record that lies in no log, without its padding, and without the end of its value, which is `elsewhere` and comes next.
    pub(super) fn push_record(&mut self, head: &Head, key: &[u8], value: &[u8], elsewhere: &[u8]) {
        let start = self.bytes.len();
        [head.bytes(), key, value].into_iter().for_each(|part| self.push(part));
        header::seal(&mut self.bytes[start..], |checksum| match elsewhere {
            [] => checksum,
            _ => crc32c::crc32c_append(checksum, elsewhere),
        });
    }

    pub(super) fn push_view(&mut self, view: Shared) {
        self.views_len += view.len();
        self.views.push((self.bytes.len(), view));
    }

    /// Zeroes up to the next multiple of 8.
    pub(super) fn pad(&mut self) {
        let len = self.len();
        self.bytes.resize(self.bytes.len() + len.next_multiple_of(8) - len, 0);
    }

    pub(super) fn end(&self) -> Mark {
        Mark { bytes: self.bytes.len(), views: self.views.len() }
    }

    pub(super) fn between(&self, start: Mark, end: Mark) -> Gathered<'_> {
        Gathered {
            start: start.bytes,
            bytes: &self.bytes[start.bytes..end.bytes],
            views: &self.views[start.views..end.views],
        }
    }
}

impl<'a> Gathered<'a> {
    /// How many bytes these are.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.views.iter().map(|(_, view)| view.len()).sum::<usize>()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, if they lie together.
    pub fn in_one_piece(&self) -> Option<&'a [u8]> {
        self.views.is_empty().then_some(self.bytes)
    }

    /// The bytes piece by piece, none of which is empty.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'a>> + use<'a> {
        let Gathered { start, bytes, views } = *self;
        let mut from = 0;
        let before_views = views.iter().flat_map(move |(at, view)| {
            let to = at - start;
            let before = &bytes[std::mem::replace(&mut from, to)..to];
            [Piece::Bytes(before), Piece::View(view)]
        });
        let last = views.last().map_or(0, |(at, _)| at - start);
        let is_some = |piece: &Piece<'_>| !piece.bytes().is_empty();
        before_views.chain(std::iter::once(Piece::Bytes(&bytes[last..]))).filter(is_some)
    }

    /// A copy of them in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut copy = Vec::with_capacity(self.len());
        self.copy_to(&mut copy);
        copy
    }

    /// Adds a copy of them to `to`.
    pub fn copy_to(&self, to: &mut Vec<u8>) {
        self.pieces().for_each(|piece| to.extend_from_slice(piece.bytes()));
    }
}

impl<'a> Piece<'a> {
    /// The bytes, wherever they are.
    pub fn bytes(&self) -> &'a [u8] {
        match self {
            Piece::Bytes(bytes) => bytes,
            Piece::View(view) => view,
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_transport::{Memory, MemoryConfig, Purpose};

    use super::*;

    #[test]
    fn pieces_come_in_the_order_in_which_they_were_added() {
        let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 }).unwrap();
        let view = |byte: u8| {
            let mut block = memory.allocate(4096, Purpose::Log).unwrap();
            block.mark_touched(3);
            block[..3].fill(byte);
            block.freeze().narrow(0..3)
        };
        let mut gather = Gather::default();
        gather.push_view(view(1));
        gather.push(&[2, 2]);
        let middle = gather.end();
        gather.push(&[3]);
        gather.push_view(view(4));
        gather.push_view(view(5));
        let end = gather.end();
        gather.push(&[6]);
        gather.pad();
        let all = [1, 1, 1, 2, 2, 3, 4, 4, 4, 5, 5, 5, 6, 0, 0, 0];
        assert_eq!(gather.all().to_vec(), all);
        assert_eq!((gather.len(), gather.all().len()), (16, 16));
        let part = gather.between(middle, end);
        assert_eq!(part.to_vec(), all[5..12]);
        assert_eq!(part.pieces().count(), 3);
        gather.clear();
        assert!(gather.is_empty() && gather.all().pieces().next().is_none());
    }
}
