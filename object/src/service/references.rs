//! Which references have been given to which peers, and what they lead to.
//!
//! A reference is one holder's: passing an object twice makes two. So to count references is to count entries, to release one is to
//! free its entry, and a peer that dies gives up the entries that it holds. A number that was freed is not given again,
//! so one that comes late finds nothing.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::mem;
use std::sync::{Arc, Weak};

use weft_transport::{Incarnation, NodeId, Peer};

use super::exported::Target;
use super::frame::Status;
use super::interface::Contract;
use super::thread;
use super::told::{Lists, Told};

/// Lists of types other than those here that one peer may have told of at the same time, of up to 64 KiB each.
const LISTS_MAX: usize = 64;

/// Who holds references: one life of a node, by whichever connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Holder {
    node: NodeId,
    incarnation: Incarnation,
}

impl Holder {
    #[cfg(test)]
    pub(super) fn new(node: NodeId, incarnation: Incarnation) -> Self {
        Self { node, incarnation }
    }

    pub(super) fn of(peer: &Peer) -> Self {
        Self { node: peer.node, incarnation: peer.incarnation }
    }
}

/// What a reference leads to.
pub(super) struct Held {
    pub(super) target: Arc<dyn Target>,
    /// As the holder lists the types of its graphs.
    pub(super) lists: Lists,
}

impl Drop for Held {
    /// The object may be dropped with its last reference, and its destructor may wait.
    fn drop(&mut self) {
        if thread::is_receiving() {
            thread::put_aside(Box::new(Arc::clone(&self.target)));
        }
    }
}

struct Entry {
    /// How often its place was used.
    uses: u32,
    /// The upper half of the number that it has this time.
    tag: u32,
    /// Nothing if it is free.
    content: Option<Content>,
}

struct Content {
    holder: Holder,
    /// Where in its holder's list of places it stands.
    listed: usize,
    held: Arc<Held>,
}

/// What one peer holds.
#[derive(Default)]
struct Holding {
    places: Vec<u32>,
    /// By which references were given, or that have taken the place of one of these. When the last has ended, so have the references.
    connections: Vec<u64>,
    /// Lists of types that it has told of, and that differ from those here. Most tell the same again and again.
    told: Vec<Weak<Told>>,
}

impl Holding {
    /// Whether it may tell of these lists.
    fn may_tell(&mut self, lists: &Lists) -> bool {
        let Some(told) = &lists.told else { return true };
        let is_it = |other: &Weak<Told>| std::ptr::eq(other.as_ptr(), Arc::as_ptr(told));
        if self.told.iter().any(is_it) {
            return true;
        }
        self.told.retain(|other| other.strong_count() > 0);
        let is_room = self.told.len() < LISTS_MAX;
        if is_room {
            self.told.push(Arc::downgrade(told));
        }
        is_room
    }

    /// Adds a connection. Returns whether it is new.
    fn add(&mut self, connection: u64) -> bool {
        let is_new = !self.connections.contains(&connection);
        if is_new {
            self.connections.push(connection);
        }
        is_new
    }
}

/// All references that were given.
#[derive(Default)]
pub(super) struct References {
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// Places that have been used as often as there are numbers.
    retired: usize,
    holders: HashMap<Holder, Holding>,
    tags: Tags,
}

/// Upper halves of numbers: those of a place come in an order that is this registry's alone, so that nobody can tell which are in use.
#[derive(Default)]
struct Tags {
    key: RandomState,
}

impl Tags {
    /// A Feistel network: no two uses of a place have the same.
    fn tag(&self, place: u32, uses: u32) -> u32 {
        let (mut left, mut right) = ((uses >> 16) as u16, uses as u16);
        for round in 0..4_u8 {
            let mixed = left ^ self.key.hash_one((place, round, right)) as u16;
            (left, right) = (right, mixed);
        }
        u32::from(left) << 16 | u32::from(right)
    }
}

/// A reference that was given.
pub(super) struct Given {
    pub(super) id: u64,
    /// It is the first that was given by this connection, whose end nobody waits for yet.
    pub(super) is_first: bool,
}

/// What comes of the end of a connection.
pub(super) enum End {
    /// This is released.
    Released(Vec<Arc<Held>>),
    /// The holder is there by another connection: by the one that this has made way for, whose end nobody waits for yet if it is new.
    GoesOn { is_new: bool },
}

impl References {
    /// A new reference of `holder`'s, which it is given by `connection`. If it has `limit` already, or tells of too many lists of types, `held` comes
    /// back: the caller drops it, who holds no lock then.
    pub(super) fn give(
        &mut self,
        (holder, connection): (Holder, u64),
        held: Held,
        limit: usize,
    ) -> Result<Given, Held> {
        let is_full = match self.holders.get_mut(&holder) {
            Some(holding) => holding.places.len() >= limit || !holding.may_tell(&held.lists),
            None => limit == 0,
        };
        if is_full {
            return Err(held);
        }
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                let place = u32::try_from(self.entries.len());
                let Some(place) = place.ok().filter(|place| *place < u32::MAX) else {
                    return Err(held);
                };
                self.entries.push(Entry { uses: 0, tag: self.tags.tag(place, 0), content: None });
                place
            }
        };
        let holding = self.holders.entry(holder).or_default();
        // Those of a holder that is new.
        holding.may_tell(&held.lists);
        let is_first = holding.add(connection);
        let entry = &mut self.entries[place as usize];
        let listed = holding.places.len();
        holding.places.push(place);
        entry.content = Some(Content { holder, listed, held: Arc::new(held) });
        Ok(Given { id: id(place, entry.tag), is_first })
    }

    /// What a reference of `holder`'s leads to.
    #[inline]
    pub(super) fn find(&self, id: u64, holder: Holder) -> Option<&Arc<Held>> {
        let entry = self.entries.get(place_of(id)?)?;
        let content = entry.content.as_ref().filter(|content| content.holder == holder)?;
        (entry.tag == (id >> 32) as u32).then_some(&content.held)
    }

    /// What `holder` has told of already for this interface.
    pub(super) fn told(
        &self,
        holder: Holder,
        contract: &'static Contract,
        bytes: &[u8],
    ) -> Option<Arc<Told>> {
        let told = self.holders.get(&holder)?.told.iter().filter_map(Weak::upgrade);
        told.into_iter().find(|told| told.is(contract, bytes))
    }

    /// Has a reference of `holder`'s lead to the same object by other lists of types. Returns what it was, which the caller drops.
    ///
    /// # Errors
    /// There is no such reference, or its holder may not tell of these lists.
    pub(super) fn agree(
        &mut self,
        id: u64,
        holder: Holder,
        lists: Lists,
    ) -> Result<Arc<Held>, Status> {
        let found = self.find(id, holder).ok_or(Status::NoObject)?;
        let target = Arc::clone(&found.target);
        if !self.holders.get_mut(&holder).is_some_and(|holding| holding.may_tell(&lists)) {
            return Err(Status::TooManyReferences);
        }
        let content = place_of(id).and_then(|place| self.entries[place].content.as_mut());
        let content = content.ok_or(Status::NoObject)?;
        Ok(mem::replace(&mut content.held, Arc::new(Held { target, lists })))
    }

    /// Takes a reference of `holder`'s back. What it led to is dropped by the caller, who holds no lock then.
    pub(super) fn release(&mut self, id: u64, holder: Holder) -> Option<Arc<Held>> {
        self.find(id, holder)?;
        let place = place_of(id)?;
        let content = self.take(place)?;
        let holding = self.holders.get_mut(&holder)?;
        holding.places.swap_remove(content.listed);
        let moved = holding.places.get(content.listed).copied();
        if let Some(moved) = moved.and_then(|moved| self.entries[moved as usize].content.as_mut()) {
            moved.listed = content.listed;
        }
        Some(content.held)
    }

    /// A connection of `holder`'s has ended, and made way for `successor` if there is one.
    pub(super) fn end(
        &mut self,
        (holder, connection): (Holder, u64),
        successor: Option<u64>,
    ) -> End {
        let Some(holding) = self.holders.get_mut(&holder) else { return End::Released(Vec::new()) };
        let Some(at) = holding.connections.iter().position(|open| *open == connection) else {
            return End::Released(Vec::new());
        };
        holding.connections.swap_remove(at);
        let successor = successor.filter(|_| !holding.places.is_empty());
        let is_new = successor.is_some_and(|successor| holding.add(successor));
        if !holding.connections.is_empty() {
            return End::GoesOn { is_new };
        }
        let places = self.holders.remove(&holder).map(|holding| holding.places);
        let places = places.unwrap_or_default().into_iter();
        let contents = places.filter_map(|place| self.take(place as usize));
        End::Released(contents.map(|content| content.held).collect())
    }

    /// Nobody holds anything any more. Returns what is released by that.
    pub(super) fn close(&mut self) -> Vec<Arc<Held>> {
        let mut released = Vec::new();
        // Who waits for the ends of their connections goes on, and finds nothing.
        for place in 0..self.entries.len() {
            released.extend(self.take(place).map(|content| content.held));
        }
        self.holders.values_mut().for_each(|holding| holding.places.clear());
        released
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len() - self.retired
    }

    fn take(&mut self, place: usize) -> Option<Content> {
        let entry = &mut self.entries[place];
        let content = entry.content.take()?;
        match entry.uses.checked_add(1) {
            Some(uses) => {
                (entry.uses, entry.tag) = (uses, self.tags.tag(place as u32, uses));
                self.free.push(place as u32);
            }
            None => self.retired += 1,
        }
        Some(content)
    }
}

/// Places are numbered from 1, since 0 is the registry.
fn id(place: u32, tag: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(place + 1)
}

#[inline]
fn place_of(id: u64) -> Option<usize> {
    (id as u32).checked_sub(1).map(|place| place as usize)
}

#[cfg(test)]
mod tests;
