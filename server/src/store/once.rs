//! Mutations that take effect once, however often they are asked for.

use weft_protocol::{CompletionId, Version};
use weft_transport::MemoryError;

use super::completion_record as record;
use super::completions::{Attempt, NoRoom, Recalled};
use super::error::StoreError;
use super::outcome::{Answer, Outcome, Refusal};
use super::partition::Partition;
use super::planted::PlantedBug;

/// The answer to a mutation.
#[derive(Clone, Copy, Debug)]
pub struct Once<T> {
    /// What the client is to be told: what was done, or why nothing was done and never will be.
    pub answer: Result<T, Refusal>,
    /// The version that has to be committed before the client may be told.
    pub version: Version,
    /// Whether this is what came of an earlier attempt.
    pub is_repeated: bool,
}

/// Why a mutation was not tried, or had no outcome. Nothing is remembered of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError {
    /// It was refused, and may be tried again.
    #[error("{0}")]
    Refused(StoreError),
    /// The client has said that it has had the answer.
    #[error(
        "repeat a request whose answer was received: the client waits for {first_incomplete} and later ones"
    )]
    Forgotten {
        /// The first mutation that the client waits for.
        first_incomplete: u64,
    },
    /// Too many outcomes are remembered already, of this client or of all.
    #[error("remember the outcome of a request: {limit} are remembered already; wait for answers")]
    TooManyOutcomes {
        /// So many.
        limit: usize,
    },
    /// The number was another kind of request's, or the value that it returned is not kept any more.
    #[error(
        "answer a request again: another kind of request had its number, or its answer is lost"
    )]
    AnswerLost,
}

impl From<StoreError> for OnceError {
    fn from(error: StoreError) -> OnceError {
        OnceError::Refused(error)
    }
}

impl From<MemoryError> for OnceError {
    fn from(error: MemoryError) -> OnceError {
        OnceError::Refused(StoreError::MemoryLimit(error))
    }
}

impl From<NoRoom> for OnceError {
    fn from(error: NoRoom) -> OnceError {
        match error {
            NoRoom::Memory(error) => error.into(),
            NoRoom::Full { limit } => OnceError::TooManyOutcomes { limit },
        }
    }
}

impl Partition {
    /// Has `mutate` make one change, and remembers what came of it, or answers as it did the first time. With no `attempt`, nothing is
    /// remembered.
    ///
    /// Change and completion are one entry. If there was no change, the completion is one: what the client is told then has to stay true
    /// as well.
    ///
    /// # Errors
    /// Any [`OnceError`]; nothing has changed then.
    #[inline]
    pub fn once<T: Answer>(
        &mut self,
        attempt: Option<Attempt>,
        mutate: impl FnOnce(&mut Partition) -> Result<T, StoreError>,
    ) -> Result<Once<T>, OnceError> {
        let Some(attempt) = attempt else {
            let answer = mutate(self)?;
            return Ok(Once { answer: Ok(answer), version: self.version, is_repeated: false });
        };
        match self.completions.recall(attempt) {
            Recalled::New => {}
            Recalled::Done(..) if self.planted.has(PlantedBug::RepeatRequests) => {}
            Recalled::Done(Outcome::Refused(refusal), version) => {
                return Ok(Once { answer: Err(*refusal), version, is_repeated: true });
            }
            Recalled::Done(outcome, version) => {
                let answer = T::again(outcome, &self.memory)?.ok_or(OnceError::AnswerLost)?;
                return Ok(Once { answer: Ok(answer), version, is_repeated: true });
            }
            Recalled::Forgotten { first_incomplete } => {
                return Err(OnceError::Forgotten { first_incomplete });
            }
        }
        // All that could be missing for the completion comes before the change.
        let next = self.next_version()?;
        self.completions.reserve(attempt, 0)?;
        let (answer, outcome) = match mutate(self) {
            Ok(answer) => {
                let outcome = answer.outcome();
                (Ok(answer), outcome)
            }
            Err(error) => {
                let refusal = Refusal::of(&error).ok_or(error)?;
                (Err(refusal), Outcome::Refused(refusal))
            }
        };
        self.complete(attempt, next, outcome);
        Ok(Once { answer, version: next, is_repeated: false })
    }

    /// Sees to it that a mutation which was refused for want of room never takes effect: who gives up and tells the client so has to.
    ///
    /// # Errors
    /// Any [`OnceError`] but that it was done before.
    pub fn give_up(&mut self, attempt: Attempt) -> Result<Version, OnceError> {
        match self.completions.recall(attempt) {
            Recalled::New => {}
            Recalled::Done(_, version) => return Ok(version),
            Recalled::Forgotten { first_incomplete } => {
                return Err(OnceError::Forgotten { first_incomplete });
            }
        }
        let next = self.next_version()?;
        self.completions.reserve(attempt, 0)?;
        self.complete(attempt, next, Outcome::Refused(Refusal::GivenUp));
        Ok(next)
    }

    /// What is known of a mutation.
    pub fn recall(&self, attempt: Attempt) -> Recalled<'_> {
        self.completions.recall(attempt)
    }

    /// Forgets a client whose lease the coordinator has ended. It is an entry; nothing happens if the client is not known.
    ///
    /// # Errors
    /// [`StoreError::VersionsExhausted`].
    pub fn end_client(&mut self, client: u64) -> Result<(), StoreError> {
        if !self.completions.has_client(client) {
            return Ok(());
        }
        let version = self.next_version()?;
        self.completions.end(client);
        self.version = version;
        if let Some(recording) = &mut self.recording {
            recording.completion(version, client, &record::ended());
        }
        Ok(())
    }

    /// Whether something is remembered of a client.
    #[inline]
    pub fn has_client(&self, client: u64) -> bool {
        self.completions.has_client(client)
    }

    /// The clients that entries of a primary have ended, each once. Whoever applies entries takes note of them, under the partition's lock: what such a
    /// client has asked before is not remembered here any more.
    pub fn take_ended(&mut self) -> Vec<u64> {
        self.completions.take_ended()
    }

    /// The clients of which something is remembered, and of each whether it has done something since this was asked last.
    pub fn take_heard(&mut self) -> impl Iterator<Item = (u64, bool)> {
        self.completions.take_heard()
    }

    /// The clients of which something is remembered.
    pub fn clients(&self) -> impl Iterator<Item = u64> {
        self.completions.clients_from(0).map(|(client, _)| client)
    }

    /// How many outcomes are remembered, and of how many clients.
    pub fn outcome_counts(&self) -> (usize, usize) {
        self.completions.counts()
    }

    /// Notes the outcome of an attempt, for which there is room, as of the `next` version, which the change has if there was one.
    fn complete(&mut self, attempt: Attempt, next: Version, outcome: Outcome) {
        let CompletionId { client, .. } = attempt.id;
        self.version = next;
        if let Some(recording) = &mut self.recording {
            recording.completion(next, client, &record::done(attempt, &outcome, false));
        }
        self.completions.note(attempt, next, outcome);
    }
}
