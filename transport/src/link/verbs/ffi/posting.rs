//! What a queue pair is given to do: sends, reads and writes of the peer's memory, and receives of its own.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ptr;

use ibverbs_sys as sys;

use super::check;
use super::memory::{Buffer, Lent};
use super::pair::QueuePair;
#[cfg(feature = "streams")]
use super::queues::EMPTY_RECEIVE;
use super::queues::Sent;

/// Of so many sends that need not be known to be done, one is: what they take of the queue comes back.
const TELL_EVERY: usize = 8;

/// A message to be sent.
#[derive(Debug)]
pub(in crate::link::verbs) struct Send {
    /// With how many of its bytes, or none at all.
    pub(in crate::link::verbs) buffer: Option<(Buffer, usize)>,
    /// What follows it from elsewhere.
    pub(in crate::link::verbs) lent: Vec<Lent>,
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

/// Bytes to be written into the peer's memory, by RDMA WRITE, and a message that tells the peer of them.
#[cfg(feature = "streams")]
#[derive(Debug)]
pub(in crate::link::verbs) struct Write {
    /// How many buffers they are gathered from.
    pub(in crate::link::verbs) pieces: usize,
    /// Where they go, as the peer's device names it.
    pub(in crate::link::verbs) address: u64,
    /// The key that the peer has told.
    pub(in crate::link::verbs) key: u32,
    pub(in crate::link::verbs) immediate: u32,
}

/// What the device has until it is done.
enum Held {
    /// What it sends from, or a part of that.
    Sent(Buffer),
    /// What it sends from that is somebody else's.
    Lent(Lent),
    /// What it reads into.
    Read(Buffer),
}

/// What a queue pair's device is not done with.
#[derive(Default)]
pub(super) struct UnderWay {
    /// The number of the next request.
    next: u32,
    /// The number of the oldest that is not known to be done.
    oldest: u32,
    /// In their order, with the number of the request. Nothing for messages that are empty or have been copied.
    held: VecDeque<(u32, Held)>,
    /// The last requests, that the device will not tell of.
    untold: usize,
    /// Some of what has been added has memory that is not copied.
    keeps: bool,
    /// What the device copies during the call.
    inline: Vec<Buffer>,
    elements: Vec<sys::ibv_sge>,
    requests: Vec<sys::ibv_send_wr>,
    #[cfg(feature = "streams")]
    receives: Vec<sys::ibv_recv_wr>,
}

impl std::fmt::Debug for UnderWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnderWay").field("held", &self.held.len()).finish_non_exhaustive()
    }
}

// SAFETY: the raw pointers in requests are used within one call only.
unsafe impl std::marker::Send for UnderWay {}

impl UnderWay {
    /// Adds a request that gathers these pieces.
    fn add(
        &mut self,
        request: sys::ibv_send_wr,
        pieces: impl Iterator<Item = (Buffer, usize)>,
        lent: Vec<Lent>,
        inline_max: usize,
    ) {
        let (number, first, copied) = (self.next, self.elements.len(), self.inline.len());
        let mut len = 0;
        for (buffer, piece_len) in pieces {
            self.elements.push(buffer.element(piece_len));
            self.inline.push(buffer);
            len += piece_len;
        }
        for piece in &lent {
            self.elements.push(piece.element());
            len += piece.len();
        }
        let keeps = len > inline_max || !lent.is_empty();
        if keeps {
            let kept = self.inline.drain(copied..);
            self.held.extend(kept.map(|buffer| (number, Held::Sent(buffer))));
            self.held.extend(lent.into_iter().map(|piece| (number, Held::Lent(piece))));
            self.keeps = true;
        }
        self.end_request(request, first, len > 0 && !keeps);
    }

    /// Adds a request for the elements that have been added since there were `first`, which the device copies
    /// during the call if `is_copied`.
    fn end_request(&mut self, mut request: sys::ibv_send_wr, first: usize, is_copied: bool) {
        let count = self.elements.len() - first;
        request.wr_id = u64::from(self.next);
        request.num_sge = i32::try_from(count).expect("a request has a few pieces");
        if is_copied {
            request.send_flags |= sys::ibv_send_flags::IBV_SEND_INLINE.0;
        }
        self.requests.push(request);
        self.untold += 1;
        self.next = self.next.wrapping_add(1);
    }

    /// How many requests the device is not done with, or not known to be.
    fn count(&self) -> usize {
        self.next.wrapping_sub(self.oldest) as usize
    }

    /// Chains the requests that have been added, and returns the first. What is pointed at stays where it is until the
    /// next is added.
    fn chain(&mut self, tell: bool) -> *mut sys::ibv_send_wr {
        let Some(last) = self.requests.last_mut() else { return ptr::null_mut() };
        // One bell wakes the peer for all of them, and one completion says that all are done.
        last.send_flags |= sys::ibv_send_flags::IBV_SEND_SOLICITED.0;
        if tell || self.keeps || self.untold >= TELL_EVERY {
            last.send_flags |= sys::ibv_send_flags::IBV_SEND_SIGNALED.0;
            self.untold = 0;
        }
        let mut rest = &mut self.elements[..];
        let mut next = ptr::null_mut();
        for request in self.requests.iter_mut().rev() {
            let (before, own) = rest.split_at_mut(rest.len() - request.num_sge as usize);
            request.sg_list = own.as_mut_ptr();
            request.next = next;
            (next, rest) = (request, before);
        }
        next
    }

    /// Forgets what has been posted. The buffers that the device has copied go to `free`.
    fn posted(&mut self, free: &mut Vec<Buffer>) {
        free.append(&mut self.inline);
        self.elements.clear();
        self.requests.clear();
        self.keeps = false;
    }
}

impl QueuePair {
    /// Sends these in order, in one call. Buffers that the device has copied go to `free` at once. That
    /// the last is done is told of if `tell` is set, or if there are others to come back. After an error
    /// the pair is of no use any more.
    pub(in crate::link::verbs) fn post(
        &self,
        sends: &mut Vec<Send>,
        free: &mut Vec<Buffer>,
        tell: bool,
    ) -> io::Result<()> {
        let mut under_way = self.under_way.lock();
        for send in sends.drain(..) {
            let request = request(sys::ibv_wr_opcode::IBV_WR_SEND_WITH_IMM, send.immediate);
            under_way.add(request, send.buffer.into_iter(), send.lent, self.inline_max);
        }
        self.submit(&mut under_way, free, tell)
    }

    /// Sends `pieces`, as many as the pair was made for at most, together as one message, which the device copies during the call, with what
    /// `immediate` says once it is sure that there is room. That it is done is told of if `tell` is set. Returns whether there was room.
    ///
    /// # Errors
    /// After one the pair is of no use any more, whatever its kind: `immediate` has been asked.
    ///
    /// # Panics
    /// If they are longer together than what a device [copies](Self::inline_max).
    pub(in crate::link::verbs) fn post_copied(
        &self,
        pieces: &[IoSlice<'_>],
        tell: bool,
        immediate: impl FnOnce() -> u32,
    ) -> io::Result<bool> {
        let mut guard = self.under_way.lock();
        let under_way = &mut *guard;
        if under_way.count() >= self.sends_max {
            return Ok(false);
        }
        let mut len = 0;
        // What is empty would be taken for the longest there can be by some devices.
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            len += piece.len();
            // The pieces are short together, or the call panics.
            let (addr, length) = (piece.as_ptr() as u64, piece.len() as u32);
            under_way.elements.push(sys::ibv_sge { addr, length, lkey: 0 });
        }
        assert!(len <= self.inline_max, "the device copies as much");
        let request = request(sys::ibv_wr_opcode::IBV_WR_SEND_WITH_IMM, immediate());
        under_way.end_request(request, 0, true);
        let first = under_way.chain(tell);
        // SAFETY: the one request points at elements that live to the end of the call; these name borrowed memory, which
        // the device only reads, and only during the call: it copies, and needs no registration for that.
        let posted = unsafe { self.post_chain(first) };
        under_way.elements.clear();
        under_way.requests.clear();
        posted.map(|()| true)
    }

    /// Writes what `buffers` have, with how many of their bytes, to where these say, in one call and in order. Buffers that the
    /// device has copied go to `free` at once; all others come back. After an error the pair is of no use any more.
    ///
    /// # Panics
    /// If the writes have more pieces than there are buffers.
    #[cfg(feature = "streams")]
    pub(in crate::link::verbs) fn write(
        &self,
        writes: &[Write],
        buffers: &mut Vec<(Buffer, usize)>,
        free: &mut Vec<Buffer>,
    ) -> io::Result<()> {
        let mut under_way = self.under_way.lock();
        for write in writes {
            let opcode = sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM;
            let mut request = request(opcode, write.immediate);
            request.wr.rdma.remote_addr = write.address;
            request.wr.rdma.rkey = write.key;
            under_way.add(request, buffers.drain(..write.pieces), Vec::new(), self.inline_max);
        }
        self.submit(&mut under_way, free, false)
    }

    fn submit(
        &self,
        under_way: &mut UnderWay,
        free: &mut Vec<Buffer>,
        tell: bool,
    ) -> io::Result<()> {
        let first = under_way.chain(tell);
        if first.is_null() {
            return Ok(());
        }
        // SAFETY: the requests are chained and point at elements that live to the end of the call;
        // the elements name memory that is registered, and that nobody touches until the device is
        // done with it: its owner is `under_way`, which keeps what is copied to the end of the call.
        let posted = unsafe { self.post_chain(first) };
        under_way.posted(free);
        posted
    }

    /// # Safety
    /// The requests are chained; what they point at, and the memory that is named there, stay untouched for as long as
    /// the device needs them.
    unsafe fn post_chain(&self, first: *mut sys::ibv_send_wr) -> io::Result<()> {
        // SAFETY: the device is open.
        let operation = unsafe { (*self.queues.domain().context().as_ptr()).ops.post_send };
        let operation = operation.expect("every device can send");
        let mut bad = ptr::null_mut();
        // SAFETY: the pair lives as long as `self`; the rest is the caller's word.
        check(unsafe { operation(self.pair.as_ptr(), first, &raw mut bad) })
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
        under_way.held.push_back((number, Held::Read(read.buffer)));
        under_way.next = number.wrapping_add(1);
        under_way.untold = 0;
        // SAFETY: the request points at an element that lives to the end of the call, which names memory
        // that is registered for being written, and that nobody touches until the device is done with it:
        // its owner is `under_way`.
        unsafe { self.post_chain(&raw mut request) }
    }

    /// Posts so many receives of the pair's own. They have no memory: a message that brings bytes writes them itself, to where
    /// it may, and one that is sent with bytes ends the connection. After an error the pair is of no use any more.
    #[cfg(feature = "streams")]
    pub(in crate::link::verbs) fn post_receives(&self, count: u32) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let mut under_way = self.under_way.lock();
        let requests = &mut under_way.receives;
        requests.clear();
        let empty = sys::ibv_recv_wr {
            wr_id: EMPTY_RECEIVE,
            next: ptr::null_mut(),
            sg_list: ptr::null_mut(),
            num_sge: 0,
        };
        requests.resize(count as usize, empty);
        let mut next = ptr::null_mut();
        for request in requests.iter_mut().rev() {
            request.next = next;
            next = request;
        }
        // SAFETY: the device is open.
        let operation = unsafe { (*self.queues.domain().context().as_ptr()).ops.post_recv };
        let operation = operation.expect("every device can receive");
        let mut bad = ptr::null_mut();
        // SAFETY: the pair lives as long as `self`; the requests are chained, live to the end of the call, and name no
        // memory.
        check(unsafe { operation(self.pair.as_ptr(), next, &raw mut bad) })
    }

    /// The device is done with that request and all before it: returns the buffers of sends, those of reads in
    /// their order, and what was lent, which is to be dropped where nothing is locked: its owner wakes others.
    ///
    /// # Panics
    /// If it is another pair's.
    pub(in crate::link::verbs) fn sent(
        &self,
        sent: &Sent,
        buffers: &mut Vec<Buffer>,
        read: &mut Vec<Buffer>,
        lent: &mut Vec<Lent>,
    ) {
        assert_eq!(sent.pair, self.number(), "a completion belongs to the pair that it names");
        let number = sent.number;
        let mut under_way = self.under_way.lock();
        let is_done = |of: u32| number.wrapping_sub(of) < u32::MAX / 2;
        if is_done(under_way.oldest) {
            under_way.oldest = number.wrapping_add(1);
        }
        while under_way.held.front().is_some_and(|(of, _)| is_done(*of)) {
            match under_way.held.pop_front().expect("it was just there").1 {
                Held::Sent(buffer) => buffers.push(buffer),
                Held::Lent(piece) => lent.push(piece),
                Held::Read(buffer) => read.push(buffer),
            }
        }
    }

    /// The device will not tell of what it has been lent: that is never freed, and whoever waits for it is told.
    pub(in crate::link::verbs) fn lose_lent(&self) {
        let mut lost = Vec::new();
        let mut under_way = self.under_way.lock();
        for (number, held) in std::mem::take(&mut under_way.held) {
            match held {
                Held::Lent(piece) => lost.push(piece),
                held => under_way.held.push_back((number, held)),
            }
        }
        drop(under_way);
        // Without the lock: its owner wakes others.
        lost.into_iter().for_each(Lent::lose);
    }

    /// Whether the device will tell of all sends that it is not done with.
    pub(in crate::link::verbs) fn tells_of_all(&self) -> bool {
        self.under_way.lock().untold == 0
    }

    /// How many requests the device is not done with, or not known to be.
    pub(in crate::link::verbs) fn under_way(&self) -> usize {
        self.under_way.lock().count()
    }
}

/// A request that carries this immediate.
fn request(opcode: sys::ibv_wr_opcode::Type, immediate: u32) -> sys::ibv_send_wr {
    let mut request = sys::ibv_send_wr { opcode, ..Default::default() };
    request.__bindgen_anon_1.imm_data = immediate.to_be();
    request
}
