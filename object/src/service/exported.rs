//! What references lead to.

use std::fmt;
use std::mem;
use std::sync::Arc;

use parking_lot::RwLock;

use super::answer::Answer;
use super::interface::{Contract, Interface};
use super::item::Reader;
use super::services::Services;
use super::thread;

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
pub(super) struct Exchangeable<I: Interface + ?Sized> {
    current: RwLock<Arc<Implementation<I>>>,
}

/// One implementation. Whoever handles a call by it may be the last to have it.
struct Implementation<I: Interface + ?Sized>(Arc<I>);

impl<I: Interface + ?Sized> Drop for Implementation<I> {
    /// The destructor may wait.
    fn drop(&mut self) {
        if thread::is_receiving() {
            thread::put_aside(Box::new(Arc::clone(&self.0)));
        }
    }
}

impl<I: Interface + ?Sized> Target for Exchangeable<I> {
    fn contract(&self) -> &'static Contract {
        I::contract()
    }

    fn dispatch(&self, number: u16, arguments: Reader<'_>, answer: Answer<'_, '_>) {
        // Not under the lock: the implementation may be what exchanges it.
        let current = Arc::clone(&self.current.read());
        current.0.dispatch(number, arguments, answer);
    }
}

/// A service that is exported under a name, for who exports it. Dropping this withdraws nothing.
pub struct Exported<I: Interface + ?Sized> {
    object: Arc<Exchangeable<I>>,
    name: String,
    services: Services,
}

impl<I: Interface + ?Sized> Exported<I> {
    pub(super) fn new(services: &Services, name: &str, implementation: Arc<I>) -> Self {
        let current = RwLock::new(Arc::new(Implementation(implementation)));
        let object = Arc::new(Exchangeable { current });
        Self { object, name: name.to_owned(), services: services.clone() }
    }

    pub(super) fn target(&self) -> Arc<dyn Target> {
        Arc::clone(&self.object) as Arc<dyn Target>
    }

    /// Exchanges the implementation and returns the one before. Who has imported the service goes on with the new one, and notices nothing: calls
    /// that are being handled end where they have begun.
    pub fn replace(&self, implementation: Arc<I>) -> Arc<I> {
        let new = Arc::new(Implementation(implementation));
        let before = mem::replace(&mut *self.object.current.write(), new);
        Arc::clone(&before.0)
    }

    /// Nobody can import it under its name any more. Who has imported it goes on.
    pub fn withdraw(self) {
        self.services.withdraw(&self.name, &self.target());
    }
}

impl<I: Interface + ?Sized> fmt::Debug for Exported<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exported").field("name", &self.name).finish_non_exhaustive()
    }
}
