//! What an end sends: bytes into messages, as far as the peer has receives for them.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;

use super::super::ffi::{Buffer, Lent, Send, Sent};
use super::{End, PIECES_MAX, RECEIVE_BYTES, SENDS_MAX};
use crate::link::lent::{LENT_MIN, Lending, Outgoing};
use crate::link::verbs_rules::credits::{Credits, Kind, RESERVE};

/// What an end sends from, and how far it has come.
#[derive(Debug)]
pub(super) struct Out {
    free: Vec<Buffer>,
    pub(super) credits: Credits,
    message_bytes: usize,
    sends: Vec<Send>,
    finish: Finish,
}

/// A message that is being filled.
#[derive(Debug, Default)]
struct Filling {
    /// What is copied, and how much of it.
    own: Option<(Buffer, usize)>,
    /// What follows it from where it lies.
    lent: Vec<Lent>,
    /// Of all that.
    len: usize,
}

/// Whether the peer has been told that nothing more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finish {
    NotYet,
    Wanted,
    Told,
}

impl End {
    /// Sends an empty message, to see whether the peer can be reached.
    pub(in crate::link::verbs) fn probe(&self) -> io::Result<()> {
        self.send_empty(&mut self.out.lock(), Kind::Credit)
    }

    /// Whether something may be sent, or a failure be found.
    pub(in crate::link::verbs) fn is_writable(&self) -> bool {
        if self.ended.load(Ordering::Acquire) || self.has_failed() {
            return true;
        }
        let out = self.out.lock();
        self.room(&out) > 0
    }

    /// How many messages with data may be sent now.
    fn room(&self, out: &Out) -> usize {
        let room = (out.credits.room() as usize).min(out.free.len());
        room.min((SENDS_MAX as usize).saturating_sub(self.pair.under_way()))
    }

    /// Bytes that were sent from where they lay.
    pub(in crate::link::verbs) fn lent_bytes(&self) -> u64 {
        self.lent_bytes.load(Ordering::Relaxed)
    }

    /// Sends as much of `pieces` as there is room for.
    pub(in crate::link::verbs) fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        if (1..=self.pair.inline_max()).contains(&len) && pieces.len() <= PIECES_MAX {
            return self.send_short(pieces, len);
        }
        self.send_all(pieces.iter().map(|piece| (&piece[..], None)))
    }

    /// As [`send`](Self::send), from where those lie that are registered.
    pub(in crate::link::verbs) fn send_lent(&self, pieces: &[Outgoing<'_>]) -> io::Result<usize> {
        self.send_all(pieces.iter().map(|piece| (piece.bytes, piece.lending.as_ref())))
    }

    /// Locks what is sent from.
    ///
    /// # Errors
    /// Why nothing is to be sent any more.
    fn begin_send(&self) -> io::Result<MutexGuard<'_, Out>> {
        if self.has_failed() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let out = self.out.lock();
        if self.ended.load(Ordering::Acquire) || out.finish != Finish::NotYet {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(out)
    }

    /// Sends `pieces`, `len` bytes together, in one message that the device copies from where they lie.
    fn send_short(&self, pieces: &[IoSlice<'_>], len: usize) -> io::Result<usize> {
        let mut guard = self.begin_send()?;
        let credits = &mut guard.credits;
        let room = credits.room();
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // With the last that data may use, so that an empty message can still tell of all before it.
        let posted = self.pair.post_copied(pieces, room == 1, || credits.send(Kind::Data));
        match posted {
            Ok(true) => Ok(len),
            Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => {
                self.fail();
                Err(error)
            }
        }
    }

    fn send_all<'a>(
        &self,
        pieces: impl Iterator<Item = (&'a [u8], Option<&'a Lending<'a>>)>,
    ) -> io::Result<usize> {
        let mut guard = self.begin_send()?;
        let out = &mut *guard;
        let mut room = self.room(out);
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut total = 0;
        let mut filling = Filling::default();
        'pieces: for (piece, lending) in pieces {
            let mut rest = piece;
            while !rest.is_empty() {
                let lends = lending.filter(|_| rest.len() >= LENT_MIN);
                if filling.is_full(out.message_bytes, lends.is_some()) {
                    out.queue(&mut filling);
                }
                if filling.len == 0 {
                    if room == 0 {
                        break 'pieces;
                    }
                    room -= 1;
                }
                let count = rest.len().min(out.message_bytes - filling.len);
                let (part, left) = rest.split_at(count);
                if let Some(lending) = lends {
                    let memory = lending.part(piece.len() - rest.len(), count);
                    let owner = Arc::clone(&lending.owner);
                    filling.lent.push(Lent::new(memory, lending.key, owner, &self.all_lent));
                    self.lent_bytes.fetch_add(count as u64, Ordering::Relaxed);
                } else {
                    let own = filling
                        .own
                        .get_or_insert_with(|| (out.free.pop().expect("there is room"), 0));
                    own.0.bytes_mut()[own.1..own.1 + count].copy_from_slice(part);
                    own.1 += count;
                }
                filling.len += count;
                total += count;
                rest = left;
            }
        }
        out.queue(&mut filling);
        // With the last that data may use, so that an empty message can still tell of all before it.
        let tell = out.credits.room() == 0;
        self.post(out, tell)?;
        Ok(total)
    }

    fn send_empty(&self, out: &mut Out, kind: Kind) -> io::Result<()> {
        let immediate = out.credits.send(kind);
        out.sends.push(Send { buffer: None, lent: Vec::new(), immediate });
        self.post(out, true)
    }

    fn post(&self, out: &mut Out, tell: bool) -> io::Result<()> {
        let Out { sends, free, .. } = out;
        self.pair.post(sends, free, tell).inspect_err(|_| self.fail())
    }

    /// Has the device tell when it has sent all that it was given.
    pub(in crate::link::verbs) fn settle(&self) {
        let mut out = self.out.lock();
        if !self.has_failed() && !self.pair.tells_of_all() && out.credits.has_reserve() {
            // A failure has been noted.
            let _ = self.send_empty(&mut out, Kind::Credit);
        }
    }

    /// Sends what is due besides data.
    pub(super) fn send_due(&self, out: &mut Out) {
        if self.pair.under_way() >= SENDS_MAX as usize || !out.credits.has_reserve() {
            return;
        }
        // A failure has been noted, and is found by whoever uses the connection next.
        if out.finish == Finish::Wanted {
            out.finish = Finish::Told;
            let _ = self.send_empty(out, Kind::End);
        } else if out.finish == Finish::NotYet && out.credits.is_return_due() {
            let _ = self.send_empty(out, Kind::Credit);
        }
    }

    /// A send or a read is done, or has failed, and all before it. What was lent comes to `lent`, to be dropped when
    /// nothing is locked.
    pub(in crate::link::verbs) fn sent(&self, sent: &Sent, went_well: bool, lent: &mut Vec<Lent>) {
        let mut read = Vec::new();
        let mut out = self.out.lock();
        self.pair.sent(sent, &mut out.free, &mut read, lent);
        if !went_well {
            // What was to be read has not come, and the connection ends.
            drop(out);
            let mut reads = self.reads.lock();
            drop(reads.drain(..read.len()));
            return;
        }
        self.send_due(&mut out);
        drop(out);
        if !read.is_empty() {
            self.has_read(read);
        }
        self.is_reached.store(true, Ordering::Release);
    }

    /// Tells the peer that nothing more comes, behind all that was sent.
    pub(in crate::link::verbs) fn finish(&self) {
        let mut out = self.out.lock();
        if out.finish == Finish::NotYet {
            out.finish = Finish::Wanted;
            self.send_due(&mut out);
        }
    }
}

impl Out {
    /// Before it is known what the peer has receives for.
    pub(super) fn new(free: Vec<Buffer>) -> Self {
        let (credits, message_bytes) = (Credits::new(RESERVE), RECEIVE_BYTES);
        Self { free, credits, message_bytes, sends: Vec::new(), finish: Finish::NotYet }
    }

    /// The peer has so many receives, of so many bytes.
    pub(super) fn meet(&mut self, receives: u32, receive_bytes: usize) {
        self.credits = Credits::new(receives);
        self.message_bytes = RECEIVE_BYTES.min(receive_bytes);
    }

    /// Has what has been filled sent, if that is anything.
    fn queue(&mut self, filled: &mut Filling) {
        let Filling { own, lent, len } = std::mem::take(filled);
        if len > 0 {
            let immediate = self.credits.send(Kind::Data);
            self.sends.push(Send { buffer: own, lent, immediate });
        }
    }
}

impl Filling {
    /// Whether nothing more goes into it: what is copied stands before what is lent.
    fn is_full(&self, message_bytes: usize, lends: bool) -> bool {
        self.len == message_bytes
            || !lends && !self.lent.is_empty()
            || self.lent.len() + 1 == PIECES_MAX
    }
}
