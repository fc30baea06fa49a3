//! What a worker's process tells the one that started it: a JSON object a line.

use std::io::Write as _;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use weft_shuffle::Live;

use crate::account::Told;
use crate::components::Connected;
use crate::join::Joined;
use crate::kmeans::Clustered;
use crate::pagerank::Ranked;
use crate::sort::Sorted;
use crate::wordcount::Counted;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Event {
    /// Where the other workers find it.
    Listening(SocketAddr),
    /// Nothing but that it is not stopped.
    Alive,
    /// How far it has come with a phase of the job.
    Progress {
        /// Counted from 0.
        phase: usize,
        /// Of what the phase has in all.
        done: u64,
    },
    /// What it is doing.
    Now(Now),
    /// What it has done, before it ends.
    Told(Box<Told>),
    /// Worker 0: what came out.
    Done(Outcome),
    /// Why it ends.
    Failed(Failure),
}

/// What a worker is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Now {
    /// The number of the exchange that is going on or comes next.
    pub(crate) stage: u32,
    /// The number of its stage, of which there may have been others in rounds before.
    pub(crate) of: u32,
    /// What makes it, if that has begun.
    pub(crate) verb: Option<String>,
    /// What has made the one before, if there is one.
    pub(crate) after: Option<String>,
    /// Records that it has made for the stage.
    pub(crate) records_made: u64,
    /// Records that it has of the stage.
    pub(crate) records_held: u64,
    /// Bytes of it that have gone to others.
    pub(crate) bytes_sent: u64,
}

impl Now {
    pub(crate) fn of(live: &Live) -> Now {
        let now = live.now();
        Now {
            stage: now.number,
            of: now.stage,
            verb: now.verb.map(|verb| verb.name().to_owned()),
            after: now.ended.map(|(_, verb)| verb.name().to_owned()),
            records_made: now.records_made,
            records_held: now.records_held,
            bytes_sent: now.bytes_sent,
        }
    }
}

/// Why a worker ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// Whether it only follows from another worker's failure.
    pub(crate) is_consequence: bool,
    /// Whether a worker was lost, which says nothing of the job.
    pub(crate) is_loss: bool,
    /// The other worker that it is about, if it is about one.
    pub(crate) about: Option<usize>,
    /// The number of the stage that it happened in, or behind, and what makes it.
    pub(crate) stage: Option<(u32, String)>,
    pub(crate) text: String,
}

/// What a job came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Components(Connected),
    Join(Joined),
    Kmeans(Clustered),
    Pagerank(Ranked),
    Sort(Sorted),
    Wordcount(Counted),
}

/// Tells `event`; whoever started this process is gone if that fails, and so is the reason to go on.
pub(crate) fn tell(event: &Event) -> std::io::Result<()> {
    let mut line = serde_json::to_string(event)?;
    line.push('\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.flush()
}
