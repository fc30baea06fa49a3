//! One exchange: records leave in segments, as these fill, and arrive in a sink, or when they are asked for.
//!
//! A sink takes what comes at once, on whatever thread receives it, so it does no more than adding to what is in memory. What may have to wait, for a
//! disk, say, is pulled by the job's own thread: whenever it waits itself, and in the end. What was not pulled yet keeps its credit: so a reducer that is slow
//! slows down those that send to it.

mod edges;
mod graphs;

use std::pin::pin;

use weft_object::{Record, Records, View, Wire};
use weft_transport::{Connection, Retained, SendError};

pub(crate) use self::edges::{NarrowEdge, SizedEdge, exchange_edges};
pub(crate) use self::graphs::exchange_graphs;
use crate::error::JobError;
use crate::filling::{Fill, Filling, records_of};
use crate::inbox::{Sink, in_place};
use crate::message::{HEADER_BYTES, Header, Kind};
use crate::stages::{Ended, Verb};
use crate::worker::{Worker, WorkerId};

/// Bytes of a segment's records: 64 KiB go in one write, the size at which loopback TCP streams
/// fastest, and three of them lie in one receive buffer.
const SEGMENT_BYTES: usize = 64 << 10;

/// Own records that are kept before others may see how many.
const KEPT_AT_ONCE: u64 = 1 << 12;

/// The sending side of an exchange of records that segments are filled with.
pub(crate) struct Exchange<'w, F> {
    worker: &'w Worker,
    /// What makes it.
    verb: Verb,
    /// Its number, once it has begun: an exchange upstream comes first, and is over before it gives a record.
    stage: Option<u32>,
    outgoing: Vec<Outgoing<F>>,
    records_kept: u64,
    /// Takes what comes, if no sink does.
    pull: Option<Pull<'w>>,
}

type Pull<'w> = Box<dyn FnMut(WorkerId, &View<&[u8]>) -> Result<(), JobError> + 'w>;

/// What goes to one worker.
struct Outgoing<F> {
    filling: F,
    sent: u64,
    records: u64,
    bytes: u64,
}

impl<'w, R: Wire> Exchange<'w, Filling<R>> {
    /// Opens the next exchange of the job: records that others send here go to `take`, in order a
    /// worker, on whatever thread receives them.
    pub(crate) fn open(
        worker: &'w Worker,
        mut take: impl FnMut(WorkerId, Records<'_, R>) -> Result<(), &'static str> + Send + 'static,
    ) -> Self {
        let stage = worker.begin_stage();
        let live = worker.live();
        let sink: Sink = Box::new(move |from, view| {
            live.add_received(count::<R, _>(view));
            take(from, view.records::<R>())
        });
        worker.inbox().open(stage, sink);
        Self::new(worker, Some(stage), None)
    }
}

impl<'w, R: Record> Exchange<'w, Filling<R>> {
    /// Opens an exchange: each record that others send here goes to `take`, on the thread of whoever pushes and finishes. It is the next one of the job when the first record is pushed, or it is
    /// finished, until when others may be made: those of what gives its records.
    pub(crate) fn open_pulled(
        worker: &'w Worker,
        mut take: impl FnMut(WorkerId, R) -> Result<(), JobError> + 'w,
    ) -> Self {
        let live = worker.live();
        let pull = move |from, view: &View<&[u8]>| {
            live.add_received(count::<R::Form, _>(view));
            records_of(view).try_for_each(|record| take(from, record))
        };
        Self::new(worker, None, Some(Box::new(pull)))
    }

    /// Writes `record` to where it will be sent to another worker from.
    ///
    /// # Errors
    /// There is no such worker, no memory, or the worker is lost.
    #[inline]
    pub(crate) fn push(&mut self, to: WorkerId, record: R) -> Result<(), JobError> {
        self.write(to, &record)
    }

    /// Writes it for every other worker.
    pub(crate) fn push_to_others(&mut self, record: &R) -> Result<(), JobError> {
        let worker = self.worker;
        let mut others = worker.ids().filter(|to| *to != worker.id());
        others.try_for_each(|to| self.write(to, record))
    }

    #[inline]
    fn write(&mut self, to: WorkerId, record: &R) -> Result<(), JobError> {
        let outgoing = self.outgoing.get_mut(to.0);
        if outgoing.is_some_and(|outgoing| outgoing.filling.push(record)) {
            return Ok(());
        }
        self.push_to_next(to, record)
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
    fn new(worker: &'w Worker, stage: Option<u32>, pull: Option<Pull<'w>>) -> Self {
        let none = || Outgoing { filling: F::new(), sent: 0, records: 0, bytes: 0 };
        let outgoing = worker.ids().map(|_| none()).collect();
        let verb = worker.recorder().begin();
        Self { worker, verb, stage, outgoing, records_kept: 0, pull }
    }

    /// The same, of another verb than the one that runs.
    pub(crate) fn of(self, verb: Verb) -> Self {
        Self { verb, ..self }
    }

    /// Its number in the job; it begins, if it has not.
    pub(crate) fn stage(&mut self) -> u32 {
        *self.stage.get_or_insert_with(|| self.worker.begin_stage())
    }

    /// Counts a record that is this worker's own and goes nowhere.
    #[inline]
    pub(crate) fn keep(&mut self) {
        self.records_kept += 1;
        if self.records_kept.is_multiple_of(KEPT_AT_ONCE) {
            self.worker.recorder().live().set_kept(self.records_kept);
        }
    }

    /// Counts several such records.
    pub(crate) fn keep_all(&mut self, records: usize) {
        self.records_kept += records as u64;
    }

    /// Sends what is left, tells the others that this was all, and waits until they are done too.
    pub(crate) fn finish(mut self) -> Result<(), JobError> {
        let stage = self.stage();
        for to in self.worker.ids().filter(|to| *to != self.worker.id()) {
            while self.outgoing[to.0].filling.records() > 0 {
                self.send(to)?;
            }
            let sequence = self.outgoing[to.0].sent;
            let end = Header { kind: Kind::End, stage, sequence }.encode();
            self.outgoing[to.0].bytes += HEADER_BYTES as u64;
            self.deliver(to, |peer| async move { peer.send(&end).await })?;
        }
        let ended = match self.pull.is_some() {
            true => self.pull_all(),
            false => self.worker.wait_for_end(stage),
        };
        self.worker.inbox().close(stage);
        ended?;
        self.worker.recorder().ended(Ended {
            number: stage,
            verb: self.verb,
            records_kept: self.records_kept,
            records_sent: self.outgoing.iter().map(|outgoing| outgoing.records).sum(),
            bytes_sent: self.outgoing.iter().map(|outgoing| outgoing.bytes).collect(),
            segments: self.outgoing.iter().map(|outgoing| outgoing.sent).sum(),
        });
        Ok(())
    }

    fn pull_all(&mut self) -> Result<(), JobError> {
        let stage = self.stage();
        while let Some((from, message)) = self.worker.wait_for_segment(stage)? {
            self.take(from, &message)?;
        }
        Ok(())
    }

    /// Checks a segment and has its records taken.
    fn take(&mut self, from: WorkerId, message: &Retained) -> Result<(), JobError> {
        let stage = self.stage();
        let Self { worker, pull, .. } = self;
        let Some(pull) = pull else { return Ok(()) };
        in_place(message, |body| {
            let view = View::validate(body, worker.types());
            let view = view.map_err(|reason| JobError::Block { worker: from, stage, reason })?;
            pull(from, &view)
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
        let (worker, stage): (&'a Worker, u32) = (self.worker, self.stage());
        if self.pull.is_none() {
            return worker.send(to, stage, send);
        }
        let mut sending = pin!(worker.sending(to, send));
        while let Some((from, message)) = worker.sent_or_segment(sending.as_mut(), stage)? {
            self.take(from, &message)?;
        }
        Ok(())
    }

    /// Whether there is such a worker.
    fn check_place(&self, to: WorkerId) -> Result<(), JobError> {
        let workers = self.outgoing.len();
        if to.0 < workers { Ok(()) } else { Err(JobError::NoSuchWorker { worker: to, workers }) }
    }

    /// Sends the segment for `to` that is being written, if there is one; of several, the one with the most bytes.
    fn send(&mut self, to: WorkerId) -> Result<(), JobError> {
        let stage = self.stage();
        let outgoing = &mut self.outgoing[to.0];
        let records = outgoing.filling.records() as u64;
        let Some(segment) = outgoing.filling.take() else { return Ok(()) };
        let header = Header { kind: Kind::Segment, stage, sequence: outgoing.sent };
        let bytes = (HEADER_BYTES + segment.len()) as u64;
        outgoing.sent += 1;
        outgoing.records += records;
        outgoing.bytes += bytes;
        let live = self.worker.recorder().live();
        live.add_sent(records, bytes);
        live.set_kept(self.records_kept);
        let head = [&header.encode()[..], segment.head()].concat();
        let pages = segment.pages().clone();
        self.deliver(to, |peer| async move { peer.send_shared(head.as_slice(), pages).await })
    }
}

/// How many records a segment has; a page at a time.
fn count<T: Wire, B>(view: &View<B>) -> u64 {
    view.records::<T>().map(|page| page.len() as u64).sum()
}
