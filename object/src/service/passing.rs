//! Services as arguments and results: the object stays where it is, and a reference to it goes.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weft_transport::Connection;

use crate::fingerprint::Fingerprint;

use super::client::Client;
use super::error::{Malformed, Refusal, ServiceError};
use super::exported::Passed;
use super::interface::{Contract, Interface};
use super::item::{Item, OtherEnd, Reader, Writer, end_of};
use super::references::Held;
use super::remote::{Agreed, Core, Remote};
use super::returned::{Replied, Returned};
use super::services::Services;
use super::told::Lists;

/// What a call takes along while it is under way: the references that it gives to the peer.
#[derive(Debug)]
pub struct Passing<'p> {
    core: &'p Core,
    given: Vec<u64>,
    /// The request has been written, and may leave.
    written: AtomicBool,
}

impl<'p> Passing<'p> {
    #[inline]
    pub(super) fn new(core: &'p Core) -> Self {
        // An empty list takes no memory.
        Self { core, given: Vec::new(), written: AtomicBool::new(false) }
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
        let Core { services, connection, .. } = self.core;
        let limit = services.config().references_max;
        let reference = Reference::give(services, connection, object);
        let reference = reference.ok_or(ServiceError::TooManyReferences { limit })?;
        self.given.push(reference.id);
        Ok(reference)
    }

    /// What is to be set when the request is written; nothing if that does not matter.
    #[inline]
    pub(super) fn written(&self) -> Option<&AtomicBool> {
        (!self.given.is_empty()).then_some(&self.written)
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

/// Whoever gives up a call that was written cannot tell whether the peer gets it: what it was given is the peer's, until the connection ends. What was
/// not written never is.
impl Drop for Passing<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.given.is_empty() && !*self.written.get_mut() {
            self.withdraw();
        }
    }
}

/// What a result takes along: the references that it gives to who has called.
#[derive(Debug)]
pub struct Giving<'g> {
    contract: &'static Contract,
    other_end: Option<OtherEnd<'g>>,
    given: Vec<u64>,
}

impl<'g> Giving<'g> {
    #[inline]
    pub(super) fn new(contract: &'static Contract, other_end: Option<OtherEnd<'g>>) -> Self {
        Self { contract, other_end, given: Vec::new() }
    }

    #[inline]
    pub(super) fn contract(&self) -> &'static Contract {
        self.contract
    }

    fn reference<I: Interface + ?Sized>(&mut self, object: Arc<I>) -> Result<Reference, Refusal> {
        let OtherEnd { services, connection } = self.other_end.expect("the method gives services");
        let reference = Reference::give(services, connection, object).ok_or_else(|| {
            let what = "the caller holds as many references as it may".to_owned();
            Refusal::Result { what }
        })?;
        self.given.push(reference.id);
        Ok(reference)
    }

    /// The references, for who sends the result.
    pub(super) fn into_given(self) -> Vec<u64> {
        self.given
    }

    /// The result is not sent: the references are taken back.
    #[cold]
    pub(super) fn withdraw(self) {
        let Some(OtherEnd { services, connection }) = self.other_end else { return };
        for id in self.given {
            drop(services.release(connection.peer(), id));
        }
    }
}

/// How an `Arc<dyn Trait>` travels as a result, which `#[service]` puts this in the place of.
#[derive(Debug)]
pub struct ByReference<I: Interface + ?Sized>(PhantomData<fn(&I)>);

impl<I: Interface + ?Sized> Returned for ByReference<I> {
    type Value = Arc<I>;
    type Received = I::Client;
    type Item = Reference;

    const FINGERPRINT: Fingerprint = Reference::fingerprint(I::NAME);
    const HAS_SERVICES: bool = true;

    fn give(value: Arc<I>, giving: &mut Giving<'_>) -> Result<Reference, Refusal> {
        giving.reference(value)
    }

    fn receive(reply: &mut Replied<'_>) -> Result<I::Client, Malformed> {
        Ok(I::Client::from_remote(Reference::take(&mut reply.items)?))
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
    /// A new reference to `object` for who is at the other end. Nothing if that holds as many as it may.
    fn give<I: Interface + ?Sized>(
        services: &Services,
        connection: &Connection,
        object: Arc<I>,
    ) -> Option<Self> {
        let contract = I::contract();
        let held = Held { target: Arc::new(Passed(object)), lists: Lists::alike(contract) };
        let id = services.give(connection, held)?;
        Some(Self { id, signature: contract.signature })
    }

    /// Of a reference to an interface that is called so. What its methods are is agreed on by whoever calls it.
    pub const fn fingerprint(name: &str) -> Fingerprint {
        Fingerprint::of_reference("service", Fingerprint::of_name(name, &[]))
    }

    /// Reads a reference that was passed or given. The object is called by the connection that it came by.
    ///
    /// # Errors
    /// There is none.
    pub fn take<I: Interface + ?Sized>(arguments: &mut Reader<'_>) -> Result<Remote<I>, Malformed> {
        let id = arguments.value::<u64>()?;
        let signature = Fingerprint::from_bytes(arguments.value()?);
        let what = "a reference where none is taken";
        let other_end = arguments.other_end().ok_or(Malformed::Disagreed { what })?;
        let giver = other_end.services.received(other_end.connection, id)?;
        let contract = I::contract();
        let remote = Remote::new(other_end, id, contract, giver);
        Ok(if signature == contract.signature {
            remote.agreed(Agreed::alike(contract))
        } else {
            remote
        })
    }
}
