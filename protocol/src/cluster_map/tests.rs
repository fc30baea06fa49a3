use proptest::prelude::*;

use super::*;
use crate::codec::{Reader, Writer};
use crate::table::Durability;

fn node(id: u64) -> NodeEntry {
    NodeEntry { id: NodeId(id), incarnation: Incarnation(1), address: format!("host{id}:7400") }
}

fn slot(number: u16) -> Slot {
    Slot::from_number(number).unwrap()
}

/// Of the usual class, numbered by its first slot, with one member.
fn partition(first: u16, last: u16, primary: u64) -> PartitionEntry {
    PartitionEntry {
        id: PartitionId(first),
        class: TableClass::DEFAULT,
        first_slot: slot(first),
        last_slot: slot(last),
        epoch: 1,
        primary: Some(NodeId(primary)),
        members: vec![NodeId(primary)],
        is_lost: false,
    }
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
        let index =
            map.partition_of(TableClass::DEFAULT, slot).expect("every slot has a partition");
        assert!(map.partitions()[index].contains(slot));
        let primary = map.partitions()[index].primary;
        assert_eq!(map.owner_of(slot).map(|node| node.id), primary);
        assert_eq!(map.owner_index(slot).map(|index| map.nodes()[index].id), primary);
        slots[index] += 1;
    }
    let spread = |shares: &[usize]| shares.iter().max().unwrap() - shares.iter().min().unwrap();
    assert!(spread(&slots) <= 1, "{slots:?}");

    let owned = |node: &NodeEntry| {
        map.partitions().iter().filter(|partition| partition.primary == Some(node.id)).count()
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
        assert_eq!(map.partition_of(TableClass::DEFAULT, slot), index, "slot {slot}");
        let owner = index.and_then(|index| partitions[index].primary);
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
    let overlap = MapError::PartitionOverlap { id: PartitionId(5), first_slot };
    check(nodes(), &[partition(5, 4, 1)], overlap);
    check(nodes(), &[partition(0, 5, 1), partition(5, 9, 1)], overlap);
    let id = PartitionId(5);
    let with = |change: fn(&mut PartitionEntry)| {
        let mut partition = partition(5, 9, 1);
        change(&mut partition);
        [partition]
    };
    let unknown = MapError::UnknownMember { id, node: NodeId(3) };
    check(nodes(), &[partition(5, 9, 3)], unknown);
    check(nodes(), &with(|p| p.primary = Some(NodeId(2))), MapError::Members { id });
    check(nodes(), &with(|p| p.members.push(NodeId(1))), MapError::Members { id });
    check(nodes(), &with(|p| p.epoch = 0), MapError::PartitionEpoch { id, epoch: 0 });
    let epoch = Configuration::EPOCH_MAX + 1;
    check(
        nodes(),
        &with(|p| p.epoch = Configuration::EPOCH_MAX + 1),
        MapError::PartitionEpoch { id, epoch },
    );
    check(nodes(), &with(|p| p.class.replicas = 4), MapError::PartitionClass { id, replicas: 4 });
    let twice = [partition(5, 9, 1), PartitionEntry { id, ..partition(10, 11, 1) }];
    check(nodes(), &twice, MapError::DuplicatePartition { id });

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
    let mut partitions = map.partitions().to_vec();
    for partition in &mut partitions {
        partition.members = (1..=MEMBERS_MAX as u64).map(NodeId).collect();
        partition.primary = Some(NodeId(MEMBERS_MAX as u64));
    }
    let map = ClusterMap::new(1, map.nodes().to_vec(), partitions).unwrap();
    assert!(16 + map.encoded_len() <= weft_transport::limits::MESSAGE_MAX);
    let mut bytes = vec![0; map.encoded_len()];
    map.encode(&mut Writer::new(&mut bytes));
    assert_eq!(ClusterMap::decode(1, Reader::new(&bytes)), Ok(map));
}

#[test]
fn classes_have_partitions_of_their_own() {
    let other = TableClass { replicas: 2, durability: Durability::Fsync };
    let mut all = partition(0, 16_383, 1);
    all.id = PartitionId(7);
    let mut low = PartitionEntry { class: other, ..partition(0, 99, 2) };
    low.members.push(NodeId(1));
    let nobody = PartitionEntry { class: other, primary: None, ..partition(100, 199, 2) };
    let map =
        ClusterMap::new(1, vec![node(2), node(1)], vec![nobody.clone(), all.clone(), low.clone()]);
    let map = map.unwrap();
    assert_eq!(map.partitions_of(TableClass::DEFAULT), [all]);
    assert_eq!(map.partitions_of(other), [low, nobody]);
    let primary = |class, number| map.primary_of(class, slot(number)).map(|node| node.id.0);
    for (number, expected) in [(0, Some(2)), (99, Some(2)), (100, None), (200, None)] {
        assert_eq!(primary(other, number), expected, "{number}");
        assert_eq!(primary(TableClass::DEFAULT, number), Some(1), "{number}");
    }
    let none = TableClass { replicas: 1, durability: Durability::Memory };
    assert_eq!(map.partition_of(none, slot(0)), None);
    assert!(map.partitions_of(none).is_empty());
}

/// Two maps of up to nine nodes and some partitions each, most of which they have in common.
fn pairs_of_maps() -> impl Strategy<Value = (ClusterMap, ClusterMap)> {
    let flags = prop::collection::vec((0_u8..8, 0_u8..6, 1_u32..4, 0_usize..4), 30);
    (flags, 1_u64..1 << 40).prop_map(|(flags, epoch)| {
        let map = |which: u8, epoch| {
            let is_there = |there: u8| there & (1 + which) == 0;
            let nodes: Vec<_> = (1..10)
                .filter(|id| *id < 4 || is_there(flags[*id as usize].0))
                .map(|id| NodeEntry {
                    incarnation: Incarnation(u64::from(flags[id as usize].1 * (1 + which)) / 4),
                    ..node(id)
                })
                .collect();
            let partitions = flags[10..].iter().enumerate().filter_map(|(index, flags)| {
                let &(there, lost, epoch, members) = flags;
                let members: Vec<_> = (0..members as u64)
                    .map(|at| NodeId(1 + (at + u64::from(there & which)) % 3))
                    .collect();
                is_there(there).then(|| PartitionEntry {
                    class: if index % 3 == 0 {
                        TableClass { replicas: 1, durability: Durability::Disk }
                    } else {
                        TableClass::DEFAULT
                    },
                    epoch: epoch + u32::from(which),
                    primary: members.last().filter(|_| there & 4 == 0).copied(),
                    members,
                    is_lost: lost == 0,
                    ..partition(index as u16 * 500, index as u16 * 500 + 499, 1)
                })
            });
            ClusterMap::new(epoch, nodes, partitions.collect()).unwrap()
        };
        (map(0, epoch), map(1, epoch + 5))
    })
}

proptest! {
    #[test]
    fn a_difference_makes_the_same_map((old, new) in pairs_of_maps()) {
        let difference = MapDifference::between(&old, &new);
        let mut bytes = vec![0; difference.encoded_len()];
        let mut writer = Writer::new(&mut bytes);
        difference.encode(&mut writer);
        writer.finish();
        for cut in 0..bytes.len() {
            let cut = MapDifference::decode(new.epoch(), Reader::new(&bytes[..cut]));
            prop_assert!(cut.is_err());
        }
        let read = MapDifference::decode(new.epoch(), Reader::new(&bytes)).unwrap();
        prop_assert_eq!(&read, &difference);
        prop_assert_eq!(read.apply(&old), Ok(new));
    }

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
