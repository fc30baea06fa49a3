//! A coordinator of one: the state machine that the coordinators share, which answers what one node asks.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use weft_protocol::control::v1;
use weft_protocol::{Member, PartitionId, TableClass, TableId, TableOptions};
use weft_transport::{Clock, Incarnation, NodeId};

use crate::control::table;
use crate::coordinator::{
    Answer, Ask, ClusterId, ClusterState, Command, Denial, Found, Join, Liveness, NodeDescription,
    Outcome, Partition, Planner, Proposal, ProposalId, Standing, Timing, Worker, WorkerDescription,
    WorkerId, cluster_map_of,
};
use crate::handler::{NodeHandler, NodeOptions};
use crate::memory::NodeMemory;

/// What a cluster agrees about, and the node that asks.
pub(crate) struct LoneCoordinator {
    pub(crate) node: Arc<NodeHandler>,
    pub(super) state: Mutex<ClusterState>,
}

impl LoneCoordinator {
    /// Nodes 1 to 3, each of which has both partitions.
    pub(crate) fn of_three_nodes() -> Arc<LoneCoordinator> {
        let me = Member { node: NodeId(1), incarnation: Incarnation(1) };
        let memory = NodeMemory::divide(64 << 20).unwrap();
        let node = NodeHandler::new(NodeOptions::new(me, memory, Clock::system(), 7)).unwrap();
        let coordinator = LoneCoordinator { node: Arc::new(node), state: Mutex::default() };
        let partitions_per_class = 2;
        coordinator.apply(Command::Found(Found {
            cluster: ClusterId(5),
            default_table: TableOptions::default(),
            partitions_per_class,
            wire_version: 1,
            timing: Timing::default(),
            is_kept: true,
        }));
        for node in 1..=3 {
            coordinator.apply(Command::Join(Join {
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
        let members: Vec<Member> =
            coordinator.state.lock().nodes().map(|node| node.member()).collect();
        let mut other = members.clone();
        other.rotate_left(2);
        let class = TableClass::DEFAULT;
        coordinator.apply(Command::Place { class, partitions: vec![members, other] });
        coordinator.have_node_learn();
        Arc::new(coordinator)
    }

    /// Answers what the node asks.
    pub(crate) async fn answer(self: Arc<Self>) {
        let questions = &self.node.coordination.questions;
        questions.open();
        loop {
            let question = poll_fn(|context| match questions.take(context.waker()) {
                Some(question) => Poll::Ready(question),
                None => Poll::Pending,
            });
            let (ask, reply) = question.await;
            reply(self.answer_to(&ask));
        }
    }

    #[track_caller]
    pub(crate) fn apply(&self, command: Command) -> Outcome {
        let proposal = Proposal { id: ProposalId::NONE, command };
        self.state.lock().apply(&proposal).unwrap()
    }

    pub(crate) fn partition(&self, id: PartitionId) -> Partition {
        self.state.lock().partition(id).unwrap().clone()
    }

    pub(crate) fn mark_down(&self, node: NodeId) {
        let member = self.state.lock().node(node).unwrap().member();
        self.apply(Command::MarkDown { member });
    }

    pub(crate) fn remove_member(&self, partition: PartitionId, node: NodeId) {
        let expected_epoch = self.partition(partition).configuration.epoch;
        let member = self.state.lock().node(node).unwrap().member();
        self.apply(Command::RemoveMember { partition, expected_epoch, member });
    }

    /// As if the node had been told what was committed.
    pub(crate) fn have_node_learn(&self) {
        let state = self.state.lock();
        let map = cluster_map_of(state.version(), state.nodes(), state.partitions()).unwrap();
        self.node.maps.replace(map);
    }

    fn answer_to(&self, ask: &Ask) -> Answer {
        match ask {
            Ask::Propose(proposal) => {
                let mut state = self.state.lock();
                let mut proposal = proposal.clone();
                if let Command::AcceptLoss { partition, .. } = proposal.command
                    && let Some(chosen) =
                        Planner::accept_loss(&state, &Liveness::new(Duration::ZERO), partition)
                {
                    proposal.command = chosen;
                }
                let applied = state.apply(&proposal);
                Answer::Decided(applied.map_err(|rejection| Denial::from(&rejection)))
            }
            Ask::Status => Answer::Status(Box::new(self.status())),
            Ask::Tables => Answer::Tables(Box::new(self.tables())),
            Ask::Workers => Answer::Workers(Box::new(self.workers())),
            _ => Answer::Unavailable,
        }
    }

    fn status(&self) -> v1::StatusResponse {
        let state = self.state.lock();
        let holds = |node: NodeId| state.partitions().filter(move |(_, one)| one.involves(node));
        let nodes = state.nodes().map(|node| {
            let standing = match node.standing() {
                Standing::Up => v1::Standing::Up,
                Standing::Down => v1::Standing::Down,
                Standing::Leaving => v1::Standing::Leaving,
                Standing::LeavingDown => v1::Standing::LeavingDown,
            };
            let is_primary = |(_, one): &(PartitionId, &Partition)| {
                one.configuration.primary == Some(node.member())
            };
            v1::Node {
                member: Some(member(node.member())),
                standing: standing.into(),
                data_address: node.description.data_address.clone(),
                control_address: node.description.control_address.clone(),
                zone: node.description.zone.clone(),
                capacity_bytes: node.description.capacity_bytes,
                is_diskless: node.description.is_diskless,
                heard_ms_ago: Some(3),
                primaries: holds(node.id).filter(is_primary).count() as u32,
                replicas: holds(node.id).count() as u32,
            }
        });
        let partitions = state.partitions().map(|(id, partition)| {
            let configuration = &partition.configuration;
            v1::Partition {
                partition: id.0.into(),
                first_slot: partition.first_slot.number().into(),
                last_slot: partition.last_slot.number().into(),
                replicas: partition.class.replicas.into(),
                durability: v1::Durability::Memory.into(),
                epoch: configuration.epoch,
                primary: configuration.primary.map(member),
                members: configuration.members.iter().copied().map(member).collect(),
                learners: Vec::new(),
                min_in_sync: configuration.min_in_sync.into(),
                is_lost: configuration.is_lost,
                is_starting: false,
                is_unused: false,
            }
        });
        v1::StatusResponse {
            cluster_id: vec![0; 16],
            map_version: state.version(),
            coordinators: Vec::new(),
            nodes: nodes.collect(),
            partitions: partitions.collect(),
            wanted_voters: 0,
            unplaced_kinds: 0,
        }
    }

    fn tables(&self) -> v1::ListTablesResponse {
        let state = self.state.lock();
        let catalog = state.catalog();
        let default = catalog.default_options();
        let default = table::message(TableId::DEFAULT, TableId::DEFAULT_NAME, default);
        let others = catalog.tables().iter();
        let others = others.map(|entry| table::message(entry.id, &entry.name, entry.options));
        let tables = std::iter::once(default).chain(others).collect();
        v1::ListTablesResponse { catalog_version: catalog.version(), tables }
    }

    fn workers(&self) -> v1::ListWorkersResponse {
        let state = self.state.lock();
        let message = |(worker, known): (WorkerId, &Worker)| {
            let WorkerDescription { address, slots, build, process } = known.description.clone();
            v1::Worker { worker: worker.0, address, slots, build, process }
        };
        v1::ListWorkersResponse { workers: state.workers().map(message).collect() }
    }
}

fn member(member: Member) -> v1::Member {
    v1::Member { node: member.node.0, incarnation: member.incarnation.0 }
}
