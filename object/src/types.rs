//! The types that two sides have agreed on, by their places in a list.

use std::any::TypeId;
use std::sync::Arc;

use crate::compact::Mover;
use crate::error::{Fault, TypesDiffer};
use crate::fingerprint::Fingerprint;
use crate::pages::Targets;
use crate::segment::PAGE_BYTES;
use crate::wire::Wire;

/// Bytes of a list of types that are taken of a peer, and what each takes here, with what is made of it.
pub(crate) const TOLD_MAX: usize = 64 << 10;
pub(crate) const TOLD_COST: u64 = 8;

/// Types that a list may have.
const TYPES_MAX: usize = u16::MAX as usize;

/// Finds the first faulty record of many, and what is wrong with it.
type CheckAll = fn(&[u8], &Targets<'_>) -> Result<(), (usize, Fault)>;

/// What a reader needs to know of a type to check a page of it.
#[derive(Clone, Copy, Debug)]
pub struct TypeInfo {
    /// The type's name, for messages.
    pub name: &'static str,
    /// Its name, with those of its parameters.
    pub identity: Fingerprint,
    /// Its layout.
    pub fingerprint: Fingerprint,
    /// Bytes from one record to the next.
    pub stride: usize,
    /// By which this program knows its own: fingerprints tell honest types apart, and memory does not depend on honesty.
    pub(crate) type_id: TypeId,
    reads: &'static [Fingerprint],
    /// `None` where any bytes are a record.
    pub(crate) check: Option<CheckAll>,
    /// `None` where nothing of a record stays home.
    pub(crate) clear_transient: Option<fn(&mut [u8])>,
    /// `None` where no record leads to others.
    pub(crate) move_links: Option<fn(&mut [u8], &mut Mover<'_>)>,
}

/// A place in the list.
#[derive(Clone, Debug)]
enum Listed {
    Known(TypeInfo),
    /// A type of the peer's: what it told of it.
    Unknown(Box<[u8]>),
}

/// The types that may occur in the segments of a connection, in an order that both sides share: a
/// page names its type by the place in this list. The fingerprints are compared once, when the two
/// sides meet.
#[derive(Clone, Debug, Default)]
pub struct Types {
    /// Shared, so that each view of a segment has them for the price of a count.
    types: Arc<Vec<Listed>>,
}

impl Types {
    /// No types.
    pub fn new() -> Self {
        Self::default()
    }

    /// The list with `T` at its end, and the types that it leads to behind it, as far as they are not in it.
    ///
    /// # Panics
    /// With more than 65,535 types; or another one of the list has the same name and layout, so that a peer could not tell which is meant.
    pub fn with<T: Wire>(mut self) -> Self {
        const {
            assert!(size_of::<T>() > 0, "a record has at least one byte");
            assert!(size_of::<T>() <= PAGE_BYTES, "a record fits a page");
            assert!(align_of::<T>() <= 8, "segments are aligned to eight bytes");
        }
        if self.place::<T>().is_some() {
            return self;
        }
        let is_new = self.iter().all(|info| info.fingerprint != T::FINGERPRINT);
        assert!(is_new, "two types {} of the same layout: give one of them another name", T::NAME);
        assert!(self.types.len() < TYPES_MAX, "a page has 16 bits for its type");
        Arc::make_mut(&mut self.types).push(Listed::Known(TypeInfo {
            name: T::NAME,
            identity: T::IDENTITY,
            fingerprint: T::FINGERPRINT,
            stride: size_of::<T>(),
            type_id: TypeId::of::<T>(),
            reads: T::READS,
            check: (!T::ALWAYS_VALID).then_some(T::check_all),
            clear_transient: T::HAS_TRANSIENT.then_some(T::clear_transient),
            move_links: T::HAS_LINKS.then_some(T::move_links),
        }));
        T::collect(self)
    }

    /// The types that are known, in order.
    pub fn iter(&self) -> impl Iterator<Item = &TypeInfo> {
        self.types.iter().filter_map(|listed| match listed {
            Listed::Known(info) => Some(info),
            Listed::Unknown(_) => None,
        })
    }

    /// How many places the list has.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// What is told to a peer: of each type, in order, its fingerprint and that of its name, 16 bytes each, and its name with the length
    /// ahead, one byte.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for listed in self.types.iter() {
            match listed {
                Listed::Known(info) => Told::of(info).write(&mut bytes),
                Listed::Unknown(told) => bytes.extend_from_slice(told),
            }
        }
        bytes
    }

    /// Whether it is the same list: a graph that was built with the one is read with the other.
    pub(crate) fn is_same(&self, other: &Types) -> bool {
        Arc::ptr_eq(&self.types, &other.types) || self.to_bytes() == other.to_bytes()
    }

    /// Compares what a peer told with these types, which are to be the same in the same order.
    ///
    /// # Errors
    /// The first place at which they differ.
    pub fn check(&self, told: &[u8]) -> Result<(), TypesDiffer> {
        let (ours, theirs) = (self.to_bytes(), Told::read_all(told)?);
        let ours = Told::read_all(&ours)?;
        if ours.len() != theirs.len() {
            return Err(TypesDiffer::Count { ours: ours.len(), theirs: theirs.len() });
        }
        let mut pairs = ours.iter().zip(&theirs).enumerate();
        let differing = pairs.find(|(_, (ours, theirs))| ours.fingerprint != theirs.fingerprint);
        differing.map_or(Ok(()), |(place, (ours, theirs))| Err(ours.differs(place, theirs)))
    }

    /// The list by which to read what a peer sends that told of its types: they are in its order, each the one of these that has its fingerprint,
    /// or else one that says it [reads](Wire::READS) it. What is not known here has a place, and pages of it are refused.
    ///
    /// # Errors
    /// A type is called as one of these, with the same parameters, and has another layout.
    pub fn agree(&self, told: &[u8]) -> Result<Types, TypesDiffer> {
        let theirs = Told::read_all(told)?;
        let agreed = theirs.iter().enumerate().map(|(place, told)| {
            let is_same = |info: &&TypeInfo| info.fingerprint == told.fingerprint;
            let reads = |info: &&TypeInfo| info.reads.contains(&told.fingerprint);
            if let Some(info) = self.iter().find(is_same).or_else(|| self.iter().find(reads)) {
                return Ok(Listed::Known(*info));
            }
            if let Some(info) = self.iter().find(|info| info.identity == told.identity) {
                return Err(Told::of(info).differs(place, told));
            }
            let mut bytes = Vec::new();
            told.write(&mut bytes);
            Ok(Listed::Unknown(bytes.into()))
        });
        Ok(Types { types: Arc::new(agreed.collect::<Result<_, _>>()?) })
    }

    /// The place of `T`.
    pub(crate) fn place<T: Wire>(&self) -> Option<u16> {
        let is_it = |listed: &Listed| matches!(listed, Listed::Known(info) if info.type_id == TypeId::of::<T>());
        self.types.iter().position(is_it).map(|place| place as u16)
    }

    #[inline]
    pub(crate) fn get(&self, place: u16) -> Option<&TypeInfo> {
        match self.types.get(usize::from(place))? {
            Listed::Known(info) => Some(info),
            Listed::Unknown(_) => None,
        }
    }
}

/// What is said of one type.
struct Told<'a> {
    fingerprint: Fingerprint,
    identity: Fingerprint,
    name: &'a [u8],
}

impl<'a> Told<'a> {
    fn of(info: &TypeInfo) -> Told<'static> {
        let name = &info.name.as_bytes()[..info.name.len().min(usize::from(u8::MAX))];
        Told { fingerprint: info.fingerprint, identity: info.identity, name }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.fingerprint.to_bytes());
        bytes.extend_from_slice(&self.identity.to_bytes());
        bytes.push(self.name.len() as u8);
        bytes.extend_from_slice(self.name);
    }

    fn read_all(mut told: &'a [u8]) -> Result<Vec<Told<'a>>, TypesDiffer> {
        let mut all = Vec::new();
        while let Some((fingerprint, rest)) = told.split_first_chunk() {
            let (identity, rest) = rest.split_first_chunk().ok_or(TypesDiffer::Unreadable)?;
            let (&len, rest) = rest.split_first().ok_or(TypesDiffer::Unreadable)?;
            let (name, rest) =
                rest.split_at_checked(usize::from(len)).ok_or(TypesDiffer::Unreadable)?;
            let [fingerprint, identity] =
                [fingerprint, identity].map(|b| Fingerprint::from_bytes(*b));
            all.push(Told { fingerprint, identity, name });
            told = rest;
        }
        if told.is_empty() && all.len() <= TYPES_MAX {
            Ok(all)
        } else {
            Err(TypesDiffer::Unreadable)
        }
    }

    /// That it is not what stands in its place on the other side.
    fn differs(&self, place: usize, theirs: &Told<'_>) -> TypesDiffer {
        let name = |told: &Told<'_>| String::from_utf8_lossy(told.name).into_owned();
        TypesDiffer::Layout {
            place,
            name: name(self),
            ours: self.fingerprint,
            theirs: theirs.fingerprint,
            theirs_name: name(theirs),
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
        for cut in [1, 16, 17, 32, 33, 35, 37, 71] {
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
        assert_eq!(agreed.to_bytes(), theirs.to_bytes());
        assert_eq!(agreed.check(&theirs.to_bytes()), Ok(()));
        let shorter = Types::new().with::<f64>().with::<u64>().with::<i8>();
        assert!(agreed.check(&shorter.to_bytes()).is_err());
    }

    #[test]
    fn types_with_other_parameters_are_other_types() {
        use crate::{Link, Map, Seq};
        assert_ne!(<Seq<[u8; 4]>>::FINGERPRINT, <Seq<[u8; 5]>>::FINGERPRINT);
        assert_ne!(<Map<u32, u32>>::FINGERPRINT, <Map<u64, f64>>::FINGERPRINT);
        assert_ne!(Link::<Link<u8>>::FINGERPRINT, Link::<Link<u16>>::FINGERPRINT);
        // A peer that has one more of them is understood.
        let ours = Types::new().with::<[u8; 4]>();
        let theirs = Types::new().with::<[u8; 16]>().with::<[u8; 4]>();
        assert_eq!(ours.agree(&theirs.to_bytes()).unwrap().place::<[u8; 4]>(), Some(1));
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
            #[wire(reads = "a0c6c7dc3964178fc02fa1650e131cc1")]
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
