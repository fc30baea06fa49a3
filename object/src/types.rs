//! The types that two sides have agreed on, by their places in a list.

use std::sync::Arc;

use crate::compact::Mover;
use crate::error::{Fault, TypesDiffer};
use crate::fingerprint::Fingerprint;
use crate::pages::Targets;
use crate::segment::PAGE_BYTES;
use crate::wire::Wire;

/// Types that a list may have.
const TYPES_MAX: usize = u16::MAX as usize;

/// Finds the first faulty record of many, and what is wrong with it.
type CheckAll = fn(&[u8], &Targets<'_>) -> Result<(), (usize, Fault)>;

/// What a reader needs to know of a type to check a page of it.
#[derive(Clone, Copy, Debug)]
pub struct TypeInfo {
    /// The type's name, for messages.
    pub name: &'static str,
    /// Its layout.
    pub fingerprint: Fingerprint,
    /// Bytes from one record to the next.
    pub stride: usize,
    reads: &'static [Fingerprint],
    /// `None` where any bytes are a record.
    pub(crate) check: Option<CheckAll>,
    /// `None` where no record leads to others.
    pub(crate) move_links: Option<fn(&mut [u8], &mut Mover<'_>)>,
}

/// The types that may occur in the segments of a connection, in an order that both sides share: a
/// page names its type by the place in this list. The fingerprints are compared once, when the two
/// sides meet.
#[derive(Clone, Debug, Default)]
pub struct Types {
    /// Shared, so that each view of a segment has them for the price of a count. Nothing stands for a type of the peer's that is
    /// not known here.
    types: Arc<Vec<Option<TypeInfo>>>,
}

impl Types {
    /// No types.
    pub fn new() -> Self {
        Self::default()
    }

    /// The list with `T` at its end, and the types that it leads to behind it, as far as they are not in it.
    ///
    /// # Panics
    /// With more than 65,535 types.
    pub fn with<T: Wire>(mut self) -> Self {
        const {
            assert!(size_of::<T>() > 0, "a record has at least one byte");
            assert!(size_of::<T>() <= PAGE_BYTES, "a record fits a page");
            assert!(align_of::<T>() <= 8, "segments are aligned to eight bytes");
        }
        if self.place::<T>().is_some() {
            return self;
        }
        let is_new_key = self.iter().all(|info| info.fingerprint.key() != T::FINGERPRINT.key());
        assert!(is_new_key, "pages of {} would be taken for another type's", T::NAME);
        assert!(self.types.len() < TYPES_MAX, "a page has 16 bits for its type");
        Arc::make_mut(&mut self.types).push(Some(TypeInfo {
            name: T::NAME,
            fingerprint: T::FINGERPRINT,
            stride: size_of::<T>(),
            reads: T::READS,
            check: (!T::ALWAYS_VALID).then_some(T::check_all),
            move_links: T::HAS_LINKS.then_some(T::move_links),
        }));
        T::collect(self)
    }

    /// The types that are known, in order.
    pub fn iter(&self) -> impl Iterator<Item = &TypeInfo> {
        self.types.iter().flatten()
    }

    /// How many places the list has.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// What is told to a peer: of each type, in order, its fingerprint, 16 bytes, and its name with the length ahead, one byte.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for info in self.iter() {
            let name = &info.name.as_bytes()[..info.name.len().min(usize::from(u8::MAX))];
            bytes.extend_from_slice(&info.fingerprint.to_bytes());
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(name);
        }
        bytes
    }

    /// Compares what a peer told with these types, which are to be the same in the same order.
    ///
    /// # Errors
    /// The first place at which they differ.
    pub fn check(&self, told: &[u8]) -> Result<(), TypesDiffer> {
        let theirs = Told::read_all(told)?;
        if theirs.len() != self.types.len() {
            return Err(TypesDiffer::Count { ours: self.types.len(), theirs: theirs.len() });
        }
        let mut pairs = self.iter().zip(theirs).enumerate();
        let differing = pairs.find(|(_, (ours, theirs))| ours.fingerprint != theirs.fingerprint);
        differing.map_or(Ok(()), |(place, (ours, theirs))| Err(theirs.differs(place, ours)))
    }

    /// The list by which to read what a peer sends that told of its types: they are in its order, each the one of these that has its fingerprint,
    /// or that says it [reads](Wire::READS) it. What is not known here has a place, and pages of it are refused.
    ///
    /// # Errors
    /// A type has the name of one of these, and another layout.
    pub fn agree(&self, told: &[u8]) -> Result<Types, TypesDiffer> {
        let theirs = Told::read_all(told)?;
        let agreed = theirs.into_iter().enumerate().map(|(place, told)| {
            let reads = |info: &&TypeInfo| {
                info.fingerprint == told.fingerprint || info.reads.contains(&told.fingerprint)
            };
            if let Some(info) = self.iter().find(reads) {
                return Ok(Some(*info));
            }
            let namesake = self.iter().find(|info| info.name.as_bytes() == told.name);
            namesake.map_or(Ok(None), |info| Err(told.differs(place, info)))
        });
        Ok(Types { types: Arc::new(agreed.collect::<Result<_, _>>()?) })
    }

    /// The place of `T`.
    pub(crate) fn place<T: Wire>(&self) -> Option<u16> {
        let is_it =
            |info: &Option<TypeInfo>| info.is_some_and(|info| info.fingerprint == T::FINGERPRINT);
        self.types.iter().position(is_it).map(|place| place as u16)
    }

    #[inline]
    pub(crate) fn get(&self, place: u16) -> Option<&TypeInfo> {
        self.types.get(usize::from(place))?.as_ref()
    }
}

/// What a peer says of one type.
struct Told<'a> {
    fingerprint: Fingerprint,
    name: &'a [u8],
}

impl<'a> Told<'a> {
    fn read_all(mut told: &'a [u8]) -> Result<Vec<Told<'a>>, TypesDiffer> {
        let mut all = Vec::new();
        while let Some((fingerprint, rest)) = told.split_first_chunk() {
            let (&len, rest) = rest.split_first().ok_or(TypesDiffer::Unreadable)?;
            let (name, rest) =
                rest.split_at_checked(usize::from(len)).ok_or(TypesDiffer::Unreadable)?;
            all.push(Told { fingerprint: Fingerprint::from_bytes(*fingerprint), name });
            told = rest;
        }
        if told.is_empty() && all.len() <= TYPES_MAX {
            Ok(all)
        } else {
            Err(TypesDiffer::Unreadable)
        }
    }

    fn differs(&self, place: usize, ours: &TypeInfo) -> TypesDiffer {
        TypesDiffer::Layout {
            place,
            name: ours.name,
            ours: ours.fingerprint,
            theirs: self.fingerprint,
            theirs_name: String::from_utf8_lossy(self.name).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_list_agrees() {
        let types = Types::new().with::<u64>().with::<bool>().with::<u64>();
        assert_eq!(types.len(), 2, "a type is listed once");
        assert_eq!(types.check(&types.to_bytes()), Ok(()));
    }

    #[test]
    fn another_list_is_refused_by_name() {
        let ours = Types::new().with::<u64>().with::<f64>();
        let theirs = Types::new().with::<u64>().with::<u32>();
        let text = ours.check(&theirs.to_bytes()).unwrap_err().to_string();
        assert!(text.contains("f64") && text.contains("u32"), "{text}");
        let swapped = Types::new().with::<f64>().with::<u64>();
        let text = ours.check(&swapped.to_bytes()).unwrap_err().to_string();
        assert!(text.contains("u64") && text.contains("f64"), "{text}");
        for types in [Types::new().with::<u64>(), Types::new()] {
            assert!(matches!(
                ours.check(&types.to_bytes()),
                Err(TypesDiffer::Count { ours: 2, .. })
            ));
        }
        for cut in [1, 16, 17, 19, 21, 39] {
            let told = &theirs.to_bytes()[..cut];
            assert_eq!(ours.check(told), Err(TypesDiffer::Unreadable), "{cut}");
        }
    }

    #[test]
    fn lists_in_another_order_agree_and_keep_the_peers_places() {
        let ours = Types::new().with::<u64>().with::<f64>();
        let theirs = Types::new().with::<bool>().with::<f64>().with::<u64>();
        let agreed = ours.agree(&theirs.to_bytes()).unwrap();
        assert_eq!((agreed.place::<f64>(), agreed.place::<u64>()), (Some(1), Some(2)));
        assert!(agreed.get(0).is_none(), "a type that is not known here");
        assert_eq!(agreed.len(), 3);
    }

    mod earlier {
        use crate::Wire;

        #[derive(Wire, Clone, Copy)]
        #[repr(C)]
        pub(super) struct Rank {
            pub(super) vertex: u64,
            pub(super) rank: f64,
        }
    }

    mod later {
        use crate::Wire;

        #[derive(Wire, Clone, Copy)]
        #[repr(C)]
        pub(super) struct Rank {
            pub(super) vertex: u64,
            pub(super) weight: f64,
        }

        pub(super) mod compatible {
            use crate::Wire;

            #[derive(Wire, Clone, Copy)]
            #[wire(reads = "b731a6112829998633a0a42871f5af47")]
            #[repr(C)]
            pub(in super::super) struct Rank {
                vertex: u64,
                weight: f64,
            }
        }
    }

    #[test]
    fn a_namesake_of_another_layout_is_refused_unless_it_is_said_to_be_read() {
        let told = Types::new().with::<earlier::Rank>().to_bytes();
        let text = Types::new().with::<later::Rank>().agree(&told).unwrap_err().to_string();
        let print = <earlier::Rank as Wire>::FINGERPRINT;
        assert!(text.contains("Rank") && text.contains(&print.to_string()), "{text}");
        assert!(<later::compatible::Rank as Wire>::READS.contains(&print), "{print}");
        let agreed = Types::new().with::<later::compatible::Rank>().agree(&told).unwrap();
        assert_eq!(agreed.place::<later::compatible::Rank>(), Some(0));
    }
}
