//! The watches that clients have opened at a node: their ids, how long each lasts, and who waits for its events.
//!
//! What happens is told by the partitions to a watch's [`Feed`], and its client takes it from there by a call that is answered when
//! there is something to tell or its wait is over. Such a call leaves its [`Responder`] here and occupies nobody: the first event rings
//! the `bell`, and whoever answers, a thread or a simulator, takes the answers that are due (`answers`). Events stay in the
//! feed until the client's next call says that it has received them.
//!
//! A partition's lock may be held when the lock here is taken, and never the other way round.

mod answers;
mod bell;
mod ids;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use weft_protocol::limits::{WATCH_PAGE_BYTES, WATCH_WAIT_MAX_MS};
use weft_protocol::{ErrorCode, ErrorReply, TableId, WatchNext, Watched};
use weft_transport::{Charge, Memory, Purpose, Responder, Time};

pub use self::answers::Answer;
use self::bell::Bell;
use self::ids::WatchIds;
use crate::limits::{
    WATCH_LEASE, WATCH_QUEUE_DEFAULT, WATCH_QUEUE_DEFAULT_SHARE, WATCH_QUEUE_MAX, WATCH_QUEUE_MIN,
    WATCHES_MAX, WATCHES_SHARE,
};
use crate::partitions::Partitions;
use crate::store::{Feed, FeedError, FeedPage};

/// How often it is looked which watches have not been asked for.
const LEASES_CHECKED_EVERY: Duration = Duration::from_millis(500);
/// What a watch takes beside its events and its key.
const WATCH_BYTES: usize = 1 << 10;

/// The watches of a node.
#[derive(Debug)]
pub(crate) struct Watches {
    memory: Memory,
    bell: Arc<Bell>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ids: WatchIds,
    open: BTreeMap<u64, Watch>,
    /// What they are charged, together.
    charged_bytes: u64,
    /// What is to be answered, and is no event.
    answers: Vec<Answer>,
    /// No wait is over before then; nothing if nobody waits.
    next_wait_ends: Option<Time>,
    /// When it is looked again which watches have not been asked for.
    leases_checked_at: Time,
    /// How many fell behind.
    fell_behind: u64,
    /// Whether none is opened nor asked for any more.
    is_closed: bool,
}

#[derive(Debug)]
struct Watch {
    feed: Arc<Feed>,
    /// The partition of its key; of a prefix, all are watched.
    position: Option<u16>,
    /// Wakes the answerer for it.
    waker: Waker,
    waiting: Option<Waiting>,
    /// When it was last asked for, or answered.
    asked_at: Time,
    fell_behind: bool,
    charged_bytes: u64,
    _charge: Charge,
}

/// A call that is answered later.
#[derive(Debug)]
struct Waiting {
    responder: Responder,
    received: u64,
    until: Time,
}

/// A watch that was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) id: u64,
    /// Whom partitions are to tell what happens.
    pub(crate) feed: Arc<Feed>,
    pub(crate) queue_bytes: usize,
}

/// What becomes of a call for events.
#[derive(Debug)]
pub(crate) enum Next {
    /// It is answered at once.
    Now(FeedPage),
    /// It is answered later.
    Later,
}

impl Watches {
    /// None. They are charged to `memory`, and take a part of it at most.
    pub(crate) fn new(memory: &Memory, seed: u64, now: Time) -> Watches {
        let state = State {
            ids: WatchIds::new(seed),
            open: BTreeMap::new(),
            charged_bytes: 0,
            answers: Vec::new(),
            next_wait_ends: None,
            leases_checked_at: now,
            fell_behind: 0,
            is_closed: false,
        };
        Watches { memory: memory.clone(), bell: Arc::default(), state: Mutex::new(state) }
    }

    /// Opens a watch of the key in the partition at `position`, or of a prefix in all of `partitions`, with room for about
    /// `queue_bytes` of events (0 for the default). Nobody tells it anything yet.
    ///
    /// # Errors
    /// What to answer: there are too many, or there is no memory for this one.
    pub(crate) fn open(
        &self,
        (table, watched): (TableId, Watched<'_>),
        position: Option<u16>,
        partitions: &Partitions,
        queue_bytes: u32,
        now: Time,
    ) -> Result<Opened, ErrorReply<'static>> {
        let limit_bytes = self.memory.account().limit_bytes / WATCHES_SHARE;
        let queue_bytes = match queue_bytes as usize {
            0 => WATCH_QUEUE_DEFAULT.min((limit_bytes / WATCH_QUEUE_DEFAULT_SHARE) as usize),
            bytes => bytes,
        };
        let queue_bytes = queue_bytes.clamp(WATCH_QUEUE_MIN, WATCH_QUEUE_MAX);
        let (Watched::Key(key) | Watched::Prefix(key)) = watched;
        let entries = position.map_or(partitions.len(), |_| 1) * size_of::<Arc<Feed>>();
        // Lists grow by doubling.
        let bytes = (queue_bytes + key.len() + WATCH_BYTES + 2 * entries) as u64;
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(ErrorReply::new(ErrorCode::ShuttingDown));
        }
        let too_many = || ErrorReply::new(ErrorCode::TooManyWatches);
        if state.open.len() >= WATCHES_MAX {
            return Err(too_many().with_detail(format!("{WATCHES_MAX} are open")));
        }
        if state.charged_bytes + bytes > limit_bytes {
            let charged = state.charged_bytes;
            return Err(too_many().with_detail(format!(
                "{charged} of {limit_bytes} bytes are taken, and {bytes} are wanted"
            )));
        }
        // Of what is sent: the room of sessions is for connections.
        let charge = self.memory.charge(bytes, Purpose::Send).map_err(|_| {
            too_many().with_detail(format!("the network has no memory left for {bytes} bytes"))
        })?;
        let feed = Arc::new(Feed::new(table, watched, queue_bytes));
        let State { ids, open, .. } = &mut *state;
        let id = ids.draw(|id| open.contains_key(&id));
        let watch = Watch {
            feed: Arc::clone(&feed),
            position,
            waker: self.bell.waker_for(id),
            waiting: None,
            asked_at: now,
            fell_behind: false,
            charged_bytes: bytes,
            _charge: charge,
        };
        state.open.insert(id, watch);
        state.charged_bytes += bytes;
        Ok(Opened { id, feed, queue_bytes })
    }

    /// Forgets the events of a watch that were received, and hands out the next ones, or keeps the `responder` until there are some.
    /// One that is kept already is answered that there are none.
    ///
    /// # Errors
    /// What to answer.
    pub(crate) fn next(
        &self,
        next: &WatchNext,
        now: Time,
        responder: impl FnOnce() -> Responder,
    ) -> Result<Next, ErrorReply<'static>> {
        let &WatchNext { id, received, wait_ms } = next;
        let mut state = self.state.lock();
        let State { open, answers, fell_behind, next_wait_ends, is_closed, .. } = &mut *state;
        if *is_closed {
            return Err(ErrorReply::new(ErrorCode::ShuttingDown));
        }
        let watch = open.get_mut(&id).ok_or(ErrorReply::new(ErrorCode::WatchUnknown))?;
        watch.asked_at = now;
        match watch.poll(received, fell_behind) {
            Poll::Ready(Ok(page)) => {
                // The one before knows of fewer events than this one has received, or its connection is gone.
                answers.extend(watch.displace());
                self.ring_if(!answers.is_empty());
                Ok(Next::Now(page))
            }
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => {
                answers.extend(watch.displace());
                if wait_ms == 0 {
                    self.ring_if(!answers.is_empty());
                    return Ok(Next::Now(Feed::no_events(received)));
                }
                let until = now + Duration::from_millis(wait_ms.min(WATCH_WAIT_MAX_MS).into());
                watch.waiting = Some(Waiting { responder: responder(), received, until });
                let is_next = next_wait_ends.is_none_or(|ends| until < ends);
                if is_next {
                    *next_wait_ends = Some(until);
                }
                self.ring_if(is_next || !answers.is_empty());
                Ok(Next::Later)
            }
        }
    }

    /// Forgets a watch. Who waits for its events is answered that it is unknown. The caller may hold none of the `partitions`.
    ///
    /// # Errors
    /// What to answer if there is none.
    pub(crate) fn end(&self, id: u64, partitions: &Partitions) -> Result<(), ErrorReply<'static>> {
        let mut state = self.state.lock();
        let watch = state.forget(id).ok_or(ErrorReply::new(ErrorCode::WatchUnknown))?;
        self.ring_if(!state.answers.is_empty());
        drop(state);
        watch.leave(partitions);
        Ok(())
    }

    /// Forgets the watches that have not been asked for their events for [`WATCH_LEASE`]. Returns whether there were some. The caller may hold
    /// none of the `partitions`.
    pub(crate) fn end_abandoned(&self, partitions: &Partitions, now: Time) -> bool {
        let mut state = self.state.lock();
        if now < state.leases_checked_at {
            return false;
        }
        state.leases_checked_at = now + LEASES_CHECKED_EVERY;
        // Not those who wait: that takes less.
        let is_abandoned = |watch: &Watch| now.since(watch.asked_at) >= WATCH_LEASE;
        let abandoned = state.open.iter().filter(|(_, watch)| is_abandoned(watch));
        let ids: Vec<_> = abandoned.map(|(id, _)| *id).collect();
        let watches: Vec<_> = ids.into_iter().filter_map(|id| state.forget(id)).collect();
        self.ring_if(!state.answers.is_empty());
        drop(state);
        watches.iter().for_each(|watch| watch.leave(partitions));
        !watches.is_empty()
    }

    /// Opens none any more, and has all who wait answered that the node is being stopped.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let State { open, answers, .. } = &mut *state;
        let waiting = open.values_mut().filter_map(|watch| watch.waiting.take());
        let error = |waiting: Waiting| Answer::error(waiting.responder, ErrorCode::ShuttingDown);
        answers.extend(waiting.map(error));
        self.ring_if(true);
    }

    /// How many are open.
    pub(crate) fn open_count(&self) -> u64 {
        self.state.lock().open.len() as u64
    }

    /// How many fell behind, of all that there ever were.
    pub(crate) fn fell_behind(&self) -> u64 {
        self.state.lock().fell_behind
    }

    fn ring_if(&self, is_due: bool) {
        if is_due {
            self.bell.ring();
        }
    }
}

impl State {
    /// Takes a watch out, and has who waits for it answered.
    fn forget(&mut self, id: u64) -> Option<Watch> {
        let mut watch = self.open.remove(&id)?;
        self.charged_bytes -= watch.charged_bytes;
        if let Some(Waiting { responder, .. }) = watch.waiting.take() {
            self.answers.push(Answer::error(responder, ErrorCode::WatchUnknown));
        }
        Some(watch)
    }
}

impl Watch {
    /// The events behind `received`, or what to answer in their place; the bell is rung when there may be some.
    fn poll(
        &mut self,
        received: u64,
        fell_behind: &mut u64,
    ) -> Poll<Result<FeedPage, ErrorReply<'static>>> {
        self.feed.poll(received, &self.waker).map_err(|error| match error {
            FeedError::FellBehind { sequence } => {
                *fell_behind += u64::from(!std::mem::replace(&mut self.fell_behind, true));
                ErrorReply { argument: sequence, ..ErrorReply::new(ErrorCode::FellBehind) }
            }
            FeedError::OutOfOrder { .. } => {
                ErrorReply::new(ErrorCode::MalformedRequest).with_detail(error.to_string())
            }
            FeedError::Moved => ErrorReply::new(ErrorCode::WatchUnknown)
                .with_detail("another node is the primary of what is watched"),
            FeedError::TableDropped => ErrorReply::new(ErrorCode::TableUnknown),
        })
    }

    /// The answer to who waits, in whose place another one comes.
    fn displace(&mut self) -> Option<Answer> {
        let Waiting { responder, received, .. } = self.waiting.take()?;
        Some(Answer::no_events(responder, received))
    }

    /// The most bytes of events that it answers with at a time.
    fn page_bytes_max(&self) -> u64 {
        self.charged_bytes.min(WATCH_PAGE_BYTES as u64)
    }

    /// Is told nothing any more.
    fn leave(&self, partitions: &Partitions) {
        let positions = match self.position {
            Some(position) => position..position + 1,
            None => 0..partitions.len() as u16,
        };
        positions.for_each(|position| partitions.lock(position).unwatch(&self.feed));
    }
}
