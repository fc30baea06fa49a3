//! Frames that users write: into the lane of their thread, when there is window.

use std::sync::Arc;
use std::task::Waker;

use super::{Committed, Core};
use crate::body::Body;
use crate::connection::wait::Reserved;
use crate::frame::{Class, Kind, frame_len};
use crate::limits::BATCH_BYTES;
use crate::local::{self, OwnLane};
use crate::memory::Shared;
use crate::session::call::{CallKey, Sent, Wait};
use crate::session::outbound::Unannounced;
use crate::session::record::write_record;

/// Why a frame was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unwritten {
    /// There is no window for it now.
    NoRoom,
    /// There is no memory for it.
    NoMemory,
}

impl Core {
    /// Reserves window for a message or reply, if there is some, and writes it into this thread's lane.
    ///
    /// What goes in and out is small or behind a reference: bodies and errors that are moved through
    /// memory cost more than the rest of the way.
    #[inline]
    pub(in crate::connection) fn try_send<B: Body>(
        self: &Arc<Self>,
        header: (Kind, Class, u64),
        body: &mut Option<B>,
        tail: &mut Option<Shared>,
        len: usize,
    ) -> Result<Committed, Unwritten> {
        // Given back, if at all, when the lane is no longer borrowed: those who wait for it may be in need of theirs.
        let mut reserved = None;
        let (_, committed) = local::with_lane(self, |lane| {
            if !lane.try_reserve(self, header.1, frame_len(len)) {
                return Err(Unwritten::NoRoom);
            }
            reserved = Some(Reserved::new(self, header.1, len));
            self.write_to(lane, header, body, tail)
        })?;
        if let Some(reserved) = reserved {
            reserved.used();
        }
        Ok(committed)
    }

    /// Writes a message or reply for which window has been reserved into this thread's lane, or gives the
    /// window back.
    pub(in crate::connection) fn send_reserved<B: Body>(
        self: &Arc<Self>,
        header: (Kind, Class, u64),
        body: &mut Option<B>,
        tail: &mut Option<Shared>,
        len: usize,
    ) -> Result<Committed, Unwritten> {
        let reserved = Reserved::new(self, header.1, len);
        let (_, committed) =
            local::with_lane(self, |lane| self.write_to(lane, header, body, tail))?;
        reserved.used();
        Ok(committed)
    }

    /// Writes a request for which window has been reserved into this thread's lane, and notes where
    /// it lies, or gives the window back.
    #[inline]
    pub(in crate::connection) fn request<B: Body>(
        self: &Arc<Self>,
        (key, class, wait): (CallKey, Class, Wait),
        body: &mut Option<B>,
        len: usize,
        waker: &Waker,
    ) -> Result<(Sent, Committed), Unwritten> {
        let reserved = Reserved::new(self, class, len);
        let written = local::with_lane(self, |lane| {
            let call = self.session.calls.open(key, wait, waker);
            let written = self.write_to(lane, (Kind::Request, class, key.0), body, &mut None)?;
            call.written(written.0);
            Ok(written)
        })?;
        reserved.used();
        Ok(written)
    }

    /// Gives back window that was reserved for a frame with a body of `len` bytes.
    #[cold]
    pub(in crate::connection) fn give_back(&self, class: Class, len: usize) {
        self.session.send_credit.cancel(class, frame_len(len));
    }

    #[inline]
    fn write_to<B: Body>(
        &self,
        lane: &mut OwnLane,
        (kind, class, id): (Kind, Class, u64),
        body: &mut Option<B>,
        tail: &mut Option<Shared>,
    ) -> Result<(Sent, Committed), Unwritten> {
        let body = body.take().expect("a body is written once");
        let tail = tail.take();
        let gathered = tail.as_ref().map_or(0, |tail| tail.len());
        // A long body lies elsewhere.
        let before = lane.producer.backlog();
        let gathers = self.link.gathers(body.len(), before);
        let in_lane = frame_len(if gathers { 0 } else { body.len() });
        let header = (kind, class, id, false);
        let position = write_record(&mut lane.producer, &self.memory, header, body, tail, gathers)
            .map_err(|error| lane.refused(error))?;
        let backlog = lane.producer.backlog() + gathered as u64;
        let sent = Sent { lane: lane.producer.lane().index, position };
        // A batch is full when one more record like this one would not go into the same write.
        let is_full = backlog + in_lane as u64 > BATCH_BYTES as u64;
        let is_enough = is_full
            || kind != Kind::Message && self.is_send_due(backlog, backlog.saturating_sub(before));
        let unannounced = Unannounced::of(&lane.producer);
        let committed = match is_enough && self.takes_more() {
            true => Committed::Batch { unannounced, long: is_full },
            false if lane.is_deferred() => Committed::Deferred,
            false => Committed::Alone(unannounced),
        };
        Ok((sent, committed))
    }
}
