//! What can travel as it lies in memory.

#![expect(unsafe_code, reason = "the trait states what a type's bytes are")]

use crate::compact::Mover;
use crate::error::Fault;
use crate::fingerprint::Fingerprint;
use crate::pages::Targets;
use crate::types::Types;

/// Values that are looked at before it is asked what was found.
const TOGETHER: usize = 16;

/// A type whose bytes in memory are its bytes on the wire. Derive it for structs and enums.
///
/// A type with holes does not compile:
/// ```compile_fail,E0080
/// #[derive(weft_object::Wire, Clone, Copy)]
/// #[repr(C)]
/// struct Edge { to: u64, weight: u32 }
/// let types = weft_object::Types::new().with::<Edge>();
/// ```
/// With the hole filled it does:
/// ```
/// #[derive(weft_object::Wire, Clone, Copy)]
/// #[repr(C)]
/// struct Edge { to: u64, weight: u32, flags: u32 }
/// let types = weft_object::Types::new().with::<Edge>();
/// ```
/// Nor do references, widths that differ between machines, or another representation:
/// ```compile_fail,E0277
/// #[derive(weft_object::Wire, Clone, Copy)]
/// #[repr(C)]
/// struct Name { text: &'static str }
/// ```
/// ```compile_fail,E0277
/// #[derive(weft_object::Wire, Clone, Copy)]
/// #[repr(C)]
/// struct Count { count: usize }
/// ```
/// ```compile_fail
/// #[derive(weft_object::Wire, Clone, Copy)]
/// struct Point { x: f64, y: f64 }
/// ```
/// ```compile_fail
/// #[derive(weft_object::Wire, Clone, Copy)]
/// enum Color { Red, Green }
/// ```
///
/// Fields that are to stay home, a cache say or a handle that means nothing elsewhere, are marked: `#[wire(transient)]`. They are used as any other while a graph is
/// being built, are zeroed when it is complete, and whoever receives it finds zero there, or refuses it. So zero has to be a value of theirs:
/// ```compile_fail,E0080
/// #[derive(weft_object::Wire, Clone, Copy)]
/// #[repr(C)]
/// struct Cached { key: u64, #[wire(transient)] found: weft_object::Text }
/// let types = weft_object::Types::new().with::<Cached>();
/// ```
///
/// # Safety
/// - Every byte of a value is initialized: no padding, no pointers.
/// - Any bytes for which [`check`](Self::check) finds no fault are a valid value; if
///   [`ALWAYS_VALID`](Self::ALWAYS_VALID), any bytes at all are. So are those for which [`doubts`](Self::doubts) is zero, with the hint that the default
///   is or that `check` has left behind values of the type, with the same targets; and [`check_all`](Self::check_all) finds what `check` of each would.
/// - If [`ZERO_IS_VALID`](Self::ZERO_IS_VALID), zeros are a valid value.
/// - What [`clear_transient`](Self::clear_transient) makes of a valid value is one.
/// - The alignment is at most 8.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel as it lies in memory",
    note = "use integers of a fixed width, f32, f64, bool, Link, Text, Seq, Map, arrays of them, and structs and enums \
            that derive Wire; in place of a reference or a Box a Link, of a String a Text, of a Vec a Seq, and of a usize \
            an integer of a fixed width"
)]
pub unsafe trait Wire: Copy + Send + Sync + 'static {
    /// The type's name, for messages, and for fingerprints of what leads to it.
    const NAME: &'static str;
    /// Identifies the type by its name and those of its parameters, whatever its layout.
    const IDENTITY: Fingerprint = Fingerprint::of_name(Self::NAME, &[]);
    /// Identifies the layout: equal fingerprints mean equal bytes.
    const FINGERPRINT: Fingerprint;
    /// Whether any bytes are a value, wherever they are.
    const ALWAYS_VALID: bool;
    /// Whether [`doubts`](Self::doubts) is ever zero.
    const IS_PLAIN_AT_TIMES: bool = Self::ALWAYS_VALID;
    /// Whether zeros are a value, so that it may be in a field that stays home.
    const ZERO_IS_VALID: bool = Self::ALWAYS_VALID;
    /// Whether there are fields that stay home.
    const HAS_TRANSIENT: bool = false;
    /// Whether a value may lead to other objects.
    const HAS_LINKS: bool = false;
    /// Fingerprints of older or other layouts whose bytes may be read as this type. The derive takes them from
    /// `#[wire(reads = "...")]`. What does not fit is found when the bytes are checked, as ever: this only says that the meaning is the same.
    const READS: &'static [Fingerprint] = &[];

    /// What is kept of the values before to check the next one: where their links led, mostly.
    type Hint: Copy + Default;

    /// Looks whether `bytes`, as many as the type has, are a value, and lead where they may.
    ///
    /// # Errors
    /// The first fault.
    fn check(bytes: &[u8], targets: &Targets<'_>, hint: &mut Self::Hint) -> Result<(), Fault>;

    /// Zero if `bytes` are a value, as far as this is seen by the hint alone, without a branch. Others have to be [checked](Self::check) to know.
    #[inline]
    fn doubts(bytes: &[u8], hint: Self::Hint) -> u64 {
        let _ = (bytes, hint);
        u64::from(!Self::ALWAYS_VALID)
    }

    /// Checks values one behind the other.
    ///
    /// # Errors
    /// The first fault and the place of the value that has it.
    fn check_all(bytes: &[u8], targets: &Targets<'_>) -> Result<(), (usize, Fault)> {
        let mut hint = Self::Hint::default();
        if Self::IS_PLAIN_AT_TIMES {
            check_together::<Self>(bytes, targets, &mut hint)
        } else {
            check_each::<Self>(bytes, targets, &mut hint)
        }
    }

    /// Adds the types that a value may lead to.
    fn collect(types: Types) -> Types {
        types
    }

    /// Zeroes what stays home of the value in `bytes`.
    fn clear_transient(bytes: &mut [u8]) {
        let _ = bytes;
    }

    /// Has the value in `bytes` lead to where what it leads to is moved.
    fn move_links(bytes: &mut [u8], mover: &mut Mover<'_>) {
        let _ = (bytes, mover);
    }
}

/// With one branch for many values if all of them are plainly valid, which is foreseen.
fn check_together<T: Wire>(
    bytes: &[u8],
    targets: &Targets<'_>,
    hint: &mut T::Hint,
) -> Result<(), (usize, Fault)> {
    let mut blocks = bytes.chunks_exact(TOGETHER * size_of::<T>());
    let mut first = 0;
    for block in blocks.by_ref() {
        let (known, values) = (*hint, block.chunks_exact(size_of::<T>()));
        if values.fold(0, |all, bytes| all | T::doubts(bytes, known)) != 0 {
            let checked = check_each::<T>(block, targets, hint);
            checked.map_err(|(record, fault)| (first + record, fault))?;
        }
        first += TOGETHER;
    }
    let checked = check_each::<T>(blocks.remainder(), targets, hint);
    checked.map_err(|(record, fault)| (first + record, fault))
}

fn check_each<T: Wire>(
    bytes: &[u8],
    targets: &Targets<'_>,
    hint: &mut T::Hint,
) -> Result<(), (usize, Fault)> {
    for (record, bytes) in bytes.chunks_exact(size_of::<T>()).enumerate() {
        T::check(bytes, targets, hint).map_err(|fault| (record, fault))?;
    }
    Ok(())
}

macro_rules! plain {
    ($($name:ident),*) => {$(
        // SAFETY: an integer or a float: no padding, any bytes are a value, alignment at most 8.
        unsafe impl Wire for $name {
            const NAME: &'static str = stringify!($name);
            const FINGERPRINT: Fingerprint =
                Fingerprint::of_plain(stringify!($name), size_of::<$name>());
            const ALWAYS_VALID: bool = true;
            type Hint = ();

            #[inline]
            fn check(_: &[u8], _: &Targets<'_>, (): &mut ()) -> Result<(), Fault> {
                Ok(())
            }
        }
    )*};
}

plain!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

// SAFETY: one initialized byte, which is checked to be 0 or 1.
unsafe impl Wire for bool {
    const NAME: &'static str = "bool";
    const FINGERPRINT: Fingerprint = Fingerprint::of_plain("bool", 1);
    const ALWAYS_VALID: bool = false;
    const IS_PLAIN_AT_TIMES: bool = true;
    const ZERO_IS_VALID: bool = true;
    type Hint = ();

    #[inline]
    fn check(bytes: &[u8], _: &Targets<'_>, (): &mut ()) -> Result<(), Fault> {
        if Self::doubts(bytes, ()) == 0 { Ok(()) } else { Err(Fault::Value) }
    }

    #[inline]
    fn doubts(bytes: &[u8], (): ()) -> u64 {
        u64::from(bytes[0] & !1)
    }
}

// SAFETY: elements one after the other without padding, each a value.
unsafe impl<T: Wire, const N: usize> Wire for [T; N] {
    const NAME: &'static str = "array";
    const IDENTITY: Fingerprint =
        Fingerprint::of_name("array", &[T::IDENTITY, Fingerprint::of_number(N as u64)]);
    const FINGERPRINT: Fingerprint = Fingerprint::of_array(T::FINGERPRINT, N);
    const ALWAYS_VALID: bool = T::ALWAYS_VALID;
    const IS_PLAIN_AT_TIMES: bool = T::IS_PLAIN_AT_TIMES || N == 0;
    const ZERO_IS_VALID: bool = T::ZERO_IS_VALID;
    const HAS_TRANSIENT: bool = T::HAS_TRANSIENT;
    const HAS_LINKS: bool = T::HAS_LINKS;

    type Hint = T::Hint;

    #[inline]
    fn check(bytes: &[u8], targets: &Targets<'_>, hint: &mut T::Hint) -> Result<(), Fault> {
        // Elements of no bytes have nothing to be checked.
        if T::ALWAYS_VALID || size_of::<T>() == 0 {
            return Ok(());
        }
        check_together::<T>(bytes, targets, hint).map_err(|(_, fault)| fault)
    }

    #[inline]
    fn doubts(bytes: &[u8], hint: T::Hint) -> u64 {
        if T::ALWAYS_VALID || size_of::<T>() == 0 {
            return 0;
        }
        bytes.chunks_exact(size_of::<T>()).fold(0, |all, bytes| all | T::doubts(bytes, hint))
    }

    fn collect(types: Types) -> Types {
        T::collect(types)
    }

    fn clear_transient(bytes: &mut [u8]) {
        if size_of::<T>() > 0 {
            bytes.chunks_exact_mut(size_of::<T>()).for_each(T::clear_transient);
        }
    }

    fn move_links(bytes: &mut [u8], mover: &mut Mover<'_>) {
        if size_of::<T>() > 0 {
            bytes.chunks_exact_mut(size_of::<T>()).for_each(|bytes| T::move_links(bytes, mover));
        }
    }
}

#[cfg(target_endian = "big")]
compile_error!("records travel as they lie in memory, which is little-endian");
