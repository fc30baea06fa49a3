//! What vertices give along edges that lead to vertices of others, a batch for a message.

use std::ops::Range;

use super::links::{Leading, MessageLinks};
use super::vertex_sums::{NotOwn, VertexSums};
use crate::worker::WorkerId;

/// Values that are looked up before any of them goes into a message.
const TOGETHER: usize = 32;

/// What a worker's vertices give in a round.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    links: &'a MessageLinks,
    /// What each vertex gives along each of its edges.
    parts: &'a [f64],
    own: WorkerId,
}

/// Updates that leave for one worker: one an edge.
#[derive(Clone, Debug)]
pub struct LeavingUpdates<'a> {
    to: WorkerId,
    leading: &'a Leading,
    parts: &'a [f64],
    edges: Range<usize>,
}

/// Sums that leave for one worker: one for each vertex to which an edge leads.
#[derive(Clone, Debug)]
pub struct LeavingSums<'a> {
    to: WorkerId,
    leading: &'a Leading,
    parts: &'a [f64],
    targets: Range<usize>,
}

impl<'a> Leaving<'a> {
    pub(super) fn new(links: &'a MessageLinks, parts: &'a [f64], own: WorkerId) -> Leaving<'a> {
        Leaving { links, parts, own }
    }

    /// An update for each edge to a vertex of another worker, in batches of up to `len`, which is not zero.
    pub fn updates(self, len: usize) -> impl Iterator<Item = LeavingUpdates<'a>> {
        self.to_others().flat_map(move |(to, leading)| {
            let batches = ranges(leading.sources.len(), len);
            batches.map(move |edges| LeavingUpdates { to, leading, parts: self.parts, edges })
        })
    }

    /// A sum for each vertex of another worker to which an edge leads, in batches of up to `len`, which is not zero.
    pub fn sums(self, len: usize) -> impl Iterator<Item = LeavingSums<'a>> {
        self.to_others().flat_map(move |(to, leading)| {
            let batches = ranges(leading.targets.len(), len);
            batches.map(move |targets| LeavingSums { to, leading, parts: self.parts, targets })
        })
    }

    /// Adds what stays.
    pub(super) fn stay(self, sums: &mut VertexSums) -> Result<(), NotOwn> {
        let (leading, parts) = (self.links.leading_to(self.own), self.parts);
        let given = (0..).map(|target| sum(leading, parts, target));
        sums.add_all(leading.targets.iter().copied().zip(given))
    }

    fn to_others(self) -> impl Iterator<Item = (WorkerId, &'a Leading)> {
        let others = (0..self.links.workers()).map(WorkerId).filter(move |to| *to != self.own);
        others.map(move |to| (to, self.links.leading_to(to)))
    }
}

impl LeavingUpdates<'_> {
    /// For whom they are.
    pub fn to(&self) -> WorkerId {
        self.to
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.edges.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    /// The vertex and the value of each.
    #[inline]
    pub fn iter(&self) -> Updates<'_> {
        let Self { leading, parts, ref edges, .. } = *self;
        let target = leading.ends.partition_point(|end| *end as usize <= edges.start);
        let ready = [(0, 0.0); TOGETHER];
        Updates { leading, parts, edges: edges.clone(), target, ready, begin: 0, end: 0 }
    }
}

/// See [`LeavingUpdates::iter`].
#[derive(Clone, Debug)]
pub struct Updates<'a> {
    leading: &'a Leading,
    parts: &'a [f64],
    /// Those that have not been looked up.
    edges: Range<usize>,
    /// The place of the target of the first of them.
    target: usize,
    /// Those that have been looked up, from `begin` to `end`.
    ready: [(u64, f64); TOGETHER],
    begin: usize,
    end: usize,
}

impl Updates<'_> {
    /// Looks the next ones up. In a loop of its own, which does nothing else, so that the processor waits for all of their lines of memory at once.
    #[inline(never)]
    fn look_up(&mut self) {
        let Self { leading, parts, edges, target, ready, .. } = self;
        let mut end = 0;
        while end < TOGETHER && edges.start < edges.end {
            let last = edges.end.min(leading.ends[*target] as usize);
            let sources = edges.start..last.min(edges.start + TOGETHER - end);
            edges.start = sources.end;
            let vertex = leading.targets[*target];
            *target += usize::from(sources.end == leading.ends[*target] as usize);
            for source in &leading.sources[sources] {
                ready[end] = (vertex, parts[*source as usize]);
                end += 1;
            }
        }
        (self.begin, self.end) = (0, end);
    }
}

impl Iterator for Updates<'_> {
    type Item = (u64, f64);

    #[inline(always)]
    fn next(&mut self) -> Option<(u64, f64)> {
        if self.begin == self.end {
            self.look_up();
        }
        let next = *self.ready[..self.end].get(self.begin)?;
        self.begin += 1;
        Some(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.edges.len() + self.end - self.begin;
        (len, Some(len))
    }
}

impl ExactSizeIterator for Updates<'_> {}

impl<'a> LeavingSums<'a> {
    /// For whom they are.
    pub fn to(&self) -> WorkerId {
        self.to
    }

    /// The vertices.
    pub fn vertices(&self) -> &'a [u64] {
        &self.leading.targets[self.targets.clone()]
    }

    /// What each of the vertices is given by this worker's.
    pub fn values(&self) -> impl ExactSizeIterator<Item = f64> {
        self.targets.clone().map(|target| sum(self.leading, self.parts, target))
    }
}

/// What this worker's vertices give to a target, which is given by its place.
#[inline]
fn sum(leading: &Leading, parts: &[f64], target: usize) -> f64 {
    let sources = &leading.sources[leading.begin(target)..leading.ends[target] as usize];
    sources.iter().map(|source| parts[*source as usize]).sum()
}

/// The numbers below `end`, in ranges of up to `len`.
fn ranges(end: usize, len: usize) -> impl Iterator<Item = Range<usize>> {
    (0..end).step_by(len).map(move |first| first..end.min(first + len))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A few edges to each target, and many to some.
    fn leading() -> Leading {
        let degrees =
            (0..200_u64).map(|target| if target % 37 == 0 { 100 } else { target % 4 + 1 });
        let (mut ends, mut sources) = (Vec::new(), Vec::new());
        for degree in degrees {
            sources.extend((0..degree).map(|edge| (edge * 31 % 97) as u32));
            ends.push(sources.len() as u64);
        }
        Leading { targets: (0..200).map(|target| target * target).collect(), ends, sources }
    }

    #[test]
    fn each_edge_has_an_update_whatever_batches_they_are_in() {
        let (leading, parts): (_, Vec<f64>) = (leading(), (0..97).map(f64::from).collect());
        let expected: Vec<(u64, f64)> = (0..leading.targets.len())
            .flat_map(|target| {
                let sources = leading.begin(target)..leading.ends[target] as usize;
                let vertex = leading.targets[target];
                leading.sources[sources].iter().map(move |source| (vertex, f64::from(*source)))
            })
            .collect();
        for len in [1, 2, 31, 32, 33, 100, expected.len(), expected.len() + 1] {
            let mut found = Vec::new();
            for edges in ranges(leading.sources.len(), len) {
                let (leading, parts) = (&leading, &parts[..]);
                let batch = LeavingUpdates { to: WorkerId(1), leading, parts, edges };
                let mut updates = batch.iter();
                for left in (0..batch.len()).rev() {
                    found.extend(updates.next());
                    assert_eq!(updates.len(), left);
                }
                assert_eq!((updates.next(), batch.is_empty()), (None, false));
            }
            assert!(found == expected, "in batches of {len}");
        }
    }

    #[test]
    fn each_target_has_a_sum_whatever_batches_they_are_in() {
        let (leading, parts): (_, Vec<f64>) = (leading(), (0..97).map(f64::from).collect());
        for len in [1, 7, 200, 300] {
            let mut found = Vec::new();
            for targets in ranges(leading.targets.len(), len) {
                let (leading, parts) = (&leading, &parts[..]);
                let batch = LeavingSums { to: WorkerId(1), leading, parts, targets };
                found.extend(batch.vertices().iter().copied().zip(batch.values()));
            }
            assert_eq!(found.len(), 200);
            for (target, (vertex, value)) in found.into_iter().enumerate() {
                let sources = leading.begin(target)..leading.ends[target] as usize;
                let sum: f64 = leading.sources[sources].iter().map(|at| f64::from(*at)).sum();
                assert_eq!((vertex, value), ((target * target) as u64, sum));
            }
        }
    }
}
