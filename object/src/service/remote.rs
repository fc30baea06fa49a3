//! A reference to an object elsewhere, and calls by it.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use weft_transport::{Applied, Connection, Reply};

use super::error::{Malformed, ServiceError};
use super::frame::{self, Outgoing, REPLY_BYTES, Request, Status};
use super::import;
use super::interface::{Contract, Interface};
use super::item::{Item, OtherEnd, Reader};
use super::passing::Passing;
use super::received::Giver;
use super::returned::{Replied, Returned};
use super::services::Services;
use super::thread;
use super::told::Lists;

/// A reference to an object of interface `I` elsewhere: what a proxy calls by. Clones are the same reference.
///
/// It is good for as long as its connection: when that ends, the object's side releases it, and whoever wants to go on imports the service again.
pub struct Remote<I: ?Sized> {
    core: Arc<Core>,
    timeout: Duration,
    interface: PhantomData<fn(&I)>,
}

/// What clones have in common.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) services: Services,
    pub(super) connection: Connection,
    giver: Arc<Giver>,
    id: u64,
    pub(super) contract: &'static Contract,
    /// Nothing of a reference that was passed by a peer with another version, until the first call.
    agreed: OnceLock<Agreed>,
}

/// What the two sides have agreed on.
#[derive(Debug)]
pub(super) struct Agreed {
    /// The other side's numbers of the methods that are known here; nothing if they are the same.
    pub(super) numbers: Option<Box<[u16]>>,
    /// By which the other side's graphs are read.
    pub(super) lists: Lists,
}

impl Agreed {
    /// Between two sides with one signature.
    pub(super) fn alike(contract: &'static Contract) -> Self {
        Self { numbers: None, lists: Lists::alike(contract) }
    }

    #[inline]
    fn number(&self, method: u16) -> u16 {
        self.numbers.as_ref().map_or(method, |numbers| numbers[usize::from(method)])
    }
}

impl<I: Interface + ?Sized> Remote<I> {
    /// Of what the other side has given, which is released when this is dropped. Nothing has been agreed on yet.
    pub(super) fn new(
        OtherEnd { services, connection }: OtherEnd<'_>,
        id: u64,
        contract: &'static Contract,
        giver: Arc<Giver>,
    ) -> Self {
        let (services, connection) = (services.clone(), connection.clone());
        let timeout = services.config().timeout;
        let agreed = OnceLock::new();
        let core = Core { services, connection, giver, id, contract, agreed };
        Self { core: Arc::new(core), timeout, interface: PhantomData }
    }

    /// The same, of which this has been agreed on.
    pub(super) fn agreed(self, agreed: Agreed) -> Self {
        self.core.agreed.get_or_init(|| agreed);
        self
    }

    /// The same reference, by which calls have this long.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// The connection to where the object is.
    pub fn connection(&self) -> &Connection {
        &self.core.connection
    }

    /// What a call takes along.
    #[inline]
    pub fn passing(&self) -> Passing<'_> {
        Passing::new(&self.core)
    }

    /// Runs `future` on this thread until it is done, which drives the connection meanwhile.
    ///
    /// # Panics
    /// On a simulated endpoint, and in a method that is not marked `#[blocking]`, which would wait for ever.
    #[inline]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        thread::block_on(&self.core.connection, future)
    }

    /// Calls the method that has this number in the interface as it is known here.
    ///
    /// # Errors
    /// See [`ServiceError`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up the call, which may still have its effect if it was sent. A service that was passed with it stays exported to the
    /// peer then until the peer releases it, or the connection ends; otherwise it is taken back.
    pub async fn call<R: Returned>(
        &self,
        method: u16,
        items: impl Item,
        mut passing: Passing<'_>,
    ) -> Result<R::Received, ServiceError> {
        let Core { connection, id, .. } = &*self.core;
        let deadline = connection.clock().now() + self.timeout;
        let agreed = match self.core.agreed.get() {
            Some(agreed) => agreed,
            None => self.core.agree(deadline).await?,
        };
        let request = Request { object: *id, method: agreed.number(method) };
        let outgoing = Outgoing { request, items, written: passing.written() };
        match connection.call(outgoing, deadline).await {
            Ok(reply) => read::<R>(&reply, &self.core, agreed, &mut passing),
            Err(error) => {
                match error.applied() {
                    Applied::No => passing.withdraw(),
                    Applied::Maybe => {}
                }
                Err(error.into())
            }
        }
    }
}

/// The result that a reply is.
#[inline]
fn read<R: Returned>(
    reply: &Reply,
    core: &Core,
    agreed: &Agreed,
    passing: &mut Passing<'_>,
) -> Result<R::Received, ServiceError> {
    let what = "a reply begins with none of the words that one may";
    match Status::read(reply) {
        Some(Status::Done) => {
            passing.arrived();
            let Core { services, connection, .. } = core;
            let other_end = R::HAS_SERVICES.then_some(OtherEnd { services, connection });
            let items = Reader::new(reply, REPLY_BYTES, &agreed.lists.types, other_end);
            let mut replied = Replied::new(reply, items);
            let received = R::receive(&mut replied).map_err(ServiceError::Reply)?;
            replied.items.finish().map_err(ServiceError::Reply)?;
            Ok(received)
        }
        Some(status) => {
            let refusal = frame::read_refusal(status, reply);
            let refusal = refusal.ok_or(ServiceError::Reply(Malformed::Disagreed { what }))?;
            match refusal.applied() {
                Applied::No => passing.withdraw(),
                Applied::Maybe => passing.arrived(),
            }
            Err(ServiceError::Refused(refusal))
        }
        None => Err(ServiceError::Reply(Malformed::Disagreed { what })),
    }
}

impl Core {
    /// Agrees with a side that has another version of the interface.
    #[cold]
    async fn agree(&self, deadline: weft_transport::Time) -> Result<&Agreed, ServiceError> {
        let Self { connection, id, contract, .. } = self;
        let asked = import::Asked::Reference(*id);
        let agreed = async {
            let reply = import::ask(connection, &asked, contract, deadline).await?;
            import::agreed(&reply, contract, connection.memory())
        };
        let agreed = agreed.await.map_err(|error| ServiceError::Import(Box::new(error)))?;
        Ok(self.agreed.get_or_init(|| agreed))
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.giver.release(&self.connection, self.id);
    }
}

impl<I: ?Sized> Clone for Remote<I> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), timeout: self.timeout, interface: PhantomData }
    }
}

impl<I: ?Sized> fmt::Debug for Remote<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("interface", &self.core.contract.description.name)
            .field("id", &self.core.id)
            .finish_non_exhaustive()
    }
}
