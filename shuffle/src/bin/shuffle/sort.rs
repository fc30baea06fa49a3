//! `shuffle sort`: what it is asked, and what of that can be wrong.

mod report;
mod work;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};
use weft_object::Types;
use weft_shuffle::job::terasort::{self, RECORD_BYTES};
use weft_shuffle::{RecordFile, Worker, check_spill_folder};

use crate::args::{Common, Flags, check_path, size};
use crate::progress::{Phase, Unit};
use crate::work::Needs;

/// The phases: the records are read, and they are written in order.
const READING: usize = 0;
const WRITING: usize = 1;

/// Memory that a worker needs in any case, and for each worker that there is: what comes from it and goes to it has room in that.
const MEMORY_LEAST: u64 = 48 << 20;
const MEMORY_OF_WORKER: u64 = 8 << 20;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Sort {
    /// Records of 100 bytes, one behind the other, as gensort and `shuffle generate terasort` make them
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Folder for the sorted records, a file for each worker; it must not be there
    #[arg(long, value_name = "FOLDER")]
    output: PathBuf,
    /// What records may take of the memory of each worker, such as 2GiB; what is more goes to files
    /// [default: half of the machine's memory, for all workers]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// Folder for what memory has no room for [default: where the output is made]
    #[arg(long, value_name = "FOLDER")]
    spill_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What came out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sorted {
    records: u64,
    records_by_worker: Vec<u64>,
    /// From when the workers had met to when all was written.
    seconds: f64,
    /// What the links between the workers took.
    bytes_shuffled: u64,
    /// What was kept in files meanwhile.
    bytes_spilled: u64,
    /// The most memory that any worker had.
    peak_memory_bytes: u64,
}

impl Sort {
    /// What no single value can show.
    pub(crate) fn check(&self) -> Result<(), String> {
        check_path("--input", &self.input)?;
        check_path("--output", &self.output)?;
        let workers = self.common.workers;
        let least = MEMORY_LEAST + MEMORY_OF_WORKER * workers as u64;
        match self.memory {
            Some(memory) if memory < least => Err(format!(
                "--memory is too little: each of {workers} workers needs {}MiB",
                least >> 20
            )),
            _ => Ok(()),
        }
    }

    /// Looks whether the input can be read, the output be made, and something be kept in files. Returns what the job will do.
    pub(crate) fn prepare(&self) -> anyhow::Result<Vec<Phase>> {
        let file = RecordFile::<RECORD_BYTES>::open(&self.input)?;
        if self.output.symlink_metadata().is_ok() {
            bail!("{} is there already: give another name", self.output.display());
        }
        let part = self.part();
        fs::create_dir(&part).with_context(|| match part.exists() {
            true => format!(
                "{}: another sort is writing there, or one was killed: remove it",
                part.display()
            ),
            false => format!("cannot make {}", part.display()),
        })?;
        if let Err(error) = check_spill_folder(&self.spill_folder()) {
            self.end(false)?;
            return Err(error.into());
        }
        let bytes = file.len() * RECORD_BYTES as u64;
        Ok(vec![
            Phase { name: "read", total: bytes, unit: Unit::Bytes },
            Phase { name: "write", total: bytes, unit: Unit::Bytes },
        ])
    }

    /// The output gets its name when it is whole, and is removed if it will not be.
    pub(crate) fn end(&self, is_whole: bool) -> anyhow::Result<()> {
        let part = self.part();
        let named = match is_whole {
            // What was made there meanwhile is somebody else's.
            true => renameat_with(CWD, &part, CWD, &self.output, RenameFlags::NOREPLACE),
            false => Ok(()),
        };
        if !is_whole || named.is_err() {
            // Why the job failed is told; this is of no use to anybody.
            let _ = fs::remove_dir_all(&part);
        }
        named.with_context(|| format!("cannot name {}", self.output.display()))
    }

    /// What a worker has to be told.
    pub(crate) fn add_to(&self, flags: &mut Flags) {
        flags.command("sort");
        flags.add("input", &self.input);
        flags.add("output", &self.output);
        flags.add("spill-dir", self.spill_folder());
        if let Some(memory) = self.memory {
            flags.add("memory", format!("{memory}B"));
        }
    }

    pub(crate) fn needs(&self) -> Needs {
        Needs {
            types: terasort::types(Types::new()),
            same: format!("{:?}", (&self.input, &self.output)),
            memory_bytes: self.memory,
            spill_folder: Some(self.spill_folder()),
        }
    }

    /// A worker's part of the job; tells how far it is, if somebody looks.
    pub(crate) fn work(&self, worker: &Worker, report: bool) -> anyhow::Result<()> {
        work::run(self, worker, report)
    }

    /// What is printed of what came out.
    pub(crate) fn report(&self, outcome: &Sorted) -> String {
        if self.common.json {
            format!("{}\n", report::object(self, outcome))
        } else {
            report::text(outcome)
        }
    }

    /// Where the output is made.
    fn part(&self) -> PathBuf {
        // Without a slash at its end.
        let output: PathBuf = self.output.components().collect();
        let mut name = OsString::from(output);
        name.push(".part");
        name.into()
    }

    fn spill_folder(&self) -> PathBuf {
        let of_output = || match self.output.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        self.spill_dir.clone().unwrap_or_else(of_output)
    }
}
