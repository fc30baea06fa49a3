//! One value a key, though memory may not have room for all keys: those that it has none for are combined later, a part of the keys at a time.
//!
//! When the table is full, all that is in it goes to files, to one of 16 by a hash of the key. In the end each of these is a reduction of its own, of a
//! sixteenth of the keys, by another hash (Grace partitioning, Kitsuregawa et al., 1983). So a record goes to a file at most once for each power of 16 by
//! which the keys are more than memory has room for.

use std::hash::{BuildHasher as _, Hash};

use foldhash::fast::RandomState;
use weft_object::{Pair, Record, Wire};

use super::table::Table;
use crate::error::JobError;
use crate::spill::{Run, SpillFile, Spilling};

/// Into how many parts keys are divided: for each, a segment is written at the same time.
const PARTS: usize = 16;

/// Takes pairs, and gives one for each key.
pub(super) struct Reduction<K, V, F> {
    spilling: Spilling,
    combine: F,
    limit_bytes: u64,
    table: Table<K, V>,
    /// There once the table was full.
    spilled: Option<Spilled<K, V>>,
}

/// What memory had no room for, in parts.
struct Spilled<K, V> {
    /// Another one each time, so that a part is divided again.
    hasher: RandomState,
    parts: Vec<Part<Pair<K, V>>>,
}

struct Part<R> {
    file: SpillFile<R>,
    runs: Vec<Run>,
}

impl<K: Eq + Hash, V: Wire, F: Fn(V, V) -> V + Copy> Reduction<K, V, F>
where
    Pair<K, V>: Record,
{
    /// One that keeps at most so many bytes in memory.
    pub(super) fn new(spilling: Spilling, limit_bytes: u64, combine: F) -> Self {
        let table = Table::new(&spilling.budget, limit_bytes);
        Reduction { spilling, combine, limit_bytes, table, spilled: None }
    }

    #[inline]
    pub(super) fn add(&mut self, pair: Pair<K, V>) -> Result<(), JobError> {
        self.table.add(pair, self.combine).or_else(|pair| self.add_to_emptied(pair))
    }

    /// Gives one pair for each key.
    pub(super) fn finish(
        mut self,
        sink: &mut impl FnMut(Pair<K, V>) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        if self.spilled.is_none() {
            return self.table.drain().try_for_each(sink);
        }
        self.spill()?;
        let Reduction { spilling, combine, limit_bytes, spilled, table } = self;
        drop(table);
        for Part { file, runs } in spilled.into_iter().flat_map(|spilled| spilled.parts) {
            let mut part = Reduction::new(spilling.clone(), limit_bytes, combine);
            for run in runs {
                let mut reader = file.read(run);
                while let Some(pair) = reader.next()? {
                    part.add(pair)?;
                }
            }
            drop(file);
            part.finish(sink)?;
        }
        Ok(())
    }

    #[cold]
    fn add_to_emptied(&mut self, pair: Pair<K, V>) -> Result<(), JobError> {
        self.spill()?;
        let added = self.table.add(pair, self.combine);
        assert!(added.is_ok(), "an empty table has room for one");
        Ok(())
    }

    /// Writes what is in memory to files.
    fn spill(&mut self) -> Result<(), JobError> {
        let spilled = self.spilled.get_or_insert_with(|| Spilled::new(&self.spilling));
        let Spilled { hasher, parts } = spilled;
        let (mut writers, runs): (Vec<_>, Vec<_>) =
            parts.iter_mut().map(|Part { file, runs }| (file.begin(), runs)).unzip();
        for pair in self.table.drain() {
            let part = hasher.hash_one(&pair.key) as usize % PARTS;
            writers[part].push(&pair)?;
        }
        for (writer, runs) in writers.into_iter().zip(runs) {
            runs.push(writer.finish()?);
        }
        Ok(())
    }
}

impl<K, V> Spilled<K, V>
where
    Pair<K, V>: Record,
{
    fn new(spilling: &Spilling) -> Self {
        let part = || Part { file: SpillFile::new(spilling.clone()), runs: Vec::new() };
        let parts = std::iter::repeat_with(part).take(PARTS).collect();
        Spilled { hasher: RandomState::default(), parts }
    }
}
