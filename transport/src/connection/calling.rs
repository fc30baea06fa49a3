//! One call, from its request to its reply.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use crate::body::Body;
use crate::error::{Applied, CallError};
use crate::frame::frame_len;
use crate::limits::MESSAGE_MAX;
use crate::local;
use crate::reply::Reply;
use crate::session::call::{Refused, Wait};
use crate::time::Time;

use super::Connection;
use super::outstanding::Outstanding;

/// Calls the peer's handler; see [`Connection::call`]. Written by hand, as [`Sending`](super::Sending) is: an `async fn` moves the
/// request through memory several times, in pieces of other lengths than it was written in, which the processor
/// waits for.
#[must_use = "futures do nothing unless polled"]
pub struct Calling<'a, B> {
    connection: &'a Connection,
    wait: Wait,
    state: State<'a, B>,
}

enum State<'a, B> {
    /// The request, until it is written.
    Unsent(Option<B>),
    Sent(Outstanding<'a>),
    /// Something had to be waited for before it could be written.
    Slow(Pin<Box<dyn Future<Output = Result<Reply, CallError>> + Send + 'a>>),
    /// It is over: nothing is held any more.
    Over,
}

/// Nothing is pinned: the body is moved out when it is written.
impl<B> Unpin for Calling<'_, B> {}

impl<'a, B: Body + 'a> Calling<'a, B> {
    #[inline]
    pub(super) fn new(connection: &'a Connection, body: B, deadline: Time) -> Self {
        Self { connection, wait: deadline.into(), state: State::Unsent(Some(body)) }
    }

    /// The same call, which is polled once more at that time, or soon after, if there is no reply by then. Whoever polls it can see then to what
    /// may be the matter, and goes on waiting.
    #[must_use = "futures do nothing unless polled"]
    #[inline]
    pub fn woken_at(mut self, at: Time) -> Self {
        self.wait.wake_at = at.min(self.wait.deadline);
        self
    }

    /// Sends the request, unless something has to be waited for. Returns the state that comes next.
    #[inline]
    fn send(&mut self, waker: &Waker) -> Result<Option<State<'a, B>>, CallError> {
        let State::Unsent(body) = &mut self.state else { return Ok(None) };
        let (connection, wait) = (self.connection, self.wait);
        let (core, class) = (&connection.core, connection.class);
        let len = body.as_ref().map_or(0, Body::len);
        if len > MESSAGE_MAX || !local::try_reserve(core, class, frame_len(len)) {
            return Ok(Some(Self::slow(connection, body.take(), wait)));
        }
        let key = match core.session.calls.begin(class, None) {
            Ok(key) => key,
            Err(Refused::Closed(reason)) => {
                return Err(CallError::Disconnected { applied: Applied::No, reason });
            }
            Err(Refused::Full) => {
                core.give_back(class, len);
                return Ok(Some(Self::slow(connection, body.take(), wait)));
            }
        };
        let call = (key, class, wait);
        let sent = Outstanding::send(Cow::Borrowed(core), call, body, len, waker)?;
        Ok(Some(State::Sent(sent)))
    }

    #[cold]
    fn slow(connection: &'a Connection, body: Option<B>, wait: Wait) -> State<'a, B> {
        let body = body.expect("a request that is not sent is there");
        let call = async move {
            let mut call = connection.begin(body, wait.deadline).await?;
            poll_fn(|context| call.poll_reply(context.waker())).await
        };
        if wait.wake_at >= wait.deadline {
            return State::Slow(Box::pin(call));
        }
        let mut timer = Some(connection.sleep_until(wait.wake_at));
        State::Slow(Box::pin(async move {
            let mut call = pin!(call);
            poll_fn(|context| {
                if timer.as_mut().is_some_and(|timer| Pin::new(timer).poll(context).is_ready()) {
                    timer = None;
                }
                call.as_mut().poll(context)
            })
            .await
        }))
    }
}

impl<'a, B: Body + 'a> Future for Calling<'a, B> {
    type Output = Result<Reply, CallError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.send(context.waker()) {
            Ok(None) => {}
            Ok(Some(state)) => self.state = state,
            Err(error) => {
                self.state = State::Over;
                return Poll::Ready(Err(error));
            }
        }
        let polled = match &mut self.state {
            State::Sent(call) => call.poll_reply(context.waker()),
            State::Slow(call) => call.as_mut().poll(context),
            State::Unsent(_) => unreachable!("it is sent, or waits for that"),
            State::Over => panic!("a call is polled after it was over"),
        };
        if polled.is_ready() {
            self.state = State::Over;
        }
        polled
    }
}

impl<B> fmt::Debug for Calling<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calling")
            .field("connection", &self.connection)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
