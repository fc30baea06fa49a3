//! The exchange by which the edges of a graph come to their workers.

use weft_object::{Pair, Segment, View};

use super::{Exchange, SEGMENT_BYTES, count};
use crate::dataset::Dataset;
use crate::error::JobError;
use crate::filling::{Fill, Filling};
use crate::worker::{Worker, WorkerId};

/// An edge whose ends have 32 bits, as those of most inputs, its source first: it takes half of the bytes.
pub(crate) type NarrowEdge = [u32; 2];

/// Any edge, its source as the key.
pub(crate) type WideEdge = Pair<u64, u64>;

/// An edge as it is sent.
#[derive(Clone, Copy)]
pub(crate) enum SizedEdge {
    Narrow(NarrowEdge),
    Wide(WideEdge),
}

impl SizedEdge {
    #[inline(always)]
    pub(crate) fn of(edge: WideEdge) -> SizedEdge {
        match (u32::try_from(edge.key), u32::try_from(edge.value)) {
            (Ok(source), Ok(target)) => SizedEdge::Narrow([source, target]),
            _ => SizedEdge::Wide(edge),
        }
    }
}

/// The segments that go to one worker: one with edges of either kind.
struct EdgeFilling {
    narrow: Filling<NarrowEdge>,
    wide: Filling<WideEdge>,
}

impl EdgeFilling {
    /// Whether the next one that is taken has narrow edges: it has more bytes than the other.
    fn is_narrow_next(&self) -> bool {
        self.narrow.records() > 2 * self.wide.records()
    }
}

impl Fill for EdgeFilling {
    fn new() -> EdgeFilling {
        EdgeFilling { narrow: Filling::new(), wide: Filling::new() }
    }

    fn records(&self) -> usize {
        match self.is_narrow_next() {
            true => self.narrow.records(),
            false => self.wide.records(),
        }
    }

    fn take(&mut self) -> Option<Segment> {
        match self.is_narrow_next() {
            true => self.narrow.take(),
            false => self.wide.take(),
        }
    }
}

/// An exchange: `take` gets the edges whose place this worker is, as they come.
pub(crate) fn exchange_edges(
    worker: &Worker,
    edges: impl Dataset<Item = WideEdge>,
    mut place: impl FnMut(&WideEdge) -> WorkerId,
    take: impl Fn(SizedEdge) -> Result<(), JobError>,
) -> Result<(), JobError> {
    let mut exchange = Exchange::open_edges(worker, &take);
    let own = worker.id();
    edges.run(worker, |edge| match (place(&edge), SizedEdge::of(edge)) {
        (to, edge) if to == own => {
            exchange.keep();
            take(edge)
        }
        (to, edge) => exchange.push_edge(to, edge),
    })?;
    exchange.finish()
}

impl<'w> Exchange<'w, EdgeFilling> {
    /// Opens an exchange: each edge that others send here goes to `take`, on the thread of whoever pushes and finishes.
    fn open_edges(
        worker: &'w Worker,
        take: impl Fn(SizedEdge) -> Result<(), JobError> + 'w,
    ) -> Self {
        let live = worker.live();
        let pull = move |_, view: &View<&[u8]>| {
            live.add_received(count::<NarrowEdge, _>(view) + count::<WideEdge, _>(view));
            for edge in view.records::<NarrowEdge>().flatten() {
                take(SizedEdge::Narrow(*edge))?;
            }
            view.records::<WideEdge>().flatten().try_for_each(|edge| take(SizedEdge::of(*edge)))
        };
        Self::new(worker, None, Some(Box::new(pull)))
    }

    /// Writes an edge to where it will be sent to another worker from.
    #[inline(always)]
    fn push_edge(&mut self, to: WorkerId, edge: SizedEdge) -> Result<(), JobError> {
        let outgoing = self.outgoing.get_mut(to.0);
        let is_written = outgoing.is_some_and(|outgoing| match &edge {
            SizedEdge::Narrow(edge) => outgoing.filling.narrow.push(edge),
            SizedEdge::Wide(edge) => outgoing.filling.wide.push(edge),
        });
        if is_written { Ok(()) } else { self.push_edge_to_next(to, edge) }
    }

    #[cold]
    fn push_edge_to_next(&mut self, to: WorkerId, edge: SizedEdge) -> Result<(), JobError> {
        self.check_place(to)?;
        // It is full; so may be the other, which is sent first then.
        while self.has_begun(to, edge) {
            self.send(to)?;
        }
        let (memory, types) = (self.worker.memory(), self.worker.types());
        let filling = &mut self.outgoing[to.0].filling;
        match &edge {
            SizedEdge::Narrow(edge) => filling.narrow.begin(edge, memory, types, SEGMENT_BYTES),
            SizedEdge::Wide(edge) => filling.wide.begin(edge, memory, types, SEGMENT_BYTES),
        }
    }

    /// Whether a segment is being written for edges of such a kind.
    fn has_begun(&self, to: WorkerId, edge: SizedEdge) -> bool {
        let filling = &self.outgoing[to.0].filling;
        match edge {
            SizedEdge::Narrow(_) => filling.narrow.records() > 0,
            SizedEdge::Wide(_) => filling.wide.records() > 0,
        }
    }
}
