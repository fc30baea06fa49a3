//! How connections come to a reactor and leave it: listen, accept, connect, make room, drain.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;

use crate::connection::{Charges, Core};
use crate::error::{CloseReason, ConnectError};
use crate::handshake::encode_goodbye;
use crate::limits::{
    CONNECTION_BYTES, FREE_SHARE, HAND_OVER_TIMEOUT, HANDSHAKE_TIMEOUT, LINK_SHARE,
};
use crate::link::{Link, LinkKind, LinkPolicy, Listener, TcpLink, Transfer};
use crate::manager::{Asked, Attempt};
use crate::memory::Purpose;
use crate::poller::Token;
use crate::time::Time;

use super::conversation::{Conversation, Phase};
use super::handle::{Command, ReactorHandle};
use super::{HOUSEKEEPING, LISTENERS, Reactor};

/// Who has been without traffic for less than this is in use, and not ended to make room for others.
const IDLE_MIN: Duration = Duration::from_secs(1);

/// How many idle connections are tried to be left for one that comes.
const EVICT_TRIES: usize = 3;

/// How long a closed connection is read to its end, so that the peer gets the goodbye instead of
/// a reset.
const DRAIN: Duration = Duration::from_millis(500);

/// Who has kept memory for no longer than this is not ended to make room for others.
const KEPT_MIN: Duration = Duration::from_millis(100);

/// How often a connection is received from before it is closed at the end: more than a window of
/// the usual size holds, so that only a flood is not heard to its end.
const LAST_RECEIVES: usize = 32;

/// Connections accepted in one turn, so that a flood of them does not hold up the others.
const ACCEPTS_MAX: usize = 64;

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
                Command::WatchWritable(core, writable) => {
                    self.watch(&core, writable);
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

    fn listen(&mut self, listener: Listener) {
        let token = Token(LISTENERS + self.listeners.len() as u64);
        match self.poller.add_listener(&listener, token) {
            Ok(()) => self.listeners.push(listener),
            Err(error) => tracing::error!(%error, "a listener cannot be watched"),
        }
    }

    /// Accepts what has come in, and spreads it over the reactors.
    pub(super) fn accept(&mut self, handle: &Arc<ReactorHandle>, listener: usize) {
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
    fn resume_accepting(&mut self) {
        for index in std::mem::take(&mut self.paused) {
            let Some(listener) = self.listeners.get(index) else { continue };
            let token = Token(LISTENERS + index as u64);
            if let Err(error) = self.poller.add_listener(listener, token) {
                tracing::error!(%error, "a listener cannot be watched");
            }
        }
    }

    /// Takes a connection that somebody else has begun.
    fn adopt(&mut self, handle: &Arc<ReactorHandle>, link: Link, address: SocketAddr) {
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
    fn admit(&mut self, handle: &Arc<ReactorHandle>, link: &Link) -> Result<Charges, CloseReason> {
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

    /// Begins what the connection manager's schedule has due, and returns whether something was. Only the
    /// first reactor does, so that nothing is begun twice.
    pub(super) fn try_due(&mut self, handle: &ReactorHandle, now: Time) -> bool {
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

    fn connect(&mut self, handle: &Arc<ReactorHandle>, address: SocketAddr, attempt: Arc<Attempt>) {
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
                (_, kind) => ConnectError::Refused { address, kind },
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
    pub(super) fn finish_connect(&mut self, handle: &Arc<ReactorHandle>, place: usize, by: Time) {
        let Some(Some(conversation)) = self.conversations.get_mut(place) else { return };
        let core = Arc::clone(&conversation.core);
        match core.link.finish_connect() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Somebody may listen there, but shares no memory with us, or has none or no device.
            Err(_) if handle.common.links.after(core.link.kind()).is_some() => {
                return self.connect_otherwise(handle, place, by);
            }
            Err(_) if core.link.kind() == LinkKind::Shm => conversation.fail_to_share(),
            Err(error) => conversation.fail_connect(error.kind()),
            Ok(()) => conversation.greet(&handle.common, by),
        }
        self.watch(&core, core.is_blocked());
        self.keep_awake(place);
    }

    /// Goes on over the next link in place of the one at `place`, which has not come about.
    fn connect_otherwise(&mut self, handle: &Arc<ReactorHandle>, place: usize, by: Time) {
        let Some(Some(conversation)) = self.conversations.get_mut(place) else { return };
        let core = Arc::clone(&conversation.core);
        if let Some(next) = handle.common.links.after(core.link.kind())
            && let Some(attempt) = conversation.take_attempt()
        {
            self.connect_over(handle, next, core.address, attempt, by);
        }
        core.close(CloseReason::Link(io::ErrorKind::ConnectionRefused));
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
        let watched = self.poller.add(&core.link, Token(place as u64), initiated);
        handle.common.connections.fetch_add(1, Ordering::Relaxed);
        handle.members.lock().insert(id, Arc::clone(&core));
        let mut conversation = Conversation::new(Arc::clone(&core), phase, attempt);
        if let Err(error) = watched {
            conversation.fail_connect(error.kind());
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
            core.close(CloseReason::Link(error.kind()));
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
            conversation.retry(&handle.common);
            conversation.settle(now);
            if conversation.take_flush_due() {
                self.due.push(place);
            }
        }
    }

    /// Nothing begins on a connection any more: another one may take its place.
    fn let_go(&mut self, handle: &ReactorHandle, core: &Arc<Core>) {
        let now = handle.common.clock.now();
        if core.counts.swap(false, Ordering::SeqCst) {
            handle.common.connections.fetch_sub(1, Ordering::Relaxed);
        }
        handle.common.registry.forget(core, now, &mut self.wakers);
        handle.common.see_to_schedule();
        self.housekeep_soon(now);
    }

    /// A connection has been closed: nobody finds it any more, and it is read to its end.
    fn leave(&mut self, handle: &Arc<ReactorHandle>, core: &Arc<Core>) {
        let now = handle.common.clock.now();
        handle.members.lock().remove(&core.id);
        let place = core.place.load(Ordering::Relaxed);
        if let Some(Some(conversation)) = self.conversations.get_mut(place)
            && Arc::ptr_eq(&conversation.core, core)
        {
            conversation.begin_draining(now + DRAIN);
        }
        // Its attempt has ended by now.
        self.let_go(handle, core);
        handle.common.accepted.forget(core);
        if let (Some(reason), peer) = (core.closed(), core.address) {
            tracing::debug!(%peer, %reason, "connection closed");
        }
        self.housekeep_soon(now);
    }

    /// Lets go of a closed connection that nothing more comes in on.
    pub(super) fn remove(&mut self, place: usize) {
        if let Some(mut conversation) = self.conversations[place].take() {
            conversation.begin_draining(Time::ZERO);
            self.poller.remove(&conversation.core.link);
            conversation.core.link.shutdown();
        }
    }

    /// Accepts nothing more, hands what has arrived to the handler, sends the replies, and closes
    /// everything.
    fn shut_down(&mut self, handle: &Arc<ReactorHandle>) {
        self.listeners.clear();
        let now = handle.common.clock.now();
        for place in 0..self.conversations.len() {
            for _ in 0..LAST_RECEIVES {
                let open =
                    self.conversations[place].as_ref().is_some_and(|c| c.phase == Phase::Open);
                match open.then(|| self.receive(handle, place)).flatten() {
                    Some(received) => self.handle_received(handle, place, received, now),
                    None => break,
                }
            }
        }
        for conversation in self.open() {
            conversation.core.flush(false);
            conversation.core.close(CloseReason::ShuttingDown);
        }
    }

    /// Lets go of everything, when nobody will drive any more: also of connections that were begun while
    /// all others were closed.
    pub(crate) fn clear(&mut self, handle: &Arc<ReactorHandle>) {
        self.listeners.clear();
        for conversation in self.open() {
            conversation.core.close(CloseReason::ShuttingDown);
        }
        self.run_commands(handle);
        for place in 0..self.conversations.len() {
            self.remove(place);
        }
        self.conversations.clear();
    }

    pub(super) fn housekeep_soon(&mut self, now: Time) {
        self.housekeeping_at.get_or_insert(now + HOUSEKEEPING);
    }

    /// Looks after connections that are not simply open: closes what has run out of time, retries
    /// what had to wait, and drops what has been read to its end.
    pub(super) fn housekeep(&mut self, handle: &Arc<ReactorHandle>, now: Time) {
        let late = self.housekeeping_at.map_or(Duration::ZERO, |at| now.since(at));
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
            conversation.retry(&handle.common);
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

    /// While memory is short, ends those who have kept it for longest, so that whoever comes and
    /// goes at once is served. Those who have it for a moment only are left alone.
    fn free_memory(&mut self, handle: &Arc<ReactorHandle>, now: Time) {
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

/// Whether somebody may listen at `address` for TCP, who then shares no memory with this process. On this
/// host it is known at once that nobody does; elsewhere nobody waits for it.
fn is_listened_on(address: SocketAddr) -> bool {
    let attempt = TcpLink::connect(address).and_then(|link| link.finish_connect());
    attempt.err().is_none_or(|error| error.kind() != io::ErrorKind::ConnectionRefused)
}

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

#[cfg(test)]
mod tests;
