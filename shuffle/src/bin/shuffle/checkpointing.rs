//! How often an iterative job keeps its state for another attempt, and where.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::job::Flags;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Checkpointing {
    /// Keep the state every K rounds, so that a worker that is lost costs no more than these; 0: never
    #[arg(
        id = "checkpoint_every",
        long = "checkpoint-every",
        value_name = "K",
        default_value = "10"
    )]
    every: usize,
    /// Folder in which the state is kept while the job runs [default: the system's for temporary files]
    #[arg(id = "checkpoint_dir", long = "checkpoint-dir", value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

impl Checkpointing {
    /// After how many rounds, if ever.
    pub(crate) fn every(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(self.every)
    }

    /// What a worker has to be told.
    pub(crate) fn add_to(&self, flags: &mut Flags) {
        flags.add("checkpoint-every", self.every.to_string());
    }

    /// Where the job's own folder is made, if it needs one.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.every().map(|_| self.dir.clone().unwrap_or_else(std::env::temp_dir))
    }
}
