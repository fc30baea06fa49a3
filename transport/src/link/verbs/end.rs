//! One end of a connection over verbs: bytes into messages, and messages back into bytes.
//!
//! What is sent is copied into registered buffers, but for what lies in memory that is registered itself, and what
//! has come is copied out of them, but for large bodies, which the receiver reads from where they lie
//! (`reading.rs`). Handing receives to handlers is still to come.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};

use super::ffi::{
    Buffer, Exposed, Lent, PairOptions, QueuePair, Queues, Read, Receive, Send, Sent,
};
use super::reading::{Arrivals, Reading};
use crate::limits::FETCHES_MAX;
use crate::link::lent::{LENT_MIN, Lending, Outgoing};
use crate::link::verbs_rules::credits::{Credits, Kind, POST_AT, POST_MAX, RECEIVES, RESERVE};
use crate::link::verbs_rules::introduction::{Address, Introduction};
use crate::link::{Source, TcpLink};
use crate::memory::{Block, Shared};

/// The first bytes of a receive lie beside those of others, so that small messages keep to a few
/// pages and cache lines.
pub(super) const HEAD_BYTES: usize = 512;

/// The rest of a receive.
pub(super) const BODY_BYTES: usize = RECEIVE_BYTES - HEAD_BYTES;

/// The longest message, in bytes: small enough that a window of them is small, and large enough
/// that a device is not kept busy by their number.
pub(super) const RECEIVE_BYTES: usize = 8 << 10;

/// Buffers to send from: as many as a peer of our own kind has receives for.
pub(super) const SEND_BUFFERS: usize = RECEIVES as usize;

/// Sends that may be under way: the buffers, and empty messages besides; and reads.
pub(super) const SENDS_MAX: u32 = RECEIVES + 2 * RESERVE + READS_MAX as u32;

/// Reads that may be under way.
pub(super) const READS_MAX: u8 = FETCHES_MAX as u8;

/// Sends up to this length are written into the request itself, which spares the device a look at
/// memory.
const INLINE_BYTES: u32 = 192;

/// Pieces that a message is gathered from: one that is copied, and what follows it.
const PIECES_MAX: usize = 4;

/// One end of a connection.
#[derive(Debug)]
pub(super) struct End {
    pair: QueuePair,
    packet: u32,
    out: Mutex<Out>,
    inbound: Mutex<Inbound>,
    /// Something has come that has not been read.
    any_arrived: AtomicBool,
    /// The connection can bring nothing more.
    ended: AtomicBool,
    /// Something went wrong on it.
    failed: AtomicBool,
    /// The first message has been taken by the peer's device.
    is_reached: AtomicBool,
    /// Nobody uses it any more; it stays until what is under way has been sent.
    pub(super) is_orphan: AtomicBool,
    /// Where its reactor keeps its connection.
    pub(super) place: Arc<AtomicUsize>,
    /// Where the reads under way go, in their order.
    reads: Mutex<VecDeque<Arrivals>>,
    /// Pieces of memory that are being sent from where they lie, on all connections.
    all_lent: Arc<AtomicUsize>,
    /// Bytes that were sent from there.
    lent_bytes: AtomicU64,
    /// Something has been read.
    fetched: AtomicBool,
    /// Both sides can read each other's memory.
    can_read: AtomicBool,
    /// The socket that says to the peer that this end lives, once nobody else has it.
    kept: OnceLock<Arc<TcpLink>>,
    queues: Arc<Queues>,
    _grant: Grant,
}

/// The receives that are posted for a connection, for as long as it lives.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) granted: Arc<AtomicU32>,
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.granted.fetch_sub(RECEIVES, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct Out {
    free: Vec<Buffer>,
    credits: Credits,
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

#[derive(Debug, Default)]
struct Inbound {
    arrived: VecDeque<Arrived>,
    /// Receives that have been read and are to be posted again, [`POST_AT`] to [`POST_MAX`] in one call.
    emptied: Vec<Receive>,
}

#[derive(Debug)]
struct Arrived {
    receive: Receive,
    len: usize,
    read: usize,
}

/// What the ends of a reactor share.
#[derive(Debug)]
pub(super) struct Shares {
    pub(super) queues: Arc<Queues>,
    pub(super) all_lent: Arc<AtomicUsize>,
    pub(super) place: Arc<AtomicUsize>,
    pub(super) grant: Grant,
}

impl End {
    pub(super) fn new(
        shares: Shares,
        options: (u8, u8, u8),
        buffers: Vec<Buffer>,
        packet: u32,
    ) -> io::Result<Self> {
        let Shares { queues, all_lent, place, grant } = shares;
        let (port, gid_index, reads) = options;
        let (sends, inline) = (SENDS_MAX, INLINE_BYTES);
        let (pieces, receives, is_written) = (PIECES_MAX as u32, 0, false);
        let options =
            PairOptions { port, gid_index, sends, reads, inline, pieces, receives, is_written };
        let out = Out {
            free: buffers,
            credits: Credits::new(RESERVE),
            message_bytes: RECEIVE_BYTES,
            sends: Vec::new(),
            finish: Finish::NotYet,
        };
        Ok(Self {
            pair: QueuePair::new(Arc::clone(&queues), options)?,
            packet,
            out: Mutex::new(out),
            inbound: Mutex::default(),
            any_arrived: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            is_reached: AtomicBool::new(false),
            is_orphan: AtomicBool::new(false),
            place,
            reads: Mutex::default(),
            all_lent,
            lent_bytes: AtomicU64::new(0),
            fetched: AtomicBool::new(false),
            can_read: AtomicBool::new(false),
            kept: OnceLock::new(),
            queues,
            _grant: grant,
        })
    }

    /// The number by which completions know it.
    pub(super) fn number(&self) -> u32 {
        self.pair.number()
    }

    /// What the peer has to know of it, on a port with this address.
    pub(super) fn address(&self, lid: u16, gid: [u8; 16], mtu: u32) -> Address {
        Address { pair: self.pair.number(), packet: self.packet, lid, gid, mtu }
    }

    /// Connects it to the end that has introduced itself so.
    pub(super) fn connect(&self, peer: &Introduction, mtu: u32, reads: u8) -> io::Result<()> {
        let reads = reads.min(peer.reads);
        self.can_read.store(reads > 0, Ordering::Release);
        let mut out = self.out.lock();
        out.credits = Credits::new(peer.receives);
        out.message_bytes = RECEIVE_BYTES.min(peer.receive_bytes as usize);
        self.pair.connect(&peer.address, self.packet, mtu, reads)
    }

    /// Lets the peer read `body`, if it can.
    pub(super) fn offer(&self, body: &Shared) -> Option<Exposed> {
        if !self.can_read.load(Ordering::Acquire) || self.has_failed() {
            return None;
        }
        let exposed = Exposed::new(self.queues.domain(), body.clone());
        exposed.inspect_err(|error| tracing::debug!(%error, "a large body is not offered")).ok()
    }

    /// Is going to read into `block` what the peer has offered.
    ///
    /// # Errors
    /// The block, if that cannot be.
    pub(super) fn fetch(
        self: &Arc<Self>,
        block: Block,
        sources: &[Source],
    ) -> Result<Reading, Block> {
        if !self.can_read.load(Ordering::Acquire) {
            return Err(block);
        }
        Reading::new(self, self.queues.domain(), block, sources)
    }

    /// Begins to read from the peer's memory; what has been read goes to `arrivals`.
    pub(super) fn read(&self, read: Read, arrivals: &Arrivals) {
        let mut reads = self.reads.lock();
        reads.push_back(Arc::clone(arrivals));
        if self.pair.read(read).is_err() {
            self.fail();
        }
    }

    /// Whether something has been read since this was asked last.
    pub(super) fn take_fetched(&self) -> bool {
        self.fetched.load(Ordering::Relaxed) && self.fetched.swap(false, Ordering::AcqRel)
    }

    /// Sends an empty message, to see whether the peer can be reached.
    pub(super) fn probe(&self) -> io::Result<()> {
        self.send_empty(&mut self.out.lock(), Kind::Credit)
    }

    pub(super) fn is_reached(&self) -> bool {
        self.is_reached.load(Ordering::Acquire)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Whether there is something to read, the end included.
    #[inline]
    pub(super) fn is_readable(&self) -> bool {
        self.ended.load(Ordering::Acquire)
            || self.has_failed()
            || self.fetched.load(Ordering::Acquire)
            || self.any_arrived.load(Ordering::Acquire)
    }

    /// Whether something may be sent, or a failure be found.
    pub(super) fn is_writable(&self) -> bool {
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
    pub(super) fn lent_bytes(&self) -> u64 {
        self.lent_bytes.load(Ordering::Relaxed)
    }

    /// Sends as much of `pieces` as there is room for.
    pub(super) fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        if (1..=self.pair.inline_max()).contains(&len) && pieces.len() <= PIECES_MAX {
            return self.send_short(pieces, len);
        }
        self.send_all(pieces.iter().map(|piece| (&piece[..], None)))
    }

    /// As [`send`](Self::send), from where those lie that are registered.
    pub(super) fn send_lent(&self, pieces: &[Outgoing<'_>]) -> io::Result<usize> {
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
            Ok(()) => Ok(len),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
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
    pub(super) fn settle(&self) {
        let mut out = self.out.lock();
        if !self.has_failed() && !self.pair.tells_of_all() && out.credits.has_reserve() {
            // A failure has been noted.
            let _ = self.send_empty(&mut out, Kind::Credit);
        }
    }

    /// Sends what is due besides data.
    fn send_due(&self, out: &mut Out) {
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

    /// Receives what has come, as far as it fits; zero bytes are the end.
    pub(super) fn receive(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        // Before what has come: nothing comes after the end.
        let (ended, failed) = (self.ended.load(Ordering::Acquire), self.has_failed());
        let mut guard = self.inbound.lock();
        let inbound = &mut *guard;
        let mut total = 0;
        for buffer in into {
            let mut rest = &mut buffer[..];
            while !rest.is_empty()
                && let Some(arrived) = inbound.arrived.front_mut()
            {
                let count = arrived.read(rest);
                rest = &mut rest[count..];
                total += count;
                if arrived.read == arrived.len {
                    let arrived = inbound.arrived.pop_front().expect("it was just there");
                    inbound.emptied.push(arrived.receive);
                }
            }
        }
        if inbound.arrived.is_empty() {
            self.any_arrived.store(false, Ordering::Release);
        }
        if inbound.emptied.len() as u32 >= POST_MAX {
            self.post_emptied(inbound)?;
        }
        match total {
            0 if failed => Err(io::ErrorKind::ConnectionReset.into()),
            0 if !ended => Err(io::ErrorKind::WouldBlock.into()),
            total => Ok(total),
        }
    }

    /// Nothing has come for a moment: posts again what has been read, if that is worth a call.
    pub(super) fn tidy(&self) {
        let mut inbound = self.inbound.lock();
        if inbound.emptied.len() as u32 >= POST_AT {
            // A failure has been noted.
            let _ = self.post_emptied(&mut inbound);
        }
    }

    fn post_emptied(&self, inbound: &mut Inbound) -> io::Result<()> {
        let count = inbound.emptied.len() as u32;
        self.queues.post(inbound.emptied.drain(..)).inspect_err(|_| self.fail())?;
        let mut out = self.out.lock();
        out.credits.post(Kind::Data, count);
        self.send_due(&mut out);
        Ok(())
    }

    /// A message has come. Returns the receive if nobody has to read it.
    pub(super) fn arrived(
        &self,
        receive: Receive,
        len: usize,
        immediate: Option<u32>,
    ) -> Option<Receive> {
        let Some((kind, position)) = immediate.and_then(Kind::of) else {
            self.fail();
            return Some(receive);
        };
        let mut out = self.out.lock();
        if !out.credits.hear(position) {
            self.fail();
            return Some(receive);
        }
        if kind != Kind::Data || len == 0 {
            if kind == Kind::End {
                self.end();
            }
            out.credits.post(kind, 1);
            self.send_due(&mut out);
            return Some(receive);
        }
        drop(out);
        let mut inbound = self.inbound.lock();
        if inbound.arrived.len() >= RECEIVES as usize {
            // More than it was granted, at the cost of others.
            self.fail();
            return Some(receive);
        }
        inbound.arrived.push_back(Arrived { receive, len, read: 0 });
        self.any_arrived.store(true, Ordering::Release);
        None
    }

    /// A send or a read is done, or has failed, and all before it. What was lent comes to `lent`, to be dropped when
    /// nothing is locked.
    pub(super) fn sent(&self, sent: &Sent, went_well: bool, lent: &mut Vec<Lent>) {
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

    #[cold]
    fn has_read(&self, read: Vec<Buffer>) {
        let mut reads = self.reads.lock();
        for buffer in read {
            let arrivals = reads.pop_front().expect("what has been read was begun");
            arrivals.lock().push(buffer);
        }
        self.fetched.store(true, Ordering::Release);
    }

    /// Nobody waits for the peer any more: all that is under way comes back as failed, if the device still answers.
    pub(super) fn reset(&self) {
        self.fail();
        if let Err(error) = self.pair.reset() {
            tracing::warn!(%error, "a queue pair could not be reset");
        }
    }

    /// As [`reset`](Self::reset) was in vain: what the device was lent is not waited for.
    pub(super) fn lose_lent(&self) {
        self.pair.lose_lent();
    }

    /// How many sends the device is not done with.
    pub(super) fn under_way(&self) -> usize {
        self.pair.under_way()
    }

    /// Tells the peer that nothing more comes, behind all that was sent.
    pub(super) fn finish(&self) {
        let mut out = self.out.lock();
        if out.finish == Finish::NotYet {
            out.finish = Finish::Wanted;
            self.send_due(&mut out);
        }
    }

    /// Has the socket stay open for as long as there is something to send.
    pub(super) fn keep(&self, socket: Arc<TcpLink>) {
        self.kept.get_or_init(|| socket);
    }

    /// Nothing more will come.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// The connection is of no use any more; others are not touched.
    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }
}

impl Out {
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

impl Arrived {
    /// Copies what has not been read yet, as far as it fits.
    fn read(&mut self, into: &mut [u8]) -> usize {
        let start = self.read;
        let unread = self.len - self.read;
        let into_len = into.len().min(unread);
        if start == 0 && into_len <= HEAD_BYTES {
            // Most messages are as short.
            into[..into_len].copy_from_slice(&self.receive.head.bytes()[..into_len]);
            self.read = into_len;
            return into_len;
        }
        let mut into = &mut into[..into_len];
        while !into.is_empty() {
            let from = match self.read.checked_sub(HEAD_BYTES) {
                None => &self.receive.head.bytes()[self.read..],
                Some(at) => &self.receive.body.bytes()[at..],
            };
            let count = from.len().min(into.len());
            let (part, rest) = into.split_at_mut(count);
            part.copy_from_slice(&from[..count]);
            into = rest;
            self.read += count;
        }
        self.read - start
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let Inbound { arrived, emptied } = self.inbound.get_mut();
        // What was not read is lost with the connection; its receives are for the next.
        let unread = arrived.drain(..).map(|arrived| arrived.receive);
        if let Err(error) = self.queues.post(unread.chain(emptied.drain(..))) {
            tracing::warn!(%error, "receives of a closed connection were lost");
        }
    }
}
