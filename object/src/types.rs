//! The types that two sides have agreed on, by their places in a list.

use std::sync::Arc;

use crate::error::TypesDiffer;
use crate::fingerprint::Fingerprint;
use crate::segment::PAGE_BYTES;
use crate::wire::Wire;

/// What a reader needs to know of a type to check a page of it.
#[derive(Clone, Copy, Debug)]
pub struct TypeInfo {
    /// The type's name, for messages.
    pub name: &'static str,
    /// Its layout.
    pub fingerprint: Fingerprint,
    /// Bytes from one record to the next.
    pub stride: usize,
    /// `None` where any bytes are a record.
    pub(crate) is_valid: Option<fn(&[u8]) -> bool>,
}

/// The types that may occur in the segments of a connection, in an order that both sides share: a
/// page names its type by the place in this list. The fingerprints are compared once, when the two
/// sides meet.
#[derive(Clone, Debug, Default)]
pub struct Types {
    /// Shared, so that each view of a segment has them for the price of a count.
    types: Arc<Vec<TypeInfo>>,
}

impl Types {
    /// No types.
    pub fn new() -> Self {
        Self::default()
    }

    /// The list with `T` at its end, if it is not in it.
    ///
    /// # Panics
    /// With more than 65,536 types.
    pub fn with<T: Wire>(mut self) -> Self {
        const {
            assert!(size_of::<T>() > 0, "a record has at least one byte");
            assert!(size_of::<T>() <= PAGE_BYTES, "a record fits a page");
            assert!(align_of::<T>() <= 8, "segments are aligned to eight bytes");
        }
        if self.place::<T>().is_none() {
            assert!(self.types.len() <= usize::from(u16::MAX), "a page has 16 bits for its type");
            Arc::make_mut(&mut self.types).push(TypeInfo {
                name: T::NAME,
                fingerprint: T::FINGERPRINT,
                stride: size_of::<T>(),
                is_valid: (!T::ALWAYS_VALID).then_some(T::is_valid),
            });
        }
        self
    }

    /// The types, in order.
    pub fn as_slice(&self) -> &[TypeInfo] {
        &self.types
    }

    /// What is told to a peer: 16 bytes a type, in order.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.types.iter().flat_map(|info| info.fingerprint.to_bytes()).collect()
    }

    /// Compares what a peer told with these types.
    ///
    /// # Errors
    /// The first place at which they differ.
    pub fn check(&self, told: &[u8]) -> Result<(), TypesDiffer> {
        let (theirs, rest) = told.as_chunks::<16>();
        if !rest.is_empty() || theirs.len() != self.types.len() {
            return Err(TypesDiffer::Count { ours: self.types.len(), theirs: told.len() / 16 });
        }
        for (place, (ours, theirs)) in self.types.iter().zip(theirs).enumerate() {
            let theirs = Fingerprint::from_bytes(*theirs);
            if ours.fingerprint != theirs {
                let known = self.types.iter().find(|info| info.fingerprint == theirs);
                return Err(TypesDiffer::Layout {
                    place,
                    name: ours.name,
                    ours: ours.fingerprint,
                    theirs,
                    theirs_name: known.map_or("a type unknown here", |info| info.name),
                });
            }
        }
        Ok(())
    }

    /// The place of `T`.
    pub(crate) fn place<T: Wire>(&self) -> Option<u16> {
        let place = self.types.iter().position(|info| info.fingerprint == T::FINGERPRINT)?;
        u16::try_from(place).ok()
    }

    pub(crate) fn get(&self, place: u16) -> Option<&TypeInfo> {
        self.types.get(usize::from(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_list_agrees() {
        let types = Types::new().with::<u64>().with::<bool>().with::<u64>();
        assert_eq!(types.as_slice().len(), 2, "a type is listed once");
        assert_eq!(types.check(&types.to_bytes()), Ok(()));
    }

    #[test]
    fn another_list_is_refused_by_name() {
        let ours = Types::new().with::<u64>().with::<f64>();
        let theirs = Types::new().with::<u64>().with::<u32>();
        let text = ours.check(&theirs.to_bytes()).unwrap_err().to_string();
        assert!(text.contains("f64") && text.contains("a type unknown here"), "{text}");
        let swapped = Types::new().with::<f64>().with::<u64>();
        let text = ours.check(&swapped.to_bytes()).unwrap_err().to_string();
        assert!(text.contains("u64") && text.contains("f64"), "{text}");
        for bytes in [&theirs.to_bytes()[..16], &[0; 33][..], &[]] {
            assert!(matches!(ours.check(bytes), Err(TypesDiffer::Count { ours: 2, .. })));
        }
    }
}
