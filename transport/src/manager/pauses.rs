//! Who waits for the end of the pause after a failure, or for a connection that comes about before that.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::sync::Mutex;

/// Those who wait, by the address that they wait for.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    state: Mutex<PausesState>,
}

#[derive(Debug, Default)]
struct PausesState {
    /// With a number that tells those apart who wait for the same address. Whose entry is gone waits no more.
    waiting: BTreeMap<(SocketAddr, u64), Waker>,
    begun: u64,
}

impl Pauses {
    /// One more who waits for `address` from now on.
    pub(super) fn begin(&self, address: SocketAddr) -> Pause<'_> {
        let mut state = self.state.lock();
        let key = (address, state.begun);
        state.begun += 1;
        state.waiting.insert(key, Waker::noop().clone());
        drop(state);
        Pause { pauses: self, key }
    }

    /// Ends the pauses of those who wait for `address`. They are to be woken when no lock is held any more.
    pub(super) fn end(&self, address: SocketAddr, wakers: &mut Vec<Waker>) {
        let mut state = self.state.lock();
        while let Some((key, _)) = state.waiting.range((address, 0)..=(address, u64::MAX)).next() {
            let key = *key;
            wakers.extend(state.waiting.remove(&key));
        }
    }
}

/// Completes when there is a connection to the address.
#[derive(Debug)]
pub(crate) struct Pause<'a> {
    pauses: &'a Pauses,
    key: (SocketAddr, u64),
}

impl Future for Pause<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.pauses.state.lock().waiting.get_mut(&self.key) {
            Some(waker) => {
                waker.clone_from(context.waker());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.pauses.state.lock().waiting.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn address(number: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, number], 7400))
    }

    #[test]
    fn those_who_wait_for_an_address_go_on_together_and_no_others() {
        let pauses = Pauses::default();
        let mut pauses_of = [1, 1, 2, 1].map(|number| pauses.begin(address(number)));
        assert!(pauses_of.iter_mut().all(|pause| pause.now_or_never().is_none()));
        let mut wakers = Vec::new();
        pauses.end(address(1), &mut wakers);
        assert_eq!(wakers.len(), 3);
        let is_over = pauses_of.each_mut().map(|pause| pause.now_or_never().is_some());
        assert_eq!(is_over, [true, true, false, true]);
        assert!(pauses.begin(address(1)).now_or_never().is_none(), "it has begun since");
    }

    #[test]
    fn who_has_gone_is_forgotten() {
        let pauses = Pauses::default();
        drop(pauses.begin(address(1)));
        assert!(pauses.state.lock().waiting.is_empty());
    }
}
