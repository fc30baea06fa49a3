//! Nobody who may only be out of earshot, with all that was acknowledged, goes for the sake of others that may be dead.

use std::time::Duration;

use super::{P0, at_rest, configuration, primary, replicas, run_for, until};
use crate::coordinator::Command;

/// It had caught up, was made a member, and had died a moment before: who has all that was acknowledged does not go for its sake.
#[test]
fn the_last_copy_is_not_given_up_for_one_on_a_node_that_was_not_heard_since() {
    let mut world = at_rest(&["", ""], 1, replicas(1));
    let old = primary(&world);
    world.apply(&Command::Leave { node: old.node }).unwrap();
    until(&mut world, |world| configuration(world, P0).members.len() == 2);
    let new = configuration(&world, P0).members.into_iter().find(|member| *member != old).unwrap();
    world.unheard.insert(new.node);
    run_for(&mut world, Duration::from_secs(5));
    let now = configuration(&world, P0);
    assert_eq!((now.primary, now.is_lost), (Some(old), false));
}

/// The one that is silent is only out of earshot, and the other dies before that is decided.
#[test]
fn the_last_copy_within_earshot_is_not_counted_on_before_it_knows_of_that() {
    let mut world = at_rest(&["", ""], 1, replicas(2));
    let both = configuration(&world, P0).members;
    world.unheard.insert(primary(&world).node);
    run_for(&mut world, Duration::from_millis(400));
    world.unheard.extend(both.iter().map(|member| member.node));
    run_for(&mut world, Duration::from_secs(5));
    assert_eq!(configuration(&world, P0).members, both);
}

/// Two could go on without the one that is only out of earshot, and die before that is decided.
#[test]
fn those_that_could_go_on_are_not_counted_on_before_their_primary_knows_of_that() {
    let mut world = at_rest(&["", "", ""], 1, replicas(3));
    let (all, present) = (configuration(&world, P0).members, primary(&world));
    let silent = all.iter().find(|member| **member != present).unwrap();
    world.unheard.insert(silent.node);
    run_for(&mut world, Duration::from_millis(400));
    world.unheard.extend(all.iter().map(|member| member.node));
    run_for(&mut world, Duration::from_secs(5));
    assert_eq!(configuration(&world, P0).members, all);
    // The one comes back, and the others do not.
    world.unheard.remove(&silent.node);
    until(&mut world, |world| configuration(world, P0).primary == Some(*silent));
}
