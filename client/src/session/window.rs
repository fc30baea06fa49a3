//! Which mutations are under way, by their sequences: what is handed out next, and which is the first that is not done.
//!
//! Without a lock. Whoever begins takes the next sequences by one compare-and-swap; whoever ends marks its own, which is one store. The mark of a
//! sequence is the number of its lap around the ring, so that none is ever taken back, and one that is late can be taken
//! for no other.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::limits::SEQUENCES_MAX;

/// Sequences from 1 on, of which [`SEQUENCES_MAX`] can be ahead of the first that is not done.
#[derive(Debug)]
pub(super) struct Window {
    next: AtomicU64,
    /// None below it is under way. May be behind: whoever begins brings it up.
    first: AtomicU64,
    /// Of each sequence, by its place in the ring, the last lap in which it was done. Made when the first is handed out.
    done: Box<[AtomicU8]>,
}

const _: () = assert!(SEQUENCES_MAX.is_power_of_two() && SEQUENCES_MAX <= u32::MAX as u64);

impl Window {
    pub(super) fn new() -> Self {
        let done = (0..SEQUENCES_MAX).map(|_| AtomicU8::new(0)).collect();
        Self { next: AtomicU64::new(1), first: AtomicU64::new(1), done }
    }

    /// The first of `count` sequences that follow one another, unless that were too many.
    #[inline]
    pub(super) fn take(&self, count: u64) -> Option<u64> {
        let first = self.advance();
        let mut next = self.next.load(Ordering::Relaxed);
        // Sequences that were handed out since `first` was looked at are none too many: it only grows.
        while next + count - first <= SEQUENCES_MAX {
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            match self.next.compare_exchange_weak(next, next + count, success, failure) {
                Ok(_) => return Some(next),
                Err(newer) => next = newer,
            }
        }
        None
    }

    /// The first that is not done, or one below it.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        self.first.load(Ordering::Acquire)
    }

    /// `sequence` was taken, and nobody will ask for it again.
    #[inline]
    pub(super) fn complete(&self, sequence: u64) {
        self.place(sequence).store(lap(sequence), Ordering::Release);
    }

    /// Brings the first that is not done up to what is known, and returns it.
    #[inline]
    fn advance(&self) -> u64 {
        let known = self.first.load(Ordering::Acquire);
        let mut first = known;
        // Whoever takes the sequence a lap ahead of one has seen that the first is beyond it, so a mark of this lap is that of this sequence.
        while self.place(first).load(Ordering::Acquire) == lap(first) {
            first += 1;
        }
        if first == known {
            return known;
        }
        // Whoever was faster may not be as far; whoever begins next is.
        match self.first.compare_exchange(known, first, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => first,
            Err(newer) => newer,
        }
    }

    #[inline]
    fn place(&self, sequence: u64) -> &AtomicU8 {
        &self.done[(sequence % SEQUENCES_MAX) as usize]
    }
}

/// Which time around the ring it is. Never that of the lap before; places begin with the one before the first.
#[inline]
fn lap(sequence: u64) -> u8 {
    (sequence / SEQUENCES_MAX + 1) as u8
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicBool;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Take(u64),
        /// The sequence at this place among those under way.
        Complete(usize),
        /// All but the oldest ones.
        CompleteMost(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (1..5_u64).prop_map(Step::Take),
            1 => (1..=SEQUENCES_MAX).prop_map(Step::Take),
            6 => (0..64_usize).prop_map(Step::Complete),
            1 => (0..3_usize).prop_map(Step::CompleteMost),
        ];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_window_is_what_a_set_of_sequences_is(steps in steps()) {
            let window = Window::new();
            let mut next = 1;
            let mut under_way = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Take(count) => {
                        let first = under_way.first().copied().unwrap_or(next);
                        let expected = (next + count - first <= SEQUENCES_MAX).then_some(next);
                        prop_assert_eq!(window.take(count), expected);
                        if expected.is_some() {
                            under_way.extend(next..next + count);
                            next += count;
                        }
                    }
                    Step::Complete(at) => {
                        let chosen = under_way.iter().nth(at).copied();
                        if let Some(sequence) = chosen {
                            under_way.remove(&sequence);
                            window.complete(sequence);
                        }
                    }
                    Step::CompleteMost(left) => {
                        let rest = under_way.iter().nth(left).copied().unwrap_or(next);
                        under_way.split_off(&rest).into_iter().for_each(|sequence| {
                            window.complete(sequence);
                        });
                    }
                }
                let first = under_way.first().copied().unwrap_or(next);
                prop_assert!(window.first() <= first);
                prop_assert_eq!(window.advance(), first);
            }
        }
    }

    #[test]
    fn laps_that_go_round_are_told_apart() {
        let window = Window::new();
        for lap in 0..600_u64 {
            let first = window.take(SEQUENCES_MAX).unwrap();
            assert_eq!(first, 1 + lap * SEQUENCES_MAX);
            assert_eq!(window.take(1), None);
            for sequence in (first + 1..first + SEQUENCES_MAX).rev() {
                window.complete(sequence);
            }
            assert_eq!(window.advance(), first);
            window.complete(first);
            if lap > 3 && lap < 500 {
                continue;
            }
            assert_eq!(window.advance(), first + SEQUENCES_MAX);
        }
    }

    #[test]
    fn threads_never_get_the_same_sequence_nor_leave_one_behind() {
        const EACH: u64 = 50_000;
        let window = Window::new();
        let is_wrong = AtomicBool::new(false);
        let owners: Vec<_> = (0..=4 * EACH).map(|_| AtomicU8::new(0)).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let Some(sequence) = window.take(1) else { continue };
                        let taken = owners[sequence as usize].fetch_add(1, Ordering::Relaxed);
                        if taken > 0 || window.first() > sequence {
                            is_wrong.store(true, Ordering::Relaxed);
                        }
                        window.complete(sequence);
                    }
                });
            }
        });
        assert!(!is_wrong.load(Ordering::Relaxed));
        assert_eq!(window.advance(), window.next.load(Ordering::Relaxed));
    }
}
