//! Outgoing: from lanes to batches, one gathered write each.
//!
//! Whoever holds the sender role drives this. A batch is whatever has been committed to the lanes
//! of a connection when the last write returned (DXNet's implicit aggregation): no timer, no
//! threshold. A batch that the link took only in part is finished before anything else is sent,
//! so a record is never torn by another.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::frame::{Class, Header, Kind};
use crate::lane::{Consumer, Lane, Piece, Producer, lane};
use crate::limits::{BATCH_BYTES, BATCH_PIECES};
use crate::link::Transfer;
use crate::memory::{Memory, MemoryError, Shared};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::sync::{Mutex, RwLock};

use super::Session;
use super::call::Sent;
use super::credit::ReceiveCredit;
use super::departures::{ANNOUNCEMENT_COST, Departures};
use super::sends::Leaving;

/// Of so many lanes, one after the other, each has a bit of its own.
const LANES_A_BIT: usize = u64::BITS as usize;

/// The bit that stands for lane `index`.
fn bit_of(index: u32) -> u64 {
    1 << (index as usize % LANES_A_BIT)
}

/// A lane that somebody has committed records to and not told of: to be announced, or sent. It goes by its
/// bit, of which there may be none, in a byte, so that it costs next to nothing to hand over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) struct Unannounced(u8);

impl Unannounced {
    /// Nothing but what has been announced.
    pub(crate) const NONE: Self = Self(u8::MAX);

    /// The lane of `producer`.
    #[inline]
    pub(crate) fn of(producer: &Producer) -> Self {
        Self((producer.lane().index as usize % LANES_A_BIT) as u8)
    }

    #[inline]
    fn bits(self) -> u64 {
        1u64.checked_shl(self.0.into()).unwrap_or(0)
    }
}

/// The lanes of a connection, as producers see them.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// Lanes with records that the sender has not looked for: bit `i` stands for lane `i` and for
    /// every 64th after it.
    ready: CachePadded<AtomicU64>,
    lanes: RwLock<Vec<Option<Arc<Lane>>>>,
    arriving: Mutex<Vec<Consumer>>,
    /// How many lanes have ever been opened.
    opened: AtomicU64,
    /// Frames of the connection itself: greetings.
    greetings: Mutex<VecDeque<Vec<u8>>>,
    /// There are some.
    greets: AtomicBool,
    /// Bytes that have been taken for sending: the peer cannot have received more.
    taken_bytes: AtomicU64,
    /// Nothing more is sent: what has not been taken by now never leaves.
    ended: AtomicBool,
}

impl Lanes {
    /// A new lane for a thread that has none yet.
    pub(crate) fn open(&self, memory: &Memory) -> Result<Producer, MemoryError> {
        let mut lanes = self.lanes.write();
        let index = lanes.iter().position(Option::is_none).unwrap_or(lanes.len());
        let (producer, consumer) = lane(index as u32, memory)?;
        if index == lanes.len() {
            lanes.push(None);
        }
        lanes[index] = Some(Arc::clone(producer.lane()));
        self.arriving.lock().push(consumer);
        self.opened.fetch_add(1, Ordering::Release);
        Ok(producer)
    }

    /// After a record: makes sure that the sender will look at the lanes. The sender takes the bits
    /// down before it looks, and either way is a full fence, so one of the two sees the other.
    #[inline]
    pub(crate) fn announce(&self, unannounced: Unannounced) {
        if unannounced != Unannounced::NONE {
            self.ready.fetch_or(unannounced.bits(), Ordering::SeqCst);
        }
    }

    /// A producer goes away; its lane is dropped once it has been sent.
    pub(crate) fn retire(&self, producer: Producer) {
        let lane = Arc::clone(producer.lane());
        drop(producer);
        self.ready.fetch_or(bit_of(lane.index), Ordering::SeqCst);
    }

    /// Queues a frame of the connection itself.
    pub(crate) fn greet(&self, frame: Vec<u8>) {
        self.greetings.lock().push_back(frame);
        self.greets.store(true, Ordering::SeqCst);
    }

    /// Whether there is something that the sender has not been told of.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.ready.load(Ordering::Relaxed) != 0 || self.greets.load(Ordering::Relaxed)
    }

    /// Bytes that have been taken for sending.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::SeqCst)
    }

    /// Has nothing more sent. What [has not left](Self::has_left) when this returns never does: a sender
    /// takes requests before it looks whether it may send them, and either of the two, what it has taken
    /// and that it may not, is seen by the other side.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Whether nothing more is sent. Whoever asks for themselves sees what has been taken until then.
    pub(crate) fn has_ended(&self) -> bool {
        let ended = self.ended.load(Ordering::SeqCst);
        fence(Ordering::SeqCst);
        ended
    }

    /// Whether a sender that has taken something may not send it.
    #[inline]
    fn may_not_send(&self) -> bool {
        // Behind the count of what has been taken, which is a full fence.
        self.ended.load(Ordering::SeqCst)
    }

    /// Lets go of bodies that nobody will send.
    fn discard(&self) {
        for lane in self.lanes.read().iter().flatten() {
            lane.discard_tails();
        }
    }

    /// Whether any byte of the request at `sent` has been taken.
    pub(crate) fn has_left(&self, sent: Sent) -> bool {
        let lanes = self.lanes.read();
        // A lane that is gone has been sent to its end.
        lanes
            .get(sent.lane as usize)
            .is_none_or(|lane| lane.as_ref().is_none_or(|lane| lane.has_taken(sent.position)))
    }
}

/// The sender's half of a session.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    consumers: Vec<Option<Consumer>>,
    /// How many have ever arrived.
    arrived: u64,
    /// Bits of lanes that have been announced, and are to be looked at before others.
    unlooked: u64,
    batch: VecDeque<Queued>,
    /// No frame but greetings may go out before the peer's hello is here.
    pub(crate) open: bool,
    pub(crate) sent: Traffic,
    /// Posted buffers that are done, but for others that hold them. Dropped without the sender role, since
    /// that wakes who waits for them.
    left: Vec<Arc<Leaving>>,
}

/// What is not sent any more.
#[derive(Debug)]
pub(crate) struct Discarded {
    /// Holds pieces of what is left, so it goes first.
    _outbound: Outbound,
    _left: Vec<Arc<Leaving>>,
}

/// What went over a link.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    pub(crate) bytes: u64,
    pub(crate) batches: u64,
    pub(crate) gathered: u64,
}

/// A part of a batch.
#[derive(Debug)]
pub(super) enum Queued {
    Piece(Piece),
    /// A short frame, or a part of one, from `start` to `end`.
    Frame {
        bytes: [u8; ANNOUNCEMENT_COST],
        start: u8,
        end: u8,
    },
    /// A part of a large body, or of a posted buffer. The bytes go first.
    Body {
        bytes: Shared,
        leaving: Option<Arc<Leaving>>,
    },
    /// Whole frames, copied one behind the other.
    Frames {
        bytes: Vec<u8>,
        sent: usize,
    },
}

/// How far sending got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Everything that was committed has been handed to the link.
    Done,
    /// The link takes nothing more until the poller says so.
    Blocked,
}

impl Outbound {
    /// Looks at these lanes first, though they have not been announced.
    #[inline]
    pub(crate) fn look_at(&mut self, unannounced: Unannounced) {
        self.unlooked |= unannounced.bits();
    }

    /// Sends all that is committed, as far as `link` takes it.
    ///
    /// # Errors
    /// The link's error; the connection is to be closed.
    pub(crate) fn transmit(
        &mut self,
        session: &Session,
        link: &impl Transfer,
    ) -> io::Result<Progress> {
        loop {
            // What is left of a batch goes along with what has been committed since.
            if self.batch.is_empty() || self.is_waited_for(session) && !self.fills_a_write() {
                self.gather(session, link);
                if self.batch.is_empty() {
                    return Ok(Progress::Done);
                }
            }
            if session.lanes.may_not_send() {
                return Ok(Progress::Done);
            }
            match self.write(link) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Progress::Blocked);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Lets go of everything that waits: the connection has ended, and nothing more is sent. Returns what
    /// that was, to be dropped without the sender role.
    #[must_use]
    pub(crate) fn discard(&mut self, session: &Session) -> Discarded {
        let empty = Self { open: self.open, sent: self.sent, ..Self::default() };
        let outbound = std::mem::replace(self, empty);
        session.lanes.discard();
        Discarded { _outbound: outbound, _left: session.departures.discard() }
    }

    /// Posted buffers that may be done, to be dropped without the sender role.
    pub(crate) fn take_left(&mut self) -> Vec<Arc<Leaving>> {
        std::mem::take(&mut self.left)
    }

    /// Whether there is more to gather.
    fn is_waited_for(&self, session: &Session) -> bool {
        self.unlooked != 0 || session.is_waiting()
    }

    /// Whether there is enough for one write that is as long as writes get.
    fn fills_a_write(&self) -> bool {
        let mut bytes = 0;
        let mut pieces = self.batch.iter().take(BATCH_PIECES).enumerate();
        pieces.any(|(index, queued)| {
            bytes += queued.bytes().len();
            bytes >= BATCH_BYTES || index + 1 == BATCH_PIECES
        })
    }

    /// Adds what has been committed by now to the batch.
    fn gather(&mut self, session: &Session, link: &dyn Transfer) {
        let Session { lanes, departures, receive_credit, .. } = session;
        if lanes.greets.load(Ordering::Relaxed) {
            lanes.greets.store(false, Ordering::SeqCst);
            let greetings = std::mem::take(&mut *lanes.greetings.lock());
            let greetings = greetings.into_iter();
            self.batch.extend(greetings.map(|bytes| Queued::Frames { bytes, sent: 0 }));
        }
        if !self.open {
            return;
        }
        // Those that have been announced since come behind those that were before.
        if self.unlooked == 0 && lanes.ready.load(Ordering::Relaxed) != 0 {
            self.unlooked = lanes.ready.swap(0, Ordering::SeqCst);
        }
        self.grant(receive_credit, self.unlooked != 0);
        if self.unlooked != 0 {
            self.take_lanes(lanes);
        }
        if departures.is_ready() {
            self.gather_large(lanes, departures, link);
        }
    }

    /// Takes what large bodies have to send, behind everything else.
    #[cold]
    fn gather_large(&mut self, lanes: &Lanes, departures: &Departures, link: &dyn Transfer) {
        let gathered = departures.gather(&mut self.batch, link);
        lanes.taken_bytes.fetch_add(gathered.charged_bytes as u64, Ordering::SeqCst);
        self.sent.gathered += gathered.tails;
        self.left.extend(gathered.left);
    }

    /// Takes about a batch of what the lanes that are to be looked at have committed.
    fn take_lanes(&mut self, lanes: &Lanes) {
        if lanes.opened.load(Ordering::Acquire) != self.arrived {
            self.receive_lanes(lanes);
        }
        let mut bytes = 0;
        while self.unlooked != 0 && bytes < BATCH_BYTES {
            let first = self.unlooked.trailing_zeros() as usize;
            self.unlooked &= self.unlooked - 1;
            for index in (first..self.consumers.len()).step_by(LANES_A_BIT) {
                bytes += self.take_lane(lanes, index);
            }
        }
        // Tells, before any of it leaves, what has been taken.
        lanes.taken_bytes.fetch_add(bytes as u64, Ordering::SeqCst);
    }

    /// Takes in the lanes that are new.
    #[cold]
    fn receive_lanes(&mut self, lanes: &Lanes) {
        for consumer in lanes.arriving.lock().drain(..) {
            let index = consumer.index() as usize;
            if self.consumers.len() <= index {
                self.consumers.resize_with(index + 1, || None);
            }
            self.consumers[index] = Some(consumer);
            self.arrived += 1;
        }
    }

    /// Takes what lane `index` has committed.
    fn take_lane(&mut self, lanes: &Lanes, index: usize) -> usize {
        let Some(consumer) = &mut self.consumers[index] else { return 0 };
        let bytes = consumer.take(BATCH_BYTES, |piece| self.batch.push_back(Queued::Piece(piece)));
        if bytes >= BATCH_BYTES {
            // There may be more, and nobody will announce what is there already.
            lanes.ready.fetch_or(bit_of(consumer.index()), Ordering::Relaxed);
        } else if consumer.is_finished() {
            self.consumers[index] = None;
            lanes.lanes.write()[index] = None;
        }
        bytes
    }

    /// Puts the credit that is due ahead of the batch; with other traffic, what is due sooner too.
    fn grant(&mut self, credit: &ReceiveCredit, along: bool) {
        for class in Class::ALL {
            if let Some(position) = credit.take_grant(class, along) {
                let kind = Kind::Credit;
                let header = Header { len: 0, kind, class, more: false, id: position };
                self.batch.push_back(Queued::header(header));
            }
        }
    }

    /// One gathered write of the front of the batch.
    fn write(&mut self, link: &impl Transfer) -> io::Result<()> {
        let sent = match self.batch.front() {
            // Most batches on a quiet connection.
            Some(queued) if self.batch.len() == 1 && queued.bytes().len() <= BATCH_BYTES => {
                link.send(&[IoSlice::new(queued.bytes())])?
            }
            _ => self.write_many(link)?,
        };
        self.sent.bytes += sent as u64;
        self.sent.batches += 1;
        self.advance(sent);
        Ok(())
    }

    fn write_many(&self, link: &impl Transfer) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); BATCH_PIECES];
        let (mut count, mut bytes) = (0, 0);
        for queued in self.batch.iter().take(BATCH_PIECES) {
            let piece = queued.bytes();
            let piece = &piece[..piece.len().min(BATCH_BYTES - bytes)];
            slices[count] = IoSlice::new(piece);
            count += 1;
            bytes += piece.len();
            // A piece that was cut short has to be the last of its write.
            if bytes >= BATCH_BYTES {
                break;
            }
        }
        link.send(&slices[..count])
    }

    /// Lets go of the first `sent` bytes of the batch.
    fn advance(&mut self, mut sent: usize) {
        while sent > 0 {
            let front = self.batch.front_mut().expect("no more is sent than was queued");
            let count = sent.min(front.bytes().len());
            front.advance(count);
            sent -= count;
            if front.bytes().is_empty() {
                if matches!(front, Queued::Piece(Piece::Tail(_))) {
                    self.sent.gathered += 1;
                }
                if let Some(Queued::Body { leaving: Some(leaving), .. }) = self.batch.pop_front() {
                    self.left.push(leaving);
                }
            }
        }
    }
}

impl Queued {
    /// Bytes that are no body.
    pub(super) fn frame(bytes: &[u8]) -> Self {
        let mut frame = [0; ANNOUNCEMENT_COST];
        frame[..bytes.len()].copy_from_slice(bytes);
        Self::Frame { bytes: frame, start: 0, end: bytes.len() as u8 }
    }

    pub(super) fn header(header: Header) -> Self {
        Self::frame(&header.encode())
    }

    /// Copies a frame to the end of `batch`, behind others that are copied.
    pub(super) fn copy(batch: &mut VecDeque<Self>, header: Header, body: &[u8]) {
        let has_room = |queued: &Self| {
            // What has been sent of it stays until all of it has.
            matches!(queued, Self::Frames { bytes, .. } if bytes.len() < BATCH_BYTES)
        };
        if !batch.back().is_some_and(has_room) {
            batch.push_back(Self::Frames { bytes: Vec::new(), sent: 0 });
        }
        let Some(Self::Frames { bytes, .. }) = batch.back_mut() else { return };
        bytes.extend_from_slice(&header.encode());
        bytes.extend_from_slice(body);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Piece(piece) => piece.bytes(),
            Self::Frame { bytes, start, end } => &bytes[usize::from(*start)..usize::from(*end)],
            Self::Body { bytes, .. } => bytes,
            Self::Frames { bytes, sent } => &bytes[*sent..],
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Self::Piece(piece) => piece.advance(count),
            Self::Frame { start, .. } => *start += count as u8,
            Self::Body { bytes, leaving } => {
                *bytes = bytes.slice(count..bytes.len());
                if let Some(leaving) = leaving {
                    leaving.note_sent(count);
                }
            }
            Self::Frames { sent, .. } => *sent += count,
        }
    }
}

#[cfg(test)]
mod tests;
