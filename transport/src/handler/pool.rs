//! Threads that handle messages and calls beside the reactor, so that what takes long or blocks holds up no
//! connection, and more than one core can work on what one connection brings.
//!
//! DXNet hands messages to a pool likewise, without an order among them. Here the handler says what has to
//! stay in order: messages of one key and class go to one thread. They are handed over by the receive, not one by
//! one: a message costs an index, and its bytes stay where they were received.

use std::fmt;
use std::iter::Peekable;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{self, JoinHandle, Thread};
use std::vec;

use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::{Batch, Responder, RetainedMessages};
use crate::connection::Peer;
use crate::error::{CloseReason, EndpointError};
use crate::handling;
use crate::memory::MemoryError;

/// With more receives than this before a thread of the pool, the reactor gives way to it.
const AHEAD_MAX: usize = 2;

/// Handles messages, and calls if it is given some, on the threads of a [`HandlerPool`].
pub trait MessageHandler: Send + Sync + 'static {
    /// What the message belongs to. Messages of equal keys and class from one connection are handled one after the
    /// other, in the order in which they came; those of unequal keys may be handled at the same time.
    /// Called on the reactor's thread, so it has to be cheap.
    fn key(&self, body: &[u8]) -> u64;

    /// Handles messages that arrived together; those that are not taken are dropped, calls unanswered. It may block.
    /// If it panics, the connection that they came by ends.
    fn handle(&self, messages: &mut PooledMessages<'_>);
}

/// Messages and calls that arrived together on one connection and go to one thread of the pool.
#[derive(Debug)]
pub struct PooledMessages<'a> {
    retained: &'a RetainedMessages,
    indices: slice::Iter<'a, u32>,
    /// Which has been taken last, if any.
    last: Option<u32>,
    /// Of those that are calls and have not been asked about.
    responders: Peekable<vec::IntoIter<(u32, Responder)>>,
    thread: usize,
}

impl PooledMessages<'_> {
    /// Who sent them.
    pub fn peer(&self) -> &Peer {
        self.retained.peer()
    }

    /// What replies to what [`next`](Iterator::next) has given last, if that is a call; the first time. Whoever does
    /// not ask leaves the call unanswered.
    pub fn responder(&mut self) -> Option<Responder> {
        let last = self.last?;
        while let Some((_, passed)) = self.responders.next_if(|(index, _)| *index < last) {
            drop(passed);
        }
        self.responders.next_if(|(index, _)| *index == last).map(|(_, responder)| responder)
    }

    /// Which of the pool's threads this is, counted from 0; those for replication come after all others.
    pub fn thread(&self) -> usize {
        self.thread
    }
}

impl<'a> Iterator for PooledMessages<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let index = *self.indices.next()?;
        self.last = Some(index);
        Some(self.retained.body(index as usize))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.indices.size_hint()
    }
}

/// Threads that handle messages: some for those of clients, and as many for those that were sent
/// [for replication](crate::Connection::for_replication), so that these are handled though all others wait for a backup of
/// theirs. What waits for them is bounded by the windows of the connections that it
/// came on, and counted as retained. Dropping the pool handles what waits, then ends the threads, and waits for that; in a handler, whose
/// ever, and on a thread of the pool it does not wait.
///
/// A handler that panics ends the connection that its messages came by, and none of what else has come by it is handled any more, but for what other threads
/// of the pool are at. The thread goes on with what other connections bring.
pub struct HandlerPool {
    handler: Arc<dyn MessageHandler>,
    queues: Arc<[CachePadded<Queue>]>,
    wake: Vec<Thread>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What waits for one thread.
#[derive(Debug, Default)]
struct Queue {
    tasks: SegQueue<Task>,
    sleeps: AtomicBool,
    stopping: AtomicBool,
}

#[derive(Debug)]
struct Task {
    retained: Arc<RetainedMessages>,
    part: Part,
}

/// What of a receive one thread handles.
#[derive(Debug, Default)]
struct Part {
    indices: Vec<u32>,
    /// Of those that are calls.
    responders: Vec<(u32, Responder)>,
}

impl HandlerPool {
    /// Starts `threads` threads, and as many for replication.
    ///
    /// # Errors
    /// [`EndpointError::Config`] without a thread, or [`EndpointError::Start`] if the system refuses one.
    pub fn start(threads: usize, handler: Arc<dyn MessageHandler>) -> Result<Self, EndpointError> {
        if threads == 0 {
            return Err(EndpointError::Config("a pool needs at least one thread"));
        }
        let queues: Arc<[CachePadded<Queue>]> =
            (0..2 * threads).map(|_| Default::default()).collect();
        let mut pool = Self {
            handler,
            queues,
            wake: Vec::with_capacity(2 * threads),
            threads: Mutex::default(),
        };
        for number in 0..2 * threads {
            let (queues, handler) = (Arc::clone(&pool.queues), Arc::clone(&pool.handler));
            let thread = thread::Builder::new()
                .name(format!("handler-{number}"))
                .spawn(move || queues[number].run(number, &*handler))
                .map_err(|source| EndpointError::Start { what: "a thread", source })?;
            pool.wake.push(thread.thread().clone());
            pool.threads.get_mut().push(thread);
        }
        Ok(pool)
    }

    /// Hands the messages that come before the next request to the pool. Without memory to keep them in,
    /// the connection ends.
    pub fn take_messages(&self, batch: &mut Batch<'_>) {
        let retained = batch.retain_messages();
        self.hand_on(retained, batch);
    }

    /// Hands all that is left to the pool, calls too, which are answered by their
    /// [responders](PooledMessages::responder). What is streamed [behind](super::Incoming::take_body) one is given up.
    /// Without memory to keep them in, the connection ends.
    pub fn take_all(&self, batch: &mut Batch<'_>) {
        let retained = batch.retain_all();
        self.hand_on(retained, batch);
    }

    fn hand_on(
        &self,
        retained: Result<Option<RetainedMessages>, MemoryError>,
        batch: &mut Batch<'_>,
    ) {
        let mut retained = match retained {
            Ok(Some(retained)) => retained,
            Ok(None) => return,
            Err(_) => {
                batch.failed = Some(CloseReason::Memory);
                return;
            }
        };
        let threads = self.queues.len() / 2;
        let each = retained.len() / threads + 8;
        let with_room = || Part { indices: Vec::with_capacity(each), responders: Vec::new() };
        let mut parts: Vec<Part> = (0..threads).map(|_| with_room()).collect();
        parts.resize_with(2 * threads, Part::default);
        let mut responders = retained.take_responders().into_iter().peekable();
        let mut replication = retained.replication().iter().peekable();
        for index in 0..retained.len() {
            let key = self.handler.key(retained.body(index));
            let index = u32::try_from(index).expect("a receive has fewer bytes than that");
            let is_replication = replication.next_if_eq(&&index).is_some();
            let first = if is_replication { threads } else { 0 };
            let part = &mut parts[first + (key % threads as u64) as usize];
            part.indices.push(index);
            part.responders.extend(responders.next_if(|(call, _)| *call == index));
        }
        let retained = Arc::new(retained);
        let mut behind = false;
        for (thread, part) in parts.into_iter().enumerate() {
            if !part.indices.is_empty() {
                let queue = &self.queues[thread];
                queue.tasks.push(Task { retained: Arc::clone(&retained), part });
                queue.wake(&self.wake[thread]);
                behind |= queue.tasks.len() > AHEAD_MAX;
            }
        }
        if behind {
            // A thread that is awake and gets nothing done waits for a core, maybe this one, which the
            // scheduler would leave to the reactor for milliseconds.
            thread::yield_now();
        }
    }
}

impl Queue {
    fn run(&self, thread: usize, handler: &dyn MessageHandler) {
        loop {
            while let Some(Task { retained, part }) = self.tasks.pop() {
                if retained.is_forsaken() {
                    continue;
                }
                let mut messages = PooledMessages {
                    retained: &retained,
                    indices: part.indices.iter(),
                    last: None,
                    responders: part.responders.into_iter().peekable(),
                    thread,
                };
                if let Err(panic) = handling::run(|| handler.handle(&mut messages)) {
                    // Before the calls that it has not asked about are told that nobody answers, as if it had wanted so.
                    retained.forsake();
                    panic.discard();
                }
            }
            if self.stopping.load(Ordering::SeqCst) && self.tasks.is_empty() {
                return;
            }
            self.sleeps.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            // Whoever leaves a task after this sees that the thread sleeps.
            if self.tasks.is_empty() && !self.stopping.load(Ordering::SeqCst) {
                thread::park();
            }
            self.sleeps.store(false, Ordering::SeqCst);
        }
    }

    /// Ends the sleep of the queue's thread, if it sleeps.
    fn wake(&self, thread: &Thread) {
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) && self.sleeps.swap(false, Ordering::SeqCst) {
            thread.unpark();
        }
    }
}

impl Drop for HandlerPool {
    fn drop(&mut self) {
        for (queue, thread) in self.queues.iter().zip(&self.wake) {
            queue.stopping.store(true, Ordering::SeqCst);
            thread.unpark();
        }
        // The last reference may be dropped by one of these threads, or in a handler, which one of them may wait for.
        let is_own = self.wake.iter().any(|thread| thread.id() == thread::current().id());
        if is_own || handling::is_within() {
            return;
        }
        for thread in self.threads.get_mut().drain(..) {
            // Handlers that panic do not end it.
            if thread.join().is_err() {
                tracing::error!("a thread of a pool of handlers has panicked");
            }
        }
    }
}

impl fmt::Debug for HandlerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerPool").field("threads", &self.queues.len()).finish_non_exhaustive()
    }
}
