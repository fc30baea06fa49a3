//! A node among others: its replicas, the nodes that it shares partitions with, and what it tells the coordinator.
//!
//! - `agent`: what goes on beside requests: connections come and go, time passes, learners are fed.
//! - `asking`: who in this node has a question leaves it to the agent.
//! - `assembling`: messages that come in parts are put together.
//! - `coordination`: what arrives for the coordinator of this node, and from one for the node.
//! - `heartbeats`: that the node is there, and what the coordinators answer.
//! - `hosted`: a partition and its replica, under one lock: what the protocol wants done is done there. `telling`: when what was done may be told.
//! - `logged`: what of a partition is on its way to the log on disk.
//! - `pacing`: how much of the time learners get.
//! - `peers`: the connections to other nodes, and what waits for room on them.
//! - `messages`: what other nodes say, to whom it is about.
//! - `feeding`: walks through partitions for those who are to hold them too.
//! - `questions`: who of the coordinators answers what.
//! - `view`: what was committed, as far as is known here.
//! - `reports`: what the coordinator is to know.
//! - `taking`: what others send of a partition goes into its store.
//! - `tables`: which tables the partitions are to have.

pub(crate) mod agent;
pub(crate) mod asking;
mod assembling;
pub(crate) mod coordination;
pub(crate) mod feeding;
pub(crate) mod heartbeats;
pub(crate) mod hosted;
pub(crate) mod logged;
pub(crate) mod messages;
mod pacing;
pub(crate) mod peers;
pub(crate) mod questions;
pub(crate) mod recording;
pub(crate) mod reports;
pub(crate) mod tables;
mod taking;
pub(crate) mod telling;
pub(crate) mod view;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weft_protocol::Member;
use weft_transport::{Memory, Time};

use crate::clients::Clients;
use crate::replication::{LeaseSettings, Leases, Settings};

use self::assembling::Assemblies;
use self::feeding::Feeds;
use self::pacing::PagePacing;
use self::peers::Peers;
use self::reports::Reports;
use self::tables::WantedTables;
use self::view::View;

/// What a node is to the others.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) me: Member,
    pub(crate) leases: Arc<Leases>,
    pub(crate) peers: Peers,
    pub(crate) reports: Reports,
    pub(crate) tables: WantedTables,
    pub(crate) feeds: Mutex<Feeds>,
    /// When its memory may be got by huge pages.
    pub(crate) pages: PagePacing,
    assemblies: Assemblies,
    pub(crate) view: Mutex<View>,
    pub(crate) clients: Arc<Clients>,
    /// How often others are told that this node is there, and asked for their leases.
    pub(crate) heartbeat: Duration,
    settings: Settings,
    #[cfg(any(test, feature = "planted-bugs"))]
    pub(crate) planted_in_store: Option<crate::store::PlantedBug>,
}

/// What a node among others goes by.
#[derive(Debug)]
pub(crate) struct ClusterSettings {
    pub(crate) heartbeat: Duration,
    pub(crate) leases: LeaseSettings,
    pub(crate) replicas: Settings,
    #[cfg(any(test, feature = "planted-bugs"))]
    pub(crate) planted_in_store: Option<crate::store::PlantedBug>,
}

impl Cluster {
    pub(crate) fn new(
        me: Member,
        settings: ClusterSettings,
        now: Time,
        has_earlier_life: bool,
        clients: Arc<Clients>,
        memory: &Memory,
    ) -> Cluster {
        let ClusterSettings { heartbeat, leases, replicas, .. } = settings;
        let leases = Leases::new(leases, now, has_earlier_life);
        #[cfg(any(test, feature = "planted-bugs"))]
        let leases = leases.with_planted(replicas.planted);
        Cluster {
            me,
            leases: Arc::new(leases),
            peers: Peers::default(),
            reports: Reports::default(),
            tables: WantedTables::default(),
            feeds: Mutex::default(),
            pages: PagePacing::default(),
            assemblies: Assemblies::new(memory),
            view: Mutex::default(),
            clients,
            heartbeat,
            settings: replicas,
            #[cfg(any(test, feature = "planted-bugs"))]
            planted_in_store: settings.planted_in_store,
        }
    }

    /// Whether this life of the node is one of the cluster's and is to stay, as far as it has been told.
    pub(crate) fn stays(&self) -> bool {
        let view = self.view.lock();
        view.has(self.me) && view.node(self.me.node).is_some_and(|node| !node.is_leaving)
    }

    /// What replicas go by.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }
}
