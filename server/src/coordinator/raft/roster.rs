//! Which node is which member, and the highest id that was ever handed out: agreed like the rest, and kept in the snapshot with the state.

use std::collections::BTreeMap;

use prost::Message;
use raft::eraftpb::ConfState;
use weft_transport::NodeId;

use super::identity::RaftId;
use super::state_machine::{ProposalId, RestoreError};

/// Admissions that are remembered, those of members that are gone included: questions come late by seconds, not by so many disks that were lost.
const ADMISSIONS_KEPT: usize = 64;

/// What a member may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberRole {
    /// Counts in elections and for commits.
    Voter,
    /// Is given everything and counts for nothing.
    Learner,
}

/// A member, and the node that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaftMember {
    /// The member.
    pub raft: RaftId,
    /// Its node.
    pub node: NodeId,
    /// What it may do.
    pub role: MemberRole,
}

/// Members by id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Roster {
    nodes: BTreeMap<u64, NodeId>,
    /// Under which proposal the latest were admitted, those that are gone included: a node that asks again is told which member it is, by whoever leads then,
    /// and a question that comes late admits nobody in the place of a member that has a log.
    admissions: BTreeMap<u64, ProposalId>,
    /// Ids up to this one were handed out. One of them that is no member's is a former member's, and nobody's ever again.
    highest: u64,
}

impl Roster {
    pub(super) fn founding(members: &[(RaftId, NodeId)]) -> Roster {
        let nodes: BTreeMap<u64, NodeId> =
            members.iter().map(|(raft_id, node)| (raft_id.0, *node)).collect();
        let highest = nodes.keys().copied().max().unwrap_or(0);
        Roster { nodes, admissions: BTreeMap::new(), highest }
    }

    /// The member that was admitted under `proposal`. It may be none any more.
    pub(super) fn admitted(&self, proposal: ProposalId) -> Option<u64> {
        self.admissions.iter().find(|(_, other)| **other == proposal).map(|(id, _)| *id)
    }

    /// The id for the next member.
    pub(super) fn next_id(&self) -> u64 {
        self.highest + 1
    }

    /// Whether `id` has never been handed out.
    pub(super) fn is_unused(&self, id: u64) -> bool {
        id > self.highest
    }

    /// Whether `id` was a member's that is gone.
    pub(super) fn is_former(&self, id: u64) -> bool {
        id <= self.highest && !self.nodes.contains_key(&id)
    }

    pub(super) fn node(&self, id: u64) -> Option<NodeId> {
        self.nodes.get(&id).copied()
    }

    /// Members that `node` is: at most one but for a moment.
    pub(super) fn ids_of(&self, node: NodeId) -> impl Iterator<Item = u64> + '_ {
        self.nodes.iter().filter(move |(_, owner)| **owner == node).map(|(id, _)| *id)
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn add(&mut self, id: u64, node: NodeId, proposal: ProposalId) {
        self.highest = self.highest.max(id);
        self.nodes.insert(id, node);
        self.admissions.insert(id, proposal);
        if self.admissions.len() > ADMISSIONS_KEPT {
            self.admissions.pop_first();
        }
    }

    /// Forgets who is no member any more.
    pub(super) fn keep_members_of(&mut self, conf_state: &ConfState) {
        self.nodes.retain(|id, _| is_member(conf_state, *id));
    }

    /// All members.
    pub(super) fn members(&self, conf_state: &ConfState) -> Vec<RaftMember> {
        let votes =
            |id| conf_state.voters.contains(&id) || conf_state.voters_outgoing.contains(&id);
        let role = |id: u64| if votes(id) { MemberRole::Voter } else { MemberRole::Learner };
        let member = |(id, node): (&u64, &NodeId)| RaftMember {
            raft: RaftId(*id),
            node: *node,
            role: role(*id),
        };
        self.nodes.iter().map(member).collect()
    }
}

/// Whether `id` is in a configuration in any way.
pub(super) fn is_member(conf_state: &ConfState, id: u64) -> bool {
    let ConfState { voters, learners, voters_outgoing, learners_next, auto_leave: _ } = conf_state;
    [voters, learners, voters_outgoing, learners_next].iter().any(|ids| ids.contains(&id))
}

/// The data of a snapshot, as it is stored and sent.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StateRecord {
    #[prost(uint64, tag = "1")]
    highest: u64,
    #[prost(message, repeated, tag = "2")]
    members: Vec<MemberRecord>,
    #[prost(bytes = "vec", tag = "3")]
    state: Vec<u8>,
    /// CRC32C of `state`: a snapshot travels, and is kept for long.
    #[prost(fixed32, tag = "4")]
    checksum: u32,
    #[prost(message, repeated, tag = "5")]
    admissions: Vec<AdmissionRecord>,
}

#[derive(Clone, PartialEq, Message)]
struct MemberRecord {
    #[prost(uint64, tag = "1")]
    raft: u64,
    #[prost(uint64, tag = "2")]
    node: u64,
}

/// A member, and the halves of the proposal under which it was admitted.
#[derive(Clone, PartialEq, Message)]
struct AdmissionRecord {
    #[prost(uint64, tag = "1")]
    raft: u64,
    #[prost(fixed64, tag = "2")]
    high: u64,
    #[prost(fixed64, tag = "3")]
    low: u64,
}

impl StateRecord {
    /// The data of a snapshot of roster and state.
    pub(super) fn encode(roster: &Roster, state: Vec<u8>) -> Vec<u8> {
        let member = |(raft, node): (&u64, &NodeId)| MemberRecord { raft: *raft, node: node.0 };
        let admission = |(raft, proposal): (&u64, &ProposalId)| AdmissionRecord {
            raft: *raft,
            high: (proposal.0 >> 64) as u64,
            low: proposal.0 as u64,
        };
        let checksum = crc32c::crc32c(&state);
        let members = roster.nodes.iter().map(member).collect();
        let admissions = roster.admissions.iter().map(admission).collect();
        StateRecord { highest: roster.highest, members, state, checksum, admissions }
            .encode_to_vec()
    }

    /// Roster and state of a snapshot's data.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Roster, Vec<u8>), RestoreError> {
        let record: StateRecord = Message::decode(bytes)
            .map_err(|error: prost::DecodeError| RestoreError(error.to_string()))?;
        if crc32c::crc32c(&record.state) != record.checksum {
            return Err(RestoreError("its checksum does not fit".to_owned()));
        }
        let nodes =
            record.members.iter().map(|member| (member.raft, NodeId(member.node))).collect();
        let admission = |record: &AdmissionRecord| {
            let proposal = u128::from(record.high) << 64 | u128::from(record.low);
            (record.raft, ProposalId(proposal))
        };
        let admissions = record.admissions.iter().map(admission).collect();
        Ok((Roster { nodes, admissions, highest: record.highest }, record.state))
    }
}

/// What an entry that changes the members carries besides the change: the nodes of those who come.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Arrivals {
    #[prost(message, repeated, tag = "1")]
    members: Vec<MemberRecord>,
}

impl Arrivals {
    pub(super) fn one(id: u64, node: NodeId) -> Vec<u8> {
        Arrivals { members: vec![MemberRecord { raft: id, node: node.0 }] }.encode_to_vec()
    }

    pub(super) fn nodes(bytes: &[u8]) -> Option<BTreeMap<u64, NodeId>> {
        let arrivals: Arrivals = Message::decode(bytes).ok()?;
        Some(arrivals.members.iter().map(|member| (member.raft, NodeId(member.node))).collect())
    }
}
