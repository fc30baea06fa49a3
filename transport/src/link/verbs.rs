//! The verbs link: messages over a reliable connected queue pair of an RDMA device.
//!
//! The two ends introduce themselves over a TCP connection to the same address that carries frames
//! otherwise. Whoever connects speaks first, so the accepting side knows by the first bytes what the
//! connection is to be. After that the socket carries no data: its end is the peer's death, however
//! it died. A reactor has one port of a device, with one queue of completions and one of receives
//! for all its connections.

mod choice;
mod end;
mod ffi;
#[cfg(test)]
mod held;
#[cfg(test)]
mod liar;
#[cfg(test)]
mod lies;
#[cfg(test)]
mod on_device;
mod port;
mod reading;
#[cfg(feature = "streams")]
mod ring;
#[cfg(test)]
mod silent;

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::lent::{Lending, Outgoing, Owner};
use super::verbs_rules::introduction::{INTRODUCTION_BYTES, Introduction, MAGIC};
use super::{Fetch, Link, Offer, Source, TcpLink, Transfer, not_over_verbs};
use crate::memory::{Block, Extent, Shared};
use crate::registration::{self, Registration, key_in_use};

use end::End;
use ffi::Domain;

pub(crate) use ffi::VerbsRegistration;
pub(crate) use port::VerbsPort;
#[cfg(feature = "streams")]
pub(crate) use ring::{INVITATION_BYTES, RingDevice, RingLink};

/// One end of a connection over verbs, or of one over TCP that might have become one.
#[derive(Debug)]
pub(crate) struct VerbsLink {
    tcp: Arc<TcpLink>,
    port: Arc<VerbsPort>,
    place: Arc<AtomicUsize>,
    decided: OnceLock<Decided>,
    stage: Mutex<Stage>,
}

/// What the connections of a reactor can register memory with.
#[derive(Debug, Clone)]
pub(crate) struct VerbsDomain {
    domain: Arc<Domain>,
}

impl VerbsDomain {
    /// Tells domains apart, for as long as one of them lives.
    pub(crate) fn key(&self) -> usize {
        Arc::as_ptr(&self.domain) as usize
    }

    /// Registers the memory.
    ///
    /// # Errors
    /// The system's, such as `OutOfMemory` if the process may not lock so much (`ulimit -l`).
    pub(crate) fn register(&self, extent: &Extent) -> io::Result<VerbsRegistration> {
        VerbsRegistration::make(&self.domain, extent)
    }
}

/// What a connection has turned out to be.
#[derive(Debug)]
enum Decided {
    Verbs(Arc<End>),
    /// The peer that connected speaks TCP. What it said first is here until it is received.
    Tcp(Mutex<Vec<u8>>),
}

/// How far the introductions have come.
#[derive(Debug)]
enum Stage {
    /// The socket is being connected.
    Connecting,
    /// The peer has yet to introduce itself.
    Awaiting { end: Option<Arc<End>>, heard: Vec<u8> },
    /// The first message is on its way.
    Probing(Arc<End>),
    /// It has been decided, or cannot be.
    Over,
}

impl VerbsLink {
    /// Begins to connect to `address`.
    pub(crate) fn connect(address: SocketAddr, port: &Arc<VerbsPort>) -> io::Result<Self> {
        Ok(Self::new(TcpLink::connect(address)?, port, Stage::Connecting))
    }

    /// A connection that somebody else has begun, to speak TCP or verbs.
    pub(crate) fn accepted(tcp: TcpLink, port: &Arc<VerbsPort>) -> Link {
        Link::Verbs(Self::new(tcp, port, Stage::Awaiting { end: None, heard: Vec::new() }))
    }

    fn new(tcp: TcpLink, port: &Arc<VerbsPort>, stage: Stage) -> Self {
        Self {
            tcp: Arc::new(tcp),
            port: Arc::clone(port),
            place: Arc::new(AtomicUsize::new(usize::MAX)),
            decided: OnceLock::new(),
            stage: Mutex::new(stage),
        }
    }

    /// Where the reactor keeps the connection.
    pub(crate) fn set_place(&self, place: usize) {
        self.place.store(place, Ordering::SeqCst);
    }

    /// The socket by which the sides have met, whatever the connection has turned out to be over.
    pub(crate) fn socket(&self) -> &TcpLink {
        &self.tcp
    }

    /// The socket, if the connection has turned out to be over TCP.
    pub(crate) fn plain(&self) -> Option<&TcpLink> {
        matches!(self.decided.get(), Some(Decided::Tcp(_))).then_some(&self.tcp)
    }

    /// What users' memory is registered with, if the connection is over verbs.
    pub(crate) fn domain(&self) -> Option<VerbsDomain> {
        self.end().map(|_| VerbsDomain { domain: Arc::clone(self.port.domain()) })
    }

    fn end(&self) -> Option<&Arc<End>> {
        match self.decided.get() {
            Some(Decided::Verbs(end)) => Some(end),
            _ => None,
        }
    }

    /// For the poller: readable when the peer introduces itself or is gone.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.tcp.descriptor()
    }

    /// Whether the socket is watched for room, where the connection waits for it or not.
    pub(crate) fn watches_room(&self, waits: bool) -> bool {
        match self.decided.get() {
            Some(Decided::Verbs(_)) => false,
            Some(Decided::Tcp(_)) => waits,
            None => matches!(*self.stage.lock(), Stage::Connecting),
        }
    }

    /// Takes in what the socket says: the peer's end.
    pub(crate) fn hear(&self) {
        let Some(end) = self.end() else { return };
        if self.has_peer_ended() {
            // It ended the socket after its device had been told of everything that it sent.
            self.port.poll();
            end.end();
        }
    }

    /// Whether the socket has come to its end, as it also has when the peer says something on it.
    fn has_peer_ended(&self) -> bool {
        let mut byte = [0];
        match self.tcp.receive(&mut [IoSliceMut::new(&mut byte)]) {
            Ok(_) => true,
            Err(error) => {
                !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
            }
        }
    }

    /// Whether there is something to read.
    #[inline]
    pub(crate) fn is_readable(&self) -> bool {
        match self.decided.get() {
            Some(Decided::Verbs(end)) => end.is_readable(),
            Some(Decided::Tcp(_)) => false,
            None => match &*self.stage.lock() {
                Stage::Probing(end) => end.is_reached() || end.has_failed(),
                _ => false,
            },
        }
    }

    /// Nothing has come for a moment: does what messages that come do not wait for.
    pub(crate) fn tidy(&self) {
        if let Some(end) = self.end() {
            end.tidy();
        }
    }

    /// Whether something has been read from the peer's memory since this was asked last.
    #[inline]
    pub(crate) fn take_fetched(&self) -> bool {
        self.end().is_some_and(|end| end.take_fetched())
    }

    /// Bytes that it has sent from where they lay.
    pub(crate) fn lent_bytes(&self) -> u64 {
        self.end().map_or(0, |end| end.lent_bytes())
    }

    /// Whether there is room to write.
    pub(crate) fn is_writable(&self) -> bool {
        self.end().is_some_and(|end| end.is_writable())
    }

    /// Reads what the peer says first. `WouldBlock` until it has been decided what the connection
    /// is, and once more when it is over verbs.
    fn decide(&self) -> io::Result<()> {
        let mut stage = self.stage.lock();
        let Stage::Awaiting { end, heard } = &mut *stage else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let initiated = end.is_some();
        loop {
            let is_other = heard.iter().zip(&MAGIC).any(|(one, other)| one != other);
            if is_other && !initiated {
                let heard = std::mem::take(heard);
                *stage = Stage::Over;
                let fresh = self.decided.set(Decided::Tcp(Mutex::new(heard))).is_ok();
                assert!(fresh, "it is decided once");
                return Ok(());
            }
            if is_other {
                *stage = Stage::Over;
                return Err(not_over_verbs());
            }
            if let Ok(bytes) = <&[u8; INTRODUCTION_BYTES]>::try_from(&heard[..]) {
                let peer = Introduction::decode(bytes);
                let end = end.take();
                *stage = Stage::Over;
                let peer = peer.ok_or(io::ErrorKind::InvalidData)?;
                return self.meet(&mut stage, end, &peer);
            }
            let mut bytes = [0; INTRODUCTION_BYTES];
            let wanted = INTRODUCTION_BYTES - heard.len();
            match self.tcp.receive(&mut [IoSliceMut::new(&mut bytes[..wanted])])? {
                0 => return Err(io::ErrorKind::ConnectionRefused.into()),
                count => heard.extend_from_slice(&bytes[..count]),
            }
        }
    }

    /// The peer has introduced itself.
    fn meet(
        &self,
        stage: &mut Stage,
        end: Option<Arc<End>>,
        peer: &Introduction,
    ) -> io::Result<()> {
        if let Some(end) = end {
            // Both ends know of each other; what is left to see is whether their devices do.
            let met = self.port.connect(&end, peer).and_then(|()| end.probe());
            *stage = Stage::Probing(end);
            return met;
        }
        if !self.port.trusts(peer) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let end = self.port.make_end(&self.place)?;
        let fresh = self.decided.set(Decided::Verbs(Arc::clone(&end))).is_ok();
        assert!(fresh, "it is decided once");
        self.port.connect(&end, peer)?;
        self.say(&self.port.introduce(&end, false))?;
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn say(&self, introduction: &Introduction) -> io::Result<()> {
        let bytes = introduction.encode();
        let sent = self.tcp.send(&[IoSlice::new(&bytes)])?;
        // Nothing was sent before, so that there is room for it.
        if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

impl Transfer for VerbsLink {
    #[inline]
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.decided.get() {
            Some(Decided::Verbs(end)) => end.send(pieces),
            Some(Decided::Tcp(_)) => self.tcp.send(pieces),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    #[inline]
    fn receive(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        loop {
            match self.decided.get() {
                Some(Decided::Verbs(end)) => return end.receive(into),
                Some(Decided::Tcp(first)) => {
                    let mut first = first.lock();
                    if first.is_empty() {
                        return self.tcp.receive(into);
                    }
                    let mut total = 0;
                    for buffer in into {
                        let count = buffer.len().min(first.len());
                        buffer[..count].copy_from_slice(&first[..count]);
                        first.drain(..count);
                        total += count;
                    }
                    return Ok(total);
                }
                None => self.decide()?,
            }
        }
    }

    fn finish_connect(&self) -> io::Result<()> {
        let mut stage = self.stage.lock();
        if let Stage::Connecting = &*stage {
            self.tcp.finish_connect()?;
            let end = self.port.make_end(&self.place)?;
            *stage = Stage::Awaiting { end: Some(Arc::clone(&end)), heard: Vec::new() };
            self.say(&self.port.introduce(&end, true))?;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if let Stage::Awaiting { .. } = &*stage {
            drop(stage);
            self.decide()?;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match &*stage {
            Stage::Probing(end) if end.has_failed() => Err(io::ErrorKind::ConnectionRefused.into()),
            Stage::Probing(end) if end.is_reached() => {
                let end = Arc::clone(end);
                *stage = Stage::Over;
                let fresh = self.decided.set(Decided::Verbs(end)).is_ok();
                assert!(fresh, "it is decided once");
                Ok(())
            }
            Stage::Probing(_) if self.has_peer_ended() => {
                Err(io::ErrorKind::ConnectionRefused.into())
            }
            Stage::Probing(_) => Err(io::ErrorKind::WouldBlock.into()),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn finish(&self) {
        match self.decided.get() {
            Some(Decided::Verbs(end)) => end.finish(),
            _ => self.tcp.finish(),
        }
    }

    fn shutdown(&self) {
        self.tcp.shutdown();
    }

    fn send_lent(&self, pieces: &[Outgoing<'_>]) -> io::Result<usize> {
        match self.decided.get() {
            Some(Decided::Verbs(end)) => end.send_lent(pieces),
            _ => {
                let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece.bytes)).collect();
                self.send(&slices)
            }
        }
    }

    fn lends(&self) -> bool {
        self.end().is_some()
    }

    fn lending<'a>(
        &self,
        memory: &'a Shared,
        owner: Option<Arc<dyn Owner>>,
    ) -> Option<Lending<'a>> {
        let domain = self.domain()?;
        if let Some(owner) = owner {
            return Some(Lending { memory, key: key_in_use(memory, &domain)?, owner });
        }
        let domain = registration::Domain::Verbs(domain);
        let (registration, key) = Registration::where_it_pays(memory, &domain)?;
        Some(Lending { memory, key: key?, owner: Arc::new(registration) })
    }

    fn offer(&self, body: &Shared) -> Option<Box<dyn Offer>> {
        Some(Box::new(self.end()?.offer(body)?))
    }

    fn fetch(&self, block: Block, sources: &[Source]) -> Result<Box<dyn Fetch>, Block> {
        let Some(end) = self.end() else { return Err(block) };
        Ok(Box::new(end.fetch(block, sources)?))
    }
}

impl Drop for VerbsLink {
    fn drop(&mut self) {
        let undecided = match &*self.stage.lock() {
            Stage::Awaiting { end, .. } => end.clone(),
            Stage::Probing(end) => Some(Arc::clone(end)),
            Stage::Connecting | Stage::Over => None,
        };
        if let Some(end) = self.end().or(undecided.as_ref()) {
            end.keep(Arc::clone(&self.tcp));
            self.port.let_go(end);
        }
    }
}
