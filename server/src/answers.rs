//! Answers that are due: given at once where their peer has room, and else by the thread that waits for it.

use std::task::Waker;

use parking_lot::Mutex;
use weft_transport::{Body, Memory, Responder};

use crate::withheld::Answer;

/// The answers for which their peers have no room yet. How many there are, the windows bound by which their requests came.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    late: Mutex<Late>,
}

#[derive(Debug, Default)]
struct Late {
    answers: Vec<Answer>,
    /// Who sends them.
    waker: Option<Waker>,
}

impl Answers {
    /// Writes an answer and gives it, unless there is no memory for it: then its caller learns that there is none.
    pub(crate) fn write_and_give(&self, memory: &Memory, responder: Responder, body: impl Body) {
        if let Ok(answer) = Answer::write(memory, responder, body, None) {
            self.give(answer);
        }
    }

    /// Gives an answer. Waits for nobody; the caller may hold no partition.
    pub(crate) fn give(&self, answer: Answer) {
        let Err(answer) = answer.try_send() else { return };
        let mut late = self.late.lock();
        late.answers.push(answer);
        if let Some(waker) = late.waker.take() {
            drop(late);
            waker.wake();
        }
    }

    /// Takes those that are late. `sender` is woken when there are more.
    pub(crate) fn take_late(&self, sender: &Waker) -> Vec<Answer> {
        let mut late = self.late.lock();
        late.waker = Some(sender.clone());
        std::mem::take(&mut late.answers)
    }
}
