//! `shuffle`: the jobs that Weft ships, over worker processes that it starts on this machine.
//!
//! # Layout
//! - `args`: what is typed.
//! - `attempts`: tries a job again when a worker was lost; `launch`: one attempt, starts the workers, tells them of one another, and ends all when one ends early.
//! - `process`: where one is started; `onlooker`: who is told how far a job is; `inputs`: whether these have changed.
//! - `cluster`: agents, jobs that are submitted to them, and what drives these.
//! - `event`: what a worker's process tells the one that started it, a line each.
//! - `work`: the worker's process.
//! - `progress`: bars on a terminal; `report`: what is printed in the end.
//! - `job`: what the program asks of a job; `components`, `join`, `kmeans`, `pagerank`, `sort`, `wordcount`: the jobs, each with what it is asked, what a worker does, and what is printed.
//! - `memory`, `output_file`, `output_folder`, `output_format`, `part_name`, `checkpointing`: what several jobs are asked; `usage`: what they took.
//! - `validate`: whether records are sorted; `generate`: synthetic inputs.

#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "the program is the shell: it owns processes, files and the terminal"
)]

mod args;
mod attempts;
mod checkpointing;
mod cluster;
mod components;
mod event;
mod generate;
mod inputs;
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
mod part_name;
mod process;
mod progress;
mod report;
mod sort;
mod usage;
mod validate;
mod wordcount;
mod work;

use std::process::ExitCode;

use crate::args::{Args, Command};

fn main() -> ExitCode {
    match Args::from_process().command {
        Command::Job(job) => match attempts::run(&job) {
            Ok(outcome) => report::print(&job, &outcome),
            Err(error) => report::complain(&error),
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
