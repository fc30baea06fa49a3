//! Where in a job something went wrong, as far as that is known.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::event::Now;

/// For scripts: docs/cli.md. What an older build has written lacks what it did not know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Site {
    /// From 1; 0 if it is not known.
    pub(crate) attempt: u32,
    pub(crate) worker: Option<usize>,
    pub(crate) process: Option<u32>,
    /// Whose process that is, on a cluster; where it was no worker's, the agent that drove the attempt.
    pub(crate) agent: Option<u64>,
    pub(crate) address: Option<SocketAddr>,
    /// The number of the stage, as reports have it, and what makes it.
    pub(crate) stage: Option<u32>,
    pub(crate) verb: Option<String>,
    /// Of what the stage shuffles, the part that was the worker's.
    pub(crate) partition: Option<usize>,
    /// Another worker that has noticed it.
    pub(crate) told_by: Option<usize>,
}

impl Site {
    pub(crate) fn of_worker(worker: usize) -> Site {
        Site { worker: Some(worker), ..Site::default() }
    }

    /// In a stage. Partition w of whatever is shuffled is worker w's.
    pub(crate) fn in_stage(self, stage: u32, verb: &str) -> Site {
        let (stage, verb) = (Some(stage), Some(verb.to_owned()));
        Site { stage, verb, partition: self.worker, ..self }
    }

    /// In the stage that its worker was in when it was last heard of, unless that is known better.
    pub(crate) fn or_at(self, now: Option<&Now>) -> Site {
        match now.and_then(|now| Some((now.of, now.verb.as_deref()?))) {
            Some((stage, verb)) if self.stage.is_none() => self.in_stage(stage, verb),
            _ => self,
        }
    }
}

impl fmt::Display for Site {
    /// What is known, the widest first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Site { attempt, worker, process, agent, address, stage, verb, partition, told_by } =
            self;
        write!(f, "attempt {attempt}")?;
        if let Some(agent) = agent {
            write!(f, ", agent {agent}")?;
        }
        if let Some(address) = address {
            write!(f, " at {address}")?;
        }
        if let Some(worker) = worker {
            write!(f, ", worker {worker}")?;
        }
        if let Some(process) = process {
            write!(f, " (process {process})")?;
        }
        if let Some(stage) = stage {
            write!(f, ", stage {stage} ({})", verb.as_deref().unwrap_or("?"))?;
        }
        if let Some(partition) = partition {
            write!(f, ", partition {partition}")?;
        }
        match told_by {
            Some(other) => write!(f, ", as worker {other} tells"),
            None => Ok(()),
        }
    }
}

/// What an error is called that ends a job in one of several attempts.
pub(crate) fn in_attempt(error: &str, attempt: u32, of: u32) -> String {
    if of > 1 { format!("attempt {attempt} of {of}: {error}") } else { error.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_said_and_nothing_else() {
        let site = Site { attempt: 2, ..Site::of_worker(1) };
        assert_eq!(site.to_string(), "attempt 2, worker 1");
        let agent = (Some(7), Some(([10, 0, 0, 1], 70).into()));
        let site = Site { process: Some(9), agent: agent.0, address: agent.1, ..site };
        let site = Site { told_by: Some(0), ..site.in_stage(4, "join") };
        let text = "attempt 2, agent 7 at 10.0.0.1:70, worker 1 (process 9), stage 4 (join), partition 1, as worker 0 tells";
        assert_eq!(site.to_string(), text);
        let now = Now { of: 6, verb: Some("gather".to_owned()), ..Now::default() };
        assert_eq!(site.clone().or_at(Some(&now)), site, "what is known stays");
        let found = Site::of_worker(3).or_at(Some(&now));
        assert_eq!((found.stage, found.partition), (Some(6), Some(3)));
        assert_eq!(Site::of_worker(3).or_at(Some(&Now { verb: None, ..now })).stage, None);
    }
}
