//! The calls of one connection that wait for replies.
//!
//! A slab with a generation a slot: a reply that comes after its call was given up finds another
//! generation and is dropped, where DXNet's table indexed by a wrapping id would hand it to whoever
//! sits there now. Slots are made in chunks that never move and are never given back, so that a
//! reply finds its slot without a lock on the table.

mod slot;

use std::sync::OnceLock;
use std::task::{Poll, Waker};

use crate::catching;
use crate::error::{Applied, CallError, CloseReason};
use crate::frame::Class;
use crate::limits::{CALL_SLOTS, CALLS_MAX};
use crate::reply::Reply;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Latch, LatchGuard};
use crate::time::Time;

use slot::Slot;

pub(crate) use slot::{Opened, Sent};

/// Slots in the first chunk and in the second; each chunk after that has as many as all before it.
const FIRST: usize = 32;

/// How many chunks hold all slots.
const CHUNKS: usize = 1 + (CALL_SLOTS / FIRST).ilog2() as usize;

const _: () = assert!(FIRST.is_power_of_two() && CALL_SLOTS.is_power_of_two());

type Chunk = Box<[Latch<Slot>]>;

/// A call's place and generation in the table; on the wire, the id of its request and replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallKey(pub(crate) u64);

impl CallKey {
    fn new(index: u32, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(index))
    }

    fn index(self) -> u32 {
        self.0 as u32
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// For how long a call waits for its reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    /// When it is polled once more though there is no reply.
    pub(crate) wake_at: Time,
    /// When it fails.
    pub(crate) deadline: Time,
}

impl From<Time> for Wait {
    #[inline]
    fn from(deadline: Time) -> Self {
        Self { wake_at: deadline, deadline }
    }
}

/// All calls of a connection.
#[derive(Debug)]
pub(crate) struct CallTable {
    chunks: [OnceLock<Chunk>; CHUNKS],
    free: Latch<Free>,
    /// Replies that found nobody waiting any more.
    pub(crate) late: AtomicU64,
}

#[derive(Debug, Default)]
struct Free {
    /// Each with the generation of the call that takes it; the one that was freed last is taken next.
    slots: Vec<CallKey>,
    /// How many there have ever been.
    made: u32,
    closed: Option<CloseReason>,
    waiters: Vec<Waker>,
}

impl Free {
    /// How many slots calls have.
    fn taken(&self) -> usize {
        self.made as usize - self.slots.len()
    }
}

/// Why a call cannot begin now.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Every slot is taken; the waker given will be woken when one is free.
    Full,
    /// The connection has ended.
    Closed(CloseReason),
}

impl CallTable {
    pub(crate) fn new() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: Latch::default(),
            late: AtomicU64::new(0),
        }
    }

    /// How many calls wait for replies. Asked for now and then, so it is not counted with each call.
    pub(crate) fn pending(&self) -> usize {
        self.free.lock().taken()
    }

    /// Takes a slot for a call in `class`, which does not count as waiting before it is
    /// [opened](Self::open). `waker` is called only if this fails with [`Refused::Full`], when there
    /// may be room again.
    #[inline]
    pub(crate) fn begin(&self, class: Class, waker: Option<&Waker>) -> Result<CallKey, Refused> {
        let mut free = self.free.lock();
        if let Some(reason) = &free.closed {
            return Err(Refused::Closed(reason.clone()));
        }
        let has_place = class != Class::Request || free.taken() < CALLS_MAX;
        let slot = has_place.then(|| free.slots.pop().or_else(|| self.make_slot(&mut free)));
        slot.flatten().ok_or_else(|| {
            free.waiters.extend(waker.cloned());
            Refused::Full
        })
    }

    /// A slot that nobody has had, if there is one.
    #[cold]
    fn make_slot(&self, free: &mut Free) -> Option<CallKey> {
        let index = free.made;
        if index as usize >= CALL_SLOTS {
            return None;
        }
        let (chunk, _) = place(index as usize);
        let len = if chunk == 0 { FIRST } else { FIRST << (chunk - 1) };
        self.chunks[chunk].get_or_init(|| (0..len).map(|_| Latch::default()).collect());
        free.made += 1;
        Some(CallKey::new(index, 0))
    }

    /// Has `key` wait for replies for as long as `wait` says, and `waker` woken by the first. Its request is
    /// written while the slot is held, by [`Opened::written`].
    #[inline]
    pub(crate) fn open(&self, key: CallKey, wait: impl Into<Wait>, waker: &Waker) -> Opened<'_> {
        let Wait { wake_at, deadline } = wait.into();
        let mut slot = self.slot(key.index()).expect("the slot was made").lock();
        debug_assert!(!slot.used && slot.generation == key.generation());
        slot.used = true;
        slot.complete = false;
        slot.wake_at = wake_at;
        slot.deadline = deadline;
        slot.waker = Some(waker.clone());
        Opened(slot)
    }

    /// Notes where the request of `key` was written.
    pub(crate) fn written(&self, key: CallKey, sent: Sent) {
        if let Some(mut slot) = self.find(key) {
            slot.sent = sent;
        }
    }

    /// Gives up `key`, answered or not, and frees its slot.
    #[cold]
    pub(crate) fn end(&self, key: CallKey) {
        let slot = self.slot(key.index()).expect("the slot was made").lock();
        if slot.generation == key.generation() {
            self.free(key, slot);
        }
    }

    /// Frees the slot of `key`.
    #[inline]
    fn free(&self, key: CallKey, mut slot: LatchGuard<'_, Slot>) {
        let next = CallKey::new(key.index(), key.generation().wrapping_add(1));
        slot.generation = next.generation();
        slot.used = false;
        // Of a call that was answered and asked for all of it, there is nothing. What is there is somebody else's to drop, which may take long.
        let left = slot.has_left_over().then(|| slot.take_left_over());
        drop(slot);
        drop(left);
        let mut free = self.free.lock();
        free.slots.push(next);
        if !free.waiters.is_empty() {
            wake_waiters(free);
        }
    }

    /// The next reply of `key`, and whether it was the last: then the call is over, and its slot free.
    #[inline]
    pub(crate) fn poll_reply(
        &self,
        key: CallKey,
        waker: &Waker,
    ) -> Poll<(Result<Reply, CallError>, bool)> {
        let mut slot = self.find(key).expect("a call is polled before it ends");
        if let Some(reply) = slot.reply.take() {
            slot.reply = slot.more.pop_front();
            let last = slot.complete && slot.reply.is_none();
            if last {
                self.free(key, slot);
            }
            return Poll::Ready((reply, last));
        }
        if !slot.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            let before = slot.waker.replace(waker.clone());
            drop(slot);
            drop(before);
        }
        Poll::Pending
    }

    /// A reply has come for `key`; returns who is to be woken.
    #[inline]
    pub(crate) fn deliver(&self, key: CallKey, reply: Reply, more: bool) -> Option<Waker> {
        let Some(mut slot) = self.find(key) else {
            self.late.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        if slot.complete {
            return None;
        }
        slot.complete = !more;
        if slot.reply.is_none() {
            slot.reply = Some(Ok(reply));
        } else {
            slot.more.push_back(Ok(reply));
        }
        slot.waker.take()
    }

    /// Whether the call still waits for a reply. The key may come from the peer.
    pub(crate) fn is_waiting(&self, key: CallKey) -> bool {
        self.find(key).is_some_and(|slot| !slot.complete)
    }

    /// A reply to `key` has come that nobody has taken.
    pub(crate) fn is_answered(&self, key: CallKey) -> bool {
        self.find(key).is_some_and(|slot| matches!(slot.reply, Some(Ok(_))))
    }

    /// Ends `key` with an error, if it still waits.
    pub(crate) fn fail(&self, key: CallKey, error: CallError, wakers: &mut Vec<Waker>) {
        if let Some(mut slot) = self.find(key)
            && !slot.complete
        {
            slot.fail(error, wakers);
        }
    }

    /// Ends every call whose deadline has come, and wakes those that wanted to be before. Returns when the next is due.
    ///
    /// Even a request of which nothing has left may have its effect: the connection lives, and what
    /// is committed goes out as soon as the link takes it.
    pub(crate) fn expire(&self, now: Time, wakers: &mut Vec<Waker>) -> Option<Time> {
        let mut earliest: Option<Time> = None;
        self.for_each_waiting(|slot| {
            if slot.deadline > now {
                if slot.wake_at <= now {
                    slot.wake_at = slot.deadline;
                    wakers.extend(slot.waker.take());
                }
                earliest = Some(earliest.map_or(slot.wake_at, |time| time.min(slot.wake_at)));
                return;
            }
            slot.fail(CallError::DeadlineExceeded { applied: Applied::Maybe }, wakers);
        });
        earliest
    }

    /// Ends every call, because the connection has; none begins any more.
    pub(crate) fn close(
        &self,
        reason: &CloseReason,
        has_left: impl Fn(Sent) -> bool,
        wakers: &mut Vec<Waker>,
    ) {
        {
            let mut free = self.free.lock();
            free.closed.get_or_insert_with(|| reason.clone());
            wakers.append(&mut free.waiters);
        }
        self.for_each_waiting(|slot| {
            let applied = if has_left(slot.sent) { Applied::Maybe } else { Applied::No };
            slot.fail(CallError::Disconnected { applied, reason: reason.clone() }, wakers);
        });
    }

    /// Takes those who wait for a slot: they are to look why there is none.
    pub(crate) fn take_waiters(&self, wakers: &mut Vec<Waker>) {
        wakers.append(&mut self.free.lock().waiters);
    }

    fn for_each_waiting(&self, mut visit: impl FnMut(&mut Slot)) {
        if self.pending() == 0 {
            return;
        }
        for slot in self.chunks.iter().map_while(OnceLock::get).flat_map(|chunk| chunk.iter()) {
            let mut slot = slot.lock();
            if slot.used && !slot.complete {
                visit(&mut slot);
            }
        }
    }

    fn slot(&self, index: u32) -> Option<&Latch<Slot>> {
        let (chunk, at) = place(index as usize);
        self.chunks.get(chunk)?.get()?.get(at)
    }

    /// The slot of `key`, if that call still waits. The key may come from the peer.
    #[inline]
    fn find(&self, key: CallKey) -> Option<LatchGuard<'_, Slot>> {
        let slot = self.slot(key.index())?.lock();
        (slot.used && slot.generation == key.generation()).then_some(slot)
    }
}

/// Has all who wait for a slot try again.
#[cold]
fn wake_waiters(mut free: LatchGuard<'_, Free>) {
    let waiters = std::mem::take(&mut free.waiters);
    drop(free);
    waiters.into_iter().for_each(catching::wake);
}

/// In which chunk slot `index` is, and where in it.
#[inline]
fn place(index: usize) -> (usize, usize) {
    match index.checked_ilog2() {
        Some(log) if index >= FIRST => ((log - FIRST.ilog2() + 1) as usize, index - (1 << log)),
        _ => (0, index),
    }
}

#[cfg(test)]
mod tests;
