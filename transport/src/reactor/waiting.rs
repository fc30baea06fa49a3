//! How a turn waits for input: looks, spins, sleeps.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::thread::sched_yield;

use crate::idle::YIELD_MIN;
use crate::link::{Link, Listener};
use crate::poller::{Poller, Ready, Token};
use crate::time::Time;

use super::conversation::Phase;
use super::{LISTENERS, Reactor, ReactorHandle, Wait};

/// Connections that had input in the last turn are tried without asking the poller, if there are
/// no more than this.
const HOT_MAX: usize = 4;

/// Looks at shared memory in one round of spinning: a microsecond or two, beside which the round's
/// other doings count for little.
const LOOKS: u32 = 32;

/// While it spins or has enough to do without, a reactor asks the poller every so many rounds or turns.
const POLL_EVERY: u32 = 16;

/// With enough to do without, a reactor asks the poller after this long.
const POLL_AFTER: Duration = Duration::from_micros(100);

/// While it spins, a reactor lets others onto its core every so many rounds.
const YIELD_EVERY: u32 = 8;

impl Reactor {
    /// Fills `ready`: first with what is there, then by waiting. Returns when spinning has last looked
    /// at the clock, if it has ended the wait.
    pub(super) fn gather_ready(
        &mut self,
        handle: &Arc<ReactorHandle>,
        wait: Wait<'_>,
    ) -> io::Result<Option<Time>> {
        if let Poller::Sim = self.poller {
            self.look_around();
            return Ok(None);
        }
        if let Wait::Poll = wait {
            self.look_at_awake();
            self.ask_poller(Some(Duration::ZERO))?;
            return Ok(None);
        }
        if self.look_at_awake() {
            self.idle.end(true, Duration::ZERO);
            if self.is_poller_due() {
                self.ask_poller(Some(Duration::ZERO))?;
            }
            return Ok(None);
        }
        let began = handle.common.clock.now();
        if let Some((until, _permit)) = self.idle.begin(began)
            && let Some(looked) = self.spin(handle, (began, until), wait)?
        {
            self.idle.end(true, looked.since(began));
            return Ok(Some(looked));
        }
        // Who does not spin has not looked, and sleeps as if there were none.
        self.run_out();
        let until = self.next_timer(handle);
        if let Wait::Caller(parker) | Wait::Aside(parker) = wait {
            parker.sleep(handle);
        }
        handle.sleep(until);
        // Whoever has noted an earlier deadline before that was said has rung no bell.
        let is_earlier = self.next_timer(handle) < until;
        if !is_earlier && !wait.is_over(handle) && self.rest() {
            let now = handle.common.clock.now();
            let timeout = (until != Time::MAX).then(|| until.since(now));
            self.ask_poller(timeout)?;
            self.let_others_speak(handle)?;
        }
        self.look_at_awake();
        handle.wake_up();
        if let Wait::Caller(parker) | Wait::Aside(parker) = wait {
            parker.wake_up();
        }
        self.idle.end(false, handle.common.clock.now().since(began));
        Ok(None)
    }

    /// Woken by the first of many, perhaps: where others wait for this core they go first, so that what they have to say is handled, and answered, together
    /// with that.
    fn let_others_speak(&mut self, handle: &ReactorHandle) -> io::Result<()> {
        let before = handle.common.clock.now();
        if self.ready.is_empty() || self.idle.core_is_taken(before) {
            return Ok(());
        }
        sched_yield();
        let now = handle.common.clock.now();
        self.idle.yielded(before, now);
        if now.since(before) >= YIELD_MIN {
            self.ready.clear();
            self.ask_poller(Some(Duration::ZERO))?;
        }
        Ok(())
    }

    /// Spins from `began` until there is input, an interruption, a timer, or `until`. Returns when it
    /// has last looked at the clock, if the wait is over.
    fn spin(
        &mut self,
        handle: &ReactorHandle,
        (began, until): (Time, Time),
        wait: Wait<'_>,
    ) -> io::Result<Option<Time>> {
        let mut round = 0u32;
        let mut looked = began;
        loop {
            // Where others wait for this core, one look and it is theirs: they may have work, or what is looked for.
            let is_shared = self.idle.shares_core();
            let looks = if is_shared { 1 } else { LOOKS };
            let found = self.receive_hot(handle) || self.watch_awake(looks);
            if self.is_poller_due() || self.hot.is_empty() && self.is_all_quiet() {
                self.ask_poller(Some(Duration::ZERO))?;
            }
            if found || !self.ready.is_empty() {
                return Ok(Some(looked));
            }
            if wait.is_over(handle) {
                return Ok(Some(looked));
            }
            round = round.wrapping_add(1);
            if is_shared || round.is_multiple_of(YIELD_EVERY) {
                let before = handle.common.clock.now();
                if !self.idle.core_is_taken(looked) {
                    sched_yield();
                }
                let now = handle.common.clock.now();
                let park = self.idle.yielded(looked, now) | self.idle.gave_way(before, now);
                looked = now;
                // Asked each time: others note deadlines meanwhile, and ring nobody who spins.
                if now >= self.next_timer(handle) {
                    return Ok(Some(looked));
                }
                if park || now >= until {
                    return Ok(None);
                }
            }
            std::hint::spin_loop();
        }
    }

    /// Counts a look at what is there without the poller. Returns whether the poller is to be asked too: its
    /// turn comes by the looks of all waits, since most are over after one or two.
    fn is_poller_due(&mut self) -> bool {
        self.unasked += 1;
        self.unasked >= POLL_EVERY
    }

    fn ask_poller(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.unasked = 0;
        self.poller.wait(timeout, &mut self.ready)
    }

    /// Asks the poller, if that was a while ago: a caller that drives once in a while finds its reply without
    /// it, and would leave others waiting for many of its calls.
    pub(super) fn ask_overdue_poller(&mut self, now: Time) -> io::Result<()> {
        if self.unasked == 0 {
            self.asked_at = now;
        } else if now.since(self.asked_at) >= POLL_AFTER {
            self.asked_at = now;
            self.ask_poller(Some(Duration::ZERO))?;
        }
        Ok(())
    }

    /// Looks at links in memory so many times. Returns whether there is something.
    fn watch_awake(&mut self, looks: u32) -> bool {
        if self.is_all_quiet() {
            return false;
        }
        // A look at a device's queue takes as long as the pause that spares a core's other thread, and whoever
        // waits for a message would wait for the pause too.
        let pauses = !self.port.as_ref().is_some_and(|port| port.is_used());
        for _ in 0..looks {
            if self.look_at_awake() {
                return true;
            }
            if pauses {
                std::hint::spin_loop();
            }
        }
        false
    }

    /// Tries the few connections that had input in the last turn.
    fn receive_hot(&mut self, handle: &ReactorHandle) -> bool {
        if self.hot.len() > HOT_MAX {
            return false;
        }
        for at in 0..self.hot.len() {
            let index = self.hot[at];
            if let Some(received) = self.receive(handle, index) {
                self.received = Some((index, received));
                return true;
            }
        }
        self.run_out();
        false
    }

    /// Says that there is no input to those that had some in the last turn, once.
    fn run_out(&mut self) {
        if std::mem::replace(&mut self.hot_looked_at, true) {
            return;
        }
        for index in &self.hot {
            if let Some(Some(conversation)) = self.conversations.get(*index) {
                let session = &conversation.core.session;
                session.overlap.ran_out(session.send_credit.reserved());
            }
        }
    }

    /// Fills `ready` with the simulated links that are.
    fn look_around(&mut self) {
        for (index, listener) in self.listeners.iter().enumerate() {
            if matches!(listener, Listener::Sim(listener) if listener.is_ready()) {
                let token = Token(LISTENERS + index as u64);
                self.ready.push(Ready { token, readable: true, writable: false, told: true });
            }
        }
        for (index, conversation) in self.conversations.iter().enumerate() {
            let Some(conversation) = conversation else { continue };
            if let Link::Sim(link) = &conversation.core.link {
                let wants_room = conversation.core.is_blocked()
                    || matches!(conversation.phase, Phase::Connecting { .. });
                let (readable, writable) = (link.is_readable(), wants_room && link.is_writable());
                if readable || writable {
                    let token = Token(index as u64);
                    self.ready.push(Ready { token, readable, writable, told: true });
                }
            }
        }
    }
}
