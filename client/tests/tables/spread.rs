//! Partitions are spread over the nodes of a cluster when these have joined, which is after the first of them serves.

use std::collections::BTreeMap;
use std::thread;

use weft_client::BlockingClient;

/// Waits until all nodes, so many, own as many partitions, or one more, as each client that is `connect`ed learns when it
/// begins: none moves for the sake of others then. Each node has to have a copy of all.
pub(crate) fn wait_until_spread(connect: impl Fn() -> BlockingClient, nodes: usize) {
    let is_even = || {
        let map = connect().client().map();
        let mut owned = BTreeMap::<_, usize>::new();
        for owner in map.partitions().iter().filter_map(|entry| entry.primary) {
            *owned.entry(owner).or_default() += 1;
        }
        let (least, most) = (owned.values().min(), owned.values().max());
        owned.len() == nodes && least.zip(most).is_some_and(|(least, most)| most - least < 2)
    };
    while !is_even() {
        thread::yield_now();
    }
}
