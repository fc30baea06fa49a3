//! Which receives a device has, and which of them it will never give back.
//!
//! A shared receive that a message had begun to fill when its queue pair went is lost: no completion tells
//! of it. Devices take receives in the order in which they were posted. So once one that was posted after
//! the pair had gone has come back, those posted before it that have not are being filled for another pair,
//! or lost. Either way as many are to be posted in their place. Their memory stays as it is, and one that
//! comes back after all is one more than is needed.

/// The receives that a device has, by place.
#[derive(Debug)]
pub(in crate::link) struct Postings<T> {
    places: Vec<Option<Posting<T>>>,
    free: Vec<usize>,
    /// The number of the next to be posted.
    next: u64,
    /// Those up to here, without it, have been replaced if they are not back.
    settled: u64,
    /// Those below this may be lost, since a pair has gone.
    suspected: u64,
    /// Replacements are due.
    due: bool,
    /// How many have come back that had been replaced.
    surplus: usize,
}

#[derive(Debug)]
struct Posting<T> {
    number: u64,
    receive: T,
}

impl<T> Default for Postings<T> {
    fn default() -> Self {
        let (places, free) = (Vec::new(), Vec::new());
        Self { places, free, next: 0, settled: 0, suspected: 0, due: false, surplus: 0 }
    }
}

impl<T> Postings<T> {
    /// The device is given `receive`. Returns its place, or the receive if there is one too many.
    pub(in crate::link) fn post(&mut self, receive: T) -> Result<usize, T> {
        if self.surplus > 0 {
            self.surplus -= 1;
            return Err(receive);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[place] = Some(Posting { number: self.next, receive });
        self.next += 1;
        Ok(place)
    }

    /// The device gives back what is at `place`, if it has that.
    pub(in crate::link) fn take(&mut self, place: usize) -> Option<T> {
        let Posting { number, receive } = self.places.get_mut(place)?.take()?;
        self.free.push(place);
        self.surplus += usize::from(number < self.settled);
        self.due |= self.suspected > self.settled && number >= self.suspected;
        Some(receive)
    }

    /// A queue pair is gone.
    pub(in crate::link) fn suspect(&mut self) {
        // What was suspected before is looked at together with what is now.
        self.suspected = self.next;
    }

    /// Whether some are to be posted in the place of those that do not come back.
    pub(in crate::link) fn is_due(&self) -> bool {
        self.due
    }

    /// How many are to be posted in the place of those that do not come back.
    pub(in crate::link) fn take_due(&mut self) -> usize {
        if !std::mem::take(&mut self.due) {
            return 0;
        }
        let between = self.settled..self.suspected;
        self.settled = self.suspected;
        let postings = self.places.iter().flatten();
        postings.filter(|posting| between.contains(&posting.number)).count()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const RECEIVES: usize = 8;

    /// A device that takes receives in order: those it has yet to take, and those that pairs are filling.
    #[derive(Default)]
    struct Device {
        queue: VecDeque<usize>,
        pairs: [Option<usize>; 3],
    }

    proptest! {
        /// However messages come and pairs go in the middle of one: whatever has been lost is replaced soon
        /// after, and there are never more than were given.
        #[test]
        fn lost_receives_are_replaced_and_no_others(
            steps in prop::collection::vec((0usize..3, 0u8..8), 0..400)
        ) {
            let mut postings = Postings::default();
            let mut device = Device::default();
            let mut replaced = 0;
            let mut lost = 0;
            let give = |postings: &mut Postings<u8>, device: &mut Device| {
                if let Ok(place) = postings.post(0) {
                    device.queue.push_back(place);
                }
            };
            for _ in 0..RECEIVES {
                give(&mut postings, &mut device);
            }
            let round = |postings: &mut Postings<u8>, device: &mut Device, pair: usize, what: u8| {
                let mut went = 0;
                match what {
                    // A message begins, if there is none on that pair.
                    0..=2 => {
                        if device.pairs[pair].is_none() {
                            device.pairs[pair] = device.queue.pop_front();
                        }
                    }
                    // It ends, and its receive is posted again.
                    3..=6 => {
                        if let Some(place) = device.pairs[pair].take() {
                            postings.take(place).unwrap();
                            give(postings, device);
                        }
                    }
                    // The pair goes.
                    _ => {
                        went = usize::from(device.pairs[pair].take().is_some());
                        postings.suspect();
                    }
                }
                let due = postings.take_due();
                for _ in 0..due {
                    give(postings, device);
                }
                (went, due)
            };
            for (pair, what) in steps {
                let (went, due) = round(&mut postings, &mut device, pair, what);
                lost += went;
                replaced += due;
                let there = device.queue.len() + device.pairs.iter().flatten().count();
                // Those that pairs are filling may have been replaced, too.
                prop_assert!(there <= RECEIVES + device.pairs.len());
                prop_assert!(lost < RECEIVES || there > 0 || replaced < lost);
                if there < device.pairs.len() {
                    return Ok(());
                }
            }
            // All messages end; enough others come and go for every receive to have had its turn.
            for turn in 0..4 * RECEIVES {
                for what in [0, 3] {
                    for pair in 0..3 {
                        round(&mut postings, &mut device, (pair + turn) % 3, what);
                    }
                }
            }
            prop_assert_eq!(device.queue.len(), RECEIVES);
        }
    }

    #[test]
    fn what_comes_back_late_is_not_posted_again() {
        let mut postings = Postings::default();
        let places: Vec<usize> = (0..3).map(|name| postings.post(name).unwrap()).collect();
        postings.suspect();
        assert_eq!(postings.take_due(), 0);
        assert_eq!(postings.take(places[1]), Some(1));
        let later = postings.post(1).unwrap();
        assert_eq!(postings.take_due(), 0, "those before it may come yet");
        assert!(!postings.is_due());
        assert_eq!(postings.take(later), Some(1));
        assert!(postings.is_due());
        assert_eq!(postings.take_due(), 2);
        assert_eq!((postings.post(7).is_ok(), postings.post(8).is_ok()), (true, true));
        assert_eq!(postings.take(places[0]), Some(0), "it was being filled all the time");
        assert_eq!(postings.post(0), Err(0));
        assert!(postings.post(1).is_ok());
        assert_eq!(postings.take(99), None);
    }
}
