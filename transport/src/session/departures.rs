//! Large bodies on their way out: announced, granted by the receiver, and sent in chunks.
//!
//! A body that is too long for one frame waits here, in blocks that it is gathered from. The sender
//! takes its announcement, and then a chunk of one transfer a batch, in turn and as far as each is
//! granted, behind whatever small frames there are: these wait for one chunk at most. Every transfer
//! that was announced ends with its last chunk or with a cancel, so both sides know how many there are.
//! A body that is streamed begins with a head that is sent whole; from then on it takes its turn among them,
//! as its writer goes on with it ([`outflow`](super::outflow)).
//! Where the link lets the receiver read this side's memory, a body is offered as it is announced. It
//! stays where it is, even if it is given up, until the receiver says that it reads nothing more.

mod bodies;
mod control;
mod departure;
mod places;
mod queue;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use crate::catching;
use crate::error::CloseReason;
use crate::frame::{Class, Kind};
use crate::handshake::{BODIES, LARGE, UNANSWERED};
use crate::limits::{BATCH_BYTES, LARGE_MAX, LARGE_QUEUED_MAX, MESSAGE_MAX, REPLY_QUEUED_COST};
use crate::link::Transfer;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::call::CallKey;
#[cfg(test)]
use super::ledger::{SentBody, Waiting};
use super::outbound::Queued;
use super::sends::Leaving;

use bodies::Ended;
use queue::{Granted, Queue};

pub(crate) use control::{ANNOUNCEMENT_COST, Control};
pub(crate) use departure::{Departure, queued_cost};

/// All large bodies that wait for one connection.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    /// Both sides can do this.
    agreed: AtomicBool,
    /// Both sides can stream bodies too.
    streams: AtomicBool,
    /// The peer wants to know of calls that get no reply.
    tells_unanswered: AtomicBool,
    /// There may be something to gather.
    ready: AtomicBool,
    /// Transfers that have not been gathered to their end, a class.
    unfinished: [AtomicUsize; 3],
    /// Streamed bodies that have begun and not ended.
    bodies: AtomicUsize,
    /// Bytes of the unfinished, and of what is about to be pushed, a class; reply bodies count until they have ended.
    queued_bytes: [AtomicUsize; 3],
    /// Chunks and grants so far: whether anything goes on.
    progress: AtomicU64,
    queue: Mutex<Queue>,
}

impl Departures {
    /// Both sides announce large bodies and take them, if the peer's `features` say so, and stream bodies.
    pub(crate) fn agree(&self, features: u64) {
        let large = features & LARGE != 0;
        self.agreed.store(large, Ordering::Release);
        self.streams.store(large && features & BODIES != 0, Ordering::Release);
        self.tells_unanswered.store(features & UNANSWERED != 0, Ordering::Release);
    }

    /// Whether the peer wants to know of calls that get no reply.
    pub(crate) fn tells_unanswered(&self) -> bool {
        self.tells_unanswered.load(Ordering::Acquire)
    }

    /// Whether both sides stream bodies.
    pub(crate) fn streams(&self) -> bool {
        self.streams.load(Ordering::Acquire)
    }

    /// Whether both sides announce large bodies and take them.
    pub(crate) fn is_agreed(&self) -> bool {
        self.agreed.load(Ordering::Acquire)
    }

    /// The longest body that can be sent to the peer.
    pub(crate) fn body_max(&self) -> usize {
        if self.is_agreed() { LARGE_MAX } else { MESSAGE_MAX }
    }

    /// Whether there may be something to gather.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Whether no transfer waits or is under way.
    pub(crate) fn is_idle(&self) -> bool {
        // A body is counted as begun before it is no longer counted as unfinished.
        let unfinished = &self.unfinished;
        unfinished.iter().all(|unfinished| unfinished.load(Ordering::SeqCst) == 0)
            && !self.has_bodies()
    }

    /// Whether a streamed body has begun and not ended.
    pub(crate) fn has_bodies(&self) -> bool {
        self.bodies.load(Ordering::SeqCst) > 0
    }

    /// Whether there is an unfinished transfer in `class`.
    #[inline]
    pub(crate) fn has_any(&self, class: Class) -> bool {
        self.unfinished[class as usize].load(Ordering::Relaxed) > 0
    }

    /// Whether so much waits that no reply should be added.
    #[inline]
    fn is_full_of_replies(&self) -> bool {
        self.queued_bytes[Class::Reply as usize].load(Ordering::Relaxed) >= LARGE_QUEUED_MAX
    }

    /// As [`is_full_of_replies`](Self::is_full_of_replies); if it is, the waker that `again` makes is woken when something has gone.
    #[inline]
    pub(crate) fn is_full_or_wakes(&self, again: impl FnOnce() -> Waker) -> bool {
        if !self.is_full_of_replies() {
            return false;
        }
        let mut queue = self.queue.lock();
        // What has gone meanwhile has woken nobody.
        let is_full = self.is_full_of_replies();
        if is_full {
            queue.refused.get_or_insert_with(again);
        }
        is_full
    }

    /// Makes room for `bytes` in `class`, or has `waker` woken when it is to be tried again. What is not pushed
    /// then is to be [released](Self::release).
    pub(crate) fn reserve_or_wait(&self, class: Class, bytes: usize, waker: &Waker) -> bool {
        let mut queue = self.queue.lock();
        let queued = &self.queued_bytes[class as usize];
        let queued_bytes = queued.load(Ordering::Relaxed);
        if queued_bytes > 0 && queued_bytes + bytes > LARGE_QUEUED_MAX {
            if !queue.waiters.iter().any(|waiter| waiter.will_wake(waker)) {
                queue.waiters.push(waker.clone());
            }
            return false;
        }
        queued.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// As [`reserve_or_wait`](Self::reserve_or_wait), whether there is room or not: for replies, of which no more are
    /// begun when there [is none](Self::is_full_of_replies).
    pub(crate) fn reserve(&self, class: Class, bytes: usize) {
        self.queued_bytes[class as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    /// The streamed bodies that have begun and not ended, and what else is counted.
    #[cfg(test)]
    pub(crate) fn ledger(&self) -> (Vec<SentBody>, Waiting) {
        let sent = self.queue.lock().ledger();
        let waiting = Waiting {
            unfinished: self.unfinished.each_ref().map(|count| count.load(Ordering::SeqCst)),
            bodies: self.bodies.load(Ordering::SeqCst),
            queued_bytes: self.queued_bytes.each_ref().map(|bytes| bytes.load(Ordering::SeqCst)),
        };
        (sent, waiting)
    }

    /// Gives back room that was made for `bytes` in `class`.
    pub(crate) fn release(&self, class: Class, bytes: usize) {
        let mut queue = self.queue.lock();
        self.queued_bytes[class as usize].fetch_sub(bytes, Ordering::Relaxed);
        let waiters = queue.take_waiters();
        drop(queue);
        waiters.into_iter().for_each(catching::wake);
    }

    /// Adds what room was made for. Returns its ticket.
    pub(crate) fn push(&self, departure: Departure) -> u64 {
        let mut queue = self.queue.lock();
        self.unfinished[departure.class as usize].fetch_add(1, Ordering::Relaxed);
        let (ticket, refused) = queue.push(departure);
        self.ready.store(true, Ordering::SeqCst);
        drop(queue);
        drop(refused);
        ticket
    }

    /// Whether parts of the reply to call `id` are still here, so that others have to wait behind them.
    #[cold]
    pub(crate) fn has_reply_to(&self, id: u64) -> bool {
        self.queue.lock().all().any(|departure| departure.is_reply() && departure.id == id)
    }

    /// Whether the peer may have all of what has this ticket: its last chunk was gathered, or it was
    /// offered to be read.
    pub(crate) fn has_left(&self, ticket: u64) -> bool {
        !self.queue.lock().kept().any(|departure| departure.ticket() == ticket)
    }

    /// The request of call `id` is given up: what was not sent of it never is. Returns what it
    /// still held of which window, and whether there was one.
    #[cold]
    pub(crate) fn cancel_request(&self, id: u64) -> Option<(Class, usize)> {
        let mut queue = self.queue.lock();
        let (departure, window) = queue.cancel_request(id)?;
        self.ready.store(true, Ordering::SeqCst);
        // If it was offered, it ends when the peer says so.
        let waiters = departure.map(|departure| self.ended(&mut queue, &departure));
        let waiters = waiters.unwrap_or_default();
        drop(queue);
        waiters.into_iter().for_each(catching::wake);
        Some(window)
    }

    /// The peer has granted transfer `number` up to `position`. Returns whether it is under way.
    ///
    /// # Errors
    /// When that cannot be.
    pub(crate) fn granted(&self, number: u64, position: u64) -> Result<bool, CloseReason> {
        let mut queue = self.queue.lock();
        let granted = queue.grant(number, position)?;
        if granted == Granted::Transfer {
            self.progress.fetch_add(1, Ordering::Relaxed);
        }
        if granted != Granted::Nothing {
            self.ready.store(true, Ordering::SeqCst);
        }
        Ok(granted != Granted::Nothing)
    }

    /// The peer takes nothing more of transfer or body `number`, the latter for a reason. Returns the call whose
    /// request the transfer was.
    ///
    /// # Errors
    /// When that cannot be.
    pub(crate) fn refused(
        &self,
        number: u64,
        reason: &[u8],
        wakers: &mut Vec<Waker>,
    ) -> Result<Option<CallKey>, CloseReason> {
        let mut queue = self.queue.lock();
        if let Some(ended) = queue.refuse_body(number, reason)? {
            self.ready.store(true, Ordering::SeqCst);
            self.body_ended(&mut queue, ended, wakers);
            return Ok(None);
        }
        let Some(departure) = queue.refuse(number, reason)? else { return Ok(None) };
        self.ready.store(true, Ordering::SeqCst);
        wakers.append(&mut self.ended(&mut queue, &departure));
        Ok((departure.kind == Kind::Request).then_some(CallKey(departure.id)))
    }

    /// The peer has read transfer `number` up to `position` by itself. Returns whether that ends it.
    ///
    /// # Errors
    /// When that cannot be.
    pub(crate) fn taken(
        &self,
        number: u64,
        position: u64,
        wakers: &mut Vec<Waker>,
    ) -> Result<bool, CloseReason> {
        let mut queue = self.queue.lock();
        self.progress.fetch_add(1, Ordering::Relaxed);
        let Some(departure) = queue.take(number, position)? else { return Ok(false) };
        self.ready.store(true, Ordering::SeqCst);
        wakers.append(&mut self.ended(&mut queue, &departure));
        Ok(true)
    }

    /// Has something told to the peer about its transfers. Grants of one transfer become one.
    pub(crate) fn tell(&self, control: Control) {
        self.queue.lock().tell(control);
        self.ready.store(true, Ordering::SeqCst);
    }

    /// The peer's transfer `number` has ended: nothing more is to be told about it.
    pub(crate) fn forget(&self, number: u64) {
        self.queue.lock().forget(number);
    }

    /// Puts what can be sent now at the end of `batch`: what there is to tell, a chunk, and what can be
    /// announced. Returns what of it is charged to windows, and how many tails left with it.
    pub(super) fn gather(&self, batch: &mut VecDeque<Queued>, link: &dyn Transfer) -> Gathered {
        let mut gathered = Gathered::default();
        let mut waiters = Vec::new();
        let mut queue = self.queue.lock();
        queue.take_controls(batch);
        if let Some(at) = queue.next_chunk() {
            let taken = queue.take_chunk(at, batch);
            self.progress.fetch_add(u64::from(taken.is_transfer), Ordering::Relaxed);
            if let Some((departure, was_offered)) = taken.transfer {
                gathered.tails += u64::from(departure.has_tail() && !was_offered);
                waiters = self.ended(&mut queue, &departure);
                gathered.left.extend(departure.into_leaving());
            }
            waiters.extend(taken.waker);
            if let Some(ended) = taken.body {
                self.body_ended(&mut queue, ended, &mut waiters);
            }
        }
        while gathered.charged_bytes < BATCH_BYTES
            && let Some(at) = queue.next_waiting()
        {
            let taken = queue.take_waiting(at, batch, link);
            gathered.charged_bytes += taken.charged_bytes;
            gathered.tails += taken.tails;
            waiters.extend(taken.waker);
            if let Some(opened) = taken.opened {
                self.bodies.fetch_add(1, Ordering::SeqCst);
                self.unfinished[opened.class as usize].fetch_sub(1, Ordering::SeqCst);
            }
            if let Some(departure) = taken.whole {
                waiters.append(&mut self.ended(&mut queue, &departure));
                gathered.left.extend(departure.into_leaving());
            }
        }
        let more =
            queue.next_chunk().is_some() || queue.next_waiting().is_some() || queue.any_held_up();
        self.ready.store(more, Ordering::Relaxed);
        drop(queue);
        waiters.into_iter().for_each(catching::wake);
        gathered
    }

    /// There is something to send of a body that has begun, or something to tell about it.
    pub(crate) fn note_written(&self) {
        // What is being gathered has been looked for before or after this.
        let queue = self.queue.lock();
        self.ready.store(true, Ordering::SeqCst);
        drop(queue);
    }

    /// If there are transfers and all that is here waits for the peer, how much has been done of them so far.
    /// Who streams a body sees to it how long that waits.
    pub(crate) fn waits_since(&self) -> Option<u64> {
        if !Class::ALL.into_iter().any(|class| self.has_any(class)) || self.is_ready() {
            return None;
        }
        Some(self.progress.load(Ordering::Relaxed))
    }

    /// Everybody who waits for room, for when nothing begins any more.
    pub(crate) fn take_waiters(&self, wakers: &mut Vec<Waker>) {
        wakers.append(&mut self.queue.lock().take_waiters());
    }

    /// Everybody who writes a body and waits, for when nothing is sent any more.
    pub(crate) fn take_writers(&self, wakers: &mut Vec<Waker>) {
        self.queue.lock().take_writers(wakers);
    }

    /// Lets go of bodies that nobody will send. What they were is kept: they have not left. Returns the
    /// posted buffers among them, to be dropped without a lock.
    #[must_use]
    pub(crate) fn discard(&self) -> Vec<Arc<Leaving>> {
        let left = self.queue.lock().close();
        self.ready.store(false, Ordering::Relaxed);
        left
    }

    /// A departure is no longer here. Returns those who wait for room.
    fn ended(&self, queue: &mut Queue, departure: &Departure) -> Vec<Waker> {
        let class = departure.class as usize;
        self.unfinished[class].fetch_sub(1, Ordering::Relaxed);
        self.queued_bytes[class].fetch_sub(departure.queued_bytes(), Ordering::Relaxed);
        queue.take_waiters()
    }

    /// A body is no longer here: who writes it is to be woken, and who waits for the room that it took.
    fn body_ended(&self, queue: &mut Queue, ended: Ended, wakers: &mut Vec<Waker>) {
        if ended.class == Class::Reply {
            let queued = &self.queued_bytes[Class::Reply as usize];
            queued.fetch_sub(REPLY_QUEUED_COST, Ordering::Relaxed);
            wakers.append(&mut queue.take_waiters());
        }
        self.bodies.fetch_sub(1, Ordering::SeqCst);
        wakers.extend(ended.waker);
    }
}

/// What a batch got.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) charged_bytes: usize,
    pub(super) tails: u64,
    /// Posted buffers that have been gathered to their end.
    pub(super) left: Vec<Arc<Leaving>>,
}
