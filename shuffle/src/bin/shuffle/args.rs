//! What is typed.

use std::ffi::{OsStr, OsString};
use std::fs::canonicalize;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clap::builder::BoolishValueParser;
use clap::error::ErrorKind;
use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use weft_shuffle::LinkPolicy;

use crate::generate::Generate;

/// Map-reduce jobs over worker processes on this machine
#[derive(Debug, Parser)]
#[command(name = "shuffle", version, about)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Args {
    /// What was typed, and what the variables say beside it; prints help or what is wrong and exits,
    /// as clap does.
    pub(crate) fn from_process() -> Self {
        let mut command = without_empty_variables(Self::command());
        let matches = command.get_matches_mut();
        let args = Self::from_arg_matches(&matches).and_then(|args| {
            if let Command::Pagerank(pagerank) = &args.command {
                pagerank
                    .check()
                    .map_err(|text| command.error(ErrorKind::ArgumentConflict, text))?;
            }
            Ok(args)
        });
        args.unwrap_or_else(|error| error.format(&mut command).exit())
    }
}

/// A variable that is set to nothing counts as unset: it is how a script or a container takes one
/// back.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty =
        |variable: &OsStr| std::env::var_os(variable).is_some_and(|value| value.is_empty());
    let heed = |argument: Arg| {
        if argument.get_env().is_some_and(is_empty) { argument.env(None::<&str>) } else { argument }
    };
    command.mut_args(heed).mut_subcommands(without_empty_variables)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Rank the vertices of a graph by the edges that lead to them
    Pagerank(Pagerank),
    /// Make a synthetic input, the same for the same seed
    Generate(Generate),
    /// One worker of a job: started by the other commands
    #[command(hide = true)]
    Worker(Worker),
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Pagerank {
    /// Edge list: a source and a target vertex a line, as SNAP has it; plain, gzip or zstd
    #[arg(long, env = "WEFT_PAGERANK_INPUT", value_name = "FILE")]
    pub(crate) input: PathBuf,
    /// Worker processes to start
    #[arg(long, env = "WEFT_PAGERANK_WORKERS", value_name = "N", default_value = "2", value_parser = workers)]
    pub(crate) workers: usize,
    /// Rounds
    #[arg(long, env = "WEFT_PAGERANK_ITERATIONS", value_name = "K", default_value = "20", value_parser = iterations)]
    pub(crate) iterations: usize,
    /// Part of a rank that follows the edges; the rest goes to all vertices alike
    #[arg(long, env = "WEFT_PAGERANK_DAMPING", value_name = "D", default_value = "0.85", value_parser = damping)]
    pub(crate) damping: f64,
    /// How many of the highest ranks to print
    #[arg(long, env = "WEFT_PAGERANK_TOP", value_name = "N", default_value = "10")]
    pub(crate) top: usize,
    /// Write every vertex and its rank to FILE, highest first
    #[arg(long, env = "WEFT_PAGERANK_OUTPUT", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// End the job when a worker has answered nothing for so many seconds
    #[arg(long, env = "WEFT_PAGERANK_HANG_TIMEOUT", value_name = "SECONDS", default_value = "30",
        value_parser = seconds)]
    pub(crate) hang_timeout: u64,
    /// What workers are connected by: tcp, shm (memory that they share), or auto (shm where it can be had)
    #[arg(long, env = "WEFT_PAGERANK_LINK", value_name = "auto|tcp|shm", default_value = "tcp",
        value_parser = link)]
    pub(crate) link: LinkPolicy,
    /// Print one JSON object
    #[arg(long, env = "WEFT_PAGERANK_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Worker {
    #[arg(long)]
    pub(crate) index: usize,
    #[arg(long)]
    pub(crate) report_progress: bool,
    #[command(flatten)]
    pub(crate) job: Pagerank,
}

const WORKERS_MAX: usize = 64;

fn workers(text: &str) -> Result<usize, String> {
    let wanted = format!("a number from 1 to {WORKERS_MAX}");
    let number = text.parse().map_err(|_| format!("not {wanted}"))?;
    if (1..=WORKERS_MAX).contains(&number) { Ok(number) } else { Err(format!("not {wanted}")) }
}

fn iterations(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    number.ok_or_else(|| "not a number from 1 to 1000000".to_owned())
}

fn damping(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "not a number from 0 to 1".to_owned())
}

/// Workers do not look for an RDMA device.
fn link(text: &str) -> Result<LinkPolicy, String> {
    let links = [LinkPolicy::Auto, LinkPolicy::Tcp, LinkPolicy::Shm];
    let found = text.parse().ok().filter(|link| links.contains(link));
    found.ok_or_else(|| "choose auto, tcp or shm".to_owned())
}

fn seconds(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (1..=86_400).contains(number));
    number.ok_or_else(|| "not a number from 1 to 86400".to_owned())
}

/// Symbolic links that are followed one after the other, as many as the system follows.
const LINKS_MAX: usize = 40;

/// Whether `path` leads to one of this process's own descriptors, such as `/dev/stdout`: in another
/// process it leads elsewhere.
fn is_descriptor(path: &Path) -> bool {
    let folders = ["/proc/self/fd", "/proc/thread-self/fd"];
    let folders: Vec<_> = folders.iter().filter_map(|folder| canonicalize(folder).ok()).collect();
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let folder = match path.parent() {
            Some(folder) if folder == Path::new("") => Path::new("."),
            Some(folder) => folder,
            None => return false,
        };
        if canonicalize(folder).is_ok_and(|folder| folders.contains(&folder)) {
            return true;
        }
        let Ok(target) = std::fs::read_link(&path) else { return false };
        path = folder.join(target);
    }
    false
}

impl Pagerank {
    /// What no single value can show, and what a path means: the workers open it, not this process, and
    /// opening the output must not harm the input.
    fn check(&self) -> Result<(), String> {
        for (flag, path) in [("--input", Some(&self.input)), ("--output", self.output.as_ref())] {
            if let Some(path) = path.filter(|path| is_descriptor(path)) {
                return Err(format!(
                    "{flag} {} is a descriptor of this process, and the workers are others: name a file",
                    path.display(),
                ));
            }
        }
        let Some(output) = &self.output else { return Ok(()) };
        let identity = |path| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
        match (identity(&self.input), identity(output)) {
            (Some(input), Some(other)) if input == other => Err(format!(
                "--output {} is the same file as --input {}: the ranks would replace the graph",
                output.display(),
                self.input.display(),
            )),
            _ => Ok(()),
        }
    }

    /// The command line of a worker, behind the program's name.
    pub(crate) fn worker_arguments(&self, index: usize, report_progress: bool) -> Vec<OsString> {
        let mut arguments = vec![OsString::from("worker")];
        // Flag and value are one argument: a value of its own must not begin with a dash.
        let mut add = |flag: &str, value: &OsStr| {
            let mut argument = OsString::from(format!("--{flag}="));
            argument.push(value);
            arguments.push(argument);
        };
        for (flag, value) in [
            ("index", index.to_string()),
            ("workers", self.workers.to_string()),
            ("iterations", self.iterations.to_string()),
            ("damping", self.damping.to_string()),
            ("top", self.top.to_string()),
            ("hang-timeout", self.hang_timeout.to_string()),
            ("link", self.link.to_string()),
        ] {
            add(flag, value.as_ref());
        }
        add("input", self.input.as_os_str());
        if let Some(output) = &self.output {
            add("output", output.as_os_str());
        }
        if report_progress {
            arguments.push("--report-progress".into());
        }
        arguments
    }
}
