//! Sources whose edges are held by another worker than the one that has the vertex.

use weft_object::{Types, Wire};

use super::balance::transfers;
use super::columns::Columns;
use super::dictionary::too_many;
use crate::error::JobError;
use crate::partition::{all_to_all, gather};
use crate::reduce::Ranges;
use crate::stages::Verb;
use crate::worker::{Worker, WorkerId};

/// Bytes of an edge that goes, and of one that comes, which is put in order: those that move are in memory while they do.
const GIVEN_BYTES: u64 = size_of::<u32>() as u64;
const CAME_BYTES: u64 = 2 * size_of::<Moved>() as u64;

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
    /// edges; none if it is so already. So many edges begin at each vertex of this worker, and `columns` has them; places of mirrors
    /// are behind those of these.
    pub(super) fn balance(
        worker: &Worker,
        ranges: &Ranges,
        out_degrees: &[u32],
        columns: &mut Columns,
    ) -> Result<Self, JobError> {
        let transfers = transfers(&gather(worker, columns.edges())?);
        if transfers.is_empty() {
            return Ok(Self::default());
        }
        let mut surplus = Surplus::of(out_degrees);
        for transfer in transfers.iter().filter(|transfer| transfer.from == worker.id()) {
            surplus.give(transfer.to, transfer.edges);
        }
        let Surplus { parts, .. } = surplus;
        let spilling = worker.spilling();
        let given_edges: u64 = parts.iter().map(|part| part.edges).sum();
        let _given = spilling.budget.require(given_edges * GIVEN_BYTES)?;
        columns.sources.make_room()?;
        let targets = take(columns, &parts)?;
        let first = ranges.of(worker.id()).start as u32;
        let moved = parts.iter().zip(&targets).flat_map(|(part, targets)| {
            let source = first + part.given.index as u32;
            targets.iter().map(move |target| (part.given.holder, Moved { source, target: *target }))
        });
        let received = all_to_all(worker, moved)?;
        let came: usize = received.by_worker.iter().map(Vec::len).sum();
        let _came = spilling.budget.require(came as u64 * CAME_BYTES)?;
        columns.sources.make_room()?;
        let (mut mirrored, mut held) = (Vec::new(), 0);
        for (from, edges) in received.by_worker.iter().enumerate() {
            if edges.iter().any(|moved| u64::from(moved.target) >= ranges.total()) {
                return Err(received.refuse(WorkerId(from), "edges to vertices that nobody has"));
            }
            for row in edges.chunk_by(|one, other| one.source == other.source) {
                let place = u32::try_from(out_degrees.len() + held);
                let place = place.map_err(|_| too_many(1 << 32))?;
                mirrored.extend(row.iter().map(|moved| (moved.target, place)));
                held += 1;
            }
        }
        mirrored.sort_unstable();
        columns.merge(&mirrored, spilling)?;
        let given = parts.into_iter().map(|part| part.given).collect();
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

/// Which edges of a worker go: those of the vertices with the most, so the fewest are mirrored.
struct Surplus<'d> {
    /// How many edges begin at each vertex, in descending order but for edges that came several times.
    out_degrees: &'d [u32],
    /// The first vertex that does not go as a whole.
    next: usize,
    /// How many of its edges go.
    gone: u64,
    parts: Vec<Part>,
}

/// So many edges of a vertex.
struct Part {
    given: Given,
    edges: u64,
}

impl<'d> Surplus<'d> {
    fn of(out_degrees: &'d [u32]) -> Self {
        Self { out_degrees, next: 0, gone: 0, parts: Vec::new() }
    }

    /// Gives `holder` so many edges.
    fn give(&mut self, holder: WorkerId, mut edges: u64) {
        while edges > 0
            && let Some(degree) = self.out_degrees.get(self.next)
        {
            let left = u64::from(*degree) - self.gone;
            let count = edges.min(left);
            edges -= count;
            self.gone += count;
            self.parts.push(Part { given: Given { index: self.next, holder }, edges: count });
            if count == left {
                (self.next, self.gone) = (self.next + 1, 0);
            }
        }
    }
}

/// Takes edges out of `columns`: the targets of each part.
fn take(columns: &mut Columns, parts: &[Part]) -> Result<Vec<Vec<u32>>, JobError> {
    let mut targets: Vec<Vec<u32>> =
        parts.iter().map(|part| Vec::with_capacity(part.edges as usize)).collect();
    // Those that go are the vertices from the first one on, and the parts of each follow one another.
    let end = parts.last().map_or(0, |part| part.given.index + 1);
    // Which part has the next edge of each.
    let mut filling: Vec<usize> =
        (0..end).map(|index| parts.partition_point(|part| part.given.index < index)).collect();
    columns.retain(|source, target| {
        let Some(at) = filling.get_mut(source as usize) else { return true };
        let is_of = |part: &Part| part.given.index == source as usize;
        if parts.get(*at).is_some_and(|part| is_of(part) && targets[*at].len() as u64 == part.edges)
        {
            *at += 1;
        }
        let Some(_) = parts.get(*at).filter(|part| is_of(part)) else { return true };
        targets[*at].push(target);
        false
    })?;
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::super::rows::Rows;
    use super::*;
    use crate::spill::Spilling;

    #[test]
    fn the_edges_of_the_vertices_with_the_most_go() {
        for room_bytes in [64 << 20, 0] {
            let spilling = Spilling::with_room(room_bytes, Types::new().with::<u32>());
            // Vertices 0, 1 and 2 have four, three and one.
            let lists = [&[0, 1][..], &[0, 1, 2], &[0], &[0, 1]];
            let mut sources = Rows::with_capacity(&spilling, 0, 0);
            lists.iter().for_each(|list| sources.push_row(list).unwrap());
            let sources = sources.finish().unwrap();
            let mut columns = Columns { targets: vec![10, 11, 12, 13], sources };
            let mut surplus = Surplus::of(&[4, 3, 1]);
            surplus.give(WorkerId(1), 3);
            surplus.give(WorkerId(2), 2);
            let parts = surplus.parts;
            let given = |part: &Part| (part.given.index, part.given.holder.0, part.edges);
            let given: Vec<_> = parts.iter().map(given).collect();
            assert_eq!(given, [(0, 1, 3), (0, 2, 1), (1, 2, 1)]);
            assert_eq!(take(&mut columns, &parts).unwrap(), [&[10, 11, 12][..], &[13], &[10]]);
            let mut left = Vec::new();
            let all_rows = columns.sources.for_each(0..2, |row, sources| {
                left.push((columns.targets[row], sources.to_vec()));
                Ok(())
            });
            all_rows.unwrap();
            assert_eq!(left, [(11, vec![1, 2]), (13, vec![1])]);
        }
    }
}
