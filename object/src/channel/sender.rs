//! Sending graphs.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, ready};

use futures_util::FutureExt;
use weft_transport::limits::MESSAGE_MAX;
use weft_transport::{
    Applied, Body, CallError, Connection, Memory, Purpose, Replies, Reply, SendError, Sending,
    Sleep, Time,
};

use super::bundle::Bundle;
use super::error::SendGraphError;
use super::message::{HEADER_BYTES, Header, Kind};
use super::sent::{Sent, done, pause};
use crate::error::Full;
use crate::frozen::Frozen;
use crate::segment::Segment;
use crate::types::Types;
use crate::wire::Wire;
use crate::writer::SegmentWriter;

/// Sends that are under way together, of an iterator's.
const TOGETHER: usize = 32;

/// The channels that this process has opened: their numbers differ, whatever they run over.
static CHANNELS: AtomicU64 = AtomicU64::new(1);

/// The sending end of a channel; see [the module](super). Dropping it ends the channel: the receiver gets all that was sent, and is told that this was
/// all.
pub struct GraphSender {
    connection: Connection,
    channel: u64,
    /// Bytes granted since the channel began, as the last answer said.
    granted: Arc<AtomicU64>,
    /// Bytes that segments have cost.
    used: u64,
    /// Of what the receiver lets wait, half.
    half: u64,
    next: u64,
    /// What answers who has asked for more ahead of the need.
    asked: Option<Replies>,
    /// A send was dropped when a part of a graph had left.
    is_interrupted: bool,
    is_closed: bool,
    /// What the receiver has ended the channel with.
    refused: Option<SendGraphError>,
}

impl GraphSender {
    /// Opens a channel for graphs of these types over a connection, at whose other end is a [`GraphListener`](super::GraphListener).
    ///
    /// # Errors
    /// See [`SendGraphError`]; [`TypesDiffer`](SendGraphError::TypesDiffer) names the types.
    ///
    /// # Cancel safety
    /// If the future is dropped, so is the channel, should the listener have begun one.
    pub async fn open(
        connection: &Connection,
        types: &Types,
        deadline: Time,
    ) -> Result<GraphSender, SendGraphError> {
        let channel = CHANNELS.fetch_add(1, Ordering::Relaxed);
        let mut sender = GraphSender {
            connection: connection.clone(),
            channel,
            granted: Arc::default(),
            used: 0,
            half: 0,
            next: 0,
            asked: None,
            is_interrupted: false,
            is_closed: false,
            refused: None,
        };
        // From here on, dropping it ends what the listener may have begun.
        let header = sender.header(Kind::Open, 0, 0);
        let types = types.to_bytes();
        let reply = connection.call([&header[..], &types], deadline).await?;
        let begun = done(&reply);
        sender.is_closed = begun.is_err();
        let granted = begun?;
        sender.granted.store(granted, Ordering::Relaxed);
        sender.half = granted / 2;
        Ok(sender)
    }

    /// Sends a graph. When this returns, the receiver has all of it, and has found it in order; nobody needs to have received it.
    ///
    /// # Errors
    /// See [`SendGraphError`].
    ///
    /// # Cancel safety
    /// If the future is dropped when a part of the graph may have left, nothing more can be sent on this channel.
    pub async fn send<R>(
        &mut self,
        graph: &Frozen<R>,
        deadline: Time,
    ) -> Result<(), SendGraphError> {
        self.send_segments(graph.segments(), deadline).await
    }

    /// Sends a graph, and returns when it has been handed over: what [`send`](Self::send) waits for is waited for, or looked at, by what is
    /// returned. Waits for nothing but room: in the transport's window, and as the receiver grants it.
    ///
    /// # Errors
    /// See [`SendGraphError`].
    ///
    /// # Cancel safety
    /// As for [`send`](Self::send).
    pub async fn send_async<R>(
        &mut self,
        graph: &Frozen<R>,
        deadline: Time,
    ) -> Result<Sent, SendGraphError> {
        self.begin(graph.segments(), deadline).await
    }

    /// Sends graphs one after the other, up to 32 of which are under way together. When this returns, the receiver has all of them.
    ///
    /// # Errors
    /// The first of [`send`](Self::send)'s. It may have those before.
    ///
    /// # Cancel safety
    /// As for [`send`](Self::send).
    pub async fn send_all<'g, R: 'g>(
        &mut self,
        graphs: impl IntoIterator<Item = &'g Frozen<R>>,
        deadline: Time,
    ) -> Result<(), SendGraphError> {
        let mut under_way = VecDeque::new();
        for graph in graphs {
            let sent = self.begin(graph.segments(), deadline).await?;
            add(&mut under_way, sent).await?;
        }
        all(under_way).await
    }

    /// Sends what an array or an iterator holds, without what holds it: `chunk` records at a time, each chunk as a graph without a root, while
    /// the next is written. The receiver finds them by [`View::records`](crate::View::records). Returns how many there were.
    ///
    /// # Errors
    /// As for [`send_all`](Self::send_all), or there is no memory for a chunk.
    ///
    /// # Panics
    /// `T` is not one of `types`, or `chunk` is none, or more than a segment has room for.
    ///
    /// # Cancel safety
    /// As for [`send`](Self::send).
    pub async fn send_records<T: Wire>(
        &mut self,
        records: impl IntoIterator<Item = T>,
        chunk: usize,
        (memory, types): (&Memory, &Types),
        deadline: Time,
    ) -> Result<u64, SendGraphError> {
        let bytes = chunk.checked_mul(size_of::<T>()).expect("a chunk fits a segment");
        let open = || SegmentWriter::<T>::new(memory, Purpose::Send, types, bytes);
        let mut under_way = VecDeque::new();
        let mut writer = None;
        let mut count = 0;
        for record in records {
            let filled = match &mut writer {
                Some(filled) => filled,
                none => none.insert(open()?),
            };
            let is_full = match filled.push(record) {
                Ok(()) => filled.len() == chunk,
                Err(Full::Memory(error)) => return Err(error.into()),
                Err(full) => unreachable!("a chunk has room for its records: {full}"),
            };
            count += 1;
            if is_full && let Some(full) = writer.take() {
                let sent = self.begin(&[full.freeze()], deadline).await?;
                add(&mut under_way, sent).await?;
            }
        }
        if let Some(last) = writer {
            under_way.push_back(self.begin(&[last.freeze()], deadline).await?);
        }
        all(under_way).await.map(|()| count)
    }

    async fn send_segments(
        &mut self,
        segments: &[Segment],
        deadline: Time,
    ) -> Result<(), SendGraphError> {
        let mut bundles = Bundle::all(segments);
        let only = match (bundles.next(), bundles.next()) {
            (Some(only), None) if only.long().is_none() => only,
            _ => return self.begin(segments, deadline).await?.wait().await,
        };
        // What is short goes as one call, and nothing is left of it but the answer.
        let number = self.reserve(segments, deadline).await?;
        self.is_interrupted = true;
        let call = self.connection.call(only.behind(self.header(Kind::Last, number, 0)), deadline);
        let mut answered = call.await;
        // The graph is there, and the receiver had no room for the answer.
        while matches!(answered, Err(CallError::Unanswered)) {
            pause(&self.connection).await;
            let header = self.header(Kind::Held, number, 0);
            answered = self.connection.call(&header, deadline).await;
        }
        // A call that has failed may have left or not: whether its graph is there nobody knows, nor what follows which.
        let answered = answered?;
        self.is_interrupted = false;
        self.learn(&answered)
    }

    async fn begin(
        &mut self,
        segments: &[Segment],
        deadline: Time,
    ) -> Result<Sent, SendGraphError> {
        let number = self.reserve(segments, deadline).await?;
        self.is_interrupted = true;
        let mut bundles = (0..).zip(Bundle::all(segments)).peekable();
        let replies = loop {
            let (index, bundle) = bundles.next().expect("a graph has a segment");
            let is_last = bundles.peek().is_none();
            if is_last && bundle.long().is_none() {
                let body = bundle.behind(self.header(Kind::Last, number, index));
                break self.connection.call_streamed(body, deadline).await?;
            }
            self.hand_over((number, index), bundle, deadline).await?;
            if is_last {
                let header = self.header(Kind::Held, number, 0);
                break self.connection.call_streamed(&header, deadline).await?;
            }
        };
        self.is_interrupted = false;
        let held = self.header(Kind::Held, number, 0);
        let again = (self.connection.clone(), held, deadline);
        Ok(Sent::new(replies, again, &self.granted))
    }

    /// Has segments leave that are not the last, or too long for a call.
    async fn hand_over(
        &mut self,
        (number, index): (u64, u32),
        bundle: Bundle<'_>,
        deadline: Time,
    ) -> Result<(), SendGraphError> {
        let header = self.header(Kind::Segments, number, index);
        loop {
            let sent = match bundle.long() {
                Some(segment) => {
                    let (head, pages) = ([&header[..], segment.head()], segment.pages().clone());
                    self.leave(self.connection.send_shared(head, pages), deadline).await
                }
                None => self.leave(self.connection.send(bundle.behind(header)), deadline).await,
            };
            match sent {
                // Nothing of it has left.
                Err(SendGraphError::Send(SendError::Disconnected(_))) if self.follow() => {}
                sent => return sent,
            }
        }
    }

    /// Waits until a message has left, unless that takes too long.
    async fn leave<B: Body>(
        &self,
        mut sending: Sending<'_, B>,
        deadline: Time,
    ) -> Result<(), SendGraphError> {
        let mut late: Option<Sleep> = None;
        poll_fn(|context| {
            if let Poll::Ready(sent) = Pin::new(&mut sending).poll(context) {
                return Poll::Ready(sent.map_err(SendGraphError::from));
            }
            let late = late.get_or_insert_with(|| self.connection.sleep_until(deadline));
            ready!(Pin::new(late).poll(context));
            let applied = Applied::No;
            Poll::Ready(Err(CallError::DeadlineExceeded { applied }.into()))
        })
        .await
    }

    /// Goes on by the connection that has taken the place of this one, if it has made way. Calls do so by themselves.
    fn follow(&mut self) -> bool {
        let successor = self.connection.successor();
        successor.map(|successor| self.connection = successor).is_some()
    }

    fn header(&self, kind: Kind, number: u64, index: u32) -> [u8; HEADER_BYTES] {
        Header { kind, channel: self.channel, number, index }.encode()
    }

    /// Waits until all of a graph may be sent, and gives it its number.
    async fn reserve(
        &mut self,
        segments: &[Segment],
        deadline: Time,
    ) -> Result<u64, SendGraphError> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        if self.is_interrupted {
            return Err(SendGraphError::Interrupted);
        }
        debug_assert!(
            segments.iter().all(|segment| segment.head().len() + HEADER_BYTES <= MESSAGE_MAX)
        );
        let cost: u64 = Bundle::all(segments).map(Bundle::cost).sum();
        let up_to = self.used + cost;
        self.learn_ahead()?;
        while self.granted() < up_to {
            let header = self.header(Kind::More, up_to, 0);
            match self.connection.call(&header, deadline).await {
                Ok(reply) => {
                    self.learn(&reply)?;
                    // A listener answers when it has granted so much: one that says so and has not would be asked again without end.
                    if self.granted() < up_to {
                        return Err(SendGraphError::NoListener);
                    }
                }
                // The receiver had no room for the answer.
                Err(CallError::Unanswered) => pause(&self.connection).await,
                Err(error) => return Err(error.into()),
            }
        }
        self.used = up_to;
        self.ask_ahead();
        let number = self.next;
        self.next += 1;
        Ok(number)
    }

    fn granted(&self) -> u64 {
        self.granted.load(Ordering::Relaxed)
    }

    fn learn(&mut self, reply: &Reply) -> Result<(), SendGraphError> {
        let granted = done(reply).inspect_err(|refused| self.refused = Some(refused.clone()))?;
        self.granted.fetch_max(granted, Ordering::Relaxed);
        Ok(())
    }

    /// Asks for more when less than half of what is granted at a time is left, so that nobody has to wait for it; unless that would have to
    /// wait itself.
    fn ask_ahead(&mut self) {
        let up_to = self.used + self.half;
        if self.asked.is_none() && self.granted() < up_to {
            let header = self.header(Kind::More, up_to, 0);
            self.asked = self
                .connection
                .call_streamed(&header, Time::MAX)
                .now_or_never()
                .and_then(Result::ok);
        }
    }

    /// Looks whether that was answered.
    fn learn_ahead(&mut self) -> Result<(), SendGraphError> {
        let Some(asked) = &mut self.asked else { return Ok(()) };
        let Some(answered) = asked.next().now_or_never() else { return Ok(()) };
        self.asked = None;
        match answered {
            Some(Ok(reply)) => self.learn(&reply),
            None | Some(Err(CallError::Unanswered)) => Ok(()),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Says that nothing follows. Dropping the sender says it too, if there is room in the window at that moment.
    ///
    /// # Errors
    /// See [`SendGraphError`]: the connection has ended.
    pub async fn close(mut self) -> Result<(), SendGraphError> {
        let header = self.closing();
        self.is_closed = true;
        self.follow();
        Ok(self.connection.send(&header).await?)
    }

    fn closing(&self) -> [u8; HEADER_BYTES] {
        self.header(Kind::Close, self.next, u32::from(self.is_interrupted))
    }
}

impl Drop for GraphSender {
    fn drop(&mut self) {
        if !self.is_closed {
            let header = self.closing();
            self.follow();
            // It says behind which graph, so that it may come before. The other window is as good as never full; if it is, the receiver learns it when
            // the connection ends.
            if self.connection.send(&header).now_or_never().is_none() {
                let _ = self.connection.for_replication().send(&header).now_or_never();
            }
            self.connection.flush();
        }
    }
}

impl fmt::Debug for GraphSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { channel, next, .. } = self;
        f.debug_struct("GraphSender")
            .field("channel", channel)
            .field("sent", next)
            .finish_non_exhaustive()
    }
}

/// Adds a send to those that are under way, and waits for the first if they are many.
async fn add(under_way: &mut VecDeque<Sent>, sent: Sent) -> Result<(), SendGraphError> {
    under_way.push_back(sent);
    if under_way.len() > TOGETHER
        && let Some(first) = under_way.pop_front()
    {
        first.wait().await?;
    }
    Ok(())
}

async fn all(under_way: VecDeque<Sent>) -> Result<(), SendGraphError> {
    for sent in under_way {
        sent.wait().await?;
    }
    Ok(())
}
