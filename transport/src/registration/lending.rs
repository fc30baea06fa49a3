//! Memory that is registered though nobody has asked for it, since much is sent from it: blocks that objects lie in.
//!
//! Registering a block makes a device walk through its pages, which costs about what copying them does. Whether it pays
//! depends on what will be sent from the block, which nobody knows. So it is copied from until as much has been copied as
//! the block is long, and registered then: whatever comes, that costs no more than twice what the better choice would have (the
//! rule of whoever may rent skis or buy them). A block that is sent once is never registered.
//!
//! One that is refused, or has made room for others since, has to be copied from that much again: so a limit that is too
//! low costs little.

use std::sync::atomic::Ordering;

use super::{CACHE, Domain, Registration, Registrations, limit_bytes};
use crate::limits::LENT_SHARE;
#[cfg(feature = "verbs")]
use crate::link::lent::Owner;
use crate::memory::Shared;

impl Registrations {
    /// Whether copying has cost as much by now as registering `len` bytes does; if so, it is counted anew.
    fn has_paid(&self, len: usize) -> bool {
        let copied_bytes = self.copied_bytes.load(Ordering::Relaxed);
        let has_paid = copied_bytes >= len as u64;
        if has_paid {
            self.copied_bytes.store(0, Ordering::Relaxed);
        }
        has_paid
    }
}

impl Registration {
    /// A use of the registration with `domain` of all the block that `memory` is a part of, with the key by which the device knows
    /// it, if there is one or making it pays. Nothing if it is to be copied.
    pub(crate) fn where_it_pays(memory: &Shared, domain: &Domain) -> Option<(Self, Option<u32>)> {
        let (extent, registrations) = (memory.extent(), memory.extent().registrations());
        if let Some(found) = registrations.find(domain) {
            return Some(found);
        }
        if !registrations.has_paid(extent.len()) {
            return None;
        }
        let made = Self::make_within(limit_bytes() / LENT_SHARE, extent, domain);
        let made = made.inspect_err(|error| tracing::debug!(%error, "a block is copied from"));
        let _made = made.ok()?;
        registrations.find(domain)
    }
}

impl Registrations {
    /// A use of the registration with `domain`, if there is one.
    fn find(&self, domain: &Domain) -> Option<(Registration, Option<u32>)> {
        let key = domain.key();
        let known = self.known.lock();
        let (_, id) = known.iter().find(|(known, _)| *known == key)?;
        let mut cache = CACHE.lock();
        let key = cache.use_once_more(*id)?.key();
        Some((Registration { id: *id }, key))
    }
}

#[cfg(feature = "verbs")]
impl Owner for Registration {
    /// Nobody waits for it.
    fn lose(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, MemoryConfig, Purpose};
    use crate::registration::{Registration, registration_stats};

    /// The cache is the process's: cases take turns.
    static TURN: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

    fn shared(len: usize) -> Shared {
        let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 40 }).unwrap();
        memory.allocate(len, Purpose::Buffer).unwrap().freeze()
    }

    fn is_lent(memory: &Shared) -> bool {
        Registration::where_it_pays(memory, &Domain::Counted).is_some()
    }

    #[test]
    fn a_block_is_registered_when_as_much_has_been_copied_out_of_it_as_it_is_long() {
        let _turn = TURN.lock();
        let block = shared(64 << 10);
        let before = registration_stats();
        let (one, other) = (block.slice(0..8 << 10), block.slice(40 << 10..48 << 10));
        for round in 0..8 {
            assert!(!is_lent(&one), "{round}");
            one.extent().registrations().note_copied(one.len());
        }
        assert!(is_lent(&other), "parts of one block count together");
        assert!(is_lent(&one));
        let after = registration_stats();
        assert_eq!(after.made - before.made, 1);
        assert_eq!(after.reused, before.reused, "a send does not ask for a registration");
        assert_eq!(after.kept_bytes - before.kept_bytes, 64 << 10);
        drop((block, one, other));
        assert_eq!(registration_stats().kept_bytes, before.kept_bytes);
    }

    #[test]
    fn a_registration_is_in_use_until_the_last_send_from_the_block_is_done() {
        let _turn = TURN.lock();
        let block = shared(8 << 10);
        let used = || registration_stats().used_bytes;
        let before = used();
        block.extent().registrations().note_copied(8 << 10);
        let sends = [0, 1].map(|_| Registration::where_it_pays(&block, &Domain::Counted).unwrap());
        let [first, second] = sends;
        drop(first);
        assert_eq!(used() - before, 8 << 10);
        drop(second);
        assert_eq!(used(), before);
    }

    /// With a limit that leaves room for it, but not in the half that is for such blocks.
    #[test]
    fn what_nobody_has_asked_for_leaves_half_of_the_limit_to_others() {
        let _turn = TURN.lock();
        let limit_bytes = limit_bytes();
        let Ok(len) = usize::try_from(limit_bytes / 2 + (1 << 20)) else { return };
        if limit_bytes > 1 << 38 {
            return;
        }
        let block = shared(len);
        block.extent().registrations().note_copied(len);
        assert!(!is_lent(&block));
        assert!(!is_lent(&block), "it has to be copied from as much again");
        let small = shared(8 << 10);
        small.extent().registrations().note_copied(8 << 10);
        assert!(is_lent(&small));
        let asked = Registration::make(&small.try_reclaim().unwrap(), &Domain::Counted);
        assert!(asked.is_ok());
    }
}
