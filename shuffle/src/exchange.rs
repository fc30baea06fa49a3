//! One exchange: records leave in segments, as these fill, and arrive in a sink, or when they are asked for.
//!
//! A sink takes what comes at once, on whatever thread receives it, so it does no more than adding to what is in memory. What may have to wait, for a
//! disk, say, is pulled by the job's own thread: whenever it waits itself, and in the end. What was not pulled yet keeps its credit: so a reducer that is slow
//! slows down those that send to it.

mod graphs;

use std::pin::pin;

use weft_object::{Record, Records, View, Wire};
use weft_transport::{Connection, Retained, SendError};

pub(crate) use self::graphs::exchange_graphs;
use crate::error::JobError;
use crate::filling::{Fill, Filling, records_of};
use crate::inbox::{Sink, in_place};
use crate::message::{Header, Kind};
use crate::worker::{Worker, WorkerId};

/// Bytes of a segment's records: 64 KiB go in one write, the size at which loopback TCP streams
/// fastest, and three of them lie in one receive buffer.
const SEGMENT_BYTES: usize = 64 << 10;

/// The sending side of an exchange of records that segments are filled with.
pub(crate) struct Exchange<'w, F> {
    worker: &'w Worker,
    stage: u32,
    outgoing: Vec<Outgoing<F>>,
    /// Takes what comes, if no sink does.
    pull: Option<Pull<'w>>,
}

type Pull<'w> = Box<dyn FnMut(WorkerId, &View<&[u8]>) -> Result<(), JobError> + 'w>;

/// What goes to one worker.
struct Outgoing<F> {
    filling: F,
    sent: u64,
}

impl<'w, R: Wire> Exchange<'w, Filling<R>> {
    /// Opens the next exchange of the job: records that others send here go to `take`, in order a
    /// worker, on whatever thread receives them.
    pub(crate) fn open(
        worker: &'w Worker,
        mut take: impl FnMut(WorkerId, Records<'_, R>) -> Result<(), &'static str> + Send + 'static,
    ) -> Self {
        let stage = worker.begin_stage();
        let sink: Sink = Box::new(move |from, view| take(from, view.records::<R>()));
        worker.inbox().open(stage, sink);
        Self::new(worker, stage, None)
    }
}

impl<'w, R: Record> Exchange<'w, Filling<R>> {
    /// Opens the next exchange of the job: each record that others send here goes to `take`, on the thread of whoever pushes and finishes.
    pub(crate) fn open_pulled(
        worker: &'w Worker,
        mut take: impl FnMut(WorkerId, R) -> Result<(), JobError> + 'w,
    ) -> Self {
        let pull = move |from, view: &View<&[u8]>| {
            records_of(view).try_for_each(|record| take(from, record))
        };
        Self::new(worker, worker.begin_stage(), Some(Box::new(pull)))
    }

    /// Writes `record` to where it will be sent to another worker from.
    ///
    /// # Errors
    /// There is no such worker, no memory, or the worker is lost.
    #[inline]
    pub(crate) fn push(&mut self, to: WorkerId, record: R) -> Result<(), JobError> {
        let outgoing = self.outgoing.get_mut(to.0);
        if outgoing.is_some_and(|outgoing| outgoing.filling.push(&record)) {
            return Ok(());
        }
        self.push_to_next(to, &record)
    }

    #[cold]
    fn push_to_next(&mut self, to: WorkerId, record: &R) -> Result<(), JobError> {
        self.check_place(to)?;
        self.send(to)?;
        let (memory, types) = (self.worker.memory(), self.worker.types());
        self.outgoing[to.0].filling.begin(record, memory, types, SEGMENT_BYTES)
    }
}

impl<'w, F: Fill> Exchange<'w, F> {
    fn new(worker: &'w Worker, stage: u32, pull: Option<Pull<'w>>) -> Self {
        let outgoing = worker.ids().map(|_| Outgoing { filling: F::new(), sent: 0 });
        let outgoing = outgoing.collect();
        Self { worker, stage, outgoing, pull }
    }

    /// Its number in the job.
    pub(crate) fn stage(&self) -> u32 {
        self.stage
    }

    /// Sends what is left, tells the others that this was all, and waits until they are done too.
    pub(crate) fn finish(mut self) -> Result<(), JobError> {
        let stage = self.stage;
        for to in self.worker.ids().filter(|to| *to != self.worker.id()) {
            self.send(to)?;
            let sequence = self.outgoing[to.0].sent;
            let end = Header { kind: Kind::End, stage, sequence }.encode();
            self.deliver(to, |peer| async move { peer.send(&end).await })?;
        }
        let ended = match self.pull.is_some() {
            true => self.pull_all(),
            false => self.worker.wait_for_end(stage),
        };
        self.worker.inbox().close(stage);
        ended
    }

    fn pull_all(&mut self) -> Result<(), JobError> {
        while let Some((from, message)) = self.worker.wait_for_segment(self.stage)? {
            self.take(from, &message)?;
        }
        Ok(())
    }

    /// Checks a segment and has its records taken.
    fn take(&mut self, from: WorkerId, message: &Retained) -> Result<(), JobError> {
        let Self { worker, stage, pull, .. } = self;
        let Some(pull) = pull else { return Ok(()) };
        in_place(message, |body| {
            let view = View::validate(body, worker.types());
            let failed = |reason| JobError::Block { worker: from, stage: *stage, reason };
            pull(from, &view.map_err(failed)?)
        })
    }

    /// Sends to another worker; takes what comes meanwhile, if that is pulled, as nobody else would: two that wait for one another's credit would do so for ever.
    fn deliver<'a, S>(
        &mut self,
        to: WorkerId,
        send: impl FnOnce(&'a Connection) -> S,
    ) -> Result<(), JobError>
    where
        'w: 'a,
        S: Future<Output = Result<(), SendError>>,
    {
        let worker: &'a Worker = self.worker;
        if self.pull.is_none() {
            return worker.send(to, self.stage, send);
        }
        let mut sending = pin!(worker.sending(to, send));
        while let Some((from, message)) = worker.sent_or_segment(sending.as_mut(), self.stage)? {
            self.take(from, &message)?;
        }
        Ok(())
    }

    /// Whether there is such a worker.
    fn check_place(&self, to: WorkerId) -> Result<(), JobError> {
        let workers = self.outgoing.len();
        if to.0 < workers { Ok(()) } else { Err(JobError::NoSuchWorker { worker: to, workers }) }
    }

    /// Sends the segment for `to` that is being written, if there is one.
    fn send(&mut self, to: WorkerId) -> Result<(), JobError> {
        let outgoing = &mut self.outgoing[to.0];
        let Some(segment) = outgoing.filling.take() else { return Ok(()) };
        let header = Header { kind: Kind::Segment, stage: self.stage, sequence: outgoing.sent };
        outgoing.sent += 1;
        let head = [&header.encode()[..], segment.head()].concat();
        let pages = segment.pages().clone();
        self.deliver(to, |peer| async move { peer.send_shared(head.as_slice(), pages).await })
    }
}
