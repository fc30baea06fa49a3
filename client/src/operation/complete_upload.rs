//! Complete-upload: make an uploaded value the object of its key.

use std::marker::PhantomData;

use weft_protocol::{CompleteUpload, Key, Slot, UploadEffect};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::operation::target;
use crate::retry::Effect;

/// Ends an upload as `A` would have ended, had its value been short.
pub(crate) struct AskCompleteUpload<'a, A> {
    pub(crate) key: Key<'a>,
    pub(crate) number: u64,
    pub(crate) effect: UploadEffect,
    pub(crate) like: PhantomData<fn() -> A>,
}

impl<A: Ask> Ask for AskCompleteUpload<'_, A> {
    type Answer = A::Answer;
    const EFFECT: Effect = Effect::Mutation;

    fn slot(&self) -> Slot {
        self.key.slot()
    }

    fn request(&self, heading: Heading) -> impl Body {
        let &Self { key, number: upload, effect, .. } = self;
        CompleteUpload { target: target(heading, key), upload, effect }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<A::Answer, ClientError> {
        A::answer(reply, from)
    }
}
