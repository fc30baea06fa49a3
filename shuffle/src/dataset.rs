//! A dataset: what to do with records, as a plan that nothing runs until its end is asked for.

use std::hash::Hash;
use std::io::Write;
use std::marker::PhantomData;

use serde::Serialize;
use weft_object::{Full, Graph, Pair, Record, Ref, View, Wire};

use crate::broadcast::Broadcast;
use crate::cache::Cached;
use crate::checkpoint::Checkpoints;
use crate::cluster_table::ClusterTable;
use crate::error::JobError;
use crate::exchange;
use crate::group::{Cogroup, GroupByKey, Values};
use crate::join::{Join, JoinSmall};
use crate::json_lines::JsonLines;
use crate::partition::PartitionBy;
use crate::reduce::{ByHash, ByIndex, Ranges, ReduceByKey};
use crate::sort::SortByKey;
use crate::worker::{Worker, WorkerId};

/// This worker's part of the records of a job, as a plan.
///
/// Verbs build the plan; [`run`](Self::run) and what is made of it ([`to_vec`](Self::to_vec),
/// [`collect`](Self::collect)) execute it. The plan is cut into stages at its exchanges
/// ([`reduce_by_key`](Self::reduce_by_key), [`partition_by`](Self::partition_by), ...): between two
/// of them all verbs run as one loop, without a record ever being stored. Every worker has to run
/// the same plans in the same order. The verbs and their names are Spark's, the execution in one
/// loop a stage is that of Rust's iterators.
///
#[doc = include_str!("dataset/examples.md")]
pub trait Dataset: Sized {
    /// A record.
    type Item;

    /// Runs the plan: `sink` gets this worker's records.
    ///
    /// # Errors
    /// What `sink` or an exchange fails with.
    fn run(
        self,
        worker: &Worker,
        sink: impl FnMut(Self::Item) -> Result<(), JobError>,
    ) -> Result<(), JobError>;

    /// Each record changed by `change`.
    fn map<T, F: FnMut(Self::Item) -> T>(self, change: F) -> Map<Self, F> {
        Map { upstream: self, change }
    }

    /// The records that `keep` accepts.
    fn filter<F: FnMut(&Self::Item) -> bool>(self, keep: F) -> Filter<Self, F> {
        Filter { upstream: self, keep }
    }

    /// Several records, or none, for each.
    fn flat_map<T: IntoIterator, F: FnMut(Self::Item) -> T>(self, change: F) -> FlatMap<Self, F> {
        FlatMap { upstream: self, change }
    }

    /// The same where what a record gives borrows from it, as the words of a line do: `change` gets a
    /// record, and a function that it calls with each result. An error of that function is to be passed on,
    /// as by `?`; one of its own stops the job.
    fn flat_map_into<T, F>(self, change: F) -> FlatMapInto<Self, T, F>
    where
        F: FnMut(Self::Item, &mut dyn FnMut(T) -> Result<(), JobError>) -> Result<(), JobError>,
    {
        FlatMapInto { upstream: self, change, given: PhantomData }
    }

    /// Each record with a key beside it.
    fn key_by<K, F>(self, mut key: F) -> impl Dataset<Item = Pair<K, Self::Item>>
    where
        F: FnMut(&Self::Item) -> K,
    {
        self.map(move |record| Pair { key: key(&record), value: record })
    }

    /// An exchange: one record a key, with the values of all workers' records of that key combined.
    /// Values are combined before they are sent, too. `combine` must not care about the order. What memory has no room for is kept in files
    /// ([`WorkerConfig::spill_folder`]). Keys are plain values, or texts
    /// ([`TextKey`](weft_object::TextKey)); the pair's [`Form`](Record::Form) has to be one of the job's types.
    ///
    /// [`WorkerConfig::spill_folder`]: crate::WorkerConfig::spill_folder
    fn reduce_by_key<K, V, F>(self, combine: F) -> ReduceByKey<Self, ByHash, F>
    where
        Self: Dataset<Item = Pair<K, V>>,
        F: Fn(V, V) -> V,
    {
        ReduceByKey { upstream: self, keys: ByHash, combine }
    }

    /// An exchange: each record once, however many there are of it, in no order. A reduction of [`KeyAlone`], of which the form has to be one of the job's types.
    fn distinct(self) -> impl Dataset<Item = Self::Item>
    where
        Self::Item: Eq + Hash,
        KeyAlone<Self::Item>: Record,
    {
        let alone = self.map(|key| KeyAlone { key, value: [] });
        alone.reduce_by_key(|one, _| one).map(|alone| alone.key)
    }

    /// As [`reduce_by_key`](Self::reduce_by_key), for keys that are numbers without large holes:
    /// worker *w* gets those of its range, in order. Arrays in place of hash tables, where memory has room for one of all numbers and one of the worker's; else a range of the numbers at a time, the others in files.
    fn reduce_by_index<V, F>(self, ranges: &Ranges, combine: F) -> ReduceByKey<Self, ByIndex, F>
    where
        Self: Dataset<Item = Pair<u64, V>>,
        F: Fn(V, V) -> V,
    {
        ReduceByKey { upstream: self, keys: ByIndex(ranges.clone()), combine }
    }

    /// An exchange: all records in the order of their keys, those of worker 0 before those of worker 1, and so on; those with the same key in any
    /// order, and where they are many at several workers. What memory has no room for is kept in files ([`WorkerConfig::spill_folder`]). Keys are plain values, or texts
    /// ([`TextKey`](weft_object::TextKey)), in the order of their bytes. Workers exchange keys, too, so the [`Form`](Record::Form) of [`KeyAlone<K>`](KeyAlone) has to be one of the job's types as well as that of the pair. How parts are chosen by samples is Spark's.
    ///
    /// [`WorkerConfig::spill_folder`]: crate::WorkerConfig::spill_folder
    fn sort_by_key<K, V>(self) -> SortByKey<Self>
    where
        Self: Dataset<Item = Pair<K, V>>,
        K: Ord + Clone,
        V: Wire,
        Pair<K, V>: Record,
        KeyAlone<K>: Record,
    {
        SortByKey { upstream: self }
    }

    /// An exchange: what `group` makes of each key and of all its values, which are at one worker then. Where values can be combined one by one, [`reduce_by_key`](Self::reduce_by_key) sends less: this one sends all of them. What memory has no
    /// room for is kept in files ([`WorkerConfig::spill_folder`]). Keys come in order, a worker; they are plain values, or texts ([`TextKey`](weft_object::TextKey)), and the pair's [`Form`](Record::Form) has to be one of the job's types.
    ///
    /// [`WorkerConfig::spill_folder`]: crate::WorkerConfig::spill_folder
    fn group_by_key<K, V, T, F>(self, group: F) -> GroupByKey<Self, F>
    where
        Self: Dataset<Item = Pair<K, V>>,
        K: Ord + Hash + Clone,
        V: Wire,
        Pair<K, V>: Record,
        F: FnMut(K, &mut Values<'_, V>) -> T,
    {
        GroupByKey { upstream: self, group }
    }

    /// Exchanges: the same of two datasets: what `group` makes of each key that either has, of the values that this one has of it, and of those of `other`. The [forms](Record::Form) of both kinds of pairs have to be among the job's types.
    fn cogroup<E, K, V, W, T, F>(self, other: E, group: F) -> Cogroup<Self, E, F>
    where
        Self: Dataset<Item = Pair<K, V>>,
        E: Dataset<Item = Pair<K, W>>,
        K: Ord + Hash + Clone,
        V: Wire,
        W: Wire,
        Pair<K, V>: Record,
        Pair<K, W>: Record,
        F: FnMut(K, &mut Values<'_, V>, &mut Values<'_, W>) -> T,
    {
        Cogroup { left: self, right: other, group }
    }

    /// Exchanges: for each two pairs with the same key, one of this dataset and one of `other`, that key and both values. What memory has no room for is kept in files
    /// ([`WorkerConfig::spill_folder`]). Pairs of keys that are frequent are spread over the workers, so a key may be at several. The [forms](Record::Form) of both kinds of pairs have to be among the job's types.
    ///
    /// [`WorkerConfig::spill_folder`]: crate::WorkerConfig::spill_folder
    fn join<E, K, V, W>(self, other: E) -> Join<Self, E>
    where
        Self: Dataset<Item = Pair<K, V>>,
        E: Dataset<Item = Pair<K, W>>,
        K: Ord + Hash + Clone,
        V: Wire,
        W: Wire,
        Pair<K, V>: Record,
        Pair<K, W>: Record,
    {
        Join { left: self, right: other }
    }

    /// The same where `small` is: all workers get [all of it](Self::broadcast), into a table in memory, and this dataset stays where it is. What memory has no room for is [`JobError::SmallSide`].
    fn join_small<E, K, V, W>(self, small: E) -> JoinSmall<Self, E>
    where
        Self: Dataset<Item = Pair<K, V>>,
        E: Dataset<Item = Pair<K, W>>,
        K: Eq + Hash + Clone,
        V: Copy,
        W: Wire,
        Pair<K, W>: Record,
    {
        JoinSmall { large: self, small }
    }

    /// An exchange: all workers get all records, in the order of the workers. What memory has no room for is kept in files ([`WorkerConfig::spill_folder`]).
    ///
    /// [`WorkerConfig::spill_folder`]: crate::WorkerConfig::spill_folder
    fn broadcast(self) -> Broadcast<Self>
    where
        Self::Item: Record,
    {
        Broadcast { upstream: self }
    }

    /// An exchange: every record goes to the worker that `place` names, where those of worker 0 come first, and of each worker in its order. What memory has no room for is kept in files ([`WorkerConfig::spill_folder`]). To
    /// name a worker that the job does not have is [`JobError::NoSuchWorker`].
    ///
    /// [`WorkerConfig::spill_folder`]: crate::WorkerConfig::spill_folder
    fn partition_by<F: FnMut(&Self::Item) -> WorkerId>(self, place: F) -> PartitionBy<Self, F>
    where
        Self::Item: Record,
    {
        PartitionBy { upstream: self, place }
    }

    /// An exchange of records that are graphs of objects, with sequences, texts and links, and runs the plan: `build` makes one of each of this worker's records, in the segment that it is
    /// sent in, and returns its root; `take` gets the root, and by the view all that it leads to, in the receive buffer of the worker that `place` names, with whom it comes from, in order a sending worker. Nothing is
    /// encoded, decoded or allocated by object (the idea of Naos, ATC '21).
    ///
    /// A record is in one segment, of 64 KiB and with what others take, or of up to [`BODY_BYTES_MAX`](weft_object::BODY_BYTES_MAX) where it needs more. Where a segment has no room for
    /// a record, `build` is called again for it, so records are best much shorter than 64 KiB, or fill that. [`Root<R>`](weft_object::Root) has to be one of the job's types. What `take` keeps it copies.
    ///
    /// # Errors
    /// What `take` or the exchange fails with; [`JobError::GraphTooLong`] for a record that no segment has room for.
    fn exchange_graphs<R, P, B, T>(
        self,
        worker: &Worker,
        place: P,
        build: B,
        take: T,
    ) -> Result<(), JobError>
    where
        R: Wire,
        P: FnMut(&Self::Item) -> WorkerId,
        B: for<'g> FnMut(&Self::Item, &mut Graph<'g>) -> Result<Ref<'g, R>, Full>,
        T: FnMut(WorkerId, &R, &View<&[u8]>) -> Result<(), JobError>,
    {
        exchange::exchange_graphs(worker, self, place, build, take)
    }

    /// `rounds` times: what `step` plans from this worker's records of the round before.
    ///
    /// Where the job [keeps checkpoints](crate::WorkerConfig::checkpoints), another attempt begins with the records that were kept last, in the order in which they were kept, in
    /// place of those of this dataset: what `step` knows beside them, such as a graph, has to be the same in each attempt.
    fn iterate<D, F>(self, rounds: usize, mut step: F) -> impl Dataset<Item = Self::Item>
    where
        Self::Item: Record,
        D: Dataset<Item = Self::Item>,
        F: FnMut(&Worker, usize, Vec<Self::Item>) -> Result<D, JobError>,
    {
        self.iterate_until(rounds, move |worker, round, records| {
            step(worker, round, records).map(Round::Next)
        })
    }

    /// As [`iterate`](Self::iterate), at most `rounds` times: `step` also says whether it was the last time, on all workers alike.
    fn iterate_until<D, F>(self, rounds: usize, step: F) -> Iterate<Self, F>
    where
        Self::Item: Record,
        D: Dataset<Item = Self::Item>,
        F: FnMut(&Worker, usize, Vec<Self::Item>) -> Result<Round<D>, JobError>,
    {
        Iterate { upstream: self, rounds, step }
    }

    /// Runs the plan, and returns this worker's records: a value of the program's own, which no limit counts.
    ///
    /// # Errors
    /// See [`run`](Self::run).
    fn to_vec(self, worker: &Worker) -> Result<Vec<Self::Item>, JobError> {
        let mut records = Vec::new();
        self.run(worker, |record| {
            records.push(record);
            Ok(())
        })?;
        Ok(records)
    }

    /// Runs the plan once, and keeps this worker's records, to be gone through as often as one likes, in their order: in half of the memory, and behind that in a file ([`WorkerConfig::spill_folder`]). A record has to be of one of the job's types.
    ///
    /// # Errors
    /// See [`run`](Self::run).
    ///
    /// [`WorkerConfig::spill_folder`]: crate::WorkerConfig::spill_folder
    fn cache(self, worker: &Worker) -> Result<Cached<Self::Item>, JobError>
    where
        Self::Item: Record + Clone,
    {
        Cached::of(worker, self)
    }

    /// Runs the plan, and writes this worker's records into a table of a cluster, as keys and values. Returns how many there were. [`TableWriter`] says what becomes of those of a
    /// job that fails.
    ///
    /// # Errors
    /// [`JobError::WriteTable`], and see [`run`](Self::run).
    ///
    /// [`TableWriter`]: crate::TableWriter
    fn into_table<K, V>(self, worker: &Worker, table: &ClusterTable) -> Result<u64, JobError>
    where
        Self: Dataset<Item = (K, V)>,
        K: Into<Vec<u8>>,
        V: Into<Vec<u8>>,
    {
        let mut writer = table.writer();
        self.run(worker, |(key, value)| writer.write(key.into(), value.into()))?;
        writer.finish()
    }

    /// Runs the plan, and writes this worker's records to `out`, each a line of JSON ([`JsonLines`]). Returns how many there were.
    ///
    /// # Errors
    /// [`JobError::Job`] if one cannot be written, which is named by its line, and see [`run`](Self::run).
    fn into_json_lines(self, worker: &Worker, out: impl Write) -> Result<u64, JobError>
    where
        Self::Item: Serialize,
    {
        let (mut lines, mut line) = (JsonLines::new(out), 0_u64);
        let failed =
            |line, error| JobError::Job(format!("cannot write line {line} of JSON: {error}"));
        self.run(worker, |record| {
            line += 1;
            lines.write(&record).map_err(|error| failed(line, error))
        })?;
        lines.finish().map_err(|error| failed(line, error))
    }

    /// Runs the plan, and returns the records of all workers on worker 0, in the order of the
    /// workers; nothing on the others. It is for what is small: worker 0 has to have room for all of them, which no limit counts. [`partition_by`](Self::partition_by) goes through them without that.
    ///
    /// # Errors
    /// See [`run`](Self::run).
    fn collect(self, worker: &Worker) -> Result<Vec<Self::Item>, JobError>
    where
        Self::Item: Record,
    {
        self.partition_by(|_| WorkerId(0)).to_vec(worker)
    }
}

/// A key with nothing that is said of it.
pub type KeyAlone<K> = Pair<K, [u8; 0]>;

/// The dataset of this worker's `records`.
pub fn records<I: IntoIterator>(records: I) -> FromRecords<I> {
    FromRecords { records }
}

/// See [`records`].
#[derive(Debug)]
pub struct FromRecords<I> {
    records: I,
}

impl<I: IntoIterator> Dataset for FromRecords<I> {
    type Item = I::Item;

    fn run(
        self,
        _: &Worker,
        sink: impl FnMut(I::Item) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        self.records.into_iter().try_for_each(sink)
    }
}

/// See [`Dataset::map`].
#[derive(Debug)]
pub struct Map<D, F> {
    upstream: D,
    change: F,
}

impl<D: Dataset, T, F: FnMut(D::Item) -> T> Dataset for Map<D, F> {
    type Item = T;

    fn run(
        self,
        worker: &Worker,
        mut sink: impl FnMut(T) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let mut change = self.change;
        self.upstream.run(worker, |record| sink(change(record)))
    }
}

/// See [`Dataset::filter`].
#[derive(Debug)]
pub struct Filter<D, F> {
    upstream: D,
    keep: F,
}

impl<D: Dataset, F: FnMut(&D::Item) -> bool> Dataset for Filter<D, F> {
    type Item = D::Item;

    fn run(
        self,
        worker: &Worker,
        mut sink: impl FnMut(D::Item) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let mut keep = self.keep;
        self.upstream.run(worker, |record| if keep(&record) { sink(record) } else { Ok(()) })
    }
}

/// See [`Dataset::flat_map`].
#[derive(Debug)]
pub struct FlatMap<D, F> {
    upstream: D,
    change: F,
}

impl<D: Dataset, T: IntoIterator, F: FnMut(D::Item) -> T> Dataset for FlatMap<D, F> {
    type Item = T::Item;

    fn run(
        self,
        worker: &Worker,
        mut sink: impl FnMut(T::Item) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let mut change = self.change;
        self.upstream.run(worker, |record| change(record).into_iter().try_for_each(&mut sink))
    }
}

/// See [`Dataset::flat_map_into`].
#[derive(Debug)]
pub struct FlatMapInto<D, T, F> {
    upstream: D,
    change: F,
    given: PhantomData<fn() -> T>,
}

impl<D: Dataset, T, F> Dataset for FlatMapInto<D, T, F>
where
    F: FnMut(D::Item, &mut dyn FnMut(T) -> Result<(), JobError>) -> Result<(), JobError>,
{
    type Item = T;

    fn run(
        self,
        worker: &Worker,
        mut sink: impl FnMut(T) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let mut change = self.change;
        // No closure is generic over what it calls, so this call is a dynamic one; where `change` is
        // inlined here, it is inlined, too.
        self.upstream.run(worker, |record| change(record, &mut sink))
    }
}

/// What a round of [`Dataset::iterate_until`] comes to.
#[derive(Clone, Copy, Debug)]
pub enum Round<D> {
    /// What the next one goes on with.
    Next(D),
    /// What all rounds come to.
    Last(D),
}

/// See [`Dataset::iterate_until`].
#[derive(Debug)]
pub struct Iterate<D, F> {
    upstream: D,
    rounds: usize,
    step: F,
}

impl<D, N, F> Dataset for Iterate<D, F>
where
    D: Dataset<Item: Record>,
    N: Dataset<Item = D::Item>,
    F: FnMut(&Worker, usize, Vec<D::Item>) -> Result<Round<N>, JobError>,
{
    type Item = D::Item;

    fn run(
        self,
        worker: &Worker,
        sink: impl FnMut(D::Item) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let mut step = self.step;
        let mut kept = worker.checkpoints().map(Checkpoints::begin);
        let restored = kept.as_mut().map_or(Ok(None), |kept| kept.restore(worker))?;
        let (first, mut state) = match restored {
            Some(restored) => restored,
            None => (0, self.upstream.to_vec(worker)?),
        };
        let looped = worker.recorder().enter_loop();
        for round in first..self.rounds {
            looped.begin_round();
            let (plan, is_last) = match step(worker, round, state)? {
                Round::Next(plan) => (plan, round + 1 == self.rounds),
                Round::Last(plan) => (plan, true),
            };
            state = plan.to_vec(worker)?;
            if is_last {
                break;
            }
            if let Some(kept) = &mut kept {
                kept.keep(round + 1, &state)?;
            }
        }
        drop(looped);
        state.into_iter().try_for_each(sink)
    }
}
