//! `kv`: a Weft cluster from the command line.
//!
//! # Layout
//! - `args`: what is typed, as types that hold only what makes sense.
//! - `command`: one file each, with its arguments and what it does.
//! - `playground`: server processes on this machine: start, wait, stop.
//! - `control`: calls of the control port, of whichever node answers; `health`: what is to be said of a cluster's status.
//! - `duration`, `number`, `text`, `value`: what is typed for them.
//! - `dump`: files of objects, and how far reading or writing one has come.
//! - `repl`: lines on a terminal, each a command.
//! - `interrupt`: Ctrl-C that ends a command and not the program.
//! - `output`: table, JSON or raw bytes on stdout; `complaint`: what went wrong, on stderr.
//!
//! What scripts may rely on is in `docs/cli.md`.

#![forbid(unsafe_code)]

mod args;
mod command;
mod complaint;
mod control;
mod dump;
mod duration;
mod environment;
mod interrupt;
mod number;
mod output;
mod playground;
mod repl;
mod text;
mod value;

use std::process::ExitCode;

use crate::args::Args;
use crate::command::launch::Launch;
use crate::output::Output;

fn main() -> ExitCode {
    if let Some(launch) = Launch::of_this_process() {
        return match launch.run() {
            Ok(never) => match never {},
            Err(error) => complaint::report(&error),
        };
    }
    let Args { global, command } = Args::from_process();
    let Some(command) = command else {
        return match repl::run(&global) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => complaint::report(&error),
        };
    };
    let mut output = Output::to_stdout(global.format());
    let done = command.run(&global, &mut output);
    match done.and_then(|()| Ok(output.finish()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complaint::report(&error),
    }
}
