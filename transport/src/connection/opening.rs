//! Beginning a streamed body.

use std::sync::Arc;

use crate::body::Body;
use crate::error::{Applied, BodyError, CallError};
use crate::frame::{Class, Kind, frame_len};
use crate::lane::Mark;
use crate::limits::BODY_HEAD_MAX;
use crate::local;
use crate::reactor::Command;
use crate::session::call::Sent;
use crate::session::departures::Departure;
use crate::session::outbound::Unannounced;
use crate::session::outflow::Outflow;
use crate::time::Time;

use super::wait::Reserved;
use super::{BodyWriter, Connection, Core, Replies, open_call, write_head};

impl Connection {
    /// Sends a message with a body of any length behind it: `head` is given to the peer's handler as the
    /// message, with a reader of the body. Waits for the window, as [`send`](Self::send) does, until
    /// `deadline`.
    ///
    /// Where the peer receives messages by posted buffers, the body is refused as one that nobody takes.
    ///
    /// # Errors
    /// See [`BodyError`]. Success means that the body can be written, not that the peer knows of it.
    pub async fn send_body(
        &self,
        head: impl Body,
        deadline: Time,
    ) -> Result<BodyWriter, BodyError> {
        check_head(&self.core, head.len())?;
        let core = self.reserve(head.len(), deadline).await.map_err(not_begun)?;
        let (flow, _) = core.open_body((Kind::Message, self.class, 0), head, local::mark(&core))?;
        if let Some(reason) = core.closed() {
            core.abandon_sends();
            if !flow.is_opened() {
                let (applied, reason) = (Applied::No, reason.clone());
                return Err(BodyError::Disconnected { applied, reason });
            }
        }
        Ok(BodyWriter::new(&core, flow))
    }

    /// Calls the peer's handler with a body of any length behind the request `head`, which has up to
    /// [`BODY_HEAD_MAX`] bytes. The handler replies when it is given `head`, most likely with a body of its
    /// own that says what has become of this one: read the replies while you write, or both sides may wait
    /// for each other.
    ///
    /// The deadline is that of the first reply; how long the bodies take is up to who
    /// [waits](BodyWriter::set_patience) for them.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use weft_transport::*;
    /// /// Replies to each request with its body, as it comes.
    /// struct Mirror;
    ///
    /// impl Handler for Mirror {
    ///     fn handle(&self, batch: &mut Batch<'_>) {
    ///         while let Some(incoming) = batch.next() {
    ///             let (IncomingKind::Call(call), Some(mut body)) = (incoming.kind, incoming.take_body())
    ///             else {
    ///                 continue;
    ///             };
    ///             let Ok(mut back) = batch.reply_body(call, b"here it comes") else { continue };
    ///             // A handler does not wait: somebody else does.
    ///             std::thread::spawn(move || -> Result<u64, BodyError> {
    ///                 while let Some(piece) = body.next_blocking()? {
    ///                     back.write_shared_blocking(piece.into_shared())?;
    ///                 }
    ///                 back.finish_blocking()
    ///             });
    ///         }
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let start = |node, handler| -> Result<Endpoint, Box<dyn std::error::Error>> {
    /// #     let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 })?;
    /// #     Ok(Endpoint::start(EndpointConfig::new(node, Incarnation(1), memory), handler)?)
    /// # };
    /// let server = start(NodeId(1), Arc::new(Mirror))?;
    /// let address = server.listen("127.0.0.1:0".parse()?)?;
    /// let client = start(NodeId::client(7), Arc::new(NoHandler))?;
    /// let deadline = client.clock().now() + std::time::Duration::from_secs(30);
    /// let received = client.block_on(async {
    ///     let connection = client.connect(address, deadline).await?;
    ///     let (mut writer, mut replies) = connection.call_body(b"what follows", deadline).await?;
    ///     let reply = replies.next().await.ok_or("one reply")??;
    ///     assert_eq!(&*reply, b"here it comes");
    ///     let mut reader = reply.take_body().ok_or("a body behind it")?;
    ///     let write = async move {
    ///         for number in 0..100_000_u64 {
    ///             writer.write(&number.to_le_bytes()).await?;
    ///         }
    ///         writer.finish().await
    ///     };
    ///     let read = async move {
    ///         let mut bytes = 0;
    ///         while let Some(piece) = reader.next().await? {
    ///             bytes += piece.len();
    ///         }
    ///         Ok::<_, BodyError>(bytes)
    ///     };
    ///     let (written, read) = futures_util::try_join!(write, read)?;
    ///     assert_eq!(written, 800_000);
    ///     Ok::<_, Box<dyn std::error::Error>>(read)
    /// })?;
    /// assert_eq!(received, 800_000);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`BodyError`]; [`Replies`] tells of the call what [`CallError`] does.
    pub async fn call_body(
        &self,
        head: impl Body,
        deadline: Time,
    ) -> Result<(BodyWriter, Replies), BodyError> {
        let len = head.len();
        check_head(&self.core, len)?;
        let core = self.reserve(len, deadline).await.map_err(not_begun)?;
        let reserved = Reserved::new(&core, self.class, len);
        let (call, key) = open_call(&core, self.class, deadline).await.map_err(not_begun)?;
        reserved.used();
        let (flow, ticket) =
            core.open_body((Kind::Request, self.class, key.0), head, local::mark(&core))?;
        let sent = Sent { lane: Sent::LARGE, position: ticket };
        core.session.calls.written(key, sent);
        let replies = call.unless_closed(sent).map_err(not_begun)?.into_replies();
        Ok((BodyWriter::new(&core, flow), replies))
    }
}

/// Whether a body may begin with `len` bytes.
pub(crate) fn check_head(core: &Core, len: usize) -> Result<(), BodyError> {
    if !core.session.departures.streams() {
        return Err(BodyError::Unsupported);
    }
    if len > BODY_HEAD_MAX {
        return Err(BodyError::HeadTooLong { len, limit: BODY_HEAD_MAX });
    }
    Ok(())
}

impl Core {
    /// Has `head` sent, for which window has been reserved, and what will be written behind it; all of that behind
    /// `mark`. Gives the window back if there is no memory.
    pub(crate) fn open_body(
        self: &Arc<Self>,
        (kind, class, id): (Kind, Class, u64),
        head: impl Body,
        mark: Option<Mark>,
    ) -> Result<(Arc<Outflow>, u64), BodyError> {
        let len = head.len();
        let head = match write_head(&self.memory, head) {
            Ok(head) => head,
            Err(error) => {
                self.session.send_credit.cancel(class, frame_len(len));
                return Err(BodyError::Memory(error));
            }
        };
        let flow = Arc::new(Outflow::default());
        let departure = Departure::opening((kind, class, id), head, &flow).behind(mark);
        self.session.departures.reserve(class, departure.queued_bytes());
        let ticket = self.session.departures.push(departure);
        self.send_soon(Unannounced::NONE);
        // Nothing may come in that would have the reactor look after what is under way.
        self.reactor.submit(Command::Housekeep);
        Ok((flow, ticket))
    }
}

/// What has kept a body from beginning, of which nothing has been sent. No conversion for users: what a call may
/// end with otherwise, its replies tell.
fn not_begun(error: CallError) -> BodyError {
    match error {
        CallError::DeadlineExceeded { .. } => BodyError::DeadlineExceeded,
        CallError::Disconnected { applied, reason } => BodyError::Disconnected { applied, reason },
        CallError::Memory(error) => BodyError::Memory(error),
        CallError::TooLarge { len, limit } => BodyError::HeadTooLong { len, limit },
        CallError::PeerMemory | CallError::ReplyMemory | CallError::Unanswered => {
            unreachable!("nothing has been sent")
        }
    }
}
