//! Which segments are emptied next: the best ones of all partitions, chosen some at a time.

use crate::partitions::Partitions;
use crate::store::Victim;

/// Segments that are chosen at a time: enough that the look at all of them is worth it, few enough that the choice
/// is not stale.
pub(super) const CHOSEN_MAX: usize = 64;

/// How often segments are emptied for their unused ends before something has to die.
const COMPACTIONS_MAX: u32 = 8;

/// The segments that were chosen.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// With the positions of their partitions, the best one last.
    chosen: Vec<(u16, Victim)>,
    /// What may be live of them.
    use_max: f64,
    /// How the store was when these were chosen.
    chosen_from: Option<Picture>,
    /// Bytes that they have freed so far.
    pub(super) freed_bytes: u64,
    /// How often segments were emptied for their unused ends, since so many bytes had died.
    compactions: (u64, u32),
}

/// What tells whether a choice would be another one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Picture {
    use_max: f64,
    killed_bytes: u64,
    allocated_bytes: u64,
}

/// The segments of all partitions of which at most `use_max` is used, with the positions of their partitions, those that are used least first.
pub(super) fn roomiest(partitions: &Partitions, use_max: f64) -> Vec<(u16, Victim)> {
    let mut chosen = Vec::new();
    for position in 0..partitions.len() as u16 {
        let partition = partitions.lock(position);
        chosen.extend(partition.roomy(use_max).map(|victim| (position, victim)));
    }
    chosen.retain(|(_, victim)| !victim.is_pinned());
    chosen.sort_unstable_by(|(_, one), (_, other)| other.worth().total_cmp(&one.worth()));
    chosen.truncate(CHOSEN_MAX);
    chosen
}

impl Queue {
    /// Whether it is time to choose.
    pub(super) fn is_empty(&self) -> bool {
        self.chosen.is_empty()
    }

    /// Forgets what was chosen when more than this might be live of it.
    pub(super) fn drop_fuller_than(&mut self, use_max: f64) {
        if self.use_max > use_max {
            self.chosen.clear();
            // Of what is forgotten nobody knows whether it would have been of use.
            self.chosen_from = None;
        }
    }

    /// Whether segments may be emptied for their unused ends once more, so many bytes having died.
    pub(super) fn begin_compaction(&mut self, killed_bytes: u64) -> bool {
        let (since, times) = self.compactions;
        let times = if since == killed_bytes { times } else { 0 };
        self.compactions = (killed_bytes, (times + 1).min(COMPACTIONS_MAX));
        times < COMPACTIONS_MAX
    }

    /// The best of those that were chosen, with the position of its partition.
    pub(super) fn best(&mut self) -> Option<(u16, &mut Victim)> {
        self.chosen.last_mut().map(|(position, victim)| (*position, victim))
    }

    /// The best one is done with, or has to wait until it is chosen again.
    pub(super) fn pop(&mut self) {
        self.chosen.pop();
    }

    /// Chooses among all segments, unless the last choice was of no use and would be the same.
    pub(super) fn choose(&mut self, partitions: &Partitions, use_max: f64, allocated_bytes: u64) {
        let killed_bytes = partitions.log_use().killed_bytes;
        let picture = Picture { use_max, killed_bytes, allocated_bytes };
        if self.freed_bytes == 0 && self.chosen_from == Some(picture) {
            return;
        }
        self.use_max = use_max;
        let mut any_pinned = false;
        for position in 0..partitions.len() as u16 {
            let partition = partitions.lock(position);
            for victim in partition.victims(use_max) {
                any_pinned |= victim.is_pinned();
                if !victim.is_pinned() {
                    self.chosen.push((position, victim));
                }
            }
            drop(partition);
            self.keep_best();
        }
        self.chosen.sort_unstable_by(|(_, one), (_, other)| one.worth().total_cmp(&other.worth()));
        self.freed_bytes = 0;
        // Nobody tells when a pin goes.
        self.chosen_from = (!any_pinned).then_some(picture);
    }

    fn keep_best(&mut self) {
        if self.chosen.len() > CHOSEN_MAX {
            let by_worth = |(_, one): &(u16, Victim), (_, other): &(u16, Victim)| {
                other.worth().total_cmp(&one.worth())
            };
            self.chosen.select_nth_unstable_by(CHOSEN_MAX, by_worth);
            self.chosen.truncate(CHOSEN_MAX);
        }
    }
}
