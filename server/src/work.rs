//! What a thread carries while it works off a batch.

use arrayvec::ArrayVec;
use weft_protocol::replication::PeerMessage;
use weft_protocol::{
    Completion, DecodeError, ErrorCode, ErrorReply, Key, Member, PartBuilder, Previous,
    PreviousReply, Request, ScanPage, Slot, TableId,
};
use weft_transport::limits::MESSAGE_MAX;
use weft_transport::{Batch, CallId, IncomingKind};

use crate::cluster::hosted::{Due, Now};
use crate::cluster::recording::Recorded;
use crate::coordinator::codec::decode_notice;
use crate::counters::{Event, Tally};
use crate::dispatch::{Arrived, Said, dispatch};
use crate::handler::NodeHandler;
use crate::hot_keys::{Access, Sampler};
use crate::limits::BATCH_MAX;
use crate::needed::Needed;
use crate::partitions::{Committed, Held};
use crate::replies::Replies;
use crate::scratch::{Room, Use};
use crate::sending::{Sending, sending};
use crate::store::{Answer, Attempt, Once, OnceError, Partition, Replaced, StoreError};
use crate::withheld::Awaited;

/// Stands for the slot of a request that has none.
const NO_SLOT: Slot = Slot::from_number(0).expect("there is a first slot");

/// About what a record takes beside its key and value.
const RECORD_BYTES: usize = 32;

/// A batch of requests, and what operations need to work it off.
pub(crate) struct Work<'n, 'b, 'f> {
    pub(crate) node: &'n NodeHandler,
    pub(crate) replies: Replies<'n, 'b, 'f>,
    pub(crate) held: Held<'n>,
    pub(crate) tally: Tally,
    /// Which requests are looked at to find hot keys.
    pub(crate) sampler: Sampler,
    /// The time by which objects have expired, in milliseconds of Unix time: one for the batch.
    pub(crate) now_ms: u64,
    /// Where multi-operations put their replies together; its buffer is kept between them.
    part: Option<PartBuilder>,
    /// Where scans and ranges put their replies together.
    pub(crate) page: ScanPage,
    /// Where records are put together that are made of parts.
    pub(crate) record: Vec<u8>,
    /// What one of these three is counted as.
    room: Option<Room<'n>>,
    /// Bytes of log that were written.
    written_bytes: u64,
    /// Where there are new entries that others are to have; a partition may be there more than once.
    recorded: Vec<u16>,
    /// What other nodes' messages leave to be done.
    due: Due,
    /// Whether the peer is known to be a node of the map.
    is_member: bool,
    /// When the first of its messages was heard that are about partitions.
    heard_at: Option<Now>,
}

/// How much room those have made who give memory back, so that whoever finds none sees what they do meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct MadeRoom {
    freed_bytes: u64,
    swept_objects: u64,
}

/// What a write came to.
pub(crate) struct Written<T> {
    pub(crate) answer: T,
    /// Whether it did so when it was asked for before, and nothing was done now.
    pub(crate) is_repeated: bool,
}

impl<'n, 'b, 'f> Work<'n, 'b, 'f> {
    pub(crate) fn new(node: &'n NodeHandler, batch: &'b mut Batch<'f>, now_ms: u64) -> Self {
        let held = Held::new(&node.partitions);
        let (tally, page) = (Tally::default(), ScanPage::default());
        Work {
            node,
            replies: Replies::new(batch, node.clock()),
            held,
            tally,
            sampler: node.hot_keys.sampler(),
            now_ms,
            part: None,
            page,
            record: Vec::new(),
            room: None,
            written_bytes: 0,
            recorded: Vec::new(),
            due: Due::default(),
            is_member: false,
            heard_at: None,
        }
    }

    /// Somebody has said something that he waits for no answer to. Only nodes of the map are listened to, in the lives that it has: whoever else says
    /// that he is a partition's new primary would be believed.
    pub(crate) fn hear(&mut self, message: &Result<PeerMessage<'_>, DecodeError>) {
        self.held.release();
        let node = self.node;
        let peer = self.replies.batch.peer();
        let from = Member { node: peer.node, incarnation: peer.incarnation };
        match message {
            Ok(PeerMessage::Notice(notice)) => match decode_notice(notice.body) {
                Ok(heard) => node.coordination.hear(from, notice.body.len(), heard),
                Err(_) => self.tally.event(Event::Malformed),
            },
            Ok(message) => {
                if !self.is_member {
                    self.is_member = node.maps.has(from);
                }
                if self.is_member {
                    let now = match message {
                        // These are about time.
                        PeerMessage::Lease(_) | PeerMessage::Grant(_) => node.now_by_both(),
                        _ => *self.heard_at.get_or_insert_with(|| node.now_by_both()),
                    };
                    node.cluster.handle(&node.partitions, from, message, now, &mut self.due);
                } else {
                    // It may have joined a moment ago, and be heard with the next map.
                    self.tally.event(Event::OfStranger);
                }
            }
            Err(_) => self.tally.event(Event::Malformed),
        }
    }

    /// Has the answer to the request at hand wait, if it has to.
    #[inline]
    pub(crate) fn withhold_if_due(&mut self) {
        if self.replies.has_to_wait() {
            self.withhold();
        }
    }

    #[cold]
    fn withhold(&mut self) {
        let Some((answer, awaited)) = self.replies.take_waiting() else { return };
        for &Awaited { position, .. } in &awaited {
            // It is told so at the end of the batch: nothing else would tell it.
            if self.held.host(position).has_failed_log() {
                self.recorded.push(position);
            }
        }
        if let Some(answer) = self.held.withhold(answer, &awaited) {
            self.node.answers.give(answer);
        }
        self.replies.reuse(awaited);
    }

    /// Takes, prefetches and executes what has arrived in runs of up to [`BATCH_MAX`], until there
    /// is no more or replies have no room.
    pub(crate) fn work_off(&mut self) {
        // Filled where it lies: moved, it would be copied whole, however few have arrived.
        let mut run = ArrayVec::<_, BATCH_MAX>::new();
        loop {
            run.clear();
            self.take_run(&mut run);
            if run.is_empty() {
                break;
            }
            self.tally.event(Event::Batch);
            self.prefetch(&run);
            let count = run.len();
            for (done, arrived) in run.iter_mut().enumerate() {
                // For the first, the transport has made sure of it.
                if done > 0 && self.replies.batch.reply_room() < MESSAGE_MAX {
                    self.replies.batch.give_back(count - done);
                    return;
                }
                dispatch(self, arrived);
                self.survey_pins_if_due();
            }
        }
    }

    /// Counts the key of `request` if it has one and is a sample.
    #[inline]
    pub(crate) fn sample(&mut self, request: &Request<'_>) {
        if self.sampler.is_due()
            && let Some((table, key)) = request.key()
        {
            self.count_key(table, key, Access::of(request.operation()));
        }
    }

    /// Counts `key`, one of many that a request has, if it is a sample.
    #[inline]
    pub(crate) fn sample_item(&mut self, table: TableId, key: Key<'_>, access: Access) {
        if self.sampler.is_due() {
            self.count_key(table, key, access);
        }
    }

    /// A key that this node does not own is not counted: its owner does that.
    #[cold]
    fn count_key(&self, table: TableId, key: Key<'_>, access: Access) {
        if self.node.partitions.position_of(table, key.slot()).is_some() {
            self.node.hot_keys.count(table, &key, access, self.node.now());
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

    /// Has `write` done in the partition of `slot`, unless its `completion` says that it was done before: then what it came to is the answer once
    /// more. When it finds no memory, segments are emptied for what is `needed` and it is tried again, until that is of no use.
    ///
    /// # Errors
    /// What to answer: this node has no such table or partition, the write was refused, or it is not known any more whether it was done.
    #[inline]
    pub(crate) fn write<T: Answer>(
        &mut self,
        (table, slot): (TableId, Slot),
        completion: Option<Completion>,
        needed: Needed<'_>,
        mut write: impl FnMut(&mut Partition, u64) -> Result<T, StoreError>,
    ) -> Result<Written<T>, ErrorReply<'static>> {
        let node = self.node;
        let attempt = completion.map(Attempt::from);
        loop {
            let made = self.made_room();
            let (hosted, committed) = self.held.enter_to_write(table, slot)?;
            if let Some(attempt) = attempt {
                check_client(node, &hosted.partition, attempt)?;
            }
            let now_ms = self.now_ms;
            hosted.keep_room_for(|partition| needed.entry_bytes(partition, table, now_ms))?;
            let partition = &mut hosted.partition;
            let before_bytes = partition.written_bytes();
            let once = partition.once(attempt, |partition| write(partition, now_ms));
            let version = partition.version();
            let recorded = hosted.record();
            let has_recorded = recorded != Recorded::Nothing;
            if recorded == Recorded::Due {
                note_recorded(&mut self.recorded, committed.position);
            }
            match &once {
                // What an entry has done stays so, whoever is the primary when that is told.
                Ok(once) if once.is_repeated || has_recorded => {
                    self.replies.depends_on_commit(committed, once.version);
                }
                // What was found is told, whatever came of it.
                _ => self.replies.depends_on(committed, version)?,
            }
            let partition = &hosted.partition;
            match once {
                Ok(Once { answer: Ok(answer), is_repeated, .. }) => {
                    self.written_bytes += partition.written_bytes() - before_bytes;
                    if is_repeated {
                        self.tally.event(Event::Repeated);
                    }
                    return Ok(Written { answer, is_repeated });
                }
                Ok(Once { answer: Err(refusal), .. }) => {
                    let gave_up = || ErrorReply::memory_limit(node.memory.limit_bytes());
                    let error = refusal.error();
                    return Err(error.map_or_else(gave_up, |error| node.refusal(&error)));
                }
                Err(OnceError::Refused(StoreError::MemoryLimit(_)))
                    if self.make_room(needed.memory_bytes, made) => {}
                Err(OnceError::Refused(StoreError::QuotaReached { limit }))
                    if self.evict_for(table, needed.memory_bytes, limit) => {}
                Err(error) => return Err(refusal(node, &error)),
            }
        }
    }

    /// Takes in what was changed at `position` by other means than [`write`](Self::write): the answer waits for that.
    pub(crate) fn take_in(&mut self, position: u16) {
        let hosted = self.held.host(position);
        let committed = Committed { position, terms: hosted.terms() };
        let version = hosted.partition.version();
        let recorded = hosted.record();
        if recorded == Recorded::Due {
            note_recorded(&mut self.recorded, position);
        }
        if recorded != Recorded::Nothing {
            self.replies.depends_on_commit(committed, version);
        }
    }

    /// Notes that `bytes` were written by other means than [`write`](Self::write).
    pub(crate) fn count_written(&mut self, bytes: usize) {
        self.written_bytes += bytes as u64;
    }

    /// How much room has been made so far.
    #[inline]
    pub(crate) fn made_room(&self) -> MadeRoom {
        let NodeHandler { cleaner, sweeper, .. } = self.node;
        MadeRoom { freed_bytes: cleaner.freed_bytes(), swept_objects: sweeper.removed() }
    }

    /// Frees about `len` bytes, or evicts as much, for a write that found no memory when so much had been `made`. Returns whether it is
    /// worth another try. Gives up the lock.
    #[cold]
    pub(crate) fn make_room(&mut self, len: usize, made: MadeRoom) -> bool {
        self.tally.event(Event::WriteWaited);
        self.held.release();
        let Self { node, now_ms, .. } = *self;
        let (partitions, evictor) = (&node.partitions, &node.evictor);
        // What was truncated is no segment's live bytes before it is swept, and nobody's loss.
        node.sweeper.make_room(partitions, made.swept_objects, now_ms)
            || node.cleaner.make_room(partitions, evictor, len as u64, made.freed_bytes, now_ms)
    }

    #[cold]
    fn evict_for(&mut self, table: TableId, len: usize, limit_bytes: u64) -> bool {
        self.held.release();
        let Self { node, now_ms, .. } = *self;
        let needed_bytes = (len + RECORD_BYTES) as u64;
        node.evictor.make_room_in(&node.partitions, table, (needed_bytes, limit_bytes), now_ms)
    }

    /// Sends the entries that were made to the other members of their partitions.
    pub(crate) fn replicate(&mut self) {
        if self.recorded.is_empty() && self.due.is_empty() {
            return;
        }
        let node = self.node;
        let now = node.now_by_both();
        let mut recorded = std::mem::take(&mut self.recorded);
        recorded.sort_unstable();
        recorded.dedup();
        for position in recorded {
            self.held.host(position).settle(&node.cluster, now, &mut self.due);
        }
        self.held.release();
        node.cluster.deliver(&node.answers, &mut self.due);
    }

    /// Pays for what the batch has written, before its replies leave.
    pub(crate) fn pay(&mut self) {
        if self.written_bytes > 0 {
            self.held.release();
            let NodeHandler { cleaner, partitions, evictor, .. } = self.node;
            cleaner.pay(partitions, evictor, self.written_bytes, self.now_ms);
        }
    }

    fn take_run(&mut self, run: &mut ArrayVec<Arrived<'f>, BATCH_MAX>) {
        while !run.is_full()
            && let Some(incoming) = self.replies.batch.next()
        {
            let IncomingKind::Call(call) = incoming.kind else {
                let said = Said::Message(PeerMessage::decode(incoming.body));
                run.push(Arrived { said, slot: NO_SLOT, incoming: None });
                continue;
            };
            let request = Request::decode(incoming.body);
            let key = request.as_ref().ok().and_then(Request::key);
            let slot = key.map_or(NO_SLOT, |(_, key)| key.slot());
            let said = Said::Request(call, request);
            run.push(Arrived { said, slot, incoming: Some(incoming) });
        }
    }

    /// Has the memory that the run will read brought into the cache, all of it at once: of a request that is alone, too, since its record
    /// has more than one line. What entries of other nodes will replace is asked for as well.
    fn prefetch(&mut self, run: &[Arrived<'_>]) {
        self.held.prefetch(run.iter().filter_map(|arrived| {
            let Said::Request(_, request) = &arrived.said else { return None };
            let (table, key) = request.as_ref().ok()?.key()?;
            Some((table, key, arrived.slot))
        }));
        self.held.prefetch_entries(run.iter().filter_map(|arrived| match &arrived.said {
            Said::Message(Ok(PeerMessage::Append(append))) => {
                Some((append.partition, append.entries))
            }
            Said::Message(_) | Said::Request(..) => None,
        }));
    }

    /// Answers `call` with what a mutation has replaced or removed.
    pub(crate) fn reply_previous(&mut self, call: CallId, replaced: Replaced) {
        let Replaced { version, previous } = replaced;
        let Some((was, value)) = previous else {
            self.tally.event(Event::Miss);
            return self.replies.reply(call, PreviousReply { version, previous: None });
        };
        match sending(value.len(), &self.node.pins, &mut self.tally, || value.clone()) {
            Sending::Copy => {
                let previous = Some(Previous { version: was, value: &value });
                self.replies.reply(call, PreviousReply { version, previous });
            }
            Sending::Gather(value) => {
                let head = PreviousReply::head(version, was, value.len());
                self.replies.reply_shared(call, head, value);
            }
        }
    }

    /// Answers `call` with an error.
    #[cold]
    pub(crate) fn refuse(&mut self, call: CallId, error: &ErrorReply<'_>) {
        self.tally.event(Event::Refused);
        self.replies.reply(call, error);
    }

    /// Sees to it that there is room for `use_`, until another use. May give up the lock, and wait.
    pub(crate) fn provide(&mut self, use_: Use) {
        if self.room.as_ref().is_some_and(|room| room.use_() == use_) {
            return;
        }
        (self.part, self.page, self.record) = (None, ScanPage::default(), Vec::new());
        self.room = None;
        self.held.release();
        let room = self.node.scratch.room(use_);
        if room.is_kept_back() {
            self.tally.event(Event::TurnTaken);
        }
        self.room = Some(room);
    }

    /// An empty part, to be given back to [`finish_part`](Self::finish_part).
    pub(crate) fn take_part(&mut self) -> PartBuilder {
        self.provide(Use::Part);
        self.part.take().unwrap_or_default()
    }

    /// Ends the reply to `call` with `part`.
    pub(crate) fn finish_part(&mut self, call: CallId, mut part: PartBuilder) {
        self.replies.reply(call, part.finish());
        part.clear();
        self.part = Some(part);
    }
}

/// There are new entries at `position` that others are to have.
#[inline]
fn note_recorded(recorded: &mut Vec<u16>, position: u16) {
    if recorded.last() != Some(&position) {
        recorded.reserve(BATCH_MAX);
        recorded.push(position);
    }
}

/// Refuses what a client asks whose lease is over, where nothing is remembered of it: it may have been done before.
///
/// Where something is remembered of it, all is, and no harm is done. To be asked under the partition's lock: who ends a client in a
/// partition has seen to it before that this says so.
#[inline]
fn check_client(
    node: &NodeHandler,
    partition: &Partition,
    attempt: Attempt,
) -> Result<(), ErrorReply<'static>> {
    let client = attempt.id.client;
    if !partition.has_client(client) && node.clients.is_over(client) {
        return Err(ErrorReply::new(ErrorCode::RequestForgotten));
    }
    Ok(())
}

/// What a client is told of a mutation that was not tried.
#[cold]
fn refusal(node: &NodeHandler, error: &OnceError) -> ErrorReply<'static> {
    match error {
        OnceError::Refused(error) => node.refusal(error),
        OnceError::Forgotten { .. } | OnceError::AnswerLost => {
            ErrorReply::new(ErrorCode::RequestForgotten)
        }
        OnceError::TooManyOutcomes { .. } => ErrorReply::new(ErrorCode::CompletionsFull),
    }
}
