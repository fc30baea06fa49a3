//! The two directions of a stream, and halves that own one each.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::StreamCounters;
use super::carrier::Carrier;
use super::pause::Pause;
use crate::idle::PollPolicy;
use crate::link::LinkKind;

/// This side's reading.
#[derive(Debug)]
pub(super) struct Receiving {
    pause: Pause,
    receives: u64,
    bytes: u64,
    bells: u64,
}

impl Receiving {
    pub(super) fn new(poll: PollPolicy) -> Self {
        Self { pause: Pause::new(poll), receives: 0, bytes: 0, bells: 0 }
    }

    pub(super) fn poll(
        &mut self,
        carrier: &Carrier,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        ready!(carrier.poll_turn(cx));
        if self.pause.was_asleep() {
            carrier.reader_wakes();
        }
        if self.pause.gathers(cx) {
            return Poll::Pending;
        }
        loop {
            if let Poll::Ready(received) = carrier.poll_receive(cx, into) {
                self.pause.end();
                let (count, rang) = received?;
                self.receives += 1;
                self.bytes += count as u64;
                self.bells += u64::from(rang);
                if carrier.gathers_input() {
                    self.pause.gather();
                }
                return Poll::Ready(Ok(()));
            }
            if self.pause.spins(cx) {
                return Poll::Pending;
            }
            ready!(carrier.poll_sleep_for_input(cx, || self.pause.sleeps()))?;
        }
    }

    pub(super) fn count(&self, counters: StreamCounters) -> StreamCounters {
        StreamCounters {
            receives: self.receives,
            received_bytes: self.bytes,
            sleeps: counters.sleeps + self.pause.sleeps_counted(),
            bells: counters.bells + self.bells,
            ..counters
        }
    }
}

/// This side's writing.
#[derive(Debug)]
pub(super) struct Sending {
    pause: Pause,
    finished: bool,
    bytes: u64,
    bells: u64,
}

impl Sending {
    pub(super) fn new(poll: PollPolicy) -> Self {
        Self { pause: Pause::new(poll), finished: false, bytes: 0, bells: 0 }
    }

    pub(super) fn poll(
        &mut self,
        carrier: &Carrier,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.finished {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if pieces.iter().all(|piece| piece.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        ready!(carrier.poll_turn(cx));
        if self.pause.was_asleep() {
            carrier.writer_wakes();
        }
        loop {
            if let Poll::Ready(sent) = carrier.poll_send(cx, pieces) {
                self.pause.end();
                let (count, rang) = sent?;
                self.bytes += count as u64;
                self.bells += u64::from(rang);
                return Poll::Ready(Ok(count));
            }
            if self.pause.spins(cx) {
                return Poll::Pending;
            }
            ready!(carrier.poll_sleep_for_room(cx, || self.pause.sleeps()))?;
        }
    }

    /// The peer reads the end after what was sent; what it sends still arrives.
    pub(super) fn finish(&mut self, carrier: &Carrier) {
        if !std::mem::replace(&mut self.finished, true) {
            self.bells += u64::from(carrier.finish());
        }
    }

    pub(super) fn count(&self, carrier: &Carrier, counters: StreamCounters) -> StreamCounters {
        StreamCounters {
            sends: carrier.sends(),
            sent_bytes: self.bytes,
            sleeps: counters.sleeps + self.pause.sleeps_counted(),
            bells: counters.bells + self.bells,
            ..counters
        }
    }
}

/// The reading half of a [`WeftStream`](super::WeftStream).
#[derive(Debug)]
pub struct WeftReadHalf {
    carrier: Arc<Carrier>,
    receiving: Receiving,
}

impl WeftReadHalf {
    pub(super) fn new(carrier: Arc<Carrier>, receiving: Receiving) -> Self {
        Self { carrier, receiving }
    }

    /// The other side's address.
    ///
    /// # Errors
    /// None today; the signature is that of tokio's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.carrier.addresses().peer)
    }

    /// What it runs over.
    pub fn link(&self) -> LinkKind {
        self.carrier.kind()
    }

    /// What has been read by it.
    pub fn counters(&self) -> StreamCounters {
        self.receiving.count(StreamCounters::default())
    }
}

impl AsyncRead for WeftReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.receiving.poll(&this.carrier, cx, into)
    }
}

/// The writing half of a [`WeftStream`](super::WeftStream). When it is dropped, the peer reads the
/// end.
#[derive(Debug)]
pub struct WeftWriteHalf {
    carrier: Arc<Carrier>,
    sending: Sending,
}

impl WeftWriteHalf {
    pub(super) fn new(carrier: Arc<Carrier>, sending: Sending) -> Self {
        Self { carrier, sending }
    }

    /// The other side's address.
    ///
    /// # Errors
    /// None today; the signature is that of tokio's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.carrier.addresses().peer)
    }

    /// What it runs over.
    pub fn link(&self) -> LinkKind {
        self.carrier.kind()
    }

    /// What has been written by it.
    pub fn counters(&self) -> StreamCounters {
        self.sending.count(&self.carrier, StreamCounters::default())
    }
}

impl AsyncWrite for WeftWriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.sending.poll(&this.carrier, cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is ever held back.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.sending.finish(&this.carrier);
        Poll::Ready(Ok(()))
    }
}

impl Drop for WeftWriteHalf {
    fn drop(&mut self) {
        self.sending.finish(&self.carrier);
    }
}
