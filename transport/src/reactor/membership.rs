//! How connections come to a reactor and leave it: listen, accept, connect, make room, drain.

mod accepting;
mod connecting;
mod leaving;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::connection::{Charges, Core};
use crate::error::{CloseReason, ConnectError};
use crate::link::Link;
use crate::manager::Attempt;
use crate::poller::Token;
use crate::time::Time;

use super::conversation::{Conversation, Phase, Turn};
use super::handle::{Command, ReactorHandle};
use super::{HOUSEKEEPING, Reactor};

impl Reactor {
    /// Does what others have asked for.
    pub(super) fn run_commands(&mut self, handle: &Arc<ReactorHandle>) -> bool {
        let mut any = false;
        while let Some(command) = handle.next_command() {
            any = true;
            match command {
                Command::Listen(listener) => self.listen(listener),
                Command::Adopt(link, address) => self.adopt(handle, link, address),
                Command::Connect(address, attempt) => self.connect(handle, address, attempt),
                Command::WatchWritable(core) => {
                    self.watch(&core, core.is_blocked());
                    self.housekeep_soon(handle.common.clock.now());
                }
                Command::Housekeep => self.housekeep_soon(handle.common.clock.now()),
                Command::Retry(core) => self.retry(handle, &core),
                Command::Left(core) => self.let_go(handle, &core),
                Command::Closed(core) => self.leave(handle, &core),
                Command::ShutDown => self.shut_down(handle),
            }
        }
        any
    }

    fn insert(
        &mut self,
        handle: &Arc<ReactorHandle>,
        (link, address, charges): (Link, SocketAddr, Charges),
        phase: Phase,
        attempt: Option<Arc<Attempt>>,
    ) {
        // Threads keep lanes by this, across all endpoints of the process.
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let initiated = attempt.is_some();
        let core = Core::new(id, link, address, initiated, &handle.common.windows, handle, charges);
        let core = Arc::new(core);
        let free = self.conversations.iter().position(Option::is_none);
        let place = free.unwrap_or(self.conversations.len());
        if place == self.conversations.len() {
            self.conversations.push(None);
        }
        core.place.store(place, Ordering::Relaxed);
        if let Link::Verbs(link) = &core.link {
            link.set_place(place);
        }
        let watched = core.link.give_up_after(handle.common.stall_timeout);
        let watched =
            watched.and_then(|()| self.poller.add(&core.link, Token(place as u64), initiated));
        handle.common.connections.fetch_add(1, Ordering::Relaxed);
        handle.members.lock().insert(id, Arc::clone(&core));
        let mut conversation = Conversation::new(Arc::clone(&core), phase, attempt);
        if let Err(error) = watched {
            conversation.fail_connect(ConnectError::refused(core.address, &error), &error);
        }
        self.conversations[place] = Some(conversation);
        self.keep_awake(place);
        self.housekeep_soon(handle.common.clock.now());
    }

    /// Begins or ceases to wait for room on a link.
    pub(super) fn watch(&mut self, core: &Arc<Core>, writable: bool) {
        let place = core.place.load(Ordering::Relaxed);
        let here = self.conversations.get(place).and_then(Option::as_ref);
        if !here.is_some_and(|conversation| Arc::ptr_eq(&conversation.core, core)) {
            return;
        }
        if let Err(error) = self.poller.set_writable(&core.link, Token(place as u64), writable) {
            core.close(CloseReason::link(&error));
        }
        if writable {
            // The link may have had room, and rung, before it was known to be full.
            self.keep_awake(place);
        }
    }

    /// Goes on with what had to wait on a connection.
    fn retry(&mut self, handle: &Arc<ReactorHandle>, core: &Arc<Core>) {
        let now = handle.common.clock.now();
        let place = core.place.load(Ordering::Relaxed);
        if let Some(Some(conversation)) = self.conversations.get_mut(place)
            && Arc::ptr_eq(&conversation.core, core)
        {
            let mut turn = Turn { common: &handle.common, brought: &mut self.brought, now };
            conversation.retry(&mut turn);
            conversation.settle(now);
            if conversation.take_flush_due() {
                self.due.push(place);
            }
        }
    }

    pub(super) fn housekeep_soon(&mut self, now: Time) {
        self.housekeeping_at.get_or_insert(now + HOUSEKEEPING);
    }

    /// How much later than it should have the driver looks after connections at `now`.
    pub(super) fn lateness(&self, now: Time) -> Duration {
        self.housekeeping_at.map_or(Duration::ZERO, |at| now.since(at))
    }

    /// Looks after connections that are not simply open: closes what has run out of time, retries
    /// what had to wait, and drops what has been read to its end.
    pub(super) fn housekeep(&mut self, handle: &Arc<ReactorHandle>, now: Time) {
        let late = self.lateness(now);
        // Who is so late was stopped itself, as by a debugger or with its machine: what peers have not
        // done meanwhile is not held against them.
        let stopped = late >= handle.common.stall_timeout / 2;
        self.housekeeping_at = None;
        for place in 0..self.conversations.len() {
            let Some(conversation) = &mut self.conversations[place] else { continue };
            if !conversation.needs_housekeeping() {
                continue;
            }
            if stopped {
                conversation.forgive(late);
            }
            if let Phase::Connecting { by, link_by: Some(link_by) } = conversation.phase
                && now >= link_by
            {
                self.connect_otherwise(handle, place, by);
                self.housekeep_soon(now);
                continue;
            }
            let mut turn = Turn { common: &handle.common, brought: &mut self.brought, now };
            conversation.retry(&mut turn);
            conversation.settle(now);
            if conversation.take_flush_due() {
                self.due.push(place);
            }
            if conversation.housekeep(&handle.common, now) {
                self.remove(place);
            } else {
                self.housekeep_soon(now);
            }
        }
        while self.conversations.last().is_some_and(Option::is_none) {
            self.conversations.pop();
        }
        self.free_memory(handle, now);
        if !self.paused.is_empty() {
            self.resume_accepting();
        }
    }
}

#[cfg(test)]
mod tests;
