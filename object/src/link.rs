//! References between objects of a graph.

#![expect(unsafe_code, reason = "implements the trait that states what a type's bytes are")]

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;

use crate::compact::Mover;
use crate::error::Fault;
use crate::fingerprint::Fingerprint;
use crate::pages::{Bounds, Targets};
use crate::types::Types;
use crate::wire::Wire;

/// A reference to an object of the same graph, as a field: four bytes, the number of a page and where in it. An `Option` of
/// it is no longer.
///
/// A link has a meaning in its graph only. It is made from a handle ([`Ref::link`](crate::Ref::link)) and followed by
/// [`View::get`](crate::View::get), which looks again whether an object of the type is there: following it in another graph
/// finds another object of that type, or panics.
#[repr(transparent)]
pub struct Link<T>(NonZeroU32, PhantomData<fn() -> T>);

impl<T> Link<T> {
    pub(crate) fn new(raw: NonZeroU32) -> Self {
        Self(raw, PhantomData)
    }

    #[inline]
    pub(crate) fn raw(self) -> u32 {
        self.0.get()
    }

    /// As a link to an object of any type.
    pub fn any(self) -> AnyLink {
        AnyLink(self.0)
    }
}

impl<T> Clone for Link<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Link<T> {}

impl<T> PartialEq for Link<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Link<T> {}

impl<T> std::hash::Hash for Link<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<T> fmt::Debug for Link<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({:#x})", self.0)
    }
}

/// A reference to an object of the same graph, of any type that both sides have agreed on. What it is, is asked of the
/// [`View`](crate::View::downcast), or of a [`Registry`](crate::Registry).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct AnyLink(NonZeroU32);

impl AnyLink {
    #[inline]
    pub(crate) fn raw(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Debug for AnyLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyLink({:#x})", self.0)
    }
}

#[inline]
fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(*bytes.first_chunk().expect("a link has four bytes"))
}

// SAFETY: four initialized bytes, not all zero, which the check sees to: no page has the number zero.
unsafe impl<T: Wire> Wire for Link<T> {
    const NAME: &'static str = "Link";
    const IDENTITY: Fingerprint = Fingerprint::of_name("Link", &[T::IDENTITY]);
    const FINGERPRINT: Fingerprint = Fingerprint::of_reference("link", T::IDENTITY);
    const ALWAYS_VALID: bool = false;
    const IS_PLAIN_AT_TIMES: bool = true;
    const HAS_LINKS: bool = true;

    /// Links to what was made together lead into one page, mostly: they are compared with its bounds, without a look into the table.
    type Hint = Bounds;

    #[inline]
    fn check(bytes: &[u8], targets: &Targets<'_>, hint: &mut Bounds) -> Result<(), Fault> {
        let raw = word(bytes);
        if !hint.have::<T>(raw) {
            *hint = targets.bounds::<T>(raw)?;
        }
        Ok(())
    }

    #[inline]
    fn doubts(bytes: &[u8], hint: Bounds) -> u64 {
        u64::from(!hint.have::<T>(word(bytes)))
    }

    fn collect(types: Types) -> Types {
        types.with::<T>()
    }

    fn move_links(bytes: &mut [u8], mover: &mut Mover<'_>) {
        let moved = mover.run(word(bytes), 1);
        bytes[..4].copy_from_slice(&moved.to_le_bytes());
    }
}

// SAFETY: four initialized bytes; zero is `None`, since a `Link` is a `NonZeroU32` by representation, and all others are checked as a link is.
unsafe impl<T: Wire> Wire for Option<Link<T>> {
    const NAME: &'static str = "Option<Link>";
    const IDENTITY: Fingerprint = Fingerprint::of_name("Option<Link>", &[T::IDENTITY]);
    const FINGERPRINT: Fingerprint = Fingerprint::of_reference("optional link", T::IDENTITY);
    const ALWAYS_VALID: bool = false;
    const IS_PLAIN_AT_TIMES: bool = true;
    const ZERO_IS_VALID: bool = true;
    const HAS_LINKS: bool = true;
    type Hint = Bounds;

    #[inline]
    fn check(bytes: &[u8], targets: &Targets<'_>, hint: &mut Bounds) -> Result<(), Fault> {
        if word(bytes) == 0 { Ok(()) } else { Link::<T>::check(bytes, targets, hint) }
    }

    #[inline]
    fn doubts(bytes: &[u8], hint: Bounds) -> u64 {
        u64::from(word(bytes) != 0) & Link::<T>::doubts(bytes, hint)
    }

    fn collect(types: Types) -> Types {
        types.with::<T>()
    }

    fn move_links(bytes: &mut [u8], mover: &mut Mover<'_>) {
        if word(bytes) != 0 {
            Link::<T>::move_links(bytes, mover);
        }
    }
}

// SAFETY: as for `Link`.
unsafe impl Wire for AnyLink {
    const NAME: &'static str = "AnyLink";
    const FINGERPRINT: Fingerprint = Fingerprint::of_name("any link", &[]);
    const ALWAYS_VALID: bool = false;
    const HAS_LINKS: bool = true;
    type Hint = ();

    #[inline]
    fn check(bytes: &[u8], targets: &Targets<'_>, (): &mut ()) -> Result<(), Fault> {
        targets.check_any(word(bytes))
    }

    fn move_links(bytes: &mut [u8], mover: &mut Mover<'_>) {
        let moved = mover.run(word(bytes), 1);
        bytes[..4].copy_from_slice(&moved.to_le_bytes());
    }
}

// SAFETY: as for `Option<Link>`.
unsafe impl Wire for Option<AnyLink> {
    const NAME: &'static str = "Option<AnyLink>";
    const FINGERPRINT: Fingerprint = Fingerprint::of_name("optional any link", &[]);
    const ALWAYS_VALID: bool = false;
    const ZERO_IS_VALID: bool = true;
    const HAS_LINKS: bool = true;
    type Hint = ();

    #[inline]
    fn check(bytes: &[u8], targets: &Targets<'_>, (): &mut ()) -> Result<(), Fault> {
        if word(bytes) == 0 { Ok(()) } else { AnyLink::check(bytes, targets, &mut ()) }
    }

    fn move_links(bytes: &mut [u8], mover: &mut Mover<'_>) {
        if word(bytes) != 0 {
            AnyLink::move_links(bytes, mover);
        }
    }
}

const _: () = assert!(size_of::<Option<Link<u8>>>() == 4 && size_of::<Option<AnyLink>>() == 4);
