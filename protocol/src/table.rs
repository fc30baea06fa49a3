//! Which table a key belongs to.

use std::fmt;

/// A table's number. Keys of different tables are different keys, though they share slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u16);

impl TableId {
    /// The table that exists in every cluster.
    pub const DEFAULT: Self = Self(0);
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
