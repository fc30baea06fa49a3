//! How long a log that is synced before it is answered waits for more to sync at once.
//!
//! A sync costs the same for one entry as for a hundred, in time of the disk and of the processor. While one goes on, entries gather for the next; but
//! where whoever waited for the last one comes back a moment after it has ended, the next would begin with the first of them, and the others
//! wait for two. So a log waits until as many entries have come as the last sync was for, at most half as long as that took, and not at all where
//! that was for a few: who writes alone waits for nobody, but for the first time after a group.
//!
//! That a commit waits for others is from Helland et al., "Group commit timers and high volume transaction systems" (HPTS 1987); half of what a
//! sync takes, if some others are about, is what PostgreSQL's documentation says of `commit_delay`.

use std::time::Duration;

use weft_transport::Time;

/// So many entries of one sync are a group, whose like is waited for.
const GROUP_MIN: u64 = 5;

/// Nobody waits for others longer than this, however slow the disk is.
const GATHERING_MAX: Duration = Duration::from_millis(1);

/// The entries that go to the disk together.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// What was given and is not being written yet.
    gathered: u64,
    /// What is being written or synced.
    under_way: u64,
    /// What the last sync was for, and how long it took.
    last: u64,
    last_took: Duration,
    sync_began: Time,
}

impl Group {
    /// So many entries were given.
    pub(super) fn add(&mut self, entries: u64) {
        self.gathered += entries;
    }

    /// What was given is written.
    pub(super) fn write(&mut self) {
        self.under_way += std::mem::take(&mut self.gathered);
    }

    /// What was written is synced.
    pub(super) fn begin_sync(&mut self, now: Time) {
        self.sync_began = now;
    }

    /// It was.
    pub(super) fn synced(&mut self, now: Time) {
        self.last = std::mem::take(&mut self.under_way);
        self.last_took = now.since(self.sync_began);
    }

    /// When what waits since then is to be written.
    pub(super) fn due_at(&self, since: Time) -> Time {
        let waits = self.last >= GROUP_MIN && self.gathered < self.last;
        if waits { since + (self.last_took / 2).min(GATHERING_MAX) } else { since }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Time {
        Time::from_nanos(1000 * us)
    }

    /// A group that was synced from one time to the other.
    fn synced(entries: u64, from: Time, to: Time) -> Group {
        let mut group = Group::default();
        group.add(entries);
        group.write();
        group.begin_sync(from);
        group.synced(to);
        group
    }

    #[test]
    fn who_writes_alone_waits_for_nobody() {
        assert_eq!(Group::default().due_at(us(7)), us(7));
        let mut group = synced(GROUP_MIN - 1, us(0), us(400));
        group.add(1);
        assert_eq!(group.due_at(us(500)), us(500));
    }

    #[test]
    fn after_a_group_half_of_its_time_is_left_for_as_many() {
        let mut group = synced(20, us(100), us(500));
        group.add(1);
        assert_eq!(group.due_at(us(510)), us(710));
        group.add(18);
        assert_eq!(group.due_at(us(510)), us(710));
        group.add(1);
        assert_eq!(group.due_at(us(510)), us(510));
    }

    #[test]
    fn what_came_during_a_sync_counts() {
        let mut group = Group::default();
        group.add(20);
        group.write();
        group.begin_sync(us(0));
        group.add(20);
        group.synced(us(400));
        assert_eq!(group.due_at(us(400)), us(400));
    }

    #[test]
    fn a_slow_disk_makes_nobody_wait_much_longer() {
        let group = synced(20, us(0), us(50_000));
        assert_eq!(group.due_at(us(50_000)), us(51_000));
    }
}
