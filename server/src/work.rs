//! What a thread carries while it works off a batch.

use arrayvec::ArrayVec;
use weft_protocol::{ErrorReply, Key, PartBuilder, Request, Slot, TableId};
use weft_transport::limits::MESSAGE_MAX;
use weft_transport::{Batch, CallId};

use crate::counters::{Event, Tally};
use crate::dispatch::{Arrived, dispatch};
use crate::handler::NodeHandler;
use crate::limits::BATCH_MAX;
use crate::partitions::Held;

/// Stands for the slot of a request that has none.
const NO_SLOT: Slot = Slot::from_number(0).expect("there is a first slot");

/// A batch of requests, and what operations need to work it off.
pub(crate) struct Work<'n, 'b, 'f> {
    pub(crate) node: &'n NodeHandler,
    pub(crate) batch: &'b mut Batch<'f>,
    pub(crate) held: Held<'n>,
    pub(crate) tally: Tally,
    /// The time by which objects have expired, in milliseconds of Unix time: one for the batch.
    pub(crate) now_ms: u64,
    /// Where multi-operations put their replies together; its buffer is kept between them.
    part: Option<PartBuilder>,
}

impl<'n, 'b, 'f> Work<'n, 'b, 'f> {
    pub(crate) fn new(node: &'n NodeHandler, batch: &'b mut Batch<'f>, now_ms: u64) -> Self {
        let held = Held::new(&node.partitions);
        Work { node, batch, held, tally: Tally::default(), now_ms, part: None }
    }

    /// Takes, prefetches and executes what has arrived in runs of up to [`BATCH_MAX`], until there
    /// is no more or replies have no room.
    pub(crate) fn work_off(&mut self) {
        loop {
            let run = self.take_run();
            if run.is_empty() {
                break;
            }
            self.tally.event(Event::Batch);
            self.prefetch(&run);
            for (done, arrived) in run.iter().enumerate() {
                // For the first, the transport has made sure of it.
                if done > 0 && self.batch.reply_room() < MESSAGE_MAX {
                    self.batch.give_back(run.len() - done);
                    return;
                }
                dispatch(self, arrived);
                self.survey_pins_if_due();
            }
        }
    }

    /// Looks how much is pinned, if enough has been sent from the log for that. Gives up the lock.
    #[inline]
    pub(crate) fn survey_pins_if_due(&mut self) {
        if self.node.pins.is_survey_due() {
            self.held.release();
            self.node.pins.survey(&self.node.partitions);
        }
    }

    fn take_run(&mut self) -> ArrayVec<Arrived<'f>, BATCH_MAX> {
        let mut run = ArrayVec::new();
        while !run.is_full()
            && let Some(incoming) = self.batch.next()
        {
            let request = Request::decode(incoming.body);
            let key = request.as_ref().ok().and_then(key_of);
            run.push(Arrived {
                kind: incoming.kind,
                request,
                slot: key.map_or(NO_SLOT, |(_, key)| key.slot()),
            });
        }
        run
    }

    /// Has the memory that the run will read brought into the cache, all of it at once. A request
    /// that is alone would wait as long for the prefetch as for the read.
    fn prefetch(&mut self, run: &[Arrived<'_>]) {
        if run.len() == 1 {
            return;
        }
        self.held.prefetch(run.iter().filter_map(|arrived| {
            let (table, key) = key_of(arrived.request.as_ref().ok()?)?;
            Some((table, key, arrived.slot))
        }));
    }

    /// Answers `call` with an error.
    #[cold]
    pub(crate) fn refuse(&mut self, call: CallId, error: &ErrorReply<'_>) {
        self.tally.event(Event::Refused);
        self.batch.reply(call, error);
    }

    /// An empty part, to be given back to [`finish_part`](Self::finish_part).
    pub(crate) fn take_part(&mut self) -> PartBuilder {
        self.part.take().unwrap_or_default()
    }

    /// Ends the reply to `call` with `part`.
    pub(crate) fn finish_part(&mut self, call: CallId, mut part: PartBuilder) {
        self.batch.reply(call, part.finish());
        part.clear();
        self.part = Some(part);
    }
}

/// The key of a request that has one.
#[inline]
fn key_of<'f>(request: &Request<'f>) -> Option<(TableId, Key<'f>)> {
    match request {
        Request::Get(get) => Some((get.table, get.key)),
        Request::Put(put) => Some((put.table, put.key)),
        Request::Delete(delete) => Some((delete.table, delete.key)),
        Request::Exists(exists) => Some((exists.table, exists.key)),
        Request::MultiGet(_)
        | Request::MultiPut(_)
        | Request::MultiDelete(_)
        | Request::Stats(_)
        | Request::Map(_) => None,
    }
}
