//! `shuffle sort`: what it is asked, and what of that can be wrong.

mod report;
mod work;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weft_object::Types;
use weft_shuffle::job::terasort::{self, RECORD_BYTES};
use weft_shuffle::{RecordFile, Verb, Worker};

use crate::args::{Common, check_path};
use crate::how_far::{Phase, Unit};
use crate::job::{Asked, Flags};
use crate::memory::Memory;
use crate::output_folder::OutputFolder;
use crate::report::{Said, either};
use crate::usage::Usage;
use crate::work::Needs;

/// The phases: the records are read, they go to their workers, which nobody has to tell, and they are written in order.
const READING: usize = 0;
const WRITING: usize = 2;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Sort {
    /// Records of 100 bytes, one behind the other, as gensort and `shuffle generate terasort` make them
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Folder for the sorted records, a file for each worker; it must not be there
    #[arg(long, value_name = "FOLDER")]
    output: PathBuf,
    #[command(flatten)]
    memory: Memory,
    #[command(flatten)]
    common: Common,
}

/// What came out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sorted {
    records: u64,
    records_by_worker: Vec<u64>,
    usage: Usage,
}

impl Asked for Sort {
    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<(), String> {
        check_path("--input", &self.input)?;
        check_path("--output", &self.output)?;
        self.memory.check(self.common.workers)
    }

    fn prepare(&self) -> anyhow::Result<Vec<Phase>> {
        let file = RecordFile::<RECORD_BYTES>::open(&self.input)?;
        self.output().prepare()?;
        self.memory.prepare(self, Some(&self.output))?;
        let bytes = file.len() * RECORD_BYTES as u64;
        let moved = Phase::new("move", file.len(), Unit::Records);
        Ok(vec![
            Phase::new("read", bytes, Unit::Bytes),
            Phase { of: Some(Verb::SortByKey.name()), ..moved },
            Phase::new("write", bytes, Unit::Bytes),
        ])
    }

    fn end(&self, is_whole: bool) -> anyhow::Result<()> {
        self.output().end(is_whole)
    }

    fn inputs(&self) -> Vec<&Path> {
        vec![&self.input]
    }

    fn add_to(&self, flags: &mut Flags) {
        flags.command("sort");
        flags.add("input", &self.input);
        flags.add("output", &self.output);
        self.memory.add_to(flags, Some(&self.output));
    }

    fn needs(&self) -> Needs {
        Needs {
            types: terasort::types(Types::new()),
            same: format!("{:?}", (&self.input, &self.output)),
            memory_bytes: self.memory.bytes,
            spill_folder: Some(self.memory.spill_folder(Some(&self.output))),
        }
    }

    fn work(&self, worker: &Worker, report: bool) -> anyhow::Result<()> {
        work::run(self, worker, report)
    }
}

impl Sort {
    /// What is said of what came out.
    pub(crate) fn report(&self, outcome: &Sorted) -> Said {
        either(self, || report::object(self, outcome), || report::text(outcome))
    }

    fn output(&self) -> OutputFolder<'_> {
        OutputFolder::new(&self.output, &self.common)
    }
}
