//! Whether the inputs of a job are what they were when it began: what attempts before have kept is of what they read.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::job::Asked;

/// What tells whether a file is what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InputState {
    /// Its number in the file system.
    inode: u64,
    len: u64,
    /// When it was changed.
    seconds: i64,
    nanoseconds: i64,
}

/// Of all inputs of a job: none of one that is not there.
pub(crate) fn state_of_inputs(asked: &dyn Asked) -> Vec<Option<InputState>> {
    asked.inputs().into_iter().map(state_of).collect()
}

fn state_of(path: &Path) -> Option<InputState> {
    let metadata = path.metadata().ok()?;
    Some(InputState {
        inode: metadata.ino(),
        len: metadata.len(),
        seconds: metadata.mtime(),
        nanoseconds: metadata.mtime_nsec(),
    })
}
