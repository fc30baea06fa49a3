//! Why a job waits that has not begun, in words. No I/O.

use super::record::{AgentId, JobRecord};
use super::schedule::Slots;
use super::store::AgentRow;

/// As many agents are named that a job cannot have.
const NAMED_MAX: usize = 3;

/// What the eldest agent can do with one that is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Usable,
    /// It cannot be connected to.
    Unreachable,
    /// It runs another build of the program.
    OtherBuild,
}

/// Why `job` waits, where `jobs` have not ended and `agents` are those that are registered.
pub(crate) fn why(
    job: &JobRecord,
    jobs: &[(u64, JobRecord)],
    agents: &[(AgentId, AgentRow, Standing)],
) -> String {
    let usable = |(_, _, standing): &&(AgentId, AgentRow, Standing)| *standing == Standing::Usable;
    let slots: usize = agents.iter().filter(usable).map(|(_, row, _)| row.slots).sum();
    let is_usable =
        |place: &&AgentId| agents.iter().filter(usable).any(|(agent, _, _)| agent == *place);
    let places = jobs.iter().filter_map(|(_, job)| job.attempt()).flat_map(|at| &at.places);
    let taken = places.filter(is_usable).count();
    let free = slots.saturating_sub(taken);
    let mut text = format!("{} workers: agents have room for {slots}", job.workers);
    if taken > 0 {
        text += &format!(", of which {taken} have others");
    }
    if free >= job.workers {
        text += "; others come first, or it was lost just now";
    }
    let others = agents.iter().filter(|agent| !usable(agent));
    for (agent, row, standing) in others.clone().take(NAMED_MAX) {
        let what = match standing {
            Standing::Usable => continue,
            Standing::Unreachable => "cannot be reached from the eldest",
            Standing::OtherBuild => "runs another build of the program",
        };
        text += &format!("; agent {} at {} {what}", agent.0, row.address);
    }
    match others.count().saturating_sub(NAMED_MAX) {
        0 => text,
        more => text + &format!("; nor can {more} others be had"),
    }
}

impl Standing {
    /// Those that are usable, as they are shared out.
    pub(crate) fn usable(agents: &[(AgentId, AgentRow, Standing)]) -> Vec<Slots> {
        let usable = agents.iter().filter(|(_, _, standing)| *standing == Standing::Usable);
        usable.map(|(agent, row, _)| Slots { agent: *agent, slots: row.slots }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{record, running};
    use super::*;

    fn agent(id: u64, slots: usize, standing: Standing) -> (AgentId, AgentRow, Standing) {
        let (address, build) = (format!("10.0.0.{id}:7"), "a".to_owned());
        (AgentId(id), AgentRow { address, slots, build, process: 1 }, standing)
    }

    #[test]
    fn a_job_waits_for_room_or_its_turn_and_who_cannot_be_had_is_named() {
        use Standing::{OtherBuild, Unreachable, Usable};
        let job = record("default", 5);
        let jobs = [(1, running(record("default", 2), &[1, 9])), (2, job.clone())];
        let few = [agent(1, 3, Usable), agent(2, 4, Unreachable), agent(3, 1, OtherBuild)];
        assert_eq!(
            why(&job, &jobs, &few),
            "5 workers: agents have room for 3, of which 1 have others; \
             agent 2 at 10.0.0.2:7 cannot be reached from the eldest; \
             agent 3 at 10.0.0.3:7 runs another build of the program"
        );
        let enough = [agent(1, 8, Usable)];
        assert_eq!(
            why(&job, &jobs[1..], &enough),
            "5 workers: agents have room for 8; others come first, or it was lost just now"
        );
        let many: Vec<_> = (1..8).map(|id| agent(id, 1, Unreachable)).collect();
        assert!(why(&job, &jobs, &many).ends_with("; nor can 4 others be had"));
        assert_eq!(Standing::usable(&few), [Slots { agent: AgentId(1), slots: 3 }]);
    }
}
