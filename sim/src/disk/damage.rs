//! Damage to a log that is whole: whatever becomes of its bytes, what is wrong is never taken for what was written.

use rand::RngExt;
use weft_protocol::PartitionId;
use weft_server::durable::{
    Completeness, Disk as _, DiskError, Identity, Incomplete, Log, Mode, OpenError, Planted,
    Settings, State, read_file, recover,
};
use weft_transport::NodeId;

use super::log_run::{Run, identity, replayed};

const SEEDS: u64 = 300;
const PARTITIONS: u16 = 4;

/// A log that has done some things and has nothing left to do.
fn idle(seed: u64, acts: usize, planted: Option<Planted>) -> Run {
    let mut run = Run::new(seed, Mode::Fsync, planted);
    run.restart().unwrap();
    run.open(PARTITIONS);
    for _ in 0..acts {
        run.act();
        run.step();
    }
    run.drain();
    run.log = None;
    run
}

/// How many partitions are not complete; an error if one that is holds anything but all that was told to be durable.
fn incomplete(run: &mut Run) -> Result<usize, String> {
    let recovery = run.recover();
    let found = replayed(&mut run.disk, &recovery)?;
    let mut incomplete = 0;
    for (partition, model) in &run.models {
        let state = recovery.partition(*partition);
        let held = found.get(partition).cloned().unwrap_or_default();
        if !state.completeness.is_complete() {
            incomplete += 1;
        } else if !model.allows(state.last, &held) {
            return Err(format!("{state:?} holds {held:?}, but {model:?}"));
        }
    }
    Ok(incomplete)
}

fn names(run: &mut Run) -> Vec<String> {
    run.disk.names().unwrap()
}

#[test]
fn every_flipped_byte_of_a_log_is_noticed_and_none_is_served() {
    let mut run = idle(1, 60, None);
    let (mut flips, mut noticed) = (0, 0);
    assert_eq!(incomplete(&mut run), Ok(0));
    for name in names(&mut run) {
        for offset in 0..run.disk.read(&name).unwrap().len() {
            let bits = 1 << run.random.random_range(0..8);
            run.disk.flip(&name, offset, bits);
            let found = incomplete(&mut run);
            run.disk.flip(&name, offset, bits);
            flips += 1;
            noticed +=
                usize::from(found.unwrap_or_else(|error| panic!("{name} {offset}: {error}")) > 0);
        }
    }
    // The rest is in what nobody needs any more, and in the last frame, which only says that all before was synced.
    println!("{flips} flips, {noticed} made a partition incomplete");
    assert!(noticed * 10 > flips * 7, "{noticed} of {flips}");
}

#[test]
fn damage_of_any_kind_is_never_taken_for_what_was_written() {
    let mut noticed = 0;
    for seed in 0..SEEDS {
        let mut run = idle(seed, 300, None);
        damage(&mut run);
        let found = incomplete(&mut run);
        noticed += usize::from(found.unwrap_or_else(|error| panic!("seed {seed}: {error}")) > 0);
    }
    assert!(noticed > SEEDS as usize / 2, "{noticed} noticed");
}

/// One to three times: a flip, a hole, an end that is gone, a file that is gone.
fn damage(run: &mut Run) {
    for _ in 0..run.random.random_range(1..4) {
        let names = names(run);
        // The newest file's end, and the newest file: nothing says that there was more.
        let index = run.random.random_range(0..names.len());
        let name = &names[index];
        let is_newest = index + 1 == names.len();
        let len = run.disk.read(name).unwrap().len();
        // Nor does anything tell damage from a torn end if the last frame is hit too, which says that all before was synced.
        let at = run.random.random_range(0..if is_newest { len - 48 } else { len });
        match run.random.random_range(0..10) {
            0..5 => run.disk.flip(name, at, run.random.random_range(1..=255)),
            5..8 => {
                let end = (at + run.random.random_range(1..2000)).min(len - 48);
                run.disk.punch(name, at.min(end)..end);
            }
            8 if !is_newest => run.disk.cut(name, at),
            9 if !is_newest => run.disk.lose(name),
            _ => {}
        }
    }
}

#[test]
fn a_log_that_cuts_at_damage_is_found_out() {
    let found = (0..SEEDS).find(|seed| {
        let mut run = idle(*seed, 300, Some(Planted::CutAtCorruption));
        damage(&mut run);
        incomplete(&mut run).is_err()
    });
    println!("CutAtCorruption: found by seed {found:?}");
    assert!(found.is_some_and(|seed| seed < 50), "{found:?}");
}

#[test]
fn damage_to_one_partitions_entries_is_of_that_partition_only() {
    let mut run = idle(2, 12, None);
    let name = names(&mut run).remove(0);
    let bytes = run.disk.read(&name).unwrap().to_vec();
    let mut body_at = None;
    let intact = read_file(&identity(Mode::Fsync), 1, &bytes, &mut |at, header, body| {
        if header.partition == PartitionId(1) && !body.is_empty() {
            body_at = Some(at as usize + 60);
        }
    });
    assert!(intact);
    run.disk.flip(&name, body_at.unwrap(), 4);
    let recovery = run.recover();
    let is_complete =
        |partition| recovery.partition(PartitionId(partition)).completeness.is_complete();
    assert_eq!([0, 1, 2, 3].map(is_complete), [true, false, true, true]);
    assert!(matches!(
        recovery.partition(PartitionId(1)).completeness,
        Completeness::Incomplete { reason: Incomplete::Corrupt { file: 1, .. } }
    ));
}

#[test]
fn what_is_incomplete_stays_so_until_it_begins_anew() {
    let mut run = idle(3, 200, None);
    let name = names(&mut run).remove(0);
    run.disk.lose(&name);
    let lost = incomplete(&mut run).unwrap();
    assert!(lost > 0);
    for _ in 0..3 {
        let recovery = run.recover();
        run.log = Some(Log::new(Settings::default(), &recovery));
        run.drain();
        run.log = None;
        assert_eq!(incomplete(&mut run), Ok(lost));
    }
    run.models.clear();
    run.restart().unwrap();
    run.open(PARTITIONS);
    run.log = None;
    assert_eq!(incomplete(&mut run), Ok(0));
}

#[test]
fn files_of_others_are_refused_and_left_alone() {
    let mut run = idle(4, 50, None);
    let before: Vec<_> =
        names(&mut run).iter().map(|name| run.disk.read(name).unwrap().to_vec()).collect();
    let ours = identity(Mode::Fsync);
    let others = [
        Identity { cluster: 1, ..ours },
        Identity { node: NodeId(9), ..ours },
        Identity { mode: Mode::Disk, ..ours },
    ];
    for other in others {
        let refused = recover(&mut run.disk, other, &Settings::default());
        assert!(matches!(refused, Err(OpenError::Foreign { .. })), "{refused:?}");
    }
    let first = names(&mut run).remove(0);
    let bytes = run.disk.read(&first).unwrap().to_vec();
    let misnamed = "00000000000000ff.log";
    run.disk.create(misnamed, 0).unwrap();
    run.disk.append(misnamed, &bytes).unwrap();
    let refused = recover(&mut run.disk, ours, &Settings::default());
    assert!(matches!(refused, Err(OpenError::Misnamed { file: 1.., .. })), "{refused:?}");
    run.disk.lose(misnamed);
    let after: Vec<_> =
        names(&mut run).iter().map(|name| run.disk.read(name).unwrap().to_vec()).collect();
    assert!(before == after);
}

#[test]
fn a_failed_write_or_sync_ends_the_log_for_good() {
    for seed in 0..SEEDS {
        let mut run = Run::new(seed, Mode::Fsync, None);
        run.restart().unwrap();
        run.open(PARTITIONS);
        for _ in 0..50 {
            run.act();
            run.step();
        }
        run.drain();
        let durable: Vec<_> =
            (0..PARTITIONS).map(|partition| run.log().durable(PartitionId(partition))).collect();
        if seed % 2 == 0 {
            run.disk.fail_next_append();
        } else {
            run.disk.fail_next_sync();
        }
        for _ in 0..50 {
            run.act();
            run.step();
        }
        assert!(matches!(run.log().state(), State::Poisoned(_)), "seed {seed}");
        let after: Vec<_> =
            (0..PARTITIONS).map(|partition| run.log().durable(PartitionId(partition))).collect();
        // Nothing was acknowledged since, but what an earlier step of the same kind had.
        assert!(run.log().next_event().is_none() && after >= durable, "seed {seed}");
        let syncs = run.disk.syncs();
        run.drain();
        assert_eq!(run.disk.syncs(), syncs, "nothing is tried again");
        run.die();
        run.restart().unwrap();
    }
}

#[test]
fn a_full_disk_stops_the_log_until_there_is_room_and_loses_nothing() {
    let mut run = Run::new(5, Mode::Fsync, None);
    run.restart().unwrap();
    run.open(PARTITIONS);
    run.disk.limit(40 << 10);
    let mut acts = 0;
    while *run.log().state() != State::Full {
        run.act_without_snapshots();
        run.step();
        acts += 1;
        assert!(acts < 10_000);
    }
    assert!(!run.log().has_room());
    run.act_without_snapshots();
    run.drain();
    assert_eq!(*run.log().state(), State::Full);
    assert_eq!(run.disk.create("another", 1 << 20), Err(DiskError::Full));
    run.disk.limit(1 << 20);
    run.wait_for_room();
    run.drain();
    assert_eq!(*run.log().state(), State::Open);
    run.die();
    run.restart().unwrap();
    run.open(PARTITIONS);
    assert_eq!(run.counts.lost_tails, 0, "all that waited was written");
}
