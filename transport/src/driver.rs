//! Who drives a reactor: a caller that waits for its reply, or the endpoint's own thread.
//!
//! A caller that would only sleep until somebody else had received its reply does that itself
//! instead: it polls the links, hands out the replies of others, and passes the role on when its
//! own has come. So a lone caller has the latency of a bare socket, and a hundred callers share
//! one receive. While callers come and go, the endpoint's own thread stays out of the way; it takes
//! the role back when none has driven for a while, or when there is something that nobody drives.
//!
//! Who waits only for a time, or for another thread, [stands aside](aside) for those who wait for what a driver brings.

mod aside;
mod parker;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::local;
use crate::reactor::{ReactorHandle, Wait};
use crate::sync::atomic::Ordering;
use crate::sync::thread;

use parker::{Own, take_reliance};

pub(crate) use parker::{Parker, rely};

/// After this long without a caller that drives, the endpoint's own thread does again.
const CALLERS_GONE: Duration = Duration::from_millis(5);

/// Runs `future` on this thread, which drives `reactor` while it waits for what a driver brings, if nobody else
/// does.
pub(crate) fn block_on<F: Future>(reactor: &Arc<ReactorHandle>, future: F) -> F::Output {
    let mut future = pin!(future);
    let own = Own::take();
    let outer_relies = take_reliance();
    // What is polled once more may leave out what it waits for besides, so once is enough.
    let mut relies = false;
    let mut context = Context::from_waker(&own.waker);
    let mut caller = Caller::arrive(reactor, &own.parker);
    let output = loop {
        if own.parker.is_notified() {
            own.parker.notified.store(false, Ordering::SeqCst);
        }
        // Handlers that a turn has run rely on whoever drives.
        take_reliance();
        let polled = local::deferred(reactor, || future.as_mut().poll(&mut context));
        relies |= take_reliance();
        if let Poll::Ready(output) = polled {
            break output;
        }
        if relies {
            while !own.parker.is_notified() {
                caller.drive_or_park();
            }
        } else {
            drop(caller);
            aside::wait(reactor, &own.parker);
            caller = Caller::arrive(reactor, &own.parker);
        }
    };
    drop(caller);
    if outer_relies {
        rely();
    }
    own.keep();
    output
}

/// A thread in [`block_on`].
struct Caller<'a> {
    reactor: &'a Arc<ReactorHandle>,
    parker: &'a Arc<Parker>,
    /// The thread was on its way out already, for a reason of its own.
    was_panicking: bool,
}

impl<'a> Caller<'a> {
    fn arrive(reactor: &'a Arc<ReactorHandle>, parker: &'a Arc<Parker>) -> Self {
        reactor.callers.fetch_add(1, Ordering::SeqCst);
        Self { reactor, parker, was_panicking: std::thread::panicking() }
    }

    fn drive_or_park(&self) {
        let Self { reactor, parker, .. } = self;
        self.answer_offer();
        if drive(reactor, parker) {
            return;
        }
        if reactor.own_drives.load(Ordering::SeqCst) || reactor.aside_drives.load(Ordering::SeqCst)
        {
            reactor.interrupt_driver();
        }
        self.park();
    }

    /// Sleeps until it is notified, or offered the role; not if nobody drives.
    fn park(&self) {
        let Self { reactor, parker, .. } = self;
        parker.parked.store(true, Ordering::SeqCst);
        if !parker.listed.swap(true, Ordering::SeqCst) {
            reactor.waiting.lock().push(Arc::clone(parker));
        }
        // The driver may have passed the role on before this thread was on the list.
        if !parker.notified.load(Ordering::SeqCst) && reactor.state.is_locked() {
            thread::park();
        }
        parker.parked.store(false, Ordering::SeqCst);
    }

    /// Takes up an offer of the role, one way or the other: others may be offered it again.
    fn answer_offer(&self) {
        let offered = &self.parker.offered;
        if offered.load(Ordering::SeqCst) && offered.swap(false, Ordering::SeqCst) {
            self.reactor.offered.store(false, Ordering::SeqCst);
        }
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.answer_offer();
        let Self { reactor, parker, .. } = &*self;
        if parker.listed.load(Ordering::SeqCst) && parker.listed.swap(false, Ordering::SeqCst) {
            reactor.waiting.lock().retain(|listed| !Arc::ptr_eq(listed, parker));
        }
        if reactor.callers.fetch_sub(1, Ordering::SeqCst) == 1
            && reactor.relied_on.load(Ordering::SeqCst)
        {
            // The last caller leaves: calls of futures that run elsewhere need a driver at once,
            // and anything else can wait until the endpoint's own thread looks.
            reactor.relied_on.store(false, Ordering::SeqCst);
            let pending = reactor.state.try_lock().is_some_and(|state| state.has_pending_calls());
            if pending {
                reactor.find_driver();
            }
        }
        if reactor.stopping.load(Ordering::SeqCst) {
            // The role was this thread's, maybe, when the endpoint was shut down. What panics here has left a turn in the middle, maybe.
            match std::thread::panicking() && !self.was_panicking {
                true => reactor.let_go_at_once(),
                false => reactor.let_go(),
            };
        }
        pass_on(reactor);
    }
}

/// Takes the role of the driver, if it is free, for one turn. Whoever shuts the endpoint down meanwhile leaves it to
/// this thread to let go of everything.
fn drive(reactor: &Arc<ReactorHandle>, parker: &Parker) -> bool {
    let Some(mut state) = reactor.state.try_lock() else { return false };
    // Nobody else writes it: this thread holds the role.
    let drives = reactor.drives.load(Ordering::Relaxed);
    reactor.drives.store(drives.wrapping_add(1), Ordering::Relaxed);
    reactor.last_driver.store(parker.id(), Ordering::Relaxed);
    reactor.turn(&mut state, Wait::Caller(parker));
    drop(state);
    if reactor.stopping.load(Ordering::SeqCst) && reactor.members.lock().is_empty() {
        reactor.let_go();
    }
    if parker.is_notified() && reactor.callers.load(Ordering::SeqCst) > 1 {
        // The future may keep this thread for a while, and somebody else waits.
        pass_on(reactor);
    }
    true
}

/// Offers the role to a caller that waits for its reply. Whoever has held the lock on the reactor
/// and lets go of it for longer than a moment does this.
pub(crate) fn pass_on(reactor: &ReactorHandle) {
    if reactor.callers.load(Ordering::SeqCst) == 0
        || reactor.state.is_locked()
        || reactor.offered.swap(true, Ordering::SeqCst)
    {
        // Nobody waits, or somebody drives or is about to, and passes the role on in their turn.
        return;
    }
    loop {
        let Some(next) = reactor.waiting.lock().pop() else {
            reactor.offered.store(false, Ordering::SeqCst);
            return;
        };
        next.listed.store(false, Ordering::SeqCst);
        if !next.notified.load(Ordering::SeqCst) && next.parked.load(Ordering::SeqCst) {
            next.offered.store(true, Ordering::SeqCst);
            return next.thread.unpark();
        }
    }
}

/// The endpoint's own thread, which says when it ends, whatever it ends by.
struct OwnThread<'a>(&'a Arc<ReactorHandle>);

impl Drop for OwnThread<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.note_panic();
        }
        self.0.note_end();
    }
}

/// What the endpoint's own thread does until the endpoint is shut down.
pub(crate) fn run_own_thread(reactor: &Arc<ReactorHandle>) {
    let _own = OwnThread(reactor);
    while !reactor.stopping.load(Ordering::SeqCst) {
        if reactor.callers.load(Ordering::SeqCst) > 0 {
            wait_until_wanted(reactor);
        }
        // Those who are there have something else to do.
        let callers = reactor.callers.load(Ordering::SeqCst);
        // Not waited for: who drives may do so for as long as it likes, and whoever shuts the endpoint down waits for
        // this thread. The last caller finds it again, should somebody need a driver by then.
        let Some(mut state) = reactor.state.try_lock() else {
            reactor.relied_on.store(true, Ordering::SeqCst);
            thread::yield_now();
            continue;
        };
        reactor.own_drives.store(true, Ordering::SeqCst);
        reactor.interrupt.store(false, Ordering::SeqCst);
        // A caller that has interrupted may be gone by now; as long as that stands, a turn asks no poller.
        while reactor.callers.load(Ordering::SeqCst) <= callers
            && !reactor.interrupt.load(Ordering::SeqCst)
            && !reactor.stopping.load(Ordering::SeqCst)
        {
            reactor.turn(&mut state, Wait::Own);
        }
        reactor.own_drives.store(false, Ordering::SeqCst);
        drop(state);
        pass_on(reactor);
    }
    // Here, so that an endpoint with several reactors waits for the peers of all of them at once.
    reactor.let_go();
}

/// Stays out of the way of callers, until none has driven for a while or, if there are none, somebody needs a
/// driver. The futures of those who are there may keep their threads, or be polled again and again.
#[expect(
    clippy::disallowed_methods,
    reason = "the thread around the reactor waits, not the reactor"
)]
fn wait_until_wanted(reactor: &ReactorHandle) {
    loop {
        let drives = reactor.drives.load(Ordering::Relaxed);
        thread::park_timeout(CALLERS_GONE);
        let wanted = reactor.own_wanted.swap(false, Ordering::SeqCst);
        let quiet = reactor.drives.load(Ordering::Relaxed) == drives;
        let callers = reactor.callers.load(Ordering::SeqCst);
        // A driver may sleep in the poller for as long as it likes.
        if quiet && !reactor.state.is_locked()
            || callers == 0 && (quiet || wanted)
            || reactor.stopping.load(Ordering::SeqCst)
        {
            return;
        }
    }
}
