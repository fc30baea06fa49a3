//! Nodes that left their cluster, or were made to, and come back with the directory that they had: they are coordinators again, and never the member that they were.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use weft_protocol::AskReply;
use weft_protocol::control::v1::StatusResponse;
use weft_server::config::Settings;
use weft_server::coordinator::codec::{decode_answer, encode_ask};
use weft_server::coordinator::raft::{RaftLog, RocksLog};
use weft_server::coordinator::{Answer, Ask, Command, Denial, Outcome, Proposal, ProposalId};
use weft_server::node::Node;
use weft_transport::NodeId;

use crate::ports::Port;
use crate::support::{Client, settings, start};

/// The one that leaves.
const LEAVING: u64 = 3;
/// The highest id of a member that is handed out before it does.
const FIRST_MEMBERS: u64 = 3;

/// Some nodes with directories.
struct Nodes {
    folder: tempfile::TempDir,
    ports: Vec<Port>,
    nodes: Vec<Option<Node>>,
    replicas: u8,
    proposed: u128,
}

impl Nodes {
    /// Three, of which all vote.
    fn start(replicas: u8) -> Nodes {
        let three = Nodes::start_with(3, replicas);
        three.await_three_votes();
        three
    }

    fn start_with(count: u64, replicas: u8) -> Nodes {
        let folder = tempfile::tempdir().unwrap();
        let ports = (0..count).map(|_| Port::new()).collect();
        let mut nodes = Nodes { folder, ports, nodes: Vec::new(), replicas, proposed: 0 };
        let starting: Vec<_> = (1..=count).map(|id| nodes.starting(id)).collect();
        nodes.nodes = starting.into_iter().map(|node| Some(node.join().unwrap())).collect();
        nodes
    }

    fn starting(&self, id: u64) -> thread::JoinHandle<Node> {
        self.starting_with(id, None)
    }

    fn starting_with(&self, id: u64, roles: Option<&str>) -> thread::JoinHandle<Node> {
        let addresses: Vec<_> = self.ports.iter().map(|port| port.address.to_string()).collect();
        let settings = Settings {
            node_id: Some(id),
            roles: roles.map(|roles| roles.parse().unwrap()),
            join: Some(addresses.join(",").parse().unwrap()),
            listen: Some(addresses[id as usize - 1].parse().unwrap()),
            data_dir: Some(self.directory(id)),
            memory: Some("128MiB".parse().unwrap()),
            replicas: Some(self.replicas),
            partitions: Some(6.try_into().unwrap()),
            ..settings()
        };
        thread::spawn(move || start(settings))
    }

    fn directory(&self, id: u64) -> PathBuf {
        self.folder.path().join(format!("node-{id}"))
    }

    fn begin(&mut self, id: u64) {
        self.nodes[id as usize - 1] = Some(self.starting(id).join().unwrap());
    }

    fn end(&mut self, id: u64) {
        self.nodes[id as usize - 1] = None;
    }

    /// What whoever leads answers.
    fn ask(&self, ask: &Ask) -> Answer {
        let body = encode_ask(ask);
        let clients: Vec<_> = self.nodes.iter().flatten().map(Client::to).collect();
        for client in clients.iter().cycle() {
            let reply = client.call(weft_protocol::Ask { body: &body });
            match decode_answer(AskReply::decode(&reply).unwrap().body).unwrap() {
                Answer::NotLeader { .. } | Answer::Unavailable => {
                    thread::sleep(Duration::from_millis(10));
                }
                answer => return answer,
            }
        }
        unreachable!("they are asked until one answers")
    }

    fn propose(&mut self, command: Command) -> Result<Outcome, Denial> {
        self.proposed += 1;
        let id = ProposalId(self.proposed);
        match self.ask(&Ask::Propose(Proposal { id, command })) {
            Answer::Decided(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    }

    /// Has the node leave, and waits until it is no coordinator.
    fn remove(&mut self) {
        self.propose(Command::Leave { node: NodeId(LEAVING) }).unwrap();
        self.until(|status| status.coordinators.iter().all(|one| one.node != LEAVING));
    }

    /// Has the node leave, and waits until the cluster knows it no more.
    fn leave(&mut self) {
        self.remove();
        self.until(|status| status.nodes.iter().all(|node| node.member.unwrap().node != LEAVING));
    }

    fn until(&self, is_so: impl Fn(&StatusResponse) -> bool) {
        loop {
            match self.ask(&Ask::Status) {
                Answer::Status(status) if is_so(&status) => return,
                Answer::Status(_) => thread::sleep(Duration::from_millis(10)),
                other => panic!("{other:?}"),
            }
        }
    }

    /// The member that the log of the node that leaves is of, while it is stopped.
    fn member(&self) -> u64 {
        let mut log = RocksLog::open(&self.directory(LEAVING).join("coordinator")).unwrap();
        log.recover().unwrap().identity.raft.0
    }

    fn await_three_votes(&self) {
        self.until(|status| voters(status) == 3 && status.wanted_voters == 3);
    }

    /// Whether the log is there of the member that it is or was, and the one of the member before.
    fn logs(&self) -> [bool; 2] {
        let directory = self.directory(LEAVING);
        ["coordinator", "coordinator.removed"].map(|name| directory.join(name).exists())
    }
}

fn voters(status: &StatusResponse) -> usize {
    status.coordinators.iter().filter(|coordinator| coordinator.is_voter).count()
}

#[test]
fn a_node_that_was_removed_while_it_was_stopped_is_another_coordinator_when_it_comes_back() {
    let mut three = Nodes::start(3);
    three.end(LEAVING);
    let mut members = vec![three.member()];
    for _ in 0..2 {
        three.leave();
        // It begins with the log of a member that is none any more, and learns so.
        three.begin(LEAVING);
        three.await_three_votes();
        three.end(LEAVING);
        members.push(three.member());
    }
    assert!(members.is_sorted_by(|earlier, later| earlier < later), "{members:?}");
}

#[test]
fn a_node_that_learned_that_it_was_removed_keeps_its_log_until_it_has_another() {
    let mut three = Nodes::start(3);
    three.leave();
    three.until(|status| voters(status) == 1 && status.wanted_voters == 1);
    three.end(LEAVING);
    assert_eq!(three.logs(), [true, false]);
    three.begin(LEAVING);
    three.await_three_votes();
    three.end(LEAVING);
    assert_eq!(three.logs(), [true, true]);
    assert!(three.member() > FIRST_MEMBERS);
}

/// Else its vote would be counted on, and nobody would be there to give it.
#[test]
fn a_node_that_is_to_coordinate_no_more_loses_its_vote() {
    let mut three = Nodes::start(3);
    three.end(LEAVING);
    three.nodes[LEAVING as usize - 1] =
        Some(three.starting_with(LEAVING, Some("storage")).join().unwrap());
    three.until(|status| {
        let is_there = status.coordinators.iter().any(|one| one.node == LEAVING);
        !is_there && voters(status) == 1 && status.wanted_voters == 1
    });
    three.end(LEAVING);
    three.begin(LEAVING);
    three.await_three_votes();
}

/// Nobody starts it anew for that.
#[test]
fn a_node_that_was_one_too_many_coordinates_when_another_has_left() {
    let mut six = Nodes::start_with(6, 3);
    six.until(|status| voters(status) == 5 && status.coordinators.len() == 5);
    let Answer::Status(status) = six.ask(&Ask::Status) else { panic!("a leader answers") };
    let coordinates = |id: &u64| status.coordinators.iter().any(|one| one.node == *id);
    let leaves = |id: &u64| coordinates(id) && *id != 1;
    let leaving = (1..=6).find(leaves).unwrap();
    let spare = (1..=6).find(|id| !coordinates(id)).unwrap();
    six.propose(Command::Leave { node: NodeId(leaving) }).unwrap();
    six.until(|status| {
        let is_voter =
            |node| status.coordinators.iter().any(|one| one.node == node && one.is_voter);
        voters(status) == 5 && is_voter(spare) && !is_voter(leaving)
    });
}

#[test]
fn a_node_that_stays_after_all_is_a_coordinator_again() {
    // What one has is to be copied before it is forgotten.
    let mut three = Nodes::start(1);
    three.remove();
    // It may have been, all the same.
    while three.propose(Command::Stay { node: NodeId(LEAVING) }).is_err() {
        three.end(LEAVING);
        three.begin(LEAVING);
        three.await_three_votes();
        three.remove();
    }
    three.await_three_votes();
    three.end(LEAVING);
    assert!(three.member() > FIRST_MEMBERS);
}
