//! What stands before an archive: that it is one, and of which type.

use std::any::TypeId;

use rkyv::primitive::{ArchivedU32, ArchivedU64, ArchivedUsize};
use rkyv::rend::u32_le;
use rkyv::rend::unaligned::u32_ule;

use super::Typed;

/// Bytes of a tag: as many as an archive is aligned to, so that what lies behind it is aligned if the whole is.
pub(super) const TAG_LEN: usize = 16;

/// The first eight bytes, which no text begins with.
const MAGIC: [u8; 8] = *b"\x00weft\x08rk";

/// What is wrong with a value's tag.
pub(super) enum TagMismatch {
    /// There is none.
    None,
    /// It is another type's.
    Other,
}

/// The tag of values of type `T`.
pub(super) fn of<T: Typed>() -> [u8; TAG_LEN] {
    const {
        assert!(
            align_of::<T::Archived>() <= TAG_LEN,
            "an archived type is aligned to at most 16 bytes"
        );
    }
    let mut tag = [0; TAG_LEN];
    tag[..8].copy_from_slice(&MAGIC);
    tag[8..].copy_from_slice(&fingerprint::<T>().to_le_bytes());
    tag
}

/// Whether `value` begins with the tag of `T`.
pub(super) fn check<T: Typed>(value: &[u8]) -> Result<(), TagMismatch> {
    let Some(found) = value.first_chunk::<TAG_LEN>() else { return Err(TagMismatch::None) };
    if *found == of::<T>() {
        Ok(())
    } else if found.starts_with(&MAGIC) {
        Err(TagMismatch::Other)
    } else {
        Err(TagMismatch::None)
    }
}

/// FNV-1a, 64 bits, of the type's name and of what is known of its layout: sizes and alignment of the archived root, and what
/// features of rkyv decide for all types of a program.
fn fingerprint<T: Typed>() -> u64 {
    let archived = TypeId::of::<ArchivedU32>();
    let is_little_endian =
        archived == TypeId::of::<u32_le>() || archived == TypeId::of::<u32_ule>();
    let layout = [
        size_of::<T::Archived>() as u64,
        align_of::<T::Archived>() as u64,
        size_of::<ArchivedUsize>() as u64,
        align_of::<ArchivedU64>() as u64,
        u64::from(is_little_endian),
    ];
    let layout = layout.iter().flat_map(|number| number.to_le_bytes());
    T::NAME.bytes().chain(layout).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
