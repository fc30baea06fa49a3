//! What is kept of a job of a cluster, and how that changes. No I/O: whoever changes it writes it only over what it has read.

use serde::{Deserialize, Serialize};

use crate::event::Outcome;
use crate::inputs::InputState;
use crate::site::Site;

/// Names an agent, and says which is the eldest: the coordinators give out these numbers, and the lowest is that of who registered first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct AgentId(pub(crate) u64);

/// A job, from its submission on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JobRecord {
    /// What was typed, from the job's name on.
    pub(crate) command: Vec<String>,
    /// Where: what its paths begin with.
    pub(crate) folder: String,
    /// Whose slots it shares.
    pub(crate) pool: String,
    /// How many slots it takes.
    pub(crate) workers: usize,
    pub(crate) max_attempts: u32,
    /// Unix time, as all of these.
    pub(crate) submitted_ms: u64,
    pub(crate) state: State,
    /// Somebody wants it to end.
    pub(crate) is_cancelled: bool,
    /// Attempts that came to nothing, from the first on.
    pub(crate) lost: Vec<Lost>,
    /// What was read by the first attempt.
    pub(crate) inputs: Option<Vec<Option<InputState>>>,
}

/// How far it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// It waits for slots.
    Queued,
    /// Workers work on it.
    Running(Attempt),
    /// All workers are done, and what they made gets its name.
    Finishing {
        attempt: Attempt,
        outcome: Outcome,
    },
    Succeeded {
        attempt: u32,
        ended_ms: u64,
        outcome: Outcome,
        /// Why there is no report, if one was asked for and there is none.
        unreported: Option<String>,
    },
    Failed {
        ended_ms: u64,
        error: String,
        /// Where. An older build did not write it down.
        #[serde(default)]
        site: Option<Site>,
    },
    Cancelled {
        ended_ms: u64,
    },
}

/// One attempt at a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    /// From 1.
    pub(crate) number: u32,
    /// The agent whose process drives it.
    pub(crate) driver: AgentId,
    /// Where each of its workers is.
    pub(crate) places: Vec<AgentId>,
    pub(crate) began_ms: u64,
}

/// An attempt that came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lost {
    pub(crate) began_ms: u64,
    pub(crate) ended_ms: u64,
    pub(crate) why: String,
    /// Where. An older build did not write it down.
    #[serde(default)]
    pub(crate) site: Option<Site>,
}

impl JobRecord {
    /// The attempt that has slots, if one has.
    pub(crate) fn attempt(&self) -> Option<&Attempt> {
        match &self.state {
            State::Running(attempt) | State::Finishing { attempt, .. } => Some(attempt),
            _ => None,
        }
    }

    /// Whether an attempt of this number is the one that counts.
    pub(crate) fn is_at(&self, number: u32) -> bool {
        self.attempt().is_some_and(|attempt| attempt.number == number)
    }

    pub(crate) fn is_ended(&self) -> bool {
        let State::Queued = self.state else { return self.attempt().is_none() };
        false
    }

    /// The number of the next attempt.
    pub(crate) fn next_attempt(&self) -> u32 {
        self.lost.len() as u32 + 1
    }

    /// What a state is called.
    pub(crate) fn state_name(&self) -> &'static str {
        match self.state {
            State::Queued => "queued",
            State::Running(_) => "running",
            State::Finishing { .. } => "finishing",
            State::Succeeded { .. } => "succeeded",
            State::Failed { .. } => "failed",
            State::Cancelled { .. } => "cancelled",
        }
    }

    /// When it ended, if it has.
    pub(crate) fn ended_ms(&self) -> Option<u64> {
        match self.state {
            State::Succeeded { ended_ms, .. }
            | State::Failed { ended_ms, .. }
            | State::Cancelled { ended_ms } => Some(ended_ms),
            _ => None,
        }
    }

    /// The attempt came to nothing because a worker, an agent or its driver was lost: it waits for the next, if it may have one.
    pub(crate) fn lose(&mut self, why: String, site: Site, now_ms: u64) {
        let number = self.next_attempt();
        let began_ms = self.attempt().map_or(now_ms, |attempt| attempt.began_ms);
        let site = Some(Site { attempt: number, ..site });
        self.lost.push(Lost { began_ms, ended_ms: now_ms, why: why.clone(), site: site.clone() });
        self.state = if self.is_cancelled {
            State::Cancelled { ended_ms: now_ms }
        } else if number < self.max_attempts {
            State::Queued
        } else {
            let error = match self.max_attempts {
                1 => format!("{why}: the job stops"),
                of => format!("{why}, in attempt {number} of {of}: the job stops"),
            };
            State::Failed { ended_ms: now_ms, error, site }
        };
    }

    /// Somebody wants it to end. Whether that is possible.
    pub(crate) fn cancel(&mut self, now_ms: u64) -> bool {
        if self.is_ended() {
            return false;
        }
        self.is_cancelled = true;
        if matches!(self.state, State::Queued) {
            self.state = State::Cancelled { ended_ms: now_ms };
        }
        true
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn record(pool: &str, workers: usize) -> JobRecord {
        JobRecord {
            command: vec!["wordcount".into()],
            folder: "/".into(),
            pool: pool.into(),
            workers,
            max_attempts: 3,
            submitted_ms: 1,
            state: State::Queued,
            is_cancelled: false,
            lost: Vec::new(),
            inputs: None,
        }
    }

    pub(crate) fn running(record: JobRecord, places: &[u64]) -> JobRecord {
        let places: Vec<_> = places.iter().copied().map(AgentId).collect();
        let (number, driver) = (record.next_attempt(), AgentId(99));
        JobRecord {
            state: State::Running(Attempt { number, driver, places, began_ms: 2 }),
            ..record
        }
    }

    #[test]
    fn a_job_may_lose_all_attempts_but_the_last() {
        let mut job = running(record("default", 1), &[1]);
        for number in 1..3 {
            assert!(job.is_at(number) && !job.is_at(number + 1));
            job.lose(format!("loss {number}"), Site::of_worker(number as usize), 3);
            assert!(matches!(job.state, State::Queued), "{job:?}");
            job = running(job, &[1]);
        }
        job.lose("loss 3".to_owned(), Site::of_worker(0), 4);
        let State::Failed { ended_ms: 4, error, site } = &job.state else { panic!("{job:?}") };
        let site_of = |attempt, worker| Some(Site { attempt, ..Site::of_worker(worker) });
        assert_eq!(*site, site_of(3, 0));
        assert_eq!((&job.lost[0].site, &job.lost[1].site), (&site_of(1, 1), &site_of(2, 2)));
        assert_eq!(error, "loss 3, in attempt 3 of 3: the job stops");
        let why: Vec<_> = job.lost.iter().map(|lost| lost.why.as_str()).collect();
        assert_eq!(why, ["loss 1", "loss 2", "loss 3"]);
        assert_eq!((job.lost[2].began_ms, job.lost[2].ended_ms), (2, 4));
        assert!(job.is_ended() && !job.cancel(5), "what has ended cannot be cancelled");
    }

    #[test]
    fn what_an_older_build_has_written_is_read() {
        let state = r#"{"failed": {"ended_ms": 7, "error": "it was full"}}"#;
        let state: State = serde_json::from_str(state).unwrap();
        assert!(matches!(state, State::Failed { ended_ms: 7, site: None, .. }), "{state:?}");
        let lost = r#"{"began_ms": 1, "ended_ms": 2, "why": "it was killed"}"#;
        assert_eq!(serde_json::from_str::<Lost>(lost).unwrap().site, None);
        let site: Site = serde_json::from_str(r#"{"attempt": 2, "worker": 1}"#).unwrap();
        assert_eq!(site, Site { attempt: 2, ..Site::of_worker(1) });
    }

    #[test]
    fn a_job_that_waits_is_cancelled_at_once_and_one_that_runs_by_its_driver() {
        let mut waiting = record("default", 1);
        assert!(!waiting.is_ended() && waiting.cancel(7));
        assert_eq!((waiting.state_name(), waiting.ended_ms()), ("cancelled", Some(7)));
        let mut job = running(record("default", 1), &[1]);
        assert!(job.cancel(7));
        assert_eq!((job.state_name(), job.is_ended()), ("running", false));
        job.lose("its driver is gone".to_owned(), Site::default(), 8);
        assert_eq!((job.state_name(), job.ended_ms()), ("cancelled", Some(8)), "no other attempt");
    }
}
