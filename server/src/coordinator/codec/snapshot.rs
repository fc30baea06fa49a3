//! The whole state as bytes.

use std::collections::BTreeMap;

use weft_protocol::limits::{NODES_MAX, TABLES_MAX};
use weft_protocol::{Catalog, Configuration, PartitionId, Slot, TableClass, TableEntry, TableId};
use weft_transport::{Incarnation, NodeId};

use super::fields::{
    ClassMessage, ConfigurationMessage, DescriptionMessage, OptionsMessage, TimingMessage, Wide,
};
use super::outcome::OutcomeMessage;
use super::worker::{self, WorkerMessage};
use super::{CodecError, format_of_state, narrow, required};
use crate::coordinator::class::PartitionRun;
use crate::coordinator::command::{ClientId, ClusterId, ProposalId};
use crate::coordinator::history::{Gone, History};
use crate::coordinator::node::Node;
use crate::coordinator::partition::Partition;
use crate::coordinator::proposals::Proposals;
use crate::coordinator::state::ClusterState;
use crate::limits::{CLIENTS_MAX, HISTORY_MAX, PROPOSALS_MAX};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SnapshotMessage {
    #[prost(uint32, tag = "1")]
    pub(super) format: u32,
    #[prost(message, optional, tag = "2")]
    cluster: Option<Wide>,
    #[prost(uint64, tag = "3")]
    version: u64,
    #[prost(uint32, tag = "4")]
    wire_version: u32,
    #[prost(uint32, tag = "5")]
    partitions_per_class: u32,
    #[prost(message, optional, tag = "16")]
    timing: Option<TimingMessage>,
    #[prost(bool, tag = "17")]
    is_kept: bool,
    #[prost(message, repeated, tag = "6")]
    nodes: Vec<NodeMessage>,
    #[prost(message, repeated, tag = "7")]
    classes: Vec<ClassEntry>,
    #[prost(message, repeated, tag = "8")]
    partitions: Vec<PartitionMessage>,
    #[prost(message, optional, tag = "9")]
    catalog: Option<CatalogMessage>,
    #[prost(uint64, tag = "10")]
    last_client: u64,
    /// Each client and how often its lease was renewed.
    #[prost(uint64, repeated, tag = "11")]
    clients: Vec<u64>,
    #[prost(uint64, repeated, tag = "12")]
    renewals: Vec<u64>,
    #[prost(uint64, tag = "13")]
    history_complete_since: u64,
    #[prost(message, repeated, tag = "14")]
    history: Vec<GoneMessage>,
    #[prost(message, repeated, tag = "15")]
    proposals: Vec<AcceptedMessage>,
    #[prost(uint64, tag = "18")]
    last_worker: u64,
    #[prost(message, repeated, tag = "19")]
    workers: Vec<WorkerMessage>,
    #[prost(uint64, tag = "20")]
    last_renewal: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NodeMessage {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    incarnation: u64,
    #[prost(message, optional, tag = "3")]
    description: Option<DescriptionMessage>,
    #[prost(uint32, tag = "4")]
    wire_version: u32,
    #[prost(bool, tag = "5")]
    is_up: bool,
    #[prost(bool, tag = "6")]
    is_leaving: bool,
    #[prost(bool, tag = "7")]
    is_settled: bool,
    #[prost(uint64, tag = "8")]
    changed_at: u64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct ClassEntry {
    #[prost(message, optional, tag = "1")]
    class: Option<ClassMessage>,
    /// The first of its partitions, if they were placed: there are as many as of each class.
    #[prost(uint32, optional, tag = "2")]
    first: Option<u32>,
}

/// The class follows from the number.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PartitionMessage {
    #[prost(message, optional, tag = "1")]
    configuration: Option<ConfigurationMessage>,
    #[prost(uint32, tag = "2")]
    born_in: u32,
    #[prost(uint64, tag = "3")]
    changed_at: u64,
    #[prost(uint32, tag = "4")]
    first_slot: u32,
    #[prost(uint32, tag = "5")]
    last_slot: u32,
    #[prost(uint64, tag = "6")]
    primary_since: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CatalogMessage {
    #[prost(uint64, tag = "1")]
    version: u64,
    #[prost(uint32, tag = "2")]
    last: u32,
    #[prost(message, optional, tag = "3")]
    default: Option<OptionsMessage>,
    #[prost(message, repeated, tag = "4")]
    tables: Vec<TableMessage>,
    #[prost(uint64, tag = "5")]
    changed_at: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TableMessage {
    #[prost(uint32, tag = "1")]
    id: u32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, optional, tag = "3")]
    options: Option<OptionsMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct GoneMessage {
    #[prost(uint64, tag = "1")]
    version: u64,
    #[prost(oneof = "GoneOf", tags = "2, 3")]
    gone: Option<GoneOf>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum GoneOf {
    #[prost(uint64, tag = "2")]
    Node(u64),
    #[prost(uint64, tag = "3")]
    Client(u64),
}

#[derive(Clone, PartialEq, prost::Message)]
struct AcceptedMessage {
    #[prost(message, optional, tag = "1")]
    id: Option<Wide>,
    #[prost(message, optional, tag = "2")]
    outcome: Option<OutcomeMessage>,
}

impl From<&ClusterState> for SnapshotMessage {
    fn from(state: &ClusterState) -> Self {
        let classes = state.classes.iter().map(|(class, run)| ClassEntry {
            class: Some((*class).into()),
            first: run.map(|run| u32::from(run.first.0)),
        });
        let history = state.history.iter().map(|(version, gone)| {
            let gone = match gone {
                Gone::Node(node) => GoneOf::Node(node.0),
                Gone::Client(client) => GoneOf::Client(client.0),
            };
            GoneMessage { version, gone: Some(gone) }
        });
        let proposals = state.proposals.iter().map(|(id, outcome)| AcceptedMessage {
            id: Some(id.0.into()),
            outcome: Some(outcome.into()),
        });
        Self {
            format: format_of_state(state),
            cluster: state.cluster.map(|cluster| cluster.0.into()),
            version: state.version,
            wire_version: u32::from(state.wire_version),
            partitions_per_class: u32::from(state.partitions_per_class),
            timing: Some(state.timing.into()),
            is_kept: state.is_kept,
            nodes: state.nodes.values().map(Into::into).collect(),
            classes: classes.collect(),
            partitions: state.partitions.iter().map(Into::into).collect(),
            catalog: Some(CatalogMessage::of(&state.catalog, state.catalog_changed_at)),
            last_client: state.last_client,
            clients: state.clients.keys().map(|client| client.0).collect(),
            renewals: state.clients.values().copied().collect(),
            history_complete_since: state.history.complete_since(),
            history: history.collect(),
            proposals: proposals.collect(),
            last_worker: state.last_worker,
            last_renewal: state.last_renewal,
            workers: worker::messages(&state.workers),
        }
    }
}

impl TryFrom<SnapshotMessage> for ClusterState {
    type Error = CodecError;

    fn try_from(message: SnapshotMessage) -> Result<Self, CodecError> {
        for (field, count, limit) in [
            ("nodes", message.nodes.len(), NODES_MAX),
            ("clients", message.clients.len(), CLIENTS_MAX),
            ("history", message.history.len(), HISTORY_MAX),
            ("proposals", message.proposals.len(), PROPOSALS_MAX),
        ] {
            if count > limit {
                return Err(CodecError::ListTooLong { field });
            }
        }
        let count = narrow(message.partitions_per_class, "partitions_per_class")?;
        let classes = classes(&message.classes, count)?;
        let catalog = required(message.catalog, "catalog")?;
        let mut state = Self {
            cluster: message.cluster.map(|cluster| ClusterId(cluster.into())),
            version: message.version,
            wire_version: narrow(message.wire_version, "wire_version")?,
            partitions_per_class: count,
            timing: required(message.timing, "timing")?.try_into()?,
            is_kept: message.is_kept,
            nodes: nodes(message.nodes)?,
            partitions: partitions(message.partitions, &classes)?,
            classes,
            catalog_changed_at: catalog.changed_at,
            catalog: catalog.try_into()?,
            last_client: message.last_client,
            clients: clients(message.clients, message.renewals, message.last_client)?,
            last_worker: message.last_worker,
            last_renewal: message.last_renewal,
            workers: worker::workers(message.workers, message.last_worker, message.last_renewal)?,
            history: History::default(),
            proposals: Proposals::default(),
        };
        let gone = message.history.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        state.history = History::restored(message.history_complete_since, gone);
        for accepted in message.proposals {
            let id = ProposalId(required(accepted.id, "proposal id")?.into());
            state.proposals.remember(id, required(accepted.outcome, "outcome")?.try_into()?);
        }
        check(&state)?;
        Ok(state)
    }
}

/// What a state promises about its parts: see [`ClusterState`].
fn check(state: &ClusterState) -> Result<(), CodecError> {
    let refuse = |field| Err(CodecError::Field { field });
    for run in state.classes.values().flatten() {
        let mut next = 0;
        for partition in &state.partitions[run.positions()] {
            let (first, last) = (partition.first_slot.number(), partition.last_slot.number());
            if first != next || last < first {
                return refuse("slots");
            }
            next = last + 1;
        }
        if next != Slot::COUNT {
            return refuse("slots");
        }
    }
    for partition in &state.partitions {
        let Configuration { ref members, ref learners, is_lost, .. } = partition.configuration;
        if members.is_empty() != is_lost {
            return refuse("members");
        }
        let mut all = members.iter().chain(learners);
        if !all.all(|member| state.is_current(*member)) {
            return refuse("members");
        }
        if learners.iter().any(|learner| members.iter().any(|other| other.node == learner.node)) {
            return refuse("learners");
        }
    }
    Ok(())
}

impl From<&Node> for NodeMessage {
    fn from(node: &Node) -> Self {
        Self {
            id: node.id.0,
            incarnation: node.incarnation.0,
            description: Some((&node.description).into()),
            wire_version: u32::from(node.wire_version),
            is_up: node.is_up,
            is_leaving: node.is_leaving,
            is_settled: node.is_settled,
            changed_at: node.changed_at,
        }
    }
}

impl TryFrom<NodeMessage> for Node {
    type Error = CodecError;

    fn try_from(message: NodeMessage) -> Result<Self, CodecError> {
        let node = Self {
            id: NodeId(message.id),
            incarnation: Incarnation(message.incarnation),
            description: required(message.description, "description")?.into(),
            wire_version: narrow(message.wire_version, "wire_version")?,
            is_up: message.is_up,
            is_leaving: message.is_leaving,
            is_settled: message.is_settled,
            changed_at: message.changed_at,
        };
        let is_node = node.description.check().is_ok();
        if is_node { Ok(node) } else { Err(CodecError::Field { field: "nodes" }) }
    }
}

fn nodes(messages: Vec<NodeMessage>) -> Result<BTreeMap<NodeId, Node>, CodecError> {
    let mut nodes = BTreeMap::new();
    for message in messages {
        let node = Node::try_from(message)?;
        if nodes.insert(node.id, node).is_some() {
            return Err(CodecError::Field { field: "nodes" });
        }
    }
    Ok(nodes)
}

fn classes(
    entries: &[ClassEntry],
    count: u16,
) -> Result<BTreeMap<TableClass, Option<PartitionRun>>, CodecError> {
    let mut classes = BTreeMap::new();
    for entry in entries {
        let class = required(entry.class, "class")?.try_into()?;
        let run = entry.first.map(|first| run(first, count)).transpose()?;
        if classes.insert(class, run).is_some() {
            return Err(CodecError::Field { field: "classes" });
        }
    }
    Ok(classes)
}

pub(super) fn run(first: u32, count: u16) -> Result<PartitionRun, CodecError> {
    let is_run = first.saturating_add(u32::from(count)) <= 1 << 16;
    let first = is_run.then_some(first);
    let first = PartitionId(narrow(required(first, "first partition")?, "first partition")?);
    Ok(PartitionRun { first, count })
}

impl From<&Partition> for PartitionMessage {
    fn from(partition: &Partition) -> Self {
        Self {
            configuration: Some((&partition.configuration).into()),
            born_in: partition.born_in,
            changed_at: partition.changed_at,
            primary_since: partition.primary_since,
            first_slot: u32::from(partition.first_slot.number()),
            last_slot: u32::from(partition.last_slot.number()),
        }
    }
}

/// The partitions, each of which is of one class.
fn partitions(
    messages: Vec<PartitionMessage>,
    classes: &BTreeMap<TableClass, Option<PartitionRun>>,
) -> Result<Vec<Partition>, CodecError> {
    let refused = CodecError::Field { field: "partitions" };
    let mut class_of = vec![None; messages.len()];
    for (class, run) in classes {
        let Some(run) = run else { continue };
        let of_class = class_of.get_mut(run.positions()).ok_or_else(|| refused.clone())?;
        for slot in of_class {
            if slot.replace(*class).is_some() {
                return Err(refused);
            }
        }
    }
    let of_class = |(message, class): (PartitionMessage, Option<TableClass>)| {
        message.of_class(required(class, "class")?)
    };
    messages.into_iter().zip(class_of).map(of_class).collect()
}

impl PartitionMessage {
    /// The partition, of a class that is known.
    pub(super) fn of_class(self, class: TableClass) -> Result<Partition, CodecError> {
        let slot = |number| {
            let slot = Slot::from_number(narrow(number, "slot")?);
            required(slot, "slot")
        };
        Ok(Partition {
            class,
            first_slot: slot(self.first_slot)?,
            last_slot: slot(self.last_slot)?,
            configuration: required(self.configuration, "configuration")?.try_into()?,
            born_in: self.born_in,
            changed_at: self.changed_at,
            primary_since: self.primary_since,
        })
    }
}

impl CatalogMessage {
    pub(super) fn of(catalog: &Catalog, changed_at: u64) -> Self {
        let table = |table: &TableEntry| TableMessage {
            id: u32::from(table.id.0),
            name: table.name.clone(),
            options: Some(table.options.into()),
        };
        Self {
            version: catalog.version(),
            last: u32::from(catalog.last_given().0),
            default: Some(catalog.default_options().into()),
            tables: catalog.tables().iter().map(table).collect(),
            changed_at,
        }
    }
}

impl TryFrom<CatalogMessage> for Catalog {
    type Error = CodecError;

    fn try_from(message: CatalogMessage) -> Result<Self, CodecError> {
        if message.tables.len() > TABLES_MAX {
            return Err(CodecError::ListTooLong { field: "tables" });
        }
        let table = |message: TableMessage| {
            let options = required(message.options, "options")?.try_into()?;
            Ok(TableEntry {
                id: TableId(narrow(message.id, "table id")?),
                name: message.name,
                options,
            })
        };
        let tables = message.tables.into_iter().map(table).collect::<Result<_, CodecError>>()?;
        let default = required(message.default, "default")?.try_into()?;
        let last = TableId(narrow(message.last, "last table")?);
        let restored = Self::restored(message.version, last, default, tables);
        restored.map_err(|_| CodecError::Field { field: "tables" })
    }
}

fn clients(
    ids: Vec<u64>,
    renewals: Vec<u64>,
    last: u64,
) -> Result<BTreeMap<ClientId, u64>, CodecError> {
    let count = ids.len();
    let ids = ids.into_iter().map(ClientId);
    let clients: BTreeMap<_, _> = ids.zip(renewals).collect();
    let are_given_out = clients.keys().all(|client| (1..=last).contains(&client.0));
    if clients.len() == count && are_given_out {
        return Ok(clients);
    }
    Err(CodecError::Field { field: "clients" })
}

impl TryFrom<GoneMessage> for (u64, Gone) {
    type Error = CodecError;

    fn try_from(message: GoneMessage) -> Result<Self, CodecError> {
        let gone = match required(message.gone, "gone")? {
            GoneOf::Node(node) => Gone::Node(NodeId(node)),
            GoneOf::Client(client) => Gone::Client(ClientId(client)),
        };
        Ok((message.version, gone))
    }
}
