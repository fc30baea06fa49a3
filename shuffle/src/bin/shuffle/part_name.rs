//! What an output is called until it is whole.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// The name beside it, which says of which attempt it is where several could be under way.
pub(crate) fn part_name(output: &Path, attempt: Option<&str>) -> PathBuf {
    // Without a slash at its end.
    let output: PathBuf = output.components().collect();
    let mut name = OsString::from(output);
    if let Some(attempt) = attempt {
        name.push(format!(".{attempt}"));
    }
    name.push(".part");
    name.into()
}

/// What was made by that name, or why it was not.
pub(crate) fn made<T>(part: &Path, made: std::io::Result<T>) -> anyhow::Result<T> {
    let is_taken = made.is_err() && part.symlink_metadata().is_ok();
    made.with_context(|| match is_taken {
        true => format!(
            "{}: another job is writing there, or one was killed: remove it",
            part.display()
        ),
        false => format!("cannot make {}", part.display()),
    })
}
