//! Waiting for a time, by the clock of an endpoint.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::reactor::ReactorHandle;
use crate::time::Time;

/// Completes at a given time, or when the endpoint is shut down; see [`Endpoint::sleep_until`](super::Endpoint::sleep_until).
#[derive(Debug)]
pub struct Sleep {
    reactor: Arc<ReactorHandle>,
    at: Time,
    timer: Option<(Time, u64)>,
}

impl Sleep {
    pub(crate) fn new(reactor: &Arc<ReactorHandle>, at: Time) -> Self {
        Self { reactor: Arc::clone(reactor), at, timer: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(timer) = self.timer.take() {
            self.reactor.forget_timer(timer);
        }
        if self.reactor.common.clock.now() >= self.at {
            return Poll::Ready(());
        }
        self.timer = self.reactor.wake_at(self.at, context.waker().clone());
        if self.timer.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            self.reactor.forget_timer(timer);
        }
    }
}
