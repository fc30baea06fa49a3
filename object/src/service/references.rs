//! Which references have been given to which peers, and what they lead to.
//!
//! A reference is one holder's: passing an object twice makes two. So to count references is to count entries, to release one is to
//! free its entry, and a peer that dies gives up the entries that it holds. A number that was freed is not given again for a
//! different object, so one that comes late finds nothing.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use weft_transport::{Incarnation, NodeId, Peer};

use crate::types::Types;

use super::exported::Target;
use super::thread;

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
    pub(super) types: Types,
}

impl Drop for Held {
    /// The object may be dropped with its last reference, and its destructor may wait.
    fn drop(&mut self) {
        if thread::is_receiving() {
            thread::put_aside(Box::new(Arc::clone(&self.target)));
        }
    }
}

#[derive(Default)]
struct Entry {
    /// How often its place was used.
    generation: u32,
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
    /// By which references were given. When the last has ended, so have these.
    connections: Vec<u64>,
}

impl Holding {
    /// Adds a connection. Returns whether it is new.
    fn add(&mut self, connection: u64, unwatched: &mut usize) -> bool {
        if self.connections.contains(&connection) {
            return false;
        }
        // Of a holder that is new nothing has been counted.
        if self.connections.is_empty() && !self.places.is_empty() {
            *unwatched -= 1;
        }
        self.connections.push(connection);
        true
    }
}

/// All references that were given.
#[derive(Default)]
pub(super) struct References {
    entries: Vec<Entry>,
    free: Vec<u32>,
    holders: HashMap<Holder, Holding>,
    /// Holders none of whose connections is watched: the last has made way for one that nothing has come by yet.
    unwatched: usize,
}

/// A reference that was given.
pub(super) struct Given {
    pub(super) id: u64,
    /// It is the first that was given by this connection, whose end nobody waits for yet.
    pub(super) is_first: bool,
}

impl References {
    /// A new reference of `holder`'s, which it is given by `connection`. If it has `limit` already, `held` comes back: the caller drops it, who holds no
    /// lock then.
    pub(super) fn give(
        &mut self,
        (holder, connection): (Holder, u64),
        held: Held,
        limit: usize,
    ) -> Result<Given, Held> {
        let count = self.holders.get(&holder).map_or(0, |holding| holding.places.len());
        if count >= limit {
            return Err(held);
        }
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                let place = u32::try_from(self.entries.len());
                let Some(place) = place.ok().filter(|place| *place < u32::MAX) else {
                    return Err(held);
                };
                self.entries.push(Entry::default());
                place
            }
        };
        let holding = self.holders.entry(holder).or_default();
        let is_first = holding.add(connection, &mut self.unwatched);
        let entry = &mut self.entries[place as usize];
        let listed = holding.places.len();
        holding.places.push(place);
        entry.content = Some(Content { holder, listed, held: Arc::new(held) });
        Ok(Given { id: id(place, entry.generation), is_first })
    }

    /// What a reference of `holder`'s leads to.
    #[inline]
    pub(super) fn find(&self, id: u64, holder: Holder) -> Option<&Arc<Held>> {
        let entry = self.entries.get(place_of(id)?)?;
        let content = entry.content.as_ref().filter(|content| content.holder == holder)?;
        (entry.generation == (id >> 32) as u32).then_some(&content.held)
    }

    /// Has a reference of `holder`'s lead to the same object by another list of types. Returns what it was, if there is one, which the caller drops.
    pub(super) fn agree(&mut self, id: u64, holder: Holder, types: Types) -> Option<Arc<Held>> {
        let target = Arc::clone(&self.find(id, holder)?.target);
        let content = self.entries[place_of(id)?].content.as_mut()?;
        Some(mem::replace(&mut content.held, Arc::new(Held { target, types })))
    }

    /// Takes a reference of `holder`'s back. What it led to is dropped by the caller, who holds no lock then.
    pub(super) fn release(&mut self, id: u64, holder: Holder) -> Option<Arc<Held>> {
        self.find(id, holder)?;
        let place = place_of(id)?;
        let content = self.take(place)?;
        let holding = self.holders.get_mut(&holder)?;
        holding.places.swap_remove(content.listed);
        if holding.places.is_empty() && holding.connections.is_empty() {
            self.unwatched -= 1;
            self.holders.remove(&holder);
            return Some(content.held);
        }
        let moved = holding.places.get(content.listed).copied();
        if let Some(moved) = moved.and_then(|moved| self.entries[moved as usize].content.as_mut()) {
            moved.listed = content.listed;
        }
        Some(content.held)
    }

    /// A connection of `holder`'s has ended. Returns what is released by that: all that it holds, unless it is there by another one, or is
    /// about to be, since this one has `made_way` for that.
    pub(super) fn end(
        &mut self,
        (holder, connection): (Holder, u64),
        made_way: bool,
    ) -> Vec<Arc<Held>> {
        let Some(holding) = self.holders.get_mut(&holder) else { return Vec::new() };
        let count = holding.connections.len();
        holding.connections.retain(|open| *open != connection);
        if !holding.connections.is_empty() || holding.connections.len() == count {
            return Vec::new();
        }
        if made_way && !holding.places.is_empty() {
            self.unwatched += 1;
            return Vec::new();
        }
        let places = self.holders.remove(&holder).map(|holding| holding.places);
        let places = places.unwrap_or_default().into_iter();
        places.filter_map(|place| self.take(place as usize)).map(|content| content.held).collect()
    }

    /// All that references lead to, when there are to be none any more.
    pub(super) fn take_all(&mut self) -> Vec<Arc<Held>> {
        let all = mem::take(self).entries.into_iter();
        all.filter_map(|entry| entry.content).map(|content| content.held).collect()
    }

    /// Whether something is to be done with what comes by a connection that is not known.
    #[inline]
    pub(super) fn has_unwatched(&self) -> bool {
        self.unwatched > 0
    }

    /// Something has come from `holder` by `connection`. Returns whether it is the one that another has made way for, whose end nobody waits for yet.
    pub(super) fn adopt(&mut self, (holder, connection): (Holder, u64)) -> bool {
        let holding = self.holders.get_mut(&holder);
        let holding = holding.filter(|holding| holding.connections.is_empty());
        holding.is_some_and(|holding| holding.add(connection, &mut self.unwatched))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    fn take(&mut self, place: usize) -> Option<Content> {
        let entry = &mut self.entries[place];
        let content = entry.content.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(place as u32);
        Some(content)
    }
}

/// Places are numbered from 1, since 0 is the registry.
fn id(place: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(place + 1)
}

#[inline]
fn place_of(id: u64) -> Option<usize> {
    (id as u32).checked_sub(1).map(|place| place as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::item::Reader;
    use crate::service::{Answer, Contract};

    struct Nothing;

    impl Target for Nothing {
        fn contract(&self) -> &'static Contract {
            unreachable!("nobody asks")
        }

        fn dispatch(&self, _: u16, _: Reader<'_>, _: Answer<'_, '_>) {
            unreachable!("nobody calls")
        }
    }

    fn held() -> Held {
        Held { target: Arc::new(Nothing), types: Types::new() }
    }

    fn holder(node: u64) -> Holder {
        Holder { node: NodeId(node), incarnation: Incarnation(1) }
    }

    fn give(references: &mut References, node: u64, connection: u64) -> u64 {
        references.give((holder(node), connection), held(), 10).ok().unwrap().id
    }

    #[test]
    fn a_reference_is_its_holders_alone_and_ends_with_its_release() {
        let mut references = References::default();
        let ids = [1, 1, 2].map(|node| give(&mut references, node, node));
        assert!(references.find(ids[0], holder(2)).is_none(), "somebody else's");
        assert!(references.release(ids[0], holder(2)).is_none(), "somebody else's");
        assert!(references.release(ids[0], holder(1)).is_some());
        assert!(references.release(ids[0], holder(1)).is_none(), "twice");
        let again = give(&mut references, 1, 1);
        assert_ne!(again, ids[0], "a late call finds nothing");
        assert!(references.find(ids[0], holder(1)).is_none());
        for id in [ids[1], again] {
            assert!(references.release(id, holder(1)).is_some());
        }
        assert_eq!(references.len(), 1);
    }

    #[test]
    fn the_end_of_a_holders_last_connection_releases_all_that_it_holds() {
        let mut references = References::default();
        for connection in [7, 8, 7] {
            give(&mut references, 1, connection);
        }
        give(&mut references, 2, 9);
        assert_eq!(references.end((holder(1), 7), false).len(), 0, "there is another one");
        assert_eq!(references.end((holder(1), 7), false).len(), 0, "told twice");
        assert_eq!(references.end((holder(1), 8), false).len(), 3);
        assert_eq!(references.len(), 1);
        assert_eq!(references.end((holder(2), 9), false).len(), 1);
        assert_eq!(references.len(), 0);
    }

    #[test]
    fn a_connection_that_makes_way_leaves_its_references_to_the_one_that_takes_its_place() {
        let mut references = References::default();
        give(&mut references, 1, 7);
        assert!(!references.adopt((holder(1), 7)) && !references.has_unwatched());
        assert_eq!(references.end((holder(1), 7), true).len(), 0);
        assert!(references.has_unwatched());
        assert!(!references.adopt((holder(2), 8)), "somebody else's");
        assert!(references.adopt((holder(1), 9)), "whose end is to be waited for");
        assert!(!references.adopt((holder(1), 9)) && !references.has_unwatched());
        assert_eq!(references.end((holder(1), 9), false).len(), 1);
        // Likewise if a reference is what comes first.
        give(&mut references, 1, 10);
        assert_eq!(references.end((holder(1), 10), true).len(), 0);
        give(&mut references, 1, 11);
        assert!(!references.has_unwatched());
        assert_eq!(references.end((holder(1), 11), false).len(), 2);
        assert_eq!(references.len(), 0);
    }

    #[test]
    fn a_peer_holds_no_more_than_it_may() {
        let mut references = References::default();
        let mut give = || references.give((holder(1), 1), held(), 2);
        let given = [give(), give(), give()].map(|given| given.ok().map(|given| given.is_first));
        assert_eq!(given, [Some(true), Some(false), None]);
    }

    #[test]
    fn numbers_that_were_never_given_find_nothing() {
        let mut references = References::default();
        let id = give(&mut references, 1, 1);
        for wrong in [0, id + 1, id | 1 << 32, u64::MAX, 1 << 32] {
            assert!(references.find(wrong, holder(1)).is_none(), "{wrong:#x}");
            assert!(references.release(wrong, holder(1)).is_none(), "{wrong:#x}");
            assert!(references.agree(wrong, holder(1), Types::new()).is_none(), "{wrong:#x}");
        }
    }
}
