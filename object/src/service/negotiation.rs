//! Importing a service, on the side of who exports it: whether it serves what is asked for, and by which numbers.
//!
//! J-RPC upgrades interfaces by extension: who has imported an older one goes on. Here a method is looked for by its name, wherever it
//! stands in the interface, and has to take and give the same types. So methods may be added anywhere and moved, and what an importer does not know
//! never matters to it.

use crate::error::TypesDiffer;
use crate::fingerprint::Fingerprint;
use crate::types::{TOLD_MAX, Types};

use super::error::Malformed;
use super::frame::{REQUEST_BYTES, Status};
use super::interface::{Contract, METHODS_MAX};
use super::item::{Item, Plain, Reader, Writer};

/// What an importer asks for.
pub(super) struct Wanted<'a> {
    /// The reference that is to be agreed on again, or 0 if a name is asked for.
    pub(super) reference: u64,
    pub(super) name: &'a str,
    interface: &'a str,
    fingerprints: &'a [[u8; 16]],
    methods: Vec<&'a str>,
    pub(super) told: &'a [u8],
}

impl<'a> Wanted<'a> {
    /// Reads what an importer asks for.
    pub(super) fn read(body: &'a [u8], none: &'a Types) -> Result<Self, Malformed> {
        let mut items = Reader::new(body, REQUEST_BYTES, none, None);
        let reference = items.value::<u64>()?;
        let (name, interface) = (items.text()?, items.text()?);
        // The interface's own, which tells nothing that its methods do not; it is for people who look at what is sent.
        items.value::<[u8; 16]>()?;
        let fingerprints = items.slice::<[u8; 16]>()?;
        let (names, told) = (items.text()?, items.slice::<u8>()?);
        items.finish()?;
        if fingerprints.len() > METHODS_MAX {
            return Err(Malformed::Disagreed { what: "an interface has at most 256 methods" });
        }
        if told.len() > TOLD_MAX {
            return Err(Malformed::Disagreed { what: "an interface's types take at most 64 KiB" });
        }
        // No more are looked for than there are fingerprints, whatever the text has.
        let mut methods: Vec<_> = names.splitn(fingerprints.len() + 1, '\n').collect();
        if fingerprints.is_empty() && names.is_empty() {
            methods.clear();
        }
        if methods.len() != fingerprints.len() {
            return Err(Malformed::Disagreed { what: "each method has a name and a fingerprint" });
        }
        Ok(Self { reference, name, interface, fingerprints, methods, told })
    }

    /// Whether an object with this contract serves it, but for types: the numbers of the methods.
    pub(super) fn agree(&self, contract: &Contract) -> Result<Vec<u16>, Unlike> {
        let description = contract.description;
        let theirs = description.fingerprint;
        if self.interface != description.name {
            return Err(Unlike::Interface { theirs_name: description.name, theirs });
        }
        let wanted = self.methods.iter().zip(self.fingerprints).enumerate();
        let numbers = wanted.map(|(index, (name, fingerprint))| {
            let number = description.methods.iter().position(|method| method.name == *name);
            let number = number.ok_or(Unlike::Missing { index, theirs })?;
            let theirs = description.methods[number].fingerprint;
            if theirs != Fingerprint::from_bytes(*fingerprint) {
                return Err(Unlike::Method { index, theirs });
            }
            Ok(number as u16)
        });
        numbers.collect()
    }
}

/// Why an object does not serve what is asked for.
#[derive(Debug)]
pub(super) enum Unlike {
    Interface { theirs_name: &'static str, theirs: Fingerprint },
    Missing { index: usize, theirs: Fingerprint },
    Method { index: usize, theirs: Fingerprint },
    Types(TypesDiffer),
}

impl Unlike {
    pub(super) fn status(&self) -> Status {
        match self {
            Self::Interface { .. } => Status::OtherInterface,
            Self::Missing { .. } => Status::MissingMethod,
            Self::Method { .. } => Status::OtherMethod,
            Self::Types(_) => Status::OtherTypes,
        }
    }
}

/// What the importer is told of it; its own side is its own to tell.
impl Item for Unlike {
    fn end(&self, at: usize) -> usize {
        match self {
            Self::Interface { theirs_name, theirs } => {
                (*theirs_name, Plain(theirs.to_bytes())).end(at)
            }
            Self::Missing { index, theirs } | Self::Method { index, theirs } => {
                (Plain(*index as u64), Plain(theirs.to_bytes())).end(at)
            }
            Self::Types(differ) => layouts(differ).end(at),
        }
    }

    fn put(self, out: &mut Writer<'_>) {
        match self {
            Self::Interface { theirs_name, theirs } => {
                (theirs_name, Plain(theirs.to_bytes())).put(out);
            }
            Self::Missing { index, theirs } | Self::Method { index, theirs } => {
                (Plain(index as u64), Plain(theirs.to_bytes())).put(out);
            }
            Self::Types(differ) => layouts(&differ).put(out),
        }
    }
}

/// Two layouts of one type, as the importer sees them: its own first.
type Layouts<'a> = (Plain<u64>, &'a str, &'a str, Plain<[u8; 16]>, Plain<[u8; 16]>);

fn layouts(differ: &TypesDiffer) -> Layouts<'_> {
    match differ {
        TypesDiffer::Layout { place, name, ours, theirs, theirs_name } => {
            let prints = [theirs, ours].map(|print| Plain(print.to_bytes()));
            (Plain(*place as u64), theirs_name, name, prints[0], prints[1])
        }
        // What cannot be read has no layout.
        TypesDiffer::Count { .. } | TypesDiffer::Unreadable => {
            (Plain(0), "unreadable", "", Plain([0; 16]), Plain([0; 16]))
        }
    }
}
