//! Learners that do not come along, and what the coordinator is told of them.

use std::time::Duration;

use super::*;

const TICK: Duration = Duration::from_millis(50);

impl Nodes {
    /// The first two are members in epoch 3, and the rest, which was one in epoch 1, is a learner. It was sent the beginning, and hears nothing.
    fn with_deaf_learner(settings: &Settings) -> Nodes {
        let mut nodes = Nodes::with(settings);
        nodes.told(&ALL, 2, FORMER, &[FORMER, NEXT]);
        nodes.told_of_learners(&ALL, 3, FORMER, &[FORMER, NEXT], &[REST]);
        nodes.exchange(&[FORMER, NEXT]);
        nodes
    }

    fn goes_on(&mut self, who: &[usize], time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.pass(TICK);
            self.lease(who);
            self.exchange(who);
        }
    }

    fn said(&self) -> &[Effect] {
        &self.nodes[FORMER].said
    }
}

fn given_up(epoch: u32) -> Effect {
    Effect::GivenUp { learner: member(REST), epoch }
}

fn caught_up(epoch: u32) -> Effect {
    Effect::CaughtUp { learner: member(REST), epoch }
}

fn unreachable(index: usize, epoch: u32) -> Effect {
    Effect::Unreachable { member: member(index), epoch }
}

/// What is kept for it does not fill the tail, so that nothing could be written any more.
#[test]
fn a_learner_that_never_answers_is_given_up_before_it_stops_writes() {
    let settings = Settings { tail_bytes_max: 4096, ..Settings::default() };
    let mut nodes = Nodes::with_deaf_learner(&settings);
    for _ in 0..100 {
        for _ in 0..10 {
            nodes.write(FORMER);
        }
        nodes.goes_on(&[FORMER, NEXT], TICK);
    }
    assert!(nodes.said().contains(&given_up(3)), "{:?}", nodes.said());
    assert_eq!(nodes.nodes[FORMER].replica.committed(), 1000);
}

/// It counts for commits, and the coordinator may have nobody else to give the partition to: it is to go, or nothing is written any more.
#[test]
fn a_learner_that_commits_wait_for_in_vain_is_given_up() {
    let mut nodes = Nodes::with_deaf_learner(&Settings::default());
    nodes.goes_on(&ALL, 4 * TICK);
    assert_eq!(nodes.said().last(), Some(&caught_up(3)));
    let version = nodes.write(FORMER);
    nodes.goes_on(&[FORMER, NEXT], Duration::from_secs(2));
    assert!(nodes.nodes[FORMER].replica.committed() < version.sequence());
    assert_eq!(nodes.said().last(), Some(&given_up(3)));
    assert!(!nodes.said().contains(&unreachable(REST, 3)), "{:?}", nodes.said());
    nodes.told(&[FORMER, NEXT], 4, FORMER, &[FORMER, NEXT]);
    nodes.goes_on(&[FORMER, NEXT], TICK);
    assert_eq!(nodes.nodes[FORMER].replica.committed(), version.sequence());
    assert!(nodes.reads(FORMER));
}

/// The coordinator may have made it a member before it heard of that: then it is sent all that it lacks.
#[test]
fn a_learner_that_was_given_up_may_have_become_a_member() {
    let mut nodes = Nodes::with_deaf_learner(&Settings::default());
    nodes.goes_on(&ALL, 4 * TICK);
    nodes.write(FORMER);
    nodes.goes_on(&[FORMER, NEXT], Duration::from_secs(2));
    assert_eq!(nodes.said().last(), Some(&given_up(3)));
    nodes.told(&ALL, 4, FORMER, &ALL);
    let version = nodes.write(FORMER);
    nodes.goes_on(&ALL, 4 * TICK);
    assert_eq!(nodes.nodes[FORMER].replica.committed(), version.sequence());
    assert_eq!(nodes.nodes[REST].replica.last(), version);
}

/// Nothing is left of what was wrong before.
#[test]
fn a_learner_that_was_given_up_begins_anew_when_it_is_added_again() {
    let settings = Settings { tail_bytes_max: 4096, ..Settings::default() };
    let mut nodes = Nodes::with_deaf_learner(&settings);
    for _ in 0..100 {
        nodes.write(FORMER);
        nodes.goes_on(&[FORMER, NEXT], TICK);
    }
    assert!(nodes.said().contains(&given_up(3)), "{:?}", nodes.said());
    nodes.told(&ALL, 4, FORMER, &[FORMER, NEXT]);
    nodes.told_of_learners(&ALL, 5, FORMER, &[FORMER, NEXT], &[REST]);
    nodes.goes_on(&ALL, 4 * TICK);
    assert_eq!(nodes.said().last(), Some(&caught_up(5)));
    assert_eq!(nodes.nodes[REST].replica.last(), nodes.nodes[FORMER].replica.last());
}

/// A learner that goes on in another epoch is given nothing anew: the coordinator has to hear of its failure in that one, or nobody would end it.
#[test]
fn a_learner_that_has_failed_says_so_in_every_epoch_until_it_is_none() {
    let mut nodes = Nodes::with_deaf_learner(&Settings::default());
    nodes.goes_on(&ALL, 4 * TICK);
    nodes.nodes[REST].replica.fail();
    nodes.nodes[REST].carry_out();
    assert_eq!(nodes.nodes[REST].said, [given_up(3)]);
    nodes.told_of_learners(&ALL, 4, FORMER, &[FORMER, NEXT], &[REST]);
    assert_eq!(nodes.nodes[REST].said, [given_up(3), given_up(4)]);
    nodes.goes_on(&ALL, Duration::from_secs(2));
    assert_eq!(nodes.nodes[REST].said.last(), Some(&given_up(4)));
    assert!(nodes.nodes[REST].said.len() > 2, "{:?}", nodes.nodes[REST].said);
    nodes.told(&ALL, 5, FORMER, &[FORMER, NEXT]);
    nodes.told_of_learners(&ALL, 6, FORMER, &[FORMER, NEXT], &[REST]);
    nodes.goes_on(&ALL, 4 * TICK);
    assert_eq!(nodes.said().last(), Some(&caught_up(6)));
}

/// The next primary gives it everything.
#[test]
fn a_learner_that_has_failed_takes_part_again_in_another_session() {
    let mut nodes = Nodes::with_deaf_learner(&Settings::default());
    nodes.exchange(&[FORMER, REST]);
    nodes.nodes[REST].replica.fail();
    nodes.nodes[REST].carry_out();
    nodes.told_of_learners(&ALL, 4, NEXT, &[FORMER, NEXT], &[REST]);
    nodes.goes_on(&ALL, Duration::from_secs(2));
    assert_eq!(nodes.nodes[NEXT].said.last(), Some(&caught_up(4)));
}

#[test]
fn that_a_member_does_not_answer_is_taken_back_when_it_does() {
    let mut nodes = Nodes::new();
    nodes.write(FORMER);
    nodes.goes_on(&[FORMER, REST], Duration::from_secs(2));
    assert!(nodes.said().iter().all(|effect| *effect == unreachable(NEXT, 1)));
    assert!(!nodes.said().is_empty());
    nodes.goes_on(&ALL, 4 * TICK);
    assert_eq!(nodes.said().last(), Some(&Effect::Answers { member: member(NEXT) }));
    let count = nodes.said().len();
    nodes.goes_on(&ALL, Duration::from_secs(2));
    assert_eq!(nodes.said().len(), count, "{:?}", nodes.said());
}
