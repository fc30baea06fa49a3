use proptest::prelude::*;

use super::*;

fn node(id: u64) -> NodeEntry {
    NodeEntry { id: NodeId(id), incarnation: Incarnation(1), address: format!("host{id}:7400") }
}

fn slot(number: u16) -> Slot {
    Slot::from_number(number).unwrap()
}

fn partition(first: u16, last: u16, owner: u64) -> PartitionEntry {
    PartitionEntry { first_slot: slot(first), last_slot: slot(last), owner: NodeId(owner) }
}

fn all_slots() -> impl Iterator<Item = Slot> {
    (0..Slot::COUNT).map(slot)
}

/// Checks that `even` covers every slot once, and that shares differ by one at most.
fn check_even(nodes: u64, partitions: u16) {
    let map = ClusterMap::even((1..=nodes).map(node).collect(), partitions, 1).unwrap();
    assert_eq!(map.partitions().len(), usize::from(partitions));

    let mut slots = vec![0_usize; usize::from(partitions)];
    for slot in all_slots() {
        let index = map.partition_of(slot).expect("every slot has a partition");
        assert!(map.partitions()[index].contains(slot));
        assert_eq!(map.owner_of(slot).unwrap().id, map.partitions()[index].owner);
        assert_eq!(map.nodes()[map.owner_index(slot).unwrap()].id, map.partitions()[index].owner);
        slots[index] += 1;
    }
    let spread = |shares: &[usize]| shares.iter().max().unwrap() - shares.iter().min().unwrap();
    assert!(spread(&slots) <= 1, "{slots:?}");

    let owned = |node: &NodeEntry| {
        map.partitions().iter().filter(|partition| partition.owner == node.id).count()
    };
    let owned: Vec<_> = map.nodes().iter().map(owned).collect();
    assert!(spread(&owned) <= 1, "{owned:?}");
}

#[test]
fn an_even_map_is_even() {
    for (nodes, partitions) in
        [(1, 1), (1, 64), (3, 64), (7, 64), (64, 64), (5, 3), (3, 1000), (2, 16_384), (9, 16_383)]
    {
        check_even(nodes, partitions);
    }
}

/// What two nodes work out from the same peers in another order has to be the same.
#[test]
fn the_order_of_nodes_plays_no_part() {
    let forward = ClusterMap::even(vec![node(1), node(2), node(3)], 64, 1);
    let backward = ClusterMap::even(vec![node(3), node(1), node(2)], 64, 1);
    assert_eq!(forward, backward);
}

#[test]
fn an_uneven_map_with_holes_is_searched() {
    let partitions = vec![partition(0, 0, 2), partition(1, 99, 1), partition(5000, 16_000, 2)];
    let map = ClusterMap::new(9, vec![node(1), node(2)], partitions.clone()).unwrap();
    for slot in all_slots() {
        let index = partitions.iter().position(|partition| partition.contains(slot));
        assert_eq!(map.partition_of(slot), index, "slot {slot}");
        let owner = index.map(|index| partitions[index].owner);
        assert_eq!(map.owner_of(slot).map(|node| node.id), owner, "slot {slot}");
    }
}

#[test]
fn a_node_is_found_by_id() {
    let map = ClusterMap::even(vec![node(8), node(2)], 2, 1 << 40 | 7).unwrap();
    assert_eq!(map.node(NodeId(8)), Some(&node(8)));
    assert_eq!(map.node(NodeId(3)), None);
    assert_eq!(map.epoch_low(), 7);
}

#[test]
fn a_map_that_contradicts_itself_is_refused() {
    let nodes = || vec![node(1), node(2)];
    let check = |nodes: Vec<NodeEntry>, partitions: &[PartitionEntry], error| {
        assert_eq!(ClusterMap::new(1, nodes, partitions.to_vec()), Err(error));
    };
    assert_eq!(ClusterMap::new(0, nodes(), vec![]), Err(MapError::NoEpoch));
    check(vec![], &[], MapError::NodeCount { count: 0 });
    check(vec![node(1), node(2), node(1)], &[], MapError::DuplicateNode { id: NodeId(1) });
    let first_slot = slot(5);
    check(nodes(), &[partition(5, 4, 1)], MapError::PartitionOrder { first_slot });
    check(
        nodes(),
        &[partition(0, 5, 1), partition(5, 9, 1)],
        MapError::PartitionOrder { first_slot },
    );
    check(
        nodes(),
        &[partition(9, 9, 1), partition(5, 8, 1)],
        MapError::PartitionOrder { first_slot },
    );
    let owner = NodeId(3);
    check(nodes(), &[partition(5, 9, 3)], MapError::UnknownOwner { first_slot, owner });

    for address in [String::new(), "a".repeat(ADDRESS_MAX + 1)] {
        let node = NodeEntry { address, ..node(1) };
        check(vec![node], &[], MapError::AddressLength { id: NodeId(1) });
    }
    let count = NODES_MAX + 1;
    check((1..=count as u64).map(node).collect(), &[], MapError::NodeCount { count });
    for partitions in [0, Slot::COUNT + 1] {
        let error = MapError::PartitionCount { count: usize::from(partitions) };
        assert_eq!(ClusterMap::even(nodes(), partitions, 1), Err(error));
    }
}

#[test]
fn the_largest_map_fits_a_message() {
    let long = |id| NodeEntry { address: "a".repeat(ADDRESS_MAX), ..node(id) };
    let nodes = (1..=NODES_MAX as u64).map(long).collect();
    let map = ClusterMap::even(nodes, Slot::COUNT, 1).unwrap();
    assert!(16 + map.encoded_len() <= weft_transport::limits::MESSAGE_MAX);
    let mut bytes = vec![0; map.encoded_len()];
    map.encode(&mut Writer::new(&mut bytes));
    assert_eq!(ClusterMap::decode(1, Reader::new(&bytes)), Ok(map));
}

proptest! {
    #[test]
    fn a_map_is_read_as_written(
        epoch in 1..u64::MAX,
        owners in prop::collection::vec((1_u64..5, 0_u16..9, 1_u16..900), 0..15),
        incarnation: u64,
    ) {
        let nodes =
            (1..5).map(|id| NodeEntry { incarnation: Incarnation(incarnation), ..node(id) });
        let mut next = 0;
        let partitions = owners.iter().map(|&(owner, gap, len)| {
            let first = next + gap;
            next = first + len;
            partition(first, next - 1, owner)
        });
        let map = ClusterMap::new(epoch, nodes.collect(), partitions.collect()).unwrap();

        let mut bytes = vec![0; map.encoded_len()];
        let mut writer = Writer::new(&mut bytes);
        map.encode(&mut writer);
        writer.finish();
        for cut in 0..bytes.len() {
            prop_assert!(ClusterMap::decode(epoch, Reader::new(&bytes[..cut])).is_err());
        }
        prop_assert_eq!(ClusterMap::decode(epoch, Reader::new(&bytes)), Ok(map));
    }
}
