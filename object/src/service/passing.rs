//! Services as arguments: the object stays where it is, and a reference to it goes.

use std::sync::Arc;

use crate::fingerprint::Fingerprint;

use super::error::{Malformed, ServiceError};
use super::exported::Passed;
use super::interface::{Contract, Interface};
use super::item::{Item, Reader, Writer, end_of};
use super::references::Held;
use super::remote::{Agreed, Core, Remote};

/// What a call takes along while it is under way: the references that it gives to the peer.
#[derive(Debug)]
pub struct Passing<'p> {
    core: &'p Core,
    given: Vec<u64>,
}

impl<'p> Passing<'p> {
    #[inline]
    pub(super) fn new(core: &'p Core) -> Self {
        // An empty list takes no memory.
        Self { core, given: Vec::new() }
    }

    pub(super) fn contract(&self) -> &'static Contract {
        self.core.contract
    }

    /// A reference to `object` for who is called.
    ///
    /// # Errors
    /// The peer holds as many as it may.
    pub fn reference<I: Interface + ?Sized>(
        &mut self,
        object: Arc<I>,
    ) -> Result<Reference, ServiceError> {
        let contract = I::contract();
        let held = Held { target: Arc::new(Passed(object)), types: contract.types.clone() };
        let Core { services, connection, .. } = self.core;
        let id = services.give(connection, held).ok_or_else(|| {
            ServiceError::TooManyReferences { limit: services.config().references_max }
        })?;
        self.given.push(id);
        Ok(Reference { id, signature: contract.signature })
    }

    /// The peer has got nothing of it, or wants nothing of it: the references are taken back.
    pub(super) fn withdraw(&mut self) {
        for id in self.given.drain(..) {
            drop(self.core.services.release(self.core.connection.peer(), id));
        }
    }

    /// The peer has got it.
    #[inline]
    pub(super) fn arrived(&mut self) {
        self.given.clear();
    }
}

/// Whoever gives a call up cannot tell whether the peer gets it: what it was given is the peer's, until the connection ends.
impl Drop for Passing<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.given.is_empty() && !self.core.connection.is_open() {
            self.withdraw();
        }
    }
}

/// A reference as it travels: its number, and what the two sides need not agree on if it is the same for both.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    id: u64,
    signature: Fingerprint,
}

impl Item for Reference {
    #[inline]
    fn end(&self, at: usize) -> usize {
        end_of(end_of(at, size_of::<u64>()), 16)
    }

    #[inline]
    fn put(self, out: &mut Writer<'_>) {
        out.value(self.id);
        out.value(self.signature.to_bytes());
    }
}

impl Reference {
    /// Reads a reference that was passed. The object is called by the connection that it came by.
    ///
    /// # Errors
    /// There is none.
    pub fn take<I: Interface + ?Sized>(arguments: &mut Reader<'_>) -> Result<Remote<I>, Malformed> {
        let id = arguments.value::<u64>()?;
        let signature = Fingerprint::from_bytes(arguments.value()?);
        let what = "a reference where none is taken";
        let sender = arguments.sender().ok_or(Malformed::Disagreed { what })?;
        let contract = I::contract();
        let agreed = (signature == contract.signature).then(|| Agreed::alike(contract));
        Ok(Remote::new(&sender.services, &sender.connection, id, contract, agreed))
    }
}
