//! A disk in memory that forgets and tears what was not synced when the power goes, and fails when told to.
//!
//! What a file system promises after a crash is little: bytes that were synced are there; of bytes
//! that were only written, any part may be, sector by sector and in any order; a file is long
//! enough for the last sector that is, and what lies between reads as zeros; a name that was made
//! or removed without syncing its directory may be gone or back ("All file systems are not created equal", Pillai et
//! al., OSDI 2014). After a failed sync, what was to be written is shown as long as the machine runs, and later syncs
//! succeed, but it is not on the disk ("Can applications recover from fsync failures?", Rebello et al., ATC 2020). Append-only
//! files are all that the log needs, so there is no overwriting.
//!
//! It does at once what it is told to; when that is and when the log learns of it is up to who simulates.

#[cfg(test)]
mod crashes;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod log_run;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weft_server::durable::{Disk as Files, DiskError};

use crate::limits::SECTOR_BYTES;

/// Append-only files by name.
#[derive(Debug)]
pub struct Disk {
    files: BTreeMap<String, File>,
    /// Files that were removed, as long as their directory is not synced.
    removed: BTreeMap<String, File>,
    random: StdRng,
    /// Files of which every sync fails.
    failing: BTreeSet<String>,
    fails_next_sync: bool,
    fails_next_append: bool,
    /// Bytes that all files may have.
    room_bytes: u64,
    /// How much longer everything takes.
    slow: Option<Range<Duration>>,
    syncs: u64,
    outgrown: u64,
    failed_or_late: u64,
}

#[derive(Debug, Default)]
struct File {
    bytes: Vec<u8>,
    /// This much was synced.
    synced: usize,
    /// What a failed sync was to write: shown until the power goes.
    lost: Vec<Range<usize>>,
    /// Whether the name is there after a crash.
    is_named: bool,
    /// Room that is kept for it.
    reserved_bytes: u64,
}

impl Disk {
    /// An empty disk, whose faults follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Disk {
            files: BTreeMap::new(),
            removed: BTreeMap::new(),
            random: StdRng::seed_from_u64(seed),
            failing: BTreeSet::new(),
            fails_next_sync: false,
            fails_next_append: false,
            room_bytes: u64::MAX,
            slow: None,
            syncs: 0,
            outgrown: 0,
            failed_or_late: 0,
        }
    }

    /// The bytes of a file, synced or not; `None` if there is none.
    pub fn read(&self, name: &str) -> Option<&[u8]> {
        self.files.get(name).map(|file| &file.bytes[..])
    }

    /// How many bytes of a file were synced.
    pub fn synced_bytes(&self, name: &str) -> usize {
        self.files.get(name).map_or(0, |file| file.synced)
    }

    /// How often any file was synced.
    pub fn syncs(&self) -> u64 {
        self.syncs
    }

    /// How often a file became longer than what is kept for it, which a full disk may refuse.
    pub fn outgrown(&self) -> u64 {
        self.outgrown
    }

    /// From now on every sync of this file fails.
    pub fn fail_syncs(&mut self, name: &str) {
        self.failing.insert(name.to_owned());
    }

    /// The next sync fails, and those after it succeed without writing what it was to write: as Linux has it.
    pub fn fail_next_sync(&mut self) {
        self.fails_next_sync = true;
    }

    /// The next append fails, after a drawn part of its bytes.
    pub fn fail_next_append(&mut self) {
        self.fails_next_append = true;
    }

    /// All files together may have this many bytes, and what is kept for them.
    pub fn limit(&mut self, room_bytes: u64) {
        self.room_bytes = room_bytes;
    }

    /// There is no more room than is taken.
    pub fn fill(&mut self) {
        self.limit(self.taken_bytes());
    }

    /// From now on everything takes longer by a time drawn from `extra`.
    pub fn slow(&mut self, extra: Range<Duration>) {
        self.slow = Some(extra);
    }

    /// It has room again, is as fast as ever, and fails no more.
    pub fn repair(&mut self) {
        self.limit(u64::MAX);
        self.slow = None;
        self.failing.clear();
        (self.fails_next_sync, self.fails_next_append) = (false, false);
    }

    /// How much longer than usual the next thing takes.
    pub fn delay(&mut self) -> Duration {
        let Some(extra) = self.slow.clone() else { return Duration::ZERO };
        self.failed_or_late += 1;
        self.random.random_range(extra)
    }

    /// Who asked is told that something failed, which takes as long as doing it: whoever looks how often meanwhile is not to take it for settled.
    pub fn tell_failed(&mut self) {
        self.failed_or_late += 1;
    }

    /// How often it did something late, or not at all, or told of that.
    pub fn failed_or_late(&self) -> u64 {
        self.failed_or_late
    }

    /// Flips bits of one byte, as bad memory or a bad disk does.
    pub fn flip(&mut self, name: &str, offset: usize, bits: u8) {
        if let Some(byte) = self.files.get_mut(name).and_then(|file| file.bytes.get_mut(offset)) {
            *byte ^= bits;
        }
    }

    /// Makes zeroes of some bytes of a file.
    pub fn punch(&mut self, name: &str, hole: Range<usize>) {
        let bytes = self.files.get_mut(name).and_then(|file| file.bytes.get_mut(hole));
        if let Some(bytes) = bytes {
            bytes.fill(0);
        }
    }

    /// Cuts a file off.
    pub fn cut(&mut self, name: &str, len: usize) {
        if let Some(file) = self.files.get_mut(name) {
            file.bytes.truncate(len);
            file.synced = file.synced.min(len);
        }
    }

    /// Loses a file, as an operator can.
    pub fn lose(&mut self, name: &str) {
        self.files.remove(name);
    }

    /// The power goes and comes back: each file keeps what was synced, and a drawn part of the
    /// rest.
    pub fn crash(&mut self) {
        let Disk { files, removed, random, .. } = self;
        files.retain(|_, file| file.is_named || random.random_bool(0.5));
        for (name, file) in std::mem::take(removed) {
            if file.is_named && random.random_bool(0.5) {
                files.entry(name).or_insert(file);
            }
        }
        for file in files.values_mut() {
            for range in std::mem::take(&mut file.lost) {
                file.bytes[range].fill(0);
            }
            file.tear(random);
            file.synced = file.bytes.len();
            file.is_named = true;
        }
        self.failing.clear();
        (self.fails_next_sync, self.fails_next_append) = (false, false);
    }

    fn file(&mut self, name: &str) -> Result<&mut File, DiskError> {
        let missing = || DiskError::Missing { name: name.to_owned() };
        self.files.get_mut(name).ok_or_else(missing)
    }

    /// Bytes that are taken, by what is written or by what is kept.
    fn taken_bytes(&self) -> u64 {
        let taken = |file: &File| file.reserved_bytes.max(file.bytes.len() as u64);
        self.files.values().map(taken).sum()
    }
}

impl Files for Disk {
    fn names(&mut self) -> Result<Vec<String>, DiskError> {
        Ok(self.files.keys().cloned().collect())
    }

    fn create(&mut self, name: &str, reserve_bytes: u64) -> Result<(), DiskError> {
        if self.files.contains_key(name) {
            return Err(DiskError::Exists { name: name.to_owned() });
        }
        if self.taken_bytes() + reserve_bytes > self.room_bytes {
            self.failed_or_late += 1;
            return Err(DiskError::Full);
        }
        let file = File { reserved_bytes: reserve_bytes, ..File::default() };
        self.files.insert(name.to_owned(), file);
        Ok(())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        let (taken, room) = (self.taken_bytes(), self.room_bytes);
        let part = self.random.random_range(0..=bytes.len());
        let fails = std::mem::take(&mut self.fails_next_append);
        let file = self.file(name)?;
        let grown = (file.bytes.len() + bytes.len()) as u64;
        let is_outgrown = grown > file.reserved_bytes;
        if taken + grown.saturating_sub(file.reserved_bytes.max(file.bytes.len() as u64)) > room {
            file.bytes.extend_from_slice(&bytes[..part]);
            self.failed_or_late += 1;
            self.outgrown += u64::from(is_outgrown);
            return Err(DiskError::Full);
        }
        if fails {
            file.bytes.extend_from_slice(&bytes[..part]);
            self.failed_or_late += 1;
            return Err(failed("write", name));
        }
        file.bytes.extend_from_slice(bytes);
        self.outgrown += u64::from(is_outgrown);
        Ok(())
    }

    fn sync(&mut self, name: &str) -> Result<(), DiskError> {
        let is_failing = self.failing.contains(name);
        let fails_once = std::mem::take(&mut self.fails_next_sync);
        let file = self.file(name)?;
        if is_failing || fails_once {
            file.lost.push(file.synced..file.bytes.len());
            file.synced = file.bytes.len();
            self.failed_or_late += 1;
            return Err(failed("sync", name));
        }
        file.synced = file.bytes.len();
        self.syncs += 1;
        Ok(())
    }

    fn sync_names(&mut self) -> Result<(), DiskError> {
        self.files.values_mut().for_each(|file| file.is_named = true);
        self.removed.clear();
        Ok(())
    }

    fn trim(&mut self, name: &str) -> Result<(), DiskError> {
        let file = self.file(name)?;
        file.reserved_bytes = file.bytes.len() as u64;
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.file(name)?;
        if let Some(file) = self.files.remove(name) {
            self.removed.insert(name.to_owned(), file);
        }
        Ok(())
    }

    fn settle(&mut self, name: &str) -> Result<(), DiskError> {
        self.sync(name)?;
        let file = self.file(name)?;
        for range in std::mem::take(&mut file.lost) {
            file.bytes[range].fill(0);
        }
        Ok(())
    }

    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        let bytes = &self.file(name)?.bytes;
        let start = usize::try_from(offset).map_or(bytes.len(), |start| start.min(bytes.len()));
        let read = into.len().min(bytes.len() - start);
        into[..read].copy_from_slice(&bytes[start..start + read]);
        Ok(read)
    }
}

fn failed(what: &'static str, name: &str) -> DiskError {
    DiskError::Failed { what, name: name.to_owned(), error: "simulated".to_owned() }
}

impl File {
    /// Keeps a drawn set of the sectors that were not synced. The last one kept may be cut short,
    /// as the file's length is written apart from its bytes.
    fn tear(&mut self, random: &mut StdRng) {
        let mut end = self.synced;
        let mut start = self.synced;
        while start < self.bytes.len() {
            let sector_end = (start / SECTOR_BYTES + 1) * SECTOR_BYTES;
            let stop = sector_end.min(self.bytes.len());
            if random.random_bool(0.5) {
                end =
                    if random.random_bool(0.25) { random.random_range(start..stop) } else { stop };
            } else {
                self.bytes[start..stop].fill(0);
            }
            start = stop;
        }
        self.bytes.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: u64 = 500;

    fn with_file(seed: u64, bytes: &[u8]) -> Disk {
        let mut disk = Disk::new(seed);
        disk.create("log", 0).unwrap();
        disk.append("log", bytes).unwrap();
        disk
    }

    #[test]
    fn what_was_synced_survives_and_what_was_not_may_not() {
        let mut lost = 0;
        for seed in 0..SEEDS {
            let mut disk = with_file(seed, &[1; 700]);
            disk.sync("log").unwrap();
            disk.sync_names().unwrap();
            disk.append("log", &[2; 3000]).unwrap();
            disk.crash();
            let bytes = disk.read("log").unwrap();
            assert_eq!(bytes[..700], [1; 700]);
            assert!(bytes.len() <= 3700 && bytes[700..].iter().all(|byte| [0, 2].contains(byte)));
            lost += usize::from(bytes != [&[1; 700][..], &[2; 3000]].concat());
        }
        assert!(lost > SEEDS as usize / 2, "{lost} crashes lost something");
    }

    #[test]
    fn a_crash_can_tear_inside_a_sector_and_keep_a_later_sector_without_an_earlier_one() {
        let (mut torn, mut holes) = (0, 0);
        for seed in 0..SEEDS {
            let mut disk = with_file(seed, &[7; 4 * SECTOR_BYTES]);
            disk.sync_names().unwrap();
            disk.crash();
            let bytes = disk.read("log").unwrap();
            torn += usize::from(!bytes.len().is_multiple_of(SECTOR_BYTES));
            holes += usize::from(bytes.contains(&0) && bytes.ends_with(&[7]));
        }
        assert!(torn > 0 && holes > 0, "{torn} torn, {holes} with holes");
    }

    #[test]
    fn a_crash_is_final_and_follows_from_the_seed() {
        let contents = |disk: &Disk| -> Vec<(String, Vec<u8>)> {
            disk.files.iter().map(|(name, file)| (name.clone(), file.bytes.clone())).collect()
        };
        let after = |seed| {
            let mut disk = with_file(seed, &[7; 5000]);
            disk.crash();
            let once = contents(&disk);
            disk.crash();
            assert_eq!(once, contents(&disk), "what was read after a crash stays");
            once
        };
        assert!((0..SEEDS).all(|seed| after(seed) == after(seed)));
    }

    #[test]
    fn a_name_that_was_made_or_removed_is_sure_once_it_was_synced() {
        let kept = |removes: bool, syncs_names: bool| {
            (0..SEEDS)
                .filter(|seed| {
                    let mut disk = with_file(*seed, b"bytes");
                    disk.sync("log").unwrap();
                    if removes {
                        disk.sync_names().unwrap();
                        disk.remove("log").unwrap();
                    }
                    if syncs_names {
                        disk.sync_names().unwrap();
                    }
                    disk.crash();
                    disk.names().unwrap().len() == 1
                })
                .count() as u64
        };
        assert_eq!(kept(false, true), SEEDS);
        assert!((1..SEEDS).contains(&kept(false, false)));
        assert_eq!(kept(true, true), 0);
        assert!((1..SEEDS).contains(&kept(true, false)));
    }

    #[test]
    fn a_failed_sync_stays_failed() {
        let mut disk = with_file(0, b"bytes");
        disk.fail_syncs("log");
        assert!(disk.sync("log").is_err());
        assert!(disk.sync("log").is_err());
        disk.crash();
        if disk.read("log").is_some() {
            assert_eq!(disk.sync("log"), Ok(()));
        }
        assert_eq!(disk.sync("other"), Err(DiskError::Missing { name: "other".to_owned() }));
    }

    #[test]
    fn what_a_failed_sync_was_to_write_is_shown_and_gone_though_a_later_one_succeeds() {
        let mut disk = with_file(0, b"before");
        disk.sync_names().unwrap();
        disk.sync("log").unwrap();
        disk.append("log", b"failed").unwrap();
        disk.fail_next_sync();
        assert!(disk.sync("log").is_err());
        assert_eq!(disk.sync("log"), Ok(()));
        assert_eq!(disk.read("log"), Some(&b"beforefailed"[..]));
        disk.crash();
        assert_eq!(disk.read("log"), Some(&b"before\0\0\0\0\0\0"[..]));
    }

    #[test]
    fn a_full_disk_refuses_what_it_has_no_room_for_and_keeps_what_it_promised() {
        let mut disk = Disk::new(0);
        disk.limit(100);
        disk.create("log", 80).unwrap();
        assert_eq!(disk.create("next", 30), Err(DiskError::Full));
        disk.append("log", &[1; 80]).unwrap();
        assert_eq!(disk.outgrown(), 0);
        assert_eq!(disk.append("log", &[1; 30]), Err(DiskError::Full));
        assert_eq!(disk.outgrown(), 1);
        disk.remove("log").unwrap();
        assert_eq!(disk.create("next", 30), Ok(()));
    }
}
