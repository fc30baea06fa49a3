//! A key and its value, side by side.

#![expect(unsafe_code, reason = "implements the trait that states what a type's bytes are")]

use crate::fingerprint::Fingerprint;
use crate::wire::Wire;

/// A record that belongs to a key. What reduces by key moves these.
///
/// A pair with a hole between or behind its parts does not compile where it is used:
/// ```compile_fail,E0080
/// use weft_object::{Pair, Types};
/// let types = Types::new().with::<Pair<u32, f64>>();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Pair<K, V> {
    /// What it belongs to.
    pub key: K,
    /// What is said of it.
    pub value: V,
}

// SAFETY: `#[repr(C)]`, both parts are `Wire`, and there is no padding, which is asserted where the
// fingerprint is computed, ahead of any use of the type in a segment.
unsafe impl<K: Wire, V: Wire> Wire for Pair<K, V> {
    const NAME: &'static str = "Pair";
    const FINGERPRINT: Fingerprint = {
        assert!(
            size_of::<Self>() == size_of::<K>() + size_of::<V>(),
            "the pair has padding: use wider parts"
        );
        Fingerprint::of_struct(
            "Pair",
            &[
                ("key", std::mem::offset_of!(Self, key), K::FINGERPRINT),
                ("value", std::mem::offset_of!(Self, value), V::FINGERPRINT),
            ],
        )
    };
    const ALWAYS_VALID: bool = K::ALWAYS_VALID && V::ALWAYS_VALID;

    #[inline]
    fn is_valid(bytes: &[u8]) -> bool {
        let part = |offset: usize, size: usize| &bytes[offset..offset + size];
        K::is_valid(part(std::mem::offset_of!(Self, key), size_of::<K>()))
            && V::is_valid(part(std::mem::offset_of!(Self, value), size_of::<V>()))
    }
}
