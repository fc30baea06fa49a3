//! Receiving graphs.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use weft_transport::{Ended, Peer};

use super::error::ReceiveError;
use super::inlet::Inlet;
use super::listener::{ChannelId, GraphListener};
use super::received::ReceivedBytes;
use crate::view::View;

/// The receiving end of a channel; see [the module](super). Dropping it tells the sender.
pub struct GraphReceiver {
    listener: Arc<GraphListener>,
    id: ChannelId,
    inlet: Arc<Inlet>,
    ended: Option<Ended>,
}

impl GraphReceiver {
    pub(super) fn new(listener: Arc<GraphListener>, id: ChannelId, inlet: Arc<Inlet>) -> Self {
        inlet.accept();
        let ended = inlet.ended();
        Self { listener, id, inlet, ended }
    }

    /// Who sends.
    pub fn peer(&self) -> &Peer {
        &self.inlet.peer
    }

    /// The next graph, as soon as all of it has come and was checked. It is used where it was received, and keeps that memory: of
    /// large graphs that are kept for long, [`View::to_owned`] makes a copy.
    ///
    /// # Errors
    /// See [`ReceiveError`]: none comes any more. All that had come whole was received before.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn receive(&mut self) -> Result<View<ReceivedBytes>, ReceiveError> {
        poll_fn(|context| {
            if let Poll::Ready(received) = self.inlet.poll(context) {
                return Poll::Ready(received);
            }
            let reason = loop {
                let Some(ended) = &mut self.ended else { return Poll::Pending };
                let reason = ready!(Pin::new(ended).poll(context));
                match self.inlet.ended() {
                    // Another connection has taken its place.
                    Some(another) => self.ended = Some(another),
                    None => break reason,
                }
            };
            // What came before the end may have come since.
            match self.inlet.poll(context) {
                Poll::Ready(received) => Poll::Ready(received),
                Poll::Pending => Poll::Ready(Err(ReceiveError::Disconnected(reason))),
            }
        })
        .await
    }

    /// Whether [`receive`](Self::receive) would have a graph at once.
    pub fn is_readable(&self) -> bool {
        self.inlet.is_readable()
    }
}

impl Drop for GraphReceiver {
    fn drop(&mut self) {
        self.listener.forget(self.id);
        self.inlet.leave();
    }
}

impl fmt::Debug for GraphReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphReceiver").field("peer", self.peer()).finish_non_exhaustive()
    }
}
