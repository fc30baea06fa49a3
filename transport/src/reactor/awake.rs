//! Links that the reactor looks at in memory, instead of being rung for.
//!
//! A look costs a load that stays in the cache until the peer writes; a bell costs either side a
//! system call. So a link that had something to say is looked at until the reactor sleeps. Before
//! that, every such link is told to ring, and looked at once more. Connections over verbs share one
//! queue: it says which of them have something, so only those are looked at, and one bell rings for
//! all.

use super::Reactor;
use crate::link::{Link, ShmLink, VerbsLink};
use crate::poller::{Ready, Token};

/// With more links awake than this, those that had nothing for [`LOOKS_MAX`] looks are told to
/// ring: a thousand quiet ones are not looked at for the sake of one that speaks.
const AWAKE_MAX: usize = 32;

const LOOKS_MAX: u32 = 64;

/// The places of links that do not ring, each with how often it was looked at in vain.
#[derive(Debug, Default)]
pub(super) struct Awake {
    places: Vec<(usize, u32)>,
}

/// A link that can be looked at.
enum InMemory<'a> {
    Shm(&'a ShmLink),
    Verbs(&'a VerbsLink),
}

impl Awake {
    /// The link at `place` does not ring.
    pub(super) fn note(&mut self, place: usize) {
        if !self.places.iter().any(|(noted, _)| *noted == place) {
            self.places.push((place, 0));
        }
    }
}

impl Reactor {
    /// Looks at the connection at `place` from now on, if that can be done.
    pub(super) fn keep_awake(&mut self, place: usize) {
        if self.in_memory_at(place).is_some() {
            self.awake.note(place);
        }
    }

    /// Whether there is nothing to look at.
    pub(super) fn is_all_quiet(&self) -> bool {
        self.awake.places.is_empty() && !self.port.as_ref().is_some_and(|port| port.is_used())
    }

    /// Fills `ready` with the links that are, of those that are looked at. Returns whether there
    /// was one.
    #[inline]
    pub(super) fn look_at_awake(&mut self) -> bool {
        if let Some(port) = &self.port
            && port.is_used()
        {
            port.poll_for(|place| self.awake.note(place));
            port.take_noted(|place| self.awake.note(place));
        }
        if self.awake.places.is_empty() {
            return false;
        }
        let many = self.awake.places.len() > AWAKE_MAX;
        let mut awake = std::mem::take(&mut self.awake.places);
        awake.retain_mut(|(place, looks)| {
            let Some((link, blocked)) = self.in_memory_at(*place) else { return false };
            let (readable, writable) = match &link {
                InMemory::Shm(link) => (link.is_readable(), blocked && link.is_writable()),
                InMemory::Verbs(link) => {
                    if !link.is_readable() {
                        // There is time for it. It may fail, or find that something has come after all.
                        link.tidy();
                    }
                    (link.is_readable(), blocked && link.is_writable())
                }
            };
            if readable || writable {
                *looks = 0;
                let token = Token(*place as u64);
                self.ready.push(Ready { token, readable, writable, told: false });
                return true;
            }
            *looks = looks.saturating_add(1);
            match link {
                InMemory::Shm(link) => !(many && *looks > LOOKS_MAX && link.sleep()),
                // Whether it is writable may be asked again; of all else the queue tells.
                InMemory::Verbs(_) => blocked,
            }
        });
        self.awake.places = awake;
        !self.ready.is_empty()
    }

    /// Has all links ring that were looked at. Returns false if one has something already.
    pub(super) fn rest(&mut self) -> bool {
        let mut awake = std::mem::take(&mut self.awake.places);
        let mut any = false;
        awake.retain(|(place, _)| match self.in_memory_at(*place) {
            Some((InMemory::Shm(link), _)) => {
                let stays = !link.sleep();
                any |= stays;
                stays
            }
            Some((InMemory::Verbs(link), blocked)) => {
                let stays = link.is_readable() || blocked && link.is_writable();
                any |= stays;
                stays || blocked
            }
            None => false,
        });
        self.awake.places = awake;
        !any && self.port.as_ref().is_none_or(|port| !port.is_used() || port.arm())
    }

    /// The link at `place`, if it can be looked at, and whether something waits for room on it.
    fn in_memory_at(&self, place: usize) -> Option<(InMemory<'_>, bool)> {
        let core = &self.conversations.get(place)?.as_ref()?.core;
        let link = match &core.link {
            Link::Shm(link) => InMemory::Shm(link),
            Link::Verbs(link) if link.plain().is_none() => InMemory::Verbs(link),
            Link::Tcp(_) | Link::Verbs(_) | Link::Sim(_) => return None,
        };
        Some((link, core.is_blocked()))
    }
}
