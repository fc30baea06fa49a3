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

/// What a table is like. Whether it is ordered never changes, the rest [may be](TableAlteration).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TableOptions {
    /// Whether it keeps its keys in order, so that ranges of them can be read.
    pub ordered: bool,
    /// The most bytes that its objects may take in the logs of all nodes, headers included. Each node lets it have the
    /// share of the slots that the node owns. `None` is as much as there is.
    pub quota_bytes: Option<u64>,
    /// What makes room in it when it has as much, or when a node has no memory left.
    pub eviction: Eviction,
}

/// What of a table's options is to be other than it was; nothing, by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TableAlteration {
    /// Its quota from then on, if that is to be another one; `Some(None)` takes it back. What the table has beyond it stays, and no write
    /// that takes more succeeds before the table has less, or objects of it are evicted.
    pub quota_bytes: Option<Option<u64>>,
    /// What makes room in it from then on, if that is to be something else.
    pub eviction: Option<Eviction>,
}

impl TableOptions {
    /// The options with `change` made to them.
    #[must_use]
    pub fn changed(self, change: TableAlteration) -> Self {
        Self {
            ordered: self.ordered,
            quota_bytes: change.quota_bytes.unwrap_or(self.quota_bytes),
            eviction: change.eviction.unwrap_or(self.eviction),
        }
    }
}

/// Which objects of a table go when there is no room for a new one. What has expired goes first anyway.
///
/// As in Redis, the choice is made among a sample: what goes is among the least worth keeping, not always the very least.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Eviction {
    /// None: the new one is refused.
    #[default]
    None,
    /// Those that nobody has read or written for longest.
    LeastRecentlyUsed,
    /// Those that expire soonest, and where none expires those that nobody has read or written for longest.
    SoonestExpiry,
}

impl Eviction {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::LeastRecentlyUsed, Self::SoonestExpiry];

    /// What the command line and configuration call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::LeastRecentlyUsed => "lru",
            Self::SoonestExpiry => "ttl",
        }
    }
}

impl fmt::Display for Eviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
