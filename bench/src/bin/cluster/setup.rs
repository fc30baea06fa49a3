//! What every part begins with: a cluster, how to ask how it is, and what it holds.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use weft_client::{Client, Durability, LinkPolicy};

use crate::control::{Control, View};
use crate::load::connect;
use crate::servers::{Servers, Setting};

/// How long a cluster may take to have all it should.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// What is told to every part.
#[derive(Debug, Args)]
pub(crate) struct Setup {
    /// Where nodes keep what they have; what was there is removed
    #[arg(long, global = true, default_value = "target/bench/cluster/nodes")]
    pub(crate) folder: PathBuf,
    /// Objects, of 100 bytes
    #[arg(long, global = true, default_value_t = 1_000_000)]
    pub(crate) keys: u32,
    /// Requests a second, of a load that is constant, half of them writes
    #[arg(long, global = true, default_value_t = 4_000)]
    pub(crate) rate: u32,
    /// Limit of each node
    #[arg(long, global = true, default_value = "2GiB")]
    pub(crate) memory: String,
    /// What clients are connected by
    #[arg(long, global = true, default_value = "auto")]
    pub(crate) link: LinkPolicy,
}

/// A running cluster.
pub(crate) struct Cluster {
    pub(crate) servers: Servers,
    pub(crate) control: Control,
}

impl Setup {
    /// Starts a cluster of as many nodes, and returns when it is at rest.
    pub(crate) fn cluster(&self, nodes: u16, durability: Durability) -> Result<Cluster> {
        let program = std::env::current_exe()?;
        let programs = program.parent().context("this program is in no folder")?;
        let setting = Setting { nodes, durability };
        let servers = Servers::start(programs, &self.folder, &self.memory, setting)?;
        let control = Control::new(&servers.controls())?;
        let mut cluster = Cluster { servers, control };
        cluster.rest()?;
        Ok(cluster)
    }

    /// A client of `cluster`, with the default retry.
    pub(crate) fn client(&self, cluster: &Cluster) -> Result<Client> {
        connect(&cluster.servers.addresses(), self.link)
    }
}

impl Cluster {
    /// Waits until all is there, and every node is primary of its share.
    pub(crate) fn rest(&mut self) -> Result<View> {
        let nodes = usize::from(self.servers.setting().nodes);
        self.control.wait("at rest", PATIENCE, |view| view.is_at_rest(nodes))
    }

    /// Waits until all is there.
    pub(crate) fn whole(&mut self) -> Result<View> {
        let nodes = usize::from(self.servers.setting().nodes);
        self.control.wait("whole", PATIENCE, |view| view.is_whole && view.led.len() == nodes)
    }
}
