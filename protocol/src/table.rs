//! Which table a key belongs to, and what a table is like.

use std::fmt;
use std::str::FromStr;

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

/// What a table is like. Quota and eviction [may be changed](TableAlteration), the rest never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TableOptions {
    /// Whether it keeps its keys in order, so that ranges of them can be read.
    pub ordered: bool,
    /// The most bytes that its objects may take in the logs of all nodes, headers included. Each node lets it have the
    /// share of the slots that the node owns. `None` is as much as there is.
    pub quota_bytes: Option<u64>,
    /// What makes room in it when it has as much, or when a node has no memory left.
    pub eviction: Eviction,
    /// How many nodes have each of its objects, from 1 to [`REPLICAS_MAX`](Self::REPLICAS_MAX): 3, as far as there are so many nodes.
    pub replicas: u8,
    /// What of it survives that nodes are started anew.
    pub durability: Durability,
}

/// A table that is not ordered, with 3 replicas in memory, and no quota.
impl Default for TableOptions {
    fn default() -> Self {
        let TableClass { replicas, durability } = TableClass::DEFAULT;
        let eviction = Eviction::None;
        Self { ordered: false, quota_bytes: None, eviction, replicas, durability }
    }
}

/// How safe the objects of a table are. Tables of one class share partitions: an object of one lies where one of the same key of
/// another does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableClass {
    /// How many nodes have each object.
    pub replicas: u8,
    /// What survives that nodes are started anew.
    pub durability: Durability,
}

impl TableClass {
    /// The class of the table that is always there.
    pub const DEFAULT: Self = Self { replicas: 3, durability: Durability::Memory };

    /// With how many members in sync a partition of the class takes writes, once it ever had as many: one copy of what was acknowledged
    /// may be lost.
    pub const fn min_in_sync(self) -> u8 {
        if self.replicas >= 2 { 2 } else { 1 }
    }

    /// Whether tables may be of this class.
    pub const fn is_supported(self) -> bool {
        self.replicas >= 1 && self.replicas <= TableOptions::REPLICAS_MAX
    }
}

/// `3 replicas, memory`
impl fmt::Display for TableClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.replicas == 1 { "" } else { "s" };
        write!(f, "{} replica{plural}, {}", self.replicas, self.durability)
    }
}

/// What of a table is on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Nothing: what all replicas lose at once is gone.
    #[default]
    Memory,
    /// What was written some moments ago: each replica writes behind.
    Disk,
    /// All that was acknowledged: each replica writes and syncs before that.
    Fsync,
}

impl Durability {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Fsync];

    /// What the command line and configuration call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Fsync => "fsync",
        }
    }

    /// What it is on the wire.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Memory => 0,
            Self::Disk => 1,
            Self::Fsync => 2,
        }
    }

    /// The one that is this number on the wire.
    pub(crate) const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Memory),
            1 => Some(Self::Disk),
            2 => Some(Self::Fsync),
            _ => None,
        }
    }
}

impl FromStr for Durability {
    type Err = UnknownDurability;

    fn from_str(text: &str) -> Result<Self, UnknownDurability> {
        let named = Self::ALL.into_iter().find(|durability| durability.name() == text);
        named.ok_or_else(|| UnknownDurability { name: text.to_owned() })
    }
}

/// A name of no durability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no durability; write memory, disk or fsync")]
pub struct UnknownDurability {
    /// What was given.
    pub name: String,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
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
    /// The most replicas of a table.
    pub const REPLICAS_MAX: u8 = 3;

    /// Which tables it shares partitions with.
    pub const fn class(&self) -> TableClass {
        TableClass { replicas: self.replicas, durability: self.durability }
    }

    /// The options with `change` made to them.
    #[must_use]
    pub fn changed(self, change: TableAlteration) -> Self {
        Self {
            quota_bytes: change.quota_bytes.unwrap_or(self.quota_bytes),
            eviction: change.eviction.unwrap_or(self.eviction),
            ..self
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

    /// What it is on the wire.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::LeastRecentlyUsed => 1,
            Self::SoonestExpiry => 2,
        }
    }

    /// The one that is this number on the wire.
    pub(crate) const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::None),
            1 => Some(Self::LeastRecentlyUsed),
            2 => Some(Self::SoonestExpiry),
            _ => None,
        }
    }

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
