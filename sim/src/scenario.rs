//! What is simulated: a scenario draws a world from a seed, runs it, and judges what clients were
//! told.

mod caps;
pub mod cluster;
mod keys;
mod requester;
pub mod store;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use weft_client::ClientError;
use weft_transport::Time;

use crate::cluster::BuildError;
use crate::history::History;
use crate::ledger::Ledger;
use crate::linearizability::{self, CheckError};
use crate::nemesis;
use crate::planted::Planted;
use crate::sometimes::Sometimes;
use crate::world::Stuck;

pub use caps::{Caps, Size, Sizes, capped};

/// A scenario, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scenario {
    /// Clients and nodes under delay, lost connections and pauses.
    Store,
    /// Coordinators, nodes and clients under everything.
    Cluster,
    /// The same, and an operator who stops nodes in good order and starts them again, some of which keep nothing on disk.
    Operated,
}

impl Scenario {
    /// All scenarios.
    pub const ALL: [Scenario; 3] = [Scenario::Store, Scenario::Cluster, Scenario::Operated];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Scenario::Store => "store",
            Scenario::Cluster => "cluster",
            Scenario::Operated => "operated",
        }
    }

    /// The command that runs it once more and prints everything.
    pub fn replay(self, seed: u64, caps: &Caps, planted: Option<Planted>) -> String {
        let planted = planted.map(|planted| format!(" --planted {}", planted.name()));
        let planted = planted.unwrap_or_default();
        format!("weft-sim --scenario {} --seed {seed}{caps}{planted} --history", self.name())
    }

    /// Runs it with everything drawn from `seed`, but no more of it than `caps` say. Only nodes of whole clusters can have a bug `planted`.
    pub fn run(self, seed: u64, caps: &Caps, planted: Option<Planted>) -> Run {
        match self {
            Scenario::Store => store::run(seed, caps, &crate::cluster::production),
            Scenario::Cluster => cluster::run_with(seed, caps, planted),
            Scenario::Operated => cluster::run_operated(seed, caps, planted),
        }
    }

    /// What has to come about in many seeds.
    pub fn required(self) -> &'static [&'static str] {
        match self {
            Scenario::Store => store::REQUIRED,
            Scenario::Cluster => cluster::REQUIRED,
            Scenario::Operated => cluster::REQUIRED_OF_OPERATED,
        }
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Run {
    /// What was run.
    pub scenario: Scenario,
    /// What everything was drawn from.
    pub seed: u64,
    /// The bug that nodes had, if one was put in.
    pub planted: Option<Planted>,
    /// What was drawn, for people.
    pub drawn: String,
    /// What clients were told.
    pub history: History,
    /// What happened besides.
    pub summary: Summary,
    /// How it was made smaller than it was drawn.
    pub caps: Caps,
    /// How much of everything it had.
    pub sizes: Sizes,
    /// What disturbed it.
    pub faults: nemesis::Counts,
    /// What it met.
    pub sometimes: Sometimes,
    /// The account of changes.
    pub ledger: Ledger,
    /// Whether all was well.
    pub outcome: Result<(), Failure>,
}

/// What happened in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Virtual time that passed.
    pub virtual_time: Duration,
    /// Connections that were lost.
    pub connections_lost: u64,
    /// Sends and attempts to connect that nobody heard.
    pub unheard: u64,
    /// Pauses that kept a node from what it had to do.
    pub delayed: u64,
    /// Nodes that were stopped, crashed or paused for good.
    pub nodes_gone: u64,
    /// Passes over the world.
    pub steps: u64,
}

/// Why a run is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No order explains what clients were told.
    #[error("not linearizable: {0}")]
    Linearizability(CheckError),
    /// The world came to a halt.
    #[error("stuck: {0}")]
    Stuck(Stuck),
    /// The time was up before the clients were done.
    #[error("clients still run after {} virtual seconds: {state}", .at.nanos() / 1_000_000_000)]
    TooLong {
        /// When it was given up.
        at: Time,
        /// How everything was then.
        state: String,
    },
    /// An operation took longer than the client's timeout.
    #[error("a client's operation took {took:?}, longer than its timeout of {timeout:?}: {what}")]
    Late {
        /// What was asked, and when.
        what: String,
        /// How long it took.
        took: Duration,
        /// How long it may take.
        timeout: Duration,
    },
    /// What may have been applied was not asked again until the time was over, though nodes remember it.
    #[error("a client left it in doubt after {took:?} of its timeout of {timeout:?}: {error}")]
    Doubt {
        /// What it told.
        error: ClientError,
        /// How long it took.
        took: Duration,
        /// How long it may take.
        timeout: Duration,
    },
    /// The faults were over, and still an operation failed.
    #[error("after the faults had ended, a client failed: {0}")]
    NotHealed(ClientError),
    /// The faults were over, and the cluster did not become what it should be.
    #[error("after the faults had ended, the cluster did not settle: {reason}")]
    NotConverged {
        /// What is not as it should be.
        reason: String,
    },
    /// Changes are lost, there twice, or there though nobody made them.
    #[error("{} (first: {})", .0, .0.errors.first().map_or_else(String::new, ToString::to_string))]
    Ledger(Box<Ledger>),
    /// No client was told anything, so nothing has been checked.
    #[error("no operation was completed, so the run shows nothing")]
    NothingDone,
    /// The world could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A bug, of production code or of the simulator: where it is, is on standard error.
    #[error("it panicked: {message}")]
    Panicked {
        /// What the panic says.
        message: String,
    },
}

/// Plays, and tells of a panic as of any other failure: it has a seed, too, and may be made smaller.
fn play_on<T>(play: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // What was being changed when it panicked is looked at by people, and by nothing that goes on.
    catch_unwind(AssertUnwindSafe(play)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Failure::Panicked { message: message.unwrap_or_else(|| "without a word".to_owned()) })
    })
}

/// Not a source: the message says all of it.
impl From<CheckError> for Failure {
    fn from(error: CheckError) -> Self {
        Self::Linearizability(error)
    }
}

/// Not a source: the message says all of it.
impl From<Stuck> for Failure {
    fn from(error: Stuck) -> Self {
        Self::Stuck(error)
    }
}

impl fmt::Display for Run {
    /// How it went; if not well, what was drawn and how to see it again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { scenario, seed, drawn, summary, caps, faults, ledger, outcome, .. } = self;
        let planted = self.planted;
        let name = scenario.name();
        match outcome {
            Ok(()) => writeln!(f, "seed {seed} of scenario {name}: linearizable")?,
            Err(failure) => writeln!(f, "seed {seed} of scenario {name}: {failure}")?,
        }
        writeln!(f, "drawn: {drawn}")?;
        if !caps.is_none() {
            writeln!(f, "made smaller:{caps}")?;
        }
        writeln!(f, "run: {summary}")?;
        writeln!(f, "ledger: {ledger}")?;
        if !faults.0.is_empty() {
            writeln!(f, "{faults}")?;
        }
        write!(f, "replay: {}", scenario.replay(*seed, caps, planted))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { virtual_time, connections_lost, unheard, delayed, nodes_gone, steps } = self;
        let seconds = virtual_time.as_secs_f64();
        write!(f, "{seconds:.3} virtual seconds, {steps} steps, ")?;
        write!(f, "{connections_lost} connections lost, {unheard} sends unheard, ")?;
        write!(f, "{delayed} times late by a pause, {nodes_gone} nodes gone")
    }
}

/// Whether something was done, and [well](judge_what_was_told): an empty history is linearizable, and proves nothing.
fn judge(history: &History, ledger: &Ledger) -> Result<(), Failure> {
    if history.counts().completed == 0 {
        return Err(Failure::NothingDone);
    }
    judge_what_was_told(history, ledger)
}

/// Whether what clients were told is linearizable, and no change is lost, there twice, or of nobody.
fn judge_what_was_told(history: &History, ledger: &Ledger) -> Result<(), Failure> {
    linearizability::check(history)?;
    if ledger.errors.is_empty() { Ok(()) } else { Err(Failure::Ledger(Box::new(ledger.clone()))) }
}
