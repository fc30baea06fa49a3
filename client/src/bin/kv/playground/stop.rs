//! Ending the nodes of a playground.

use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rustix::process::Signal;
use weft_transport::Clock;

use super::Playground;
use super::process::Process;
use super::state::{Locked, Node};

/// What became of the nodes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// Ended when they were asked to.
    pub(crate) by_itself: usize,
    /// Did not, and were killed.
    pub(crate) killed: usize,
    /// Had ended before.
    pub(crate) gone: usize,
}

/// How long a killed process may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

impl Playground {
    /// Ends the nodes of the playground in `dir`, if there is one, and forgets it.
    pub(crate) fn stop(dir: &Path, grace: Duration) -> anyhow::Result<Stopped> {
        let Some(locked) = Locked::open(dir)? else { return Ok(Stopped::default()) };
        let Some(state) = locked.read()? else { return Ok(Stopped::default()) };
        let stopped = end_all(&state.nodes, grace)?;
        locked.clear()?;
        Ok(stopped)
    }
}

/// Asks all nodes to end, and kills those that have not after `grace`.
pub(super) fn end_all(nodes: &[Node], grace: Duration) -> anyhow::Result<Stopped> {
    let mut stopped = Stopped::default();
    let mut ending = Vec::new();
    for node in nodes {
        let context = || format!("cannot stop node {} (process {})", node.id, node.process.pid);
        match node.process.find().with_context(context)? {
            Some(process) => {
                process.signal(Signal::TERM).with_context(context)?;
                ending.push(process);
            }
            None => stopped.gone += 1,
        }
    }
    let clock = Clock::system();
    let deadline = clock.now() + grace;
    for process in ending {
        if waited(&process, &clock, deadline)? {
            stopped.by_itself += 1;
            continue;
        }
        process.signal(Signal::KILL)?;
        waited(&process, &clock, clock.now() + KILL_PATIENCE)?;
        stopped.killed += 1;
    }
    Ok(stopped)
}

/// Whether the process ends before `deadline`, signals to this one notwithstanding.
fn waited(process: &Process, clock: &Clock, deadline: weft_transport::Time) -> io::Result<bool> {
    loop {
        let left = deadline.since(clock.now());
        if process.ends_within(left)? {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}
