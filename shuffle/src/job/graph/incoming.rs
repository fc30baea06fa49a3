//! Edges by the vertices that they lead to, and what is given along them.
//!
//! Where an edge leads is known before the first round, so what is given along edges needs no key: each worker sends its sums of values in the order that was agreed on
//! once, as workers with static identifiers do in Naos (ATC '21). And the sum for a vertex is made in one go, of values that are looked up where few lie
//! that are looked up often, in place of sums of which each is looked up for each of its edges.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_object::Wire;

use super::columns::Columns;
use crate::budget::Required;
use crate::error::JobError;
use crate::exchange::Exchange;
use crate::partition::all_to_all;
use crate::reduce::Ranges;
use crate::stages::Verb;
use crate::worker::{Worker, WorkerId};

/// Bytes of a vertex of which it is known that a worker gives it something: as that came, and as it is kept.
const RECEIVER_BYTES: u64 = 8;

/// The edges that this worker holds.
#[derive(Debug)]
pub(super) struct Incoming {
    columns: Columns,
    /// Which columns are for vertices of each worker.
    by_receiver: Vec<Range<usize>>,
    receivers: Arc<Receivers>,
    _required: Required,
}

/// To which of this worker's vertices each worker gives something, in the order in which it does.
type Receivers = Vec<Vec<u32>>;

/// What has come so far.
struct Sums<V> {
    values: Vec<V>,
    /// How many each worker has sent.
    came: Vec<usize>,
}

impl Incoming {
    /// Tells all workers to which of their vertices edges lead here. An exchange.
    pub(super) fn agree(
        worker: &Worker,
        ranges: &Ranges,
        mut columns: Columns,
    ) -> Result<Self, JobError> {
        let budget = &worker.spilling().budget;
        // As many are told here, or so, as this worker tells.
        let expected = budget.take_anyway(columns.targets.len() as u64 * RECEIVER_BYTES);
        columns.sources.make_room()?;
        let targets = &columns.targets;
        let by_receiver: Vec<Range<usize>> =
            worker.ids().map(|to| place(targets, ranges.of(to))).collect();
        let columns_of = by_receiver.iter().enumerate();
        let announced = columns_of.flat_map(|(to, columns)| {
            let targets = targets[columns.clone()].iter();
            targets.map(move |target| (WorkerId(to), *target))
        });
        let received = all_to_all(worker, announced)?;
        let receivers = received.by_worker.iter().map(Vec::len).sum::<usize>() as u64;
        let required = budget.require(receivers * RECEIVER_BYTES)?;
        drop(expected);
        let range = ranges.of(worker.id());
        let first = range.start as u32;
        let indices = received.by_worker.iter().enumerate().map(|(from, numbers)| {
            let is_known = numbers.is_sorted_by(|one, other| one < other)
                && numbers.iter().all(|number| range.contains(&u64::from(*number)));
            let what = "edges to vertices of others, or to one twice";
            is_known
                .then(|| numbers.iter().map(|number| number - first).collect())
                .ok_or_else(|| received.refuse(WorkerId(from), what))
        });
        let receivers = Arc::new(indices.collect::<Result<Receivers, _>>()?);
        Ok(Self { columns, by_receiver, receivers, _required: required })
    }

    /// Edges of all columns.
    pub(super) fn edges(&self) -> u64 {
        self.columns.edges()
    }

    /// Has the edges go to a file if memory has no room for them beside what else there is now.
    pub(super) fn make_room(&mut self) -> Result<(), JobError> {
        self.columns.sources.make_room()
    }

    /// For each of this worker's vertices, what all workers give it along edges, and what `nothing` has for it, combined. `given` has a value for each source here. An exchange.
    pub(super) fn combine<V: Wire>(
        &self,
        worker: &Worker,
        given: &[V],
        nothing: Vec<V>,
        combine: impl Fn(V, V) -> V + Copy + Send + 'static,
    ) -> Result<Vec<V>, JobError> {
        let _verb = worker.recorder().enter(Verb::CombineIncoming);
        let own = worker.id();
        let sums = Sums { values: nothing, came: vec![0; self.receivers.len()] };
        let sums = Arc::new(Mutex::new(sums));
        let (taking, receivers) = (Arc::clone(&sums), Arc::clone(&self.receivers));
        let mut exchange = Exchange::open(worker, move |from, mut pages| {
            let mut sums = taking.lock();
            let is_known = pages.all(|page| sums.add(from, &receivers[from.0], page, combine));
            if is_known { Ok(()) } else { Err("values for more vertices than its edges lead to") }
        });
        for to in worker.ids().filter(|to| *to != own) {
            let columns = self.by_receiver[to.0].clone();
            self.columns.sources.for_each(columns, |_, sources| {
                exchange.push(to, sum_of(sources, given, combine))
            })?;
        }
        // Those of its own vertices while the others' are on their way.
        let columns = self.by_receiver[own.0].clone();
        let mut kept = Vec::with_capacity(columns.len());
        self.columns.sources.for_each(columns, |_, sources| {
            kept.push(sum_of(sources, given, combine));
            Ok(())
        })?;
        let stage = exchange.stage();
        exchange.keep_all(kept.len());
        exchange.finish()?;
        let mut sums = sums.lock();
        sums.add(own, &self.receivers[own.0], &kept, combine);
        let lacks = |from: &WorkerId| sums.came[from.0] != self.receivers[from.0].len();
        match worker.ids().find(lacks) {
            None => Ok(std::mem::take(&mut sums.values)),
            Some(worker) => {
                let what = "values for fewer vertices than its edges lead to";
                Err(JobError::Protocol { worker, stage, what })
            }
        }
    }
}

/// What the target of a column with these sources is given. Four sums at a time, none of which waits for the one before it.
#[inline]
fn sum_of<V: Copy>(sources: &[u32], given: &[V], combine: impl Fn(V, V) -> V) -> V {
    let value = |source: u32| given[source as usize];
    let (fours, rest) = sources.as_chunks::<4>();
    let Some((first, fours)) = fours.split_first() else {
        let few = rest.iter().map(|source| value(*source));
        return few.reduce(combine).expect("there are columns of edges only");
    };
    let sums = fours.iter().fold(first.map(value), |[a, b, c, d], [e, f, g, h]| {
        [combine(a, value(*e)), combine(b, value(*f)), combine(c, value(*g)), combine(d, value(*h))]
    });
    let [a, b, c, d] = sums;
    let sum = combine(combine(a, b), combine(c, d));
    rest.iter().fold(sum, |sum, source| combine(sum, value(*source)))
}

impl<V: Copy> Sums<V> {
    /// Adds what a worker gives next to the vertices `receivers`; false if that is more than it has for them.
    fn add(
        &mut self,
        from: WorkerId,
        receivers: &[u32],
        values: &[V],
        combine: impl Fn(V, V) -> V,
    ) -> bool {
        let came = &mut self.came[from.0];
        let Some(receivers) = receivers.get(*came..*came + values.len()) else { return false };
        *came += values.len();
        for (receiver, value) in receivers.iter().zip(values) {
            let sum = &mut self.values[*receiver as usize];
            *sum = combine(*sum, *value);
        }
        true
    }
}

/// Where in ascending `targets` those of `range` are.
fn place(targets: &[u32], range: Range<u64>) -> Range<usize> {
    let below = |end: u64| targets.partition_point(|target| u64::from(*target) < end);
    below(range.start)..below(range.end)
}
