//! Posting buffers on a connection, and receiving a copy.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::catching;
use crate::error::PostError;
use crate::frame::Class;
use crate::local;
use crate::memory::Block;
use crate::reactor::Command;
use crate::session::outbound::Unannounced;
use crate::session::posting::{Claim, Outcome, Posting, Undone};
use crate::session::sends::Leaving;
use crate::ticket::Ticket;

use super::{Connection, Core};

impl Connection {
    /// Receives the next message for which no receive was posted earlier, into memory that is allocated
    /// for it: the copying level beside [`RegisteredBuffer`](crate::RegisteredBuffer).
    ///
    /// # Errors
    /// See [`PostError`]; never `TooLong`.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the receive. A message that has been matched with it is lost then,
    /// which [`Receiving::is_done`] tells of.
    pub fn receive(&self) -> Receiving {
        Receiving { ticket: Ticket::receive_allocated(Arc::clone(&self.core)) }
    }

    /// How many messages have come for which no receive has been posted, but for those above
    /// [`MESSAGE_MAX`](crate::limits::MESSAGE_MAX) bytes.
    pub fn messages_waiting(&self) -> usize {
        self.core.session.receives.waiting()
    }
}

/// Receives one message; see [`Connection::receive`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Receiving {
    ticket: Ticket,
}

impl Receiving {
    /// Whether the message is here, or never will be.
    pub fn is_done(&self) -> bool {
        self.ticket.is_done()
    }
}

impl Future for Receiving {
    type Output = Result<Vec<u8>, PostError>;

    /// # Panics
    /// When polled again after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.ticket.poll_outcome(context.waker()).map(|(result, block, _)| {
            result
                .map(|_| block.into_vector().expect("what is allocated for a message is a vector"))
        })
    }
}

/// Woken when the peer's window has room for what has been posted.
impl Wake for Core {
    fn wake(self: Arc<Self>) {
        self.push_sends();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.push_sends();
    }
}

impl Core {
    /// Sends the first `len` bytes of `block`, when the window has room for them.
    pub(crate) fn post_send(self: &Arc<Self>, posting: &Arc<Posting>, block: Block, len: usize) {
        let limit = self.session.departures.body_max();
        if len > limit {
            let result = Err(Undone::TooLarge { len, limit });
            // Nobody can wait for it yet.
            posting.finish(Outcome { block, result });
            return;
        }
        self.session.sends.add(Leaving::new(posting, block, len));
        self.push_sends();
    }

    /// Has what is posted sent, as far as the window has room for it.
    fn push_sends(self: &Arc<Self>) {
        let session = &self.session;
        let waker = Waker::from(Arc::clone(self));
        let pushed = session.sends.push(&session.send_credit, &session.departures, &waker);
        if self.refused_for(Class::Request).is_some() {
            session.sends.abandon();
        }
        if self.closed().is_some() {
            // It may have closed meanwhile, and given back what there was before this was added.
            return self.abandon_sends();
        }
        if pushed.large {
            // Nothing may come in that would have the reactor look whether the peer goes on.
            self.reactor.submit(Command::Housekeep);
        }
        if pushed.is_batch {
            // The peer can work on it while the rest is posted.
            self.flush(false);
        } else if pushed.any && !local::promise(self) {
            self.send_soon(Unannounced::NONE);
        }
        self.reactor.ensure_driver();
    }

    /// Gives back what was posted to be sent and never will be, since the connection has ended.
    pub(crate) fn abandon_sends(&self) {
        let discarded = self.session.outbound.lock().discard(&self.session);
        drop(discarded);
    }

    /// Has the next message go where `claim` says.
    pub(crate) fn post_receive(self: &Arc<Self>, claim: Claim) {
        let matched = self.session.receives.post(claim, &self.memory);
        if self.session.release_all(&matched.taken) {
            self.send_soon(Unannounced::NONE);
        }
        if matched.is_landing {
            self.reactor.submit(Command::Retry(Arc::clone(self)));
        }
        matched.wakers.into_iter().for_each(catching::wake);
    }

    /// # Panics
    /// On a simulated endpoint.
    pub(crate) fn assert_real(&self) {
        assert!(self.reactor.common.sim.is_none(), "a simulated endpoint is driven by turns");
    }
}
