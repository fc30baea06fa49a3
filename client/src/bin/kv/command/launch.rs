//! `kv launch`: becomes a node of a playground. Not for people, so that no help and no completion
//! tells of it.
//!
//! A new process has to leave its parent's session, or tie its life to its parent's, before it
//! becomes the server; the standard library offers neither between fork and exec without unsafe
//! code. So `kv` starts itself, does that, and then becomes the server. The process id stays the
//! same.

#![expect(clippy::disallowed_methods, reason = "becoming another program is what it is about")]

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use rustix::process::{Signal, set_parent_process_death_signal, setsid};

/// What this process is called with to become a node.
const NAME: &str = "launch";

/// The process to become.
#[derive(Debug)]
pub(crate) struct Launch {
    /// It ends when the process that started this one does.
    attached: bool,
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Launch {
    /// A command that becomes `program`.
    pub(crate) fn command(program: &Path, attached: bool) -> std::io::Result<Command> {
        let mut command = Command::new(env::current_exe()?);
        command.args([NAME, if attached { "attached" } else { "detached" }]).arg(program);
        Ok(command)
    }

    /// What this process was started to become, if it was.
    pub(crate) fn of_this_process() -> Option<Self> {
        let mut typed = env::args_os().skip(1);
        if typed.next()? != NAME {
            return None;
        }
        let attached = typed.next()? == "attached";
        Some(Self { attached, program: typed.next()?.into(), arguments: typed.collect() })
    }

    pub(crate) fn run(self) -> anyhow::Result<Infallible> {
        // With a session of its own it gets neither the terminal's ctrl-C nor its hang-up.
        setsid().context("cannot start a session")?;
        if self.attached {
            set_parent_process_death_signal(Some(Signal::TERM)).context("cannot follow kv")?;
        }
        let error = Command::new(&self.program).args(self.arguments).exec();
        Err(error).with_context(|| format!("cannot run {}", self.program.display()))
    }
}
