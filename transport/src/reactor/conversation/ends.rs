//! How a conversation begins, with hellos, and how it ends.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use crate::connection::{Connection, Peer};
use crate::error::{CloseReason, ConnectError};
use crate::handshake::Hello;
use crate::manager::{Admission, Attempt};
use crate::reactor::Common;
use crate::reactor::deferred::Deferred;
use crate::session::inbound::Inbound;
use crate::time::Time;

use super::{Conversation, Phase};

impl Conversation {
    /// The link has come about.
    pub(in crate::reactor) fn greet(&mut self, common: &Common, by: Time) {
        self.phase = Phase::Greeting { by };
        self.core.greet(common.hello().encode());
    }

    /// The peer has said who it is.
    pub(super) fn handle_hello(
        &mut self,
        hello: &Hello,
        common: &Common,
        wakers: &mut Vec<Waker>,
    ) -> Result<(), CloseReason> {
        if !common.trusts(hello) {
            return Err(CloseReason::Secret);
        }
        let core = &self.core;
        let (node, incarnation) = (hello.node, hello.incarnation);
        if (node, incarnation) == (common.node, common.incarnation) {
            // This endpoint itself. Only the side that has connected knows by which address, and learns from the other's
            // hello that it is its own.
            match core.initiated {
                true => common.registry.leads_here(core.address),
                false => core.session.lanes.greet(common.hello().encode()),
            }
        }
        let peer = Peer { node, incarnation, address: core.address };
        let open = || {
            if !core.initiated {
                core.session.lanes.greet(common.hello().encode());
            }
            core.open(peer, &hello.windows, hello.features);
        };
        let admission = common.registry.admit(common.node, core, &peer, open, wakers)?;
        if !core.initiated {
            core.flush(false);
        }
        self.phase = Phase::Open;
        let used = match admission {
            Admission::Used => Arc::clone(core),
            Admission::Replaced(existing) => existing,
        };
        let replaced = !Arc::ptr_eq(&used, core);
        if replaced {
            core.retired.store(true, Ordering::SeqCst);
        } else if !core.initiated {
            common.accepted.add(core);
        }
        if let Some(attempt) = self.attempt.take() {
            common.finish_attempt(core.address, &attempt, Ok(Connection::new(used)));
        }
        Ok(())
    }

    /// Who waits for it to come about waits for another in its place.
    pub(in crate::reactor) fn take_attempt(&mut self) -> Option<Arc<Attempt>> {
        self.attempt.take()
    }

    /// The link cannot come about, for which whoever waits for it is told of `failure`.
    pub(in crate::reactor) fn fail_connect(&mut self, failure: ConnectError, error: &io::Error) {
        self.end_attempt(|_| failure);
        self.core.close(CloseReason::link(error));
    }

    /// The connection has ended; whoever waits for it to come about is told.
    pub(in crate::reactor) fn begin_draining(&mut self, until: Time) {
        let reason = self.core.closed().cloned().unwrap_or(CloseReason::Closed);
        self.end_attempt(|address| match reason {
            CloseReason::ShutDown => ConnectError::ShutDown { address },
            reason => ConnectError::Closed { address, reason },
        });
        if matches!(self.phase, Phase::Draining { .. }) {
            return;
        }
        self.phase = Phase::Draining { until };
        self.deferred = Deferred::default();
        self.inbound = Inbound::new();
        (self.unfinished, self.landing, self.landing_first) = (None, None, None);
        self.streamed = None;
        self.unasked = None;
        if let Some(lane) = self.lane.take() {
            self.core.session.lanes.retire(lane);
        }
        // Nothing follows a goodbye.
        let discarded = self.core.session.outbound.lock().discard(&self.core.session);
        drop(discarded);
    }

    fn end_attempt(&mut self, error: impl FnOnce(SocketAddr) -> ConnectError) {
        if let Some(attempt) = self.attempt.take() {
            let address = self.core.address;
            let common = &self.core.reactor.common;
            common.finish_attempt(address, &attempt, Err(error(address)));
        }
    }
}
