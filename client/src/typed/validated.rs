//! Bytes that were checked to be an archived value, and the value in them.
//!
//! A check costs as much as a walk over the whole value, so it is done once, and what it found is kept as the fact that
//! [`Validated`] exists. Safe code cannot keep the reference that the check returns beside the bytes that it borrows.

#![expect(unsafe_code, reason = "reads what was checked before without checking it again")]

use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::sync::Arc;

use rkyv::Portable;
use rkyv::api::access_with_context;
use rkyv::rancor;
use rkyv::util::AlignedVec;
use rkyv::validation::Validator;
use rkyv::validation::archive::ArchiveValidator;
use rkyv::validation::shared::SharedValidator;

use super::CheckedArchive;
use crate::object::Object;

/// How deep pointers may follow pointers in a value. Checking recurses, so without a bound a list of millions of links, which
/// anyone can write, would end the stack and the process.
const DEPTH_MAX: NonZeroUsize = NonZeroUsize::new(512).expect("it is not zero");

/// What an archive is aligned to when it is written.
const ALIGNMENT: usize = 16;

/// An `A` in bytes that are shared, never change and never move.
pub(super) struct Validated<A> {
    /// Checked to hold an `A` from `start` on. What derives from this field is never handed out mutably.
    bytes: Bytes,
    start: usize,
    /// As if it shared an `A`: it may cross threads if that may.
    value: PhantomData<Arc<A>>,
}

/// Either keeps its address when it is moved, and so do its clones.
#[derive(Clone)]
enum Bytes {
    Received(Object),
    Copied(Arc<AlignedVec>),
}

impl<A: CheckedArchive> Validated<A> {
    /// Checks the bytes of `object` from `start` on, where they lie if they can be used there.
    pub(super) fn new(object: Object, start: usize) -> Result<Self, rancor::BoxedError> {
        let address = object[start..].as_ptr().addr();
        if object.has_stable_address() && address.is_multiple_of(align_of::<A>()) {
            match check::<A>(&object[start..]) {
                Ok(()) => return Ok(Self::kept(Bytes::Received(object), start)),
                // What the root points to may have to be aligned to more than the root.
                Err(error) if address.is_multiple_of(ALIGNMENT) => return Err(error),
                Err(_) => {}
            }
        }
        let mut copy = AlignedVec::<ALIGNMENT>::with_capacity(object.len() - start);
        copy.extend_from_slice(&object[start..]);
        check::<A>(&copy)?;
        Ok(Self::kept(Bytes::Copied(Arc::new(copy)), 0))
    }

    /// Of bytes that were checked from `start` on.
    fn kept(bytes: Bytes, start: usize) -> Self {
        Self { bytes, start, value: PhantomData }
    }
}

impl<A> Validated<A> {
    /// Whether the bytes are not those that were received.
    pub(super) fn is_copy(&self) -> bool {
        matches!(self.bytes, Bytes::Copied(_))
    }
}

impl<A: Portable> Validated<A> {
    /// The value.
    #[inline]
    pub(super) fn get(&self) -> &A {
        let bytes = match &self.bytes {
            Bytes::Received(object) => &object[self.start..],
            Bytes::Copied(copy) => copy.as_slice(),
        };
        // SAFETY: `new`, the one function that makes a `Validated` of an object, had `check` find an `A` at the root of exactly
        // these bytes, at this address: an object whose address is stable, and a vector behind an `Arc`, keep theirs through
        // moves and clones. Nobody has written to them since: the object's are lent by shared reference only, the vector is
        // never borrowed mutably, and a `Portable` type has no interior mutability. The reference lives no longer than `self`,
        // which holds the bytes.
        unsafe { rkyv::access_unchecked::<A>(bytes) }
    }
}

impl<A> Clone for Validated<A> {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), start: self.start, value: PhantomData }
    }
}

/// Whether `bytes` end with the root of a valid `A`, whose every pointer stays within them.
fn check<A: CheckedArchive>(bytes: &[u8]) -> Result<(), rancor::BoxedError> {
    let archive = ArchiveValidator::with_max_depth(bytes, Some(DEPTH_MAX));
    let mut validator = Validator::new(archive, SharedValidator::new());
    access_with_context::<A, _, rancor::BoxedError>(bytes, &mut validator).map(drop)
}
