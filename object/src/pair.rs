//! A key and its value, side by side.

use weft_object_derive::Wire;

/// A record that belongs to a key. What reduces by key moves these.
///
/// A pair with a hole between or behind its parts does not compile where it is used:
/// ```compile_fail,E0080
/// use weft_object::{Pair, Types};
/// let types = Types::new().with::<Pair<u32, f64>>();
/// ```
#[derive(Wire, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Pair<K, V> {
    /// What it belongs to.
    pub key: K,
    /// What is said of it.
    pub value: V,
}
