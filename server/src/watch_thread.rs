//! The thread that answers those who wait for events of their watches, and whose answer had to wait.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};

use crate::handler::NodeHandler;

/// The thread; ended by dropping this. Whoever waits then has to have an answer that is due: it is given first.
#[derive(Debug)]
pub(crate) struct WatchThread {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

impl WatchThread {
    /// Starts the thread, for the node behind `handler`.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(crate) fn start(handler: Arc<NodeHandler>) -> io::Result<WatchThread> {
        let stopping = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new().name("watches".to_owned()).spawn({
            let stopping = Arc::clone(&stopping);
            move || run(&handler, &stopping)
        })?;
        Ok(WatchThread { stopping, thread: Some(thread) })
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread of the shell, which waits are timed by")]
fn run(handler: &NodeHandler, stopping: &AtomicBool) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    // One whose peer has no room waits here and holds up no other; a peer's window bounds how many these are.
    let mut sending = Vec::new();
    loop {
        // Before the answers are taken: those that were due when it was set are given.
        let is_last = stopping.load(Ordering::Acquire);
        let (answers, next_due) = handler.watch_answers(&waker);
        let late = handler.late_answers(&waker);
        let pin = |send: Pin<Box<dyn Future<Output = _>>>| send;
        sending.extend(answers.into_iter().map(|answer| pin(Box::pin(answer.send()))));
        sending.extend(late.into_iter().map(|answer| pin(Box::pin(answer.send()))));
        // Whoever is gone will ask again.
        sending.retain_mut(|send| send.as_mut().poll(&mut context).is_pending());
        if is_last {
            return;
        }
        match next_due {
            Some(due) => thread::park_timeout(due.since(handler.now())),
            None => thread::park(),
        }
    }
}

impl Drop for WatchThread {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().expect("the thread of watches ends without a panic");
        }
    }
}
