//! Who is a member: changed one change at a time, by joint consensus, and never to where the members that live are no majority.
//!
//! A node that has a log is a member, and one that has none asks to be admitted: it gets an id that was never used, and whatever member it
//! was before goes in the same change. It comes as a learner, and becomes a voter once it has the log.

use std::collections::BTreeMap;

use raft::StateRole;
use raft::eraftpb::{
    ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState,
};
use raft_codec::Message as _;
use weft_transport::{NodeId, Time};

use super::{RaftNode, Refused};
use crate::coordinator::raft::identity::RaftId;
use crate::coordinator::raft::limits::{INDEX_MAX, MEMBERS_MAX};
use crate::coordinator::raft::roster::{Arrivals, MemberRole, is_member};
use crate::coordinator::raft::state_machine::{ProposalId, StateMachine};

/// Entries that a learner may lack when it becomes a voter: what comes in while it is asked.
const BEHIND_MAX: u64 = 64;

impl<M: StateMachine> RaftNode<M> {
    /// Admits a node that has no log as a learner, in place of the member that it may have been. The answer,
    /// [`Changed`](super::Outcome::Changed), has its raft id: the node writes that down ([`Batch::joining`](super::Batch::joining)) before it says
    /// anything.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn admit(&mut self, now: Time, id: ProposalId, node: NodeId) -> Result<(), Refused> {
        self.check_leads()?;
        if node == self.identity.node {
            return Err(Refused::Leads);
        }
        let former: Vec<u64> = self.roster.ids_of(node).collect();
        if self.roster.len() >= MEMBERS_MAX + former.len() {
            return Err(Refused::Full(self.roster.len()));
        }
        let new = self.roster.next_id();
        let mut changes: Vec<ConfChangeSingle> =
            former.iter().map(|old| single(ConfChangeType::RemoveNode, *old)).collect();
        changes.push(single(ConfChangeType::AddLearnerNode, new));
        self.change(now, id, changes, Arrivals::one(new, node))
    }

    /// Makes a learner that has the log a voter.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn promote(&mut self, now: Time, id: ProposalId, member: RaftId) -> Result<(), Refused> {
        self.check_leads()?;
        if !self.conf_state().learners.contains(&member.0) {
            return Err(Refused::NoMember(member));
        }
        if !self.has_log(member) {
            let missing = self.behind(member).unwrap_or(self.raw.raft.raft_log.committed);
            return Err(Refused::Behind { member, missing });
        }
        self.change(now, id, vec![single(ConfChangeType::AddNode, member.0)], Vec::new())
    }

    /// Gives several members other roles at once, or none: those that are removed are gone for good. None of them is this member.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn reshape(
        &mut self,
        now: Time,
        id: ProposalId,
        roles: &[(RaftId, Option<MemberRole>)],
    ) -> Result<(), Refused> {
        self.check_leads()?;
        for (member, _) in roles {
            if *member == self.identity.raft {
                return Err(Refused::Leads);
            }
            if !is_member(&self.conf_state(), member.0) {
                return Err(Refused::NoMember(*member));
            }
        }
        let change = |(member, role): &(RaftId, Option<MemberRole>)| {
            let kind = match role {
                Some(MemberRole::Voter) => ConfChangeType::AddNode,
                Some(MemberRole::Learner) => ConfChangeType::AddLearnerNode,
                None => ConfChangeType::RemoveNode,
            };
            single(kind, member.0)
        };
        if roles.is_empty() {
            return Ok(());
        }
        self.change(now, id, roles.iter().map(change).collect(), Vec::new())
    }

    /// How many committed entries a member lacks, as far as its leader, which this one is, knows.
    pub fn behind(&self, member: RaftId) -> Option<u64> {
        let matched = self.raw.raft.prs().get(member.0)?.matched;
        Some(self.raw.raft.raft_log.committed.saturating_sub(matched))
    }

    /// Whether the member was heard lately.
    pub fn hears(&self, now: Time, member: RaftId) -> bool {
        self.lives(now, member.0)
    }

    /// The member that was admitted under a proposal, by this leader or one before it, as far as is applied here; and whether it still is one.
    pub fn admitted(&self, id: ProposalId) -> Option<(RaftId, bool)> {
        let raft = self.roster.admitted(id)?;
        Some((RaftId(raft), !self.roster.is_former(raft)))
    }

    /// Whether the member lives and has about all that is committed, so that it can become a voter, and be counted on as one.
    pub fn is_ready(&self, now: Time, member: RaftId) -> bool {
        self.hears(now, member) && self.has_log(member)
    }

    /// Whether a member has about all that is committed. One that has acknowledged nothing has no log, however short that is: the vote of whoever
    /// cannot be told anything would be missed at once.
    fn has_log(&self, member: RaftId) -> bool {
        let matched = self.raw.raft.prs().get(member.0).map_or(0, |progress| progress.matched);
        matched > 0 && self.raw.raft.raft_log.committed.saturating_sub(matched) <= BEHIND_MAX
    }

    /// Whether nobody votes but this member, which does.
    pub fn is_only_voter(&self) -> bool {
        let ConfState { voters, voters_outgoing, .. } = self.conf_state();
        voters == [self.identity.raft.0] && voters_outgoing.is_empty()
    }

    /// Removes a member for good: its id is nobody's from then on.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn remove(&mut self, now: Time, id: ProposalId, member: RaftId) -> Result<(), Refused> {
        self.check_leads()?;
        if member == self.identity.raft {
            return Err(Refused::Leads);
        }
        if !is_member(&self.conf_state(), member.0) {
            return Err(Refused::NoMember(member));
        }
        self.change(now, id, vec![single(ConfChangeType::RemoveNode, member.0)], Vec::new())
    }

    /// Whether a change of members is under way, as far as this member knows: until it is done, a majority of the voters before it and one of
    /// those after it are needed for everything.
    pub fn is_changing_members(&self) -> bool {
        self.raw.raft.has_pending_conf() || !self.conf_state().voters_outgoing.is_empty()
    }

    fn change(
        &mut self,
        now: Time,
        id: ProposalId,
        changes: Vec<ConfChangeSingle>,
        arrivals: Vec<u8>,
    ) -> Result<(), Refused> {
        let conf_state = self.conf_state();
        // raft-rs would take it, and commit an empty entry in its place.
        if self.is_changing_members() {
            return Err(Refused::ChangeUnderWay);
        }
        self.check_majority(now, &conf_state, &changes)?;
        let mut change = ConfChangeV2::default();
        change.set_transition(ConfChangeTransition::Implicit);
        change.changes = changes;
        change.context = arrivals;
        let context = id.0.to_le_bytes().to_vec();
        self.raw.propose_conf_change(context, change).map_err(|_| Refused::Busy)?;
        self.proposals.insert(id, ());
        Ok(())
    }

    /// A joint configuration needs a majority of the voters before and of those after.
    fn check_majority(
        &self,
        now: Time,
        conf_state: &ConfState,
        changes: &[ConfChangeSingle],
    ) -> Result<(), Refused> {
        let mut after = conf_state.voters.clone();
        for change in changes {
            after.retain(|id| *id != change.node_id);
            if change.change_type == ConfChangeType::AddNode as i32 {
                after.push(change.node_id);
            }
        }
        for voters in [&conf_state.voters, &after] {
            let living = voters.iter().filter(|id| self.lives(now, **id)).count();
            if living < raft::majority(voters.len()) {
                return Err(Refused::NoMajority { living, voters: voters.len() });
            }
        }
        Ok(())
    }

    fn lives(&self, now: Time, id: u64) -> bool {
        let heard = self.heard.get(&id);
        id == self.identity.raft.0
            || heard.is_some_and(|heard| now.since(heard.at) <= self.settings.silence_max())
    }

    /// Applies a change of members. `None` if it is none, or does not fit the members there are: then every member ignores it.
    pub(super) fn apply_change(
        &mut self,
        proposal: ProposalId,
        data: &[u8],
    ) -> Option<Option<RaftId>> {
        let change = ConfChangeV2::decode(data).ok()?;
        let known = |change: &ConfChangeSingle| {
            ConfChangeType::from_i32(change.change_type).is_some()
                && (1..=INDEX_MAX).contains(&change.node_id)
        };
        let is_joint = !self.conf_state().voters_outgoing.is_empty();
        let leaves = change.changes.is_empty();
        let has_kind = ConfChangeTransition::from_i32(change.transition).is_some();
        if !has_kind || !change.changes.iter().all(known) || leaves != is_joint {
            return None;
        }
        let arriving = self.arriving(&change)?;
        let conf_state = self.raw.apply_conf_change(&change).ok()?;
        arriving.iter().for_each(|(id, node)| self.roster.add(*id, *node, proposal));
        self.note_members(&conf_state);
        self.step_down_if_gone();
        // Whoever comes needs a snapshot with itself in it, and whoever goes must be gone from the next one.
        self.in_flight.want_snapshot();
        Some(arriving.keys().next().map(|id| RaftId(*id)))
    }

    /// A change that another leader proposed may remove the one that commits it. raft-rs leaves it leading, and panics at its next write.
    fn step_down_if_gone(&mut self) {
        let raft = &mut self.raw.raft;
        if raft.state != StateRole::Follower && !raft.promotable() {
            let term = raft.term;
            raft.become_follower(term, raft::INVALID_ID);
        }
    }

    /// Who comes with a change, by id; `None` if an id is not new, or its node is not named.
    fn arriving(&self, change: &ConfChangeV2) -> Option<BTreeMap<u64, NodeId>> {
        let nodes = Arrivals::nodes(&change.context)?;
        let is_new = |id: u64| !is_member(&self.conf_state(), id);
        let added = change
            .changes
            .iter()
            .filter(|single| single.change_type != ConfChangeType::RemoveNode as i32);
        let added = added.map(|single| single.node_id).filter(|id| is_new(*id));
        added
            .map(|id| nodes.get(&id).filter(|_| self.roster.is_unused(id)).map(|node| (id, *node)))
            .collect()
    }

    /// raft-rs leaves a joint configuration by itself, unless the leader changed at the wrong moment.
    pub(super) fn leave_joint(&mut self) {
        let is_stuck = self.check_leads().is_ok()
            && !self.conf_state().voters_outgoing.is_empty()
            && !self.raw.raft.has_pending_conf();
        if is_stuck {
            // If it is refused, the next tick tries again.
            let _ = self.raw.propose_conf_change(Vec::new(), ConfChangeV2::default());
        }
    }
}

fn single(kind: ConfChangeType, id: u64) -> ConfChangeSingle {
    let mut single = ConfChangeSingle::default();
    single.set_change_type(kind);
    single.node_id = id;
    single
}
