//! What is answered to those who wait for events, and when.

use std::task::{Poll, Waker};

use weft_protocol::{ErrorCode, ErrorReply};
use weft_transport::{Charge, Purpose, Responder, SendError, Time};

use super::{State, Waiting, Watches};
use crate::store::{Feed, FeedPage};

/// A reply that is due.
#[derive(Debug)]
#[must_use = "who waits is answered by sending it"]
pub struct Answer {
    responder: Responder,
    told: Result<FeedPage, ErrorReply<'static>>,
    /// Of the events, until they are written to what is sent: a peer that takes no replies may ask again and again.
    _charge: Option<Charge>,
}

impl Answer {
    pub(super) fn no_events(responder: Responder, received: u64) -> Answer {
        Answer { responder, told: Ok(Feed::no_events(received)), _charge: None }
    }

    pub(super) fn error(responder: Responder, code: ErrorCode) -> Answer {
        Answer { responder, told: Err(ErrorReply::new(code)), _charge: None }
    }

    /// Sends it. Waits for the peer's window.
    ///
    /// # Errors
    /// See [`SendError`]: nobody waits any more. The watch knows nothing of it, and its client will ask again.
    pub async fn send(self) -> Result<(), SendError> {
        match &self.told {
            Ok(page) => self.responder.reply(page.reply()).await,
            Err(error) => self.responder.reply(error).await,
        }
    }
}

impl Watches {
    /// The answers that are due, and when the next wait is over. `answerer` is woken if one is due before.
    pub(crate) fn answers(&self, answerer: &Waker, now: Time) -> (Vec<Answer>, Option<Time>) {
        let due = self.bell.take(answerer);
        let mut state = self.state.lock();
        let mut answers = std::mem::take(&mut state.answers);
        let State { open, fell_behind, .. } = &mut *state;
        for id in due {
            // It may have ended, or have been answered at once.
            let Some(watch) = open.get_mut(&id) else { continue };
            let Some(waiting) = watch.waiting.take() else { continue };
            let Waiting { responder, received, .. } = waiting;
            let Ok(charge) = self.memory.charge(watch.page_bytes_max(), Purpose::Send) else {
                // Its client will ask again, and lose nothing.
                answers.push(Answer::no_events(responder, received));
                continue;
            };
            match watch.poll(received, fell_behind) {
                Poll::Ready(told) => {
                    watch.asked_at = now;
                    answers.push(Answer { responder, told, _charge: Some(charge) });
                }
                Poll::Pending => {
                    watch.waiting = Some(Waiting { responder, received, until: waiting.until });
                }
            }
        }
        if state.next_wait_ends.is_some_and(|ends| ends <= now) {
            state.end_waits(now, &mut answers);
        }
        (answers, state.next_wait_ends)
    }
}

impl State {
    /// Answers those who have waited for long enough that there is nothing, and finds out who is next.
    fn end_waits(&mut self, now: Time, answers: &mut Vec<Answer>) {
        self.next_wait_ends = None;
        for watch in self.open.values_mut() {
            let is_over = |waiting: &mut Waiting| waiting.until <= now;
            if let Some(Waiting { responder, received, .. }) = watch.waiting.take_if(is_over) {
                watch.asked_at = now;
                answers.push(Answer::no_events(responder, received));
            }
            if let Some(Waiting { until, .. }) = watch.waiting
                && self.next_wait_ends.is_none_or(|ends| until < ends)
            {
                self.next_wait_ends = Some(until);
            }
        }
    }
}
