//! What the leader does when something happens, in which time, and how often.

mod earshot;

use std::collections::BTreeSet;
use std::time::Duration;

use weft_protocol::{Configuration, Durability, Member, PartitionId, TableOptions};
use weft_transport::{NodeId, Time};

use super::world::World;
use crate::coordinator::{Command, Node, Planner};
use crate::handler::{Report, Told};

const TICK: Duration = Duration::from_millis(50);
const P0: PartitionId = PartitionId(0);

/// A cluster that has come to rest: nodes 1, 2, … in these zones.
fn at_rest(zones: &[&str], partitions: u16, options: TableOptions) -> World {
    let mut world = World::new(1, partitions, options);
    for (node, zone) in (1..).zip(zones) {
        world.start(node, zone);
    }
    world.settle(Duration::from_secs(600));
    world.changes.clear();
    world
}

fn replicas(replicas: u8) -> TableOptions {
    TableOptions { replicas, ..TableOptions::default() }
}

fn configuration(world: &World, id: PartitionId) -> Configuration {
    world.state.partition(id).unwrap().configuration.clone()
}

fn primary(world: &World) -> Member {
    configuration(world, P0).primary.unwrap()
}

fn followers(world: &World) -> Vec<Member> {
    let Configuration { primary, members, .. } = configuration(world, P0);
    members.into_iter().filter(|member| Some(*member) != primary).collect()
}

fn nodes(members: &[Member]) -> BTreeSet<NodeId> {
    members.iter().map(|member| member.node).collect()
}

fn cut(world: &mut World, one: NodeId, other: NodeId) {
    world.cuts.insert((one.min(other), one.max(other)));
}

/// A node says something of a replica of a partition, as it is now.
fn tell(world: &mut World, from: Member, partition: PartitionId, member: Member, report: Report) {
    let epoch = configuration(world, partition).epoch;
    world.liveness.told(from, &Told { partition, member, report, epoch }, world.now);
}

/// Steps until `is_so`, and says how long that took.
fn until(world: &mut World, is_so: impl Fn(&World) -> bool) -> Duration {
    let begin = world.now;
    while !is_so(world) {
        assert!(world.now.since(begin) < Duration::from_secs(60), "{:?}", world.last_commands);
        world.step(TICK);
    }
    world.now.since(begin)
}

fn run_for(world: &mut World, time: Duration) {
    let end = world.now + time;
    while world.now < end {
        world.step(TICK);
    }
}

#[test]
fn a_single_node_serves_after_one_plan() {
    let mut world = World::new(1, 16, TableOptions::default());
    world.start(1, "");
    until(&mut world, |world| world.state.partitions().len() == 16);
    assert!(world.now.since(Time::ZERO) < Duration::from_secs(1));
    let all_serve = world.state.partitions().all(|(_, held)| held.configuration.takes_writes());
    assert!(all_serve);
    assert_eq!(world.state.cluster_map().unwrap().partitions().len(), 16);
}

#[test]
fn another_member_takes_over_half_a_second_after_the_primary_died() {
    let mut world = at_rest(&["", "", ""], 6, replicas(3));
    let dead = primary(&world);
    world.stop(dead.node, false);
    let took = until(&mut world, |world| primary(world) != dead);
    assert!(took <= Duration::from_millis(600), "{took:?}");
    let Configuration { members, .. } = configuration(&world, P0);
    assert!(members.len() == 2 && !members.contains(&dead));
    // The partitions that it was primary of are shared among the others.
    let primaries: Vec<i64> = world.loads().values().map(|load| load.1).collect();
    assert_eq!(primaries.iter().sum::<i64>(), 6);
    assert_eq!(primaries.iter().max(), Some(&3));
    assert_eq!(world.changes.values().copied().max(), Some(1), "one change each");
}

#[test]
fn a_node_whose_process_is_known_to_be_gone_is_not_waited_for() {
    let mut world = at_rest(&["", "", ""], 6, replicas(3));
    let dead = primary(&world);
    world.stop(dead.node, false);
    world.liveness.gone(dead);
    let took = until(&mut world, |world| primary(world) != dead);
    // That it is down, and what is done about it when the others know that.
    assert!(took <= 2 * TICK, "{took:?}");
    assert!(!configuration(&world, P0).members.contains(&dead));
    // That it was heard a moment ago says nothing more.
    run_for(&mut world, Duration::from_secs(2));
    assert!(!world.log.contains(&Command::MarkUp { member: dead }));
}

#[test]
fn who_is_heard_again_was_not_gone() {
    let mut world = at_rest(&["", "", ""], 6, replicas(3));
    let here = primary(&world);
    world.liveness.gone(here);
    world.unheard.insert(here.node);
    until(&mut world, |world| primary(world) != here);
    world.unheard.remove(&here.node);
    let is_up = |world: &World| world.state.node(here.node).is_some_and(|node| node.is_up);
    assert!(!is_up(&world));
    let took = until(&mut world, is_up);
    assert!(took >= Duration::from_secs(1), "as after any silence: {took:?}");
    until(&mut world, |world| configuration(world, P0).members.contains(&here));
}

#[test]
fn another_member_takes_over_from_a_primary_that_reports_itself() {
    let mut world = at_rest(&["", "", ""], 1, replicas(3));
    let failed = primary(&world);
    let others = followers(&world);
    for _ in 0..20 {
        tell(&mut world, failed, P0, failed, Report::Unreachable);
        world.step(TICK);
    }
    let Configuration { primary, members, .. } = configuration(&world, P0);
    assert!(primary.is_some_and(|primary| others.contains(&primary)), "{primary:?}");
    assert_eq!(nodes(&members), nodes(&others));
}

#[test]
fn who_does_not_answer_in_one_partition_stays_a_member_of_others() {
    let mut world = at_rest(&["", "", ""], 3, replicas(3));
    let from = primary(&world);
    let silent = followers(&world)[0];
    // All of them have the same primary, so that all could be meant.
    for id in [1, 2].map(PartitionId) {
        let present = configuration(&world, id);
        let expected_epoch = present.epoch;
        let next = Configuration { epoch: expected_epoch + 1, primary: Some(from), ..present };
        world.apply(&Command::Reconfigure { partition: id, expected_epoch, next }).unwrap();
    }
    tell(&mut world, from, P0, silent, Report::Unreachable);
    world.step(TICK);
    let is_member = |id| configuration(&world, PartitionId(id)).members.contains(&silent);
    assert_eq!([0, 1, 2].map(is_member), [false, true, true]);
}

#[test]
fn what_was_told_in_an_earlier_epoch_costs_nobody_its_place() {
    let mut world = at_rest(&["", "", ""], 1, replicas(3));
    let (from, member) = (primary(&world), followers(&world)[0]);
    let epoch = configuration(&world, P0).epoch - 1;
    let told = Told { partition: P0, member, report: Report::Unreachable, epoch };
    for _ in 0..20 {
        world.liveness.told(from, &told, world.now);
        assert_eq!(world.step(TICK), []);
    }
}

#[test]
fn a_learner_that_was_given_up_begins_anew_after_a_while() {
    let mut world = at_rest(&["", "", ""], 1, replicas(3));
    let (from, other) = (primary(&world), followers(&world)[0]);
    world.stop(other.node, false);
    until(&mut world, |world| configuration(world, P0).members.len() == 2);
    world.start(other.node.0, "");
    until(&mut world, |world| !configuration(world, P0).learners.is_empty());
    let learner = configuration(&world, P0).learners[0];
    assert_eq!(learner.node, other.node);
    // It does not catch up meanwhile.
    cut(&mut world, from.node, learner.node);
    let epoch = configuration(&world, P0).epoch;
    tell(&mut world, from, P0, learner, Report::GivenUp);
    world.step(TICK);
    let removed = configuration(&world, P0);
    assert_eq!((removed.epoch, removed.learners.len()), (epoch + 1, 0));
    // Nobody else is there, and it would fare no better at once.
    let took = until(&mut world, |world| !configuration(world, P0).learners.is_empty());
    assert!(took >= Duration::from_secs(9), "{took:?}");
    // The next time it is given longer.
    tell(&mut world, from, P0, learner, Report::GivenUp);
    world.step(TICK);
    let took = until(&mut world, |world| !configuration(world, P0).learners.is_empty());
    assert!(took >= Duration::from_secs(19), "{took:?}");
    world.cuts.clear();
    until(&mut world, |world| configuration(world, P0).members.contains(&learner));
}

/// Whatever a peer says, of an epoch that there never was, too.
#[test]
fn nonsense_about_a_node_keeps_it_from_nothing_for_long() {
    let mut world = at_rest(&["", "", ""], 1, replicas(2));
    let (from, gone) = (primary(&world), followers(&world)[0]);
    let present = configuration(&world, P0);
    let all: Vec<Member> = world.state.nodes().map(Node::member).collect();
    let member = *all.iter().find(|member| !present.has_member(**member)).unwrap();
    for report in [Report::CaughtUp, Report::Unreachable, Report::GivenUp] {
        for (partition, epoch) in [(PartitionId(u16::MAX), 0), (P0, u32::MAX), (P0, 0)] {
            world.liveness.told(from, &Told { partition, member, report, epoch }, world.now);
        }
    }
    world.stop(gone.node, false);
    until(&mut world, |world| configuration(world, P0).has_member(member));
}

#[test]
fn a_node_that_gives_up_what_it_is_given_is_given_one_partition_at_a_time() {
    let mut world = at_rest(&["", ""], 4, replicas(2));
    let small = followers(&world)[0].node;
    world.stop(small, false);
    until(&mut world, |world| configuration(world, P0).members.len() == 1);
    world.start(small.0, "");
    let learners = |world: &World| -> Vec<(PartitionId, Member)> {
        let learners = world.state.partitions().flat_map(|(id, partition)| {
            partition.configuration.learners.iter().map(move |learner| (id, *learner))
        });
        learners.collect()
    };
    until(&mut world, |world| learners(world).len() > 1);
    for (id, learner) in learners(&world) {
        tell(&mut world, learner, id, learner, Report::GivenUp);
    }
    world.step(TICK);
    assert_eq!(learners(&world), []);
    for _ in 0..1000 {
        world.step(TICK);
        assert!(learners(&world).len() <= 1);
    }
    let short = world.state.partitions().any(|(_, one)| one.configuration.members.len() < 2);
    assert!(!short, "there was room after all");
}

#[test]
fn a_node_whose_log_has_failed_is_given_nothing_and_gives_away_what_it_has() {
    let mut world = at_rest(&["", "", "", ""], 4, replicas(2));
    let failed = primary(&world);
    world.liveness.failed(failed, true);
    let has_any = |world: &World| {
        world.state.partitions().any(|(_, partition)| partition.involves(failed.node))
    };
    until(&mut world, |world| !has_any(world));
    run_for(&mut world, Duration::from_secs(30));
    assert!(!has_any(&world), "it comes last, not first, though it has the least");
    for (_, partition) in world.state.partitions() {
        assert_eq!(partition.configuration.members.len(), 2);
    }
    // Started again, it is as good as others.
    world.stop(failed.node, true);
    world.start(failed.node.0, "");
    until(&mut world, has_any);
}

#[test]
fn a_primary_that_reports_itself_stays_where_nobody_else_may_be_it() {
    let mut world = at_rest(&["", "", ""], 1, replicas(1));
    let before = configuration(&world, P0);
    let failed = primary(&world);
    for _ in 0..20 {
        tell(&mut world, failed, P0, failed, Report::Unreachable);
        world.step(TICK);
    }
    assert_eq!(configuration(&world, P0), before);
}

#[test]
fn partitions_whose_members_are_all_gone_wait_for_them() {
    let mut world = at_rest(&["", ""], 2, replicas(2));
    let before = configuration(&world, P0);
    world.unheard.extend([NodeId(1), NodeId(2)]);
    run_for(&mut world, Duration::from_secs(30));
    assert_eq!(configuration(&world, P0), before);
    // Whoever is heard first serves.
    let other = followers(&world)[0];
    world.unheard.remove(&other.node);
    until(&mut world, |world| primary(world) == other);
    assert_eq!(configuration(&world, P0).members, [other]);
}

#[test]
fn the_last_member_is_never_removed_and_what_it_lost_is_reported() {
    let mut world = at_rest(&["", ""], 1, replicas(2));
    let (first, second) = (primary(&world).node, followers(&world)[0].node);
    world.stop(second, false);
    until(&mut world, |world| configuration(world, P0).members.len() == 1);
    world.stop(first, false);
    run_for(&mut world, Duration::from_secs(20));
    world.start(second.0, "");
    run_for(&mut world, Duration::from_secs(20));
    let waiting = configuration(&world, P0);
    assert!(!waiting.is_lost && nodes(&waiting.members) == BTreeSet::from([first]));
    assert_eq!(Planner::accept_loss(&world.state, &world.liveness, P0), None);
    world.start(first.0, "");
    until(&mut world, |world| configuration(world, P0).is_lost);
    run_for(&mut world, Duration::from_secs(20));
    assert!(configuration(&world, P0).is_lost, "until an operator accepts it");
    let epoch = configuration(&world, P0).epoch;
    let accept = Planner::accept_loss(&world.state, &world.liveness, P0).unwrap();
    world.apply(&accept).unwrap();
    let anew = configuration(&world, P0);
    assert!(anew.epoch == epoch + 1 && anew.members.len() == 2 && !anew.is_lost);
}

#[test]
fn who_comes_back_with_all_its_data_becomes_primary_a_lease_later() {
    let options = TableOptions { durability: Durability::Fsync, ..replicas(1) };
    let mut world = at_rest(&[""], 1, options);
    world.stop(NodeId(1), false);
    world.start(1, "");
    until(&mut world, |world| configuration(world, P0).primary.is_none());
    let took = until(&mut world, |world| configuration(world, P0).primary.is_some());
    let lease = world.planner.settings().lease;
    assert!(took > lease && took <= lease + 3 * TICK, "{took:?}");
}

#[test]
fn a_cluster_that_was_cut_off_from_its_power_is_whole_again_when_all_are_back() {
    let options = TableOptions { durability: Durability::Fsync, ..replicas(3) };
    let mut world = at_rest(&["", "", ""], 3, options);
    for node in 1..=3 {
        world.stop(NodeId(node), false);
    }
    world.lead_anew();
    world.log.clear();
    for node in 1..=3 {
        world.start(node, "");
        run_for(&mut world, Duration::from_secs(2));
    }
    let is_served = |world: &World| {
        let mut all = world.state.partitions();
        all.all(|(_, held)| held.configuration.takes_writes())
    };
    until(&mut world, is_served);
    assert_eq!(configuration(&world, P0).members.len(), 3);
    let is_copied = |command: &Command| matches!(command, Command::AddLearner { .. });
    assert!(!world.log.iter().any(is_copied), "nobody needs what it has");
}

#[test]
fn who_had_caught_up_in_an_epoch_before_has_not_now() {
    let mut world = at_rest(&["", "", ""], 1, replicas(2));
    let Configuration { epoch: expected_epoch, members, .. } = configuration(&world, P0);
    let all: Vec<Member> = world.state.nodes().map(Node::member).collect();
    let learner = *all.iter().find(|member| !members.contains(member)).unwrap();
    world.apply(&Command::AddLearner { partition: P0, expected_epoch, learner }).unwrap();
    let promotes = |world: &mut World, epoch| {
        let told = Told { partition: P0, member: learner, report: Report::CaughtUp, epoch };
        world.liveness.told(members[0], &told, world.now);
        let World { planner, state, liveness, now, .. } = world;
        let plan = planner.plan(state, liveness, *now);
        plan.commands.iter().any(|command| matches!(command, Command::PromoteLearner { .. }))
    };
    assert!(!promotes(&mut world, expected_epoch));
    assert!(promotes(&mut world, expected_epoch + 1));
}

#[test]
fn a_cut_between_two_nodes_is_settled_in_favour_of_the_primary_and_stays_so() {
    let mut world = at_rest(&["", ""], 4, replicas(2));
    cut(&mut world, NodeId(1), NodeId(2));
    run_for(&mut world, Duration::from_secs(600));
    for (id, partition) in world.state.partitions() {
        assert_eq!(partition.configuration.members.len(), 1, "{id}");
        // Out, and in again as a learner that waits until it can be reached.
        assert!(world.changes[&id] <= 2, "{id}: {} changes", world.changes[&id]);
    }
    world.cuts.clear();
    let is_whole = |world: &World| {
        world.state.partitions().all(|(_, held)| held.configuration.members.len() == 2)
    };
    assert!(until(&mut world, is_whole) < Duration::from_secs(20));
}

#[test]
fn a_follower_out_of_reach_is_replaced_by_a_node_within_reach() {
    let mut world = at_rest(&["", "", ""], 1, replicas(2));
    let (first, second) = (primary(&world), followers(&world)[0]);
    cut(&mut world, first.node, second.node);
    run_for(&mut world, Duration::from_secs(300));
    let after = configuration(&world, P0);
    assert_eq!(after.members.len(), 2);
    assert!(after.primary == Some(first) && !after.members.contains(&second));
    // Out; another in, and counted on.
    assert!(world.changes[&P0] <= 3, "{} changes", world.changes[&P0]);
}

#[test]
fn a_primary_that_reaches_the_smaller_part_gives_way_but_not_to_the_dead() {
    let mut world = at_rest(&["", "", ""], 1, replicas(3));
    let first = primary(&world);
    for other in followers(&world) {
        cut(&mut world, first.node, other.node);
    }
    let before = nodes(&followers(&world));
    let took = until(&mut world, |world| primary(world) != first);
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(nodes(&configuration(&world, P0).members), before);

    let mut world = at_rest(&["", "", ""], 1, replicas(3));
    let first = primary(&world);
    for other in followers(&world) {
        world.stop(other.node, false);
    }
    run_for(&mut world, Duration::from_secs(5));
    assert_eq!(configuration(&world, P0).members, [first], "who has all goes on");
}

#[test]
fn a_node_that_comes_and_goes_changes_partitions_a_bounded_number_of_times() {
    let mut world = at_rest(&["", "", ""], 4, replicas(3));
    let minutes = 10;
    for _ in 0..minutes * 60 / 3 {
        world.unheard.insert(NodeId(2));
        run_for(&mut world, Duration::from_secs(1));
        world.unheard.remove(&NodeId(2));
        run_for(&mut world, Duration::from_secs(2));
    }
    let most = world.planner.settings().changes_per_minute_max + 2;
    for (id, changes) in &world.changes {
        assert!(*changes <= most * minutes, "{id}: {changes} changes in {minutes} minutes");
    }
}

#[test]
fn a_node_that_is_soon_back_is_waited_for_and_one_that_is_not_is_replaced() {
    let mut world = at_rest(&["", "", "", ""], 4, replicas(3));
    let gone = followers(&world)[0].node;
    world.stop(gone, false);
    run_for(&mut world, Duration::from_secs(3));
    assert!(world.state.partitions().all(|(_, held)| held.configuration.learners.is_empty()));
    assert_eq!(configuration(&world, P0).members.len(), 2);
    until(&mut world, |world| configuration(world, P0).members.len() == 3);
    assert!(!nodes(&configuration(&world, P0).members).contains(&gone));
}

#[test]
fn replicas_are_of_different_zones_where_there_are_as_many() {
    let zones = ["a", "a", "a", "a", "b", "c"];
    let world = at_rest(&zones, 12, replicas(3));
    for (id, partition) in world.state.partitions() {
        let of = |member: &Member| zones[member.node.0 as usize - 1];
        let spread: BTreeSet<&str> = partition.configuration.members.iter().map(of).collect();
        assert_eq!(spread.len(), 3, "{id}");
    }
}

#[test]
fn a_zone_that_comes_later_is_given_replicas() {
    let mut world = at_rest(&["a", "a"], 4, replicas(2));
    world.start(3, "b");
    world.settle(Duration::from_secs(600));
    for (id, partition) in world.state.partitions() {
        let held = nodes(&partition.configuration.members);
        assert!(held.contains(&NodeId(3)), "{id}: {held:?}");
    }
}

#[test]
fn a_node_that_comes_later_is_given_its_part() {
    let mut world = at_rest(&["", "", ""], 12, replicas(2));
    world.start(4, "");
    world.settle(Duration::from_secs(600));
    let loads = world.loads();
    assert!(loads.values().all(|load| (5..=7).contains(&load.0)), "{loads:?}");
    assert!(loads.values().all(|load| (2..=4).contains(&load.1)), "{loads:?}");
}

#[test]
fn a_primary_is_handed_back_gently_to_a_node_that_came_back() {
    let mut world = at_rest(&["", "", ""], 30, replicas(3));
    world.stop(NodeId(2), false);
    run_for(&mut world, Duration::from_secs(2));
    world.start(2, "");
    let mut most = 0;
    for _ in 0..60 * 20 {
        let commands = world.step(TICK);
        let handovers = commands.iter().filter(|command| {
            matches!(command, Command::Reconfigure { next, .. } if next.members.len() == 3)
        });
        most = most.max(handovers.count());
    }
    assert!(most <= world.planner.settings().handovers_max, "{most} at a time");
    let primaries = world.loads()[&NodeId(2)].1;
    assert!((9..=11).contains(&primaries), "{primaries}");
}

#[test]
fn few_learners_are_filled_at_a_time() {
    let mut world = World::new(1, 64, replicas(3));
    world.start(1, "");
    until(&mut world, |world| world.state.partitions().len() == 64);
    for node in 2..=9 {
        world.start(node, "");
    }
    let settings = *world.planner.settings();
    let mut most = 0;
    for _ in 0..400 {
        world.step(TICK);
        let learners = world.state.partitions().map(|(_, held)| held.configuration.learners.len());
        most = most.max(learners.sum());
    }
    // Node 1 fills them all at first.
    assert!(most > 1 && most <= settings.catching_up_max, "{most}");
}

#[test]
fn a_node_that_leaves_is_relieved_first_and_forgotten_then() {
    let mut world = at_rest(&["", "", ""], 6, replicas(2));
    let node = NodeId(2);
    world.apply(&Command::Leave { node }).unwrap();
    while world.state.node(node).is_some() {
        world.step(TICK);
        for (id, partition) in world.state.partitions() {
            let members = &partition.configuration.members;
            assert!(members.len() >= 2, "{id} never has fewer replicas: {members:?}");
        }
    }
}

#[test]
fn a_new_leader_gives_every_node_and_client_their_time() {
    let mut world = at_rest(&["", ""], 2, replicas(2));
    world.apply(&Command::OpenClient).unwrap();
    let lease = world.planner.settings().client_lease;
    run_for(&mut world, lease - TICK);
    world.lead_anew();
    world.unheard.insert(NodeId(2));
    run_for(&mut world, Duration::from_millis(400));
    assert!(world.state.node(NodeId(2)).unwrap().is_up);
    run_for(&mut world, Duration::from_millis(200));
    assert!(!world.state.node(NodeId(2)).unwrap().is_up);
    assert_eq!(world.state.clients().len(), 1);
    run_for(&mut world, lease + Duration::from_secs(2));
    assert_eq!(world.state.clients().len(), 0);
}

#[test]
fn partitions_are_placed_when_those_are_there_who_found_the_cluster_but_not_much_later() {
    let founders = |expected_nodes| {
        let mut world = World::new(1, 4, replicas(3));
        world.expect_nodes(expected_nodes);
        world.start(1, "a");
        world.start(2, "b");
        world
    };
    let is_placed = |world: &World| world.state.partitions().len() > 0;
    let mut world = founders(3);
    (0..40).for_each(|_| drop(world.step(TICK)));
    assert!(!is_placed(&world));
    world.start(3, "c");
    until(&mut world, is_placed);
    assert!(world.state.partitions().all(|(_, held)| held.configuration.members.len() == 3));
    let took = until(&mut founders(3), is_placed);
    assert!(took > Duration::from_secs(4) && took < Duration::from_secs(6), "{took:?}");
    assert!(until(&mut founders(2), is_placed) < Duration::from_secs(1));
}
