//! What is in a node's data directory, so that it can be said that nothing in it was changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What is in each file.
pub(crate) type Files = BTreeMap<PathBuf, Vec<u8>>;

/// All files in a directory and those within it.
pub(crate) fn files(directory: &Path) -> Files {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => drop(files.insert(path.clone(), fs::read(path).unwrap())),
        }
    }
    files
}

/// Those that are not now what they were before: gone, new or different in a byte.
pub(crate) fn changed(before: &Files, directory: &Path) -> Vec<PathBuf> {
    let now = files(directory);
    let paths = before.keys().chain(now.keys().filter(|path| !before.contains_key(*path)));
    paths.filter(|path| before.get(*path) != now.get(*path)).cloned().collect()
}

/// Each file is what it was, byte for byte.
pub(crate) fn check_unchanged(before: &Files, directory: &Path) {
    let changed = changed(before, directory);
    assert!(changed.is_empty(), "{changed:?}");
}
