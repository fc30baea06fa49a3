//! The logs of a node, from when they are open: whoever ends the node closes them in good order, however far its start has come.
//!
//! A log that was opened and not closed is one of a life that ended by chance: what a former life left of `disk` is not believed to be all then. So not
//! even a start that comes to nothing may leave it so.

use std::sync::Arc;

use parking_lot::Mutex;

use super::StartError;
use crate::durable::CloseError;
use crate::logs::{LogThreads, StartLogsError};

/// The logs of a node that starts, runs or ends. Clones are of the same node.
#[derive(Debug, Clone, Default)]
pub struct OpenLogs(Arc<Mutex<State>>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Unopened,
    Open(LogThreads),
    Closed(Result<(), NotClosed>),
}

/// The logs do not end as they should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the logs were not closed in good order, so that what this node has of `disk` tables is lost at its next start: {0}"
)]
pub struct NotClosed(#[from] CloseError);

impl OpenLogs {
    /// Opens them. Who closes them meanwhile waits for that.
    ///
    /// # Errors
    /// What `open` says, or [`StartError::Ended`] if they were closed before.
    pub(super) fn open(
        &self,
        open: impl FnOnce() -> Result<LogThreads, StartLogsError>,
    ) -> Result<(), StartError> {
        let mut state = self.0.lock();
        match *state {
            State::Closed(_) => Err(StartError::Ended),
            State::Unopened | State::Open(_) => {
                *state = State::Open(open()?);
                Ok(())
            }
        }
    }

    /// Closes them in good order, if they are open, and has them stay closed. The node takes no more from then on.
    ///
    /// # Errors
    /// [`NotClosed`], each time.
    pub fn close(&self) -> Result<(), NotClosed> {
        // Who opens them, or closes them too, waits.
        let mut state = self.0.lock();
        let closed = match std::mem::take(&mut *state) {
            State::Unopened => Ok(()),
            State::Open(logs) => logs.close().map_err(NotClosed),
            State::Closed(closed) => closed,
        };
        *state = State::Closed(closed.clone());
        closed
    }
}
