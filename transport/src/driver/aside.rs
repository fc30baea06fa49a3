//! Those in [`block_on`](super::block_on) who wait only for a time, or for another thread: they drive for as long as
//! nobody does who waits for what a driver brings.
//!
//! They would take the role from a caller whenever that is between two calls, and bring it its replies by way
//! of the scheduler from then on: five microseconds for each, where shared memory needs less than one. So they give
//! way to callers, as the endpoint's own thread does, and take the role back only when none has driven for a
//! while. What comes meanwhile waits for no longer than that.

use std::sync::Arc;
use std::time::Duration;

use super::{Caller, Parker};
use crate::reactor::{ReactorHandle, Wait};
use crate::sync::atomic::Ordering;
use crate::sync::thread;

/// After this long without a caller that drives, who stands aside does; of callers that go on driving, it is twice
/// as long each time, ...
const PAUSE_MIN: Duration = Duration::from_micros(100);

/// ... up to this.
const PAUSE_MAX: Duration = Duration::from_millis(2);

/// Of who waits for something else when the endpoint has ended.
const PAUSE_ABANDONED: Duration = Duration::from_secs(1);

/// Has driven last: a caller, or who was there to be interrupted by one.
const SOMEBODY_ELSE: usize = 1;

/// Waits until `parker` is notified.
pub(super) fn wait(reactor: &Arc<ReactorHandle>, parker: &Arc<Parker>) {
    let (mut pause, mut seen) = (PAUSE_MIN, None);
    while !parker.is_notified() {
        if reactor.is_abandoned() {
            // There is nothing to drive, and timers have ended or are about to.
            park(parker, PAUSE_ABANDONED);
            continue;
        }
        let last = reactor.last_driver.load(Ordering::Relaxed);
        let drives = reactor.drives.load(Ordering::Relaxed);
        let (now, until) = (reactor.common.clock.now(), reactor.next_deadline());
        let is_quiet = last == 0 || last == parker.id() || seen == Some(drives);
        if (is_quiet || now >= until) && drive(reactor, parker) {
            (pause, seen) = (PAUSE_MIN, None);
            continue;
        }
        // Whoever drives finds the timers that have come.
        let timeout = if now < until { pause.min(until.since(now)) } else { pause };
        if seen.replace(drives).is_some() {
            pause = (2 * pause).min(PAUSE_MAX);
        }
        park(parker, timeout);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the thread around the reactor waits, not the reactor"
)]
fn park(parker: &Parker, timeout: Duration) {
    parker.parked.store(true, Ordering::SeqCst);
    if !parker.is_notified() {
        thread::park_timeout(timeout);
    }
    parker.parked.store(false, Ordering::SeqCst);
}

/// Drives until `parker` is notified or a caller interrupts. Returns false if the role is that of somebody else
/// who waits.
fn drive(reactor: &Arc<ReactorHandle>, parker: &Arc<Parker>) -> bool {
    // For as long as it drives, it counts as one: the endpoint's own thread stays out of the way.
    let caller = Caller::arrive(reactor, parker);
    let callers = reactor.callers.load(Ordering::SeqCst);
    let mut state = loop {
        caller.answer_offer();
        if let Some(state) = reactor.state.try_lock() {
            break state;
        }
        if parker.is_notified() || !reactor.own_drives.load(Ordering::SeqCst) {
            return false;
        }
        reactor.interrupt_driver();
        caller.park();
    };
    // Whoever sees that this thread drives may interrupt it, from before the first turn on.
    reactor.interrupt.store(false, Ordering::SeqCst);
    reactor.aside_drives.store(true, Ordering::SeqCst);
    reactor.last_driver.store(parker.id(), Ordering::Relaxed);
    let is_over = || {
        parker.is_notified()
            || reactor.interrupt.load(Ordering::SeqCst)
            || reactor.callers.load(Ordering::SeqCst) > callers
            || reactor.stopping.load(Ordering::SeqCst)
    };
    loop {
        // One turn at least: deadlines may have come.
        let wait = if is_over() { Wait::Poll } else { Wait::Aside(parker) };
        reactor.turn(&mut state, wait);
        if is_over() {
            break;
        }
    }
    reactor.aside_drives.store(false, Ordering::SeqCst);
    if !parker.is_notified() {
        reactor.last_driver.store(SOMEBODY_ELSE, Ordering::Relaxed);
    }
    drop(state);
    if reactor.stopping.load(Ordering::SeqCst) && reactor.members.lock().is_empty() {
        reactor.let_go();
    }
    true
}
