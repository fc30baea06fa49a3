//! Connections that this side begins, over one link or the next.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{CloseReason, ConnectError};
use crate::limits::HAND_OVER_TIMEOUT;
use crate::link::{Link, LinkKind, LinkPolicy, TcpLink, Transfer, is_not_over_verbs};
use crate::manager::{Asked, Attempt};
use crate::reactor::Reactor;
use crate::reactor::conversation::Phase;
use crate::reactor::handle::ReactorHandle;
use crate::time::Time;

/// Whether somebody may listen at `address` for TCP, who then shares no memory with this process. On this
/// host it is known at once that nobody does; elsewhere nobody waits for it.
fn is_listened_on(address: SocketAddr) -> bool {
    let attempt = TcpLink::connect(address).and_then(|link| link.finish_connect());
    attempt.err().is_none_or(|error| error.kind() != io::ErrorKind::ConnectionRefused)
}

/// Why a link that was begun, and that no other is to take the place of, has not come about.
pub(super) fn failure(kind: LinkKind, address: SocketAddr, error: &io::Error) -> ConnectError {
    if is_not_over_verbs(kind, error) {
        return ConnectError::NoVerbs { address };
    }
    match kind {
        LinkKind::Shm => ConnectError::NotShared { address },
        _ => ConnectError::refused(address, error),
    }
}

impl Reactor {
    /// Begins what the connection manager's schedule has due, and returns whether something was. Only the
    /// first reactor does, so that nothing is begun twice.
    pub(in crate::reactor) fn try_due(&mut self, handle: &ReactorHandle, now: Time) -> bool {
        let common = &handle.common;
        let first = common.reactors.get().and_then(|reactors| reactors.first());
        let is_first = first.is_some_and(|first| std::ptr::eq(first.as_ptr(), handle));
        if !is_first || handle.stopping.load(Ordering::SeqCst) {
            return false;
        }
        let due = common.registry.due(now);
        for address in &due {
            // The schedule is never too early.
            let _ = common.connect(*address, Asked::BySchedule);
        }
        common.see_to_schedule();
        !due.is_empty()
    }

    pub(super) fn connect(
        &mut self,
        handle: &Arc<ReactorHandle>,
        address: SocketAddr,
        attempt: Arc<Attempt>,
    ) {
        if handle.stopping.load(Ordering::SeqCst) {
            let error = ConnectError::ShutDown { address };
            handle.common.finish_attempt(address, &attempt, Err(error));
            return handle.common.registry.forget_attempt(address);
        }
        let by = handle.common.clock.now() + handle.common.connect_timeout;
        self.connect_over(handle, handle.common.links.first(), address, attempt, by);
    }

    /// Connects over a link of that kind or, if the policy allows it, the next, the greeting included
    /// until `by`.
    fn connect_over(
        &mut self,
        handle: &Arc<ReactorHandle>,
        mut kind: LinkKind,
        address: SocketAddr,
        attempt: Arc<Attempt>,
        by: Time,
    ) {
        let links = handle.common.links;
        let admitted = loop {
            let link = match &handle.common.sim {
                Some(port) => port.connect(address).map(Link::Sim),
                None => Link::connect(address, kind, self.port.as_ref()),
            };
            let refused = |error: io::Error| match (links, error.kind()) {
                (LinkPolicy::Shm, io::ErrorKind::ConnectionRefused) if is_listened_on(address) => {
                    ConnectError::NotShared { address }
                }
                _ => ConnectError::refused(address, &error),
            };
            let admitted = link.map_err(refused).and_then(|link| {
                let shares = link.memory_bytes() > 0;
                match (self.admit(handle, &link), links) {
                    (Ok(charge), _) => Ok((link, address, charge)),
                    (Err(CloseReason::Memory), LinkPolicy::Shm) if shares => {
                        Err(ConnectError::NotShared { address })
                    }
                    (Err(reason), _) => Err(ConnectError::Closed { address, reason }),
                }
            });
            match (&admitted, links.after(kind)) {
                // Without memory to share, for one, there is a link that needs none.
                (Err(_), Some(next)) => kind = next,
                _ => break admitted,
            }
        };
        match admitted {
            Ok(link) => {
                let waits = links.after(link.0.kind()).is_some();
                let link_by = waits.then(|| handle.common.clock.now() + HAND_OVER_TIMEOUT);
                let phase = Phase::Connecting { by, link_by };
                self.insert(handle, link, phase, Some(attempt));
            }
            Err(error) => {
                handle.common.finish_attempt(address, &attempt, Err(error));
                handle.common.registry.forget_attempt(address);
            }
        }
    }

    /// A link that was being connected has come about, or failed, or needs more time.
    pub(in crate::reactor) fn finish_connect(
        &mut self,
        handle: &Arc<ReactorHandle>,
        place: usize,
        by: Time,
    ) {
        let Some(Some(conversation)) = self.conversations.get_mut(place) else { return };
        let core = Arc::clone(&conversation.core);
        match core.link.finish_connect() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Somebody may listen there, but shares no memory with us, or has none or no device.
            Err(_) if handle.common.links.after(core.link.kind()).is_some() => {
                return self.connect_otherwise(handle, place, by);
            }
            Err(error) => {
                let failure = failure(core.link.kind(), core.address, &error);
                conversation.fail_connect(failure, &error);
            }
            Ok(()) => conversation.greet(&handle.common, by),
        }
        self.watch(&core, core.is_blocked());
        self.keep_awake(place);
    }

    /// Goes on over the next link in place of the one at `place`, which has not come about.
    pub(super) fn connect_otherwise(
        &mut self,
        handle: &Arc<ReactorHandle>,
        place: usize,
        by: Time,
    ) {
        let Some(Some(conversation)) = self.conversations.get_mut(place) else { return };
        let core = Arc::clone(&conversation.core);
        if let Some(next) = handle.common.links.after(core.link.kind())
            && let Some(attempt) = conversation.take_attempt()
        {
            self.connect_over(handle, next, core.address, attempt, by);
        }
        core.close(CloseReason::link(&io::ErrorKind::ConnectionRefused.into()));
    }
}
