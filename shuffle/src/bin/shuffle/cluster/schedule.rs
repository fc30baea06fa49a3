//! Which job begins next, and where its workers go. No I/O.
//!
//! A job gets all of its slots at once or none, as all workers wait for each other. Pools share the slots: the next job is of the pool that has the fewest, and of it
//! the one that was submitted first. If there is no room for that one, nothing else begins: it would wait for ever if smaller ones always
//! went before. It is the rule of Hadoop's fair scheduler, without its pre-emption. Workers are spread over the agents, until an attempt was lost.

use std::collections::HashMap;

use super::record::{AgentId, JobRecord, State};

/// What an agent has for workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    pub(crate) agent: AgentId,
    pub(crate) slots: usize,
}

/// How long a job waits that has lost an attempt, in milliseconds: twice as long after each, up to the most. What it was lost by may be gone then.
const PAUSE_MS: u64 = 250;
const PAUSE_MS_MAX: u64 = 5_000;

/// The job that begins next, if there is room for it, and the agent of each of its workers. `jobs` have not ended and are in the order in which they were submitted.
pub(crate) fn next(
    jobs: &[(u64, JobRecord)],
    agents: &[Slots],
    now_ms: u64,
) -> Option<(u64, Vec<AgentId>)> {
    let mut taken: HashMap<AgentId, usize> = HashMap::new();
    let mut of_pool: HashMap<&str, usize> = HashMap::new();
    for (_, job) in jobs {
        let Some(attempt) = job.attempt() else { continue };
        *of_pool.entry(&job.pool).or_default() += attempt.places.len();
        attempt.places.iter().for_each(|agent| *taken.entry(*agent).or_default() += 1);
    }
    // What all agents together have no room for waits for more of them, and keeps nobody else waiting.
    let all: usize = agents.iter().map(|agent| agent.slots).sum();
    let may_begin = |job: &JobRecord| {
        matches!(job.state, State::Queued) && job.workers <= all && begins_ms(job) <= now_ms
    };
    let waiting = jobs.iter().filter(|(_, job)| may_begin(job));
    // The first of those that are equal.
    let (id, job) = waiting.min_by_key(|(_, job)| of_pool.get(&*job.pool).copied().unwrap_or(0))?;
    let free: Vec<(usize, AgentId)> = agents
        .iter()
        .map(|agent| {
            let taken = taken.get(&agent.agent).copied().unwrap_or(0);
            (agent.slots.saturating_sub(taken), agent.agent)
        })
        .collect();
    let places = match job.lost.len() {
        0 => spread(free, job.workers)?,
        lost => packed(free, job.workers, lost - 1)?,
    };
    Some((*id, places))
}

/// Each worker to the agent that has the most left.
fn spread(mut free: Vec<(usize, AgentId)>, workers: usize) -> Option<Vec<AgentId>> {
    let mut places = Vec::with_capacity(workers);
    for _ in 0..workers {
        let (left, agent) =
            free.iter_mut().reduce(|most, other| if other.0 > most.0 { other } else { most })?;
        *left = left.checked_sub(1)?;
        places.push(*agent);
    }
    Some(places)
}

/// On as few agents as may be, from another one on each time: an attempt may have been lost since two that the eldest reaches do not reach each other.
fn packed(mut free: Vec<(usize, AgentId)>, workers: usize, times: usize) -> Option<Vec<AgentId>> {
    free.retain(|(left, _)| *left > 0);
    free.sort_by_key(|(left, _)| std::cmp::Reverse(*left));
    let first = times % free.len().max(1);
    free.rotate_left(first);
    let slots = free.into_iter().flat_map(|(left, agent)| std::iter::repeat_n(agent, left));
    let places: Vec<AgentId> = slots.take(workers).collect();
    (places.len() == workers).then_some(places)
}

/// When a job that waits may begin.
fn begins_ms(job: &JobRecord) -> u64 {
    let Some(last) = job.lost.last() else { return 0 };
    let doublings = job.lost.len().min(10) as u32 - 1;
    last.ended_ms.saturating_add((PAUSE_MS << doublings).min(PAUSE_MS_MAX))
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{record, running};
    use super::*;
    use crate::site::Site;

    /// Numbers of agents.
    const A: u64 = 1;
    const B: u64 = 2;
    const C: u64 = 3;

    fn agents(slots: &[(u64, usize)]) -> Vec<Slots> {
        slots.iter().map(|(agent, slots)| Slots { agent: AgentId(*agent), slots: *slots }).collect()
    }

    fn begins(jobs: &[(u64, JobRecord)], slots: &[(u64, usize)]) -> Option<(u64, Vec<u64>)> {
        let (id, places) = next(jobs, &agents(slots), 1_000_000)?;
        Some((id, places.into_iter().map(|AgentId(agent)| agent).collect()))
    }

    #[test]
    fn workers_are_spread_over_the_agents_with_the_most_room() {
        let jobs = [(7, record("default", 4))];
        let found = begins(&jobs, &[(A, 1), (B, 3), (C, 2)]);
        assert_eq!(found, Some((7, vec![B, B, C, A])));
        assert_eq!(begins(&jobs, &[(A, 2), (B, 1)]), None);
        assert_eq!(begins(&jobs, &[]), None);
        assert_eq!(begins(&[], &[(A, 2)]), None);
    }

    #[test]
    fn after_a_loss_workers_are_on_few_agents_and_on_others_each_time() {
        let mut job = record("default", 3);
        let mut found = Vec::new();
        for _ in 0..3 {
            found.extend(begins(&[(7, job.clone())], &[(A, 2), (B, 2), (C, 2)]));
            job = JobRecord { max_attempts: 9, ..running(job, &[A]) };
            job.lose("it was killed".to_owned(), Site::default(), 10);
        }
        let places: Vec<_> = found.into_iter().map(|(_, places)| places).collect();
        assert_eq!(places, [vec![A, B, C], vec![A, A, B], vec![B, B, C]]);
        let jobs = [(7, job)];
        assert_eq!(begins(&jobs, &[(A, 1), (B, 0), (C, 4)]), Some((7, vec![C, C, C])));
        assert_eq!(begins(&jobs, &[(A, 1), (B, 1)]), None);
    }

    #[test]
    fn slots_that_others_have_are_not_given_twice() {
        let first = running(record("default", 2), &[A, B]);
        let jobs = [(1, first), (2, record("default", 2))];
        assert_eq!(begins(&jobs, &[(A, 2), (B, 1)]), None);
        assert_eq!(begins(&jobs, &[(A, 2), (B, 2)]), Some((2, vec![A, B])));
        // An agent that is gone has none, whatever is said of it, and one that has fewer than it had gives none.
        assert_eq!(begins(&jobs, &[(C, 2)]), Some((2, vec![C, C])));
        assert_eq!(begins(&jobs, &[(A, 0), (B, 2)]), None);
    }

    #[test]
    fn the_pool_with_the_fewest_slots_comes_first_and_within_it_the_eldest_job() {
        let jobs = [
            (1, running(record("many", 2), &[A, A])),
            (2, record("many", 1)),
            (3, record("few", 1)),
            (4, record("few", 1)),
        ];
        assert_eq!(begins(&jobs, &[(A, 4)]).unwrap().0, 3);
        let equal = [(2, record("many", 1)), (3, record("few", 1))];
        assert_eq!(begins(&equal, &[(A, 4)]).unwrap().0, 2);
    }

    #[test]
    fn a_job_that_has_lost_an_attempt_waits_and_keeps_nobody_else_waiting() {
        let mut lost = running(record("default", 1), &[A]);
        lost.lose("it was killed".to_owned(), Site::default(), 10_000);
        let jobs = [(1, lost.clone()), (2, record("default", 1))];
        let first =
            |jobs: &[(u64, JobRecord)], now_ms| next(jobs, &agents(&[(A, 1)]), now_ms).unwrap().0;
        assert_eq!((first(&jobs, 10_249), first(&jobs, 10_250)), (2, 1));
        lost = running(lost, &[A]);
        lost.lose("it was killed".to_owned(), Site::default(), 20_000);
        let jobs = [(1, lost), (2, record("default", 1))];
        assert_eq!((first(&jobs, 20_499), first(&jobs, 20_500)), (2, 1));
    }

    #[test]
    fn a_large_job_is_not_passed_over_for_ever_and_an_impossible_one_is() {
        let jobs = [
            (1, running(record("default", 1), &[A])),
            (2, record("default", 2)),
            (3, record("default", 1)),
        ];
        assert_eq!(begins(&jobs, &[(A, 2)]), None, "the second one is next");
        let impossible = [(2, record("default", 3)), (3, record("default", 1))];
        assert_eq!(begins(&impossible, &[(A, 2)]).unwrap().0, 3);
    }
}
