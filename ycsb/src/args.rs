//! The command line, drop-in for upstream's `bin/ycsb`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::properties::{Properties, UsageError};
use crate::settings::REQUESTERS_MAX;
use crate::target::TargetKind;

/// The Yahoo! Cloud Serving Benchmark
#[derive(Debug, Parser)]
#[command(name = "ycsb", version, about, after_help = EXAMPLES)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ycsb load weft -P ycsb/workloads/workloada -p recordcount=1000000 -p weft.cluster=127.0.0.1:7400
  ycsb run weft -P ycsb/workloads/workloadb -p recordcount=1000000 -p operationcount=5000000 \\
      -threads 100 -p weft.mode=async -s
  ycsb run basic -P ycsb/workloads/workloadc -p operationcount=10000000   (what the driver costs)";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Insert the records of a workload
    #[command(override_usage = "ycsb load <TARGET> [OPTIONS]")]
    Load(RunArgs),
    /// Do the operations of a workload on records that were loaded
    #[command(override_usage = "ycsb run <TARGET> [OPTIONS]")]
    Run(RunArgs),
    /// List the properties, their defaults and what they mean
    Properties,
}

/// What `load` and `run` take.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// The store to drive
    pub(crate) target: TargetKind,
    /// A file of properties, such as a workload; can be given again, later ones override
    #[arg(short = 'P', value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// A property, which overrides those in files; can be given again
    #[arg(short = 'p', value_name = "NAME=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// Concurrent requesters, also -threads [property threadcount; default 1]
    #[arg(long, value_name = "N", value_parser = requesters)]
    pub(crate) threads: Option<usize>,
    /// Operations a second to attempt, also -target [property target; default as many as possible]
    #[arg(long = "target", value_name = "OPS", value_parser = operations_per_second)]
    pub(crate) operations_per_second: Option<u64>,
    /// Show progress on standard error every 10 seconds [property status.interval]
    #[arg(short = 's')]
    pub(crate) status: bool,
    /// What each status line begins with
    #[arg(short = 'l', long, value_name = "LABEL")]
    pub(crate) label: Option<String>,
    /// Nodes of the Weft cluster [property weft.cluster]
    #[arg(long, env = "WEFT_CLUSTER", value_name = "HOST:PORT,...")]
    pub(crate) cluster: Option<String>,
    /// Print the report as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl CommandLine {
    /// Parses the arguments of this process; prints help or what is wrong and exits, as clap does.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the command line")]
    pub(crate) fn from_process() -> CommandLine {
        let mut command = without_empty_variables(CommandLine::command());
        let matches = command
            .try_get_matches_from_mut(std::env::args_os().map(with_two_dashes))
            .unwrap_or_else(|error| error.exit());
        CommandLine::from_arg_matches(&matches)
            .unwrap_or_else(|error| error.format(&mut command).exit())
    }
}

/// A variable that is set to nothing counts as unset: it is how a script or a container takes one
/// back.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |argument: &Arg| {
        argument.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty())
    };
    let heed = |argument| if is_empty(&argument) { argument.env(None::<&str>) } else { argument };
    command.mut_args(heed).mut_subcommands(without_empty_variables)
}

impl RunArgs {
    /// The properties of files, overridden by those of the command line.
    pub(crate) fn properties(&self) -> Result<Properties, UsageError> {
        let mut properties = Properties::default();
        self.files.iter().try_for_each(|file| properties.read_file(file))?;
        if let Some(cluster) = &self.cluster {
            properties.set("weft.cluster", cluster);
        }
        self.overrides.iter().try_for_each(|given| properties.read_override(given))?;
        let mut flag = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                properties.set(name, &value);
            }
        };
        flag("threadcount", self.threads.map(|threads| threads.to_string()));
        flag("target", self.operations_per_second.map(|target| target.to_string()));
        flag("status", self.status.then(|| "true".to_owned()));
        flag("label", self.label.clone());
        Ok(properties)
    }

    /// What the report calls the workload: its files.
    pub(crate) fn workload_name(&self) -> String {
        let names: Vec<_> =
            self.files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
        if names.is_empty() { "core".to_owned() } else { names.join("+") }
    }
}

fn requesters(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=REQUESTERS_MAX).contains(count));
    count.ok_or_else(|| format!("give a whole number from 1 to {REQUESTERS_MAX}"))
}

fn operations_per_second(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "give a whole number; 0 is as many operations a second as possible")
}

/// Upstream's long options have one dash.
fn with_two_dashes(argument: OsString) -> OsString {
    match argument.to_str() {
        Some("-threads") => "--threads".into(),
        Some("-target") => "--target".into(),
        _ => argument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &str) -> RunArgs {
        let arguments = arguments.split(' ').map(OsString::from).map(with_two_dashes);
        match CommandLine::try_parse_from(arguments).unwrap().command {
            Command::Load(args) | Command::Run(args) => args,
            Command::Properties => panic!("not a run"),
        }
    }

    #[test]
    fn the_parser_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn upstreams_command_line_is_understood() {
        let args = parse(
            "ycsb run basic -s -threads 8 -target 1000 -p recordcount=5 -p threadcount=1 -l trial",
        );
        let properties = args.properties().unwrap();
        assert_eq!(args.target, TargetKind::Basic);
        assert_eq!(properties.number::<usize>("threadcount").unwrap(), 8);
        assert_eq!(properties.number::<u64>("target").unwrap(), 1_000);
        assert_eq!(properties.number::<u64>("recordcount").unwrap(), 5);
        assert!(properties.flag("status").unwrap());
        assert_eq!(args.workload_name(), "core");
    }

    #[test]
    fn later_files_override_and_name_the_workload() {
        let workloads = concat!(env!("CARGO_MANIFEST_DIR"), "/workloads");
        let args = parse(&format!(
            "ycsb load basic -P {workloads}/workloada -P {workloads}/workloadf \
             -p updateproportion=0.25"
        ));
        let properties = args.properties().unwrap();
        assert_eq!(properties.text("readmodifywriteproportion"), Some("0.5"));
        assert_eq!(properties.text("updateproportion"), Some("0.25"));
        assert_eq!(args.workload_name(), "workloada+workloadf");
    }
}
