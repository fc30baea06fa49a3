//! `ycsb`: the Yahoo! Cloud Serving Benchmark, drop-in for its files, options and report, and
//! honest about latency: percentiles from HDR histograms, intended latency under a target, CPU time
//! beside throughput. The same code drives Weft and Redis. See docs/ycsb.md.

#![forbid(unsafe_code)]

mod args;
mod clock;
mod content;
mod cpu;
mod crowd;
mod failure_log;
mod fnv;
mod generator;
mod key;
mod measurement;
mod pace;
mod properties;
mod record;
mod report;
mod requester;
mod runner;
mod say;
mod settings;
mod status;
mod target;
mod workload;

use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use args::{Command, CommandLine, RunArgs};
use measurement::{Measurements, Operation, Status};
use properties::UsageError;
use report::{Format, Report};
use say::say;
use settings::Settings;
use target::{OpenError, Target};
use workload::{Phase, Workload};

fn main() -> ExitCode {
    let result = match CommandLine::from_process().command {
        Command::Load(args) => run(Phase::Load, &args),
        Command::Run(args) => run(Phase::Run, &args),
        Command::Properties => {
            list_properties().or_else(|error| match error.kind() {
                // Whoever read the list has seen enough.
                ErrorKind::BrokenPipe => Ok(()),
                _ => Err(error).context("cannot print the properties"),
            })
        }
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    say(format_args!("ycsb: {error:#}"));
    let usage = error.is::<UsageError>()
        || matches!(error.downcast_ref::<OpenError>(), Some(OpenError::Usage(_)));
    if usage { ExitCode::from(2) } else { ExitCode::FAILURE }
}

fn run(phase: Phase, args: &RunArgs) -> anyhow::Result<()> {
    let properties = args.properties()?;
    for warning in properties.warnings() {
        say(format_args!("ycsb: warning: {warning}"));
    }
    let workload = Workload::new(phase, &properties)?;
    let mut settings = Settings::new(&properties, &workload)?;
    if args.json {
        settings.report.format = Format::Json;
    }
    let mode = args.target.mode(&properties)?;
    if settings.spin {
        settings::check_spinning(mode.threads(settings.requesters))?;
    }
    let update = workload.update_method();
    let mut out = settings.report.open()?;
    let mut target = Target::open(args.target, &properties, &workload)?;
    let crews = target.crews(mode, settings.requesters)?;
    say(format_args!(
        "ycsb: {}, {}, on {}; update: {update}",
        counted(settings.requesters, "requester"),
        mode.name(),
        counted(crews.len(), "thread")
    ));

    let wanted = workload.operations;
    let outcome = runner::run(workload, &settings, &mut target, crews)?;
    if let Err(reason) = &outcome.cpu.server {
        say(format_args!("ycsb: CPU time of the server is unknown: {reason}"));
    }
    let workload_name = args.workload_name();
    let report = Report {
        target: args.target.name(),
        workload: &workload_name,
        mode: mode.name(),
        link: target.link(),
        update,
        outcome: &outcome,
    };
    report.write(&settings.report, &mut out).context("cannot write the report")?;
    judge(phase, wanted, &outcome.measurements)
}

/// `1 thread`, `2 threads`.
fn counted(count: usize, name: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {name}{plural}")
}

/// Whether the run did what it was for. Failed operations of a run are results, as when a node is
/// killed under load; a load with a gap, a run without a success and a record that is not what was
/// written are failures.
fn judge(phase: Phase, wanted: Option<u64>, measurements: &Measurements) -> anyhow::Result<()> {
    let all = measurements.operations;
    let mut returned = [0; Status::ALL.len()];
    for (operation, metric) in measurements.metrics() {
        if operation == Operation::Verify {
            let errors = metric.errors();
            ensure!(errors == 0, "{errors} of {} reads did not verify", metric.count());
            continue;
        }
        for status in Status::ALL {
            returned[status as usize] += metric.returned(status);
        }
    }
    let [succeeded, not_found, _, unexpected] = returned;
    if phase == Phase::Load {
        let wanted = wanted.expect("a load has a number of records");
        ensure!(
            succeeded == all,
            "{succeeded} of {wanted} records were inserted; {}, each at an insert that failed",
            match all - succeeded {
                1 => "1 requester stopped".to_owned(),
                stopped => format!("{stopped} requesters stopped"),
            }
        );
    }
    if all > 0 && succeeded == 0 {
        let why = if not_found > 0 {
            "the records do not exist; load them by `ycsb load` with the same recordcount, \
             insertorder and zeropadding"
        } else if unexpected > 0 {
            "the records are not of this workload; run with the fieldcount of the load"
        } else {
            "every request failed; see the first failures above"
        };
        bail!("no operation succeeded: {why}");
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "it prints to stdout")]
fn list_properties() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for property in properties::KNOWN {
        let default = property.default.unwrap_or("-");
        writeln!(out, "{:<42} {:<20} {}", property.name, default, property.meaning)?;
    }
    Ok(())
}
