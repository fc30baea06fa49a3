//! Shared-memory links that the reactor looks at, instead of being rung for.
//!
//! A look costs a load that stays in the cache until the peer writes; a bell costs either side a
//! system call. So a link that had something to say is looked at until the reactor sleeps. Before
//! that, every such link is told to ring, and looked at once more.

use super::Reactor;
use crate::link::Link;
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

impl Awake {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

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
        if self.shm_at(place).is_some() {
            self.awake.note(place);
        }
    }

    /// Fills `ready` with the links that are, of those that are looked at. Returns whether there
    /// was one.
    #[inline]
    pub(super) fn look_at_awake(&mut self) -> bool {
        if self.awake.is_empty() {
            return false;
        }
        let many = self.awake.places.len() > AWAKE_MAX;
        let mut awake = std::mem::take(&mut self.awake.places);
        awake.retain_mut(|(place, looks)| {
            let Some((link, blocked)) = self.shm_at(*place) else { return false };
            let (readable, writable) = (link.is_readable(), blocked && link.is_writable());
            if readable || writable {
                *looks = 0;
                let token = Token(*place as u64);
                self.ready.push(Ready { token, readable, writable, told: false });
                return true;
            }
            *looks = looks.saturating_add(1);
            !(many && *looks > LOOKS_MAX && link.sleep())
        });
        self.awake.places = awake;
        !self.ready.is_empty()
    }

    /// Has all links ring that were looked at. Returns false if one has something already.
    pub(super) fn rest(&mut self) -> bool {
        let mut awake = std::mem::take(&mut self.awake.places);
        awake.retain(|(place, _)| self.shm_at(*place).is_some_and(|(link, _)| !link.sleep()));
        self.awake.places = awake;
        self.awake.is_empty()
    }

    /// The shared-memory link at `place`, and whether something waits for room on it.
    fn shm_at(&self, place: usize) -> Option<(&crate::link::ShmLink, bool)> {
        let core = &self.conversations.get(place)?.as_ref()?.core;
        match &core.link {
            Link::Shm(link) => Some((link, core.is_blocked())),
            Link::Tcp(_) | Link::Sim(_) => None,
        }
    }
}
