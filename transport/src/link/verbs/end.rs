//! One end of a connection over verbs: bytes into messages, and messages back into bytes.
//!
//! What is sent is copied into registered buffers, but for what lies in memory that is registered itself, and what
//! has come is copied out of them, but for large bodies, which the receiver reads from where they lie
//! (`reading.rs`). Handing receives to handlers is still to come.

mod receiving;
mod sending;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::ffi::{Buffer, Exposed, PairOptions, QueuePair, Queues, Read};
use super::reading::{Arrivals, Reading};
use crate::limits::FETCHES_MAX;
use crate::link::verbs_rules::credits::{RECEIVES, RESERVE};
use crate::link::verbs_rules::introduction::{Address, Introduction};
use crate::link::{Source, TcpLink};
use crate::memory::{Block, Shared};

use receiving::Inbound;
use sending::Out;

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
        Ok(Self {
            pair: QueuePair::new(Arc::clone(&queues), options)?,
            packet,
            out: Mutex::new(Out::new(buffers)),
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
        // Locked to the end: there is room from here on, and nothing is sent before the pair is connected.
        let mut out = self.out.lock();
        out.meet(peer.receives, peer.receive_bytes as usize);
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

    pub(super) fn is_reached(&self) -> bool {
        self.is_reached.load(Ordering::Acquire)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
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
