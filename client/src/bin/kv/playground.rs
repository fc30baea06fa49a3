//! Server processes on this machine: found, started, waited for, stopped.
//!
//! A playground is a directory: `playground.json` lists its processes, `node-N.log` is what node N
//! says. A process becomes a node when it is on the list, and none if `kv` has ended before, so that
//! whatever happens to `kv`, `kv playground stop` finds all that runs. A process is known by its id
//! *and* its start time: an id alone may have been given to somebody else since, who must not be
//! signalled.

#![expect(
    clippy::disallowed_methods,
    reason = "processes, their files and their ports are what it is about"
)]

mod mark;
mod ports;
mod process;
mod program;
mod start;
mod state;
mod stop;

use std::path::{Path, PathBuf};

use rustix::process::getuid;

pub(crate) use self::start::{Ended, Plan};
pub(crate) use self::stop::Stopped;

use self::state::{Locked, State};
use crate::environment;

/// A playground whose nodes have been started.
#[derive(Debug)]
pub(crate) struct Playground {
    dir: PathBuf,
    state: State,
    children: Vec<std::process::Child>,
    interrupts: signal_hook::iterator::Signals,
}

impl Playground {
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }
}

/// Where a playground is if nobody says otherwise: a place of this user's own.
pub(crate) fn default_dir() -> PathBuf {
    match environment::runtime_dir() {
        Some(dir) => dir.join("weft-playground"),
        None => std::env::temp_dir().join(format!("weft-playground-{}", getuid().as_raw())),
    }
}
