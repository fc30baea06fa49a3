//! Which table a key belongs to, and what a table is like.

use std::fmt;

/// A table's number. Keys of different tables are different keys, though they share slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u16);

impl TableId {
    /// The table that exists in every cluster.
    pub const DEFAULT: Self = Self(0);
    /// The name of that table.
    pub const DEFAULT_NAME: &str = "default";
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a table is like, from its creation on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TableOptions {
    /// Whether it keeps its keys in order, so that ranges of them can be read.
    pub ordered: bool,
    /// The most bytes that its objects may take in the logs of all nodes, headers included. Each node lets it have the
    /// share of the slots that the node owns. `None` is as much as there is.
    pub quota_bytes: Option<u64>,
}
