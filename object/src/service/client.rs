//! What all proxies have in common.

use std::fmt;
use std::time::Duration;

use crate::types::Types;

use super::interface::Interface;
use super::remote::Remote;

/// A proxy: what `#[service]` makes of a trait for who calls. Clones are the same reference to the object, which is released when the last is
/// dropped.
///
/// A trait rather than methods of the proxy itself, whose names might be those of the service's methods.
pub trait Client: Clone + fmt::Debug + Send + Sync + 'static {
    /// What it calls.
    type Interface: Interface<Client = Self> + ?Sized;
    /// The same for callers that block.
    type Blocking: From<Self>;

    /// The reference that it calls by.
    fn remote(&self) -> &Remote<Self::Interface>;

    /// The same, whose calls have this long. A call that has no result by then fails.
    #[must_use]
    fn within(&self, timeout: Duration) -> Self {
        Self::from_remote(self.remote().within(timeout))
    }

    /// The same for callers that block. A thread that waits drives the connection itself.
    fn blocking(&self) -> Self::Blocking {
        self.clone().into()
    }

    /// The types with which graphs for this service are built.
    fn types() -> &'static Types {
        Self::Interface::contract().types()
    }

    /// Of a reference.
    fn from_remote(remote: Remote<Self::Interface>) -> Self;
}
