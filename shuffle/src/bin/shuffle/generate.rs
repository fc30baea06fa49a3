//! `shuffle generate`: synthetic inputs, into a file or to standard output.

use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread;

use anyhow::{Context as _, bail};
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use weft_shuffle::generate::{EdgeFormat, Generator, Rmat, TeraSort, ZipfWords};

use crate::args::size;
use crate::part_name::part_name;

/// Chunks that each thread may be ahead of what is written.
const AHEAD: usize = 2;

/// Threads that are started at most: more may be more than the system has, and what comes out is the same.
const THREADS_MAX: usize = 256;

const WRITING: &str = "write [{bar:30}] {percent}% {eta}";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Generate {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// A graph with the skew of real ones, an edge a line (R-MAT with GAP's parameters)
    Rmat {
        /// Vertices are numbers from 0 to N
        #[arg(long, value_name = "N", default_value = "1048576",
            value_parser = clap::value_parser!(u32).range(1..=i64::from(Rmat::VERTICES_MAX)))]
        vertices: u32,
        /// Edges, parallel ones and loops among them [default: 16 a vertex]
        #[arg(long, value_name = "N")]
        edges: Option<u64>,
        /// text: an edge a line; binary: numbers of 32 bits, which jobs read without parsing
        #[arg(long, value_name = "text|binary", default_value = "text", value_parser = edge_format)]
        format: EdgeFormat,
        #[command(flatten)]
        common: Common,
    },
    /// Records of 100 bytes to sort, of which 10 are the key (gensort's with seed 0)
    Terasort {
        /// How many
        #[arg(long, value_name = "N")]
        records: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Lines of words, of which the one of rank r comes up as often as 1 / r^S says
    ZipfWords {
        /// How much, such as 1GB or 64MiB
        #[arg(long, value_name = "SIZE", value_parser = size)]
        bytes: u64,
        /// Different words
        #[arg(long, value_name = "N", default_value = "100000",
            value_parser = clap::value_parser!(u32).range(1..=i64::from(ZipfWords::WORDS_MAX)))]
        words: u32,
        /// How much more frequent frequent words are
        #[arg(long, value_name = "S", default_value = "1",
            value_parser = exponent)]
        exponent: f64,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Clone, Debug, clap::Args)]
struct Common {
    /// Another number makes another input; the same makes the same
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Write to FILE, which must not be there [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Threads that work on it [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

impl Common {
    /// What is no text is not for a terminal.
    fn check_no_text(&self, what: &str) -> anyhow::Result<()> {
        if self.output.is_none() && io::stdout().is_terminal() {
            bail!("{what} are no text: give --output, or send them elsewhere");
        }
        Ok(())
    }
}

fn edge_format(text: &str) -> Result<EdgeFormat, String> {
    match text {
        "text" => Ok(EdgeFormat::Text),
        "binary" => Ok(EdgeFormat::Binary),
        _ => Err("not text or binary".to_owned()),
    }
}

fn exponent(text: &str) -> Result<f64, String> {
    let (allowed, number) = (0.0..=ZipfWords::EXPONENT_MAX, text.parse().ok());
    let number = number.filter(|number| allowed.contains(number));
    number.ok_or_else(|| format!("not a number from 0 to {}", ZipfWords::EXPONENT_MAX))
}

/// Makes what was asked for.
pub(crate) fn run(generate: Generate) -> anyhow::Result<()> {
    let (generator, common) = match generate.what {
        What::Rmat { vertices, edges, format, common } => {
            if format == EdgeFormat::Binary {
                common.check_no_text("edges in binary")?;
            }
            let edges = edges.unwrap_or(16 * u64::from(vertices));
            let graph = Rmat::new(vertices, edges, common.seed).with_format(format);
            (Generator::Rmat(graph), common)
        }
        What::Terasort { records, common } => {
            common.check_no_text("the records")?;
            (Generator::TeraSort(TeraSort::new(records, common.seed)), common)
        }
        What::ZipfWords { bytes, words, exponent, common } => {
            let text = ZipfWords::new(bytes, words, exponent, common.seed);
            (Generator::ZipfWords(text), common)
        }
    };
    let threads = common.threads.map(Ok).unwrap_or_else(thread::available_parallelism)?.get();
    let threads = threads.min(THREADS_MAX);
    match &common.output {
        Some(path) => into_file(path, &generator, threads),
        None => write_all(&generator, threads, &mut io::stdout().lock())
            .context("cannot write to standard output"),
    }
}

/// The file gets its name when it is whole.
fn into_file(path: &Path, generator: &Generator, threads: usize) -> anyhow::Result<()> {
    if path.exists() {
        bail!("{} is there already: give another name", path.display());
    }
    let part = part_name(path, None);
    let written = File::create(&part).and_then(|mut file| {
        write_all(generator, threads, &mut file)?;
        fs::rename(&part, path)
    });
    if written.is_err() {
        // What is wrong with the file is told; this one may never have been made.
        let _ = fs::remove_file(&part);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Writes all chunks in order, whichever thread has made them.
fn write_all(generator: &Generator, threads: usize, out: &mut impl Write) -> io::Result<()> {
    let style = ProgressStyle::with_template(WRITING).expect("the template is a constant");
    let bar = ProgressBar::new(generator.chunks()).with_style(style);
    thread::scope(|scope| {
        let makers = (0..threads as u64).map(|first| {
            let (sender, receiver) = sync_channel(AHEAD);
            scope.spawn(move || {
                for chunk in (first..generator.chunks()).step_by(threads) {
                    let mut bytes = Vec::new();
                    generator.write_chunk(chunk, &mut bytes);
                    // Nobody takes it any more when it could not be written.
                    if sender.send(bytes).is_err() {
                        return;
                    }
                }
            });
            receiver
        });
        let made: Vec<_> = makers.collect();
        for receiver in made.iter().cycle().take(generator.chunks() as usize) {
            let bytes = receiver.recv().expect("each thread makes its chunks");
            out.write_all(&bytes)?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        out.flush()
    })
}
