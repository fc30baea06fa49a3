//! `shuffle wordcount`: what it is asked, and what of that can be wrong.

mod report;
mod table_words;
mod work;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_client::{ClientConfig, PollPolicy};
use weft_object::Types;
use weft_shuffle::job::wordcount;
use weft_shuffle::{ClusterTable, JobError, TableShare, TextFile, Worker};

use crate::args::{Common, check_path};
use crate::cluster::DEFAULT_NODE;
use crate::fault::Fault;
use crate::how_far::{Phase, Unit};
use crate::job::{Asked, Flags};
use crate::memory::Memory;
use crate::output_folder::OutputFolder;
use crate::output_format::OutputFormat;
use crate::report::{Said, either};
use crate::usage::Usage;
use crate::work::Needs;

/// The phase: the text is read.
const READING: usize = 0;

/// How long an operation on a table may take: nodes may have to change roles meanwhile, more than once.
const TABLE_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Wordcount {
    /// A text in UTF-8: plain, gzip or zstd
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "input_table",
        conflicts_with = "input_table"
    )]
    input: Option<PathBuf>,
    /// A table of the cluster, in place of a file: its values are texts in UTF-8
    #[arg(long, value_name = "TABLE")]
    input_table: Option<String>,
    /// Lines, or values of a table, that are no text to skip, of all the input, before the job fails
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
    format: OutputFormat,
    /// A table of the cluster, which has to be there, for all words: each is a key, and how often it is there the value, in decimal
    #[arg(long, value_name = "TABLE")]
    output_table: Option<String>,
    /// Nodes of the cluster that has the tables; one that answers is enough [default: the cluster that the job is submitted to, or 127.0.0.1:7400]
    #[arg(long, env = "WEFT_CLUSTER", value_name = "HOST:PORT,…", value_delimiter = ',')]
    cluster: Option<Vec<String>>,
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
        self.input.iter().try_for_each(|input| check_path("--input", input))?;
        if let Some(table) =
            self.input_table.as_ref().filter(|_| self.input_table == self.output_table)
        {
            return Err(format!(
                "--output-table {table} is the table of --input-table: name another"
            ));
        }
        self.output.iter().try_for_each(|output| check_path("--output", output))?;
        self.memory.check(self.common.workers)
    }

    fn prepare(&self) -> anyhow::Result<Vec<Phase>> {
        // Both tables are looked for before anything is done.
        self.input_table()?;
        self.output_table()?;
        let phase = match &self.input {
            Some(input) => {
                let read = TextFile::open(input)?.bytes_to_read(self.common.workers);
                Phase::new("read", read, Unit::Bytes)
            }
            None => Phase::new("read", TableShare::SLOTS_TO_READ, Unit::Slots),
        };
        self.output().map_or(Ok(()), |output| output.prepare())?;
        self.memory.prepare(self, self.output.as_deref())?;
        Ok(vec![phase])
    }

    fn end(&self, is_whole: bool) -> anyhow::Result<()> {
        self.output().map_or(Ok(()), |output| output.end(is_whole))
    }

    fn inputs(&self) -> Vec<&Path> {
        self.input.iter().map(PathBuf::as_path).collect()
    }

    fn add_to(&self, flags: &mut Flags) {
        flags.command("wordcount");
        self.fault.add_to(flags);
        if let Some(input) = &self.input {
            flags.add("input", input);
        }
        let tables = [("input-table", &self.input_table), ("output-table", &self.output_table)];
        for (flag, table) in tables {
            table.iter().for_each(|table| flags.add(flag, table));
        }
        if tables.iter().any(|(_, table)| table.is_some()) {
            flags.add("cluster", self.tables_at().join(","));
        }
        flags.add("skip-bad", self.skip_bad.to_string());
        flags.add("top", self.top.to_string());
        if let Some(output) = &self.output {
            flags.add("output", output);
        }
        self.format.add_to(flags);
        self.memory.add_to(flags, self.output.as_deref());
    }

    fn needs(&self) -> Needs {
        Needs {
            types: wordcount::types(Types::new()),
            same: format!(
                "{:?}",
                (
                    (&self.input, self.skip_bad, self.top, &self.output),
                    (&self.input_table, &self.output_table),
                )
            ),
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

    /// The same, with its tables where it is submitted, unless it was told where they are.
    pub(crate) fn submitted_to(self, nodes: Vec<String>) -> Wordcount {
        Wordcount { cluster: self.cluster.or(Some(nodes)), ..self }
    }

    /// Nodes of the cluster that has the tables.
    fn tables_at(&self) -> Vec<String> {
        self.cluster.clone().unwrap_or_else(|| vec![DEFAULT_NODE.to_owned()])
    }

    fn input_table(&self) -> Result<Option<ClusterTable>, JobError> {
        self.input_table.as_deref().map(|table| self.open(table)).transpose()
    }

    fn output_table(&self) -> Result<Option<ClusterTable>, JobError> {
        self.output_table.as_deref().map(|table| self.open(table)).transpose()
    }

    fn open(&self, table: &str) -> Result<ClusterTable, JobError> {
        let mut config = ClientConfig::new(self.tables_at());
        config.timeout = TABLE_TIMEOUT;
        // The processor is the job's.
        config.poll = PollPolicy::Park;
        ClusterTable::open(config, table)
    }

    fn output(&self) -> Option<OutputFolder<'_>> {
        self.output.as_deref().map(|output| OutputFolder::new(output, &self.common))
    }
}
