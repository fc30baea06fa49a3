//! What a node says of its partitions with a heartbeat, told by hand what was committed.

use std::iter;
use std::task::Waker;
use std::time::Duration;

use weft_protocol::{Configuration, Durability, Member, PartitionId, TableClass, TableOptions};
use weft_transport::{Clock, Incarnation, ManualClock, NodeId};

use crate::cluster::coordination::Mail;
use crate::cluster::hosted::Due;
use crate::coordinator::{
    ClusterId, ClusterState, Command, Found, Heartbeat, Join, NodeDescription, Notice, Outcome,
    Proposal, ProposalId, Timing, Update,
};
use crate::handler::{NodeHandler, NodeOptions};
use crate::memory::NodeMemory;

const CLUSTER: ClusterId = ClusterId(5);

fn member(node: u64) -> Member {
    Member { node: NodeId(node), incarnation: Incarnation(node) }
}

/// Node 1, which keeps nothing on disk, and what its cluster has agreed on.
struct Play {
    node: NodeHandler,
    hand: ManualClock,
    state: ClusterState,
    known: u64,
}

impl Play {
    /// Nodes 1 to 3, and a table `default` with two partitions.
    fn new() -> Play {
        let (clock, hand) = Clock::manual();
        let memory = NodeMemory::divide(64 << 20).unwrap();
        let node = NodeHandler::new(NodeOptions::new(member(1), memory, clock, 7)).unwrap();
        node.belong(CLUSTER, true);
        node.coordination.coordinator.open();
        let mut play = Play { node, hand, state: ClusterState::default(), known: 0 };
        play.decide(Command::Found(Found {
            cluster: CLUSTER,
            default_table: TableOptions::default(),
            partitions_per_class: 2,
            wire_version: 1,
            timing: Timing::default(),
            is_kept: true,
        }));
        for node in 1..=3 {
            play.decide(Command::Join(Join {
                cluster: None,
                node: NodeId(node),
                incarnation: Incarnation(node),
                last_incarnation: None,
                complete: Vec::new(),
                wire_version: 1,
                description: NodeDescription {
                    data_address: format!("node{node}:7400"),
                    control_address: format!("node{node}:7401"),
                    zone: String::new(),
                    capacity_bytes: 1 << 30,
                    is_coordinator: true,
                    is_diskless: false,
                },
            }));
        }
        play
    }

    #[track_caller]
    fn decide(&mut self, command: Command) -> Outcome {
        self.state.apply(&Proposal { id: ProposalId::NONE, command }).unwrap()
    }

    /// The node is told what was decided.
    fn tell(&mut self) {
        let changes = self.state.changes_since(self.known).unwrap();
        let update = Update::of(CLUSTER, self.known, &changes);
        self.known = changes.version;
        self.node.take_in(update);
    }

    /// So much time goes by.
    fn pass(&self, time: Duration) {
        let NodeHandler { cluster, partitions, .. } = &self.node;
        for _ in 0..10 {
            self.hand.advance_to(self.node.now() + time / 10);
            let (now, mut due) = (self.node.now_by_both(), Due::default());
            cluster.tick(partitions, now, &mut due);
        }
    }

    /// What the node has said and nobody has heard yet.
    fn heard(&self) -> Vec<Heartbeat> {
        let mails = iter::from_fn(|| self.node.coordination.coordinator.take(Waker::noop()));
        let heartbeat = |mail| match mail {
            Mail::Notice { notice: Notice::Heartbeat(heartbeat), .. } => Some(heartbeat),
            _ => None,
        };
        mails.filter_map(heartbeat).collect()
    }

    fn heartbeat(&self) -> Heartbeat {
        self.node.send_heartbeats();
        self.heard().pop().expect("the node is heard")
    }

    fn unserved(&self) -> Vec<u16> {
        self.heartbeat().unserved.iter().map(|id| id.0).collect()
    }
}

#[test]
fn what_a_primary_does_not_serve_is_told_until_it_does() {
    let mut play = Play::new();
    let partitions = vec![vec![member(1)], [2, 1, 3].map(member).to_vec()];
    play.decide(Command::Place { class: TableClass::DEFAULT, partitions });
    play.tell();
    play.pass(Duration::from_millis(100));
    assert!(play.unserved().is_empty(), "what others serve is theirs to tell");
    assert_eq!(play.heartbeat().known_version, play.state.version());
    // Its primary is gone, and this node takes over: not before the other member has turned to it.
    play.decide(Command::MarkDown { member: member(2) });
    let next = Configuration {
        epoch: 2,
        primary: Some(member(1)),
        members: [1, 3].map(member).to_vec(),
        ..play.state.partition(PartitionId(1)).unwrap().configuration.clone()
    };
    let (partition, expected_epoch) = (PartitionId(1), 1);
    play.decide(Command::Reconfigure { partition, expected_epoch, next });
    play.heard();
    play.tell();
    let word = play.heard();
    assert_eq!(word.len(), 1, "that somebody is down is answered at once");
    assert_eq!(word[0].known_version, play.state.version());
    for _ in 0..3 {
        play.pass(Duration::from_secs(10));
        assert_eq!(play.unserved(), [1]);
    }
    // That one is gone, too.
    let expected_epoch = 2;
    play.decide(Command::RemoveMember { partition, expected_epoch, member: member(3) });
    play.tell();
    play.pass(Duration::from_secs(10));
    assert!(play.unserved().is_empty());
}

#[test]
fn what_a_primary_cannot_hold_is_told_until_another_has_it() {
    let mut play = Play::new();
    let class = TableClass { replicas: 1, durability: Durability::Fsync };
    let TableClass { replicas, durability } = class;
    let options = TableOptions { replicas, durability, ..TableOptions::default() };
    play.decide(Command::CreateTable { name: "synced".to_owned(), options });
    play.decide(Command::Place { class, partitions: vec![vec![member(1)], vec![member(2)]] });
    play.tell();
    play.pass(Duration::from_secs(1));
    assert_eq!(play.unserved(), [0]);
    let (partition, learner) = (PartitionId(0), member(2));
    play.decide(Command::AddLearner { partition, expected_epoch: 1, learner });
    play.decide(Command::PromoteLearner { partition, expected_epoch: 2, learner });
    let next = Configuration {
        epoch: 4,
        primary: Some(learner),
        ..play.state.partition(partition).unwrap().configuration.clone()
    };
    play.decide(Command::Reconfigure { partition, expected_epoch: 3, next });
    play.tell();
    assert!(play.unserved().is_empty());
}
