//! Moments that seldom come, and in which raft-rs leaves something undone: each test is one of the traps in docs/raft.md.

use raft::eraftpb::MessageType;
use weft_transport::NodeId;

use super::stage::{Stage, opened};

fn kind(message: &super::Outgoing) -> i32 {
    opened(message).msg_type
}

fn is_answered(stage: &Stage, actor: usize, token: u64) -> bool {
    stage.actors[actor].reads.iter().any(|read| read.token == token && read.is_ready)
}

/// The leader ends after it has told a change of members to be committed, and before it has applied it: then it has not asked for the way out of the joint
/// configuration, and the next leader takes that for somebody else's to do.
#[test]
fn a_joint_configuration_is_left_though_the_leader_changes_before_it_asks_for_that() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    let (id, now) = (stage.next_id(), stage.now);
    stage.actors[0].raft.admit(now, id, NodeId(2)).unwrap();
    stage.poll(0);
    assert!(stage.write(0), "its own copy of the change");
    for _ in 0..20 {
        while stage.deliver().is_some() {}
        stage.write(1);
    }
    assert!(stage.actors[1].raft.is_changing_members() && !stage.actors[0].writes.is_empty());
    assert_eq!(stage.actors[1].raft.members().len(), 4, "the former, and the one in its place");
    stage.restart(0, 0);
    stage.mail.clear();
    stage.elect(1);
    stage.ticks(5);
    assert!(!stage.actors[1].raft.is_changing_members());
    assert_eq!(stage.actors[0].raft.members().len(), 3);
}

/// Under the same leader, which never heard of the question.
#[test]
fn a_read_that_was_lost_on_its_way_is_asked_again_before_its_time_is_up() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    stage.actors[1].raft.read_index(stage.now, 1).unwrap();
    stage.poll(1);
    assert!(
        stage.mail.iter().any(|(_, message)| kind(message) == MessageType::MsgReadIndex as i32)
    );
    stage.mail.clear();
    stage.ticks(20);
    assert!(stage.actors[1].raft.leadership().leader.is_some_and(|leader| leader.0 == 1));
    assert!(is_answered(&stage, 1, 1));
}

/// At once, and not when it is asked again anyway: no time passes here.
#[test]
fn a_read_is_asked_of_the_next_leader_as_soon_as_there_is_one() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    stage.actors[1].raft.read_index(stage.now, 1).unwrap();
    stage.poll(1);
    stage.mail.clear();
    stage.actors[0].raft.transfer(super::RaftId(3)).unwrap();
    stage.settle();
    assert!(stage.actors[2].raft.leadership().is_own);
    stage.settle();
    assert!(is_answered(&stage, 1, 1));
}

/// Its counter begins anew with each life, so what was asked in the one before may be answered now, with an index that was good then.
#[test]
fn an_answer_to_a_former_life_is_none_to_this_one() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    stage.actors[1].raft.read_index(stage.now, 1).unwrap();
    stage.poll(1);
    let mut late = None;
    for _ in 0..50 {
        let is_answer = |(_, message): &(usize, super::Outgoing)| {
            kind(message) == MessageType::MsgReadIndexResp as i32
        };
        if let Some(place) = stage.mail.iter().position(is_answer) {
            late = stage.mail.remove(place);
            break;
        }
        stage.deliver();
        (0..3).for_each(|actor| while stage.write(actor) {});
    }
    let late = late.expect("the leader answers");
    stage.settle();
    stage.agree(0, b"written since");
    stage.restart(1, 0);
    stage.settle();
    stage.actors[1].raft.read_index(stage.now, 2).unwrap();
    stage.poll(1);
    // The question of this life is lost.
    stage.mail.clear();
    stage.mail.push_back(late);
    assert_eq!(stage.deliver(), Some(Ok(())));
    stage.poll(1);
    assert!(!is_answered(&stage, 1, 2));
    stage.ticks(20);
    assert!(is_answered(&stage, 1, 2));
}

/// What has arrived meanwhile is heard before anybody's patience is over.
#[test]
fn a_member_that_was_paused_does_not_make_up_for_all_that_time_at_once() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    stage.now = stage.now + stage.settings.tick * 1000;
    stage.actors[1].raft.tick(stage.now);
    stage.poll(1);
    assert!(stage.mail.is_empty(), "it stands for nothing: {:?}", stage.mail);
    // Nor in the calls that follow at once.
    (0..100).for_each(|_| stage.actors[1].raft.tick(stage.now));
    stage.poll(1);
    assert!(stage.mail.is_empty());
    assert!(stage.actors[1].raft.leadership().leader.is_some());
}
