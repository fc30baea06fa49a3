//! The queues that all queue pairs share: one of completions, with its channel, and one of receives.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ibverbs_sys as sys;
use parking_lot::Mutex;

use super::device::Domain;
use super::memory::Buffer;
use super::{check, set_nonblocking};
use crate::link::verbs_rules::postings::Postings;

/// Completions taken from the device at once.
const POLL_MAX: usize = 32;

/// Marks what was posted as a receive; what was sent has the number of its pair and its own.
const RECEIVE: u64 = 1 << 63;

/// Marks a receive without memory, which has no place in the table.
pub(super) const EMPTY_RECEIVE: u64 = RECEIVE | 1 << 62;

/// How many requests the queues hold.
#[derive(Debug, Clone, Copy)]
pub(in crate::link::verbs) struct QueueSizes {
    pub(in crate::link::verbs) completions: u32,
    /// Those that pairs share; none where each has its own.
    pub(in crate::link::verbs) receives: u32,
}

/// Memory that one message is received into: its beginning and its rest, two pieces of one receive.
#[derive(Debug)]
pub(in crate::link::verbs) struct Receive {
    pub(in crate::link::verbs) head: Buffer,
    pub(in crate::link::verbs) body: Buffer,
}

/// The completion queue, its channel, and the shared receive queue if there is one.
///
/// Invariant: these are what libibverbs has returned, and are destroyed by `Drop` alone. What
/// is posted to the receive queue is in `posted`, at the place that its number says; what a device has lost stays there.
#[derive(Debug)]
pub(in crate::link::verbs) struct Queues {
    channel: NonNull<sys::ibv_comp_channel>,
    completions: NonNull<sys::ibv_cq>,
    receives: Option<NonNull<sys::ibv_srq>>,
    /// What the device says is read into these, which are not cleared in between.
    entries: Mutex<Box<[sys::ibv_wc]>>,
    posted: Mutex<Posted>,
    /// Some receives are to be replaced, to be seen without the lock.
    any_due: AtomicBool,
    domain: Arc<Domain>,
}

// SAFETY: libibverbs may be called from any thread, from several at once.
unsafe impl Send for Queues {}
// SAFETY: as above.
unsafe impl Sync for Queues {}

#[derive(Debug, Default)]
struct Posted {
    receives: Postings<Receive>,
    elements: Vec<[sys::ibv_sge; 2]>,
    requests: Vec<sys::ibv_recv_wr>,
}

// SAFETY: the raw pointers in `requests` are used within one call only.
unsafe impl Send for Posted {}

/// A request that the device is done with.
#[derive(Debug)]
pub(in crate::link::verbs) struct Completion {
    /// The queue pair's number.
    pub(in crate::link::verbs) pair: u32,
    /// What went wrong, if it did.
    pub(in crate::link::verbs) failed: Option<u32>,
    pub(in crate::link::verbs) what: Completed,
}

#[derive(Debug)]
pub(in crate::link::verbs) enum Completed {
    /// A message has come, of so many bytes, with these 32 bits.
    Received { receive: Receive, len: usize, immediate: Option<u32> },
    /// A message has come to a pair with receives of its own, which have no memory: it has written so many bytes to
    /// where it wanted, as far as it may.
    #[cfg_attr(
        not(feature = "streams"),
        expect(dead_code, reason = "none has receives of its own")
    )]
    Written { len: usize, immediate: Option<u32> },
    /// A send, and all of the same pair before it: its buffers can be had back.
    Sent(Sent),
}

/// The device's word that a send is done; only the device's queue makes one.
#[derive(Debug)]
pub(in crate::link::verbs) struct Sent {
    pub(super) pair: u32,
    pub(super) number: u32,
}

impl Queues {
    pub(in crate::link::verbs) fn new(domain: Arc<Domain>, sizes: QueueSizes) -> io::Result<Self> {
        let context = domain.context().as_ptr();
        // SAFETY: the context is open as long as the domain is held.
        let channel = NonNull::new(unsafe { sys::ibv_create_comp_channel(context) })
            .ok_or_else(io::Error::last_os_error)?;
        let completions = c_int::try_from(sizes.completions).unwrap_or(c_int::MAX);
        // SAFETY: context and channel are open; nothing is kept with the queue.
        let completions = unsafe {
            sys::ibv_create_cq(context, completions, ptr::null_mut(), channel.as_ptr(), 0)
        };
        let Some(completions) = NonNull::new(completions) else {
            let error = io::Error::last_os_error();
            // SAFETY: nothing uses the channel.
            unsafe { sys::ibv_destroy_comp_channel(channel.as_ptr()) };
            return Err(error);
        };
        let receives = match sizes.receives {
            0 => None,
            count => Some(shared_receives(&domain, count).inspect_err(|_| {
                // SAFETY: nothing uses the queue or the channel.
                unsafe {
                    sys::ibv_destroy_cq(completions.as_ptr());
                    sys::ibv_destroy_comp_channel(channel.as_ptr());
                }
            })?),
        };
        let entries = Mutex::new(vec![sys::ibv_wc::default(); POLL_MAX].into());
        let posted = Mutex::default();
        let any_due = AtomicBool::new(false);
        let queues = Self { channel, completions, receives, entries, posted, any_due, domain };
        set_nonblocking(queues.descriptor())?;
        Ok(queues)
    }

    pub(in crate::link::verbs) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    pub(super) fn completions(&self) -> *mut sys::ibv_cq {
        self.completions.as_ptr()
    }

    /// The receives that pairs share, or null.
    pub(super) fn receives(&self) -> *mut sys::ibv_srq {
        self.receives.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    /// Becomes readable after [`arm`](Self::arm), when something has come.
    pub(in crate::link::verbs) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel is.
        unsafe { BorrowedFd::borrow_raw(self.channel.as_ref().fd) }
    }

    /// Has the channel tell of the next completion: of any, or only of messages that their sender
    /// wants to be told of, and of failures. What has come before is not told of: look once more.
    pub(in crate::link::verbs) fn arm(&self, any: bool) -> io::Result<()> {
        // SAFETY: the device is open.
        let operation = unsafe { (*self.domain.context().as_ptr()).ops.req_notify_cq };
        let operation = operation.expect("every device can notify");
        // SAFETY: the queue lives as long as `self`.
        check(unsafe { operation(self.completions.as_ptr(), c_int::from(!any)) })
    }

    /// Takes in what the channel has told once. Returns whether there was anything.
    pub(in crate::link::verbs) fn hear(&self) -> bool {
        let mut queue: *mut sys::ibv_cq = ptr::null_mut();
        let mut kept: *mut c_void = ptr::null_mut();
        // SAFETY: the channel is open and does not block, and the call writes to the places that it
        // is given.
        let got =
            unsafe { sys::ibv_get_cq_event(self.channel.as_ptr(), &raw mut queue, &raw mut kept) };
        if got == 0 {
            // SAFETY: acknowledges the one event that was got; the channel has one queue.
            unsafe { sys::ibv_ack_cq_events(self.completions.as_ptr(), 1) };
        }
        got == 0
    }

    /// Hands the requests that the device is done with to `done`. Returns how many there were.
    pub(in crate::link::verbs) fn poll(
        &self,
        mut done: impl FnMut(Completion),
    ) -> io::Result<usize> {
        // SAFETY: the device is open.
        let operation = unsafe { (*self.domain.context().as_ptr()).ops.poll_cq };
        let operation = operation.expect("every device can be polled");
        let mut entries = self.entries.lock();
        let mut total = 0;
        loop {
            // SAFETY: the queue lives as long as `self`, and there is room for so many entries.
            let count = unsafe {
                operation(self.completions.as_ptr(), POLL_MAX as c_int, entries.as_mut_ptr())
            };
            let count = usize::try_from(count)
                .map_err(|_| io::Error::other("the completion queue failed"))?;
            for entry in &entries[..count] {
                let failed = entry.error().map(|(status, _)| status);
                let what = if entry.wr_id() & RECEIVE == 0 {
                    Completed::Sent(Sent { pair: entry.qp_num, number: entry.wr_id() as u32 })
                } else if entry.wr_id() == EMPTY_RECEIVE {
                    let is_write = entry.opcode() == sys::ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM;
                    let len = if failed.is_none() && is_write { entry.len() } else { 0 };
                    Completed::Written { len, immediate: entry.imm_data().map(u32::from_be) }
                } else {
                    let receive = self.take(entry.wr_id());
                    let capacity = receive.head.len() + receive.body.len();
                    let len = if failed.is_none() { entry.len().min(capacity) } else { 0 };
                    let immediate = entry.imm_data().map(u32::from_be);
                    Completed::Received { receive, len, immediate }
                };
                done(Completion { pair: entry.qp_num, failed, what });
            }
            total += count;
            if count < POLL_MAX {
                return Ok(total);
            }
        }
    }

    /// What was posted under that number: the device is done with it. Locked for this alone: whoever handles what has come locks
    /// what others hold while they post.
    fn take(&self, number: u64) -> Receive {
        let place = (number & !RECEIVE) as usize;
        let mut posted = self.posted.lock();
        let receive = posted.receives.take(place);
        if posted.receives.is_due() {
            self.any_due.store(true, Ordering::Release);
        }
        receive.expect("a device returns a number once for each time that it was posted")
    }

    /// A queue pair is gone, and with it the receive that a message was coming into.
    pub(in crate::link::verbs) fn suspect(&self) {
        self.posted.lock().receives.suspect();
    }

    /// How many receives are to be posted in the place of such.
    pub(in crate::link::verbs) fn take_due(&self) -> usize {
        // Hardly ever.
        if !self.any_due.load(Ordering::Acquire) {
            return 0;
        }
        let mut posted = self.posted.lock();
        self.any_due.store(false, Ordering::Release);
        posted.receives.take_due()
    }

    /// Gives `receives` to the device, in one call.
    pub(in crate::link::verbs) fn post(
        &self,
        receives: impl Iterator<Item = Receive>,
    ) -> io::Result<()> {
        let mut posted = self.posted.lock();
        let Posted { receives: table, elements, requests } = &mut *posted;
        elements.clear();
        requests.clear();
        for receive in receives {
            let both = [
                receive.head.element(receive.head.len()),
                receive.body.element(receive.body.len()),
            ];
            // One that has been replaced and has come back after all is let go of.
            let Ok(place) = table.post(receive) else { continue };
            elements.push(both);
            requests.push(sys::ibv_recv_wr {
                wr_id: RECEIVE | place as u64,
                next: ptr::null_mut(),
                sg_list: ptr::null_mut(),
                num_sge: 2,
            });
        }
        // Neither grows any more, so that what is pointed at stays where it is.
        let mut next = ptr::null_mut();
        for (request, both) in requests.iter_mut().zip(elements.iter_mut()).rev() {
            request.sg_list = both.as_mut_ptr();
            request.next = next;
            next = request;
        }
        if next.is_null() {
            return Ok(());
        }
        // SAFETY: the device is open.
        let operation = unsafe { (*self.domain.context().as_ptr()).ops.post_srq_recv };
        let operation = operation.expect("a device with shared receive queues posts to them");
        assert!(self.receives.is_some(), "there is a queue that receives are posted to");
        let mut bad = ptr::null_mut();
        // SAFETY: the requests are chained and point at elements that live to the end of the call;
        // the elements name memory that is registered, and that nobody touches until the device is
        // done with it: its owner is the table.
        check(unsafe { operation(self.receives(), next, &raw mut bad) })
    }
}

/// A queue of `count` receives that pairs share.
fn shared_receives(domain: &Domain, count: u32) -> io::Result<NonNull<sys::ibv_srq>> {
    let mut attributes = sys::ibv_srq_init_attr {
        srq_context: ptr::null_mut(),
        attr: sys::ibv_srq_attr { max_wr: count, max_sge: 2, srq_limit: 0 },
    };
    // SAFETY: the domain is held, and the attributes are read and written during the call.
    let receives = unsafe { sys::ibv_create_srq(domain.as_ptr(), &raw mut attributes) };
    NonNull::new(receives).ok_or_else(io::Error::last_os_error)
}

impl Drop for Queues {
    fn drop(&mut self) {
        // SAFETY: whatever used the queues held them, and is gone. The receive queue goes first: the
        // memory of what is posted to it goes after this, with the table.
        let gone = unsafe {
            let gone = self.receives.map_or(0, |queue| sys::ibv_destroy_srq(queue.as_ptr()));
            check(gone)
                .and(check(sys::ibv_destroy_cq(self.completions.as_ptr())))
                .and(check(sys::ibv_destroy_comp_channel(self.channel.as_ptr())))
        };
        if let Err(error) = gone {
            // The device may still have the memory.
            tracing::error!(%error, "the queues of a device could not be destroyed");
            std::mem::forget(std::mem::take(&mut *self.posted.lock()));
        }
    }
}
