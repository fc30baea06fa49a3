//! What writes the log beside a coordinator, which does not wait for it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};
use std::thread;

use parking_lot::Mutex;

use crate::coordinator::raft::{LogError, RaftLog, Write};

/// Writes in the order in which it is told to. There is one on a thread of its own, and one for simulations.
pub trait LogWriter {
    /// Takes a write.
    fn submit(&mut self, write: Write);

    /// The number of a write that is done, and all before it, or why one failed: nothing is written after that. Whoever waits is woken when there is more.
    fn poll_done(&mut self, context: &mut Context<'_>) -> Poll<Result<u64, LogError>>;
}

/// Writes at once, on whatever thread asks.
#[derive(Debug)]
pub struct ImmediateWriter<L> {
    /// Whoever simulates the disk has it too: it outlives the process.
    log: Arc<Mutex<L>>,
    done: Option<Result<u64, LogError>>,
}

impl<L: RaftLog> ImmediateWriter<L> {
    /// Writes to `log`.
    pub const fn new(log: Arc<Mutex<L>>) -> Self {
        Self { log, done: None }
    }
}

impl<L: RaftLog> LogWriter for ImmediateWriter<L> {
    fn submit(&mut self, write: Write) {
        if matches!(self.done, Some(Err(_))) {
            return;
        }
        self.done = Some(self.log.lock().write(&write.batch).map(|()| write.number));
    }

    fn poll_done(&mut self, _: &mut Context<'_>) -> Poll<Result<u64, LogError>> {
        // Whoever asks has submitted, and asks again after it does so again.
        self.done.take().map_or(Poll::Pending, Poll::Ready)
    }
}

/// Writes on a thread, so that a slow disk delays no heartbeat. What was submitted is written before the thread ends, which dropping this waits for.
#[derive(Debug)]
pub struct ThreadWriter {
    /// `None` when it is being dropped.
    writes: Option<Sender<Write>>,
    done: Arc<Mutex<Done>>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Done {
    latest: Option<Result<u64, LogError>>,
    reader: Option<Waker>,
}

impl ThreadWriter {
    /// Writes to `log`.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start<L: RaftLog + Send + 'static>(log: L) -> io::Result<Self> {
        let (writes, submitted) = channel();
        let done = Arc::new(Mutex::new(Done::default()));
        let thread = thread::Builder::new().name("weft-raft-log".to_owned()).spawn({
            let done = Arc::clone(&done);
            move || write_all(log, &submitted, &done)
        })?;
        Ok(Self { writes: Some(writes), done, thread: Some(thread) })
    }
}

impl LogWriter for ThreadWriter {
    fn submit(&mut self, write: Write) {
        if let Some(writes) = &self.writes {
            // After a failure nobody takes any, and the failure was told.
            let _ = writes.send(write);
        }
    }

    fn poll_done(&mut self, context: &mut Context<'_>) -> Poll<Result<u64, LogError>> {
        let mut done = self.done.lock();
        match done.latest.take() {
            Some(latest) => Poll::Ready(latest),
            None => {
                done.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for ThreadWriter {
    fn drop(&mut self) {
        self.writes = None;
        if let Some(thread) = self.thread.take() {
            // It panics only where the process ends by it.
            let _ = thread.join();
        }
    }
}

fn write_all<L: RaftLog>(mut log: L, submitted: &Receiver<Write>, done: &Mutex<Done>) {
    while let Ok(Write { number, batch }) = submitted.recv() {
        let written = log.write(&batch).map(|()| number);
        let has_failed = written.is_err();
        let mut state = done.lock();
        // The latest stands for all before it.
        state.latest = Some(written);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        if has_failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use super::*;
    use crate::coordinator::raft::{
        Batch, ClusterId, Fault, Identity, MemoryLog, RaftId, Recovered, begin_life,
    };
    use weft_transport::NodeId;

    fn log() -> MemoryLog {
        let identity = Identity { cluster: ClusterId(1), node: NodeId(1), raft: RaftId(1) };
        let mut log = MemoryLog::new("memory");
        log.create(&Batch::joining(identity)).unwrap();
        log
    }

    fn write(number: u64) -> Write {
        let batch = Batch { life: Some(number), must_sync: true, ..Batch::default() };
        Write { number, batch }
    }

    /// Waits for a writer's next word.
    fn next(writer: &mut impl LogWriter) -> Result<u64, LogError> {
        let waker = Waker::from(Arc::new(Unparks(thread::current())));
        loop {
            match writer.poll_done(&mut Context::from_waker(&waker)) {
                Poll::Ready(done) => return done,
                Poll::Pending => thread::park(),
            }
        }
    }

    struct Unparks(thread::Thread);

    impl Wake for Unparks {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    #[test]
    fn writes_on_a_thread_are_done_in_order_and_before_it_ends() {
        let disk = Arc::new(Mutex::new(log()));
        let mut writer = ThreadWriter::start(Shared(Arc::clone(&disk))).unwrap();
        (10..15).for_each(|number| writer.submit(write(number)));
        let mut latest = 0;
        while latest < 14 {
            let number = next(&mut writer).unwrap();
            assert!(number > latest);
            latest = number;
        }
        writer.submit(write(20));
        drop(writer);
        assert_eq!(begin_life(&mut *disk.lock(), NodeId(1), None).unwrap().life, 21);
    }

    #[test]
    fn a_failed_write_is_told_and_nothing_is_written_after_it() {
        let disk = Arc::new(Mutex::new(log()));
        disk.lock().fail_next(Fault::Full);
        let mut writer = ThreadWriter::start(Shared(Arc::clone(&disk))).unwrap();
        (10..15).for_each(|number| writer.submit(write(number)));
        assert!(next(&mut writer).is_err());
        drop(writer);
        disk.lock().end_process();
        assert_eq!(begin_life(&mut *disk.lock(), NodeId(1), None).unwrap().life, 1);
        disk.lock().fail_next(Fault::Full);
        let mut writer = ImmediateWriter::new(Arc::clone(&disk));
        (10..15).for_each(|number| writer.submit(write(number)));
        assert!(next(&mut writer).is_err());
    }

    /// A disk that the test has too.
    struct Shared(Arc<Mutex<MemoryLog>>);

    impl RaftLog for Shared {
        fn recover(&mut self) -> Result<Recovered, LogError> {
            self.0.lock().recover()
        }

        fn write(&mut self, batch: &Batch) -> Result<(), LogError> {
            self.0.lock().write(batch)
        }
    }
}
