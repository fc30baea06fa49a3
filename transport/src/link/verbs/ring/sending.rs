//! What an end of a stream sends: writes into the peer's ring, and messages that tell of nothing but how far it is.

use std::io::{self, IoSlice};
use std::sync::atomic::Ordering;

use super::super::ffi::{Buffer, Send, Write};
use super::{BUFFER_BYTES, EMPTY_MAX, PIECES_MAX, RingLink, State, WRITES_MAX};
use crate::link::verbs_rules::flow::Kind;

/// Whether the peer has been told that nothing more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    NotYet,
    Wanted,
    Told,
}

/// Writes that are being made up.
#[derive(Debug, Default)]
pub(super) struct Writing {
    /// In their order, with how much goes into each.
    buffers: Vec<(Buffer, usize)>,
    /// Of how many buffers a write is, where in the peer's ring it goes, and how long it is.
    stretches: Vec<(usize, u64, usize)>,
    writes: Vec<Write>,
}

impl Writing {
    /// Takes buffers for `wanted` bytes, or as many as may be written now. A write ends where the peer's ring does.
    fn plan(&mut self, state: &mut State, wanted: usize, under_way: usize) {
        let State { flow, free, .. } = state;
        let total = wanted.min(flow.room());
        let messages = flow.messages().min(WRITES_MAX.saturating_sub(under_way));
        let mut planned = 0;
        while planned < total && self.stretches.len() < messages && !free.is_empty() {
            let (offset, to_end) = flow.place(planned);
            let buffers = free.len().min(PIECES_MAX);
            let len = (total - planned).min(to_end).min(buffers * BUFFER_BYTES);
            let pieces = len.div_ceil(BUFFER_BYTES);
            let taken = free.drain(free.len() - pieces..).enumerate();
            let part = |piece: usize| BUFFER_BYTES.min(len - piece * BUFFER_BYTES);
            self.buffers.extend(taken.map(|(piece, buffer)| (buffer, part(piece))));
            self.stretches.push((pieces, offset, len));
            planned += len;
        }
    }

    /// Copies what goes into the buffers. Returns how much that was.
    fn fill(&mut self, pieces: &[IoSlice<'_>]) -> usize {
        let mut pieces = pieces.iter();
        let mut rest: &[u8] = &[];
        let mut total = 0;
        for (buffer, len) in &mut self.buffers {
            let mut into = &mut buffer.bytes_mut()[..*len];
            total += *len;
            while !into.is_empty() {
                if rest.is_empty() {
                    rest = pieces.next().expect("no more was planned than there is");
                    continue;
                }
                let count = rest.len().min(into.len());
                let (part, left) = into.split_at_mut(count);
                part.copy_from_slice(&rest[..count]);
                (into, rest) = (left, &rest[count..]);
            }
        }
        total
    }
}

impl RingLink {
    /// Sends as much of `pieces` as there is room for, in one call of the device.
    ///
    /// # Errors
    /// `WouldBlock` without room; `BrokenPipe` if the peer is gone.
    pub(crate) fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Some(why) = self.failure() {
            return Err(why.into());
        }
        if self.has_ended() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let wanted = pieces.iter().map(|piece| piece.len()).sum();
        let mut guard = self.writing.lock();
        let writing = &mut *guard;
        writing.plan(&mut self.state.lock(), wanted, self.pair.under_way());
        if writing.stretches.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let total = writing.fill(pieces);
        let mut guard = self.state.lock();
        let State { flow, ring: (address, key), free, .. } = &mut *guard;
        let Writing { buffers, stretches, writes } = writing;
        writes.clear();
        writes.extend(stretches.drain(..).map(|(pieces, offset, len)| {
            // The invitation was refused if its ring went beyond the end of all addresses.
            let (address, immediate) = (*address + offset, flow.write(len));
            Write { pieces, address, key: *key, immediate }
        }));
        let written = self.pair.write(writes, buffers, free);
        written.inspect_err(|_| self.fail(io::ErrorKind::ConnectionReset))?;
        self.sends.fetch_add(1, Ordering::Relaxed);
        Ok(total)
    }

    /// Calls of the device that took something to send.
    pub(crate) fn sends(&self) -> u64 {
        self.sends.load(Ordering::Relaxed)
    }

    /// Whether something can be sent, or a failure be found.
    pub(crate) fn has_room(&self) -> bool {
        if self.has_ended() || self.failure().is_some() {
            return true;
        }
        let state = self.state.lock();
        state.flow.room() > 0
            && state.flow.messages() > 0
            && !state.free.is_empty()
            && self.pair.under_way() < WRITES_MAX
    }

    /// Sends an empty message, to see whether the peer can be reached.
    pub(crate) fn probe(&self) -> io::Result<()> {
        self.send_empty(&mut self.state.lock(), Kind::Credit)
    }

    /// Sends what is due besides bytes. A failure is noted, and found by whoever uses the stream next.
    pub(super) fn send_due(&self, state: &mut State) {
        if !self.may_send_empty(state) {
            return;
        }
        if state.finish == Finish::Wanted {
            state.finish = Finish::Told;
            let _ = self.send_empty(state, Kind::End);
        } else if state.flow.is_return_due() {
            let _ = self.send_empty(state, Kind::Credit);
        }
    }

    fn may_send_empty(&self, state: &State) -> bool {
        state.flow.has_reserve() && self.pair.under_way() < EMPTY_MAX && self.failure().is_none()
    }

    fn send_empty(&self, state: &mut State, kind: Kind) -> io::Result<()> {
        let immediate = state.flow.send_empty(kind);
        state.empty.push(Send { buffer: None, lent: Vec::new(), immediate });
        let State { empty, free, .. } = state;
        let sent = self.pair.post(empty, free, true);
        sent.inspect_err(|_| self.fail(io::ErrorKind::ConnectionReset))
    }

    /// Tells the peer that nothing more comes, behind all that was sent.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock();
        if state.finish == Finish::NotYet {
            state.finish = Finish::Wanted;
            self.send_due(&mut state);
        }
    }

    /// Nobody uses it any more. As over TCP, the peer reads the end if everything has been read here that it sent, and else that it
    /// was cut off.
    pub(crate) fn leave(&self) {
        self.poll();
        if self.ready() == 0 {
            self.finish();
        }
        let mut state = self.state.lock();
        if !self.pair.tells_of_all() && self.may_send_empty(&state) {
            // A failure has been noted.
            let _ = self.send_empty(&mut state, Kind::Credit);
        }
    }

    /// Whether the peer's device has everything that was sent, or never will.
    pub(crate) fn is_settled(&self) -> bool {
        if self.has_ended() || self.failure().is_some() {
            return true;
        }
        self.state.lock().finish != Finish::Wanted && self.pair.under_way() == 0
    }
}
