//! Edges, by the part of a dictionary that they ask for.

use super::Edge;
use super::dictionary::PARTS;

/// Edges that are gone through, and whose memory is given back, at once: few enough that it is soon, and that small graphs take little.
pub(super) const PIECE_LEN: usize = 4096;

/// All parts.
#[derive(Default)]
pub(super) struct Parts {
    /// Edges of two numbers of 32 bits, as those of most inputs are, in half of the memory.
    narrow: Pieces<[u32; 2]>,
    wide: Pieces<Edge>,
}

/// One of them.
pub(super) struct Part {
    narrow: Vec<Vec<[u32; 2]>>,
    wide: Vec<Vec<Edge>>,
}

struct Pieces<T> {
    /// The last piece of each part.
    filling: Vec<Vec<T>>,
    full: Vec<Vec<Vec<T>>>,
}

impl Parts {
    #[inline]
    pub(super) fn push(&mut self, part: usize, edge: Edge) {
        match (u32::try_from(edge.key), u32::try_from(edge.value)) {
            (Ok(key), Ok(value)) => self.narrow.push(part, [key, value]),
            _ => self.wide.push(part, edge),
        }
    }

    pub(super) fn into_parts(self) -> impl Iterator<Item = Part> {
        let parts = self.narrow.into_parts().zip(self.wide.into_parts());
        parts.map(|(narrow, wide)| Part { narrow, wide })
    }
}

impl Part {
    /// How many edges it has.
    pub(super) fn len(&self) -> usize {
        let narrow: usize = self.narrow.iter().map(Vec::len).sum();
        narrow + self.wide.iter().map(Vec::len).sum::<usize>()
    }

    /// Calls `each` with all edges, some thousands at a time.
    pub(super) fn each_batch<E>(
        self,
        mut each: impl FnMut(&[Edge]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut batch = Vec::with_capacity(PIECE_LEN);
        for piece in self.narrow {
            batch.clear();
            let edge = |[key, value]: [u32; 2]| Edge { key: key.into(), value: value.into() };
            batch.extend(piece.into_iter().map(edge));
            each(&batch)?;
        }
        self.wide.into_iter().try_for_each(|piece| each(&piece))
    }
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        let filling = (0..PARTS).map(|_| Vec::new()).collect();
        Pieces { filling, full: (0..PARTS).map(|_| Vec::new()).collect() }
    }
}

impl<T> Pieces<T> {
    #[inline]
    fn push(&mut self, part: usize, record: T) {
        let piece = &mut self.filling[part];
        piece.push(record);
        if piece.len() == PIECE_LEN {
            self.begin_piece(part);
        }
    }

    #[cold]
    fn begin_piece(&mut self, part: usize) {
        let next = Vec::with_capacity(PIECE_LEN);
        self.full[part].push(std::mem::replace(&mut self.filling[part], next));
    }

    /// The pieces of each part.
    fn into_parts(self) -> impl Iterator<Item = Vec<Vec<T>>> {
        self.full.into_iter().zip(self.filling).map(|(mut pieces, last)| {
            pieces.push(last);
            pieces
        })
    }
}
