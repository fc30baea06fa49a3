//! What references lead to.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

use super::answer::Answer;
use super::interface::{Contract, Interface};
use super::item::Reader;
use super::services::Services;

/// An object that handles calls, whatever its interface.
pub(super) trait Target: Send + Sync {
    /// Its interface.
    fn contract(&self) -> &'static Contract;

    /// Handles a call of the method with this number.
    fn dispatch(&self, number: u16, arguments: Reader<'_>, answer: Answer<'_, '_>);
}

/// An object that was passed: it is what it is.
pub(super) struct Passed<I: ?Sized>(pub(super) Arc<I>);

impl<I: Interface + ?Sized> Target for Passed<I> {
    fn contract(&self) -> &'static Contract {
        I::contract()
    }

    fn dispatch(&self, number: u16, arguments: Reader<'_>, answer: Answer<'_, '_>) {
        self.0.dispatch(number, arguments, answer);
    }
}

/// An object whose implementation can be exchanged.
pub(super) struct Exchangeable<I: ?Sized> {
    current: RwLock<Arc<I>>,
}

impl<I: Interface + ?Sized> Target for Exchangeable<I> {
    fn contract(&self) -> &'static Contract {
        I::contract()
    }

    fn dispatch(&self, number: u16, arguments: Reader<'_>, answer: Answer<'_, '_>) {
        // Not under the lock: the implementation may be what exchanges it.
        let current = Arc::clone(&self.current.read());
        current.dispatch(number, arguments, answer);
    }
}

/// A service that is exported under a name, for who exports it. Dropping this withdraws nothing.
pub struct Exported<I: ?Sized> {
    object: Arc<Exchangeable<I>>,
    name: String,
    services: Services,
}

impl<I: Interface + ?Sized> Exported<I> {
    pub(super) fn new(services: &Services, name: &str, implementation: Arc<I>) -> Self {
        let object = Arc::new(Exchangeable { current: RwLock::new(implementation) });
        Self { object, name: name.to_owned(), services: services.clone() }
    }

    pub(super) fn target(&self) -> Arc<dyn Target> {
        Arc::clone(&self.object) as Arc<dyn Target>
    }

    /// Exchanges the implementation and returns the one before. Who has imported the service goes on with the new one, and notices nothing: calls
    /// that are being handled end where they have begun.
    pub fn replace(&self, implementation: Arc<I>) -> Arc<I> {
        std::mem::replace(&mut *self.object.current.write(), implementation)
    }

    /// Nobody can import it under its name any more. Who has imported it goes on.
    pub fn withdraw(self) {
        self.services.withdraw(&self.name, &self.target());
    }
}

impl<I: ?Sized> fmt::Debug for Exported<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exported").field("name", &self.name).finish_non_exhaustive()
    }
}
