//! What a partition promises to those who follow it, one promise a test. That they are the same whatever happens is `store_replicas`' part.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::task::{Poll, Waker};

use weft_protocol::{CompletionId, Eviction, Key, Slot, TableId, Version, Watched};
use weft_server::store::{
    ApplyError, Attempt, Feed, Gather, Partition, PartitionConfig, Piece, TableConfig,
};
use weft_transport::{Memory, MemoryConfig, Purpose};

const TABLE: TableId = TableId(4);
const MIB: u64 = 1 << 20;

fn partition(limit_bytes: u64) -> Partition {
    let memory = Memory::new(MemoryConfig { limit_bytes }).unwrap();
    Partition::new(PartitionConfig { id: 0, epoch: 1, seed: 7, memory }).unwrap()
}

fn config(eviction: Eviction) -> TableConfig {
    TableConfig { id: TABLE, ordered: true, quota: None, eviction }
}

fn put(partition: &mut Partition, key: &[u8], value: &[u8]) -> Version {
    partition.put(TABLE, key, value, None, 0).unwrap()
}

/// Entries that were made, each in one piece.
fn made(partition: &mut Partition) -> Vec<Vec<u8>> {
    let mut made = Vec::new();
    while let Some(entry) = partition.take_entry() {
        made.push(entry.bytes.to_vec());
    }
    made
}

#[test]
fn every_change_is_an_entry_and_has_a_version_of_its_own() {
    let mut partition = partition(64 * MIB);
    partition.set_recording(true);
    let mut sequence = 0;
    let mut check = |partition: &mut Partition, changes: u64, what: &str| {
        let mut versions = Vec::new();
        while let Some(entry) = partition.take_entry() {
            versions.push(entry.version.sequence());
        }
        assert_eq!(versions, Vec::from_iter(sequence + 1..=sequence + changes), "{what}");
        sequence += changes;
        assert_eq!(partition.version(), Version::new(1, sequence), "{what}");
    };
    partition.create_table(config(Eviction::LeastRecentlyUsed));
    partition.create_table(config(Eviction::None));
    check(&mut partition, 1, "a table is created once");
    partition.alter_table(config(Eviction::LeastRecentlyUsed));
    check(&mut partition, 0, "it was that already");
    for number in 0..200_u8 {
        partition.put(TABLE, &[number], b"value", (number < 100).then_some(50), 0).unwrap();
    }
    check(&mut partition, 200, "puts");
    assert!(partition.get(TABLE, &[0], 50).is_none());
    assert_eq!(partition.last_removal(), Version::NONE, "nobody has to be told that it expired");
    check(&mut partition, 0, "expiry");
    while !partition.sweep(1_000, 50).is_end {}
    check(&mut partition, 0, "what expires");
    let evicted = partition.evict(None, 512, 50).objects;
    assert!(evicted > 1);
    check(&mut partition, evicted, "each eviction");
    assert_eq!(partition.last_removal(), partition.version());
    let left = partition.evict(None, 512, 50).objects;
    check(&mut partition, left, "each eviction");
    partition.truncate(TABLE).unwrap();
    check(&mut partition, 1, "truncation");
    partition.delete(TABLE, b"nothing", 50).unwrap();
    check(&mut partition, 0, "nothing was deleted");
    partition.drop_table(TABLE).unwrap();
    check(&mut partition, 1, "drop");
    assert_eq!(partition.drop_table(TABLE), None);
    assert_eq!(partition.truncate(TABLE), None);
    check(&mut partition, 0, "there is no table");
}

#[test]
fn who_records_nothing_uses_up_no_versions_and_keeps_nothing() {
    let mut partition = partition(64 * MIB);
    partition.create_table(config(Eviction::LeastRecentlyUsed));
    put(&mut partition, b"key", b"value");
    let last = put(&mut partition, b"other", b"value");
    assert!(partition.evict(None, 512, 50).objects > 0);
    partition.truncate(TABLE).unwrap();
    assert_eq!(partition.version(), last);
    assert!(partition.take_entry().is_none());
    partition.set_recording(true);
    put(&mut partition, b"key", b"value");
    partition.set_recording(false);
    assert!(partition.take_entry().is_none(), "what was not taken is forgotten");
}

#[test]
fn a_long_value_stays_where_it_is() {
    let mut partition = partition(64 * MIB);
    partition.create_table(config(Eviction::None));
    partition.set_recording(true);
    put(&mut partition, b"short", &[1; 4_096]);
    put(&mut partition, b"long", &[2; 4_097]);
    let entry = partition.take_entry().unwrap();
    assert!(entry.bytes.pieces().all(|piece| matches!(piece, Piece::Bytes(_))));
    let entry = partition.take_entry().unwrap();
    let views = entry.bytes.pieces().filter_map(|piece| match piece {
        Piece::View(view) => Some(view.clone()),
        Piece::Bytes(_) => None,
    });
    let views = Vec::from_iter(views);
    assert_eq!(views.len(), 1);
    assert!(partition.take_entry().is_none());
    assert!(partition.stats().pinned_bytes > 0, "by who took it");
    put(&mut partition, b"long", b"");
    assert_eq!(views[0][..4_097], [2; 4_097]);
    drop(views);
    while partition.take_entry().is_some() {}
    assert_eq!(partition.stats().pinned_bytes, 0);
}

#[test]
fn who_watches_a_follower_is_told_nothing_and_who_watches_the_primary_everything() {
    let slots = (Slot::of(b""), Slot::of(b""));
    let feed = || {
        let all = Watched::Prefix(Key::new(b"").unwrap());
        Arc::new(Feed::new(TABLE, all, 100_000))
    };
    let (mut primary, mut follower) = (partition(MIB), partition(MIB));
    let feeds = [feed(), feed()];
    for (partition, feed) in [&mut primary, &mut follower].into_iter().zip(&feeds) {
        partition.create_table(config(Eviction::None));
        partition.watch(feed, slots);
    }
    primary.set_recording(true);
    put(&mut primary, b"key", b"value");
    primary.delete(TABLE, b"key", 0).unwrap();
    primary.truncate(TABLE).unwrap();
    put(&mut primary, b"key", b"value");
    primary.truncate(TABLE).unwrap();
    for entry in made(&mut primary) {
        follower.apply_entries(&entry, 0).unwrap();
    }
    assert_eq!(follower.digest(0), primary.digest(0));
    let Poll::Ready(Ok(page)) = feeds[0].poll(0, Waker::noop()) else { panic!("it was told") };
    assert_eq!(page.reply().events.len(), 4, "but not of an empty table that was emptied");
    assert!(feeds[1].poll(0, Waker::noop()).is_pending());
    // Once it leads, it tells.
    follower.begin_epoch(2).unwrap();
    let version = put(&mut follower, b"key", b"value");
    assert_eq!(version, Version::new(2, primary.version().sequence() + 1));
    assert!(feeds[1].poll(0, Waker::noop()).is_ready());
}

#[test]
fn entries_of_an_earlier_epoch_or_out_of_order_are_refused() {
    let mut primary = partition(MIB);
    primary.create_table(config(Eviction::None));
    primary.set_recording(true);
    let first = put(&mut primary, b"1", b"");
    let second = put(&mut primary, b"2", b"");
    primary.begin_epoch(5).unwrap();
    let third = put(&mut primary, b"3", b"");
    let entries = made(&mut primary);
    assert_eq!((third.epoch(), third.sequence()), (5, 3));

    let mut follower = partition(MIB);
    follower.create_table(config(Eviction::None));
    let out = |last, found| Err(ApplyError::OutOfSequence { last, found });
    assert_eq!(follower.apply_entries(&entries[1], 0), out(Version::NONE, second));
    assert_eq!(
        follower.apply_entries(&[&entries[0][..], &entries[2]].concat(), 0),
        out(first, third)
    );
    assert_eq!(follower.last_entry(), first, "what came before it was applied");
    assert_eq!(follower.apply_entries(&entries[1..].concat(), 0), Ok(third));

    // Another primary of the first epoch has made other entries.
    let mut stale = partition(MIB);
    stale.create_table(config(Eviction::None));
    stale.set_recording(true);
    for key in [b"1", b"2", b"3", b"4"] {
        put(&mut stale, key, b"");
    }
    let stale = made(&mut stale).pop().unwrap();
    assert_eq!(follower.apply_entries(&stale, 0), out(third, Version::new(1, 4)));
    let too_high = ApplyError::EpochFell { last: third, epoch: Version::EPOCH_MAX + 1 };
    assert_eq!(follower.begin_epoch(Version::EPOCH_MAX + 1), Err(too_high));
}

#[test]
fn an_entry_that_cannot_be_made_of_what_is_there_is_a_contradiction() {
    let mut primary = partition(MIB);
    primary.set_recording(true);
    primary.create_table(config(Eviction::None));
    put(&mut primary, b"key", b"value");
    primary.delete(TABLE, b"key", 0).unwrap();
    primary.drop_table(TABLE).unwrap();
    let entries = made(&mut primary);
    // Without the table, in the place of which another entry came.
    let mut other = partition(MIB);
    other.set_recording(true);
    other.put(TableId::DEFAULT, b"key", b"value", None, 0).unwrap();
    let another = made(&mut other).pop().unwrap();
    let mut follower = partition(MIB);
    follower.apply_entries(&another, 0).unwrap();
    let before = follower.digest(0);
    for (entry, version) in entries[1..].iter().zip(2..) {
        let version = Version::new(1, version);
        let mut follower = partition(MIB);
        follower.begin_snapshot(Version::new(1, version.sequence() - 1), &[]).unwrap();
        follower.end_snapshot();
        let contradiction = Err(ApplyError::Contradiction { version });
        assert_eq!(follower.apply_entries(entry, 0), contradiction);
    }
    assert_eq!(follower.digest(0), before);
}

#[test]
fn what_has_expired_stays_at_a_follower_as_long_as_clocks_may_differ() {
    let mut follower = partition(MIB);
    follower.put(TableId::DEFAULT, b"key", b"value", Some(1_000), 0).unwrap();
    follower.set_following(true);
    let mut removed = |now_ms| follower.sweep(1_000, now_ms).removed;
    assert_eq!(removed(1_001), 0);
    assert_eq!(removed(61_000), 1);
}

#[test]
fn a_snapshot_of_many_objects_comes_in_parts_of_the_size_that_was_asked_for() {
    let mut primary = partition(64 * MIB);
    primary.create_table(config(Eviction::None));
    for number in 0..20_000_u32 {
        put(&mut primary, &number.to_le_bytes(), &[7; 100]);
    }
    let mut snapshot = primary.snapshot();
    let mut learner = partition(64 * MIB);
    learner.begin_snapshot(snapshot.start(), snapshot.head()).unwrap();
    let (mut parts, mut part) = (0, Gather::default());
    while !snapshot.is_done() {
        part.clear();
        let as_of = primary.snapshot_part(&mut snapshot, 50_000, &mut part);
        assert!(part.len() < 50_000 + 1_000, "{}", part.len());
        learner.apply_snapshot(as_of, &part.all().to_vec(), 0).unwrap();
        parts += 1;
    }
    assert!((50..100).contains(&parts), "{parts}");
    assert_eq!(learner.apply_snapshot(snapshot.start(), &[], 0), Ok(()));
    learner.end_snapshot();
    assert_eq!(learner.apply_snapshot(snapshot.start(), &[], 0), Err(ApplyError::NoSnapshot));
    assert_eq!(learner.digest(0), primary.digest(0));
    learner.verify().unwrap();
}

#[test]
fn a_snapshot_ends_however_small_its_parts_are() {
    const OBJECTS: u64 = 20_000;
    let mut primary = partition(64 * MIB);
    for sequence in 1..=OBJECTS {
        let id = CompletionId { client: sequence % 3, sequence };
        // Some outcomes are left of each client.
        let attempt = Attempt { id, first_incomplete: sequence.saturating_sub(20) };
        let key = sequence.to_le_bytes();
        primary.once(Some(attempt), |p| p.put(TableId::DEFAULT, &key, &[7; 100], None, 0)).unwrap();
    }
    let mut snapshot = primary.snapshot();
    let mut learner = partition(64 * MIB);
    learner.begin_snapshot(snapshot.start(), snapshot.head()).unwrap();
    let mut parts = 0;
    while !snapshot.is_done() {
        let mut part = Gather::default();
        let as_of = primary.snapshot_part(&mut snapshot, 1, &mut part);
        learner.apply_snapshot(as_of, &part.all().to_vec(), 0).unwrap();
        parts += 1;
        // Some of so many keys share a position, and come together.
        assert!(parts < OBJECTS + 1_000);
    }
    learner.end_snapshot();
    assert_eq!(learner.digest(0), primary.digest(0));
}

/// A learner is told where it begins before the tables are gathered for it.
#[test]
fn a_table_may_be_made_or_dropped_between_where_a_learner_begins_and_its_snapshot() {
    for is_made in [true, false] {
        let mut primary = partition(MIB);
        primary.set_recording(true);
        if !is_made {
            primary.create_table(config(Eviction::None));
        }
        made(&mut primary);
        let begin = primary.last_entry();
        if is_made {
            primary.create_table(config(Eviction::None));
        }
        put(&mut primary, b"key", b"value");
        if !is_made {
            primary.drop_table(TABLE).unwrap();
        }
        let mut snapshot = primary.snapshot();

        let mut learner = partition(MIB);
        learner.begin_snapshot(begin, snapshot.head()).unwrap();
        for entry in made(&mut primary) {
            learner.apply_entries(&entry, 0).unwrap();
        }
        let mut part = Gather::default();
        while !snapshot.is_done() {
            let as_of = primary.snapshot_part(&mut snapshot, 1_000, &mut part);
            learner.apply_snapshot(as_of, &part.all().to_vec(), 0).unwrap();
            part.clear();
        }
        learner.end_snapshot();
        assert_eq!(learner.has_table(TABLE), is_made);
        assert_eq!(learner.digest(0), primary.digest(0));
        assert_eq!(learner.last_removal(), primary.last_removal());
        learner.verify().unwrap();
        // Behind the snapshot, entries are what they always are.
        primary.create_table(TableConfig { id: TableId(9), ..config(Eviction::None) });
        let again = made(&mut primary).concat();
        let version = learner.apply_entries(&again, 0).unwrap();
        let next = Version::new(1, version.sequence() + 1);
        primary.drop_table(TableId(9)).unwrap();
        assert_eq!(learner.apply_entries(&made(&mut primary).concat(), 0), Ok(next));
    }
}

#[test]
fn what_expires_while_a_snapshot_comes_is_not_what_it_was_before() {
    let mut primary = partition(MIB);
    primary.set_recording(true);
    primary.put(TableId::DEFAULT, b"key", b"for ever", None, 0).unwrap();
    made(&mut primary);
    let mut snapshot = primary.snapshot();
    let mut part = Gather::default();
    let as_of = primary.snapshot_part(&mut snapshot, 1_000, &mut part);
    primary.put(TableId::DEFAULT, b"key", b"not for long", Some(10), 0).unwrap();
    let entry = made(&mut primary).concat();

    let mut learner = partition(MIB);
    learner.begin_snapshot(snapshot.start(), snapshot.head()).unwrap();
    learner.apply_entries(&entry, 0).unwrap();
    assert_eq!(learner.sweep(1_000, 100_000).removed, 0);
    learner.apply_snapshot(as_of, &part.all().to_vec(), 100_000).unwrap();
    learner.end_snapshot();
    assert!(learner.get(TableId::DEFAULT, b"key", 10).is_none());
}

#[test]
fn a_completion_that_finds_no_room_is_not_applied_nor_is_what_it_belongs_to() {
    let mut primary = partition(MIB);
    primary.set_recording(true);
    primary.put(TableId::DEFAULT, b"key", b"value", None, 0).unwrap();
    let id = CompletionId { client: 1, sequence: 1 };
    let attempt = Attempt { id, first_incomplete: 1 };
    primary.once(Some(attempt), |p| p.delete(TableId::DEFAULT, b"key", 0)).unwrap();
    let entries = made(&mut primary);

    let memory = Memory::new(MemoryConfig { limit_bytes: MIB }).unwrap();
    let config = PartitionConfig { id: 0, epoch: 1, seed: 7, memory: memory.clone() };
    let mut follower = Partition::new(config).unwrap();
    let last = follower.apply_entries(&entries[0], 0).unwrap();
    let before = follower.digest(0);
    let free = memory.free_bytes();
    let held = memory.charge(free, Purpose::Scratch).unwrap();
    let applied = follower.apply_entries(&entries[1], 0);
    assert!(matches!(applied, Err(ApplyError::Refused { .. })), "{applied:?}");
    assert_eq!((follower.last_entry(), follower.digest(0)), (last, before));
    drop(held);
    follower.apply_entries(&entries[1], 0).unwrap();
    assert_eq!(follower.digest(0), primary.digest(0));
}
