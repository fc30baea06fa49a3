//! 128 bits that stand for a layout.

use std::fmt;

/// Identifies a type's layout: names, order, offsets and types of its fields, down to the plain
/// ones. Computed when compiling, so it costs nothing to compare and cannot be forgotten, unlike
/// the layout hashes that users of rkyv write by hand.
///
/// The hash is FNV-1a with 128 bits: it tells honest types apart, and peers that want to lie about
/// their types gain nothing by a collision, since every record is checked against the receiver's own
/// type.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(u128);

/// A field's name, offset in bytes, and type.
pub type Field<'a> = (&'a str, usize, Fingerprint);

const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

impl Fingerprint {
    /// Of a type that has no parts.
    pub const fn of_plain(name: &str, size: usize) -> Self {
        Self(OFFSET).text("plain").text(name).number(size)
    }

    /// Of a type's name, and of the names of its parameters: what is known of a type without its layout, which may lead to itself.
    pub const fn of_name(name: &str, parameters: &[Self]) -> Self {
        let mut hash = Self(OFFSET).text("name").text(name).number(parameters.len());
        let mut index = 0;
        while index < parameters.len() {
            hash = hash.fingerprint(parameters[index]);
            index += 1;
        }
        hash
    }

    /// Of a number, as a parameter of a type.
    pub const fn of_number(number: u64) -> Self {
        Self(OFFSET).text("number").bytes(&number.to_le_bytes())
    }

    /// Of `count` elements one after the other.
    pub const fn of_array(element: Self, count: usize) -> Self {
        Self(OFFSET).text("array").fingerprint(element).number(count)
    }

    /// Of a struct that is called so: each field's name, offset and fingerprint.
    pub const fn of_struct(identity: Self, fields: &[Field<'_>]) -> Self {
        Self(OFFSET).text("struct").fingerprint(identity).fields(fields)
    }

    /// Of an enum that is called so: its tag's size, and each variant's name, tag and fields.
    pub const fn of_enum(
        identity: Self,
        tag_size: usize,
        variants: &[(&str, u64, &[Field<'_>])],
    ) -> Self {
        let mut hash =
            Self(OFFSET).text("enum").fingerprint(identity).number(tag_size).number(variants.len());
        let mut index = 0;
        while index < variants.len() {
            let (name, tag, fields) = variants[index];
            hash = hash.text(name).bytes(&tag.to_le_bytes()).fields(fields);
            index += 1;
        }
        hash
    }

    /// Of a `kind` of reference to a type that is called so. The name stands for the type, which may refer to itself; the types
    /// themselves are compared where two sides meet.
    pub const fn of_reference(kind: &str, target: Self) -> Self {
        Self(OFFSET).text("reference").text(kind).fingerprint(target)
    }

    /// Of a method that is called so: what it takes, in order, and what it gives.
    pub const fn of_method(name: &str, arguments: &[Self], result: Self) -> Self {
        Self(OFFSET).text("method").fingerprint(Self::of_name(name, arguments)).fingerprint(result)
    }

    /// Of an interface that is called so: its methods, in order.
    pub const fn of_interface(name: &str, methods: &[Self]) -> Self {
        Self(OFFSET).text("interface").fingerprint(Self::of_name(name, methods))
    }

    /// Of something that comes with a list of types, as [`Types::to_bytes`](crate::Types::to_bytes) tells it.
    pub(crate) const fn with_types(self, told: &[u8]) -> Self {
        self.text("types").number(told.len()).bytes(told)
    }

    /// From the bytes that [`to_bytes`](Self::to_bytes) gave.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    /// From 32 hexadecimal digits, as it is shown.
    ///
    /// # Panics
    /// Of anything else, which the derive refuses when compiling.
    pub const fn from_hex(digits: &str) -> Self {
        match u128::from_str_radix(digits, 16) {
            Ok(number) if digits.len() == 32 => Self(number),
            _ => panic!("a fingerprint is 32 hexadecimal digits"),
        }
    }

    /// Little-endian, as it is sent.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    const fn fields(self, fields: &[Field<'_>]) -> Self {
        let mut hash = self.number(fields.len());
        let mut index = 0;
        while index < fields.len() {
            let (name, offset, fingerprint) = fields[index];
            hash = hash.text(name).number(offset).fingerprint(fingerprint);
            index += 1;
        }
        hash
    }

    const fn byte(self, byte: u8) -> Self {
        Self((self.0 ^ byte as u128).wrapping_mul(PRIME))
    }

    const fn bytes(mut self, bytes: &[u8]) -> Self {
        let mut index = 0;
        while index < bytes.len() {
            self = self.byte(bytes[index]);
            index += 1;
        }
        self
    }

    /// A text with its length ahead, so that no two lists of texts look alike.
    const fn text(self, text: &str) -> Self {
        self.number(text.len()).bytes(text.as_bytes())
    }

    const fn number(self, number: usize) -> Self {
        self.bytes(&(number as u64).to_le_bytes())
    }

    const fn fingerprint(self, other: Self) -> Self {
        self.bytes(&other.to_bytes())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wire;

    #[derive(Wire, Clone, Copy)]
    #[repr(C)]
    struct Rank {
        vertex: u64,
        rank: f64,
    }

    mod elsewhere {
        use crate::Wire;

        #[derive(Wire, Clone, Copy)]
        #[repr(C)]
        pub(super) struct Rank {
            vertex: u64,
            rank: f64,
        }

        pub(super) mod swapped {
            use crate::Wire;

            #[derive(Wire, Clone, Copy)]
            #[repr(C)]
            pub(in super::super) struct Rank {
                rank: f64,
                vertex: u64,
            }
        }

        pub(super) mod renamed {
            use crate::Wire;

            #[derive(Wire, Clone, Copy)]
            #[repr(C)]
            pub(in super::super) struct Rank {
                vertex: u64,
                weight: f64,
            }
        }

        pub(super) mod retyped {
            use crate::Wire;

            #[derive(Wire, Clone, Copy)]
            #[repr(C)]
            pub(in super::super) struct Rank {
                vertex: u64,
                rank: u64,
            }
        }
    }

    #[test]
    fn a_layout_has_one_fingerprint_wherever_it_is_written_down() {
        assert_eq!(Rank::FINGERPRINT, elsewhere::Rank::FINGERPRINT);
    }

    #[test]
    fn order_names_and_types_of_fields_and_lengths_of_arrays_make_another_type() {
        let all = [
            Rank::FINGERPRINT,
            elsewhere::swapped::Rank::FINGERPRINT,
            elsewhere::renamed::Rank::FINGERPRINT,
            elsewhere::retyped::Rank::FINGERPRINT,
            u64::FINGERPRINT,
            i64::FINGERPRINT,
            <[u64; 2]>::FINGERPRINT,
            <[u64; 3]>::FINGERPRINT,
            <[[u64; 2]; 1]>::FINGERPRINT,
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
    }

    #[test]
    fn the_bytes_are_the_fingerprint() {
        assert_eq!(Fingerprint::from_bytes(Rank::FINGERPRINT.to_bytes()), Rank::FINGERPRINT);
    }
}
