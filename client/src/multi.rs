//! Multi-operations: many keys, each with an outcome of its own, in the order in which they come.
//!
//! The keys are divided among their owners, every owner is asked at the same time, and what an owner
//! answers is handed out while the others are still at it. Of one owner, one request is under way at
//! a time: the next one goes out when the last part of the reply is in, which bounds what a node has
//! to hold for one client and keeps writes to one key in their order.

mod put_all;
mod run;
mod share;

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{Stream, StreamExt};
use weft_protocol::{ErrorReply, Outcome, ReplyError, Slot};
use weft_transport::{Body, Reply};

pub(crate) use self::put_all::put_all;
pub(crate) use self::run::run;

use crate::core::Heading;
use crate::error::ClientError;
use crate::retry::Effect;

/// The outcomes of a multi-operation: each with the position of its key in the caller's list, in the
/// order in which they come. Every key has one.
///
/// It is a [`Stream`], and has what is usually done with one. Its time begins when it is made, but
/// nothing is asked before it is polled. Dropping it gives up what has not come yet; of a mutation
/// that may have its effect nevertheless.
#[must_use = "nothing is asked before it is polled"]
pub struct Multi<'a, T> {
    outcomes: Pin<Box<dyn Stream<Item = MultiOutcome<T>> + Send + 'a>>,
    count: usize,
}

/// What came of the key at a position: its answer, or why there is none.
pub type MultiOutcome<T> = Result<(usize, T), (usize, ClientError)>;

impl<'a, T> Multi<'a, T> {
    /// The `count` outcomes that `outcomes` yields.
    pub(crate) fn new(
        outcomes: impl Stream<Item = MultiOutcome<T>> + Send + 'a,
        count: usize,
    ) -> Self {
        Self { outcomes: Box::pin(outcomes), count }
    }

    /// The next outcome, or nothing when every key has had its own.
    pub async fn next(&mut self) -> Option<MultiOutcome<T>> {
        self.outcomes.next().await
    }

    /// All outcomes, in the order of the keys.
    pub async fn collect(mut self) -> Vec<Result<T, ClientError>> {
        let mut outcomes: Vec<_> = (0..self.count).map(|_| None).collect();
        while let Some(outcome) = self.next().await {
            let (index, outcome) = match outcome {
                Ok((index, answer)) => (index, Ok(answer)),
                Err((index, error)) => (index, Err(error)),
            };
            outcomes[index] = Some(outcome);
        }
        outcomes.into_iter().map(|outcome| outcome.expect("every key has an outcome")).collect()
    }

    /// All answers in the order of the keys, or the first error that comes.
    ///
    /// # Errors
    /// The first that comes; what has not come by then is given up.
    pub async fn try_collect(mut self) -> Result<Vec<T>, ClientError> {
        let mut answers: Vec<_> = (0..self.count).map(|_| None).collect();
        while let Some(outcome) = self.next().await {
            let (index, answer) = outcome.map_err(|(_, error)| error)?;
            answers[index] = Some(answer);
        }
        Ok(answers.into_iter().map(|answer| answer.expect("every key has an outcome")).collect())
    }
}

impl<T> Stream for Multi<'_, T> {
    type Item = MultiOutcome<T>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().outcomes.as_mut().poll_next(context)
    }
}

impl<T> std::fmt::Debug for Multi<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Multi").field("count", &self.count).finish_non_exhaustive()
    }
}

/// A request for many keys: what a multi-operation's file says about it.
pub(crate) trait AskMany {
    /// One element of the request, for as long as its key and value live.
    type Element: Copy + Send + Sync;
    type Answer: Send;
    const EFFECT: Effect;

    fn slot(element: &Self::Element) -> Slot;

    /// A request for as many of the elements, from the first on, as fit; and how many these are.
    fn request(elements: &[Self::Element], heading: Heading) -> (impl Body, usize);

    /// Reads a part of the reply.
    fn answers<'r>(
        part: &'r Reply,
        take: impl FnMut(Answered<'r, Self::Answer>),
    ) -> Result<(), ReplyError<'r>>;
}

/// What a part says of the request's element at `index`.
pub(crate) struct Answered<'r, A> {
    index: usize,
    reading: Reading<'r, A>,
}

enum Reading<'r, A> {
    Answer(A),
    Unprocessed,
    Refused(ErrorReply<'r>),
}

impl<'r, A> Answered<'r, A> {
    pub(crate) fn new<R>(
        index: usize,
        outcome: Outcome<'r, R>,
        answer: impl FnOnce(R) -> A,
    ) -> Self {
        let reading = match outcome {
            Outcome::Done(reply) => Reading::Answer(answer(reply)),
            Outcome::Unprocessed => Reading::Unprocessed,
            Outcome::Failed(reply) => Reading::Refused(reply),
        };
        Self { index, reading }
    }
}
