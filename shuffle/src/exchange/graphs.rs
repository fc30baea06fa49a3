//! Exchanges of records that are graphs of objects.

use std::cell::RefCell;

use weft_object::{Full, Graph, Ref, Root, View, Wire};

use super::{Exchange, SEGMENT_BYTES, count};
use crate::dataset::Dataset;
use crate::error::JobError;
use crate::filling::{Fill as _, GraphFilling};
use crate::stages::Verb;
use crate::worker::{Worker, WorkerId};

/// See [`Dataset::exchange_graphs`].
pub(crate) fn exchange_graphs<D: Dataset, R: Wire>(
    worker: &Worker,
    upstream: D,
    mut place: impl FnMut(&D::Item) -> WorkerId,
    mut build: impl for<'g> FnMut(&D::Item, &mut Graph<'g>) -> Result<Ref<'g, R>, Full>,
    take: impl FnMut(WorkerId, &R, &View<&[u8]>) -> Result<(), JobError>,
) -> Result<(), JobError> {
    let _verb = worker.recorder().enter(Verb::ExchangeGraphs);
    // Records come while others are sent, and those that stay are taken in between.
    let take = RefCell::new(take);
    let mut exchange =
        Exchange::open_graphs(worker, |from, root: &R, view| take.borrow_mut()(from, root, view));
    let mut kept = Kept { worker, filling: GraphFilling::new() };
    upstream.run(worker, |record| match place(&record) {
        to if to == worker.id() => {
            exchange.keep();
            let stage = exchange.stage();
            kept.push(stage, |graph| build(&record, graph), &mut *take.borrow_mut())
        }
        to => exchange.push_graph(to, |graph| build(&record, graph)),
    })?;
    kept.take(exchange.stage(), &mut *take.borrow_mut())?;
    exchange.finish()
}

impl<'w, R: Wire> Exchange<'w, GraphFilling<R>> {
    /// Opens the next exchange of the job: each record that others send here goes to `take`, on the thread of whoever pushes and finishes, where it was received.
    fn open_graphs(
        worker: &'w Worker,
        mut take: impl FnMut(WorkerId, &R, &View<&[u8]>) -> Result<(), JobError> + 'w,
    ) -> Self {
        let live = worker.live();
        let pull = move |from, view: &View<&[u8]>| {
            live.add_received(count::<Root<R>, _>(view));
            view.roots().try_for_each(|root| take(from, root, view))
        };
        Self::new(worker, None, Some(Box::new(pull)))
    }

    /// Has `build` build a record where it will be sent to another worker from: again, should it find no room.
    ///
    /// # Errors
    /// There is no such worker, no memory, no segment with room for the record, or the worker is lost.
    fn push_graph(
        &mut self,
        to: WorkerId,
        mut build: impl for<'g> FnMut(&mut Graph<'g>) -> Result<Ref<'g, R>, Full>,
    ) -> Result<(), JobError> {
        self.check_place(to)?;
        if self.outgoing[to.0].filling.push(&mut build)? {
            return Ok(());
        }
        self.send(to)?;
        let (memory, types) = (self.worker.memory(), self.worker.types());
        self.outgoing[to.0].filling.begin(build, memory, types, SEGMENT_BYTES)
    }
}

/// Records that stay on their worker: they are graphs in segments as others are, and checked as such, so that nothing is told of where a record comes from but by whom.
struct Kept<'w, R> {
    worker: &'w Worker,
    filling: GraphFilling<R>,
}

impl<R: Wire> Kept<'_, R> {
    fn push(
        &mut self,
        stage: u32,
        mut build: impl for<'g> FnMut(&mut Graph<'g>) -> Result<Ref<'g, R>, Full>,
        take: impl FnMut(WorkerId, &R, &View<&[u8]>) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        if self.filling.push(&mut build)? {
            return Ok(());
        }
        self.take(stage, take)?;
        let (memory, types) = (self.worker.memory(), self.worker.types());
        self.filling.begin(build, memory, types, SEGMENT_BYTES)
    }

    /// Has what is in the segment taken.
    fn take(
        &mut self,
        stage: u32,
        mut take: impl FnMut(WorkerId, &R, &View<&[u8]>) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let Some(segment) = self.filling.take() else { return Ok(()) };
        let worker = self.worker.id();
        let failed = |reason| JobError::Block { worker, stage, reason };
        let view = segment.view(self.worker.types()).map_err(failed)?;
        view.roots().try_for_each(|root| take(worker, root, &view))
    }
}
