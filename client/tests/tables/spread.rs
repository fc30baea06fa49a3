//! Partitions are spread over the nodes of a cluster when these have joined, which is after the first of them serves.

use std::collections::BTreeSet;
use std::thread;

use weft_client::BlockingClient;

/// Waits until each of so many nodes owns some partitions, as each client that is `connect`ed learns when it begins.
pub(crate) fn wait_until_spread(connect: impl Fn() -> BlockingClient, nodes: usize) {
    let owners = || {
        let map = connect().client().map();
        map.partitions().iter().filter_map(|entry| entry.primary).collect::<BTreeSet<_>>().len()
    };
    while owners() < nodes {
        thread::yield_now();
    }
}
