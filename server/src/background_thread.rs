//! A thread that does what can wait, below those who serve.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often it looks whether there is something to do. Writers that fill what is wanted free within
/// that time pay for themselves.
const INTERVAL: Duration = Duration::from_millis(10);

/// The lowest priority: it gets what is left of the processors.
const NICE: i32 = 19;

/// The thread; ended by dropping this.
#[derive(Debug)]
pub(crate) struct BackgroundThread {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundThread {
    /// Starts a thread that calls `work` again and again as long as that returns that it had something to do, and else
    /// after a while.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(crate) fn start(
        name: &str,
        work: impl Fn() -> bool + Send + 'static,
    ) -> io::Result<BackgroundThread> {
        let stopping = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new().name(name.to_owned()).spawn({
            let stopping = Arc::clone(&stopping);
            move || run(&work, &stopping)
        })?;
        Ok(BackgroundThread { stopping, thread: Some(thread) })
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread of the shell, which nothing else wakes")]
fn run(work: &impl Fn() -> bool, stopping: &AtomicBool) {
    // Linux counts priorities by thread; this is the calling one. Without it the thread competes with those that
    // serve, which is no reason not to work.
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        let thread = thread::current();
        tracing::warn!(thread = thread.name(), %error, "runs at the priority of those that serve");
    }
    while !stopping.load(Ordering::Relaxed) {
        if !work() {
            thread::park_timeout(INTERVAL);
        }
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().expect("a thread in the background ends without a panic");
        }
    }
}
