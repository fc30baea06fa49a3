//! The thread that empties segments in the background.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::handler::NodeHandler;

/// How often the thread looks whether memory is short. Writers that fill what is wanted free within
/// that time pay for themselves.
const INTERVAL: Duration = Duration::from_millis(10);
/// The lowest priority: it gets what is left of the processors.
const NICE: i32 = 19;

/// The thread; ended by dropping this.
#[derive(Debug)]
pub(crate) struct CleanerThread {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CleanerThread {
    /// Starts the thread, for the node behind `handler`.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(crate) fn start(handler: Arc<NodeHandler>) -> io::Result<CleanerThread> {
        let stopping = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new().name("cleaner".to_owned()).spawn({
            let stopping = Arc::clone(&stopping);
            move || run(&handler, &stopping)
        })?;
        Ok(CleanerThread { stopping, thread: Some(thread) })
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread of the shell, which nothing else wakes")]
fn run(handler: &NodeHandler, stopping: &AtomicBool) {
    // Linux counts priorities by thread; this is the calling one. Without it the thread competes with those that
    // serve, which is no reason not to clean.
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::warn!(%error, "the cleaner runs at the priority of those that serve");
    }
    while !stopping.load(Ordering::Relaxed) {
        if !handler.clean() {
            thread::park_timeout(INTERVAL);
        }
    }
}

impl Drop for CleanerThread {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().expect("the cleaner ends without a panic");
        }
    }
}
