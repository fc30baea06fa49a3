//! Outgoing: from lanes to batches, one gathered write each.
//!
//! Whoever holds the sender role drives this. A batch is whatever has been committed to the lanes
//! of a connection when the last write returned (DXNet's implicit aggregation): no timer, no
//! threshold. A batch that the link took only in part is finished before anything else is sent,
//! so a record is never torn by another.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_queue::SegQueue;
use parking_lot::{Mutex, RwLock};

use crate::frame::{Class, Header, Kind};
use crate::lane::{Consumer, Lane, Piece, Producer, lane};
use crate::limits::{BATCH_BYTES, BATCH_PIECES};
use crate::link::Transfer;
use crate::memory::{Memory, MemoryError, Shared};

use super::Session;
use super::call::Sent;
use super::credit::ReceiveCredit;
use super::departures::{ANNOUNCEMENT_COST, Departures};
use super::sends::Leaving;

/// The lanes of a connection, as producers see them.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// Lanes with records that the sender has not been told of.
    ready: SegQueue<u32>,
    lanes: RwLock<Vec<Option<Arc<Lane>>>>,
    arriving: Mutex<Vec<Consumer>>,
    /// Frames of the connection itself: greetings.
    greetings: Mutex<VecDeque<Vec<u8>>>,
    /// Bytes that have been taken for sending: the peer cannot have received more.
    taken_bytes: AtomicU64,
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
        Ok(producer)
    }

    /// After a record: makes sure that the sender will look at the lane.
    #[inline]
    pub(crate) fn announce(&self, producer: &Producer) {
        if producer.mark_queued() {
            self.ready.push(producer.lane().index);
        }
    }

    /// A producer goes away; its lane is dropped once it has been sent.
    pub(crate) fn retire(&self, producer: Producer) {
        let lane = Arc::clone(producer.lane());
        drop(producer);
        // Queued even if it is queued already: the sender may have looked before it was closed.
        self.ready.push(lane.index);
    }

    /// Queues a frame of the connection itself.
    pub(crate) fn greet(&self, frame: Vec<u8>) {
        self.greetings.lock().push_back(frame);
    }

    /// Whether there is something that the sender has not been told of.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Bytes that have been taken for sending.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::SeqCst)
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
    batch: VecDeque<Queued>,
    pieces: VecDeque<Piece>,
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
            if self.batch.is_empty() || session.is_waiting() && !self.fills_a_write() {
                self.gather(session, link);
                if self.batch.is_empty() {
                    return Ok(Progress::Done);
                }
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
        let greetings = std::mem::take(&mut *lanes.greetings.lock());
        self.batch.extend(greetings.into_iter().map(|bytes| Queued::Frames { bytes, sent: 0 }));
        if !self.open {
            return;
        }
        let mut bytes = 0;
        while bytes < BATCH_BYTES {
            let Some(index) = lanes.ready.pop() else { break };
            bytes += self.take_lane(lanes, index as usize);
        }
        lanes.taken_bytes.fetch_add(bytes as u64, Ordering::SeqCst);
        self.grant(receive_credit, bytes > 0);
        self.batch.extend(self.pieces.drain(..).map(Queued::Piece));
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

    /// Takes what lane `index` has committed.
    fn take_lane(&mut self, lanes: &Lanes, index: usize) -> usize {
        if self.consumers.get(index).is_none_or(Option::is_none) {
            for consumer in lanes.arriving.lock().drain(..) {
                let index = consumer.index() as usize;
                if self.consumers.len() <= index {
                    self.consumers.resize_with(index + 1, || None);
                }
                self.consumers[index] = Some(consumer);
            }
        }
        let Some(slot) = self.consumers.get_mut(index) else { return 0 };
        let Some(consumer) = slot else { return 0 };
        consumer.unqueue();
        let bytes = consumer.take(BATCH_BYTES, &mut self.pieces);
        if bytes >= BATCH_BYTES {
            // There may be more, and nobody will queue the lane for what is there already.
            if consumer.mark_queued() {
                lanes.ready.push(index as u32);
            }
        } else if consumer.is_finished() {
            *slot = None;
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
        let sent = link.send(&slices[..count])?;
        self.sent.bytes += sent as u64;
        self.sent.batches += 1;
        self.advance(sent);
        Ok(())
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
mod tests {
    use std::cell::RefCell;
    use std::io::IoSliceMut;

    use super::*;
    use crate::frame::{HEADER_BYTES, frame_len};
    use crate::handshake::Windows;
    use crate::memory::MemoryConfig;
    use crate::session::receives::Messages;
    use crate::session::record::write_record;

    /// Takes whatever it is given, and notes how much that was each time.
    #[derive(Default)]
    struct Noting {
        writes: RefCell<Vec<usize>>,
        bytes: RefCell<Vec<u8>>,
    }

    impl Transfer for Noting {
        fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
            let mut bytes = self.bytes.borrow_mut();
            let before = bytes.len();
            pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
            self.writes.borrow_mut().push(bytes.len() - before);
            Ok(bytes.len() - before)
        }

        fn receive(&self, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn finish_connect(&self) -> io::Result<()> {
            Ok(())
        }

        fn finish(&self) {}

        fn shutdown(&self) {}
    }

    #[test]
    fn writes_are_as_long_as_they_get_and_no_record_is_torn() {
        for len in [48, 1024, 8192, 40_000, 300_000, 1 << 20] {
            let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
            let session = Session::new(&Windows::default(), Messages::Handled);
            let records = (3 << 20) / len;
            for lane in 0..2_u64 {
                let mut producer = session.lanes.open(&memory).unwrap();
                for _ in 0..records {
                    let body = vec![lane as u8; len];
                    let header = (Kind::Message, Class::Request, lane, false);
                    write_record(&mut producer, &memory, header, &body[..], None).unwrap();
                    session.lanes.announce(&producer);
                }
            }
            let mut outbound = Outbound { open: true, ..Outbound::default() };
            let link = Noting::default();
            assert_eq!(outbound.transmit(&session, &link).unwrap(), Progress::Done);

            let writes = link.writes.into_inner();
            let (last, others) = writes.split_last().unwrap();
            assert!(others.iter().all(|write| *write == BATCH_BYTES), "{len}: {writes:?}");
            assert!(*last <= BATCH_BYTES, "{len}: {writes:?}");

            let bytes = link.bytes.into_inner();
            assert_eq!(bytes.len(), 2 * records * frame_len(len));
            for record in bytes.chunks(frame_len(len)) {
                let header = Header::decode(record.first_chunk().unwrap()).unwrap();
                assert_eq!(header.len as usize, len);
                let body = &record[HEADER_BYTES..HEADER_BYTES + len];
                assert!(body.iter().all(|byte| u64::from(*byte) == header.id), "{len}");
            }
        }
    }
}
