//! What a turn does with the input of one connection.

use std::sync::Arc;

use crate::error::CloseReason;
use crate::limits::{FREE_SHARE, RECEIVE_BYTES};
use crate::link::{Link, LinkKind};
use crate::memory::Purpose;
use crate::poller::Ready;
use crate::time::Time;

use super::conversation::{Phase, Received, Turn};
use super::{LISTENERS, PORT, Reactor, ReactorHandle};

impl Reactor {
    /// Handles one link that the poller found ready.
    pub(super) fn handle_ready(&mut self, handle: &Arc<ReactorHandle>, ready: Ready, now: Time) {
        if let (Some(port), true) = (&self.port, PORT.contains(&ready.token)) {
            // What it tells of is looked at by the next turn.
            port.hear();
            return port.hear_events();
        }
        if ready.token.0 >= LISTENERS {
            return self.accept(handle, (ready.token.0 - LISTENERS) as usize);
        }
        let index = ready.token.0 as usize;
        let Some(Some(conversation)) = self.conversations.get_mut(index) else { return };
        if let Phase::Connecting { by, .. } = conversation.phase {
            return self.finish_connect(handle, index, by);
        }
        let mut writable = ready.writable;
        match &conversation.core.link {
            Link::Shm(link) if ready.told => {
                link.hear();
                writable |= conversation.core.is_blocked();
                self.awake.note(index);
            }
            Link::Verbs(link) if ready.told => link.hear(),
            _ => {}
        }
        if writable {
            conversation.core.flush(true);
        }
        if conversation.core.link.take_fetched() {
            self.handle_fetched(handle, index, now);
        }
        if ready.readable
            && let Some(received) = self.receive(handle, index)
        {
            self.handle_received(handle, index, received, now);
        }
    }

    /// Handles what has been read from the memory of a connection's peer.
    pub(super) fn handle_fetched(&mut self, handle: &Arc<ReactorHandle>, index: usize, now: Time) {
        let Some(Some(conversation)) = self.conversations.get_mut(index) else { return };
        let mut turn = Turn { common: &handle.common, brought: &mut self.brought, now };
        conversation.handle_fetched(&mut turn);
        self.after_input(handle, index, now);
    }

    /// Goes on with what may go on after input on a connection.
    fn after_input(&mut self, handle: &Arc<ReactorHandle>, index: usize, now: Time) {
        let Some(Some(conversation)) = self.conversations.get_mut(index) else { return };
        let mut turn = Turn { common: &handle.common, brought: &mut self.brought, now };
        conversation.retry(&mut turn);
        conversation.settle(now);
        if conversation.take_flush_due() {
            self.due.push(index);
        }
        if conversation.needs_housekeeping() {
            self.housekeep_soon(now);
        }
        if handle.common.memory.is_short(FREE_SHARE) {
            self.housekeeping_at = Some(self.housekeeping_at.map_or(now, |at| at.min(now)));
        }
    }

    /// Receives what is there on a connection. An error or the end of the stream closes it.
    pub(super) fn receive(&mut self, handle: &ReactorHandle, index: usize) -> Option<Received> {
        let conversation = self.conversations.get_mut(index)?.as_mut()?;
        if self.scratch.is_none() {
            match handle.common.memory.allocate(RECEIVE_BYTES, Purpose::Receive) {
                Ok(block) => self.scratch = Some(block),
                Err(_) => {
                    conversation.core.close(CloseReason::Memory);
                    return None;
                }
            }
        }
        let scratch = self.scratch.as_mut().expect("it was just made");
        let reason = match conversation.receive(scratch) {
            Ok(Some(received)) if received.count == 0 => CloseReason::PeerGone,
            Ok(received) => return received,
            Err(error) => CloseReason::link(&error),
        };
        conversation.core.close(reason);
        self.remove(index);
        None
    }

    /// Handles what was received on a connection.
    pub(super) fn handle_received(
        &mut self,
        handle: &Arc<ReactorHandle>,
        index: usize,
        received: Received,
        now: Time,
    ) {
        let scratch = self.scratch.take().expect("something was received into it");
        let Some(Some(conversation)) = self.conversations.get_mut(index) else { return };
        let mut turn = Turn { common: &handle.common, brought: &mut self.brought, now };
        let in_memory = matches!(conversation.core.link.kind(), LinkKind::Shm | LinkKind::Verbs);
        self.scratch = conversation.handle(received, scratch, &mut turn);
        self.after_input(handle, index, now);
        if !in_memory {
            self.hot.push(index);
        }
    }
}
