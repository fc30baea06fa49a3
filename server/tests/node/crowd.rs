//! Many peers that connect and say nothing more.

use std::time::Duration;

use weft_protocol::stat_name;
use weft_server::process::raise_descriptor_limit;
use weft_transport::Windows;
use weft_transport::limits::CONNECTION_BYTES;

use crate::support::{Client, Process, RawPeer};

/// In a process of its own, so that a limit on descriptors counts for one side at a time.
#[test]
fn two_thousand_idle_connections_cost_little() {
    const COUNT: u64 = 2000;
    raise_descriptor_limit();
    let node = Process::start(&["--memory", "64MiB", "--poll", "park"], &[]);
    let client = Client::at(node.address);
    client.put(b"key", b"value");
    let before = node.resident_bytes();
    let peers: Vec<_> =
        (0..COUNT).map(|_| RawPeer::greeted_at(node.address, Windows::default())).collect();
    assert_eq!(client.stat(stat_name::CONNECTIONS), COUNT + 1);
    // What the account says they cost, they cost.
    assert_eq!(client.stat("memory.purpose.session"), (COUNT + 1) * CONNECTION_BYTES);
    let each = node.resident_bytes().saturating_sub(before) / COUNT;
    assert!(each <= CONNECTION_BYTES, "{each} bytes a connection");
    assert_eq!(client.get(b"key").as_deref(), Some(b"value".as_slice()));
    drop(peers);
    client.wait_for(stat_name::CONNECTIONS, |connections| connections == 1);
    client.wait_for("memory.purpose.session", |bytes| bytes == CONNECTION_BYTES);
    node.end();
}

/// With fewer descriptors than there are peers, those that were idle for longest make room, and the
/// HTTP port and new clients are served.
#[test]
fn more_connections_than_descriptors_leave_the_node_serving() {
    let arguments = ["--memory", "64MiB", "--poll", "park", "--http", "127.0.0.1:0"];
    let node = Process::start_with_descriptors(64, &arguments);
    let mut peers = Vec::new();
    while peers.len() < 50 {
        match RawPeer::try_greeted_at(node.address, Windows::default()) {
            Ok(peer) => peers.push(peer),
            // Until the others have said nothing for a second.
            Err(code) => {
                assert_eq!(code.unwrap_or(11), 11);
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
    assert!(node.metric("weft_connections_open") <= 32);
    let client = Client::at(node.address);
    client.put(b"key", b"value");
    assert_eq!(client.get(b"key").as_deref(), Some(b"value".as_slice()));
    let (code, _) = { peers }.remove(0).goodbye();
    assert_eq!(code, 12);
    node.end();
}
