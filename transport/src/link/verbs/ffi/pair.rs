//! A reliable connected queue pair: one end of a connection.

use std::collections::VecDeque;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use ibverbs_sys as sys;
use parking_lot::Mutex;

use super::check;
use super::memory::Buffer;
use super::queues::{Queues, Sent};
use crate::link::verbs_rules::introduction::Address;
use sys::ibv_qp_attr_mask as mask;

/// How long the device waits for an acknowledgement before it sends again: 4.096 us times two to
/// the power of this, so 67 ms, as Ibdxnet has it.
const TIMEOUT: u8 = 14;

/// How often it does, before the pair fails: finite, or a peer that is gone would be sent to for
/// ever.
const RETRIES: u8 = 7;

/// How long a peer that has no receive posted asks to be left alone: 0.64 ms. Zero would be 655 ms,
/// the longest. Credits see to it that this never comes to pass.
const RNR_TIMER: u8 = 12;

/// How often a message is sent again for that; 7 would be for ever, and hide a mistake in the
/// credits.
const RNR_RETRIES: u8 = 6;

/// Of so many sends that need not be known to be done, one is: what they take of the queue comes back.
const TELL_EVERY: usize = 8;

/// Routers that a packet may pass.
const HOPS: u8 = 64;

/// How a queue pair is made.
#[derive(Debug, Clone, Copy)]
pub(in crate::link::verbs) struct PairOptions {
    pub(in crate::link::verbs) port: u8,
    pub(in crate::link::verbs) gid_index: u8,
    /// Sends that may be under way.
    pub(in crate::link::verbs) sends: u32,
    /// Reads of the peer's that may be under way, and of its own.
    pub(in crate::link::verbs) reads: u8,
    /// Sends up to this length are copied into the request, if the device can.
    pub(in crate::link::verbs) inline: u32,
}

/// A message to be sent.
#[derive(Debug)]
pub(in crate::link::verbs) struct Send {
    /// With how many of its bytes, or none at all.
    pub(in crate::link::verbs) buffer: Option<(Buffer, usize)>,
    pub(in crate::link::verbs) immediate: u32,
}

/// Bytes to be read from the peer's memory, by RDMA READ.
#[derive(Debug)]
pub(in crate::link::verbs) struct Read {
    /// Where they go: as many as it has.
    pub(in crate::link::verbs) buffer: Buffer,
    /// Where they lie, as the peer's device names it.
    pub(in crate::link::verbs) address: u64,
    /// The key that the peer has told.
    pub(in crate::link::verbs) key: u32,
}

/// What the device has until it is done.
enum Held {
    /// Nothing: an empty message, or one that it has copied.
    Nothing,
    /// What it sends from.
    Sent(Buffer),
    /// What it reads into.
    Read(Buffer),
}

/// One end of a connection.
///
/// Invariant: `pair` is what `ibv_create_qp` has returned, and is destroyed by `Drop` alone. What
/// the device has yet to send is in `under_way`.
#[derive(Debug)]
pub(in crate::link::verbs) struct QueuePair {
    pair: NonNull<sys::ibv_qp>,
    inline_max: usize,
    port: u8,
    gid_index: u8,
    reads: u8,
    under_way: Mutex<UnderWay>,
    queues: Arc<Queues>,
}

// SAFETY: libibverbs may be called from any thread, from several at once.
unsafe impl std::marker::Send for QueuePair {}
// SAFETY: as above.
unsafe impl Sync for QueuePair {}

#[derive(Default)]
struct UnderWay {
    /// The number of the next send.
    next: u32,
    sends: VecDeque<(u32, Held)>,
    /// The last of them that the device will not tell of.
    untold: usize,
    /// What the device copies during the call.
    inline: Vec<Buffer>,
    elements: Vec<sys::ibv_sge>,
    requests: Vec<sys::ibv_send_wr>,
}

impl std::fmt::Debug for UnderWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnderWay").field("sends", &self.sends.len()).finish_non_exhaustive()
    }
}

// SAFETY: the raw pointers in `requests` are used within one call only.
unsafe impl std::marker::Send for UnderWay {}

impl QueuePair {
    /// A new one, which may receive once it is connected.
    pub(in crate::link::verbs) fn new(
        queues: Arc<Queues>,
        options: PairOptions,
    ) -> io::Result<Self> {
        let PairOptions { port, gid_index, sends, reads, inline } = options;
        let create = |inline: u32| {
            let mut attributes = sys::ibv_qp_init_attr {
                send_cq: queues.completions(),
                recv_cq: queues.completions(),
                srq: queues.receives(),
                cap: sys::ibv_qp_cap {
                    max_send_wr: sends,
                    max_send_sge: 1,
                    max_inline_data: inline,
                    ..Default::default()
                },
                qp_type: sys::ibv_qp_type::IBV_QPT_RC,
                ..Default::default()
            };
            let domain = queues.domain().as_ptr();
            // SAFETY: domain and queues are held as long as the pair is.
            let pair = NonNull::new(unsafe { sys::ibv_create_qp(domain, &raw mut attributes) });
            pair.ok_or_else(io::Error::last_os_error).map(|pair| (pair, inline as usize))
        };
        let (pair, inline_max) = create(inline).or_else(|_| create(0))?;
        let under_way = Mutex::default();
        let pair = Self { pair, inline_max, port, gid_index, reads, under_way, queues };
        // Of memory whose key has been told, if any has.
        let access = match reads {
            0 => 0,
            _ => sys::ibv_access_flags::IBV_ACCESS_REMOTE_READ.0,
        };
        let mut attributes = sys::ibv_qp_attr {
            qp_state: sys::ibv_qp_state::IBV_QPS_INIT,
            port_num: port,
            qp_access_flags: access,
            ..Default::default()
        };
        let set = mask::IBV_QP_STATE
            | mask::IBV_QP_PKEY_INDEX
            | mask::IBV_QP_PORT
            | mask::IBV_QP_ACCESS_FLAGS;
        pair.modify(&mut attributes, set)?;
        Ok(pair)
    }

    /// The number by which completions and peers know it.
    pub(in crate::link::verbs) fn number(&self) -> u32 {
        // SAFETY: the pair lives as long as `self`; its number does not change.
        unsafe { self.pair.as_ref() }.qp_num
    }

    fn modify(&self, attributes: &mut sys::ibv_qp_attr, set: mask) -> io::Result<()> {
        // SAFETY: the pair lives as long as `self`; the attributes are read during the call.
        check(unsafe { sys::ibv_modify_qp(self.pair.as_ptr(), attributes, set.0.cast_signed()) })
    }

    /// Connects it to `peer`, with `packet` as the number of the first packet that it sends, and up to
    /// `reads` of its reads under way.
    pub(in crate::link::verbs) fn connect(
        &self,
        peer: &Address,
        packet: u32,
        mtu: u32,
        reads: u8,
    ) -> io::Result<()> {
        let mut attributes = sys::ibv_qp_attr {
            qp_state: sys::ibv_qp_state::IBV_QPS_RTR,
            path_mtu: mtu.min(peer.mtu),
            dest_qp_num: peer.pair,
            rq_psn: peer.packet,
            min_rnr_timer: RNR_TIMER,
            max_dest_rd_atomic: self.reads,
            ah_attr: sys::ibv_ah_attr {
                // RoCE has no other addresses than these; InfiniBand may be routed by them.
                is_global: 1,
                dlid: peer.lid,
                port_num: self.port,
                grh: sys::ibv_global_route {
                    dgid: sys::ibv_gid { raw: peer.gid },
                    sgid_index: self.gid_index,
                    hop_limit: HOPS,
                    ..Default::default()
                },
                ..Default::default()
            },
            ..Default::default()
        };
        let set = mask::IBV_QP_STATE
            | mask::IBV_QP_AV
            | mask::IBV_QP_PATH_MTU
            | mask::IBV_QP_DEST_QPN
            | mask::IBV_QP_RQ_PSN
            | mask::IBV_QP_MAX_DEST_RD_ATOMIC
            | mask::IBV_QP_MIN_RNR_TIMER;
        self.modify(&mut attributes, set)?;
        let mut attributes = sys::ibv_qp_attr {
            qp_state: sys::ibv_qp_state::IBV_QPS_RTS,
            sq_psn: packet,
            timeout: TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: RNR_RETRIES,
            max_rd_atomic: reads,
            ..Default::default()
        };
        let set = mask::IBV_QP_STATE
            | mask::IBV_QP_TIMEOUT
            | mask::IBV_QP_RETRY_CNT
            | mask::IBV_QP_RNR_RETRY
            | mask::IBV_QP_SQ_PSN
            | mask::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(&mut attributes, set)
    }

    /// Sends these in order, in one call. Buffers that the device has copied go to `free` at once. That
    /// the last is done is told of if `tell` is set, or if there are others to come back. After an error
    /// the pair is of no use any more.
    pub(in crate::link::verbs) fn post(
        &self,
        sends: &mut Vec<Send>,
        free: &mut Vec<Buffer>,
        tell: bool,
    ) -> io::Result<()> {
        let mut guard = self.under_way.lock();
        let UnderWay { next: number, sends: under_way, untold, inline, elements, requests } =
            &mut *guard;
        let mut tell = tell || *untold + sends.len() >= TELL_EVERY;
        elements.clear();
        requests.clear();
        for send in sends.drain(..) {
            let (buffer, len) = match send.buffer {
                Some((buffer, len)) => (Some(buffer), len),
                None => (None, 0),
            };
            elements.push(buffer.as_ref().map(|buffer| buffer.element(len)).unwrap_or_default());
            let mut request = sys::ibv_send_wr {
                wr_id: u64::from(*number),
                num_sge: i32::from(buffer.is_some()),
                opcode: sys::ibv_wr_opcode::IBV_WR_SEND_WITH_IMM,
                ..Default::default()
            };
            request.__bindgen_anon_1.imm_data = send.immediate.to_be();
            let is_inline = len <= self.inline_max && buffer.is_some();
            if is_inline {
                request.send_flags |= sys::ibv_send_flags::IBV_SEND_INLINE.0;
            }
            requests.push(request);
            let (copied, kept) = if is_inline { (buffer, None) } else { (None, buffer) };
            tell |= kept.is_some();
            inline.extend(copied);
            under_way.push_back((*number, kept.map_or(Held::Nothing, Held::Sent)));
            *untold += 1;
            *number = number.wrapping_add(1);
        }
        let Some(last) = requests.last_mut() else { return Ok(()) };
        // One bell wakes the peer for all of them, and one completion says that all are done.
        last.send_flags |= sys::ibv_send_flags::IBV_SEND_SOLICITED.0;
        if tell {
            last.send_flags |= sys::ibv_send_flags::IBV_SEND_SIGNALED.0;
            *untold = 0;
        }
        // Neither grows any more, so that what is pointed at stays where it is.
        let mut next = ptr::null_mut();
        for (request, element) in requests.iter_mut().zip(elements.iter_mut()).rev() {
            request.sg_list = element;
            request.next = next;
            next = request;
        }
        // SAFETY: the device is open.
        let operation = unsafe { (*self.queues.domain().context().as_ptr()).ops.post_send };
        let operation = operation.expect("every device can send");
        let mut bad = ptr::null_mut();
        // SAFETY: the requests are chained and point at elements that live to the end of the call;
        // the elements name memory that is registered, and that nobody touches until the device is
        // done with it: its owner is `under_way`, or `inline` if it is copied during the call.
        let posted = check(unsafe { operation(self.pair.as_ptr(), next, &raw mut bad) });
        free.append(inline);
        posted
    }

    /// Reads from the peer's memory. After an error the pair is of no use any more.
    pub(in crate::link::verbs) fn read(&self, read: Read) -> io::Result<()> {
        let mut under_way = self.under_way.lock();
        let mut element = read.buffer.element(read.buffer.len());
        let mut request = sys::ibv_send_wr {
            wr_id: u64::from(under_way.next),
            sg_list: &raw mut element,
            num_sge: 1,
            opcode: sys::ibv_wr_opcode::IBV_WR_RDMA_READ,
            send_flags: sys::ibv_send_flags::IBV_SEND_SIGNALED.0,
            ..Default::default()
        };
        request.wr.rdma.remote_addr = read.address;
        request.wr.rdma.rkey = read.key;
        let number = under_way.next;
        under_way.sends.push_back((number, Held::Read(read.buffer)));
        under_way.next = number.wrapping_add(1);
        under_way.untold = 0;
        // SAFETY: the device is open.
        let operation = unsafe { (*self.queues.domain().context().as_ptr()).ops.post_send };
        let operation = operation.expect("every device can send");
        let mut bad = ptr::null_mut();
        // SAFETY: the request points at an element that lives to the end of the call, which names memory
        // that is registered for being written, and that nobody touches until the device is done with it:
        // its owner is `under_way`.
        check(unsafe { operation(self.pair.as_ptr(), &raw mut request, &raw mut bad) })
    }

    /// The device is done with that request and all before it: returns the buffers of sends, and those of
    /// reads in their order.
    ///
    /// # Panics
    /// If it is another pair's.
    pub(in crate::link::verbs) fn sent(
        &self,
        sent: &Sent,
        buffers: &mut Vec<Buffer>,
        read: &mut Vec<Buffer>,
    ) {
        assert_eq!(sent.pair, self.number(), "a completion belongs to the pair that it names");
        let number = sent.number;
        let mut under_way = self.under_way.lock();
        let is_done = |of: u32| number.wrapping_sub(of) < u32::MAX / 2;
        while under_way.sends.front().is_some_and(|(of, _)| is_done(*of)) {
            match under_way.sends.pop_front().expect("it was just there").1 {
                Held::Nothing => {}
                Held::Sent(buffer) => buffers.push(buffer),
                Held::Read(buffer) => read.push(buffer),
            }
        }
    }

    /// Whether the device will tell of all sends that it is not done with.
    pub(in crate::link::verbs) fn tells_of_all(&self) -> bool {
        self.under_way.lock().untold == 0
    }

    /// How many sends the device is not done with, or not known to be.
    pub(in crate::link::verbs) fn under_way(&self) -> usize {
        self.under_way.lock().sends.len()
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: nobody uses the pair any more. The memory of what is under way goes after this.
        if let Err(error) = check(unsafe { sys::ibv_destroy_qp(self.pair.as_ptr()) }) {
            // The device may still have the memory.
            tracing::error!(%error, "a queue pair could not be destroyed");
            std::mem::forget(std::mem::take(&mut *self.under_way.lock()));
        }
        self.queues.suspect();
    }
}
