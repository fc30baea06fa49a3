//! Who of the coordinators votes, and who is none any more.
//!
//! **An odd number votes.** Two voters are worse than one: each of the two is needed for everything, so that there are two nodes whose end stops the
//! coordinator instead of one; and one whose disk is lost cannot be replaced, since that takes a majority of the voters there are, and it is half of them.
//! The second coordinator of a cluster is therefore a learner, which has everything and no vote, until there is a third: then both are given their vote in one
//! change.

use crate::coordinator::raft::{MemberRole, RaftId, RaftMember};

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Members get other roles, or none, in one change.
    Reshape(Vec<(RaftId, Option<MemberRole>)>),
    /// Another one is to lead, since this one is to go.
    HandOver(RaftId),
}

/// What the leader, which `own` is, is to do next about the members.
///
/// `is_gone`: whether its node leaves. `is_ready`: whether it lives and has the log. `is_coming`: whether a learner lives, or may still come to. `lives`:
/// whether it was heard lately.
pub(super) fn next_step(
    members: &[RaftMember],
    own: RaftId,
    is_gone: impl Fn(RaftId) -> bool,
    is_ready: impl Fn(RaftId) -> bool,
    is_coming: impl Fn(RaftId) -> bool,
    lives: impl Fn(RaftId) -> bool,
) -> Option<Step> {
    let staying = |role: MemberRole| -> Vec<RaftId> {
        let staying = members.iter().filter(|member| member.role == role);
        staying.map(|member| member.raft).filter(|raft| !is_gone(*raft)).collect()
    };
    let (voters, learners) = (staying(MemberRole::Voter), staying(MemberRole::Learner));
    let mut ready = learners.iter().copied().filter(|raft| is_ready(*raft));
    if is_gone(own) {
        // It cannot remove itself. If nobody else votes, somebody has to first; if nobody can, it stays.
        let heir = voters.iter().copied().find(|raft| lives(*raft));
        return match heir {
            Some(heir) => Some(Step::HandOver(heir)),
            None => ready.next().map(|heir| Step::Reshape(vec![(heir, Some(MemberRole::Voter))])),
        };
    }
    let ready: Vec<RaftId> = ready.collect();
    let going = members.iter().map(|member| member.raft).filter(|raft| is_gone(*raft));
    let mut roles: Vec<(RaftId, Option<MemberRole>)> = going.map(|raft| (raft, None)).collect();
    let most = voters.len() + ready.len();
    let due = odd(most);
    if due > voters.len() {
        let promoted = ready.iter().take(due - voters.len());
        roles.extend(promoted.map(|raft| (*raft, Some(MemberRole::Voter))));
    } else if due < voters.len() && !learners.iter().any(|raft| is_coming(*raft)) {
        // Rather one that is silent.
        let others = voters.iter().copied().filter(|raft| *raft != own);
        let demoted = others.min_by_key(|raft| (lives(*raft), std::cmp::Reverse(*raft)));
        roles.extend(demoted.map(|raft| (raft, Some(MemberRole::Learner))));
    }
    (!roles.is_empty()).then_some(Step::Reshape(roles))
}

/// The most votes of so many members that are an odd number.
pub(super) fn odd(count: usize) -> usize {
    count.saturating_sub(usize::from(count.is_multiple_of(2)))
}

#[cfg(test)]
mod tests {
    use weft_transport::NodeId;

    use super::*;

    /// Members 1, 2, … of which those in `learners` have no vote.
    fn members(count: u64, learners: &[u64]) -> Vec<RaftMember> {
        let role = |raft| match learners.contains(&raft) {
            true => MemberRole::Learner,
            false => MemberRole::Voter,
        };
        (1..=count)
            .map(|raft| RaftMember { raft: RaftId(raft), node: NodeId(raft), role: role(raft) })
            .collect()
    }

    /// What member 1 does, if these are gone and these live; learners that live have the log.
    fn step(members: &[RaftMember], gone: &[u64], living: &[u64]) -> Option<Step> {
        let is_in = |some: &[u64], raft: RaftId| some.contains(&raft.0);
        let lives = |raft| is_in(living, raft);
        next_step(members, RaftId(1), |raft| is_in(gone, raft), lives, lives, lives)
    }

    fn voter(raft: u64) -> (RaftId, Option<MemberRole>) {
        (RaftId(raft), Some(MemberRole::Voter))
    }

    #[test]
    fn the_second_is_a_learner_until_there_is_a_third() {
        assert_eq!(step(&members(1, &[]), &[], &[1]), None);
        assert_eq!(step(&members(2, &[2]), &[], &[1, 2]), None);
        assert_eq!(step(&members(3, &[2, 3]), &[], &[1, 2]), None);
        let both = Some(Step::Reshape(vec![voter(2), voter(3)]));
        assert_eq!(step(&members(3, &[2, 3]), &[], &[1, 2, 3]), both);
        assert_eq!(step(&members(4, &[4]), &[], &[1, 2, 3, 4]), None);
    }

    #[test]
    fn who_came_in_the_place_of_a_voter_is_waited_for() {
        // Members 1 and 2 of three vote, and the third was admitted anew.
        assert_eq!(step(&members(3, &[3]), &[], &[1, 2, 3]), Some(Step::Reshape(vec![voter(3)])));
        let demoted = vec![(RaftId(2), Some(MemberRole::Learner))];
        assert_eq!(step(&members(3, &[3]), &[], &[1, 2]), Some(Step::Reshape(demoted)));
    }

    #[test]
    fn who_leaves_is_removed_and_an_odd_number_stays() {
        let gone = (RaftId(3), None);
        let demoted = (RaftId(2), Some(MemberRole::Learner));
        let three = members(3, &[]);
        assert_eq!(step(&three, &[3], &[1, 2, 3]), Some(Step::Reshape(vec![gone, demoted])));
        let four = members(4, &[4]);
        assert_eq!(step(&four, &[3], &[1, 2, 3, 4]), Some(Step::Reshape(vec![gone, voter(4)])));
        // One that is only down stays what it is.
        assert_eq!(step(&three, &[], &[1, 2]), None);
    }

    #[test]
    fn a_leader_that_leaves_sees_to_an_heir() {
        assert_eq!(step(&members(3, &[]), &[1], &[1, 3]), Some(Step::HandOver(RaftId(3))));
        let promoted = Some(Step::Reshape(vec![voter(2)]));
        assert_eq!(step(&members(2, &[2]), &[1], &[1, 2]), promoted);
        assert_eq!(step(&members(1, &[]), &[1], &[1]), None);
    }
}
