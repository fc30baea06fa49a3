//! Which pages of the region are free.
//!
//! Best fit, lowest address among equals, carved from the low end. The untouched rest of the region
//! is the longest free run until it is nearly used up, so that freed pages, which are resident, are
//! taken before new ones are touched.

use std::collections::{BTreeMap, BTreeSet};

/// A run of pages within the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: usize,
    pub(super) pages: usize,
}

/// The free runs of a region.
///
/// Invariants: runs do not overlap and do not touch (neighbours are one run), and both trees hold
/// the same runs.
#[derive(Debug)]
pub(super) struct Extents {
    /// Pages that stay free ahead of each run and behind it, where there is room.
    gap: usize,
    by_address: BTreeMap<usize, usize>,
    by_size: BTreeSet<(usize, usize)>,
}

impl Extents {
    pub(super) fn new(pages: usize, gap: usize) -> Extents {
        let mut extents = Extents { gap, by_address: BTreeMap::new(), by_size: BTreeSet::new() };
        if pages > 0 {
            extents.insert(Run { first: 0, pages });
        }
        extents
    }

    pub(super) fn allocate(&mut self, pages: usize) -> Option<Run> {
        debug_assert!(pages > 0, "a run has pages");
        let with_gaps = pages.saturating_add(2 * self.gap);
        let found = self.shortest(with_gaps).or_else(|| self.shortest(pages))?;
        let gap = self.gap.min(found.pages - pages);
        let run = Run { first: found.first + gap, pages };
        self.carve(found, run);
        Some(run)
    }

    /// Whether all of this run is free.
    pub(super) fn is_free(&self, run: Run) -> bool {
        self.around(run).is_some()
    }

    /// The free run that this one is a part of.
    fn around(&self, run: Run) -> Option<Run> {
        let (&first, &pages) = self.by_address.range(..=run.first).next_back()?;
        (run.first + run.pages <= first + pages).then_some(Run { first, pages })
    }

    /// Takes this run. Returns whether all of it was free; nothing has changed if not.
    pub(super) fn take(&mut self, run: Run) -> bool {
        let Some(free) = self.around(run) else { return false };
        self.carve(free, run);
        true
    }

    /// Leaves of a free run what is not of `run`, a part of it.
    fn carve(&mut self, free: Run, run: Run) {
        self.remove(free);
        let (end, free_end) = (run.first + run.pages, free.first + free.pages);
        if free.first < run.first {
            self.insert(Run { first: free.first, pages: run.first - free.first });
        }
        if end < free_end {
            self.insert(Run { first: end, pages: free_end - end });
        }
    }

    /// The shortest free run of at least so many pages.
    fn shortest(&self, pages_min: usize) -> Option<Run> {
        self.by_size.range((pages_min, 0)..).next().map(|&(pages, first)| Run { first, pages })
    }

    /// Takes back a run that [`Extents::allocate`] returned.
    pub(super) fn free(&mut self, run: Run) {
        let mut whole = run;
        if let Some((&first, &pages)) = self.by_address.range(..run.first).next_back() {
            assert!(first + pages <= run.first, "{run:?} is freed twice");
            if first + pages == run.first {
                self.remove(Run { first, pages });
                whole = Run { first, pages: pages + run.pages };
            }
        }
        if let Some((&first, &pages)) = self.by_address.range(run.first..).next() {
            assert!(run.first + run.pages <= first, "{run:?} is freed twice");
            if run.first + run.pages == first {
                self.remove(Run { first, pages });
                whole.pages += pages;
            }
        }
        self.insert(whole);
    }

    /// Pages of the longest free run.
    pub(super) fn largest_free(&self) -> usize {
        self.by_size.last().map_or(0, |&(pages, _)| pages)
    }

    /// All free runs, the longest first.
    pub(super) fn longest_first(&self) -> impl Iterator<Item = Run> {
        self.by_size.iter().rev().map(|&(pages, first)| Run { first, pages })
    }

    fn insert(&mut self, run: Run) {
        self.by_address.insert(run.first, run.pages);
        self.by_size.insert((run.pages, run.first));
    }

    fn remove(&mut self, run: Run) {
        self.by_address.remove(&run.first);
        self.by_size.remove(&(run.pages, run.first));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGES: usize = 200;

    #[derive(Clone, Debug)]
    enum Step {
        Allocate(usize),
        Free(prop::sample::Index),
        Take(Run),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (1_usize..40).prop_map(Step::Allocate),
            2 => any::<prop::sample::Index>().prop_map(Step::Free),
            1 => (0..PAGES - 20, 1_usize..20).prop_map(|(first, pages)| Step::Take(Run { first, pages })),
        ]
    }

    /// The longest stretch of free pages, found the slow way.
    fn longest_free(taken: &[bool]) -> usize {
        taken.split(|page| *page).map(<[bool]>::len).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn agrees_with_an_array_of_pages(
            gap in 0..3_usize,
            steps in prop::collection::vec(step(), 1..200),
        ) {
            let mut extents = Extents::new(PAGES, gap);
            let mut taken = [false; PAGES];
            let mut held = Vec::new();
            for step in steps {
                match step {
                    Step::Allocate(pages) => match extents.allocate(pages) {
                        Some(run) => {
                            prop_assert_eq!(run.pages, pages);
                            let pages = &mut taken[run.first..run.first + run.pages];
                            prop_assert!(pages.iter().all(|page| !page), "handed out twice");
                            pages.fill(true);
                            held.push(run);
                        }
                        None => prop_assert!(longest_free(&taken) < pages, "room was not found"),
                    },
                    Step::Free(index) if !held.is_empty() => {
                        let run = held.swap_remove(index.index(held.len()));
                        taken[run.first..run.first + run.pages].fill(false);
                        extents.free(run);
                    }
                    Step::Free(_) => {}
                    Step::Take(run) => {
                        let pages = &mut taken[run.first..run.first + run.pages];
                        prop_assert_eq!(extents.is_free(run), pages.iter().all(|page| !page));
                        prop_assert_eq!(extents.take(run), pages.iter().all(|page| !page));
                        if pages.iter().all(|page| !page) {
                            pages.fill(true);
                            held.push(run);
                        }
                    }
                }
                prop_assert_eq!(extents.largest_free(), longest_free(&taken));
                let free: usize = extents.by_address.values().sum();
                prop_assert_eq!(free, taken.iter().filter(|page| !**page).count());
                prop_assert_eq!(extents.by_address.len(), extents.by_size.len());
            }
        }
    }

    #[test]
    fn freed_pages_are_taken_before_the_untouched_rest() {
        let mut extents = Extents::new(100, 0);
        let runs: Vec<Run> = (0..4).map(|_| extents.allocate(10).unwrap()).collect();
        extents.free(runs[2]);
        extents.free(runs[0]);
        assert_eq!(extents.allocate(10).unwrap().first, 0);
        assert_eq!(extents.allocate(10).unwrap().first, 20);
        assert_eq!(extents.allocate(10).unwrap().first, 40);
    }

    #[test]
    fn runs_are_kept_apart_as_long_as_there_is_room() {
        let mut extents = Extents::new(12, 1);
        let firsts: Vec<usize> = (0..3).map(|_| extents.allocate(2).unwrap().first).collect();
        assert_eq!(firsts, [1, 4, 7]);
        assert_eq!(extents.allocate(2).unwrap().first, 10, "there is room for one gap only");
        extents.free(Run { first: 4, pages: 2 });
        assert_eq!(extents.allocate(4).unwrap(), Run { first: 3, pages: 4 }, "and for none here");
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn freeing_twice_is_a_bug() {
        let mut extents = Extents::new(10, 0);
        let run = extents.allocate(3).unwrap();
        extents.free(run);
        extents.free(run);
    }
}
