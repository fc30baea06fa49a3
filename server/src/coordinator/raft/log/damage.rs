//! What only a log's files can suffer. Whatever happens to them, the log opens with all that was acknowledged, or says that it is damaged and
//! changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::conformance::{appended, founding, hard_state};
use super::{Batch, LogError, RaftLog, Recovered, RocksLog, StoredLog};

/// Files of a folder: what is in each, by name.
type Files = BTreeMap<String, Vec<u8>>;

/// The files of a folder.
fn contents(folder: &Path) -> Files {
    let files = folder.read_dir().unwrap().map(|file| file.unwrap().path());
    files
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(path).unwrap())
        })
        .collect()
}

/// A folder with these files.
fn folder_of(files: &Files) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

fn opened(folder: &Path) -> Result<Recovered, LogError> {
    let recovered = RocksLog::open(folder)?.recover()?;
    // Where it is does not matter.
    Ok(Recovered { place: String::new(), ..recovered })
}

/// The last batch of a small log.
fn last() -> Batch {
    Batch { hard_state: hard_state(9, 1, 6), must_sync: true, ..Batch::default() }
}

/// A log of three batches, as its process left it.
fn written_log() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut log = RocksLog::create(folder.path(), &founding()).unwrap();
    log.write(&appended()).unwrap();
    log.write(&last()).unwrap();
    folder
}

/// A log that was opened again before its last batch, so that RocksDB has made a table and another write-ahead log.
fn older_log() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    RocksLog::create(folder.path(), &founding()).unwrap().write(&appended()).unwrap();
    RocksLog::open(folder.path()).unwrap().write(&last()).unwrap();
    folder
}

fn only(files: &Files, is_it: impl Fn(&str) -> bool) -> String {
    let mut names = files.keys().filter(|name| is_it(name));
    let name = names.next().expect("one file of that kind").clone();
    assert_eq!(names.next(), None);
    name
}

fn is_wal(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|ending| ending == "log")
}

/// How many of the damaged logs were whole, and how many were refused.
#[derive(Debug, Default)]
struct Outcomes {
    whole: usize,
    refused: usize,
}

impl Outcomes {
    /// The log with these files either has everything, or is refused with nothing changed.
    fn check(&mut self, files: &Files, whole: &Recovered, what: &str) {
        let folder = folder_of(files);
        match opened(folder.path()) {
            Ok(found) => {
                assert_eq!(found, *whole, "{what}: less than was acknowledged");
                self.whole += 1;
            }
            Err(error) => {
                assert!(
                    matches!(error, LogError::Corrupt { .. } | LogError::Open { .. }),
                    "{what}: {error}"
                );
                let told = error.to_string();
                assert!(told.contains(&folder.path().display().to_string()), "{what}: {told}");
                assert!(contents(folder.path()) == *files, "{what}: something was changed");
                self.refused += 1;
            }
        }
    }
}

/// Flips `length` bytes at each offset of one file, `stride` bytes apart.
fn flip(log: &TempDir, is_it: impl Fn(&str) -> bool, length: usize, stride: usize) -> Outcomes {
    let files = contents(log.path());
    let name = only(&files, is_it);
    let whole = opened(folder_of(&files).path()).unwrap();
    let mut outcomes = Outcomes::default();
    for at in (0..files[&name].len()).step_by(stride) {
        let mut damaged = files.clone();
        let bytes = damaged.get_mut(&name).expect("it is there");
        bytes.iter_mut().skip(at).take(length).for_each(|byte| *byte ^= 0xff);
        outcomes.check(&damaged, &whole, &format!("{length} bytes of {name} at {at}"));
    }
    outcomes
}

/// Cuts one file off at each length. Returns how long it is, too.
fn cut(log: &TempDir, is_it: impl Fn(&str) -> bool) -> (Outcomes, usize) {
    let files = contents(log.path());
    let name = only(&files, is_it);
    let whole = opened(folder_of(&files).path()).unwrap();
    let mut outcomes = Outcomes::default();
    for length in 0..files[&name].len() {
        let mut damaged = files.clone();
        damaged.get_mut(&name).expect("it is there").truncate(length);
        outcomes.check(&damaged, &whole, &format!("{name} of {length} bytes"));
    }
    (outcomes, files[&name].len())
}

/// The files of a log before its last batch was written, and after.
fn before_and_after_a_batch() -> [BTreeMap<String, Vec<u8>>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let mut log = RocksLog::create(folder.path(), &founding()).unwrap();
    log.write(&appended()).unwrap();
    let before = contents(folder.path());
    log.write(&last()).unwrap();
    [before, contents(folder.path())]
}

#[test]
fn flipped_bytes_of_the_write_ahead_log_are_no_shorter_log() {
    let log = written_log();
    for length in [1, 8] {
        let outcomes = flip(&log, is_wal, length, 1);
        assert!(outcomes.refused > 500 && outcomes.whole == 0, "{outcomes:?}");
    }
}

#[test]
fn a_write_ahead_log_that_was_cut_short_is_no_shorter_log() {
    let (outcomes, lengths) = cut(&written_log(), is_wal);
    assert_eq!((outcomes.whole, outcomes.refused), (0, lengths));
}

#[test]
fn flipped_bytes_of_the_other_files_are_no_shorter_log() {
    let log = older_log();
    for (is_it, stride) in [
        (is_wal as fn(&str) -> bool, 5),
        (|name: &str| name.starts_with("MANIFEST"), 3),
        (|name: &str| name.ends_with(".sst"), 11),
        (|name: &str| name == "CURRENT", 1),
        (|name: &str| name == "extent", 64),
    ] {
        let outcomes = flip(&log, is_it, 1, stride);
        assert!(outcomes.refused > 0, "{outcomes:?}");
    }
}

#[test]
fn a_manifest_that_was_cut_short_is_no_shorter_log() {
    let (outcomes, _) = cut(&older_log(), |name| name.starts_with("MANIFEST"));
    assert!(outcomes.refused > 0, "{outcomes:?}");
}

/// The power went while the last batch was written: it was never acknowledged, so the log is whole without it.
#[test]
fn a_batch_that_a_loss_of_power_tore_is_none() {
    let [before, after] = before_and_after_a_batch();
    let name = only(&after, is_wal);
    let (short, long) = (before[&name].len(), after[&name].len());
    assert!(short < long);
    let without = opened(folder_of(&before).path()).unwrap();
    let with = opened(folder_of(&after).path()).unwrap();
    assert_ne!(without, with);
    let torn = |bytes: Vec<u8>| {
        let mut files = before.clone();
        files.insert(name.clone(), bytes);
        opened(folder_of(&files).path()).unwrap()
    };
    for cut in short..long {
        // The file ends there, has room that was not written, or lacks what comes before what was.
        let whole = &after[&name];
        assert_eq!(torn(whole[..cut].to_vec()), without, "cut at {cut}");
        let mut unwritten = whole[..cut].to_vec();
        unwritten.resize(long, 0);
        let found = torn(unwritten);
        assert!(found == without || (found == with && whole[cut..].iter().all(|byte| *byte == 0)));
        let mut hole = whole.clone();
        hole[short..=cut].fill(0);
        assert_eq!(torn(hole), without, "a hole up to {cut}");
    }
    assert_eq!(torn(after[&name].clone()), with, "synced, and not told to anybody yet");
}

/// The power went while the extent was written. The batch is in the log then, and without it the extent is damaged.
#[test]
fn a_torn_extent_wants_the_batch_that_it_was_written_for() {
    let [before, mut files] = before_and_after_a_batch();
    let whole = opened(folder_of(&files).path()).unwrap();
    let (old, new) = (&before["extent"], files["extent"].clone());
    let changed: Vec<usize> = (0..new.len()).filter(|at| old[*at] != new[*at]).collect();
    files.insert("extent".to_owned(), [&new[..=changed[0]], &old[changed[0] + 1..]].concat());
    assert_eq!(opened(folder_of(&files).path()).unwrap(), whole);
    let name = only(&files, is_wal);
    files.insert(name.clone(), before[&name].clone());
    let error = opened(folder_of(&files).path()).unwrap_err();
    assert!(matches!(error, LogError::Corrupt { .. }), "{error}");
}

#[test]
fn a_log_goes_on_after_what_a_loss_of_power_left() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = RocksLog::create(folder.path(), &founding()).unwrap();
    let before = contents(folder.path());
    log.write(&appended()).unwrap();
    let mut files = contents(folder.path());
    drop(log);
    let name = only(&files, is_wal);
    files.get_mut(&name).expect("it is there").pop();
    files.insert("extent".to_owned(), before["extent"].clone());
    let folder = folder_of(&files);
    for term in 10..20 {
        let batch =
            Batch { hard_state: hard_state(term, 1, 1), must_sync: true, ..Batch::default() };
        RocksLog::open(folder.path()).unwrap().write(&batch).unwrap();
        assert_eq!(opened(folder.path()).unwrap().hard_state.term, term);
    }
}

#[test]
fn a_file_that_is_gone_is_damage_and_a_second_process_is_told_to_wait() {
    let log = older_log();
    let held = RocksLog::open(log.path()).unwrap();
    let second = RocksLog::open(log.path()).unwrap_err();
    assert!(matches!(second, LogError::InUse { .. }), "{second}");
    drop(held);
    let files = contents(log.path());
    let mut gone = 0;
    for name in files.keys() {
        // What RocksDB says to people, locks, and names itself.
        if ["LOG", "LOCK", "OPTIONS", "IDENTITY"].iter().any(|none| name.starts_with(none)) {
            continue;
        }
        let mut damaged = files.clone();
        damaged.remove(name);
        let folder = folder_of(&damaged);
        match opened(folder.path()) {
            // The write-ahead log of a process that wrote nothing.
            Ok(_) => assert!(is_wal(name) && files[name].is_empty(), "without {name}"),
            Err(error) => assert!(matches!(error, LogError::Corrupt { .. }), "{name}: {error}"),
        }
        gone += 1;
    }
    assert!(gone >= 5, "{:?}", files.keys());
}

/// So that whose it is can be asked before RocksDB makes other files of those that there are.
#[test]
fn a_log_that_is_read_and_not_opened_is_left_as_it_was_and_is_nobody_elses() {
    for log in [written_log(), older_log()] {
        let files = contents(log.path());
        let stored = StoredLog::read(log.path()).unwrap();
        let second = StoredLog::read(log.path()).unwrap_err();
        assert!(matches!(second, LogError::InUse { .. }), "{second}");
        let read = stored.recovered().clone();
        drop(stored);
        assert!(contents(log.path()) == files, "something was changed");
        let recovered = StoredLog::read(log.path()).unwrap().open().unwrap().recover().unwrap();
        assert_eq!(recovered, read);
    }
}

/// Whatever was left by one that was cut off.
#[test]
fn a_log_that_is_put_away_makes_room_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let (log, aside) = (folder.path().join("log"), folder.path().join("log.removed"));
    RocksLog::create(&log, &founding()).unwrap().write(&appended()).unwrap();
    for term in [10, 11] {
        let held = RocksLog::open(&log).unwrap();
        let refused = RocksLog::put_away(&log);
        assert!(matches!(refused, Err(LogError::InUse { .. })), "{refused:?}");
        drop(held);
        assert!(opened(&log).is_ok());
        RocksLog::put_away(&log).unwrap();
        assert!(matches!(RocksLog::open(&log), Err(LogError::Missing { .. })));
        assert!(opened(&aside).is_ok());
        // A part of what was put away before is gone.
        fs::remove_file(aside.join("CURRENT")).unwrap();
        let hard_state = hard_state(term, 0, 1);
        let mut made = RocksLog::create(&log, &founding()).unwrap();
        made.write(&Batch { hard_state, must_sync: true, ..Batch::default() }).unwrap();
        drop(made);
        assert_eq!(opened(&log).unwrap().hard_state.term, term);
    }
}

/// The power went before there was a log: there is none, and one can be made.
#[test]
fn a_log_that_was_never_made_is_none() {
    let folder = tempfile::tempdir().unwrap();
    drop(RocksLog::create(folder.path(), &founding()).unwrap());
    let mut files = contents(folder.path());
    let is_missing =
        |folder: &PathBuf| matches!(RocksLog::open(folder), Err(LogError::Missing { .. }));
    let blank = {
        let other = tempfile::tempdir().unwrap();
        drop(super::extent::Extent::create(other.path()).unwrap());
        fs::read(other.path().join("extent")).unwrap()
    };
    // With the database, but without its first batch; and before there was a database.
    files.insert("extent".to_owned(), blank.clone());
    files.get_mut(&only(&files.clone(), is_wal)).expect("it is there").truncate(20);
    for files in [files, BTreeMap::from([("extent".to_owned(), blank)])] {
        let folder = folder_of(&files);
        assert!(is_missing(&folder.path().to_owned()));
        drop(RocksLog::create(folder.path(), &founding()).unwrap());
        assert_eq!(opened(folder.path()).unwrap().life, 0);
        let again = RocksLog::create(folder.path(), &founding());
        assert!(matches!(again, Err(LogError::Occupied { .. })), "{again:?}");
    }
}
