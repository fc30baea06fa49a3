//! The logs of a node in a directory of the system, and their threads.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{Logs, LogsOptions, RecoverError};
use crate::durable::{
    CloseError, CommitThread, Directory, DirectoryError, Journal, Mode, Poisoned,
};
use crate::handler::NodeHandler;

/// How long a node that stops in good order waits until its logs have taken what has happened, and have written it.
const FLUSH_PATIENCE: Duration = Duration::from_secs(10);
const FLUSH_PAUSE: Duration = Duration::from_millis(5);

/// Why the logs in a directory are not opened. Nothing was changed, but that directories are there.
#[derive(Debug, thiserror::Error)]
pub enum OpenLogsError {
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// What is in it cannot.
    #[error("the logs in {} cannot be used; nothing was changed", folder.display())]
    Recover {
        /// Where they are.
        folder: PathBuf,
        /// Why.
        source: RecoverError,
    },
}

/// Why the logs do not take anything.
#[derive(Debug, thiserror::Error)]
pub enum StartLogsError {
    /// The system refuses a thread.
    #[error("cannot start a thread for the log: {0}")]
    Thread(#[from] io::Error),
    /// The disk is full, or fails.
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
}

/// The directories of a node's logs, `disk` and `fsync`, which nobody else uses meanwhile.
#[derive(Debug)]
pub struct LogDirectories {
    directories: [(Arc<Journal>, Directory); 2],
}

/// The threads of a node's logs. Dropped, they stop as in a crash; [`close`](Self::close) ends the logs in good order.
#[derive(Debug)]
pub struct LogThreads {
    threads: [CommitThread; 2],
    handler: Arc<NodeHandler>,
}

impl LogDirectories {
    /// Opens the logs in `path`, which is made if it is not there: what there is, for [`NodeOptions`](crate::handler::NodeOptions), and where they go on, to be
    /// [started](Self::start) when there is a node.
    ///
    /// # Errors
    /// [`OpenLogsError`].
    pub fn open(
        path: &Path,
        options: &LogsOptions,
    ) -> Result<(Logs, LogDirectories), OpenLogsError> {
        let mut of_disk = Directory::open(&path.join(Mode::Disk.name()))?;
        let mut of_fsync = Directory::open(&path.join(Mode::Fsync.name()))?;
        let logs = Logs::recover(options, &mut of_disk, &mut of_fsync)
            .map_err(|source| OpenLogsError::Recover { folder: path.to_owned(), source })?;
        let journal = |mode| Arc::clone(logs.journal(mode));
        let directories = [(journal(Mode::Disk), of_disk), (journal(Mode::Fsync), of_fsync)];
        Ok((logs, LogDirectories { directories }))
    }

    /// Has the logs written, and `handler`, which was made with them, told what became durable. Returns when the logs take something.
    ///
    /// # Errors
    /// When the system refuses a thread, or the disk is full or fails.
    pub fn start(self, handler: &Arc<NodeHandler>) -> Result<LogThreads, StartLogsError> {
        let [of_disk, of_fsync] = self.directories;
        let start = |(journal, directory): (Arc<Journal>, Directory)| {
            let (mode, handler) = (journal.mode(), Arc::clone(handler));
            CommitThread::drive(journal, directory, move |events| handler.log_told(mode, events))
        };
        let journals = [Arc::clone(&of_disk.0), Arc::clone(&of_fsync.0)];
        let threads = [start(of_disk)?, start(of_fsync)?];
        let logs = LogThreads { threads, handler: Arc::clone(handler) };
        while journals.iter().any(|journal| journal.is_opening()) {
            pause();
        }
        match journals.iter().find_map(|journal| journal.failure()) {
            None => Ok(logs),
            Some(poisoned) => {
                // The other one is as good as it was.
                let _ = logs.close();
                Err(poisoned.into())
            }
        }
    }
}

impl LogThreads {
    /// Writes all that has happened and marks the logs as complete. The node takes no more. What a log has not taken or written after ten seconds, since
    /// the disk is slow for example, is not waited for: it is not marked then.
    ///
    /// # Errors
    /// [`CloseError`] of the log of [`Mode::Disk`]. That of [`Mode::Fsync`] needs no mark: what it has not synced was acknowledged to nobody.
    pub fn close(self) -> Result<(), CloseError> {
        self.handler.take_no_more();
        let clock = self.handler.clock().clone();
        let until = clock.now() + FLUSH_PATIENCE;
        let close = |log: CommitThread, mode| {
            while !self.handler.flush_log(mode) {
                if clock.now() >= until {
                    return Err(CloseError::Late);
                }
                pause();
            }
            // What waits for room in it was acknowledged to nobody.
            let is_over = mode == Mode::Fsync && log.is_full();
            log.close(if is_over { Duration::ZERO } else { until.since(clock.now()) })
        };
        let [of_disk, of_fsync] = self.threads;
        let closed = close(of_disk, Mode::Disk);
        if let Err(error) = close(of_fsync, Mode::Fsync) {
            tracing::warn!(%error, "the log of `fsync` was not closed: it has all that was acknowledged, and may lack what was not");
        }
        closed
    }
}

#[expect(clippy::disallowed_methods, reason = "a shell that waits for its disk")]
fn pause() {
    std::thread::sleep(FLUSH_PAUSE);
}
