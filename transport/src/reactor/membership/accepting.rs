//! Connections that others begin: listening, accepting, and who makes room for them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::io::Errno;

use crate::connection::{Charges, Core};
use crate::error::CloseReason;
use crate::handshake::encode_goodbye;
use crate::limits::{CONNECTION_BYTES, FREE_SHARE, HANDSHAKE_TIMEOUT, LINK_SHARE};
use crate::link::{Link, Listener, Transfer};
use crate::memory::Purpose;
use crate::poller::Token;
use crate::reactor::conversation::Phase;
use crate::reactor::handle::{Command, ReactorHandle};
use crate::reactor::{LISTENERS, Reactor};
use crate::time::Time;

use super::leaving::DRAIN;

/// Who has been without traffic for less than this is in use, and not ended to make room for others.
const IDLE_MIN: Duration = Duration::from_secs(1);

/// How many idle connections are tried to be left for one that comes.
const EVICT_TRIES: usize = 3;

/// Connections accepted in one turn, so that a flood of them does not hold up the others.
const ACCEPTS_MAX: usize = 64;

/// Who has kept memory for no longer than this is not ended to make room for others.
const KEPT_MIN: Duration = Duration::from_millis(100);

/// Leaves the connection that has been idle for longest, whichever reactor drives it. Returns whether
/// there was one.
fn evict_idle(handle: &ReactorHandle) -> bool {
    let now = handle.common.clock.now();
    let is_idle = |core: &&Arc<Core>| {
        core.ended().is_none() && core.is_idle() && now.since(core.last_used()) >= IDLE_MIN
    };
    let reactors = handle.common.reactors.get().map_or(&[][..], Vec::as_slice);
    let oldest = || {
        let oldest = reactors.iter().filter_map(std::sync::Weak::upgrade).filter_map(|reactor| {
            let members = reactor.members.lock();
            members.values().filter(is_idle).min_by_key(|core| core.last_used()).cloned()
        });
        oldest.min_by_key(|core| core.last_used())
    };
    // One that somebody begins to use at this moment is not left; then there may be another.
    std::iter::from_fn(oldest).take(EVICT_TRIES).any(|core| core.try_leave(CloseReason::Evicted))
}

impl Reactor {
    pub(super) fn listen(&mut self, listener: Listener) {
        let token = Token(LISTENERS + self.listeners.len() as u64);
        match self.poller.add_listener(&listener, token) {
            Ok(()) => self.listeners.push(listener),
            Err(error) => tracing::error!(%error, "a listener cannot be watched"),
        }
    }

    /// Accepts what has come in, and spreads it over the reactors.
    pub(in crate::reactor) fn accept(&mut self, handle: &Arc<ReactorHandle>, listener: usize) {
        let reactors = handle.common.reactors.get().map_or(&[][..], Vec::as_slice);
        for _ in 0..ACCEPTS_MAX {
            let Some(listening) = self.listeners.get(listener) else { return };
            let (link, address) = match listening.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    self.not_accepted(handle, listener, &error);
                    return;
                }
            };
            let next = handle.common.next_reactor.fetch_add(1, Ordering::Relaxed);
            let chosen =
                reactors.get(next % reactors.len().max(1)).and_then(std::sync::Weak::upgrade);
            match chosen {
                Some(other) if !Arc::ptr_eq(&other, handle) => {
                    other.submit(Command::Adopt(link, address));
                }
                _ => self.adopt(handle, link, address),
            }
        }
    }

    /// Sees to a connection that could not be accepted. Without descriptors it would be found ready
    /// for ever, so it waits for the next look, and for a descriptor of the one idle for longest.
    fn not_accepted(&mut self, handle: &ReactorHandle, listener: usize, error: &io::Error) {
        let out_of = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
        if !Errno::from_io_error(error).is_some_and(|errno| out_of.contains(&errno)) {
            // A peer that was gone before we looked.
            return tracing::debug!(%error, "a connection was not accepted");
        }
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(%error, "connections wait to be accepted; raise ulimit -n");
        }
        self.poller.remove_listener(&self.listeners[listener]);
        self.paused.push(listener);
        evict_idle(handle);
        self.housekeep_soon(handle.common.clock.now());
    }

    /// Accepts again where it was not possible for want of descriptors.
    pub(super) fn resume_accepting(&mut self) {
        for index in std::mem::take(&mut self.paused) {
            let Some(listener) = self.listeners.get(index) else { continue };
            let token = Token(LISTENERS + index as u64);
            if let Err(error) = self.poller.add_listener(listener, token) {
                tracing::error!(%error, "a listener cannot be watched");
            }
        }
    }

    /// Takes a connection that somebody else has begun.
    pub(super) fn adopt(&mut self, handle: &Arc<ReactorHandle>, link: Link, address: SocketAddr) {
        if handle.stopping.load(Ordering::SeqCst) {
            return;
        }
        let charge = match self.admit(handle, &link) {
            Ok(charge) => charge,
            Err(reason) => {
                // A courtesy: if the link does not take it, the peer sees it closed.
                let _ = link.send(&[io::IoSlice::new(&encode_goodbye(&reason))]);
                return;
            }
        };
        if let Link::Shm(link) = &link
            && let Err(error) = link.offer()
        {
            // The peer sees it closed, and connects over another link.
            return tracing::debug!(%error, "no memory was shared");
        }
        let link = link.accepted(self.port.as_ref());
        let by = handle.common.clock.now() + HANDSHAKE_TIMEOUT;
        self.insert(handle, (link, address, charge), Phase::Greeting { by }, None);
    }

    /// Room for one more connection, under the limits on their number and on memory. Memory is taken
    /// from whoever has kept some for longest, never from who keeps none.
    pub(super) fn admit(
        &mut self,
        handle: &Arc<ReactorHandle>,
        link: &Link,
    ) -> Result<Charges, CloseReason> {
        let common = &handle.common;
        let full = common.connections.load(Ordering::Relaxed) >= common.connections_max;
        if full && !evict_idle(handle) {
            return Err(CloseReason::TooManyConnections);
        }
        let charge = || common.memory.charge(CONNECTION_BYTES, Purpose::Session);
        let session = charge().or_else(|_| {
            self.free_memory(handle, common.clock.now());
            charge().map_err(|_| CloseReason::Memory)
        })?;
        let shared = match link.memory_bytes() {
            0 => None,
            bytes => {
                let account = common.memory.account();
                let shared_bytes = account.allocated_for(Purpose::Link) + bytes;
                if shared_bytes > account.shared_bytes() / LINK_SHARE {
                    return Err(CloseReason::Memory);
                }
                let charge = common.memory.charge(bytes, Purpose::Link);
                Some(charge.map_err(|_| CloseReason::Memory)?)
            }
        };
        Ok(Charges { _session: session, _shared: shared })
    }

    /// While memory is short, ends those who have kept it for longest, so that whoever comes and
    /// goes at once is served. Those who have it for a moment only are left alone.
    pub(super) fn free_memory(&mut self, handle: &Arc<ReactorHandle>, now: Time) {
        while handle.common.memory.is_short(FREE_SHARE) {
            let keeping = self.conversations.iter_mut().flatten();
            let keeping = keeping.filter_map(|kept| Some((kept.keeps_memory_since()?, kept)));
            match keeping.min_by_key(|(since, _)| *since) {
                Some((since, longest)) if now.since(since) >= KEPT_MIN => {
                    longest.core.close(CloseReason::Memory);
                    longest.begin_draining(now + DRAIN);
                }
                _ => break,
            }
        }
    }
}
