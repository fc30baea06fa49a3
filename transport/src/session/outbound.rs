//! Outgoing: from lanes to batches, one gathered write each.
//!
//! Whoever holds the sender role drives this. A batch is whatever has been committed to the lanes
//! of a connection when the last write returned (DXNet's implicit aggregation): no timer, no
//! threshold. A batch that the link took only in part is finished before anything else is sent,
//! so a record is never torn by another.

mod lanes;
mod queued;

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use crate::frame::{Class, Header, Kind};
use crate::lane::{Consumer, Piece};
use crate::limits::{BATCH_BYTES, BATCH_PIECES};
use crate::link::Transfer;
use crate::link::lent::{Outgoing, Owner};
use crate::sync::atomic::Ordering;

use super::Session;
use super::credit::ReceiveCredit;
use super::departures::Departures;
use super::sends::Leaving;

use lanes::{LANES_A_BIT, bit_of};
pub(crate) use lanes::{Lanes, Unannounced};
pub(in crate::session) use queued::Queued;

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
            Some(_) if link.lends() && self.lends() => self.write_lent(link)?,
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

    /// Whether the next write may have something that lies in memory of its own.
    fn lends(&self) -> bool {
        self.batch.iter().take(BATCH_PIECES).any(|queued| queued.memory().is_some())
    }

    /// As [`write_many`](Self::write_many), of what is registered with the link from where it lies.
    fn write_lent(&self, link: &impl Transfer) -> io::Result<usize> {
        let mut pieces = Vec::with_capacity(BATCH_PIECES);
        let mut bytes = 0;
        for queued in self.batch.iter().take(BATCH_PIECES) {
            let piece = queued.bytes();
            let piece = &piece[..piece.len().min(BATCH_BYTES - bytes)];
            let lending = queued.memory().and_then(|(memory, leaving)| {
                let owner = leaving.map(|leaving| Arc::clone(leaving) as Arc<dyn Owner>);
                link.lending(memory, owner)
            });
            pieces.push(Outgoing { bytes: piece, lending });
            bytes += piece.len();
            // A piece that was cut short has to be the last of its write.
            if bytes >= BATCH_BYTES {
                break;
            }
        }
        let sent = link.send_lent(&pieces)?;
        let mut left = sent;
        for (piece, queued) in pieces.iter().zip(&self.batch) {
            let count = piece.bytes.len().min(left);
            if let (None, Some((memory, None))) = (&piece.lending, queued.memory()) {
                memory.extent().registrations().note_copied(count);
            }
            left -= count;
        }
        Ok(sent)
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

#[cfg(test)]
mod tests;
