//! An attempt to connect, for which all who ask for the connection wait.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::catching;
use crate::connection::Connection;
use crate::error::ConnectError;
use crate::sync::Mutex;
use crate::sync::atomic::Ordering;

/// One attempt to connect, with all who wait for it.
#[derive(Debug, Default)]
pub(crate) struct Attempt {
    state: Mutex<AttemptState>,
}

#[derive(Debug, Default)]
struct AttemptState {
    outcome: Option<Result<Connection, ConnectError>>,
    waiting: Vec<Waker>,
}

impl Attempt {
    /// One that has led to `connection` already.
    pub(super) fn ended(connection: Connection) -> Self {
        let state = AttemptState { outcome: Some(Ok(connection)), waiting: Vec::new() };
        Self { state: Mutex::new(state) }
    }

    /// Whether it is under way, or led to a connection that can be used.
    pub(super) fn is_useful(&self) -> bool {
        match &self.state.lock().outcome {
            None => true,
            Some(Ok(connection)) => {
                connection.is_open() && !connection.core.retired.load(Ordering::SeqCst)
            }
            Some(Err(_)) => false,
        }
    }

    /// What it led to, if it has.
    pub(super) fn connection(&self) -> Option<Connection> {
        self.state.lock().outcome.clone()?.ok()
    }

    /// Ends the attempt, for all who wait for it.
    pub(super) fn finish(&self, outcome: Result<Connection, ConnectError>) {
        let waiting = {
            let mut state = self.state.lock();
            state.outcome.get_or_insert(outcome);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(catching::wake);
    }
}

/// Waits for an attempt to end.
pub(crate) struct Attempted<'a>(pub(crate) &'a Attempt);

impl Future for Attempted<'_> {
    type Output = Result<Connection, ConnectError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state.lock();
        match &state.outcome {
            Some(outcome) => Poll::Ready(outcome.clone()),
            None => {
                if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    state.waiting.push(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}
