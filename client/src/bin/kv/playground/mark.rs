//! What in a directory is a playground's, and may be replaced by the next one: marks say so, since the names are ones that others may use too.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, bail};

/// The file that says so, of the logs beside it or of all that is beside it in [`KEPT`].
const MARK: &str = "made-by-kv-playground";

/// Where in the directory of a playground nodes keep what they have to.
pub(super) const KEPT: &str = "data";

/// Where in the directory of a playground a node says what it has to.
pub(super) fn log_name(id: u64) -> String {
    format!("node-{id}.log")
}

/// Marks the directory as one whose logs are a playground's. Those that are there without a mark are somebody else's, which is told; and where nodes are to keep
/// something, so is what is there already. A directory that is refused has no mark afterwards that it had not before.
pub(super) fn begin_to_log(dir: &Path, keeps: bool) -> anyhow::Result<()> {
    if keeps {
        check_kept(&dir.join(KEPT))?;
    }
    // A kv from before logs had a mark has left one where nodes keep something.
    if dir.join(MARK).exists() || dir.join(KEPT).join(MARK).exists() {
        return Ok(());
    }
    let context = || format!("cannot begin in {}", dir.display());
    for entry in fs::read_dir(dir).with_context(context)? {
        let entry = entry.with_context(context)?;
        // Also of more nodes than there are to be: the mark holds for the next playground, too.
        if is_log_name(&entry.file_name().to_string_lossy()) {
            bail!(
                "{} is not of a playground, and would be overwritten: choose another directory by --dir, or remove it yourself",
                entry.path().display()
            );
        }
    }
    File::create(dir.join(MARK)).map(drop).with_context(context)
}

fn is_log_name(name: &str) -> bool {
    let id = name.strip_prefix("node-").and_then(|rest| rest.strip_suffix(".log"));
    id.is_some_and(|id| id.parse::<u64>().is_ok())
}

/// Whether there is something where nodes keep what they have to. Somebody else's is told.
fn check_kept(kept: &Path) -> anyhow::Result<bool> {
    let is_there = fs::symlink_metadata(kept).is_ok();
    if is_there && !kept.join(MARK).exists() {
        bail!(
            "{} is not of a playground, and would be removed: choose another directory by --dir, or remove it yourself",
            kept.display()
        );
    }
    Ok(is_there)
}

/// Makes the directory for what nodes keep. What an earlier playground kept is nothing to this one; what is somebody else's stays, and is told.
pub(super) fn begin_to_keep(kept: &Path) -> anyhow::Result<()> {
    let is_there = check_kept(kept)?;
    let emptied = if is_there { fs::remove_dir_all(kept) } else { Ok(()) };
    emptied
        .and_then(|()| fs::create_dir(kept))
        .and_then(|()| File::create(kept.join(MARK)).map(drop))
        .with_context(|| format!("cannot begin anew in {}", kept.display()))
}
