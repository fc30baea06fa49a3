//! What every log does: one suite, run on a real disk and on the one in memory.

use raft::eraftpb::{ConfState, Entry, HardState, Snapshot, SnapshotMetadata};
use raft::{GetEntriesContext, Storage};
use weft_transport::NodeId;

use super::{
    Batch, Fault, LogError, MemoryLog, Position, RaftLog, Recovered, RocksLog, begin_life,
};
use crate::coordinator::raft::identity::{ClusterId, Identity, RaftId};
use crate::coordinator::raft::roster::{Roster, StateRecord};
use crate::coordinator::raft::view::LogView;

const CLUSTER: ClusterId = ClusterId(7 << 90 | 9);
const NODE: NodeId = NodeId(3);
const IDENTITY: Identity = Identity { cluster: CLUSTER, node: NODE, raft: RaftId(2) };

/// A place that outlives processes.
enum Disk {
    Rocks(tempfile::TempDir),
    Memory(MemoryLog),
}

/// Both of them, one after the other.
fn on_both(check: impl Fn(&mut Disk)) {
    check(&mut Disk::Memory(MemoryLog::new("memory")));
    check(&mut Disk::Rocks(tempfile::tempdir().unwrap()));
}

impl Disk {
    fn create(&mut self, first: &Batch) -> Result<(), LogError> {
        match self {
            Disk::Rocks(folder) => RocksLog::create(folder.path(), first).map(drop),
            Disk::Memory(log) => log.create(first),
        }
    }

    /// What one process does with the log, if it is one.
    fn process<R>(&mut self, act: impl FnOnce(&mut dyn RaftLog) -> R) -> Result<R, LogError> {
        match self {
            Disk::Rocks(folder) => {
                let mut log = RocksLog::open(folder.path())?;
                Ok(act(&mut log))
            }
            Disk::Memory(log) => {
                let result = act(log);
                log.end_process();
                Ok(result)
            }
        }
    }

    fn recover(&mut self) -> Result<Recovered, LogError> {
        self.process(|log| log.recover()).and_then(|recovered| recovered)
    }

    fn write(&mut self, batch: &Batch) {
        self.process(|log| log.write(batch)).unwrap().unwrap();
    }
}

pub(super) fn founding() -> Batch {
    Batch::founding(IDENTITY, &[(RaftId(1), NodeId(8)), (RaftId(2), NODE)], b"state".to_vec())
}

fn entries(range: std::ops::Range<u64>, term: u64) -> Vec<Entry> {
    let entry = |index| {
        let mut entry = Entry::default();
        (entry.index, entry.term, entry.data) = (index, term, vec![index as u8; 100]);
        entry
    };
    range.map(entry).collect()
}

pub(super) fn hard_state(term: u64, vote: u64, commit: u64) -> Option<HardState> {
    let mut state = HardState::default();
    (state.term, state.vote, state.commit) = (term, vote, commit);
    Some(state)
}

fn snapshot(index: u64, term: u64, state: &[u8]) -> Snapshot {
    let members = ConfState { voters: vec![1, 2], ..ConfState::default() };
    let metadata = Some(SnapshotMetadata { conf_state: Some(members), index, term });
    let roster = Roster::founding(&[(RaftId(1), NodeId(8)), (RaftId(2), NODE)]);
    Snapshot { data: StateRecord::encode(&roster, state.to_vec()), metadata }
}

fn one(range: std::ops::Range<u64>) -> Vec<std::ops::Range<u64>> {
    std::iter::once(range).collect()
}

/// Entries 2 to 9 of term 2, of which 5 are committed.
pub(super) fn appended() -> Batch {
    Batch {
        entries: entries(2..10, 2),
        hard_state: hard_state(2, 1, 5),
        must_sync: true,
        ..Batch::default()
    }
}

/// The leader's snapshot of 20 takes the place of everything.
fn installed() -> Batch {
    Batch {
        snapshot: Some(snapshot(20, 3, b"new state")),
        start: Some(Position { index: 20, term: 3 }),
        hard_state: hard_state(3, 0, 20),
        removed: one(2..10),
        must_sync: true,
        ..Batch::default()
    }
}

#[test]
fn what_was_written_is_there_for_the_next_process() {
    on_both(|disk| {
        disk.create(&founding()).unwrap();
        disk.write(&appended());
        let found = disk.recover().unwrap();
        assert_eq!((found.identity, found.life), (IDENTITY, 0));
        assert_eq!(found.entries, entries(2..10, 2));
        assert_eq!(found.hard_state, hard_state(2, 1, 5).unwrap());
        assert_eq!(found.applied(), Position { index: 1, term: 1 });
        assert_eq!(found.conf_state().voters, [1, 2]);
        let (_, state) = StateRecord::decode(&found.snapshot.data).unwrap();
        assert_eq!(state, b"state");
    });
}

#[test]
fn entries_of_a_new_leader_take_the_place_of_those_of_an_old_one_and_all_after() {
    on_both(|disk| {
        disk.create(&founding()).unwrap();
        disk.write(&appended());
        let change = Batch {
            removed: one(6..10),
            entries: entries(6..8, 4),
            hard_state: hard_state(4, 0, 5),
            must_sync: true,
            ..Batch::default()
        };
        disk.write(&change);
        let found = disk.recover().unwrap();
        assert_eq!(found.entries, [entries(2..6, 2), entries(6..8, 4)].concat());
        assert_eq!(found.last(), Position { index: 7, term: 4 });
    });
}

#[test]
fn snapshot_hard_state_members_and_applied_index_come_together() {
    on_both(|disk| {
        disk.create(&founding()).unwrap();
        disk.write(&appended());
        disk.write(&installed());
        let found = disk.recover().unwrap();
        assert_eq!(found.applied(), Position { index: 20, term: 3 });
        assert_eq!(found.hard_state.commit, 20);
        assert_eq!((found.entries.len(), found.last().index), (0, 20));
        // Without the hard state the log would be impossible, and is said to be.
        let apart = Batch { hard_state: hard_state(3, 0, 5), must_sync: true, ..Batch::default() };
        disk.write(&apart);
        assert!(matches!(disk.recover(), Err(LogError::Corrupt { .. })));
    });
}

#[test]
fn a_log_that_was_compacted_still_knows_the_term_before_its_first_entry() {
    on_both(|disk| {
        disk.create(&founding()).unwrap();
        disk.write(&appended());
        let mut view = LogView::new(&disk.recover().unwrap());
        view.set_snapshot(snapshot(5, 2, b"five"));
        let removed = view.compact(4).into_iter().collect();
        let batch = Batch {
            snapshot: Some(snapshot(5, 2, b"five")),
            start: Some(view.start()),
            hard_state: hard_state(2, 1, 5),
            removed,
            must_sync: true,
            ..Batch::default()
        };
        disk.write(&batch);
        let view = LogView::new(&disk.recover().unwrap());
        assert_eq!((view.first_index().unwrap(), view.last_index().unwrap()), (5, 9));
        assert_eq!((view.term(4).unwrap(), view.term(9).unwrap()), (2, 2));
        assert!(view.term(3).is_err() && view.term(10).is_err());
        let read =
            |low, high, size| view.entries(low, high, Some(size), GetEntriesContext::empty(false));
        assert_eq!(read(5, 10, 0).unwrap(), entries(5..6, 2), "one at least");
        assert_eq!(read(5, 10, 250).unwrap().len(), 2);
        assert_eq!(read(5, 10, u64::MAX).unwrap(), entries(5..10, 2));
        assert!(read(4, 6, 0).is_err());
        assert_eq!(view.snapshot(5, 1).unwrap(), snapshot(5, 2, b"five"));
        assert!(view.snapshot(6, 1).is_err(), "asked for a later one");
        assert!(view.snapshot(5, 3).is_err(), "not for whom it does not have");
    });
}

#[test]
fn each_life_is_counted_before_it_begins() {
    on_both(|disk| {
        disk.create(&founding()).unwrap();
        for life in 1..4 {
            let begun = disk.process(|log| begin_life(log, NODE, Some(CLUSTER))).unwrap().unwrap();
            assert_eq!(begun.life, life);
            assert_eq!(disk.recover().unwrap().life, life);
        }
    });
}

#[test]
fn a_log_of_another_node_or_cluster_or_format_is_refused_and_left_as_it_was() {
    on_both(|disk| {
        disk.create(&founding()).unwrap();
        let before = disk.recover().unwrap();
        let other =
            disk.process(|log| begin_life(log, NodeId(4), Some(CLUSTER))).unwrap().unwrap_err();
        assert!(matches!(other, LogError::OtherNode { found: 3, expected: 4, .. }), "{other}");
        let other =
            disk.process(|log| begin_life(log, NODE, Some(ClusterId(1)))).unwrap().unwrap_err();
        assert!(matches!(other, LogError::OtherCluster { found: CLUSTER, .. }), "{other}");
        assert!(matches!(disk.create(&founding()), Err(LogError::Occupied { .. })));
        assert!(matches!(disk.create(&Batch::joining(IDENTITY)), Err(LogError::Occupied { .. })));
        assert_eq!(disk.recover().unwrap(), before);
        for format in [0, 1, u32::MAX] {
            damage(disk, |records| {
                records.put(b"f", &super::record::seal(b"f", &format.to_le_bytes()));
            });
            let error = disk.recover().unwrap_err();
            assert!(
                matches!(error, LogError::Format { found, supported: 2, .. } if found == format),
                "{error}"
            );
        }
    });
}

#[test]
fn where_there_is_no_log_none_is_made() {
    on_both(|disk| {
        let is_missing = |error: LogError| matches!(error, LogError::Missing { .. });
        assert!(is_missing(disk.recover().unwrap_err()));
        if let Disk::Rocks(folder) = disk {
            assert_eq!(
                folder.path().read_dir().unwrap().count(),
                0,
                "opening has written something"
            );
        }
    });
}

#[test]
fn a_flipped_bit_in_any_record_is_said_with_its_place_and_what_to_do() {
    on_both(|disk| {
        disk.create(&founding()).unwrap();
        disk.write(&appended());
        let keys = [&b"f"[..], b"i", b"l", b"h", b"s", b"b", b"e\0\0\0\0\0\0\0\x05"];
        for key in keys {
            let mut kept = Vec::new();
            damage(disk, |records| {
                kept = records.get(key);
                let mut flipped = kept.clone();
                *flipped.last_mut().unwrap() ^= 0x10;
                records.put(key, &flipped);
            });
            let told = disk.recover().unwrap_err();
            assert!(matches!(told, LogError::Corrupt { .. }), "{told}");
            let place = match &*disk {
                Disk::Rocks(folder) => folder.path().display().to_string(),
                Disk::Memory(_) => "memory".to_owned(),
            };
            let told = told.to_string();
            assert!(told.contains(&place) && told.contains("move it away"), "{told}");
            damage(disk, |records| records.put(key, &kept));
            disk.recover().unwrap();
        }
    });
}

#[test]
fn a_record_that_is_missing_is_damage_too() {
    on_both(|disk| {
        disk.create(&founding()).unwrap();
        disk.write(&appended());
        for key in [&b"f"[..], b"i", b"l", b"h", b"s", b"b", b"e\0\0\0\0\0\0\0\x05"] {
            let mut kept = Vec::new();
            damage(disk, |records| {
                kept = records.get(key);
                records.remove(key);
            });
            assert!(
                matches!(disk.recover(), Err(LogError::Corrupt { .. })),
                "without {}",
                key.escape_ascii()
            );
            damage(disk, |records| records.put(key, &kept));
        }
    });
}

/// Records changed behind the log's back.
trait Records {
    fn get(&self, key: &[u8]) -> Vec<u8>;
    fn put(&mut self, key: &[u8], value: &[u8]);
    fn remove(&mut self, key: &[u8]);
}

impl Records for rocksdb::DB {
    fn get(&self, key: &[u8]) -> Vec<u8> {
        self.get(key).unwrap().unwrap()
    }
    fn put(&mut self, key: &[u8], value: &[u8]) {
        rocksdb::DB::put(self, key, value).unwrap();
    }
    fn remove(&mut self, key: &[u8]) {
        self.delete(key).unwrap();
    }
}

impl Records for std::collections::BTreeMap<Vec<u8>, Vec<u8>> {
    fn get(&self, key: &[u8]) -> Vec<u8> {
        self[key].clone()
    }
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.insert(key.to_vec(), value.to_vec());
    }
    fn remove(&mut self, key: &[u8]) {
        std::collections::BTreeMap::remove(self, key);
    }
}

fn damage(disk: &mut Disk, change: impl FnOnce(&mut dyn Records)) {
    match disk {
        Disk::Rocks(folder) => change(&mut rocksdb::DB::open_default(folder.path()).unwrap()),
        Disk::Memory(log) => change(log.records_mut()),
    }
}

// What only the disk in memory can be told to do.

#[test]
fn a_loss_of_power_takes_whole_batches_from_the_newest_on_and_none_that_was_synced() {
    for kept in 0..4 {
        let mut log = MemoryLog::new("memory");
        log.create(&founding()).unwrap();
        for vote in 1..4 {
            let batch = Batch {
                entries: entries(1 + vote..2 + vote, 2),
                hard_state: hard_state(2, vote, 1),
                ..Batch::default()
            };
            log.write(&batch).unwrap();
        }
        log.lose_power(kept);
        let found = log.recover().unwrap();
        assert_eq!((found.entries.len(), found.hard_state.vote), (kept, kept as u64));
    }
    let mut log = MemoryLog::new("memory");
    log.create(&founding()).unwrap();
    log.write(&Batch { must_sync: false, ..appended() }).unwrap();
    log.write(&Batch { hard_state: hard_state(3, 2, 5), must_sync: true, ..Batch::default() })
        .unwrap();
    log.lose_power(0);
    assert_eq!(log.recover().unwrap().entries.len(), 8, "a sync covers all before it");
}

#[test]
fn a_disk_that_failed_once_takes_nothing_any_more() {
    for (fault, full) in [(Fault::Full, true), (Fault::Sync, false)] {
        let mut log = MemoryLog::new("memory");
        log.create(&founding()).unwrap();
        log.fail_next(fault);
        let failed = log.write(&appended()).unwrap_err();
        assert!(matches!(failed, LogError::Write { is_full, .. } if is_full == full), "{failed}");
        assert_eq!(log.write(&appended()), Err(LogError::Poisoned { place: "memory".to_owned() }));
        log.lose_power(0);
        assert_eq!(log.recover().unwrap().entries.len(), 0);
        log.write(&appended()).unwrap();
    }
}
