//! Nodes in the process of a test, on ports of their own.

#[path = "ports.rs"]
mod ports;

use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use weft_client::{BlockingClient, ClientConfig};
use weft_server::config::{Config, Host, HttpAddress, Settings};
use weft_server::node::Node;

use self::ports::Port;

/// Nodes that know one another, each of which can be started anew.
pub(crate) struct Cluster {
    /// What nodes keep.
    folder: TempDir,
    _ports: Vec<Port>,
    pub(crate) addresses: Vec<String>,
    pub(crate) nodes: Vec<Option<Node>>,
}

impl Cluster {
    pub(crate) fn start(count: usize) -> Cluster {
        let ports: Vec<_> = (0..count).map(|_| Port::new()).collect();
        let addresses = ports.iter().map(|port| port.address.to_string()).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = Cluster { folder, _ports: ports, addresses, nodes: Vec::new() };
        // Each waits for the others.
        let starting: Vec<_> = (0..count)
            .map(|at| {
                let config = cluster.config(at);
                thread::spawn(move || Node::start(&config).unwrap())
            })
            .collect();
        cluster.nodes = starting.into_iter().map(|node| Some(node.join().unwrap())).collect();
        cluster
    }

    /// Starts a node, in the place of the one that ran.
    pub(crate) fn restart(&mut self, at: usize) {
        self.nodes[at] = None;
        self.nodes[at] = Some(Node::start(&self.config(at)).unwrap());
    }

    pub(crate) fn config(&self, at: usize) -> Config {
        let settings = Settings {
            node_id: Some(at as u64 + 1),
            join: Some(self.addresses.join(",").parse().unwrap()),
            listen: Some(self.addresses[at].parse().unwrap()),
            data_dir: Some(self.folder.path().join(format!("node-{at}"))),
            http: Some(HttpAddress::Off),
            control: Some(HttpAddress::Off),
            // Each node has a copy of all: more would leave small nodes no room.
            partitions: Some(6.try_into().unwrap()),
            memory: Some("192MiB".parse().unwrap()),
            reactors: Some(1.try_into().unwrap()),
            ..Settings::default()
        };
        Config::resolve(settings, Host::of_this_process()).unwrap()
    }

    pub(crate) fn client(&self) -> BlockingClient {
        let mut config = ClientConfig::new(self.addresses.clone());
        config.timeout = Duration::from_secs(30);
        BlockingClient::connect(config).unwrap()
    }
}
