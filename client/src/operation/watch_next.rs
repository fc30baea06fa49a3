//! Watch-next: the events of a watch at one node, waiting for one if there is none.

use std::time::Duration;

use weft_protocol::limits::WATCH_WAIT_MAX_MS;
use weft_protocol::{ErrorCode, WatchNext, WatchNextReply};
use weft_transport::{NodeId, Time};

use crate::core::Core;
use crate::error::ClientError;
use crate::retry::{Effect, Identity, Retry};
use crate::table::Table;
use crate::watch::WatchEvent;

/// Events that follow one another, from the sequence of the first on.
pub(crate) struct Events {
    pub(crate) first: u64,
    pub(crate) events: Vec<WatchEvent>,
}

impl Core {
    /// The events of watch `id` of a node behind the one that was received last; none if nothing happens for some seconds. Goes on over
    /// new connections until the node has been out of reach for as long as an operation may take.
    pub(crate) async fn next_events(
        &self,
        node: NodeId,
        id: u64,
        received: u64,
    ) -> Result<Events, ClientError> {
        let wait = Duration::from_millis(WATCH_WAIT_MAX_MS.into());
        let request = WatchNext { id, received, wait_ms: WATCH_WAIT_MAX_MS };
        let mut retry: Option<Retry> = None;
        loop {
            let deadline = retry.map_or_else(|| self.deadline(), |retry| retry.deadline());
            let error = match self.events_once(node, request, deadline, wait).await {
                Ok(events) => return Ok(events),
                Err(error) => error,
            };
            // What ends a watch ends it for good; that the node has no such table is its last word.
            if error.ends_watch() || error.code() == ErrorCode::TableUnknown {
                return Err(error);
            }
            // From the first failure on: before it, the node may have waited for long.
            let retry = retry.get_or_insert_with(|| Retry::new(Effect::Read, self.deadline()));
            let epoch = self.keeper.current().epoch();
            match retry
                .need(&error, epoch, Identity::None)
                .and_then(|need| self.next_attempt(retry, need))
            {
                Some(next) => self.prepare(Table::DEFAULT, next, retry).await,
                None => return Err(error),
            }
        }
    }

    /// Connects until the deadline, and waits for `wait` longer.
    async fn events_once(
        &self,
        node: NodeId,
        request: WatchNext,
        deadline: Time,
        wait: Duration,
    ) -> Result<Events, ClientError> {
        let cluster = self.keeper.current_owned();
        let remote = cluster.remote(node).ok_or(ClientError::UnknownNode { node })?;
        let connection = self.keeper.connect(&self.endpoint, remote, deadline).await?;
        let timeout = self.config.timeout + wait;
        let reply = connection.call(request, self.endpoint.clock().now() + timeout).await;
        let reply = reply
            .map_err(|error| ClientError::of_call(&connection, error, Effect::Read, timeout))?;
        let reply = WatchNextReply::decode(&reply);
        let reply = reply.map_err(|error| ClientError::of_reply(&connection, error))?;
        let events = reply.events.iter().map(WatchEvent::from).collect();
        Ok(Events { first: reply.first, events })
    }
}
