//! The events of one watch, from the partitions that tell them to the client that asks for them.
//!
//! They lie one after the other as they are sent, in a buffer that is allocated once and never grows, so that telling one costs a copy
//! and no allocation. They stay until the client says that it has received them. One that finds no room ends the feed: from then on
//! it says only that, and which event was the first that was dropped.
//!
//! Several partitions tell and one thread takes, so it has a lock of its own. Whoever holds it holds it for a copy.

use std::collections::VecDeque;
use std::ops::Range;
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use weft_protocol::limits::{WATCH_EVENTS_MAX, WATCH_PAGE_BYTES};
use weft_protocol::{TableId, WatchEvent, WatchEvents, WatchNextReply, Watched};

const KEY_LEN_AT: Range<usize> = WatchEvent::KEY_LEN_AT;

/// Which keys of a table are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The one that a feed has the bytes of.
    Key,
    /// Those that begin with these bytes.
    Prefix,
}

/// What a watch keeps for its client.
#[derive(Debug)]
pub struct Feed {
    pub(super) table: TableId,
    pub(super) scope: Scope,
    pub(super) bytes: Box<[u8]>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Events that were not received, as they are sent.
    events: VecDeque<u8>,
    bytes_max: usize,
    /// How many they are.
    count: u64,
    /// The sequence of the first of them, or of the next one.
    first: u64,
    /// The sequence of the last one that was handed out.
    told: u64,
    /// The sequence of the first one that found no room.
    lost: Option<u64>,
    /// Whether a partition tells it nothing more, because another node does.
    has_moved: bool,
    /// How many partitions tell it what happens.
    partitions: u32,
    /// Who is to be woken by the next event.
    waker: Option<Waker>,
}

/// Some events of a feed, in order and without a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedPage {
    first: u64,
    count: u16,
    bytes: Vec<u8>,
}

/// Why a feed has no events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// There was no room for an event.
    #[error("event {sequence} found no room")]
    FellBehind {
        /// Its sequence.
        sequence: u64,
    },
    /// The client says to have received what it was not told, or takes back that it has received something.
    #[error("event {received} is not between those that were received and those that were told")]
    OutOfOrder {
        /// The sequence that it says.
        received: u64,
    },
    /// Of a partition that it was told of, another node is the primary, and the client has received all that was told here.
    #[error("another node is the primary of what is watched")]
    Moved,
    /// The table was dropped, and the client has received all that was told of it.
    #[error("the table was dropped")]
    TableDropped,
}

impl Feed {
    /// No events, and room for `bytes_max` bytes of them: 16 and the key each.
    pub fn new(table: TableId, watched: Watched<'_>, bytes_max: usize) -> Feed {
        let (scope, key) = match watched {
            Watched::Key(key) => (Scope::Key, key),
            Watched::Prefix(prefix) => (Scope::Prefix, prefix),
        };
        let state = State {
            events: VecDeque::with_capacity(bytes_max),
            bytes_max,
            count: 0,
            first: 1,
            told: 0,
            lost: None,
            has_moved: false,
            partitions: 0,
            waker: None,
        };
        Feed { table, scope, bytes: key.bytes().into(), state: Mutex::new(state) }
    }

    /// Takes note of a partition that tells it what happens.
    pub(super) fn joined(&self) {
        self.state.lock().partitions += 1;
    }

    /// Takes note that one tells it nothing any more.
    pub(super) fn left(&self) {
        let waker = {
            let mut state = self.state.lock();
            state.partitions -= 1;
            state.waker.take()
        };
        wake(waker);
    }

    /// Takes note that one tells it nothing any more, since another node knows what happens there. What others tell from then on is not kept: whoever
    /// watches has to begin anew.
    pub(super) fn moved(&self) {
        self.state.lock().has_moved = true;
        self.left();
    }

    /// Keeps an event.
    pub(super) fn tell(&self, event: &WatchEvent<'_>) {
        let waker = {
            let mut state = self.state.lock();
            if state.lost.is_some() || state.has_moved {
                return;
            }
            if state.events.len() + event.encoded_len() > state.bytes_max {
                state.lost = Some(state.first + state.count);
                state.events.clear();
                state.count = 0;
            } else {
                state.events.extend(&event.head());
                state.events.extend(event.key_bytes());
                state.count += 1;
            }
            state.waker.take()
        };
        wake(waker);
    }

    /// Forgets the events up to `received`, and hands out those that follow. If there are none, `waker` is woken when there may be.
    ///
    /// # Errors
    /// See [`FeedError`]. Nothing was forgotten then.
    pub fn poll(&self, received: u64, waker: &Waker) -> Poll<Result<FeedPage, FeedError>> {
        let mut state = self.state.lock();
        if let Some(sequence) = state.lost {
            return Poll::Ready(Err(FeedError::FellBehind { sequence }));
        }
        if received > state.told || received + 1 < state.first {
            return Poll::Ready(Err(FeedError::OutOfOrder { received }));
        }
        state.forget(received);
        if state.count > 0 {
            return Poll::Ready(Ok(state.page()));
        }
        if state.has_moved {
            return Poll::Ready(Err(FeedError::Moved));
        }
        if state.partitions == 0 {
            return Poll::Ready(Err(FeedError::TableDropped));
        }
        state.waker = Some(waker.clone());
        Poll::Pending
    }

    /// What is answered when there has been no event behind `received` for long enough.
    pub fn no_events(received: u64) -> FeedPage {
        FeedPage { first: received + 1, count: 0, bytes: Vec::new() }
    }
}

/// Without a lock: what is woken may take others.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl State {
    fn forget(&mut self, received: u64) {
        let mut len = 0;
        while self.first <= received {
            len += self.len_at(len);
            self.first += 1;
            self.count -= 1;
        }
        self.events.drain(..len);
    }

    /// As many of the first events as a reply has room for.
    fn page(&mut self) -> FeedPage {
        let (mut len, mut count) = (0, 0_u16);
        while u64::from(count) < self.count && usize::from(count) < WATCH_EVENTS_MAX {
            let next = self.len_at(len);
            if len + next > WATCH_PAGE_BYTES {
                break;
            }
            len += next;
            count += 1;
        }
        let mut bytes = Vec::with_capacity(len);
        let (front, back) = self.events.as_slices();
        let in_front = len.min(front.len());
        bytes.extend(&front[..in_front]);
        bytes.extend(&back[..len - in_front]);
        self.told = self.told.max(self.first + u64::from(count) - 1);
        FeedPage { first: self.first, count, bytes }
    }

    /// Bytes of the event that begins at `offset`.
    fn len_at(&self, offset: usize) -> usize {
        let [low, high] =
            [KEY_LEN_AT.start, KEY_LEN_AT.start + 1].map(|at| self.events[offset + at]);
        WatchEvent::HEAD_LEN + usize::from(u16::from_le_bytes([low, high]))
    }
}

impl FeedPage {
    /// The events, as they are answered.
    pub fn reply(&self) -> WatchNextReply<'_> {
        let events = WatchEvents::parse(self.count, &self.bytes);
        WatchNextReply { first: self.first, events: events.expect("they lie as they are sent") }
    }
}
