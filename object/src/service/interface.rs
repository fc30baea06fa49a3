//! What `#[service]` writes down of a trait.

use crate::fingerprint::Fingerprint;
use crate::types::{TOLD_MAX, Types};

use super::answer::Answer;
use super::client::Client;
use super::item::Reader;

/// Methods that an interface may have: who imports one names each, and each is looked for among as many.
pub(super) const METHODS_MAX: usize = 256;

/// A method, as two sides compare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// What it is called.
    pub name: &'static str,
    /// Of its name and all types that it takes and gives.
    pub fingerprint: Fingerprint,
    /// It may block, so it is handled on a thread of the registry's own.
    pub is_blocking: bool,
    /// It takes or gives references to services.
    pub has_services: bool,
}

/// An interface, as two sides compare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// What it is called.
    pub name: &'static str,
    /// Its methods, by number.
    pub methods: &'static [Method],
    /// Of its name and its methods.
    pub fingerprint: Fingerprint,
}

impl Description {
    /// Of these methods, in order.
    ///
    /// # Panics
    /// There are more than 256, when compiling.
    pub const fn new<const N: usize>(name: &'static str, methods: &'static [Method; N]) -> Self {
        assert!(N <= METHODS_MAX, "an interface has at most 256 methods");
        let mut fingerprints = [Fingerprint::of_number(0); N];
        let mut index = 0;
        while index < N {
            fingerprints[index] = methods[index].fingerprint;
            index += 1;
        }
        Self { name, methods, fingerprint: Fingerprint::of_interface(name, &fingerprints) }
    }
}

/// An interface and the types of the graphs that its methods take and give.
#[derive(Debug)]
pub struct Contract {
    /// The interface.
    pub(super) description: &'static Description,
    /// With which graphs are built here.
    pub(super) types: Types,
    /// What is told of them.
    pub(super) told: Vec<u8>,
    /// Two sides with one signature have nothing to agree on.
    pub(super) signature: Fingerprint,
}

impl Contract {
    /// Of an interface whose graphs are of these types.
    ///
    /// # Panics
    /// The list takes more than 64 KiB.
    pub fn new(description: &'static Description, types: Types) -> Self {
        let told = types.to_bytes();
        assert!(told.len() <= TOLD_MAX, "an interface has at most some 1,500 types");
        let signature = description.fingerprint.with_types(&told);
        Self { description, types, told, signature }
    }

    /// The types with which graphs for its methods are built.
    pub fn types(&self) -> &Types {
        &self.types
    }
}

/// A service's interface: `dyn Trait` of a trait with `#[service]`, which writes this.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no interface of a service",
    note = "write `dyn Trait` of a trait with #[weft_object::service]"
)]
pub trait Interface: Send + Sync + 'static {
    /// What it is called. Not only in its description, which names others that may name it.
    const NAME: &'static str;

    /// Its methods.
    const DESCRIPTION: &'static Description;

    /// The proxy of who calls.
    type Client: Client<Interface = Self>;

    /// With the types of its graphs.
    fn contract() -> &'static Contract;

    /// Has the method with this number handle a call.
    fn dispatch(&self, number: u16, arguments: Reader<'_>, answer: Answer<'_, '_>);
}
