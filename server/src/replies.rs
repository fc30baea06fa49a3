//! How the request at hand is answered: at once, or when what the answer tells of is committed.
//!
//! Operations note what their answer [depends on](Replies::depends_on) and give it as if it went at once. Where something is not committed
//! yet, the answer is written down instead and [waits](crate::withheld).

use std::time::Duration;

use weft_protocol::{ErrorCode, ErrorReply, Version};
use weft_transport::{Batch, Body, CallId, Clock, Incoming, Responder, Shared, Time};

use crate::partitions::Committed;
use crate::withheld::{Answer, Awaited};

/// How long ago the system's last tick may have been.
const TICK: Duration = Duration::from_millis(20);

/// The replies to a batch.
pub(crate) struct Replies<'n, 'b, 'f> {
    pub(crate) batch: &'b mut Batch<'f>,
    clock: &'n Clock,
    /// The request at hand.
    incoming: Option<Incoming<'f>>,
    /// What its answer tells of and is not committed yet.
    awaited: Vec<Awaited>,
    /// Its answer, which waits for that.
    answer: Option<Answer>,
}

impl<'n, 'b, 'f> Replies<'n, 'b, 'f> {
    pub(crate) fn new(batch: &'b mut Batch<'f>, clock: &'n Clock) -> Self {
        Replies { batch, clock, incoming: None, awaited: Vec::new(), answer: None }
    }

    /// Another request is at hand.
    #[inline]
    pub(crate) fn begin(&mut self, incoming: Option<Incoming<'f>>) {
        self.incoming = incoming;
    }

    /// The answer to the request at hand tells what was read, of `version`, in a partition of which `committed` is. To be called when it was read.
    ///
    /// # Errors
    /// What to answer instead, if another node may be the partition's primary by now.
    #[inline]
    pub(crate) fn depends_on(
        &mut self,
        committed: Committed,
        version: Version,
    ) -> Result<(), ErrorReply<'static>> {
        // The time of the last tick costs a fifth of the time now.
        let until = committed.terms.until;
        if until != Time::MAX && self.clock.last_tick() + TICK >= until {
            return Err(ErrorReply::new(ErrorCode::NotServing));
        }
        self.depends_on_commit(committed, version);
        Ok(())
    }

    /// The answer tells of an entry of `version`, whoever is the primary when it is committed.
    #[inline]
    pub(crate) fn depends_on_commit(&mut self, committed: Committed, version: Version) {
        if committed.excludes(version) {
            self.awaits(committed, version.sequence());
        }
    }

    #[cold]
    fn awaits(&mut self, committed: Committed, sequence: u64) {
        let (position, depositions) = (committed.position, committed.terms.depositions);
        match self.awaited.iter_mut().find(|awaited| awaited.position == position) {
            // If it was deposed in between, what came first says so.
            Some(awaited) => awaited.sequence = sequence.max(awaited.sequence),
            None => self.awaited.push(Awaited { position, sequence, depositions }),
        }
    }

    /// Whether the answer has to wait.
    #[inline]
    pub(crate) fn has_to_wait(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// It does not tell of what was noted.
    pub(crate) fn depends_on_nothing(&mut self) {
        self.awaited.clear();
    }

    /// Answers `call`.
    #[inline]
    pub(crate) fn reply(&mut self, call: CallId, body: impl Body) {
        if self.awaited.is_empty() {
            self.batch.reply(call, body);
        } else {
            self.withhold(body, None);
        }
    }

    /// Answers `call` with `head`, which is copied, and `tail`, which is sent from where it lies.
    #[inline]
    pub(crate) fn reply_shared(&mut self, call: CallId, head: impl Body, tail: Shared) {
        if self.awaited.is_empty() {
            self.batch.reply_shared(call, head, tail);
        } else {
            self.withhold(head, Some(tail));
        }
    }

    /// What answers the request at hand later; the first time.
    pub(crate) fn responder(&mut self) -> Responder {
        let incoming = self.incoming.as_mut().expect("a request is at hand");
        incoming.responder().expect("it is a call, and nobody has taken it yet")
    }

    #[cold]
    fn withhold(&mut self, body: impl Body, tail: Option<Shared>) {
        let responder = self.responder();
        match Answer::write(self.batch.memory(), responder, body, tail) {
            Ok(answer) => self.answer = Some(answer),
            // Its caller learns that there is no answer, and asks again.
            Err(_) => self.awaited.clear(),
        }
    }

    /// Takes the memory of [`take_waiting`](Self::take_waiting) back, for the next answer that has to wait.
    pub(crate) fn reuse(&mut self, mut awaited: Vec<Awaited>) {
        awaited.clear();
        self.awaited = awaited;
    }

    /// The answer that has to wait, and for what.
    pub(crate) fn take_waiting(&mut self) -> Option<(Answer, Vec<Awaited>)> {
        let answer = self.answer.take()?;
        Some((answer, std::mem::take(&mut self.awaited)))
    }
}
