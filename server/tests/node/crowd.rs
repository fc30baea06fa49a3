//! Many peers that connect and say nothing more.

use weft_protocol::stat_name;
use weft_server::process::raise_descriptor_limit;
use weft_transport::Windows;

use crate::support::{Client, Process, RawPeer};

/// In a process of its own, so that a limit on descriptors counts for one side at a time.
#[test]
fn two_thousand_idle_connections_cost_little() {
    const COUNT: usize = 2000;
    raise_descriptor_limit();
    let node = Process::start(&["--memory", "64MiB", "--poll", "park"], &[]);
    let client = Client::at(node.address);
    let before = client.stat(stat_name::MEMORY_ALLOCATED_BYTES);
    let peers: Vec<_> =
        (0..COUNT).map(|_| RawPeer::greeted_at(node.address, Windows::default())).collect();
    assert_eq!(client.stat(stat_name::CONNECTIONS), COUNT as u64 + 1);
    let each = (client.stat(stat_name::MEMORY_ALLOCATED_BYTES) - before) / COUNT as u64;
    assert!(each <= 4096, "{each} bytes a connection");
    client.put(b"key", b"value");
    assert_eq!(client.get(b"key").as_deref(), Some(b"value".as_slice()));
    drop(peers);
    client.wait_for(stat_name::CONNECTIONS, |connections| connections == 1);
    node.end();
}
