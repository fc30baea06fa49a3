//! A disk in memory that forgets and tears what was not synced when the power goes.
//!
//! What a file system promises after a crash is little: bytes that were synced are there; of bytes
//! that were only written, any part may be, sector by sector and in any order; a file is long
//! enough for the last sector that is, and what lies between reads as zeros; a name that was made
//! without syncing its directory may be gone ("All file systems are not created equal", Pillai et
//! al., OSDI 2014). Append-only files are all that the log needs, so there is no overwriting.
//!
//! No core writes to a disk yet, so no scenario has one: what is shown of it so far are its own
//! tests.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::limits::SECTOR_BYTES;

/// Append-only files by name.
#[derive(Debug)]
pub struct Disk {
    files: BTreeMap<String, File>,
    random: StdRng,
    /// Files of which every sync fails: once one has, what it was to write is lost, and a later
    /// success would lie about it.
    failing: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct File {
    bytes: Vec<u8>,
    /// This much is there after a crash.
    synced: usize,
    /// Whether the name is.
    named: bool,
}

/// The disk did not write what it was told to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the disk failed to write; what was not synced before is lost")]
pub struct SyncError;

/// There is no such file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no file {name}")]
pub struct NoSuchFile {
    /// The name asked for.
    pub name: String,
}

impl Disk {
    /// An empty disk, whose faults follow from `seed`.
    pub fn new(seed: u64) -> Self {
        let (files, failing) = (BTreeMap::new(), BTreeSet::new());
        Disk { files, random: StdRng::seed_from_u64(seed), failing }
    }

    /// Appends to a file, which is made if it is not there.
    pub fn append(&mut self, name: &str, bytes: &[u8]) {
        self.files.entry(name.to_owned()).or_default().bytes.extend_from_slice(bytes);
    }

    /// The bytes of a file, synced or not.
    ///
    /// # Errors
    /// [`NoSuchFile`].
    pub fn read(&self, name: &str) -> Result<&[u8], NoSuchFile> {
        match self.files.get(name) {
            Some(file) => Ok(&file.bytes),
            None => Err(NoSuchFile { name: name.to_owned() }),
        }
    }

    /// Names of all files, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Makes what was appended to a file survive a crash; its name needs
    /// [`sync_names`](Self::sync_names) too.
    ///
    /// # Errors
    /// [`SyncError`] after [`fail_syncs`](Self::fail_syncs), from then on.
    pub fn sync(&mut self, name: &str) -> Result<(), SyncError> {
        if self.failing.contains(name) {
            return Err(SyncError);
        }
        if let Some(file) = self.files.get_mut(name) {
            file.synced = file.bytes.len();
        }
        Ok(())
    }

    /// Makes the names of all files survive a crash: syncs the directory.
    pub fn sync_names(&mut self) {
        self.files.values_mut().for_each(|file| file.named = true);
    }

    /// From now on every sync of this file fails.
    pub fn fail_syncs(&mut self, name: &str) {
        self.failing.insert(name.to_owned());
    }

    /// The power goes and comes back: each file keeps what was synced, and a drawn part of the
    /// rest.
    pub fn crash(&mut self) {
        let Disk { files, random, .. } = self;
        files.retain(|_, file| file.named || random.random_bool(0.5));
        for file in files.values_mut() {
            file.tear(random);
            file.synced = file.bytes.len();
            file.named = true;
        }
        self.failing.clear();
    }
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

    #[test]
    fn what_was_synced_survives_and_what_was_not_may_not() {
        let mut lost = 0;
        for seed in 0..SEEDS {
            let mut disk = Disk::new(seed);
            disk.append("log", &[1; 700]);
            disk.sync("log").unwrap();
            disk.sync_names();
            disk.append("log", &[2; 3000]);
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
            let mut disk = Disk::new(seed);
            disk.append("log", &[7; 4 * SECTOR_BYTES]);
            disk.sync_names();
            disk.crash();
            let bytes = disk.read("log").unwrap();
            torn += usize::from(!bytes.len().is_multiple_of(SECTOR_BYTES));
            holes += usize::from(bytes.contains(&0) && bytes.ends_with(&[7]));
        }
        assert!(torn > 0 && holes > 0, "{torn} torn, {holes} with holes");
    }

    #[test]
    fn a_crash_is_final_and_follows_from_the_seed() {
        let after = |seed| {
            let mut disk = Disk::new(seed);
            disk.append("log", &[7; 5000]);
            disk.crash();
            let once: Vec<Vec<u8>> =
                disk.names().map(|name| disk.read(name).unwrap().to_vec()).collect();
            disk.crash();
            let twice: Vec<Vec<u8>> =
                disk.names().map(|name| disk.read(name).unwrap().to_vec()).collect();
            assert_eq!(once, twice, "what was read after a crash stays");
            once
        };
        assert!((0..SEEDS).all(|seed| after(seed) == after(seed)));
    }

    #[test]
    fn a_name_survives_if_it_was_synced() {
        let kept = |sync_names: bool| {
            (0..SEEDS)
                .filter(|seed| {
                    let mut disk = Disk::new(*seed);
                    disk.append("log", b"bytes");
                    disk.sync("log").unwrap();
                    if sync_names {
                        disk.sync_names();
                    }
                    disk.crash();
                    disk.names().count() == 1
                })
                .count() as u64
        };
        assert_eq!(kept(true), SEEDS);
        assert!((1..SEEDS).contains(&kept(false)));
    }

    #[test]
    fn a_failed_sync_stays_failed() {
        let mut disk = Disk::new(0);
        disk.append("log", b"bytes");
        disk.fail_syncs("log");
        assert_eq!(disk.sync("log"), Err(SyncError));
        assert_eq!(disk.sync("log"), Err(SyncError));
        disk.crash();
        assert_eq!(disk.sync("log"), Ok(()));
        assert_eq!(disk.read("other"), Err(NoSuchFile { name: "other".to_owned() }));
    }
}
