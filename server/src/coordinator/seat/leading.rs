//! What a leader does by itself: it plans, and sees to who is a coordinator.

use std::collections::BTreeMap;
use std::time::Duration;

use weft_transport::Time;

use super::Coordinator;
use super::members::{Step, next_step};
use super::proposing::Entry;
use crate::coordinator::command::Command;
use crate::coordinator::planner::{Planner, PlannerSettings};
use crate::coordinator::raft::{MemberRole, RaftId};

/// A learner that was admitted is waited for so long: it has to write its identity down, and to be sent the state.
const COMING_FOR: Duration = Duration::from_secs(30);

/// What a coordinator has only while it leads, in one term.
pub(super) struct Leading {
    pub(super) term: u64,
    planner: Planner,
    /// Whether everything of earlier terms is applied: before, the state may be one of long ago.
    pub(super) knows_all: bool,
    /// Whether a heartbeat has passed since it looked what is to be done.
    pub(super) is_due: bool,
    /// Whether there is something to be done as soon as members say that they know more.
    pub(super) awaits_word: bool,
    /// The version that was planned for. What changes no version, such as renewed leases, changes no plan either.
    planned: u64,
    /// Since when there are these members.
    members_since: BTreeMap<RaftId, Time>,
    began: Time,
}

impl Leading {
    pub(super) fn new(term: u64, settings: PlannerSettings, now: Time) -> Self {
        Self {
            term,
            planner: Planner::new(settings),
            knows_all: false,
            is_due: true,
            awaits_word: false,
            planned: 0,
            members_since: BTreeMap::new(),
            began: now,
        }
    }
}

impl Coordinator {
    /// Does what is due. Returns whether something was proposed.
    pub(super) fn lead(&mut self, now: Time) -> bool {
        let (applied, version) = (self.raft.applied(), self.state().version());
        let Some(leading) = &mut self.leading else { return false };
        leading.knows_all |= applied.term == leading.term;
        let is_due = leading.knows_all && (leading.is_due || leading.planned != version);
        if !is_due {
            return false;
        }
        leading.is_due = false;
        let has_reshaped = self.see_to_members(now);
        self.plan(now) || has_reshaped
    }

    fn plan(&mut self, now: Time) -> bool {
        let Self { raft, liveness, leading, proposing, .. } = self;
        let Some(leading) = leading else { return false };
        if proposing.has_plan_in_flight() {
            // What was heard meanwhile is looked at behind it, and not a heartbeat later.
            leading.is_due |= leading.awaits_word;
            return false;
        }
        leading.planned = raft.machine().state().version();
        let mut plan = leading.planner.plan(raft.machine().state(), liveness, now);
        leading.awaits_word = plan.awaits_word;
        // First it is none of the coordinators any more: whoever stops a node that is forgotten must not stop one that is needed for a majority.
        let members = raft.members();
        plan.commands.retain(|command| match command {
            Command::Forget { member } => members.iter().all(|other| other.node != member.node),
            _ => true,
        });
        self.propose_plan(plan.commands)
    }

    /// Changes who is a coordinator, if there is reason to.
    fn see_to_members(&mut self, now: Time) -> bool {
        let own = self.member();
        let Some(leading) = &mut self.leading else { return false };
        if self.raft.is_changing_members() {
            return false;
        }
        let members = self.raft.members();
        leading.members_since.retain(|raft, _| members.iter().any(|member| member.raft == *raft));
        for member in &members {
            leading.members_since.entry(member.raft).or_insert(now);
        }
        let state = self.raft.machine().state();
        let is_gone = |raft: RaftId| {
            let member = members.iter().find(|member| member.raft == raft);
            let node = member.and_then(|member| state.node(member.node));
            // One that has not joined yet is no reason: founders are coordinators before they are nodes.
            let has_left = node.is_none() && now.since(leading.began) > COMING_FOR;
            // In its present life it may be one that is no coordinator: nobody is there who could vote.
            has_left || node.is_some_and(|node| node.is_leaving || !node.description.is_coordinator)
        };
        let is_coming = |raft: RaftId| {
            let since = leading.members_since.get(&raft);
            let is_new = since.is_some_and(|since| now.since(*since) <= COMING_FOR);
            is_new || self.raft.hears(now, raft)
        };
        let step = next_step(
            &members,
            own,
            is_gone,
            |raft| self.raft.is_ready(now, raft),
            is_coming,
            |raft| self.raft.hears(now, raft),
        );
        match step {
            None => false,
            Some(Step::HandOver(to)) => {
                // Refused, it is tried again.
                let _ = self.raft.transfer(to);
                true
            }
            Some(Step::Reshape(roles)) => self.reshape(now, &roles),
        }
    }

    fn reshape(&mut self, now: Time, roles: &[(RaftId, Option<MemberRole>)]) -> bool {
        let entry = self.proposing.next_id();
        let is_proposed = self.raft.reshape(now, entry, roles).is_ok();
        if is_proposed {
            self.proposing.begin(entry, Entry::Reshaped);
        }
        is_proposed
    }
}
