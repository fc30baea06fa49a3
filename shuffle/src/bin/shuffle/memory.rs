//! What a job may take of each worker's memory, and where what is more goes.

use std::path::{Path, PathBuf};

use weft_shuffle::check_spill_folder;

use crate::args::size;
use crate::job::{Asked, Flags};

/// Memory that a worker needs in any case, and for each worker that there is: what comes from it and goes to it has room in that.
const LEAST: u64 = 48 << 20;
const OF_WORKER: u64 = 8 << 20;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Memory {
    /// What records may take of the memory of each worker, such as 2GiB; what is more goes to files
    /// [default: half of the machine's memory, for all workers]
    #[arg(long = "memory", value_name = "SIZE", value_parser = size)]
    pub(crate) bytes: Option<u64>,
    /// Folder for what memory has no room for [default: where the output is made, if one is]
    #[arg(long, value_name = "FOLDER")]
    spill_dir: Option<PathBuf>,
}

impl Memory {
    /// Whether it is enough for one of so many workers.
    pub(crate) fn check(&self, workers: usize) -> Result<(), String> {
        let least = LEAST + OF_WORKER * workers as u64;
        match self.bytes {
            Some(bytes) if bytes < least => Err(format!(
                "--memory is too little: each of {workers} workers needs {}MiB",
                least >> 20
            )),
            _ => Ok(()),
        }
    }

    /// Where what is more goes, of a job whose output is made there.
    pub(crate) fn spill_folder(&self, output: Option<&Path>) -> PathBuf {
        let of_output = || match output.map(Path::parent) {
            None => std::env::temp_dir(),
            Some(Some(folder)) if folder != Path::new("") => folder.to_owned(),
            Some(_) => PathBuf::from("."),
        };
        self.spill_dir.clone().unwrap_or_else(of_output)
    }

    /// Whether something can be kept there. If not, `job` ends, whose output is prepared.
    pub(crate) fn prepare(&self, job: &impl Asked, output: Option<&Path>) -> anyhow::Result<()> {
        let checked = check_spill_folder(&self.spill_folder(output));
        checked.or_else(|error| {
            job.end(false)?;
            Err(error.into())
        })
    }

    /// What a worker has to be told.
    pub(crate) fn add_to(&self, flags: &mut Flags, output: Option<&Path>) {
        flags.add("spill-dir", self.spill_folder(output));
        if let Some(bytes) = self.bytes {
            flags.add("memory", format!("{bytes}B"));
        }
    }
}
