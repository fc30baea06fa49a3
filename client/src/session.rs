//! Who this client is to the nodes, and which of its mutations is which, so that each has its effect once.
//!
//! A client that has a lease numbers its mutations, and sends one of which it does not know the outcome again under the same number:
//! nodes remember what they have done for it for as long as the lease lives (RIFL, SOSP '15). The client counts its lease from before it asked for it, less a
//! tenth, so that what it sends has arrived before nodes forget. Sequences go on from one lease to the next and are never used twice.
//!
//! Without I/O and without a clock; [`Core`](crate::core::Core) asks for leases.

mod window;

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weft_protocol::{Completion, CompletionId};
use weft_transport::Time;

use self::window::Window;

/// A client's lease and its mutations under way.
#[derive(Debug)]
pub(crate) struct Session {
    /// The client's number; 0 while it has none.
    client: AtomicU64,
    /// Until then mutations need no look at the lease, in nanoseconds.
    look_at: AtomicU64,
    /// When the lease is over.
    ends_at: AtomicU64,
    window: Window,
}

/// How a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// There is one, or nodes are known to give none: nothing is to be done.
    Good,
    /// There is one, and it is time to renew it.
    RenewalDue,
    /// There is none.
    Over,
}

/// The numbers of mutations under way: one, or as many as a multi-request has items. They are done when it is dropped.
///
/// Of a cluster that remembers nothing it has no numbers.
#[derive(Debug)]
pub(crate) struct Ticket<S: Deref<Target = Session>> {
    session: S,
    client: u64,
    sequence: u64,
    count: u64,
}

impl Session {
    /// No lease.
    pub(crate) fn new() -> Self {
        let [client, look_at, ends_at] = [const { AtomicU64::new(0) }; 3];
        Self { client, look_at, ends_at, window: Window::new() }
    }

    pub(crate) fn standing(&self, now: Time) -> Standing {
        let now = now.nanos();
        if now < self.look_at.load(Ordering::Acquire) {
            Standing::Good
        } else if now < self.ends_at.load(Ordering::Acquire) {
            Standing::RenewalDue
        } else {
            Standing::Over
        }
    }

    /// The client's number, if it has one.
    pub(crate) fn client(&self) -> Option<u64> {
        Some(self.client.load(Ordering::Relaxed)).filter(|client| *client != 0)
    }

    /// There is a lease for `client`, of so long, that was asked for at that time.
    pub(crate) fn opened(&self, client: u64, asked_at: Time, lease: Duration) {
        // In this order: whoever sees that there is a lease sees whose.
        self.client.store(client, Ordering::Relaxed);
        self.ends_at.store((asked_at + lease / 10 * 9).nanos(), Ordering::Release);
        self.look_at.store((asked_at + lease / 2).nanos(), Ordering::Release);
    }

    /// The lease was renewed, if it still is the client's.
    pub(crate) fn renewed(&self, client: u64, asked_at: Time, lease: Duration) {
        if self.client() == Some(client) {
            self.opened(client, asked_at, lease);
        }
    }

    /// Whether it is the caller who is to renew the lease, which is due. Nobody else is until `next`, if nothing comes of it.
    pub(crate) fn is_renewer(&self, now: Time, next: Time) -> bool {
        let look_at = self.look_at.load(Ordering::Acquire);
        let next = next.nanos().min(self.ends_at.load(Ordering::Acquire));
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        now.nanos() >= look_at
            && self.look_at.compare_exchange(look_at, next, success, failure).is_ok()
    }

    /// The lease could not be renewed, and is not tried again until `next`: it does until then, or to its end.
    pub(crate) fn not_renewed(&self, client: u64, next: Time) {
        if self.client() == Some(client) {
            let next = next.nanos().min(self.ends_at.load(Ordering::Acquire));
            self.look_at.fetch_max(next, Ordering::AcqRel);
        }
    }

    /// Nodes do not know `client` any more.
    pub(crate) fn lost(&self, client: u64) {
        if self.client() == Some(client) {
            self.look_at.store(0, Ordering::Release);
            self.ends_at.store(0, Ordering::Release);
        }
    }

    /// Nodes give no leases. They are asked again at that time.
    pub(crate) fn unsupported(&self, until: Time) {
        self.client.store(0, Ordering::Relaxed);
        self.ends_at.store(0, Ordering::Release);
        self.look_at.store(until.nanos(), Ordering::Release);
    }
}

/// Numbers for `count` mutations that begin now, if the lease needs no look and not too many are under way.
#[inline]
pub(crate) fn begin<S: Deref<Target = Session>>(
    session: S,
    count: u64,
    now: Time,
) -> Option<Ticket<S>> {
    if now.nanos() >= session.look_at.load(Ordering::Acquire) {
        return None;
    }
    let client = session.client.load(Ordering::Relaxed);
    let sequence = if client == 0 { 0 } else { session.window.take(count)? };
    Some(Ticket { session, client, sequence, count })
}

impl<S: Deref<Target = Session>> Ticket<S> {
    /// What the request says of itself.
    #[inline]
    pub(crate) fn completion(&self) -> Option<Completion> {
        let &Self { client, sequence, .. } = self;
        (client != 0).then(|| Completion {
            id: CompletionId { client, sequence },
            first_incomplete: self.session.window.first(),
        })
    }

    /// The client that it was taken for, if it has numbers.
    pub(crate) fn client(&self) -> Option<u64> {
        Some(self.client).filter(|client| *client != 0)
    }

    /// Whether the request may be sent at that time: nodes remember what it has done before.
    pub(crate) fn is_good(&self, now: Time) -> bool {
        let session = &*self.session;
        self.client == 0
            || (session.client() == Some(self.client) && session.standing(now) != Standing::Over)
    }

    /// Whether `next` is the number behind this one.
    pub(crate) fn is_followed_by(&self, next: &Self) -> bool {
        self.client == next.client && self.sequence + self.count == next.sequence
    }

    /// A ticket for each number.
    pub(crate) fn split(mut self) -> Vec<Self>
    where
        S: Clone,
    {
        let count = std::mem::take(&mut self.count);
        let one = |at| Self {
            session: self.session.clone(),
            client: self.client,
            sequence: self.sequence + at,
            count: 1,
        };
        (0..count).map(one).collect()
    }
}

impl<S: Deref<Target = Session>> Drop for Ticket<S> {
    #[inline]
    fn drop(&mut self) {
        if self.client != 0 {
            for sequence in self.sequence..self.sequence + self.count {
                self.session.window.complete(sequence);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::limits::SEQUENCES_MAX;

    const LEASE: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn completion(ticket: &Ticket<&Session>) -> (u64, u64, u64) {
        let Completion { id, first_incomplete } = ticket.completion().unwrap();
        (id.client, id.sequence, first_incomplete)
    }

    #[test]
    fn a_lease_is_renewed_in_time_and_ends_before_nodes_forget() {
        let session = Session::new();
        assert_eq!(session.standing(at(0)), Standing::Over);
        assert!(begin(&session, 1, at(0)).is_none());
        session.opened(7, at(10), LEASE);
        for (second, standing) in [
            (10, Standing::Good),
            (39, Standing::Good),
            (40, Standing::RenewalDue),
            (63, Standing::RenewalDue),
            (64, Standing::Over),
        ] {
            assert_eq!(session.standing(at(second)), standing, "{second}");
            assert_eq!(begin(&session, 1, at(second)).is_some(), standing == Standing::Good);
        }
        let ticket = begin(&session, 1, at(10)).unwrap();
        assert!(ticket.is_good(at(63)) && !ticket.is_good(at(64)));
        assert!(!session.is_renewer(at(39), at(45)));
        assert!(session.is_renewer(at(41), at(45)) && !session.is_renewer(at(42), at(46)));
        assert_eq!(session.standing(at(44)), Standing::Good);
        assert!(session.is_renewer(at(45), at(100)));
        assert_eq!(session.standing(at(64)), Standing::Over);
        session.renewed(7, at(50), LEASE);
        assert!(ticket.is_good(at(100)));
        session.renewed(8, at(90), LEASE);
        assert!(!ticket.is_good(at(104)), "it was another's");
    }

    #[test]
    fn numbers_go_on_in_the_next_lease() {
        let session = Session::new();
        session.opened(7, at(0), LEASE);
        let first = begin(&session, 1, at(1)).unwrap();
        let items = begin(&session, 3, at(1)).unwrap();
        assert_eq!((completion(&first), completion(&items)), ((7, 1, 1), (7, 2, 1)));
        session.lost(6);
        assert!(first.is_good(at(1)));
        session.lost(7);
        assert!(!first.is_good(at(1)) && begin(&session, 1, at(1)).is_none());
        session.opened(9, at(2), LEASE);
        assert!(!first.is_good(at(3)), "it is another client's");
        let next = begin(&session, 1, at(3)).unwrap();
        assert_eq!(completion(&next), (9, 5, 1));
        drop((first, items));
        let last = begin(&session, 1, at(3)).unwrap();
        assert_eq!((completion(&next), completion(&last)), ((9, 5, 5), (9, 6, 5)));
    }

    #[test]
    fn without_leases_there_are_no_numbers() {
        let session = Session::new();
        session.unsupported(at(10));
        let tickets: Vec<_> =
            (0..2 * SEQUENCES_MAX).map(|_| begin(&session, 1, at(9)).unwrap()).collect();
        assert!(tickets.iter().all(|ticket| ticket.completion().is_none()));
        assert!(tickets[0].is_good(at(100)));
        assert_eq!(session.standing(at(10)), Standing::Over);
    }

    #[test]
    fn items_are_done_one_by_one() {
        let session = Arc::new(Session::new());
        session.opened(7, at(0), LEASE);
        let begin_some = |count| begin(Arc::clone(&session), count, at(1));
        let mut items = begin_some(3).unwrap().split();
        assert!(items[0].is_followed_by(&items[1]) && !items[0].is_followed_by(&items[2]));
        drop(items.remove(1));
        assert!(begin_some(SEQUENCES_MAX).is_none());
        drop(items.remove(0));
        let first = |ticket: &Ticket<_>| ticket.completion().unwrap().first_incomplete;
        let next = begin_some(1).unwrap();
        assert_eq!((first(&items[0]), first(&next)), (3, 3));
        drop((items, next));
        assert!(begin_some(SEQUENCES_MAX).is_some());
    }
}
