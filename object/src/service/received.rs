//! References that others have passed or given to this side: how many of one peer's there may be, and their release.
//!
//! Whoever drops a proxy waits for nothing. What the window has no room for waits in a list, a peer's, whose length is
//! limited by what that may have given. It is its own waker, as a `Watch` is: room wakes it, and no thread waits.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use weft_transport::{Connection, SendError, Sleep};

use super::frame::{Outgoing, REGISTRY, RELEASE, Request};
use super::item::Plain;
use super::references::Holder;

/// When a release is sent again for which there was no memory, or that is left by a thread that ends.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Of all peers.
#[derive(Default)]
pub(super) struct Received {
    givers: Mutex<HashMap<Holder, Arc<Giver>>>,
}

impl Received {
    /// One more that was given by `connection`.
    pub(super) fn add(&self, connection: &Connection) -> Arc<Giver> {
        self.add_within(connection, usize::MAX).expect("as many as there can be")
    }

    /// The same, unless the peer has given `limit` that are not released.
    pub(super) fn add_within(&self, connection: &Connection, limit: usize) -> Option<Arc<Giver>> {
        let holder = Holder::of(connection.peer());
        let mut givers = self.givers.lock();
        if let Some(giver) = givers.get(&holder) {
            return giver.add(limit).then(|| Arc::clone(giver));
        }
        let giver = Arc::<Giver>::default();
        giver.add(limit).then(|| {
            // Now and then, since each takes some bytes: of the others of which nothing is left.
            givers.retain(|_, giver| Arc::strong_count(giver) > 1);
            givers.insert(holder, Arc::clone(&giver));
            giver
        })
    }
}

/// What one peer has given: one life of a node, by whichever connection.
#[derive(Default)]
pub(super) struct Giver {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// References that are held, or wait to be released.
    count: usize,
    /// Those that wait, and by which connection they came.
    releases: VecDeque<(u64, Connection)>,
    turn: Turn,
    /// For a thread that can send, or for memory.
    sleep: Option<Sleep>,
}

/// Who sends: one at a time, and not under the lock, since to send may wake whoever waits for window.
#[derive(Clone, Copy, Default, PartialEq)]
enum Turn {
    #[default]
    Nobody,
    Somebody,
    /// And there is reason to try once more.
    Again,
}

impl Giver {
    fn add(&self, limit: usize) -> bool {
        let mut state = self.state.lock();
        let is_room = state.count < limit;
        state.count += usize::from(is_room);
        is_room
    }

    /// Gives one back that came by `connection`, now or when there is window for that. If that has ended for good, so has the reference.
    pub(super) fn release(self: &Arc<Self>, connection: &Connection, id: u64) {
        let by = used(connection);
        let mut state = self.state.lock();
        match by {
            Some(by) => state.releases.push_back((id, by)),
            None => state.count -= 1,
        }
        drop(state);
        self.send();
    }

    /// Sends what waits, as far as there is window.
    fn send(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.turn != Turn::Nobody {
            state.turn = Turn::Again;
            return;
        }
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        loop {
            state.turn = Turn::Somebody;
            let Some((id, connection)) = state.releases.front().cloned() else {
                state.turn = Turn::Nobody;
                return;
            };
            drop(state);
            let sent = send_one(&connection, id, &mut context);
            let (successor, sleep, waits) = match sent {
                Sent::Done => (None, None, false),
                Sent::Ended => (connection.successor(), None, false),
                Sent::Waits(sleep) => (None, sleep, true),
            };
            state = self.state.lock();
            if !waits {
                state.settle_first(successor);
            }
            let before = std::mem::replace(&mut state.sleep, sleep);
            let is_over = waits && state.turn != Turn::Again;
            if is_over {
                state.turn = Turn::Nobody;
            }
            drop(state);
            // Not under the lock: the last to hold a connection ends much.
            drop((before, connection));
            if is_over {
                return;
            }
            state = self.state.lock();
        }
    }
}

impl State {
    /// The first is sent by the connection that has taken the place of its own, or is done with.
    fn settle_first(&mut self, successor: Option<Connection>) {
        match successor {
            Some(successor) => self.releases[0].1 = successor,
            None => self.count -= usize::from(self.releases.pop_front().is_some()),
        }
        if self.releases.is_empty() {
            self.releases.shrink_to(16);
        }
    }
}

impl Wake for Giver {
    fn wake(self: Arc<Self>) {
        self.send();
    }
}

/// The connection itself, or the one that it has made way for.
fn used(connection: &Connection) -> Option<Connection> {
    if connection.is_open() { Some(connection.clone()) } else { connection.successor() }
}

enum Sent {
    Done,
    Ended,
    /// For window, or for this.
    Waits(Option<Sleep>),
}

/// A reference that is given back: a message, which nobody waits for.
fn release(id: u64) -> Outgoing<'static, Plain<u64>> {
    let request = Request { object: REGISTRY, method: RELEASE };
    Outgoing { request, items: Plain(id), written: None }
}

fn send_one(connection: &Connection, id: u64, context: &mut Context<'_>) -> Sent {
    if Connection::is_thread_ending() {
        return sleep(connection, context);
    }
    match Pin::new(&mut connection.send(release(id))).poll(context) {
        Poll::Ready(Ok(())) => Sent::Done,
        Poll::Ready(Err(SendError::Memory(_))) => sleep(connection, context),
        Poll::Ready(Err(_)) => Sent::Ended,
        Poll::Pending => Sent::Waits(None),
    }
}

/// Has it tried again, by whoever drives the connection.
fn sleep(connection: &Connection, context: &mut Context<'_>) -> Sent {
    // A thread that was stopped may be late. An endpoint that is shut down has no timers.
    for _ in 0..4 {
        let mut sleep = connection.sleep_until(connection.clock().now() + AGAIN_AFTER);
        if Pin::new(&mut sleep).poll(context).is_pending() {
            return Sent::Waits(Some(sleep));
        }
    }
    Sent::Ended
}

/// Gives one back that is not counted, if there is window for that.
pub(super) fn release_now(connection: &Connection, id: u64) {
    if !Connection::is_thread_ending() {
        let mut context = Context::from_waker(Waker::noop());
        let sent = Pin::new(&mut connection.send(release(id))).poll(&mut context);
        // Otherwise it ends with its connection.
        let _ = sent.is_ready();
    }
}

impl fmt::Debug for Giver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Giver")
            .field("references", &self.state.lock().count)
            .finish_non_exhaustive()
    }
}
