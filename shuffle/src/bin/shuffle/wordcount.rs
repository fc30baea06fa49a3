//! `shuffle wordcount`: what it is asked, and what of that can be wrong.

mod report;
mod work;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weft_object::Types;
use weft_shuffle::job::wordcount;
use weft_shuffle::{TextFile, Worker};

use crate::args::{Common, check_path};
use crate::fault::Fault;
use crate::job::{Asked, Flags};
use crate::memory::Memory;
use crate::output_folder::OutputFolder;
use crate::progress::{Phase, Unit};
use crate::report::{Said, either};
use crate::usage::Usage;
use crate::work::Needs;

/// The phase: the text is read.
const READING: usize = 0;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Wordcount {
    /// A text in UTF-8: plain, gzip or zstd
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Lines that are no text to skip, of all the input, before the job fails
    #[arg(long, value_name = "N", default_value = "0")]
    skip_bad: u64,
    /// How many of the most frequent words to print
    #[arg(long, value_name = "N", default_value = "10")]
    top: usize,
    /// Folder for all words and how often they are there, a file for each worker; it must not be there
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    #[command(flatten)]
    fault: Fault,
    #[command(flatten)]
    memory: Memory,
    #[command(flatten)]
    common: Common,
}

/// What came out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Counted {
    words: u64,
    distinct: u64,
    distinct_by_worker: Vec<u64>,
    lines_skipped: u64,
    usage: Usage,
    top: Vec<TopWord>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct TopWord {
    word: String,
    count: u64,
}

impl Asked for Wordcount {
    fn common(&self) -> &Common {
        &self.common
    }

    fn check(&self) -> Result<(), String> {
        check_path("--input", &self.input)?;
        self.output.iter().try_for_each(|output| check_path("--output", output))?;
        self.memory.check(self.common.workers)
    }

    fn prepare(&self) -> anyhow::Result<Vec<Phase>> {
        let text = TextFile::open(&self.input)?;
        self.output().map_or(Ok(()), |output| output.prepare())?;
        if let Err(error) = self.memory.prepare(self.output.as_deref()) {
            self.end(false)?;
            return Err(error);
        }
        let read = text.bytes_to_read(self.common.workers);
        Ok(vec![Phase { name: "read", total: read, unit: Unit::Bytes }])
    }

    fn end(&self, is_whole: bool) -> anyhow::Result<()> {
        self.output().map_or(Ok(()), |output| output.end(is_whole))
    }

    fn inputs(&self) -> Vec<&Path> {
        vec![&self.input]
    }

    fn add_to(&self, flags: &mut Flags) {
        flags.command("wordcount");
        self.fault.add_to(flags);
        flags.add("input", &self.input);
        flags.add("skip-bad", self.skip_bad.to_string());
        flags.add("top", self.top.to_string());
        if let Some(output) = &self.output {
            flags.add("output", output);
        }
        self.memory.add_to(flags, self.output.as_deref());
    }

    fn needs(&self) -> Needs {
        Needs {
            types: wordcount::types(Types::new()),
            same: format!("{:?}", (&self.input, self.skip_bad, self.top, &self.output)),
            memory_bytes: self.memory.bytes,
            spill_folder: Some(self.memory.spill_folder(self.output.as_deref())),
        }
    }

    fn work(&self, worker: &Worker, report: bool) -> anyhow::Result<()> {
        work::run(self, worker, report)
    }
}

impl Wordcount {
    /// What is said of what came out.
    pub(crate) fn report(&self, outcome: &Counted) -> Said {
        either(self, || report::object(self, outcome), || report::text(outcome))
    }

    fn output(&self) -> Option<OutputFolder<'_>> {
        self.output.as_deref().map(|output| OutputFolder::new(output, &self.common))
    }
}
