//! What a member promises, and when: each test is one of the traps in docs/raft.md.

use raft::eraftpb::MessageType;
use weft_transport::NodeId;

use super::stage::{Stage, Told, identity, opened};
use crate::coordinator::raft::limits::UNCOMMITTED_BYTES_MAX;
use crate::coordinator::raft::{
    Batch, COMMAND_BYTES_MAX, Dropped, Failure, Fault, LogError, MemberRole, Outcome, RaftId,
    Refused, Settings,
};

fn is_in_mail(stage: &Stage, kind: MessageType) -> bool {
    stage.mail.iter().any(|(_, message)| opened(message).msg_type == kind as i32)
}

#[test]
fn a_vote_leaves_when_it_is_synced_and_not_before() {
    let mut stage = Stage::new(3);
    // Patience runs out on both sides: who heard of a leader lately gives nobody a vote.
    stage.actors[0].raft.campaign().unwrap();
    stage.poll(0);
    assert!(is_in_mail(&stage, MessageType::MsgRequestPreVote));
    while stage.deliver().is_some() {}
    // The first is a candidate now, and has to write its own vote before it asks for others'.
    assert!(!is_in_mail(&stage, MessageType::MsgRequestVote));
    let own = stage.actors[0].writes.front().unwrap();
    assert!(own.batch.must_sync && own.batch.hard_state.as_ref().unwrap().vote == 1);
    stage.write(0);
    assert!(is_in_mail(&stage, MessageType::MsgRequestVote));
    while stage.deliver().is_some() {}
    assert!(!is_in_mail(&stage, MessageType::MsgRequestVoteResponse));
    let vote = stage.actors[1].writes.front().unwrap();
    assert!(vote.batch.must_sync && vote.batch.hard_state.as_ref().unwrap().vote == 1);
    stage.write(1);
    assert!(is_in_mail(&stage, MessageType::MsgRequestVoteResponse));
    assert_eq!(stage.actors[1].disk.pending(), 0);
}

#[test]
fn a_leader_sends_before_it_has_written_and_counts_itself_only_after() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    let id = stage.next_id();
    stage.actors[0].raft.propose(id, b"one".to_vec()).unwrap();
    stage.poll(0);
    assert!(is_in_mail(&stage, MessageType::MsgAppend));
    // One of the others has it: with the leader's own, that would be a majority.
    stage.mail.retain(|(_, message)| message.to == RaftId(2));
    stage.deliver();
    assert!(!is_in_mail(&stage, MessageType::MsgAppendResponse), "not before it is written");
    while stage.write(1) {}
    assert!(is_in_mail(&stage, MessageType::MsgAppendResponse));
    stage.deliver();
    assert_eq!(stage.outcome(0, id), None);
    while stage.write(0) {}
    assert!(matches!(stage.outcome(0, id), Some(Outcome::Applied { .. })));
}

#[test]
fn nothing_is_applied_before_its_commit_index_is_written() {
    let mut stage = Stage::new(1);
    stage.elect(0);
    let id = stage.next_id();
    stage.actors[0].raft.propose(id, b"one".to_vec()).unwrap();
    stage.poll(0);
    stage.write(0);
    let commit = stage.actors[0].writes.front().unwrap().batch.clone();
    assert_eq!(commit.hard_state.unwrap().commit, stage.actors[0].raft.applied().index + 1);
    assert_eq!(stage.outcome(0, id), None);
    stage.write(0);
    assert!(stage.outcome(0, id).is_some());
}

#[test]
fn a_leader_with_a_slow_disk_keeps_its_followers() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    let term = stage.actors[0].raft.leadership().term;
    let id = stage.next_id();
    stage.actors[0].raft.propose(id, b"one".to_vec()).unwrap();
    stage.poll(0);
    let stalled = std::mem::take(&mut stage.actors[0].writes);
    for _ in 0..100 {
        stage.now = stage.now + stage.settings.tick;
        for actor in 0..3 {
            stage.actors[actor].raft.tick(stage.now);
            stage.poll(actor);
        }
        while stage.deliver().is_some() {}
        (1..3).for_each(|actor| while stage.write(actor) {});
    }
    assert!((0..3).all(|actor| stage.actors[actor].raft.leadership().term == term));
    // The others are a majority, and the leader's own disk is not waited for.
    assert_eq!(stage.actors[1].raft.machine(), &Told(vec![b"one".to_vec()]));
    let later = std::mem::replace(&mut stage.actors[0].writes, stalled);
    stage.actors[0].writes.extend(later);
    stage.settle();
    assert!(stage.outcome(0, id).is_some());
}

#[test]
fn a_member_that_comes_back_disturbs_nobody_and_a_leader_without_followers_steps_down() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    let term = stage.actors[0].raft.leadership().term;
    for _ in 0..60 {
        stage.now = stage.now + stage.settings.tick;
        stage.actors[2].raft.tick(stage.now);
        stage.poll(2);
        while stage.write(2) {}
        stage.mail.clear();
    }
    stage.ticks(10);
    assert_eq!(stage.actors[0].raft.leadership().term, term, "pre-vote");
    for _ in 0..60 {
        stage.now = stage.now + stage.settings.tick;
        stage.actors[0].raft.tick(stage.now);
        stage.poll(0);
        stage.mail.clear();
    }
    assert!(!stage.actors[0].raft.leadership().is_own, "check-quorum");
}

#[test]
fn what_waits_to_be_committed_has_a_limit() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    let id = stage.next_id();
    let refused = stage.actors[0].raft.propose(id, vec![0; COMMAND_BYTES_MAX + 1]);
    assert!(matches!(refused, Err(Refused::TooLong { .. })));
    let most = UNCOMMITTED_BYTES_MAX as usize / COMMAND_BYTES_MAX;
    for taken in 0..=most {
        let id = stage.next_id();
        let proposed = stage.actors[0].raft.propose(id, vec![0; COMMAND_BYTES_MAX]);
        assert_eq!(proposed.is_ok(), taken < most, "{taken}");
    }
    let message = stage.actors[0]
        .raft
        .poll(stage.now)
        .messages
        .into_iter()
        .map(|message| message.bytes.len())
        .max();
    assert!(message.unwrap() < (1 << 20) + COMMAND_BYTES_MAX, "{message:?}");
}

#[test]
fn a_failed_disk_ends_a_members_part() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    stage.actors[1].disk.fail_next(Fault::Sync);
    let id = stage.next_id();
    stage.actors[0].raft.propose(id, b"one".to_vec()).unwrap();
    stage.settle();
    assert!(matches!(stage.actors[1].raft.failure(), Some(Failure::Disk(LogError::Write { .. }))));
    assert!(matches!(stage.actors[1].raft.campaign(), Err(Refused::Failed(_))));
    assert!(stage.outcome(0, id).is_some(), "the others go on");
    let mut spoke = false;
    for _ in 0..50 {
        stage.now = stage.now + stage.settings.tick;
        stage.actors[1].raft.tick(stage.now);
        let effects = stage.actors[1].raft.poll(stage.now);
        spoke |= !effects.messages.is_empty() || !effects.writes.is_empty();
    }
    assert!(!spoke);
    stage.restart(1, 0);
    stage.ticks(10);
    assert_eq!(stage.actors[1].raft.machine(), stage.actors[0].raft.machine());
}

#[test]
fn a_read_that_raft_drops_is_asked_again_and_one_that_nobody_answers_is_given_up() {
    let mut stage = Stage::new(3);
    stage.actors[1].raft.read_index(stage.now, 1).unwrap();
    stage.settle();
    stage.elect(0);
    stage.ticks(20);
    assert!(stage.actors[1].reads.iter().any(|read| read.token == 1 && read.is_ready));
    stage.agree(0, b"one");
    stage.agree(0, b"");
    stage.actors[2].raft.read_index(stage.now, 2).unwrap();
    stage.settle();
    assert!(stage.actors[2].reads.iter().any(|read| read.token == 2 && read.is_ready));
    assert_eq!(stage.actors[2].raft.machine(), &Told(vec![b"one".to_vec(), Vec::new()]));
    // Alone, nothing is confirmed.
    stage.actors[2].raft.read_index(stage.now, 3).unwrap();
    for _ in 0..100 {
        stage.now = stage.now + stage.settings.tick;
        stage.actors[2].raft.tick(stage.now);
        stage.poll(2);
        stage.mail.clear();
    }
    assert!(stage.actors[2].reads.iter().any(|read| read.token == 3 && !read.is_ready));
}

#[test]
fn a_read_of_one_leadership_is_not_answered_in_the_next() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    stage.actors[0].raft.read_index(stage.now, 9).unwrap();
    stage.poll(0);
    // The followers' confirmations are on their way when another one takes over.
    let confirmations = {
        while stage.mail.front().is_some_and(|(from, _)| *from == 0) {
            stage.deliver();
        }
        std::mem::take(&mut stage.mail)
    };
    assert!(!confirmations.is_empty());
    stage.actors[0].raft.transfer(RaftId(2)).unwrap();
    stage.settle();
    assert!(stage.actors[1].raft.leadership().is_own);
    let before = stage.actors[0].reads.clone();
    stage.mail = confirmations;
    stage.ticks(10);
    let answered: Vec<_> = stage.actors[0].reads.iter().filter(|read| read.token == 9).collect();
    assert!(
        before.len() <= 1 && answered.len() == 1 && answered[0].is_ready,
        "once, whoever confirmed it"
    );
}

#[test]
fn proposals_of_a_leader_that_lost_its_place_are_said_to_be_of_unknown_fate() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    let id = stage.next_id();
    stage.actors[0].raft.propose(id, b"lost".to_vec()).unwrap();
    stage.poll(0);
    stage.mail.clear();
    for _ in 0..30 {
        stage.now = stage.now + stage.settings.tick;
        stage.actors[0].raft.tick(stage.now);
        stage.poll(0);
        stage.mail.clear();
    }
    assert_eq!(stage.outcome(0, id), Some(Outcome::Unknown));
    assert!(matches!(stage.actors[0].raft.propose(id, Vec::new()), Err(Refused::NotLeader { .. })));
}

#[test]
fn a_node_without_a_log_gets_a_new_id_in_place_of_its_old_one_and_is_made_a_voter() {
    let mut stage =
        Stage::with_settings(3, Settings { snapshot_entries: 5, ..Settings::default() });
    stage.elect(0);
    (0..4).for_each(|n| stage.agree(0, &[n]));
    let stale = {
        stage.actors[2].raft.tick(stage.now + stage.settings.tick * 60);
        stage.actors[2].raft.campaign().unwrap();
        stage.actors[2].raft.poll(stage.now).messages
    };
    let id = stage.next_id();
    stage.actors[0].raft.admit(stage.now, id, NodeId(2)).unwrap();
    assert_eq!(stage.actors[0].raft.admit(stage.now, id, NodeId(3)), Err(Refused::ChangeUnderWay));
    stage.actors.truncate(2);
    // The way out of the joint configuration goes with the next heartbeats.
    stage.ticks(5);
    assert_eq!(stage.outcome(0, id), Some(Outcome::Changed(Some(RaftId(4)))));
    // Member 3 is nobody any more.
    let now = stage.now;
    let heard = stage.actors[0].raft.step(now, &stale[0].bytes);
    assert_eq!(heard, Err(Dropped::FormerMember(RaftId(3))));
    assert_eq!(stage.actors[0].raft.members().len(), 3);
    // It is told so, and nothing of that is for its node's new member.
    let told = stage.actors[0].raft.poll(now).messages;
    let [told] = &told[..] else { panic!("{told:?}") };
    assert_eq!((told.to, told.node), (RaftId(3), NodeId(2)));
    let told = told.bytes.clone();

    stage.add(&Batch::joining(identity(2, 4)));
    let (now, own) = (stage.now, RaftId(4));
    let heard = stage.actors[2].raft.step(now, &told);
    assert_eq!(heard, Err(Dropped::OtherMember { to: RaftId(3), own }));
    stage.ticks(10);
    assert_eq!(stage.actors[2].raft.machine(), stage.actors[0].raft.machine());
    let id = stage.next_id();
    let now = stage.now;
    stage.actors[0].raft.promote(now, id, RaftId(4)).unwrap();
    stage.ticks(5);
    let members = stage.actors[2].raft.members();
    assert!(members.iter().all(|member| member.role == MemberRole::Voter), "{members:?}");
    assert!(!stage.actors[0].raft.is_changing_members());
}

#[test]
fn a_change_that_leaves_no_living_majority_is_refused() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    // Nobody hears of the third for long enough.
    let gone = stage.actors.pop();
    stage.ticks(30);
    let (id, now) = (stage.next_id(), stage.now);
    let removed = stage.actors[0].raft.remove(now, id, RaftId(2));
    assert_eq!(removed, Err(Refused::NoMajority { living: 1, voters: 2 }));
    assert_eq!(stage.actors[0].raft.remove(now, id, RaftId(1)), Err(Refused::Leads));
    assert_eq!(stage.actors[0].raft.remove(now, id, RaftId(9)), Err(Refused::NoMember(RaftId(9))));
    stage.actors[0].raft.remove(now, id, RaftId(3)).unwrap();
    stage.ticks(3);
    assert_eq!(stage.outcome(0, id), Some(Outcome::Changed(None)));
    assert_eq!(stage.actors[1].raft.members().len(), 2);
    drop(gone);
}

/// Nobody sends anything to it any more, so that it does not see the change by which it went.
#[test]
fn a_member_that_was_removed_while_it_heard_nothing_is_told_when_it_asks() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    let absent = stage.actors.pop().unwrap();
    stage.ticks(30);
    let (id, now) = (stage.next_id(), stage.now);
    stage.actors[0].raft.remove(now, id, RaftId(3)).unwrap();
    stage.ticks(3);
    stage.actors.push(absent);
    assert!(!stage.actors[2].raft.is_removed());
    let is_told = (0..100).any(|_| {
        stage.tick();
        stage.actors[2].raft.is_removed()
    });
    assert!(is_told);
    assert!(stage.actors[..2].iter().all(|actor| !actor.raft.is_removed()));
    assert!(stage.actors[0].raft.leadership().is_own, "nothing is changed by it");
}

#[test]
fn a_leader_that_a_change_removes_steps_down() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    let (id, now) = (stage.next_id(), stage.now);
    stage.actors[0].raft.remove(now, id, RaftId(2)).unwrap();
    stage.poll(0);
    // All have the entry and nobody knows that they do, when the second takes over.
    stage.write(0);
    while stage.mail.front().is_some_and(|(from, _)| *from == 0) {
        stage.deliver();
    }
    stage.mail.clear();
    (1..3).for_each(|actor| while stage.write(actor) {});
    stage.mail.clear();
    stage.now = stage.now + stage.settings.tick * 60;
    for actor in [1, 2] {
        (0..12).for_each(|n| stage.actors[actor].raft.tick(stage.now + stage.settings.tick * n));
        stage.poll(actor);
    }
    stage.mail.clear();
    stage.elect(1);
    stage.ticks(60);
    assert!(!stage.actors[1].raft.leadership().is_own);
    assert!(stage.actors[1].raft.is_removed());
    let led = [0, 2].iter().filter(|actor| stage.actors[**actor].raft.leadership().is_own).count();
    assert_eq!(led, 1);
}

#[test]
fn a_snapshot_that_was_lost_is_sent_again() {
    let mut stage = Stage::with_settings(
        3,
        Settings { snapshot_entries: 4, kept_entries: 0, ..Settings::default() },
    );
    stage.elect(0);
    stage.restart(2, 0);
    let absent = stage.actors.pop().unwrap();
    (0..12).for_each(|n| stage.agree(0, &[n]));
    stage.actors.push(absent);
    let mut lost = 0;
    for _ in 0..200 {
        stage.now = stage.now + stage.settings.tick;
        for actor in 0..3 {
            stage.actors[actor].raft.tick(stage.now);
            stage.poll(actor);
        }
        while !stage.mail.is_empty() || stage.actors.iter().any(|actor| !actor.writes.is_empty()) {
            let is_snapshot = |message| opened(message).msg_type == MessageType::MsgSnapshot as i32;
            if lost < 2 && stage.mail.front().is_some_and(|(_, message)| is_snapshot(message)) {
                lost += 1;
                stage.mail.pop_front();
            }
            stage.deliver();
            (0..3).for_each(|actor| while stage.write(actor) {});
        }
    }
    assert_eq!(lost, 2);
    assert_eq!(stage.actors[2].raft.machine(), stage.actors[0].raft.machine());
}

#[test]
fn the_only_voter_tells_its_learners_nothing_of_a_term_that_is_not_written() {
    let mut stage = Stage::new(1);
    stage.elect(0);
    let (id, now) = (stage.next_id(), stage.now);
    stage.actors[0].raft.admit(now, id, NodeId(1)).unwrap();
    stage.settle();
    stage.add(&Batch::joining(identity(1, 2)));
    stage.ticks(10);
    stage.restart(0, 0);
    stage.actors[0].raft.campaign().unwrap();
    stage.poll(0);
    assert!(stage.actors[0].raft.leadership().is_own);
    assert!(stage.mail.iter().all(|(from, _)| *from != 0), "its term is not on disk");
    stage.settle();
    assert_eq!(stage.actors[1].raft.leadership().leader, Some(RaftId(1)));
}

#[test]
fn a_learner_that_has_acknowledged_nothing_is_no_voter_however_short_the_log_is() {
    let mut stage = Stage::new(1);
    stage.elect(0);
    let (id, now) = (stage.next_id(), stage.now);
    stage.actors[0].raft.admit(now, id, NodeId(1)).unwrap();
    stage.settle();
    let learner = RaftId(2);
    let missing = stage.actors[0].raft.behind(learner).unwrap();
    assert!((1..10).contains(&missing), "{missing}");
    let (id, now) = (stage.next_id(), stage.now);
    let promoted = stage.actors[0].raft.promote(now, id, learner);
    assert_eq!(promoted, Err(Refused::Behind { member: learner, missing }));
    stage.add(&Batch::joining(identity(1, 2)));
    stage.ticks(10);
    assert!(stage.actors[0].raft.is_ready(stage.now, learner));
    let (id, now) = (stage.next_id(), stage.now);
    stage.actors[0].raft.promote(now, id, learner).unwrap();
}

#[test]
fn a_leader_whose_process_is_gone_is_followed_at_once() {
    for leader in 0..3 {
        let mut stage = Stage::new(3);
        stage.elect(leader);
        stage.agree(leader, b"one");
        let (began, now) = (stage.now, stage.now);
        for other in (0..3).filter(|other| *other != leader) {
            stage.actors[other].raft.process_gone(now, NodeId(leader as u64));
        }
        let others = || (0..3).filter(|other| *other != leader);
        let next = |stage: &Stage| others().find(|n| stage.actors[*n].raft.leadership().is_own);
        while next(&stage).is_none() {
            stage.now = stage.now + stage.settings.tick;
            let now = stage.now;
            // The dead one has no time.
            others().for_each(|other| stage.actors[other].raft.tick(now));
            stage.settle();
        }
        assert!(stage.now.since(began) <= 3 * stage.settings.tick, "{:?}", stage.now.since(began));
        stage.agree(next(&stage).unwrap(), b"two");
    }
}

#[test]
fn who_believes_by_mistake_that_the_leader_is_gone_disturbs_nobody() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    let term = stage.actors[0].raft.leadership().term;
    let now = stage.now;
    // Of a node that does not lead it is of no interest.
    stage.actors[1].raft.process_gone(now, NodeId(2));
    stage.poll(1);
    assert_eq!(stage.actors[1].raft.leadership().leader, Some(RaftId(1)));
    stage.actors[1].raft.process_gone(now, NodeId(0));
    stage.ticks(30);
    for actor in &stage.actors {
        let leadership = actor.raft.leadership();
        assert_eq!((leadership.leader, leadership.term), (Some(RaftId(1)), term));
    }
    stage.agree(0, b"one");
}
