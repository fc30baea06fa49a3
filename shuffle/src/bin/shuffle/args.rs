//! What is typed.

use std::fs::canonicalize;
use std::iter;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bytesize::ByteSize;
use clap::builder::{BoolishValueParser, Resettable};
use clap::error::ErrorKind;
use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use weft_shuffle::LinkPolicy;

use crate::account;
use crate::cluster::agent::Agent;
use crate::cluster::jobs::{Jobs, Shown};
use crate::cluster::submit::Submit;
use crate::generate::Generate;
use crate::job::Job;
use crate::validate::Validate;

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
        let mut command = Self::command().mut_subcommands(|command| {
            match command.get_name() {
                // They are told everything by flags, or otherwise.
                WORKER | DRIVE => command,
                // A job's variables are its own, wherever it is done.
                SUBMIT => with_variables_of_its_own(command)
                    .mut_subcommands(|command| without_cluster(with_variables(command, None))),
                _ => with_variables(command, None),
            }
        });
        let matches = command.get_matches_mut();
        let args = Self::from_arg_matches(&matches).and_then(|args| {
            args.command
                .check()
                .map_err(|text| command.error(ErrorKind::ArgumentConflict, text))?;
            Ok(args)
        });
        args.unwrap_or_else(|error| error.format(&mut command).exit())
    }

    /// The job that these words are, behind the program's name; no variable counts.
    pub(crate) fn job_of<'w>(words: impl Iterator<Item = &'w str>) -> anyhow::Result<Job> {
        let args = Self::try_parse_from(iter::once("shuffle").chain(words));
        let Self { command } =
            args.context("the agent's program does not know the job as it was submitted")?;
        command.check().map_err(anyhow::Error::msg)?;
        let Command::Job(job) = command else { anyhow::bail!("what was submitted is no job") };
        Ok(job)
    }
}

pub(crate) const WORKER: &str = "worker";

pub(crate) const DRIVE: &str = "drive";

const SUBMIT: &str = "submit";

/// Gives each flag of a command a variable: `WEFT_`, the command's name, and the flag's. One that is set to nothing counts as unset: it is how a script
/// or a container takes one back.
fn with_variables(command: clap::Command, of: Option<&str>) -> clap::Command {
    let of = of.unwrap_or(command.get_name()).to_owned();
    let command = with_variables_of(command, &of);
    command.mut_subcommands(|command| with_variables(command, Some(&of)))
}

/// The same without its own commands.
fn with_variables_of_its_own(command: clap::Command) -> clap::Command {
    let of = command.get_name().to_owned();
    with_variables_of(command, &of)
}

/// Of a job that is submitted, the variable says where: that is where its tables are, too, unless they are said to be elsewhere.
fn without_cluster(command: clap::Command) -> clap::Command {
    command.mut_args(|argument| match argument.get_id().as_str() {
        "cluster" => argument.env(Resettable::Reset),
        _ => argument,
    })
}

fn with_variables_of(command: clap::Command, of: &str) -> clap::Command {
    let heed = |argument: Arg| {
        let Some(flag) = argument.get_long() else { return argument };
        if let Some(own) = argument.get_env() {
            let is_empty = std::env::var_os(own).is_some_and(|value| value.is_empty());
            return if is_empty { argument.env(Resettable::Reset) } else { argument };
        }
        let name = format!("WEFT_{of}_{flag}").to_uppercase().replace('-', "_");
        let is_empty = std::env::var_os(&name).is_some_and(|value| value.is_empty());
        // Names last as long as the process, which has a few of them.
        if is_empty { argument } else { argument.env(&*name.leak()) }
    };
    command.mut_args(heed)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Job(Job),
    /// See whether records of 100 bytes are in the order of their keys, and which they are
    Validate(Validate),
    /// Make a synthetic input, the same for the same seed
    Generate(Generate),
    /// Have workers of a cluster's jobs on this machine, until it is told to end
    Agent(Agent),
    /// See which agents a cluster has
    Agents(Shown),
    /// Have the agents of a cluster do a job
    #[command(name = SUBMIT)]
    Submit(Submit),
    /// See the jobs of a cluster, or end one
    #[command(name = "job")]
    Jobs(Jobs),
    /// One worker of a job: started by the other commands
    #[command(hide = true, name = WORKER)]
    Worker(Worker),
    /// What sees to an attempt at a job of a cluster: started by agents
    #[command(hide = true, name = DRIVE)]
    Drive,
}

impl Command {
    /// What no single value can show.
    fn check(&self) -> Result<(), String> {
        match self {
            Self::Job(job) | Self::Submit(Submit { job, .. }) => {
                job.asked().check().and_then(|()| account::check(job.asked()))
            }
            Self::Agent(agent) => agent.check(),
            _ => Ok(()),
        }
    }
}

/// What every job has.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// Worker processes to start
    #[arg(long, value_name = "N", default_value = "2", value_parser = workers)]
    pub(crate) workers: usize,
    /// Give an attempt up when a worker has answered nothing for so many seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) hang_timeout: u64,
    /// How often to try when a worker is killed, hangs or cannot be reached
    #[arg(long, value_name = "N", default_value = "3", value_parser = attempts)]
    pub(crate) max_attempts: u32,
    /// What workers are connected by: tcp, shm (memory that they share), or auto (shm where it can be had)
    #[arg(long, value_name = "auto|tcp|shm", default_value = "tcp", value_parser = link)]
    pub(crate) link: LinkPolicy,
    /// Write what the workers did, stage by stage, to PATH.json and, as a page, to PATH.html
    #[arg(long, value_name = "PATH")]
    pub(crate) report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long, value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
    /// What tells the output of this attempt from those of others, until it is whole
    #[arg(long, hide = true)]
    pub(crate) part: Option<String>,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Worker {
    #[arg(long)]
    pub(crate) index: usize,
    #[arg(long)]
    pub(crate) attempt: u32,
    /// Folder for the state of rounds
    #[arg(long)]
    pub(crate) kept: Option<PathBuf>,
    /// Nodes of the cluster that has it, in place of a folder
    #[arg(long, value_delimiter = ',', requires = "kept_of")]
    pub(crate) kept_in: Option<Vec<String>>,
    /// Which job's it is there
    #[arg(long)]
    pub(crate) kept_of: Option<String>,
    /// The address to listen on, behind everything else
    #[arg(long, default_value = "127.0.0.1", global = true)]
    pub(crate) listen: IpAddr,
    #[arg(long)]
    pub(crate) report_progress: bool,
    #[command(subcommand)]
    pub(crate) job: Job,
}

const WORKERS_MAX: usize = 64;

fn workers(text: &str) -> Result<usize, String> {
    let wanted = format!("a number from 1 to {WORKERS_MAX}");
    let number = text.parse().map_err(|_| format!("not {wanted}"))?;
    if (1..=WORKERS_MAX).contains(&number) { Ok(number) } else { Err(format!("not {wanted}")) }
}

/// A number of rounds.
pub(crate) fn rounds(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    number.ok_or_else(|| "not a number from 1 to 1000000".to_owned())
}

fn attempts(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=100).contains(number));
    number.ok_or_else(|| "not a number from 1 to 100".to_owned())
}

/// A number of bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let size: Result<ByteSize, _> = text.parse();
    size.map(|size| size.as_u64()).map_err(|_| "not a size, such as 1GB or 64MiB".to_owned())
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

/// What a path is given for: the workers open it, not this process.
pub(crate) fn check_path(flag: &str, path: &Path) -> Result<(), String> {
    if is_descriptor(path) {
        return Err(format!(
            "{flag} {} is a descriptor of this process, and the workers are others: name a file",
            path.display(),
        ));
    }
    Ok(())
}
