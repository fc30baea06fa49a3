//! A graph as one value, to be stored: which types it is made of, and its segments one behind the other.
//!
//! ```text
//!  0       8           12     16
//!  +-------+-----------+------+======================+=============+=============+
//!  | magic | types, u32| zero | types, zeros up to   | segment     | segment     | ...
//!  |       | bytes     | u32  | a multiple of eight  |             |             |
//!  +-------+-----------+------+======================+=============+=============+
//! ```

use crate::assembly::{Assembly, Limits};
use crate::bytes::StableBytes;
use crate::error::{Invalid, TypesDiffer};
use crate::frozen::Frozen;
use crate::types::Types;
use crate::view::View;

/// No text begins with it.
const MAGIC: [u8; 8] = *b"\x00weft\x08og";
const HEADER_BYTES: usize = 16;

/// Why bytes are no graph of these types.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidValue {
    /// They do not begin as one does, or end before the segments.
    #[error("the bytes were not written as a graph")]
    NoGraph,
    /// It was written with types of other layouts.
    #[error(transparent)]
    Types(#[from] TypesDiffer),
    /// The segments are wrong.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl<R> Frozen<R> {
    /// The graph as one value. It is read with any list of types in which those that occur in the graph are.
    pub fn to_value(&self) -> Vec<u8> {
        let types = self.types().to_bytes();
        let start = segments_start(types.len());
        let mut value = Vec::with_capacity(start + self.len_bytes() as usize);
        value.extend_from_slice(&MAGIC);
        value.extend_from_slice(&(types.len() as u32).to_le_bytes());
        value.extend_from_slice(&[0; 4]);
        value.extend_from_slice(&types);
        value.resize(start, 0);
        for segment in self.segments() {
            value.extend_from_slice(segment.head());
            value.extend_from_slice(segment.pages());
        }
        value
    }
}

impl<B: StableBytes> View<B> {
    /// The graph of a value, which may come from anywhere, used where it lies. The value begins at a multiple of eight.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of_value(value: B, types: &Types, limits: Limits) -> Result<Self, InvalidValue> {
        let bytes = value.bytes();
        let header = bytes.first_chunk::<HEADER_BYTES>().ok_or(InvalidValue::NoGraph)?;
        let len = u32::from_le_bytes([8, 9, 10, 11].map(|at| header[at]));
        if header[..8] != MAGIC || header[12..] != [0; 4] {
            return Err(InvalidValue::NoGraph);
        }
        let start = segments_start(len as usize);
        let told = bytes.get(HEADER_BYTES..start).ok_or(InvalidValue::NoGraph)?;
        let (told, zeros) = told.split_at(len as usize);
        if zeros.iter().any(|byte| *byte != 0) {
            return Err(InvalidValue::NoGraph);
        }
        let mut assembly = Assembly::new(&types.agree(told)?, limits);
        assembly.add_from(value, start)?;
        Ok(assembly.finish()?)
    }
}

/// Where the segments begin, behind so many bytes of types.
const fn segments_start(types_len: usize) -> usize {
    (HEADER_BYTES + types_len).next_multiple_of(8)
}
