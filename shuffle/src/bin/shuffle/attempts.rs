//! Tries a job again when a worker was lost.
//!
//! That a process was killed, hangs or cannot be reached says nothing of the job, so another attempt may come to its end: with new processes, once none of the old ones is
//! left, and with a secret of its own. What a job itself finds, such as a malformed line, and a fault of the program would come again, and end it at once.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use tempfile::TempDir;

use crate::account::Account;
use crate::event::Outcome;
use crate::job::{Asked, Job};
use crate::launch::{self, Stopped};

/// Runs the job to its end, in as many attempts as it may have, of which it gives account.
pub(crate) fn run(job: &Job, account: &mut Account) -> anyhow::Result<Outcome> {
    let asked = job.asked();
    let of = asked.common().max_attempts;
    let (mut kept, mut inputs) = (None, None);
    for attempt in 1.. {
        // What can be wrong with the command is told once, not by every worker.
        let phases = asked.prepare()?;
        // What was kept is of what was read.
        let read = asked.inputs().into_iter().map(state_of).collect::<Vec<_>>();
        if inputs.get_or_insert_with(|| read.clone()) != &read {
            asked.end(false)?;
            bail!("an input has changed since the first attempt began: the job stops");
        }
        if kept.is_none() {
            kept = checkpoint_folder(asked).inspect_err(|_| drop(asked.end(false)))?;
        }
        let folder = kept.as_ref().map(TempDir::path);
        account.begin_attempt(attempt);
        let done = launch::run(job, attempt, folder, phases, account);
        account.end_attempt(&done);
        // By now no worker is left.
        asked.end(done.is_ok())?;
        match done {
            Ok(outcome) => return Ok(outcome),
            Err(Stopped { error, is_loss: true }) if attempt < of => {
                eprintln!("shuffle: {error:#}: attempt {} of {of} begins", attempt + 1);
            }
            Err(Stopped { error, is_loss: true }) if of > 1 => {
                return Err(anyhow!("{error:#}, in attempt {attempt} of {of}: the job stops"));
            }
            Err(Stopped { error, is_loss: true }) => {
                return Err(anyhow!("{error:#}: the job stops"));
            }
            Err(Stopped { error, is_loss: false }) => return Err(error),
        }
    }
    unreachable!("the last attempt ends the job")
}

/// What tells whether a file is what it was: its number, its length, and when it was changed.
fn state_of(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let metadata = path.metadata().ok()?;
    Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

/// Makes a folder for what the workers keep for another attempt, which goes with this value.
fn checkpoint_folder(asked: &dyn Asked) -> anyhow::Result<Option<TempDir>> {
    let Some(folder) = asked.checkpoints().and_then(|asked| asked.folder()) else {
        return Ok(None);
    };
    let made = tempfile::Builder::new().prefix("weft-shuffle-").tempdir_in(&folder);
    made.map(Some).with_context(|| {
        format!("cannot make a folder for checkpoints in {}; give another by --checkpoint-dir, or keep none by --checkpoint-every 0", folder.display())
    })
}
