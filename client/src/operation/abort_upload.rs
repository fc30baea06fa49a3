//! Abort-upload: give up a value that was being uploaded.

use weft_protocol::{AbortUpload, AbortUploadReply, Key, Slot};
use weft_transport::{Body, Connection, Reply};

use crate::core::{Ask, Heading};
use crate::error::ClientError;
use crate::operation::target;
use crate::retry::Effect;

pub(crate) struct AskAbortUpload<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) number: u64,
}

impl Ask for AskAbortUpload<'_> {
    type Answer = AbortUploadReply;
    /// Giving up once more does no harm.
    const EFFECT: Effect = Effect::Read;

    fn slot(&self) -> Slot {
        self.key.slot()
    }

    fn request(&self, heading: Heading) -> impl Body {
        let &Self { key, number: upload } = self;
        AbortUpload { target: target(heading, key), upload }
    }

    fn answer(reply: Reply, from: &Connection) -> Result<AbortUploadReply, ClientError> {
        AbortUploadReply::decode(&reply).map_err(|error| ClientError::of_reply(from, error))
    }
}
