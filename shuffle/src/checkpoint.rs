//! The state of iterative jobs, kept so that the next attempt goes on from there.
//!
//! Each worker keeps its records of a round in a file of its own, and nobody waits for anybody: a round is whole when all workers' files of one attempt are there, and
//! whoever is at the next one knows that it is, because nobody ends a round before all have ended the one before. So two rounds are kept, and the older one is
//! removed before the third is. It is the coordinated checkpoint of bulk-synchronous systems (Pregel, SIGMOD 2010), without the coordination that rounds have anyhow.

#![expect(clippy::disallowed_methods, reason = "the shell that keeps states in files")]

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_object::Record;

use crate::error::JobError;
use crate::spill::{Run, SpillFile, Spilling};
use crate::worker::{Worker, WorkerId};

/// How many rounds of each iteration are kept: the last one may not be whole.
const KEPT: usize = 2;

/// Where an iterative job keeps its state, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// A folder that all workers of all attempts of this job see, and nobody else writes into.
    pub folder: PathBuf,
    /// After how many rounds the state is kept.
    pub every: NonZeroUsize,
}

/// What a worker keeps.
pub(crate) struct Checkpoints {
    config: CheckpointConfig,
    spilling: Spilling,
    worker: WorkerId,
    workers: usize,
    attempt: u32,
    next_iteration: Cell<u32>,
}

/// What a worker keeps of one iteration.
pub(crate) struct Kept<'c> {
    checkpoints: &'c Checkpoints,
    iteration: u32,
    /// Files of this worker that are there, the oldest first.
    files: VecDeque<Name>,
}

/// The name of a file, from which it can be told what is in it.
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
    pub(crate) fn new(
        config: CheckpointConfig,
        spilling: &Spilling,
        (worker, workers): (WorkerId, usize),
        attempt: u32,
    ) -> Checkpoints {
        let spilling = spilling.elsewhere(config.folder.clone());
        Checkpoints { config, spilling, worker, workers, attempt, next_iteration: Cell::new(0) }
    }

    /// The next iteration: all workers come to theirs in the same order, in each attempt.
    pub(crate) fn begin(&self) -> Kept<'_> {
        let iteration = self.next_iteration.replace(self.next_iteration.get() + 1);
        Kept { checkpoints: self, iteration, files: VecDeque::new() }
    }

    fn path(&self, name: Name) -> PathBuf {
        self.config.folder.join(name.to_string())
    }

    /// What is there of an iteration.
    fn names(&self, iteration: u32) -> Result<Vec<Name>, JobError> {
        let entries = fs::read_dir(&self.config.folder).map_err(|error| self.failed(error))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| self.failed(error))?;
            names.extend(entry.file_name().to_str().and_then(Name::parse));
        }
        names.retain(|name| name.iteration == iteration);
        Ok(names)
    }

    fn failed(&self, error: io::Error) -> JobError {
        JobError::Checkpoint { folder: self.config.folder.clone(), error }
    }

    /// The same of a file's own errors.
    fn of_file(&self, error: JobError) -> JobError {
        match error {
            JobError::Spill { error, .. } => self.failed(error),
            other => other,
        }
    }

    fn write<R: Record>(&self, path: &Path, records: &[R]) -> Result<(), JobError> {
        let file = Arc::new(File::create(path).map_err(|error| self.failed(error))?);
        let mut spilled = SpillFile::of_file(self.spilling.clone(), Arc::clone(&file));
        let mut run = spilled.begin();
        records.iter().try_for_each(|record| run.push(record))?;
        let run = run.finish()?;
        // Behind it, how many records there are: a file that was cut off has fewer.
        let count = records.len() as u64;
        file.write_all_at(&count.to_le_bytes(), run.bytes()).map_err(|error| self.failed(error))
    }

    fn read<R: Record>(&self, path: &Path) -> Result<Vec<R>, JobError> {
        let file = Arc::new(File::open(path).map_err(|error| self.failed(error))?);
        let damaged = || self.failed(io::ErrorKind::InvalidData.into());
        let bytes = file.metadata().map_err(|error| self.failed(error))?.len();
        let mut count = [0; size_of::<u64>()];
        let end = bytes.checked_sub(count.len() as u64).ok_or_else(damaged)?;
        file.read_exact_at(&mut count, end).map_err(|error| self.failed(error))?;
        let spilled = SpillFile::of_file(self.spilling.clone(), Arc::clone(&file));
        let mut run = spilled.read(Run::up_to(file, end));
        let mut records = Vec::new();
        while let Some(record) = run.next()? {
            records.push(record);
        }
        let is_whole = records.len() as u64 == u64::from_le_bytes(count);
        if is_whole { Ok(records) } else { Err(damaged()) }
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
        // Workers that see different files would take different rounds.
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
        let records =
            if own.round > 0 { checkpoints.read(&checkpoints.path(own)).ok() } else { None };
        // What one of them cannot read is of no use to any.
        let all_can = worker.gather(u64::from(records.is_some()))?.iter().all(|can| *can == 1);
        let stale =
            names.iter().filter(|name| name.worker == own.worker && (**name != own || !all_can));
        stale.for_each(|name| remove(&checkpoints.path(*name)));
        let records = records.filter(|_| all_can);
        self.files.extend(records.as_ref().map(|_| own));
        Ok(records.map(|records| (own.round, records)))
    }

    /// Keeps the state after so many rounds, if it is time for that.
    pub(crate) fn keep<R: Record>(&mut self, round: usize, records: &[R]) -> Result<(), JobError> {
        let checkpoints = self.checkpoints;
        if !round.is_multiple_of(checkpoints.config.every.get()) {
            return Ok(());
        }
        let (worker, attempt) = (checkpoints.worker.0, checkpoints.attempt);
        let name = Name { iteration: self.iteration, round, attempt, worker };
        let path = checkpoints.path(name);
        // The last one is whole, as all have come to the end of a round after it.
        while self.files.len() >= KEPT {
            self.files.pop_front().into_iter().for_each(|name| remove(&checkpoints.path(name)));
        }
        // Until it is whole, it has a name that is none.
        let part = path.with_extension("part");
        checkpoints.write(&part, records).map_err(|error| checkpoints.of_file(error))?;
        fs::rename(&part, &path).map_err(|error| checkpoints.failed(error))?;
        self.files.push_back(name);
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

/// One of the files of the last round, of the last attempt, of which all workers' files are there.
fn last_whole(names: &[Name], workers: usize) -> Option<Name> {
    let mut files: BTreeMap<(usize, u32), Vec<Name>> = BTreeMap::new();
    for name in names.iter().filter(|name| name.worker < workers) {
        files.entry((name.round, name.attempt)).or_default().push(*name);
    }
    let whole = files.into_values().rfind(|files| files.len() == workers)?;
    whole.first().copied()
}

/// Removes what is of no use any more; what stays takes room, and does no other harm.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> Vec<Name> {
        texts.iter().map(|text| Name::parse(text).unwrap()).collect()
    }

    #[test]
    fn a_round_is_whole_when_all_files_of_one_attempt_are_there() {
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
