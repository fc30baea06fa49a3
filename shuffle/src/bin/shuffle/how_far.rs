//! How far a job is: of which phase, and in which stage its workers are.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::account::skew;
use crate::amounts::{bytes, count};
use crate::event::Now;

/// What a job does for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    /// What all workers together do; 0 if nobody can know.
    pub(crate) total: u64,
    pub(crate) unit: Unit,
    /// What makes the exchange whose records are counted. Without it, workers tell how far they are.
    pub(crate) of: Option<&'static str>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    #[default]
    Bytes,
    Records,
    Rounds,
    Slots,
}

/// A look at a job, as it is kept for those who ask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) phase: String,
    pub(crate) unit: Unit,
    pub(crate) done: u64,
    pub(crate) total: u64,
    /// The stage that the workers are in, in words.
    pub(crate) stage: String,
    /// The number of its exchange, and the records that the workers have made for it.
    #[serde(default)]
    pub(crate) exchange: u32,
    #[serde(default)]
    pub(crate) records: u64,
}

/// What is known of all workers.
#[derive(Debug)]
pub(crate) struct HowFar {
    phases: Vec<Phase>,
    /// The phase that was told of last.
    current: usize,
    /// Of this phase, by worker.
    done: Vec<u64>,
    /// What each worker is doing.
    stages: Vec<Option<Now>>,
}

impl Phase {
    pub(crate) fn new(name: &'static str, total: u64, unit: Unit) -> Phase {
        Phase { name, total, unit, of: None }
    }
}

impl HowFar {
    pub(crate) fn new(phases: Vec<Phase>, workers: usize) -> HowFar {
        HowFar { phases, current: 0, done: vec![0; workers], stages: vec![None; workers] }
    }

    /// A worker has come so far with a phase.
    pub(crate) fn tell(&mut self, worker: usize, phase: usize, done: u64) {
        // Another one has begun with the next already; or this one is told of that before it has begun with it.
        let is_early = phase > self.current && done == 0;
        if phase >= self.phases.len() || phase < self.current || is_early {
            return;
        }
        if phase > self.current {
            self.current = phase;
            self.done.fill(0);
        }
        self.done[worker] = done;
    }

    /// A worker is doing this.
    pub(crate) fn look(&mut self, worker: usize, now: Now) {
        let is_counted = |phase: &Phase| phase.of.is_some() && phase.of == now.verb.as_deref();
        if let Some(phase) = self.phases.iter().position(is_counted) {
            self.tell(worker, phase, now.records_made);
        }
        self.stages[worker] = Some(now);
    }

    /// The phase, what of it is done, and the stage that the workers are in.
    pub(crate) fn now(&self) -> Option<Done> {
        let Phase { name, total, unit, .. } = *self.phases.get(self.current)?;
        let (exchange, inside) = last_stage(&self.stages);
        Some(Done {
            phase: name.to_owned(),
            unit,
            done: self.done.iter().sum(),
            total,
            stage: stage(&inside),
            exchange,
            records: inside.iter().map(|now| now.records_made).sum(),
        })
    }
}

/// The last exchange that a worker is in, and what those do that are in it.
fn last_stage(now: &[Option<Now>]) -> (u32, Vec<&Now>) {
    let number = now.iter().flatten().map(|now| now.stage).max().unwrap_or(0);
    (number, now.iter().flatten().filter(|now| now.stage == number).collect())
}

/// What those that are in a stage have made for it and sent, and how far the one that has most of it is above the others; of the stage before, if it has not begun.
fn stage(inside: &[&Now]) -> String {
    let running = inside.iter().any(|now| now.verb.is_some());
    let inside: Vec<_> = inside.iter().filter(|now| now.verb.is_some() == running).collect();
    let verb = inside.iter().find_map(|now| now.verb.as_deref().or(now.after.as_deref()));
    let Some(verb) = verb else { return String::new() };
    let records: u64 = inside.iter().map(|now| now.records_made).sum();
    let sent: u64 = inside.iter().map(|now| now.bytes_sent).sum();
    let held: Vec<u64> = inside.iter().map(|now| now.records_held).collect();
    let skew = skew(&held).map_or_else(String::new, |skew| format!(" skew {skew:.2}"));
    let after = if running { "" } else { "after " };
    format!("{after}{verb} {} records {}{skew}", count(records), bytes(sent))
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Bytes => "bytes",
            Unit::Records => "records",
            Unit::Rounds => "rounds",
            Unit::Slots => "slots",
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn now(stage: u32, verb: Option<&str>, made: u64, held: u64) -> Now {
        Now {
            stage,
            of: stage,
            verb: verb.map(str::to_owned),
            after: Some("reduce_by_key".to_owned()),
            records_made: made,
            records_held: held,
            bytes_sent: 1 << 20,
        }
    }

    fn phases() -> Vec<Phase> {
        let moved = Phase::new("move", 30, Unit::Records);
        vec![
            Phase::new("read", 100, Unit::Bytes),
            Phase { of: Some("sort_by_key"), ..moved },
            Phase::new("write", 100, Unit::Bytes),
        ]
    }

    #[test]
    fn the_stage_is_said_with_its_records_bytes_and_skew() {
        let mut how_far = HowFar::new(phases(), 4);
        let mut said = |looks: &[(usize, Now)]| {
            looks.iter().for_each(|(worker, now)| how_far.look(*worker, now.clone()));
            how_far.now().unwrap().stage
        };
        assert_eq!(said(&[]), "");
        assert_eq!(said(&[(0, now(0, Some("join"), 0, 0))]), "join 0 records 1.00 MiB");
        let looks = [
            (0, now(3, Some("sort_by_key"), 1_000, 3_000)),
            (1, now(3, Some("sort_by_key"), 2_000, 1_000)),
            (2, now(2, Some("sample"), 50, 50)),
        ];
        assert_eq!(said(&looks), "sort_by_key 3.00k records 2.00 MiB skew 1.50");
        // Between two stages, it is the one before.
        let between = "after reduce_by_key 7 records 1.00 MiB skew 1.00";
        assert_eq!(said(&[(0, now(4, None, 7, 9))]), between);
    }

    #[test]
    fn phases_follow_one_another_also_where_records_of_an_exchange_are_counted() {
        let mut how_far = HowFar::new(phases(), 2);
        let found = |how_far: &HowFar| {
            let Done { phase, done, .. } = how_far.now().unwrap();
            (phase, done)
        };
        how_far.tell(0, 0, 40);
        // What is told of a phase before it has begun does not end the one before.
        how_far.tell(0, 2, 0);
        how_far.look(0, now(0, Some("sort_by_key"), 0, 0));
        how_far.tell(1, 0, 50);
        assert_eq!(found(&how_far), ("read".to_owned(), 90));
        how_far.look(1, now(2, Some("sort_by_key"), 10, 0));
        how_far.look(0, now(2, Some("sort_by_key"), 12, 0));
        how_far.tell(0, 0, 50);
        assert_eq!(found(&how_far), ("move".to_owned(), 22));
        how_far.tell(1, 2, 5);
        how_far.look(0, now(2, Some("sort_by_key"), 15, 0));
        assert_eq!(found(&how_far), ("write".to_owned(), 5));
    }

    #[test]
    fn what_an_older_build_has_told_is_read() {
        let told = r#"{"phase": "read", "unit": "bytes", "done": 1, "total": 2, "stage": "join"}"#;
        let told: Done = serde_json::from_str(told).unwrap();
        assert_eq!((told.unit, told.done, told.records), (Unit::Bytes, 1, 0));
    }
}
