//! A peer that speaks verbs and says what is not so, for tests.

use std::io::{Read as _, Write as _};
use std::iter::repeat_n;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::choice::Choice;
use super::end::{BODY_BYTES, HEAD_BYTES, RECEIVE_BYTES};
use super::ffi::{
    Access, Buffer, Completed, Domain, Exposed, PairOptions, QueuePair, QueueSizes, Queues, Read,
    Receive, Send, register,
};
use crate::handshake::{BODIES, Hello, LARGE, Windows};
use crate::identity::{Incarnation, NodeId};
use crate::link::verbs_options::VerbsOptions;
use crate::link::verbs_rules::credits::RECEIVES;
use crate::link::verbs_rules::introduction::{Address, INTRODUCTION_BYTES, Introduction};
use crate::memory::{Memory, MemoryConfig, Purpose};

/// No device gives a queue pair this number before it has given out all others.
pub(super) const NOBODY: u32 = (1 << 24) - 2;

/// Messages that it sends without waiting for any to be done.
pub(super) const SENDS: usize = 3 * RECEIVES as usize;

/// Longer than what a peer has for a message.
const SEND_BYTES: usize = 2 * RECEIVE_BYTES;

/// Any number will do for the first packet.
const PACKET: u32 = 1;

/// Reads that it has under way at most.
const READS: u8 = 4;

/// One end of a connection that keeps to none of its rules.
pub(super) struct Liar {
    pair: QueuePair,
    queues: Arc<Queues>,
    free: Vec<Buffer>,
    into: Vec<Buffer>,
    /// How many of its requests have failed.
    failed: usize,
    memory: Memory,
    _socket: TcpStream,
}

impl Liar {
    /// Meets whoever listens at `address`, by an introduction that `lie` has changed, and says hello.
    #[expect(clippy::disallowed_methods, reason = "the test is the stranger")]
    pub(super) fn meet(address: SocketAddr, lie: impl FnOnce(&mut Introduction)) -> Self {
        let choice = Choice::make(&VerbsOptions::default()).unwrap();
        let domain = Arc::new(Domain::new(Arc::clone(&choice.context)).unwrap());
        let sizes = QueueSizes { completions: 4 * SENDS as u32, receives: RECEIVES };
        let queues = Arc::new(Queues::new(Arc::clone(&domain), sizes).unwrap());
        let memory = Memory::new(MemoryConfig { limit_bytes: 16 << 20 }).unwrap();
        let cut = |access, count: usize, len: usize| {
            let block = memory.allocate(count * len, Purpose::Link).unwrap();
            let buffers = register(&domain, block, access, repeat_n(len, count));
            buffers.map_err(|(error, _)| error).unwrap()
        };
        let heads = cut(Access::Write, RECEIVES as usize, HEAD_BYTES);
        let bodies = cut(Access::Write, RECEIVES as usize, BODY_BYTES);
        let receives = heads.into_iter().zip(bodies).map(|(head, body)| Receive { head, body });
        queues.post(receives).unwrap();
        let (port, gid_index) = (choice.port, choice.gid_index);
        let (sends, reads, inline, pieces) = (2 * SENDS as u32, READS, 0, 1);
        let (receives, is_written) = (0, false);
        let options =
            PairOptions { port, gid_index, sends, reads, inline, pieces, receives, is_written };
        let pair = QueuePair::new(Arc::clone(&queues), options).unwrap();

        let mut introduction = introduction(&choice, pair.number());
        lie(&mut introduction);
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(&introduction.encode()).unwrap();
        let peer = hear(&mut socket);
        pair.connect(&peer.address, PACKET, choice.mtu, READS).unwrap();
        let (free, into) =
            (cut(Access::Read, SENDS, SEND_BYTES), cut(Access::Write, 1, SEND_BYTES));
        let mut liar = Self { pair, queues, free, into, failed: 0, memory, _socket: socket };
        let hello = Hello {
            node: NodeId(66),
            incarnation: Incarnation(1),
            features: LARGE | BODIES,
            windows: Windows::default(),
            secret: None,
        };
        liar.send(&hello.encode(), 0);
        liar
    }

    /// Sends a message with these 32 bits, whether there is a receive for it or not.
    pub(super) fn send(&mut self, bytes: &[u8], immediate: u32) {
        let buffer = (!bytes.is_empty()).then(|| {
            let mut buffer = self.free.pop().expect("a test sends as much as there is room for");
            buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
            (buffer, bytes.len())
        });
        let mut sends = vec![Send { buffer, lent: Vec::new(), immediate }];
        // Refused where the peer has ended it meanwhile.
        let _ = self.pair.post(&mut sends, &mut self.free, true);
    }

    /// Begins to read what lies at `address` in the peer's memory by this key.
    pub(super) fn read(&mut self, address: u64, key: u32) {
        let buffer = self.into.pop().expect("a test reads once");
        self.pair.read(Read { buffer, address, key }).unwrap();
    }

    /// Lets the peer read a body of `len` bytes. Returns what does, and where it lies: address and key.
    pub(super) fn expose(&self, len: usize) -> (Exposed, u64, u32) {
        let body = self.memory.allocate(len, Purpose::Send).unwrap().freeze();
        let exposed = Exposed::new(self.queues.domain(), body).unwrap();
        let (address, key, _) = exposed.place();
        (exposed, address, key)
    }

    /// How many of its requests have failed by now.
    pub(super) fn failed(&mut self) -> usize {
        let mut unused = Vec::new();
        let looked = self.queues.poll(|completion| {
            if let Completed::Received { receive, .. } = completion.what {
                unused.push(receive);
            } else {
                self.failed += usize::from(completion.failed.is_some());
            }
        });
        looked.and_then(|_| self.queues.post(unused.into_iter())).unwrap();
        self.failed
    }
}

/// Whoever has connected by `socket` is told to meet a queue pair that is nobody's.
pub(super) fn answer_for_nobody(socket: &mut TcpStream) {
    let choice = Choice::make(&VerbsOptions::default()).unwrap();
    hear(socket);
    socket.write_all(&introduction(&choice, NOBODY).encode()).unwrap();
}

fn introduction(choice: &Choice, pair: u32) -> Introduction {
    let Choice { lid, gid, mtu, .. } = *choice;
    Introduction {
        address: Address { pair, packet: PACKET, lid, gid, mtu },
        receives: RECEIVES,
        receive_bytes: RECEIVE_BYTES as u32,
        reads: READS,
        secret: None,
    }
}

/// What the peer says of itself.
fn hear(socket: &mut TcpStream) -> Introduction {
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut heard = [0; INTRODUCTION_BYTES];
    socket.read_exact(&mut heard).unwrap();
    Introduction::decode(&heard).unwrap()
}
