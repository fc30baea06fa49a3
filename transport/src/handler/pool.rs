//! Threads that handle one-way messages beside the reactor, so that what takes long or blocks holds up no
//! connection, and more than one core can work on what one connection brings.
//!
//! DXNet hands messages to a pool likewise, without an order among them. Here the handler says what has to
//! stay in order: messages of one key go to one thread. They are handed over by the receive, not one by
//! one: a message costs an index, and its bytes stay where they were received.

use std::fmt;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{self, JoinHandle, Thread};

use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::{Batch, RetainedMessages};
use crate::connection::Peer;
use crate::error::{CloseReason, EndpointError};

/// With more receives than this before a thread of the pool, the reactor gives way to it.
const AHEAD_MAX: usize = 2;

/// Handles one-way messages on the threads of a [`HandlerPool`].
pub trait MessageHandler: Send + Sync + 'static {
    /// What the message belongs to. Messages of equal keys from one connection are handled one after the
    /// other, in the order in which they came; those of unequal keys may be handled at the same time.
    /// Called on the reactor's thread, so it has to be cheap.
    fn key(&self, body: &[u8]) -> u64;

    /// Handles messages that arrived together; those that are not taken are dropped. It may block.
    fn handle(&self, messages: &mut PooledMessages<'_>);
}

/// PooledMessages that arrived together on one connection and go to one thread of the pool.
#[derive(Debug)]
pub struct PooledMessages<'a> {
    retained: &'a RetainedMessages,
    indices: slice::Iter<'a, u32>,
    thread: usize,
}

impl PooledMessages<'_> {
    /// Who sent them.
    pub fn peer(&self) -> &Peer {
        self.retained.peer()
    }

    /// Which of the pool's threads this is, counted from 0.
    pub fn thread(&self) -> usize {
        self.thread
    }
}

impl<'a> Iterator for PooledMessages<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.indices.next().map(|index| self.retained.body(*index as usize))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.indices.size_hint()
    }
}

/// Threads that handle messages. What waits for them is bounded by the windows of the connections that it
/// came on, and counted as retained. Dropping the pool handles what waits, then ends the threads.
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
    /// Which of them.
    indices: Vec<u32>,
}

impl HandlerPool {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// [`EndpointError::Config`] without a thread, or [`EndpointError::Start`] if the system refuses one.
    pub fn start(threads: usize, handler: Arc<dyn MessageHandler>) -> Result<Self, EndpointError> {
        if threads == 0 {
            return Err(EndpointError::Config("a pool needs at least one thread"));
        }
        let queues: Arc<[CachePadded<Queue>]> = (0..threads).map(|_| Default::default()).collect();
        let mut pool =
            Self { handler, queues, wake: Vec::with_capacity(threads), threads: Mutex::default() };
        for number in 0..threads {
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
        let retained = match batch.retain_messages() {
            Ok(Some(retained)) => retained,
            Ok(None) => return,
            Err(_) => {
                batch.failed = Some(CloseReason::Memory);
                return;
            }
        };
        let threads = self.queues.len();
        let each = retained.len() / threads + 8;
        let mut indices: Vec<Vec<u32>> = (0..threads).map(|_| Vec::with_capacity(each)).collect();
        for index in 0..retained.len() {
            let key = self.handler.key(retained.body(index));
            let index = u32::try_from(index).expect("a receive has fewer bytes than that");
            indices[(key % threads as u64) as usize].push(index);
        }
        let retained = Arc::new(retained);
        let mut behind = false;
        for (thread, indices) in indices.into_iter().enumerate() {
            if !indices.is_empty() {
                let queue = &self.queues[thread];
                queue.tasks.push(Task { retained: Arc::clone(&retained), indices });
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
            while let Some(Task { retained, indices }) = self.tasks.pop() {
                let indices = indices.iter();
                handler.handle(&mut PooledMessages { retained: &retained, indices, thread });
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
        for thread in self.threads.get_mut().drain(..) {
            // The last reference may be dropped by one of these threads.
            if thread.thread().id() != thread::current().id() {
                thread.join().expect("a handler ends without a panic");
            }
        }
    }
}

impl fmt::Debug for HandlerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerPool").field("threads", &self.queues.len()).finish_non_exhaustive()
    }
}
