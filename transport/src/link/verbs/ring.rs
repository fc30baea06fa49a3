//! One end of a stream over verbs: a ring that the peer writes into by RDMA WRITE, and the peer's ring.
//!
//! Bytes are copied twice, as over shared memory, with a device in between: into registered buffers, from which the
//! device gathers them into the peer's ring, and out of the ring by who reads. A message without memory goes with each
//! write and tells the peer of it. Streams have nothing in common but the device: each has a protection domain of its
//! own, so that the key of its ring opens nothing else, and a queue of its own, so that a task can wait for it alone.

mod device;
mod sending;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::ffi::{
    Access, Buffer, Completed, Completion, Domain, Landing, PairOptions, QueuePair, QueueSizes,
    Queues, Send, register,
};
use crate::link::verbs_rules::flow::{Flow, Message, RECEIVES, RESERVE};
use crate::link::verbs_rules::introduction::Address;
use crate::link::verbs_rules::invitation::Invitation;
use crate::link::verbs_rules::landed;
use crate::memory::Block;

pub(crate) use crate::link::verbs_rules::invitation::INVITATION_BYTES;
pub(crate) use device::RingDevice;

use sending::{Finish, Writing};

/// The ring of an end, in bytes: what a socket buffer holds.
const RING_BYTES: u32 = 256 << 10;

/// A buffer to send from, in bytes.
const BUFFER_BYTES: usize = 8 << 10;

/// How many there are: together they hold half of what a ring does.
const BUFFERS: usize = RING_BYTES as usize / 2 / BUFFER_BYTES;

/// Buffers that one write gathers at most.
const PIECES_MAX: usize = 8;

/// Writes that may be under way.
const WRITES_MAX: usize = RECEIVES as usize;

/// Messages that may be under way when an empty one is sent.
const EMPTY_MAX: usize = WRITES_MAX + RESERVE as usize;

/// Messages that may be under way at all: while writes are made up, others may send empty ones.
const SENDS_MAX: usize = EMPTY_MAX + WRITES_MAX;

/// Writes up to this length are put into the request itself, which spares the device a look at memory.
const INLINE_BYTES: u32 = 192;

/// One end of a stream.
#[derive(Debug)]
pub(crate) struct RingLink {
    pair: QueuePair,
    landing: Landing,
    packet: u32,
    state: Mutex<State>,
    /// Held by who writes.
    writing: Mutex<Writing>,
    /// Why it is of no use any more.
    failed: OnceLock<io::ErrorKind>,
    /// The socket has come to its end: the peer is gone.
    ended: AtomicBool,
    /// A message of ours has been taken by the peer's device.
    is_reached: AtomicBool,
    /// A message of the peer's has come.
    is_heard: AtomicBool,
    /// Somebody waits for room, and so for sends to be done.
    writer_waits: AtomicBool,
    /// Calls of the device that took something to send. Written by who writes.
    sends: AtomicU64,
    queues: Arc<Queues>,
    device: Arc<RingDevice>,
}

/// What all that comes and goes changes.
#[derive(Debug)]
struct State {
    flow: Flow,
    /// Where the peer's ring lies, and the key by which it is written.
    ring: (u64, u32),
    free: Vec<Buffer>,
    empty: Vec<Send>,
    finish: Finish,
}

impl RingLink {
    /// A new end, which its peer may write to once they have met.
    ///
    /// # Errors
    /// The system's, such as `OutOfMemory` if the process may not lock so much (`ulimit -l`).
    pub(crate) fn new(device: &Arc<RingDevice>) -> io::Result<Self> {
        let domain = Arc::new(Domain::new(Arc::clone(&device.choice.context))?);
        let landing = Landing::new(&domain, RING_BYTES as usize / size_of::<u64>());
        let landing = landing.map_err(not_locked)?;
        let block = Block::from_vector(vec![0; BUFFERS * BUFFER_BYTES]);
        let lens = std::iter::repeat_n(BUFFER_BYTES, BUFFERS);
        let buffers = register(&domain, block, Access::Read, lens);
        let buffers = buffers.map_err(|(error, _)| not_locked(error))?;
        let sizes = QueueSizes { completions: SENDS_MAX as u32 + RECEIVES, receives: 0 };
        let queues = Arc::new(Queues::new(domain, sizes)?);
        let options = PairOptions {
            port: device.choice.port,
            gid_index: device.choice.gid_index,
            sends: SENDS_MAX as u32,
            reads: 0,
            inline: INLINE_BYTES,
            pieces: PIECES_MAX as u32,
            receives: RECEIVES,
            is_written: true,
        };
        let pair = QueuePair::new(Arc::clone(&queues), options)?;
        pair.post_receives(RECEIVES)?;
        let state = State {
            flow: Flow::new(RING_BYTES),
            ring: (0, 0),
            free: buffers,
            empty: Vec::new(),
            finish: Finish::NotYet,
        };
        Ok(Self {
            pair,
            landing,
            // Any number will do that an earlier stream is not likely to have had.
            packet: RandomState::new().build_hasher().finish() as u32 >> 8,
            state: Mutex::new(state),
            writing: Mutex::default(),
            failed: OnceLock::new(),
            ended: AtomicBool::new(false),
            is_reached: AtomicBool::new(false),
            is_heard: AtomicBool::new(false),
            writer_waits: AtomicBool::new(false),
            sends: AtomicU64::new(0),
            queues,
            device: Arc::clone(device),
        })
    }

    /// What the peer has to know of it.
    pub(crate) fn invitation(&self) -> [u8; INVITATION_BYTES] {
        let choice = &self.device.choice;
        let (lid, gid, mtu) = (choice.lid, choice.gid, choice.mtu);
        let (ring_address, ring_key) = self.landing.place();
        let (pair, packet) = (self.pair.number(), self.packet);
        let address = Address { pair, packet, lid, gid, mtu };
        let (receives, ring_bytes) = (RECEIVES, RING_BYTES);
        Invitation { address, receives, ring_address, ring_key, ring_bytes }.encode()
    }

    /// As [`new`](Self::new) and [`meet`](Self::meet): nothing is made for what is no invitation.
    pub(crate) fn invited(
        device: &Arc<RingDevice>,
        invitation: &[u8; INVITATION_BYTES],
    ) -> io::Result<Self> {
        let peer = Invitation::decode(invitation).ok_or(io::ErrorKind::InvalidData)?;
        let link = Self::new(device)?;
        link.connect(&peer)?;
        Ok(link)
    }

    /// Takes the peer's invitation.
    ///
    /// # Errors
    /// `InvalidData` if it is none; besides, the system's.
    pub(crate) fn meet(&self, invitation: &[u8; INVITATION_BYTES]) -> io::Result<()> {
        self.connect(&Invitation::decode(invitation).ok_or(io::ErrorKind::InvalidData)?)
    }

    fn connect(&self, peer: &Invitation) -> io::Result<()> {
        let mut state = self.state.lock();
        state.flow.meet(peer.ring_bytes, peer.receives);
        state.ring = (peer.ring_address, peer.ring_key);
        self.pair.connect(&peer.address, self.packet, self.device.choice.mtu, 0)
    }

    /// Takes in what the device is done with.
    pub(crate) fn poll(&self) {
        // Most looks find nothing: they take no lock for it.
        let mut locked = None;
        let polled = self.queues.poll(|completion| {
            self.completed(locked.get_or_insert_with(|| self.state.lock()), completion);
        });
        if let Some(mut state) = locked {
            let count = state.flow.post_again();
            if self.pair.post_receives(count).is_err() {
                self.fail(io::ErrorKind::ConnectionReset);
            }
            self.send_due(&mut state);
        }
        if let Err(error) = polled {
            tracing::error!(%error, "the queue of a stream failed");
            self.fail(io::ErrorKind::ConnectionReset);
        }
    }

    fn completed(&self, state: &mut State, completion: Completion) {
        let Completion { pair, failed, what } = completion;
        if let Some(status) = failed {
            if self.failed.get().is_none() {
                tracing::debug!(status, pair, "a stream over verbs failed");
            }
            return self.fail(io::ErrorKind::ConnectionReset);
        }
        match what {
            Completed::Written { len, immediate } => {
                self.is_heard.store(true, Ordering::Release);
                if let Err(violation) = state.flow.hear(Message { len, immediate }) {
                    tracing::debug!(pair, what = violation.0, "the peer of a stream is ended");
                    self.fail(io::ErrorKind::InvalidData);
                }
            }
            Completed::Sent(sent) => {
                self.is_reached.store(true, Ordering::Release);
                // It reads nothing of the peer's.
                self.pair.sent(&sent, &mut state.free, &mut Vec::new(), &mut Vec::new());
            }
            Completed::Received { .. } => {}
        }
    }

    fn fail(&self, why: io::ErrorKind) {
        // The first reason is the one that counts.
        let _ = self.failed.set(why);
    }

    /// The socket has come to its end: the peer is gone, and so is whatever has not come yet.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn failure(&self) -> Option<io::ErrorKind> {
        self.failed.get().copied()
    }

    /// Whether the peer's device has taken a message.
    pub(crate) fn is_reached(&self) -> bool {
        self.is_reached.load(Ordering::Acquire)
    }

    /// Whether the peer has sent a message.
    pub(crate) fn is_heard(&self) -> bool {
        self.is_heard.load(Ordering::Acquire)
    }

    /// How many bytes can be received now.
    pub(crate) fn ready(&self) -> usize {
        self.state.lock().flow.ready()
    }

    /// Receives what has come, as far as it fits.
    pub(crate) fn take(&self, into: &mut [u8]) -> usize {
        let mut total = 0;
        // In two pieces at the end of the ring.
        while total < into.len() {
            let (offset, there) = self.state.lock().flow.unread();
            if there == 0 {
                break;
            }
            let len = there.min(into.len() - total);
            landed::load(self.landing.words(), offset, &mut into[total..total + len]);
            total += len;
            let mut state = self.state.lock();
            state.flow.consume(len);
            self.send_due(&mut state);
        }
        total
    }

    /// Whether nothing comes any more after what has, and why. `ended` is whether the peer was gone before it was looked what has
    /// come.
    ///
    /// # Errors
    /// `ConnectionReset` if the peer is gone and has not said that this is all; `InvalidData` if it has done what cannot
    /// be.
    pub(crate) fn is_finished(&self, ended: bool) -> io::Result<bool> {
        if self.state.lock().flow.has_peer_ended() {
            return Ok(true);
        }
        match self.failure() {
            Some(why) => Err(why.into()),
            None if ended => Err(io::ErrorKind::ConnectionReset.into()),
            None => Ok(false),
        }
    }

    /// Whether there is something for who reads, the end included.
    pub(crate) fn has_input(&self) -> bool {
        let state = self.state.lock();
        let has_come = state.flow.ready() > 0 || state.flow.has_peer_ended();
        drop(state);
        has_come || self.has_ended() || self.failure().is_some()
    }

    /// Has the channel tell of what comes next. What has come before is not told of: look once more.
    pub(crate) fn arm(&self) -> io::Result<()> {
        self.queues.arm(self.writer_waits.load(Ordering::SeqCst))
    }

    /// Somebody waits for room from here on, or does not any more.
    pub(crate) fn set_writer_waits(&self, waits: bool) {
        self.writer_waits.store(waits, Ordering::SeqCst);
    }

    /// Takes in what the channel has told.
    pub(crate) fn hear(&self) {
        while self.queues.hear() {}
    }
}

/// Becomes readable when something has come after [`arm`](RingLink::arm).
impl AsRawFd for RingLink {
    fn as_raw_fd(&self) -> RawFd {
        self.queues.descriptor().as_raw_fd()
    }
}

/// Names the limit that is the usual cause.
fn not_locked(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::OutOfMemory {
        return error;
    }
    let why = "no memory can be registered for a stream: raise `ulimit -l`";
    io::Error::new(io::ErrorKind::OutOfMemory, why)
}
