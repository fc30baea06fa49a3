//! `kv`: a Weft cluster from the command line.
//!
//! # Layout
//! - `args`: what is typed, as types that hold only what makes sense.
//! - `command`: one file each, with its arguments and what it does.
//! - `playground`: server processes on this machine: start, wait, stop.
//! - `duration`, `number`, `text`, `value`: what is typed for them.
//! - `dump`: files of objects, and how far reading or writing one has come.
//! - `output`: table, JSON or raw bytes on stdout; `complaint`: what went wrong, on stderr.
//!
//! What scripts may rely on is in `docs/cli.md`.

#![forbid(unsafe_code)]

mod args;
mod command;
mod complaint;
mod dump;
mod duration;
mod environment;
mod number;
mod output;
mod playground;
mod text;
mod value;

use std::process::ExitCode;

use crate::args::{Args, Command};
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
    let mut output = Output::to_stdout(global.format());
    let done = match command {
        Command::Put(put) => put.run(&global, &mut output),
        Command::Get(get) => get.run(&global, &mut output),
        Command::Del(del) => del.run(&global, &mut output),
        Command::Exists(exists) => exists.run(&global, &mut output),
        Command::Incr(incr) => incr.run(&global, &mut output),
        Command::Append(append) => append.run(&global, &mut output),
        Command::Getput(getput) => getput.run(&global, &mut output),
        Command::Getdel(getdel) => getdel.run(&global, &mut output),
        Command::Fields(fields) => fields.run(&global, &mut output),
        Command::Patch(patch) => patch.run(&global, &mut output),
        Command::Expire(expire) => expire.run(&global, &mut output),
        Command::Persist(persist) => persist.run(&global, &mut output),
        Command::Mput(mput) => mput.run(&global, &mut output),
        Command::Mget(mget) => mget.run(&global, &mut output),
        Command::Mdel(mdel) => mdel.run(&global, &mut output),
        Command::Scan(scan) => scan.run(&global, &mut output),
        Command::Bigkeys(bigkeys) => bigkeys.run(&global, &mut output),
        Command::Export(export) => export.run(&global, &mut output),
        Command::Import(import) => import.run(&global, &mut output),
        Command::Stat(stat) => stat.run(&global, &mut output),
        Command::Ping(ping) => ping.run(&global, &mut output),
        Command::Bench(bench) => bench.run(&global, &mut output),
        Command::Playground(playground) => playground.run(&mut output),
        Command::Explain(explain) => explain.run(&mut output),
        Command::Completions(completions) => completions.run(),
    };
    match done.and_then(|()| Ok(output.finish()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complaint::report(&error),
    }
}
