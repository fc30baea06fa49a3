//! Streamed bodies, as handlers take and give them.

use super::{Batch, CallId, Incoming};
use crate::body::Body;
use crate::connection::{BodyReader, BodyWriter, check_head};
use crate::error::BodyError;
use crate::frame::{Class, Kind, frame_len};

impl Incoming<'_> {
    /// What reads the body that is streamed behind the request or message, if there is one; the first time.
    /// Handlers do not wait: they give it to another thread or task. A body that is not taken is given up.
    pub fn take_body(&self) -> Option<BodyReader> {
        self.held.body?.take()
    }
}

impl Batch<'_> {
    /// The last or only reply to `call`, with a body of any length behind it: the caller gets `head` as its
    /// reply, with a reader of the body. Handlers do not wait, so the writer belongs on another thread, or in
    /// a task; it can be written to once the handler has returned.
    ///
    /// # Errors
    /// See [`BodyError`]. Nothing has been replied then.
    ///
    /// # Panics
    /// If [`next`](Self::next) has not given something to reply to since the last reply, so that there may be
    /// no room for one more.
    pub fn reply_body(&mut self, call: CallId, head: impl Body) -> Result<BodyWriter, BodyError> {
        let core = self.held.core;
        let len = head.len();
        check_head(core, len)?;
        let reserved = core.session.send_credit.try_reserve(Class::Reply, frame_len(len));
        assert!(reserved, "a reply of {len} bytes without room");
        let mark = self.mark();
        let (flow, _) = core.open_body((Kind::Reply, Class::Reply, call.0), head, mark)?;
        Ok(BodyWriter::new(core, flow))
    }
}
