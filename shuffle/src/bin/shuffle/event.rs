//! What a worker's process tells the one that started it: a JSON object a line.

use std::io::Write as _;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Event {
    /// Where the other workers find it.
    Listening(SocketAddr),
    /// Bytes of the input file that it has read.
    Read(u64),
    /// How many rounds are over.
    Rounds(usize),
    /// Worker 0: what came out.
    Done(Outcome),
    /// Why it ends.
    Failed(Failure),
}

/// Why a worker ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// Whether it only follows from another worker's failure.
    pub(crate) is_consequence: bool,
    pub(crate) text: String,
}

/// What a job came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) vertices: u64,
    pub(crate) edges: u64,
    pub(crate) edges_by_worker: Vec<u64>,
    pub(crate) load_seconds: f64,
    /// Of each round.
    pub(crate) seconds: Vec<f64>,
    /// What the links between the workers took in all rounds.
    pub(crate) bytes_shuffled: u64,
    pub(crate) top: Vec<TopRank>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct TopRank {
    pub(crate) vertex: u64,
    pub(crate) rank: f64,
}

/// Tells `event`; whoever started this process is gone if that fails, and so is the reason to go on.
pub(crate) fn tell(event: &Event) -> std::io::Result<()> {
    let mut line = serde_json::to_string(event)?;
    line.push('\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.flush()
}
