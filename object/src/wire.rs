//! What can travel as it lies in memory.

#![expect(unsafe_code, reason = "the trait states what a type's bytes are")]

use crate::fingerprint::Fingerprint;

/// A type whose bytes in memory are its bytes on the wire. Derive it for structs.
///
/// A type with holes does not compile:
/// ```compile_fail,E0080
/// #[derive(weft_object::Wire, Clone, Copy)]
/// #[repr(C)]
/// struct Edge { to: u64, weight: u32 }
/// ```
/// With the hole filled it does:
/// ```
/// #[derive(weft_object::Wire, Clone, Copy)]
/// #[repr(C)]
/// struct Edge { to: u64, weight: u32, flags: u32 }
/// ```
/// Nor do references, widths that differ between machines, another representation, or enums:
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
/// #[repr(C)]
/// enum Color { Red, Green }
/// ```
///
/// # Safety
/// - Every byte of a value is initialized: no padding, no pointers.
/// - Any bytes that [`is_valid`](Self::is_valid) accepts are a valid value; if
///   [`ALWAYS_VALID`](Self::ALWAYS_VALID), any bytes at all are.
/// - The alignment is at most 8.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel as it lies in memory",
    note = "use integers of a fixed width, f32, f64, bool, arrays of them, and structs that derive Wire"
)]
pub unsafe trait Wire: Copy + Send + Sync + 'static {
    /// The type's name, for messages.
    const NAME: &'static str;
    /// Identifies the layout: equal fingerprints mean equal bytes.
    const FINGERPRINT: Fingerprint;
    /// Whether any bytes are a value.
    const ALWAYS_VALID: bool;

    /// Whether `bytes`, as many as the type has, are a value.
    fn is_valid(bytes: &[u8]) -> bool;
}

macro_rules! plain {
    ($($name:ident),*) => {$(
        // SAFETY: an integer or a float: no padding, any bytes are a value, alignment at most 8.
        unsafe impl Wire for $name {
            const NAME: &'static str = stringify!($name);
            const FINGERPRINT: Fingerprint =
                Fingerprint::of_plain(stringify!($name), size_of::<$name>());
            const ALWAYS_VALID: bool = true;

            #[inline]
            fn is_valid(_: &[u8]) -> bool {
                true
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

    #[inline]
    fn is_valid(bytes: &[u8]) -> bool {
        bytes[0] <= 1
    }
}

// SAFETY: elements one after the other without padding, each a value.
unsafe impl<T: Wire, const N: usize> Wire for [T; N] {
    const NAME: &'static str = "array";
    const FINGERPRINT: Fingerprint = Fingerprint::of_array(T::FINGERPRINT, N);
    const ALWAYS_VALID: bool = T::ALWAYS_VALID;

    #[inline]
    fn is_valid(bytes: &[u8]) -> bool {
        T::ALWAYS_VALID || bytes.chunks_exact(size_of::<T>().max(1)).all(T::is_valid)
    }
}

#[cfg(target_endian = "big")]
compile_error!("records travel as they lie in memory, which is little-endian");
