//! Tries a job again when a worker was lost.
//!
//! That a process was killed, hangs or cannot be reached says nothing of the job, so another attempt may come to its end: with new processes, once none of the old ones is
//! left, and with a secret of its own. What a job itself finds, such as a malformed line, and a fault of the program would come again, and end it at once.

use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use tempfile::TempDir;
use weft_shuffle::CheckpointPlace;

use crate::account::Account;
use crate::event::Outcome;
use crate::inputs::state_of_inputs;
use crate::interrupt::Interrupt;
use crate::job::{Asked, Job};
use crate::launch::{self, Stopped};
use crate::onlooker::Onlooker;
use crate::process::Launcher;
use crate::site::in_attempt;

/// Runs the job to its end, in as many attempts as it may have, of which it gives account.
pub(crate) fn run(
    job: &Job,
    account: &mut Account,
    interrupt: &Arc<Interrupt>,
) -> anyhow::Result<Outcome> {
    let launcher = Launcher::Here(Arc::clone(interrupt));
    let asked = job.asked();
    let of = asked.common().max_attempts;
    let (mut kept, mut inputs) = (None, None);
    for attempt in 1.. {
        // What can be wrong with the command is told once, not by every worker.
        let phases = asked.prepare()?;
        // What was kept is of what was read.
        let read = state_of_inputs(asked);
        if inputs.get_or_insert_with(|| read.clone()) != &read {
            asked.end(false)?;
            bail!("an input has changed since the first attempt began: the job stops");
        }
        if kept.is_none() {
            kept = checkpoint_folder(asked).inspect_err(|_| drop(asked.end(false)))?;
        }
        let place = kept.as_ref().map(|kept| CheckpointPlace::Folder(kept.path().to_owned()));
        let onlooker = Onlooker::of_terminal(phases, asked.common().workers);
        account.begin_attempt(attempt);
        let done = launch::run(job, attempt, place.as_ref(), &launcher, onlooker, account);
        account.end_attempt(&done);
        // By now no worker is left.
        asked.end(done.is_ok())?;
        if let (Err(_), Some(signal)) = (&done, interrupt.signal()) {
            bail!("the job was ended by signal {signal}");
        }
        match done {
            Ok(outcome) => return Ok(outcome),
            Err(Stopped { error, is_loss: true, .. }) if attempt < of => {
                eprintln!("shuffle: {error:#}: attempt {} of {of} begins", attempt + 1);
            }
            Err(Stopped { error, is_loss: true, .. }) if of > 1 => {
                return Err(anyhow!("{error:#}, in attempt {attempt} of {of}: the job stops"));
            }
            Err(Stopped { error, is_loss: true, .. }) => {
                return Err(anyhow!("{error:#}: the job stops"));
            }
            Err(Stopped { error, is_loss: false, .. }) if attempt > 1 => {
                return Err(anyhow!(in_attempt(&format!("{error:#}"), attempt, of)));
            }
            Err(Stopped { error, is_loss: false, .. }) => return Err(error),
        }
    }
    unreachable!("the last attempt ends the job")
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
