//! A reliable connected queue pair: one end of a connection.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use ibverbs_sys as sys;
use parking_lot::Mutex;

use super::check;
use super::posting::UnderWay;
use super::queues::Queues;
use crate::link::verbs_rules::introduction::Address;
use sys::ibv_qp_attr_mask as mask;

/// How long the device waits for an acknowledgement before it sends again: 4.096 us times two to
/// the power of this, so 67 ms, as Ibdxnet has it.
const TIMEOUT: u8 = 14;

/// How often it does, before the pair fails: finite, or a peer that is gone would be sent to for ever. 7 is that to
/// SoftRoCE, as it is to all for [`RNR_RETRIES`].
const RETRIES: u8 = 6;

/// How long a peer that has no receive posted asks to be left alone: 20.48 ms. Zero would be 655 ms, the longest.
/// Credits see to it that this never comes to pass, but for a peer that keeps to none: then those that share
/// the receives with it wait until they are given back, which a busy reactor does a moment later.
const RNR_TIMER: u8 = 22;

/// How often a message is sent again for that, 143 ms in all; 7 would be for ever, and keep a connection that its
/// peer never receives on.
const RNR_RETRIES: u8 = 6;

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
    /// Pieces that one send gathers at most.
    pub(in crate::link::verbs) pieces: u32,
    /// Receives of its own that may be posted; none where it takes those that all pairs of the queues share.
    pub(in crate::link::verbs) receives: u32,
    /// Whether the peer may write, into memory whose key it has been told.
    pub(in crate::link::verbs) is_written: bool,
}

/// One end of a connection.
///
/// Invariant: `pair` is what `ibv_create_qp` has returned, and is destroyed by `Drop` alone. What
/// the device has yet to send is in `under_way`.
#[derive(Debug)]
pub(in crate::link::verbs) struct QueuePair {
    pub(super) pair: NonNull<sys::ibv_qp>,
    pub(super) inline_max: usize,
    pub(super) sends_max: usize,
    port: u8,
    gid_index: u8,
    reads: u8,
    pub(super) under_way: Mutex<UnderWay>,
    pub(super) queues: Arc<Queues>,
}

// SAFETY: libibverbs may be called from any thread, from several at once.
unsafe impl Send for QueuePair {}
// SAFETY: as above.
unsafe impl Sync for QueuePair {}

impl QueuePair {
    /// A new one, which may receive once it is connected.
    pub(in crate::link::verbs) fn new(
        queues: Arc<Queues>,
        options: PairOptions,
    ) -> io::Result<Self> {
        let PairOptions { port, gid_index, sends, reads, inline, pieces, receives, is_written } =
            options;
        let shared = if receives == 0 { queues.receives() } else { ptr::null_mut() };
        let create = |inline: u32| {
            let mut attributes = sys::ibv_qp_init_attr {
                send_cq: queues.completions(),
                recv_cq: queues.completions(),
                srq: shared,
                cap: sys::ibv_qp_cap {
                    max_send_wr: sends,
                    max_send_sge: pieces,
                    max_recv_wr: receives,
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
        let sends_max = sends as usize;
        let pair = Self { pair, inline_max, sends_max, port, gid_index, reads, under_way, queues };
        // Of memory whose key has been told, if any has.
        let mut access = sys::ibv_access_flags(0);
        if reads > 0 {
            access |= sys::ibv_access_flags::IBV_ACCESS_REMOTE_READ;
        }
        if is_written {
            access |= sys::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE;
        }
        let mut attributes = sys::ibv_qp_attr {
            qp_state: sys::ibv_qp_state::IBV_QPS_INIT,
            port_num: port,
            qp_access_flags: access.0,
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

    /// Sends up to this length the device copies during the call that posts them; nothing if it cannot.
    pub(in crate::link::verbs) fn inline_max(&self) -> usize {
        self.inline_max
    }

    fn modify(&self, attributes: &mut sys::ibv_qp_attr, set: mask) -> io::Result<()> {
        // SAFETY: the pair lives as long as `self`; the attributes are read during the call.
        check(unsafe { sys::ibv_modify_qp(self.pair.as_ptr(), attributes, set.0.cast_signed()) })
    }

    /// Has the device end everything that is under way: it tells of each request as failed.
    ///
    /// # Errors
    /// The system's, where the device refuses.
    pub(in crate::link::verbs) fn reset(&self) -> io::Result<()> {
        let mut attributes =
            sys::ibv_qp_attr { qp_state: sys::ibv_qp_state::IBV_QPS_ERR, ..Default::default() };
        self.modify(&mut attributes, mask::IBV_QP_STATE)
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
