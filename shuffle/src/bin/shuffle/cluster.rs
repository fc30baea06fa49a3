//! Jobs on a Weft cluster: agents on its machines, jobs that are submitted, and processes of both.
//!
//! An agent ([`agent`]) registers with the coordinators of the cluster, for how many workers it has room, and has their processes ([`hosting`]). A job that is submitted
//! ([`submit`]) is an object of a table of the cluster ([`record`], [`store`]), changed by compare-and-set only. The eldest agent ([`scheduler`], [`schedule`]) gives jobs their slots and starts for each attempt
//! a process that drives it ([`drive`]): that one has the agents start the workers ([`fleet`], [`message`]), and writes down what comes of it. Whoever is lost, an agent or
//! the eldest of them, costs the jobs that it had an attempt, and nothing else: all that is known of a job is in the cluster.

pub(crate) mod agent;
pub(crate) mod drive;
pub(crate) mod fleet;
mod hosting;
pub(crate) mod jobs;
mod message;
mod record;
mod schedule;
mod scheduler;
mod store;
pub(crate) mod submit;
mod waiting;

use std::time::Duration;

/// How long an operation of the store may take: nodes may have to change roles meanwhile.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The node to begin with, if no other is named.
pub(crate) const DEFAULT_NODE: &str = "127.0.0.1:7400";

/// Where the cluster is.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Cluster {
    /// Nodes of the cluster to begin with; one that answers is enough
    #[arg(
        long,
        env = "WEFT_CLUSTER",
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        default_value = DEFAULT_NODE
    )]
    pub(crate) cluster: Vec<String>,
}
