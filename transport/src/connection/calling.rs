//! One call, from its request to its reply.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::body::Body;
use crate::error::{Applied, CallError};
use crate::frame::frame_len;
use crate::limits::MESSAGE_MAX;
use crate::local;
use crate::reply::Reply;
use crate::session::call::Refused;
use crate::time::Time;

use super::Connection;
use super::outstanding::Outstanding;

/// Calls the peer's handler; see [`Connection::call`]. Written by hand, as [`Sending`](super::Sending) is: an `async fn` moves the
/// request through memory several times, in pieces of other lengths than it was written in, which the processor
/// waits for.
#[must_use = "futures do nothing unless polled"]
pub struct Calling<'a, B> {
    connection: &'a Connection,
    deadline: Time,
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
        Self { connection, deadline, state: State::Unsent(Some(body)) }
    }

    /// Sends the request, unless something has to be waited for. Returns the state that comes next.
    #[inline]
    fn send(&mut self, waker: &Waker) -> Result<Option<State<'a, B>>, CallError> {
        let State::Unsent(body) = &mut self.state else { return Ok(None) };
        let (connection, deadline) = (self.connection, self.deadline);
        let (core, class) = (&connection.core, connection.class);
        let len = body.as_ref().map_or(0, Body::len);
        if len > MESSAGE_MAX || !local::try_reserve(core, class, frame_len(len)) {
            return Ok(Some(Self::slow(connection, body.take(), deadline)));
        }
        let key = match core.session.calls.begin(class, None) {
            Ok(key) => key,
            Err(Refused::Closed(reason)) => {
                return Err(CallError::Disconnected { applied: Applied::No, reason });
            }
            Err(Refused::Full) => {
                core.give_back(class, len);
                return Ok(Some(Self::slow(connection, body.take(), deadline)));
            }
        };
        let call = (key, class, deadline);
        let sent = Outstanding::send(Cow::Borrowed(core), call, body, len, waker)?;
        Ok(Some(State::Sent(sent)))
    }

    #[cold]
    fn slow(connection: &'a Connection, body: Option<B>, deadline: Time) -> State<'a, B> {
        let body = body.expect("a request that is not sent is there");
        State::Slow(Box::pin(async move {
            let mut call = connection.begin(body, deadline).await?;
            poll_fn(|context| call.poll_reply(context.waker())).await
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
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
