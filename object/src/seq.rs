//! Sequences, as fields.

#![expect(unsafe_code, reason = "implements the trait that states what a type's bytes are")]

use std::fmt;
use std::marker::PhantomData;

use crate::compact::Mover;
use crate::error::Fault;
use crate::fingerprint::Fingerprint;
use crate::pages::Targets;
use crate::types::Types;
use crate::wire::Wire;

/// Elements one behind the other elsewhere in the graph, as a field of eight bytes: where the first is, and how many there are. Read
/// as a slice by [`View::seq`](crate::View::seq).
#[repr(C)]
pub struct Seq<T> {
    /// Zero if there are none.
    first: u32,
    len: u32,
    elements: PhantomData<fn() -> T>,
}

/// A sequence of bytes.
pub type Bytes = Seq<u8>;

impl<T> Seq<T> {
    /// No elements.
    pub const EMPTY: Self = Self { first: 0, len: 0, elements: PhantomData };

    pub(crate) fn new(first: u32, len: u32) -> Self {
        Self { first, len, elements: PhantomData }
    }

    #[inline]
    pub(crate) fn first(self) -> u32 {
        self.first
    }

    /// How many elements there are.
    #[inline]
    pub fn len(self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(crate) fn count(self) -> u32 {
        self.len
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

impl<T> Clone for Seq<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Seq<T> {}

impl<T> Default for Seq<T> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<T> fmt::Debug for Seq<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seq({} at {:#x})", self.len, self.first)
    }
}

/// Two words.
#[inline]
pub(crate) fn words(bytes: &[u8]) -> [u32; 2] {
    let both = u64::from_le_bytes(*bytes.first_chunk().expect("two words are eight bytes"));
    [both as u32, (both >> 32) as u32]
}

pub(crate) fn put_words(bytes: &mut [u8], words: [u32; 2]) {
    bytes[..4].copy_from_slice(&words[0].to_le_bytes());
    bytes[4..8].copy_from_slice(&words[1].to_le_bytes());
}

// SAFETY: eight initialized bytes, any of which are a value; where they lead is checked.
unsafe impl<T: Wire> Wire for Seq<T> {
    const NAME: &'static str = "Seq";
    const IDENTITY: Fingerprint = Fingerprint::of_name("Seq", &[T::IDENTITY]);
    const FINGERPRINT: Fingerprint = Fingerprint::of_reference("sequence", T::IDENTITY);
    const ALWAYS_VALID: bool = false;
    const ZERO_IS_VALID: bool = true;
    const HAS_LINKS: bool = true;
    type Hint = ();

    #[inline]
    fn check(bytes: &[u8], targets: &Targets<'_>, (): &mut ()) -> Result<(), Fault> {
        match words(bytes) {
            [0, 0] => Ok(()),
            [_, 0] => Err(Fault::Value),
            [first, len] => targets.check::<T>(first, len),
        }
    }

    fn collect(types: Types) -> Types {
        types.with::<T>()
    }

    fn move_links(bytes: &mut [u8], mover: &mut Mover<'_>) {
        let [first, len] = words(bytes);
        if len > 0 {
            put_words(bytes, [mover.run(first, len), len]);
        }
    }
}
