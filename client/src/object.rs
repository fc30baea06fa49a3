//! An object as the caller gets it.

use std::fmt;
use std::ops::{Deref, Range};

use weft_protocol::Version;
use weft_transport::Reply;

/// A value and its version. It reads as bytes.
///
/// The bytes are those of the reply: a small value is held in place, a large one where it was
/// received, so that an `Object` may hold on to a receive buffer. Copy what is to be kept for long.
#[derive(Clone)]
pub struct Object {
    value: Reply,
    version: Version,
}

impl Object {
    /// The object whose value is the whole of `value`.
    pub(crate) fn new(value: Reply, version: Version) -> Self {
        Self { value, version }
    }

    /// The object's version: it grows with every write of the key.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The reply whose bytes it has.
    pub(crate) fn into_reply(self) -> Reply {
        self.value
    }

    /// See [`Reply::has_stable_address`].
    pub(crate) fn has_stable_address(&self) -> bool {
        self.value.has_stable_address()
    }
}

impl Deref for Object {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.value
    }
}

impl AsRef<[u8]> for Object {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// The version and the length; values may be large and secret.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("version", &self.version)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// What a get found.
#[derive(Debug, Clone)]
#[must_use = "a key may have no object"]
pub enum Lookup {
    /// The object of the key.
    Found(Object),
    /// The key has no object.
    Absent {
        /// The newest version that the key's partition has given out, as of which there was none.
        version: Version,
    },
}

impl Lookup {
    /// The object, if there is one, where it is.
    #[inline]
    pub fn object(&self) -> Option<&Object> {
        match self {
            Self::Found(object) => Some(object),
            Self::Absent { .. } => None,
        }
    }

    /// The object, if there is one.
    #[inline]
    pub fn into_object(self) -> Option<Object> {
        match self {
            Self::Found(object) => Some(object),
            Self::Absent { .. } => None,
        }
    }

    /// The object's version, or the one as of which there was none.
    #[inline]
    pub fn version(&self) -> Version {
        match self {
            Self::Found(object) => object.version(),
            Self::Absent { version } => *version,
        }
    }
}

/// Whether a key has an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Existence {
    /// The version of the object; if there is none, the newest version that the key's partition has
    /// given out, as of which there was none.
    pub version: Version,
    /// Whether there is an object.
    pub exists: bool,
}

/// What a delete did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deleted {
    /// The version of the removal; if there was nothing to remove, the newest version that the
    /// key's partition has given out.
    pub version: Version,
    /// Whether there was an object.
    pub existed: bool,
}

/// What a compare-and-set did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "nothing may have been written"]
pub enum Compared {
    /// The object was as expected, and is the new one now.
    Written {
        /// The version of the new object.
        version: Version,
    },
    /// The key has another object, which stays.
    Conflict {
        /// The version of that object.
        version: Version,
    },
    /// The key has no object, and one was expected.
    Absent {
        /// The newest version that the key's partition has given out, as of which there was none.
        version: Version,
    },
}

impl Compared {
    /// The version of the new object, if it was written.
    pub fn written(self) -> Option<Version> {
        match self {
            Self::Written { version } => Some(version),
            Self::Conflict { .. } | Self::Absent { .. } => None,
        }
    }
}

/// What an increment did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incremented {
    /// The version of the new object.
    pub version: Version,
    /// The number that it holds.
    pub number: i64,
}

/// What an append did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The version of the new object.
    pub version: Version,
    /// Bytes of its whole value.
    pub value_len: u64,
}

/// What came of a mutation, and the object that was there before it.
#[derive(Debug, Clone)]
pub struct Replaced {
    /// The version of the new object or of the removal; if there was nothing to remove, the newest
    /// version that the key's partition has given out.
    pub version: Version,
    /// The object that is no longer there, if there was one.
    pub previous: Option<Object>,
}

/// What a read of some bytes of a value found.
#[derive(Debug, Clone)]
#[must_use = "a key may have no object"]
pub enum RangeLookup {
    /// The key has an object.
    Found {
        /// The bytes, with the version of the object that they are a part of.
        bytes: Object,
        /// Bytes of its whole value.
        value_len: u64,
    },
    /// The key has no object.
    Absent {
        /// The newest version that the key's partition has given out, as of which there was none.
        version: Version,
    },
}

/// Fields of a record, in the order in which they were asked for.
#[derive(Clone)]
pub struct Fields {
    reply: Reply,
    version: Version,
    ranges: Vec<Option<Range<usize>>>,
}

impl Fields {
    /// The fields whose values lie at `ranges` of `reply`.
    pub(crate) fn new(reply: Reply, version: Version, ranges: Vec<Option<Range<usize>>>) -> Self {
        Self { reply, version, ranges }
    }

    /// The version of the object that they are fields of.
    pub fn version(&self) -> Version {
        self.version
    }

    /// How many were asked for.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether none was asked for.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The value of the field whose name was the `index`th; `None` if the record has no such field.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let range = self.ranges.get(index)?.clone()?;
        Some(&self.reply[range])
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// The version and which of them there are; values may be large and secret.
impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lens: Vec<_> = self.iter().map(|value| value.map(<[u8]>::len)).collect();
        f.debug_struct("Fields").field("version", &self.version).field("lens", &lens).finish()
    }
}

/// What a read of fields found.
#[derive(Debug, Clone)]
#[must_use = "a key may have no object"]
pub enum FieldsLookup {
    /// The key has a record.
    Found(Fields),
    /// The key has no object.
    Absent {
        /// The newest version that the key's partition has given out, as of which there was none.
        version: Version,
    },
}
