//! A node among others: its replicas, the nodes that it shares partitions with, and what it tells the coordinator.
//!
//! - `agent`: what goes on beside requests: connections come and go, time passes, learners are fed.
//! - `hosted`: a partition and its replica, under one lock: what the protocol wants done is done there.
//! - `logged`: what of a partition is on its way to the log on disk.
//! - `peers`: the connections to other nodes, and what waits for room on them.
//! - `messages`: what other nodes say, to whom it is about.
//! - `feeding`: walks through partitions for those who are to hold them too.
//! - `reports`: what the coordinator is to know.

pub(crate) mod agent;
pub(crate) mod feeding;
pub(crate) mod hosted;
pub(crate) mod logged;
pub(crate) mod messages;
pub(crate) mod peers;
pub(crate) mod reports;

use std::sync::Arc;

use parking_lot::Mutex;
use weft_protocol::Member;
use weft_transport::Time;

use crate::replication::{LeaseSettings, Leases, Settings};

use self::feeding::Feeds;
use self::peers::Peers;
use self::reports::Reports;

/// What a node is to the others.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) me: Member,
    pub(crate) leases: Arc<Leases>,
    pub(crate) peers: Peers,
    pub(crate) reports: Reports,
    pub(crate) feeds: Mutex<Feeds>,
    settings: Settings,
}

impl Cluster {
    pub(crate) fn new(
        me: Member,
        leases: LeaseSettings,
        settings: Settings,
        now: Time,
        has_earlier_life: bool,
    ) -> Cluster {
        Cluster {
            me,
            leases: Arc::new(Leases::new(leases, now, has_earlier_life)),
            peers: Peers::default(),
            reports: Reports::default(),
            feeds: Mutex::default(),
            settings,
        }
    }

    /// What replicas go by.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }
}
