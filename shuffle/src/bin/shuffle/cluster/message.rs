//! What drivers of jobs and agents say to one another: JSON, a message each, over a connection that both show the cluster's secret for.

use serde::{Deserialize, Serialize};

/// One worker of one attempt at a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) job: u64,
    pub(crate) attempt: u32,
    pub(crate) worker: usize,
}

/// What an agent is told about a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToAgent {
    /// Start a process of this program. What earlier attempts at the job have here is killed first, and refused from now on.
    Start { task: Task, folder: String, arguments: Vec<String> },
    /// A line for its standard input.
    Input { task: Task, line: String },
    /// Kill it, if it is there.
    Kill { task: Task },
}

/// What an agent tells about a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromAgent {
    Started {
        task: Task,
        process: u32,
    },
    /// It could not be started, or may not.
    Refused {
        task: Task,
        why: String,
    },
    /// A line of its standard output, or a part of it, of which others follow unless it is the last: messages over a megabyte are overtaken by others.
    Line {
        task: Task,
        part: String,
        is_last: bool,
    },
    /// Its process has ended: how, as the system says it.
    Ended {
        task: Task,
        status: i32,
    },
}

impl FromAgent {
    pub(crate) fn task(&self) -> Task {
        match self {
            Self::Started { task, .. }
            | Self::Refused { task, .. }
            | Self::Line { task, .. }
            | Self::Ended { task, .. } => *task,
        }
    }
}

/// Either, as it is sent.
pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("these types have nothing that JSON has not")
}
