//! Which registrations there are, in use or kept, and who has to go when one more does not fit.

use std::collections::BTreeMap;

use super::{Pinned, RegisterError};

/// All registrations of the process. Pure bookkeeping: the limit is handed in.
#[derive(Debug)]
pub(super) struct Cache {
    entries: BTreeMap<u64, Entry>,
    /// What is kept without being in use, by the time at which it was last.
    kept: BTreeMap<u64, u64>,
    /// Of all entries, and of what is about to become one.
    registered_bytes: u64,
    kept_bytes: u64,
    /// Grows with every event: names entries, and tells the time.
    clock: u64,
    made: u64,
    reused: u64,
    evicted: u64,
}

#[derive(Debug)]
struct Entry {
    bytes: u64,
    /// How many use it: its owner, and sends from memory that is shared.
    uses: usize,
    /// Since when it has been out of use.
    kept_since: Option<u64>,
    pinned: Pinned,
}

/// Whether a registration is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Here,
    Evicted,
}

/// How many bytes users have registered in this process, and links to send from, and how that came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistrationStats {
    /// The soft limit of `RLIMIT_MEMLOCK`, in bytes; `u64::MAX` without one.
    pub limit_bytes: u64,
    /// Registered and in use, in bytes of whole pages.
    pub used_bytes: u64,
    /// Registered and not in use, until the memory goes or somebody else needs the room.
    pub kept_bytes: u64,
    /// Registrations made so far.
    pub made: u64,
    /// Those that were there already when they were asked for.
    pub reused: u64,
    /// Those that went to make room.
    pub evicted: u64,
}

impl Cache {
    pub(super) const fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            kept: BTreeMap::new(),
            registered_bytes: 0,
            kept_bytes: 0,
            clock: 0,
            made: 0,
            reused: 0,
            evicted: 0,
        }
    }

    pub(super) fn stats(&self, limit_bytes: u64) -> RegistrationStats {
        RegistrationStats {
            limit_bytes,
            used_bytes: self.registered_bytes - self.kept_bytes,
            kept_bytes: self.kept_bytes,
            made: self.made,
            reused: self.reused,
            evicted: self.evicted,
        }
    }

    /// Whether registration `id` is there.
    pub(super) fn look(&self, id: u64) -> Found {
        if self.entries.contains_key(&id) { Found::Here } else { Found::Evicted }
    }

    /// Registration `id`, if it is in use.
    #[cfg(feature = "verbs")]
    pub(super) fn in_use(&self, id: u64) -> Option<&Pinned> {
        let entry = self.entries.get(&id)?;
        entry.kept_since.is_none().then_some(&entry.pinned)
    }

    /// Uses registration `id` again, if it is there.
    pub(super) fn use_again(&mut self, id: u64) -> Found {
        if self.use_once_more(id).is_none() {
            return Found::Evicted;
        }
        self.reused += 1;
        Found::Here
    }

    /// Uses registration `id`, if it is there, for one send of many: that does not count as asking for it again.
    pub(super) fn use_once_more(&mut self, id: u64) -> Option<&Pinned> {
        let entry = self.entries.get_mut(&id)?;
        entry.uses += 1;
        if let Some(since) = entry.kept_since.take() {
            self.kept.remove(&since);
            self.kept_bytes -= entry.bytes;
        }
        Some(&entry.pinned)
    }

    /// Makes room for `bytes` under `limit_bytes`, and counts them. Returns what had to go for it.
    ///
    /// # Errors
    /// [`RegisterError::LimitReached`] if what is in use leaves no room; then nothing goes.
    pub(super) fn reserve(
        &mut self,
        bytes: u64,
        limit_bytes: u64,
    ) -> Result<Vec<Pinned>, RegisterError> {
        let used_bytes = self.registered_bytes - self.kept_bytes;
        if used_bytes.checked_add(bytes).is_none_or(|sum| sum > limit_bytes) {
            let requested_bytes = bytes;
            return Err(RegisterError::LimitReached { requested_bytes, used_bytes, limit_bytes });
        }
        let mut evicted = Vec::new();
        while self.registered_bytes + bytes > limit_bytes {
            let (_, id) = self.kept.first_key_value().expect("what is not in use is kept");
            evicted.extend(self.remove(*id));
            self.evicted += 1;
        }
        self.registered_bytes += bytes;
        Ok(evicted)
    }

    /// Gives up what was reserved.
    pub(super) fn give_up(&mut self, bytes: u64) {
        self.registered_bytes -= bytes;
    }

    /// Adds a registration in use, for which `bytes` have been reserved. Returns its name.
    pub(super) fn insert(&mut self, bytes: u64, pinned: Pinned) -> u64 {
        self.clock += 1;
        self.made += 1;
        self.entries.insert(self.clock, Entry { bytes, uses: 1, kept_since: None, pinned });
        self.clock
    }

    /// One use of registration `id` has ended. After the last it is kept.
    pub(super) fn end_use(&mut self, id: u64) {
        self.clock += 1;
        // The memory may have gone first, and the registration with it.
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.uses -= 1;
        if entry.uses > 0 {
            return;
        }
        entry.kept_since = Some(self.clock);
        self.kept.insert(self.clock, id);
        self.kept_bytes += entry.bytes;
    }

    /// Takes out registration `id`, if it is there, to be undone by who gets it.
    pub(super) fn remove(&mut self, id: u64) -> Option<Pinned> {
        let entry = self.entries.remove(&id)?;
        if let Some(since) = entry.kept_since {
            self.kept.remove(&since);
            self.kept_bytes -= entry.bytes;
        }
        self.registered_bytes -= entry.bytes;
        Some(entry.pinned)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: u64 = 100;

    fn make(cache: &mut Cache, bytes: u64) -> Result<u64, RegisterError> {
        cache.reserve(bytes, LIMIT)?;
        Ok(cache.insert(bytes, Pinned::Counted))
    }

    #[test]
    fn what_has_been_out_of_use_for_longest_goes_first() {
        let mut cache = Cache::new();
        let [first, second, third] = [30, 30, 30].map(|bytes| make(&mut cache, bytes).unwrap());
        for id in [second, first, third] {
            cache.end_use(id);
        }
        assert_eq!(cache.use_again(second), Found::Here);
        cache.end_use(second);
        make(&mut cache, 40).unwrap();
        assert_eq!(cache.look(first), Found::Evicted);
        assert_eq!([cache.look(second), cache.look(third)], [Found::Here; 2]);
        make(&mut cache, 30).unwrap();
        assert_eq!([cache.look(second), cache.look(third)], [Found::Here, Found::Evicted]);
        let stats = cache.stats(LIMIT);
        assert_eq!((stats.made, stats.reused, stats.evicted), (5, 1, 2));
        assert_eq!((stats.used_bytes, stats.kept_bytes), (70, 30));
    }

    #[test]
    fn what_is_in_use_stays_and_the_error_says_how_much_that_is() {
        let mut cache = Cache::new();
        let used = make(&mut cache, 60).unwrap();
        let kept = make(&mut cache, 30).unwrap();
        cache.end_use(kept);
        let error =
            RegisterError::LimitReached { requested_bytes: 41, used_bytes: 60, limit_bytes: LIMIT };
        assert_eq!(make(&mut cache, 41), Err(error));
        assert_eq!([cache.look(used), cache.look(kept)], [Found::Here; 2], "in vain nothing goes");
        assert!(make(&mut cache, u64::MAX).is_err());
        assert!(make(&mut cache, 40).is_ok());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Make(u64),
        UseAgain(prop::sample::Index),
        EndUse(prop::sample::Index),
        Remove(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1..60_u64).prop_map(Step::Make),
            any::<prop::sample::Index>().prop_map(Step::UseAgain),
            any::<prop::sample::Index>().prop_map(Step::EndUse),
            any::<prop::sample::Index>().prop_map(Step::Remove),
        ]
    }

    proptest! {
        #[test]
        fn no_more_is_ever_registered_than_the_limit(steps in prop::collection::vec(step(), 1..200)) {
            let mut cache = Cache::new();
            // Name, bytes, whether it is in use.
            let mut all: Vec<(u64, u64, bool)> = Vec::new();
            for step in steps {
                match step {
                    Step::Make(bytes) => {
                        let used: u64 = all.iter().filter(|e| e.2).map(|e| e.1).sum();
                        let made = make(&mut cache, bytes);
                        prop_assert_eq!(made.is_ok(), used + bytes <= LIMIT);
                        all.extend(made.ok().map(|id| (id, bytes, true)));
                    }
                    Step::UseAgain(at) if !all.is_empty() => {
                        let at = at.index(all.len());
                        if !all[at].2 {
                            prop_assert_eq!(cache.use_again(all[at].0), Found::Here);
                            all[at].2 = true;
                        }
                    }
                    Step::EndUse(at) if !all.is_empty() => {
                        let at = at.index(all.len());
                        if std::mem::replace(&mut all[at].2, false) {
                            cache.end_use(all[at].0);
                        }
                    }
                    Step::Remove(at) if !all.is_empty() => {
                        let (id, ..) = all.swap_remove(at.index(all.len()));
                        prop_assert!(cache.remove(id).is_some());
                    }
                    _ => {}
                }
                all.retain(|(id, _, used)| *used || cache.look(*id) == Found::Here);
                let stats = cache.stats(LIMIT);
                let sum = |used: bool| all.iter().filter(|e| e.2 == used).map(|e| e.1).sum::<u64>();
                prop_assert_eq!((stats.used_bytes, stats.kept_bytes), (sum(true), sum(false)));
                prop_assert!(stats.used_bytes + stats.kept_bytes <= LIMIT);
            }
        }
    }
}
