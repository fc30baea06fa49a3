//! Which connection to a node is used: of two that cross, of two of its lives.

use std::sync::Arc;
use std::task::Waker;

use crate::connection::{Core, Peer};
use crate::error::CloseReason;
use crate::identity::NodeId;
use crate::manager::event::NodeEvent;
use crate::sync::atomic::Ordering;

use super::{Known, Registry};

/// What becomes of a connection whose peer has said hello.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It is used.
    Used,
    /// Another connection to the same node is used in its place; this one is closed.
    Replaced(Arc<Core>),
}

impl Registry {
    /// Decides on a connection whose peer has said hello; `open` opens it, before anybody can find it.
    /// Those who wait for events are to be woken when it has been decided.
    ///
    /// # Errors
    /// Why the connection is refused.
    pub(crate) fn admit(
        &self,
        own: NodeId,
        core: &Arc<Core>,
        peer: &Peer,
        open: impl FnOnce(),
        wakers: &mut Vec<Waker>,
    ) -> Result<Admission, CloseReason> {
        if peer.node == own {
            return Err(CloseReason::Violation("a peer with our own id"));
        }
        if peer.node.is_client() {
            // Clients listen nowhere, so that nobody can have connected to one.
            if core.initiated {
                return Err(CloseReason::Violation("a client's id where a node listens"));
            }
            open();
            return Ok(Admission::Used);
        }
        let hello = self.hellos.fetch_add(1, Ordering::Relaxed);
        self.forget_nodes(hello);
        let mut is_new = false;
        let mut known = self.nodes.entry(peer.node).or_insert_with(|| {
            is_new = true;
            Known { incarnation: peer.incarnation, connection: None, former: None, hello }
        });
        if peer.incarnation < known.incarnation {
            return Err(CloseReason::StaleIncarnation {
                node: peer.node,
                stale: peer.incarnation,
                current: known.incarnation,
            });
        }
        open();
        let restarted = peer.incarnation > known.incarnation;
        let stale = std::mem::replace(&mut known.incarnation, peer.incarnation);
        known.hello = hello;
        let mut tell = |event| self.listeners.tell(&event, wakers);
        let mut existing = known.connection.take();
        if let Some(ended) = existing.take_if(|existing| existing.ended().is_some()) {
            let reason = ended.ended().expect("it has ended").clone();
            tell(NodeEvent::Lost { peer: *ended.peer(), reason });
            if let Some(former) = known.fall_back() {
                tell(NodeEvent::Connected(*former.peer()));
            }
            existing = known.connection.take();
        }
        let outdated = existing.take_if(|_| restarted);
        let current = peer.incarnation;
        let outdated_reason = CloseReason::StaleIncarnation { node: peer.node, stale, current };
        if let Some(outdated) = &outdated {
            let reason = outdated_reason.clone();
            tell(NodeEvent::Lost { peer: *outdated.peer(), reason });
        }
        if is_new || restarted {
            tell(NodeEvent::Found(*peer));
        }
        let Some(existing) = existing else {
            tell(NodeEvent::Connected(*peer));
            (known.connection, known.former) = (Some(Arc::clone(core)), None);
            let addresses = self.schedule.lock().connected(peer, core.clock.now());
            addresses.into_iter().for_each(|address| self.pauses.end(address, wakers));
            drop(known);
            if let Some(outdated) = outdated {
                outdated.close(outdated_reason);
            }
            return Ok(Admission::Used);
        };
        let ours_wins = own < peer.node;
        let keep_existing = match (existing.initiated, core.initiated) {
            (true, true) => true,
            (false, false) => false,
            (existing_is_ours, _) => existing_is_ours == ours_wins,
        };
        if keep_existing {
            known.connection = Some(Arc::clone(&existing));
            // The one that began a connection ends it.
            return Ok(if core.initiated {
                Admission::Replaced(existing)
            } else {
                Admission::Used
            });
        }
        known.connection = Some(Arc::clone(core));
        known.former = (!existing.initiated && !core.initiated).then(|| Arc::clone(&existing));
        drop(known);
        if existing.initiated {
            existing.retired.store(true, Ordering::SeqCst);
        }
        if existing.told_early.load(Ordering::SeqCst) {
            existing.peer_leaves(CloseReason::Duplicate, wakers);
        }
        Ok(Admission::Used)
    }

    /// The peer leaves `core` for another connection, unless that has yet to say hello here: until then
    /// this one is used, which the peer still serves.
    pub(crate) fn replace(&self, core: &Arc<Core>, wakers: &mut Vec<Waker>) {
        {
            let known = self.nodes.get(&core.peer().node);
            let used = known.as_ref().and_then(|known| known.connection.as_ref());
            if used.is_some_and(|used| Arc::ptr_eq(used, core)) {
                core.told_early.store(true, Ordering::SeqCst);
                return;
            }
        }
        core.peer_leaves(CloseReason::Duplicate, wakers);
    }
}
