//! `shuffle`: the jobs that Weft ships, over worker processes that it starts on this machine.
//!
//! # Layout
//! - `account`: what `--report` has written of a job, as JSON and as a page.
//! - `args`: what is typed.
//! - `attempts`: tries a job again when a worker was lost; `launch`: one attempt, starts the workers, tells them of one another, and ends all when one ends early.
//! - `process`: where one is started; `interrupt`: what Ctrl-C does; `onlooker`: who is told how far a job is; `inputs`: whether these have changed.
//! - `cluster`: agents, jobs that are submitted to them, and what drives these.
//! - `event`: what a worker's process tells the one that started it, a line each; `site`: where something went wrong.
//! - `work`: the worker's process; `panics`: what it tells when a job panics.
//! - `how_far`: how far a job is; `progress`: a bar of that on a terminal, with `amounts` as people read them; `report`: what is printed in the end.
//! - `job`: what the program asks of a job; `components`, `join`, `kmeans`, `pagerank`, `sort`, `wordcount`: the jobs, each with what it is asked, what a worker does, and what is printed.
//! - `memory`, `output_file`, `output_folder`, `output_format`, `part_name`, `checkpointing`: what several jobs are asked; `usage`: what they took.
//! - `fault`: what a job does wrong, for tests.
//! - `validate`: whether records are sorted; `generate`: synthetic inputs.

#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "the program is the shell: it owns processes, files and the terminal"
)]

mod account;
mod amounts;
mod args;
mod attempts;
mod checkpointing;
mod cluster;
mod components;
mod event;
mod fault;
mod generate;
mod how_far;
mod inputs;
mod interrupt;
mod job;
mod join;
mod kmeans;
mod launch;
mod memory;
mod onlooker;
mod output_file;
mod output_folder;
mod output_format;
mod pagerank;
mod panics;
mod part_name;
mod process;
mod progress;
mod report;
mod site;
mod sort;
mod usage;
mod validate;
mod wordcount;
mod work;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::account::Account;
use crate::args::{Args, Command};
use crate::interrupt::Interrupt;
use crate::job::Job;

fn main() -> ExitCode {
    match Args::from_process().command {
        Command::Job(job) => match Interrupt::watch() {
            Ok(interrupt) => run(&job, &interrupt),
            Err(error) => report::complain(&error.into()),
        },
        Command::Validate(validate) => validate::run(&validate),
        Command::Generate(generate) => match generate::run(generate) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => report::complain(&error),
        },
        Command::Agent(agent) => match cluster::agent::run(&agent) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => report::complain(&error),
        },
        Command::Agents(shown) => {
            cluster::jobs::agents(&shown).unwrap_or_else(|error| report::complain(&error))
        }
        Command::Submit(submit) => {
            cluster::submit::run(&submit).unwrap_or_else(|error| report::complain(&error))
        }
        Command::Jobs(jobs) => {
            cluster::jobs::run(&jobs).unwrap_or_else(|error| report::complain(&error))
        }
        Command::Worker(worker) => work::run(&worker),
        Command::Drive => cluster::drive::run(),
    }
}

/// Runs a job, and says what came of it.
fn run(job: &Job, interrupt: &Arc<Interrupt>) -> ExitCode {
    // As they were typed: what is not UTF-8 cannot be shown as it is.
    let typed = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let mut account = match Account::begin(job, typed.collect(), Duration::ZERO) {
        Ok(account) => account,
        Err(error) => return report::complain(&error),
    };
    let done = attempts::run(job, &mut account, interrupt);
    let said = done.and_then(|outcome| report::of(job, &outcome));
    let written = account.end(job, said.as_ref().map(|said| &said.object));
    if let Err(error) = &said
        && interrupt.signal().is_some()
    {
        report::complain(error);
        interrupt.exit();
    }
    interrupt.let_go();
    let code = match &said {
        Ok(said) => report::print(said),
        Err(error) => report::complain(error),
    };
    // What came out is said in any case.
    written.map_or_else(|error| report::complain(&error), |()| code)
}
