//! Sources whose edges are held by another worker than the one that has the vertex.

use std::cmp::Reverse;

use weft_object::{Types, Wire};

use super::balance::transfers;
use super::rows::Rows;
use crate::error::JobError;
use crate::partition::{all_to_all, gather};
use crate::reduce::Ranges;
use crate::stages::Verb;
use crate::worker::{Worker, WorkerId};

/// What of this worker's vertices others hold, and what this one holds of theirs. The holder of a
/// part of a vertex's edges has a *mirror* of it: a row of targets, and in each round the value that
/// goes along them.
#[derive(Debug, Default)]
pub(super) struct Mirrors {
    /// This worker's vertices of which others have mirrors, in the order of the rows there.
    given: Vec<Given>,
    /// How many rows this worker has of others.
    held: usize,
    /// Whether any worker has a mirror.
    are_any: bool,
}

#[derive(Clone, Copy, Debug)]
struct Given {
    index: usize,
    holder: WorkerId,
}

/// An edge that moves to a worker that has neither of its ends.
#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
struct Moved {
    source: u32,
    target: u32,
}

impl Mirrors {
    pub(super) fn types(types: Types) -> Types {
        types.with::<Moved>()
    }

    /// Moves edges until no worker holds more than its share and a twentieth, rounded up to whole
    /// edges; none if it is so already. `targets` has a row for each vertex of this worker, and gets
    /// one for each mirror behind them.
    pub(super) fn balance(
        worker: &Worker,
        ranges: &Ranges,
        targets: &mut Rows,
    ) -> Result<Self, JobError> {
        let transfers = transfers(&gather(worker, targets.edges())?);
        if transfers.is_empty() {
            return Ok(Self::default());
        }
        let mut surplus = Surplus::new(targets);
        for transfer in transfers.iter().filter(|transfer| transfer.from == worker.id()) {
            surplus.give(transfer.to, transfer.edges);
        }
        let Surplus { given, moved, kept, .. } = surplus;
        let first = ranges.of(worker.id()).start as u32;
        let moved = moved.into_iter().map(|(Given { index, holder }, target)| {
            (holder, Moved { source: first + index as u32, target })
        });
        let received = all_to_all(worker, moved)?;
        targets.shorten(&kept);
        let mut held = 0;
        for (from, edges) in received.by_worker.iter().enumerate() {
            if edges.iter().any(|moved| u64::from(moved.target) >= ranges.total()) {
                return Err(received.refuse(WorkerId(from), "edges to vertices that nobody has"));
            }
            for row in edges.chunk_by(|one, other| one.source == other.source) {
                row.iter().for_each(|moved| targets.push(moved.target));
                targets.end_row();
                held += 1;
            }
        }
        Ok(Self { given, held, are_any: true })
    }

    /// The values of this worker's mirrors, in the order of their rows, where `values` are those of its own vertices. An exchange if any worker has a mirror.
    pub(super) fn values<V: Wire>(
        &self,
        worker: &Worker,
        values: &[V],
    ) -> Result<Vec<V>, JobError> {
        if !self.are_any {
            return Ok(Vec::new());
        }
        let _verb = worker.recorder().enter(Verb::CombineIncoming);
        let given = self.given.iter().map(|given| (given.holder, values[given.index]));
        let values = all_to_all(worker, given)?.by_worker.concat();
        if values.len() == self.held {
            return Ok(values);
        }
        let (came, held) = (values.len(), self.held);
        Err(JobError::Job(format!("{came} values came for {held} mirrored vertices")))
    }
}

/// Takes edges off a worker's rows, the longest first: so the fewest vertices are mirrored.
struct Surplus<'t> {
    targets: &'t Rows,
    /// Rows that have not been taken as a whole, the longest last.
    by_length: Vec<usize>,
    /// How many edges stay, a row.
    kept: Vec<usize>,
    given: Vec<Given>,
    moved: Vec<(Given, u32)>,
}

impl<'t> Surplus<'t> {
    fn new(targets: &'t Rows) -> Self {
        let kept: Vec<usize> = (0..targets.rows()).map(|row| targets.row(row).len()).collect();
        let mut by_length: Vec<usize> = (0..kept.len()).collect();
        by_length.sort_unstable_by_key(|row| (kept[*row], Reverse(*row)));
        Self { targets, by_length, kept, given: Vec::new(), moved: Vec::new() }
    }

    /// Gives `holder` so many edges.
    fn give(&mut self, holder: WorkerId, mut edges: u64) {
        while edges > 0
            && let Some(index) = self.by_length.last().copied()
        {
            let kept = &mut self.kept[index];
            let count = edges.min(*kept as u64) as usize;
            let run = &self.targets.row(index)[*kept - count..*kept];
            *kept -= count;
            edges -= count as u64;
            if *kept == 0 {
                self.by_length.pop();
            }
            let given = Given { index, holder };
            self.given.push(given);
            self.moved.extend(run.iter().map(|target| (given, *target)));
        }
    }
}
