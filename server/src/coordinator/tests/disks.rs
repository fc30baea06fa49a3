//! Nodes without disks, and what becomes of tables that they cannot hold, and of partitions that no table is in any more.

use std::collections::BTreeSet;
use std::time::Duration;

use weft_protocol::{Durability, PartitionId, TableClass, TableOptions};
use weft_transport::NodeId;

use super::world::World;
use crate::coordinator::{Command, Partition, Planner, Rejection};

const SYNCED: TableClass = TableClass { replicas: 2, durability: Durability::Fsync };
const IN_MEMORY: TableClass = TableClass { replicas: 2, durability: Durability::Memory };

fn options(class: TableClass) -> TableOptions {
    let TableClass { replicas, durability } = class;
    TableOptions { replicas, durability, ..TableOptions::default() }
}

/// Nodes 1, 2, … of which those named have no disk, and a table `default` in memory.
fn cluster(nodes: u64, diskless: &[u64]) -> World {
    let mut world = World::new(1, 4, options(IN_MEMORY));
    world.diskless = diskless.iter().copied().map(NodeId).collect();
    for node in 1..=nodes {
        world.start(node, "");
    }
    world.settle(Duration::from_secs(600));
    world
}

fn create(world: &mut World, name: &str, class: TableClass) {
    let options = options(class);
    world.apply(&Command::CreateTable { name: name.to_owned(), options }).unwrap();
    world.settle(Duration::from_secs(600));
}

fn of_class(world: &World, class: TableClass) -> Vec<(PartitionId, &Partition)> {
    world.state.partitions().filter(|(_, partition)| partition.class == class).collect()
}

/// Who has something of the class.
fn holders(world: &World, class: TableClass) -> BTreeSet<u64> {
    let partitions = of_class(world, class).into_iter();
    let members = partitions.flat_map(|(_, partition)| partition.configuration.members.iter());
    members.map(|member| member.node.0).collect()
}

fn take_writes(world: &World, class: TableClass) -> bool {
    of_class(world, class).iter().all(|(_, partition)| partition.configuration.takes_writes())
}

#[test]
fn what_is_on_disk_is_held_by_nodes_that_have_disks_whatever_becomes_of_them() {
    let mut world = cluster(5, &[1, 3]);
    create(&mut world, "synced", SYNCED);
    assert_eq!(holders(&world, SYNCED), BTreeSet::from([2, 4, 5]));
    assert!(holders(&world, IN_MEMORY).is_superset(&BTreeSet::from([1, 3])));
    // Others are given what a node had; those without disks have room, and are not asked.
    world.apply(&Command::Leave { node: NodeId(2) }).unwrap();
    world.settle(Duration::from_secs(600));
    assert_eq!(holders(&world, SYNCED), BTreeSet::from([4, 5]));
    // The last two: one of them goes on, as few as are wanted where there are no more.
    world.apply(&Command::Leave { node: NodeId(4) }).unwrap();
    world.settle(Duration::from_secs(600));
    assert_eq!(holders(&world, SYNCED), BTreeSet::from([5]));
    assert!(take_writes(&world, SYNCED), "though nodes are left that have no disks");
    assert!(world.state.node(NodeId(4)).is_none(), "it could go");
    // And the last is not let go as long as nobody can take over.
    let leave = Command::Leave { node: NodeId(5) };
    assert_eq!(world.apply(&leave), Err(Rejection::LastNode { node: NodeId(5) }));
    world.settle(Duration::from_secs(600));
    assert_eq!(holders(&world, SYNCED), BTreeSet::from([5]));
    assert!(take_writes(&world, SYNCED));
    // Until there is another one that is like it.
    world.start(6, "");
    world.settle(Duration::from_secs(600));
    assert_eq!(holders(&world, SYNCED), BTreeSet::from([5, 6]));
    let min_in_sync = |(_, partition): &(_, &Partition)| partition.configuration.min_in_sync;
    assert_eq!(of_class(&world, SYNCED).iter().map(min_in_sync).min(), Some(2));
    assert!(take_writes(&world, SYNCED));
    world.apply(&leave).unwrap();
    world.settle(Duration::from_secs(600));
    assert_eq!(holders(&world, SYNCED), BTreeSet::from([6]));
}

#[test]
fn a_table_is_against_reason_where_fewer_nodes_can_hold_it_than_would_hold_others() {
    let reason = |world: &World, replicas, durability| {
        Planner::lacks_disks(&world.state, TableClass { replicas, durability })
    };
    let all = cluster(3, &[]);
    let one = cluster(3, &[1, 2]);
    let none = cluster(1, &[1]);
    for durability in [Durability::Disk, Durability::Fsync] {
        assert_eq!(reason(&all, 3, durability), None);
        assert_eq!(reason(&one, 1, durability), None);
        for (world, replicas, parts) in [
            (&one, 3, ["needs 3 nodes", "there is one:", "fewer replicas"]),
            (&one, 2, ["needs 2 nodes", "there is one:", "fewer replicas"]),
            (&none, 3, ["needs a node", "there is none:", "--data-dir"]),
        ] {
            let told = reason(world, replicas, durability).unwrap();
            for part in parts.iter().chain(&["--data-dir", &durability.to_string()]) {
                assert!(told.contains(part), "{told:?} lacks {part:?}");
            }
        }
    }
    assert_eq!(reason(&none, 3, Durability::Memory), None);
    // Of nodes that are still to come nothing is known.
    let founded = World::new(1, 4, TableOptions::default());
    assert_eq!(reason(&founded, 3, Durability::Fsync), None);
}

#[test]
fn a_class_waits_for_nodes_that_can_hold_it() {
    let mut world = cluster(2, &[1, 2]);
    create(&mut world, "synced", SYNCED);
    assert_eq!(of_class(&world, SYNCED), []);
    world.start(3, "");
    world.settle(Duration::from_secs(600));
    assert_eq!(of_class(&world, SYNCED).len(), 4);
    assert_eq!(holders(&world, SYNCED), BTreeSet::from([3]));
    assert!(take_writes(&world, SYNCED), "of one member, as there can be no other");
}

/// Else the next table of the kind would begin with a loss that was none.
#[test]
fn what_is_lost_begins_anew_by_itself_where_no_table_is_in_it() {
    let mut world = cluster(2, &[]);
    let single = TableClass { replicas: 1, durability: Durability::Memory };
    create(&mut world, "single", single);
    let lost = |world: &World| {
        let partitions = of_class(world, single).into_iter();
        partitions.filter(|(_, partition)| partition.configuration.is_lost).count()
    };
    world.stop(NodeId(2), false);
    world.start(2, "");
    world.settle(Duration::from_secs(600));
    assert_eq!(lost(&world), 2, "until an operator accepts it");
    world.apply(&Command::DropTable { name: "single".to_owned() }).unwrap();
    world.settle(Duration::from_secs(600));
    assert_eq!(lost(&world), 0);
}

/// Clients know of which kind the table is that is always there by its partitions' numbers.
#[test]
fn no_table_is_placed_before_the_one_that_is_always_there() {
    let mut world = World::new(1, 4, options(SYNCED));
    world.diskless = [NodeId(1)].into();
    world.start(1, "");
    create(&mut world, "in-memory", IN_MEMORY);
    assert_eq!(world.state.partitions().count(), 0);
    world.start(2, "");
    world.settle(Duration::from_secs(600));
    let first = world.state.partitions().next().expect("there is a node with a disk now");
    assert_eq!((first.0, first.1.class), (PartitionId(0), SYNCED));
    assert!(!of_class(&world, IN_MEMORY).is_empty());
}
