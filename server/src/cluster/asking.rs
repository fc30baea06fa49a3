//! Asking the coordinators from within this node: whoever wants to know leaves a question to the node's agent, and is told.

use std::fmt;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::coordination::Coordination;
use crate::coordinator::{Answer, Ask};
use crate::handler::NodeHandler;

/// What tells somebody an answer once: [`Answer::Unavailable`] if it is dropped before, since nobody else would then.
struct Told<F: FnOnce(Answer)>(Option<F>);

impl NodeHandler {
    /// Has the coordinators asked, and waits for as long as `patience`. [`Answer::Unavailable`] if nobody takes part in the cluster for this node, or if
    /// there is no answer in time: what was asked for may be done still.
    ///
    /// The future is for tokio's runtime, with its time.
    pub fn ask(&self, ask: Ask, patience: Duration) -> impl Future<Output = Answer> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        // Whoever does not wait any more is told nothing.
        self.coordination.ask_and_tell(ask, move |answer| drop(sender.send(answer)));
        async move {
            match timeout(patience, receiver).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) | Err(_) => Answer::Unavailable,
            }
        }
    }
}

impl Coordination {
    /// Has the coordinators asked. `tell` is called once, whatever happens: at once, if nobody takes part in the cluster for this node.
    pub(crate) fn ask_and_tell(&self, ask: Ask, tell: impl FnOnce(Answer) + Send + 'static) {
        let told = Told(Some(tell));
        let reply = Box::new(move |answer| told.tell(answer));
        // What is long of a question is a name or a list of members.
        let bytes = size_of::<Ask>() + size_of_val(&reply);
        // If it is not taken, it is dropped, and so told.
        drop(self.questions.put(bytes, (ask, reply)));
    }
}

impl<F: FnOnce(Answer)> Told<F> {
    fn tell(mut self, answer: Answer) {
        if let Some(tell) = self.0.take() {
            tell(answer);
        }
    }
}

impl<F: FnOnce(Answer)> Drop for Told<F> {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell(Answer::Unavailable);
        }
    }
}

impl<F: FnOnce(Answer)> fmt::Debug for Told<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").finish_non_exhaustive()
    }
}
