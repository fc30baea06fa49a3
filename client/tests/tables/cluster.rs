//! Nodes in the process of a test, on free ports.

#![expect(clippy::disallowed_methods, reason = "it looks for free ports")]

use std::net::TcpListener;
use std::time::Duration;

use weft_client::{BlockingClient, ClientConfig};
use weft_server::config::{Config, Host, HttpAddress, Settings};
use weft_server::node::Node;

/// Nodes that know one another, each of which can be started anew.
pub(crate) struct Cluster {
    peers: String,
    pub(crate) addresses: Vec<String>,
    pub(crate) nodes: Vec<Option<Node>>,
}

impl Cluster {
    pub(crate) fn start(count: usize) -> Cluster {
        // Free for the moment; others on this machine take ports from the same range, but seldom these.
        let listeners: Vec<_> =
            (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let address = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
        let addresses: Vec<_> = listeners.iter().map(address).collect();
        drop(listeners);
        let peer = |(at, address): (usize, &String)| format!("{}={address}", at + 1);
        let peers = addresses.iter().enumerate().map(peer).collect::<Vec<_>>().join(",");
        let mut cluster = Cluster { peers, addresses, nodes: Vec::new() };
        for at in 0..count {
            cluster.nodes.push(None);
            cluster.restart(at);
        }
        cluster
    }

    /// Starts a node, in the place of the one that ran.
    pub(crate) fn restart(&mut self, at: usize) {
        self.nodes[at] = None;
        let settings = Settings {
            node_id: Some(at as u64 + 1),
            peers: Some(self.peers.parse().unwrap()),
            http: Some(HttpAddress::Off),
            memory: Some("64MiB".parse().unwrap()),
            reactors: Some(1.try_into().unwrap()),
            ..Settings::default()
        };
        let config = Config::resolve(settings, Host::of_this_process()).unwrap();
        self.nodes[at] = Some(Node::start(&config).unwrap());
    }

    pub(crate) fn client(&self) -> BlockingClient {
        let mut config = ClientConfig::new(self.addresses.clone());
        config.timeout = Duration::from_secs(30);
        BlockingClient::connect(config).unwrap()
    }
}
