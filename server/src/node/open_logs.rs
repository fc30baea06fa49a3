//! The logs of a node, from when they are open: whoever ends the node closes them in good order, however far its start has come.
//!
//! A log that was opened and not closed is one of a life that ended by chance: what a former life left of `disk` is not believed to be all then. So not
//! even a start that comes to nothing may leave it so.

use std::sync::Arc;

use parking_lot::Mutex;

use super::StartError;
use crate::logs::{LogThreads, StartLogsError};

/// The logs of a node that starts, runs or ends. Clones are of the same node.
#[derive(Debug, Clone, Default)]
pub struct OpenLogs(Arc<Mutex<State>>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Unopened,
    Open(LogThreads),
    Closed,
}

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
            State::Closed => Err(StartError::Ended),
            State::Unopened | State::Open(_) => {
                *state = State::Open(open()?);
                Ok(())
            }
        }
    }

    /// Closes them in good order, if they are open, and has them stay closed. The node takes no more from then on.
    pub fn close(&self) {
        let state = std::mem::replace(&mut *self.0.lock(), State::Closed);
        if let State::Open(logs) = state
            && let Err(error) = logs.close()
        {
            tracing::error!(%error, "the logs were not closed in good order");
        }
    }
}
