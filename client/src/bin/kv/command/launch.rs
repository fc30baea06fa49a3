//! `kv launch`: becomes a node of a playground. Not for people, so that no help and no completion
//! tells of it.
//!
//! A new process has to leave its parent's session, or tie its life to its parent's, before it
//! becomes the server; the standard library offers neither between fork and exec without unsafe
//! code. So `kv` starts itself, does that, and then becomes the server. The process id stays the
//! same. It waits for a word from `kv` first, which has to write down that the process is there.

#![expect(clippy::disallowed_methods, reason = "becoming another program is what it is about")]

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal, setsid};

/// What this process is called with to become a node.
const NAME: &str = "launch";

/// What it is called with in place of the process that it is to end with.
const DETACHED: &str = "detached";

/// The process to become.
#[derive(Debug)]
pub(crate) struct Launch {
    /// It ends when this process does, which started this one.
    attached_to: Option<Pid>,
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Launch {
    /// A command that becomes `program`, once it is [let](Self::let_go).
    pub(crate) fn command(program: &Path, attached: bool) -> io::Result<Command> {
        let mut command = Command::new(env::current_exe()?);
        let parent = if attached { &std::process::id().to_string() } else { DETACHED };
        command.args([NAME, parent]).arg(program).stdin(Stdio::piped());
        Ok(command)
    }

    /// Lets what was started by such a command become its program. One that is never let, since this process has ended, ends too.
    pub(crate) fn let_go(child: &mut Child) {
        if let Some(mut stdin) = child.stdin.take() {
            // One that has ended is told from others by that.
            let _ = stdin.write_all(b"\n");
        }
    }

    /// What this process was started to become, if it was.
    pub(crate) fn of_this_process() -> Option<Self> {
        let mut typed = env::args_os().skip(1);
        if typed.next()? != NAME {
            return None;
        }
        let parent = typed.next()?;
        let attached_to = match parent.to_str()? {
            DETACHED => None,
            pid => Some(Pid::from_raw(pid.parse().ok()?)?),
        };
        Some(Self { attached_to, program: typed.next()?.into(), arguments: typed.collect() })
    }

    pub(crate) fn run(self) -> anyhow::Result<Infallible> {
        // With a session of its own it gets neither the terminal's ctrl-C nor its hang-up.
        setsid().context("cannot start a session")?;
        if let Some(parent) = self.attached_to {
            set_parent_process_death_signal(Some(Signal::TERM)).context("cannot follow kv")?;
            // No signal comes of an end that was before.
            if getppid() != Some(parent) {
                bail!("kv has ended, and this node was to end with it");
            }
        }
        // Nobody may be able to stop what is not written down.
        if io::stdin().read_exact(&mut [0]).is_err() {
            bail!("kv has ended before it had written down that this node is there");
        }
        let error = Command::new(&self.program).args(self.arguments).stdin(Stdio::null()).exec();
        Err(error).with_context(|| format!("cannot run {}", self.program.display()))
    }
}
