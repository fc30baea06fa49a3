//! A send that is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use weft_transport::{CallError, Connection, Replies, Reply, Time};

use super::error::SendGraphError;
use super::message::{Answer, HEADER_BYTES, Status};

/// How long after an answer for which there was no room it is asked for again.
const AGAIN_AFTER: Duration = Duration::from_millis(1);

/// A send that is under way. Dropping it changes nothing: the graph goes on.
#[derive(Debug)]
#[must_use = "whether the graph has arrived is known by waiting"]
pub struct Sent {
    replies: Replies,
    /// What asks once more, should the receiver have had no room for the answer.
    again: (Connection, [u8; HEADER_BYTES], Time),
    is_unanswered: bool,
    granted: Arc<AtomicU64>,
    result: Option<Result<(), SendGraphError>>,
}

impl Sent {
    pub(super) fn new(
        replies: Replies,
        again: (Connection, [u8; HEADER_BYTES], Time),
        granted: &Arc<AtomicU64>,
    ) -> Sent {
        let granted = Arc::clone(granted);
        Sent { replies, again, is_unanswered: false, granted, result: None }
    }

    /// Waits until the receiver has all of the graph, and has found it in order.
    ///
    /// # Errors
    /// See [`SendGraphError`].
    pub async fn wait(mut self) -> Result<(), SendGraphError> {
        if let Some(result) = self.result {
            return result;
        }
        loop {
            if self.is_unanswered {
                pause(&self.again.0).await;
                self.ask_again().await?;
            }
            match self.replies.next().await {
                Some(Err(CallError::Unanswered)) => self.is_unanswered = true,
                reply => return self.take(reply),
            }
        }
    }

    /// Whether it has, or why it never will; nothing as long as that is not known. Only when a thread drives the endpoint meanwhile, as
    /// [`block_on`](weft_transport::Endpoint::block_on) does, is it ever known.
    pub fn test(&mut self) -> Option<Result<(), SendGraphError>> {
        if self.result.is_none() {
            self.result = self.find_out();
        }
        self.result.clone()
    }

    fn find_out(&mut self) -> Option<Result<(), SendGraphError>> {
        if self.is_unanswered
            && let Err(error) = self.ask_again().now_or_never()?
        {
            return Some(Err(error));
        }
        match self.replies.next().now_or_never()? {
            Some(Err(CallError::Unanswered)) => {
                self.is_unanswered = true;
                None
            }
            reply => Some(self.take(reply)),
        }
    }

    /// Asks whether all of the graph is there: its receiver had no room for the answer.
    async fn ask_again(&mut self) -> Result<(), SendGraphError> {
        let (connection, held, deadline) = &self.again;
        self.replies = connection.call_streamed(held, *deadline).await?;
        self.is_unanswered = false;
        Ok(())
    }

    fn take(&self, reply: Option<Result<Reply, CallError>>) -> Result<(), SendGraphError> {
        let reply = reply.ok_or(SendGraphError::NoListener)??;
        self.granted.fetch_max(done(&reply)?, Ordering::Relaxed);
        Ok(())
    }
}

/// Waits before asking again who had no room for an answer.
pub(super) async fn pause(connection: &Connection) {
    connection.sleep_until(connection.clock().now() + AGAIN_AFTER).await;
}

/// What a call that has done what it was to do says is granted.
pub(super) fn done(reply: &[u8]) -> Result<u64, SendGraphError> {
    let Answer { status, granted, words } =
        Answer::decode(reply).ok_or(SendGraphError::NoListener)?;
    match status {
        Status::Done => Ok(granted),
        Status::TypesDiffer => Err(SendGraphError::TypesDiffer(words)),
        Status::Refused => Err(SendGraphError::Refused(words)),
        Status::Closed => Err(SendGraphError::Closed),
        Status::TooMany => Err(SendGraphError::TooMany),
    }
}
