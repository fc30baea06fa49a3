//! `kv launch`, hidden: becomes a node of a playground.
//!
//! A new process has to leave its parent's session, or tie its life to its parent's, before it
//! becomes the server; the standard library offers neither between fork and exec without unsafe
//! code. So `kv` starts itself, does that, and then becomes the server. The process id stays the
//! same.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use rustix::process::{Signal, set_parent_process_death_signal, setsid};

/// Become a node of a playground
#[derive(Debug, clap::Args)]
pub(crate) struct Launch {
    /// End when the parent ends
    #[arg(long)]
    attached: bool,

    /// The program
    program: PathBuf,

    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Launch {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        // With a session of its own it gets neither the terminal's ctrl-C nor its hang-up.
        setsid().context("cannot start a session")?;
        if self.attached {
            set_parent_process_death_signal(Some(Signal::TERM)).context("cannot follow kv")?;
        }
        match self.become_program()? {}
    }

    fn become_program(self) -> anyhow::Result<Infallible> {
        let error = Command::new(&self.program).args(self.arguments).exec();
        Err(error).with_context(|| format!("cannot run {}", self.program.display()))
    }
}
