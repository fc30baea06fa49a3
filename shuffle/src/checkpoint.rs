//! The state of iterative jobs, kept so that the next attempt goes on from there.
//!
//! Each worker keeps its records of a round by themselves, and nobody waits for anybody: a round is whole when what all workers of one attempt keep of it is there, and
//! whoever is at the next one knows that it is, because nobody ends a round before all have ended the one before. So two rounds are kept, and the older one is
//! removed before the third is. It is the coordinated checkpoint of bulk-synchronous systems (Pregel, SIGMOD 2010), without the coordination that rounds have anyhow.

mod folder;
mod table;

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use weft_object::Record;

use self::folder::Folder;
use self::table::Table;
use crate::error::JobError;
use crate::spill::Spilling;
use crate::worker::{Worker, WorkerId};

pub use self::table::{forget_checkpoints, make_checkpoint_table};

/// How many rounds of each iteration are kept: the last one may not be whole.
const KEPT: usize = 2;

/// Where an iterative job keeps its state, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// Where all workers of all attempts find it.
    pub place: CheckpointPlace,
    /// After how many rounds the state is kept.
    pub every: NonZeroUsize,
}

/// Where the state is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointPlace {
    /// In files of a folder that all workers of all attempts of this job see, and nobody else writes into.
    Folder(PathBuf),
    /// In objects of [`CHECKPOINT_TABLE`], which [is there](make_checkpoint_table).
    Table {
        /// Nodes of the cluster to begin with, `host:port`.
        cluster: Vec<String>,
        /// What tells this job's objects from those of others: no slash is in it.
        job: String,
    },
}

/// The table of a cluster in which jobs keep their state.
pub const CHECKPOINT_TABLE: &str = "shuffle-checkpoints";

/// What a worker keeps.
pub(crate) struct Checkpoints {
    keeper: Keeper,
    every: NonZeroUsize,
    worker: WorkerId,
    workers: usize,
    attempt: u32,
    next_iteration: Cell<u32>,
}

/// Keeps records by name.
enum Keeper {
    Folder(Folder),
    Table(Table),
}

/// What a worker keeps of one iteration.
pub(crate) struct Kept<'c> {
    checkpoints: &'c Checkpoints,
    iteration: u32,
    /// States of this worker that are there, the oldest first.
    states: VecDeque<Name>,
}

/// The name of a worker's state, from which it can be told what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    iteration: u32,
    /// How many rounds were done.
    round: usize,
    attempt: u32,
    worker: usize,
}

impl Checkpoints {
    /// What `worker` of `workers` keeps in an attempt.
    ///
    /// # Errors
    /// The cluster cannot be reached, or has no table for it.
    pub(crate) fn new(
        config: CheckpointConfig,
        spilling: &Spilling,
        (worker, workers): (WorkerId, usize),
        attempt: u32,
    ) -> Result<Checkpoints, JobError> {
        let keeper = match config.place {
            CheckpointPlace::Folder(folder) => Keeper::Folder(Folder::new(folder, spilling)),
            CheckpointPlace::Table { cluster, job } => {
                Keeper::Table(Table::open(cluster, job, spilling)?)
            }
        };
        let next_iteration = Cell::new(0);
        Ok(Checkpoints { keeper, every: config.every, worker, workers, attempt, next_iteration })
    }

    /// The next iteration: all workers come to theirs in the same order, in each attempt.
    pub(crate) fn begin(&self) -> Kept<'_> {
        let iteration = self.next_iteration.replace(self.next_iteration.get() + 1);
        Kept { checkpoints: self, iteration, states: VecDeque::new() }
    }

    /// What is there of an iteration.
    fn names(&self, iteration: u32) -> Result<Vec<Name>, JobError> {
        let names = match &self.keeper {
            Keeper::Folder(folder) => folder.names(),
            Keeper::Table(table) => table.names(),
        };
        let mut names: Vec<_> = names?.iter().filter_map(|name| Name::parse(name)).collect();
        names.retain(|name| name.iteration == iteration);
        Ok(names)
    }

    fn write<R: Record>(&self, name: Name, records: &[R]) -> Result<(), JobError> {
        match &self.keeper {
            Keeper::Folder(folder) => folder.write(&name.to_string(), records),
            Keeper::Table(table) => table.write(&name.to_string(), records),
        }
    }

    fn read<R: Record>(&self, name: Name) -> Result<Vec<R>, JobError> {
        match &self.keeper {
            Keeper::Folder(folder) => folder.read(&name.to_string()),
            Keeper::Table(table) => table.read(&name.to_string()),
        }
    }

    /// Removes what is of no use any more; what stays takes room, and does no other harm.
    fn remove(&self, name: Name) {
        match &self.keeper {
            Keeper::Folder(folder) => folder.remove(&name.to_string()),
            Keeper::Table(table) => table.remove(&name.to_string()),
        }
    }
}

impl Kept<'_> {
    /// The state after the last round that is whole, and how many rounds that are; nothing in a first attempt, or if none was kept. An exchange in all attempts but the first.
    pub(crate) fn restore<R: Record>(
        &mut self,
        worker: &Worker,
    ) -> Result<Option<(usize, Vec<R>)>, JobError> {
        let checkpoints = self.checkpoints;
        if checkpoints.attempt == 1 {
            return Ok(None);
        }
        // Where nothing can be seen, nothing was kept.
        let names = checkpoints.names(self.iteration).unwrap_or_default();
        // Workers that see different states would take different rounds.
        let newest = last_whole(&names, checkpoints.workers);
        let (round, attempt) = newest.map_or((0, 0), |name| (name.round, name.attempt));
        let rounds = worker.gather(round as u64)?;
        let attempts = worker.gather(u64::from(attempt))?;
        let own = Name {
            worker: checkpoints.worker.0,
            round: rounds[0] as usize,
            attempt: attempts[0] as u32,
            iteration: self.iteration,
        };
        let records = if own.round > 0 { checkpoints.read(own).ok() } else { None };
        // What one of them cannot read is of no use to any.
        let all_can = worker.gather(u64::from(records.is_some()))?.iter().all(|can| *can == 1);
        let stale =
            names.iter().filter(|name| name.worker == own.worker && (**name != own || !all_can));
        stale.for_each(|name| checkpoints.remove(*name));
        let records = records.filter(|_| all_can);
        self.states.extend(records.as_ref().map(|_| own));
        Ok(records.map(|records| (own.round, records)))
    }

    /// Keeps the state after so many rounds, if it is time for that.
    pub(crate) fn keep<R: Record>(&mut self, round: usize, records: &[R]) -> Result<(), JobError> {
        let checkpoints = self.checkpoints;
        if !round.is_multiple_of(checkpoints.every.get()) {
            return Ok(());
        }
        let (worker, attempt) = (checkpoints.worker.0, checkpoints.attempt);
        let name = Name { iteration: self.iteration, round, attempt, worker };
        // The last one is whole, as all have come to the end of a round after it.
        while self.states.len() >= KEPT {
            self.states.pop_front().into_iter().for_each(|name| checkpoints.remove(name));
        }
        checkpoints.write(name, records)?;
        self.states.push_back(name);
        Ok(())
    }
}

impl Name {
    fn parse(text: &str) -> Option<Name> {
        let mut numbers = text.split('-').map(|number| number.parse::<u32>().ok());
        let mut next = || numbers.next().flatten();
        let (iteration, round, attempt, worker) = (next()?, next()?, next()?, next()?);
        let name = Name { iteration, round: round as usize, attempt, worker: worker as usize };
        (name.to_string() == text).then_some(name)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Name { iteration, round, attempt, worker } = self;
        write!(f, "{iteration}-{round}-{attempt}-{worker}")
    }
}

/// One of the states of the last round, of the last attempt, of which all workers' are there.
fn last_whole(names: &[Name], workers: usize) -> Option<Name> {
    let mut states: BTreeMap<(usize, u32), Vec<Name>> = BTreeMap::new();
    for name in names.iter().filter(|name| name.worker < workers) {
        states.entry((name.round, name.attempt)).or_default().push(*name);
    }
    let whole = states.into_values().rfind(|states| states.len() == workers)?;
    whole.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> Vec<Name> {
        texts.iter().map(|text| Name::parse(text).unwrap()).collect()
    }

    #[test]
    fn a_round_is_whole_when_the_states_of_all_workers_in_one_attempt_are_there() {
        let round = |texts: &[&str], workers| {
            last_whole(&names(texts), workers).map(|name| (name.round, name.attempt))
        };
        assert_eq!(round(&[], 2), None);
        assert_eq!(round(&["0-10-1-0"], 2), None);
        assert_eq!(round(&["0-10-1-0", "0-10-1-1"], 2), Some((10, 1)));
        assert_eq!(round(&["0-10-1-0", "0-20-1-1", "0-10-1-1"], 2), Some((10, 1)));
        assert_eq!(round(&["0-10-1-0", "0-10-1-1", "0-10-2-0", "0-10-2-1"], 2), Some((10, 2)));
        // Those of two attempts are not of one state.
        assert_eq!(round(&["0-10-1-0", "0-10-1-1", "0-20-1-0", "0-20-2-1"], 2), Some((10, 1)));
        assert_eq!(round(&["0-9-1-0", "0-10-1-0", "0-100-1-0"], 1), Some((100, 1)));
    }

    #[test]
    fn what_is_no_name_is_none() {
        for text in [
            "",
            "0-1-2",
            "0-1-2-3-4",
            "0-1-2-3.part",
            "0-1-2-x",
            "00-1-2-3",
            "+0-1-2-3",
            "0-1-2-4294967296",
        ] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
        assert_eq!(Name::parse("0-10-3-2").unwrap().to_string(), "0-10-3-2");
    }
}
