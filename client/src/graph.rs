//! Values that are graphs of objects, used where they were received.

use std::fmt;
use std::marker::PhantomData;

use weft_object::{InvalidValue, Limits, OtherRoot, ReplyBytes, Types, View, Wire};
use weft_protocol::Version;

use crate::error::ClientError;
use crate::object::{Lookup, Object};

/// A graph with a root of type `R`, and its version.
///
/// It was checked once, and is read from the buffer that it was received into, which the handle holds on to.
pub struct GraphObject<R> {
    view: View<ReplyBytes>,
    version: Version,
    root: PhantomData<fn() -> R>,
}

impl<R: Wire> GraphObject<R> {
    fn new(object: Object, types: &Types) -> Result<Self, GraphError> {
        let version = object.version();
        // What a value may have is bounded by what one may be.
        let view = View::of_value(ReplyBytes::new(object.into_reply()), types, Limits::NONE);
        let view = view.map_err(|reason| GraphError::NoGraph { version, reason })?;
        view.root::<R>().map_err(|reason| GraphError::OtherRoot { version, reason })?;
        Ok(Self { view, version, root: PhantomData })
    }

    /// The root.
    pub fn root(&self) -> &R {
        self.view.root().expect("the root's type was looked at")
    }
}

impl<R> GraphObject<R> {
    /// The graph, for all that the root leads to.
    pub fn view(&self) -> &View<ReplyBytes> {
        &self.view
    }

    /// The object's version: it grows with every write of the key.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether the graph was copied out of the reply: see [`ReplyBytes::is_copy`].
    pub fn is_copy(&self) -> bool {
        self.view.parts().any(ReplyBytes::is_copy)
    }
}

/// The version alone; values may be large and secret.
impl<R> fmt::Debug for GraphObject<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphObject").field("version", &self.version).finish_non_exhaustive()
    }
}

/// What a get of a graph found.
#[derive(Debug)]
#[must_use = "a key may have no object"]
pub enum GraphLookup<R> {
    /// The graph of the key.
    Found(GraphObject<R>),
    /// The key has no object.
    Absent {
        /// The newest version that the key's partition has given out, as of which there was none.
        version: Version,
    },
}

impl<R: Wire> GraphLookup<R> {
    pub(crate) fn of(lookup: Lookup, types: &Types) -> Result<Self, GraphError> {
        match lookup {
            Lookup::Found(object) => GraphObject::new(object, types).map(Self::Found),
            Lookup::Absent { version } => Ok(Self::Absent { version }),
        }
    }
}

impl<R> GraphLookup<R> {
    /// The graph, if there is one.
    pub fn into_object(self) -> Option<GraphObject<R>> {
        match self {
            Self::Found(object) => Some(object),
            Self::Absent { .. } => None,
        }
    }
}

/// Why a graph cannot be had.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GraphError {
    /// The operation failed, whatever the value is.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The object is no graph of these types.
    #[error("the object of version {version} is no graph of these types: {reason}")]
    NoGraph {
        /// The version of the object.
        version: Version,
        /// What is wrong with it.
        reason: InvalidValue,
    },
    /// The graph has another root.
    #[error("the object of version {version} has another root: {reason}")]
    OtherRoot {
        /// The version of the object.
        version: Version,
        /// Which.
        reason: OtherRoot,
    },
}
