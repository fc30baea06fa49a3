//! A node that has no room for partitions when it is given them.

use weft_protocol::{ClusterMap, Member, NodeEntry};
use weft_server::handler::{NodeHandler, NodeOptions, Placement};
use weft_server::memory::NodeMemory;
use weft_server::store::StoreError;
use weft_transport::{Charge, Clock, Incarnation, NodeId, Purpose};

const ME: Member = Member { node: NodeId(1), incarnation: Incarnation(1) };
const PARTITIONS: usize = 8;

/// All that the store's memory has left.
fn fill(memory: &NodeMemory) -> Vec<Charge> {
    let mut taken = Vec::new();
    let mut bytes = 64 << 20;
    while bytes > 0 {
        match memory.store.charge(bytes, Purpose::Partition) {
            Ok(charge) => taken.push(charge),
            Err(_) => bytes /= 2,
        }
    }
    taken
}

#[test]
fn partitions_that_found_no_room_are_taken_when_there_is_some() {
    let memory = NodeMemory::divide(64 << 20).unwrap();
    let options = NodeOptions::new(ME, memory.clone(), Clock::system(), 7);
    let node = NodeHandler::new(options).unwrap();
    let address = "127.0.0.1:7400".to_owned();
    let nodes = vec![NodeEntry { id: ME.node, incarnation: ME.incarnation, address }];
    let map = ClusterMap::even(nodes, PARTITIONS as u16, 5).unwrap();
    let placements = Placement::of_nodes_alone(&map, ME.incarnation);

    let taken = fill(&memory);
    let refused = node.learn(map.clone(), &placements);
    assert!(matches!(refused, Err(StoreError::MemoryLimit(_))), "{refused:?}");
    // Whatever else there is to be learned has been.
    assert_eq!(node.map().map(|map| map.epoch()), Some(5));
    node.try_refused_again();
    assert!(node.digests().is_empty(), "there is no more room than before");

    drop(taken);
    assert!(node.digests().is_empty(), "nobody has asked");
    node.try_refused_again();
    assert_eq!(node.digests().len(), PARTITIONS);
}

/// What a node is not to hold any more is not tried again.
#[test]
fn partitions_that_were_given_to_another_meanwhile_are_forgotten() {
    let memory = NodeMemory::divide(64 << 20).unwrap();
    let options = NodeOptions::new(ME, memory.clone(), Clock::system(), 7);
    let node = NodeHandler::new(options).unwrap();
    let entry = |id| NodeEntry {
        id: NodeId(id),
        incarnation: Incarnation(1),
        address: format!("127.0.0.1:740{id}"),
    };
    let map = ClusterMap::even(vec![entry(1)], PARTITIONS as u16, 5).unwrap();
    let placements = Placement::of_nodes_alone(&map, ME.incarnation);
    let taken = fill(&memory);
    node.learn(map, &placements).unwrap_err();
    let map = ClusterMap::even(vec![entry(2)], PARTITIONS as u16, 6).unwrap();
    let mut elsewhere = Placement::of_nodes_alone(&map, Incarnation(1));
    for placement in &mut elsewhere {
        placement.configuration.epoch += 1;
    }
    node.learn(map, &elsewhere).unwrap();
    drop(taken);
    node.try_refused_again();
    assert!(node.digests().is_empty());
}
