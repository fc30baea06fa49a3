//! The shared-memory link: two rings in memory that both processes have mapped, and a socket.
//!
//! Whoever listens at a TCP address also listens on a local socket that is named after it, by which those
//! of the same host find it (`shm/names.rs`). One side makes the memory, seals its size and passes it on; both sides check that the other is the same user. After that the socket
//! carries no data: a byte on it is a bell for somebody who sleeps, and its end is the peer's
//! death, however it died (as in TensorPipe).
//!
//! Between endpoints the side that accepts makes the memory, since it may refuse to. A stream's
//! memory is made by the side that connects, so that, as with TCP, it can write before anybody has
//! accepted.

mod listener;
#[cfg_attr(all(test, feature = "loom"), path = "shm/modelled_mapping.rs")]
mod mapping;
mod names;
mod peer;
mod ring;
#[cfg(feature = "streams")]
mod streaming;

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown,
};

use super::Transfer;
use crate::memory::PAGE_BYTES;
use crate::sync::atomic::{AtomicBool, Ordering};

pub(crate) use listener::ShmListener;
pub use mapping::Mapping;
#[cfg(feature = "streams")]
pub(crate) use names::written_like;
pub(crate) use names::{Namespace, reached};

use listener::socket;
use names::listeners_for;
use peer::check_peer;
use ring::{CAPACITY, CONTROL_WORDS, Place, Reader, Writer};

/// Ports that the connecting side draws its name from: those that systems hand out.
const PORT_FIRST: u16 = 32_768;
const PORTS: u16 = 28_000;

/// To the side that accepted, and to the side that connected: control blocks in the first page,
/// then the bytes.
const TO_ACCEPTOR: Place = Place { control: 0, data: PAGE_BYTES };
const TO_CONNECTOR: Place = Place { control: CONTROL_WORDS, data: PAGE_BYTES + CAPACITY };
const MAPPING_BYTES: usize = PAGE_BYTES + 2 * CAPACITY;

const _: () = assert!(2 * CONTROL_WORDS * 8 <= PAGE_BYTES);

/// What a connection's rings take of either side's memory, in bytes.
pub(crate) const SHM_BYTES: u64 = MAPPING_BYTES as u64;

/// Which end of a connection a link is, and so which ring it writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Connector,
    Acceptor,
}

/// One end of a shared-memory connection.
#[derive(Debug)]
pub(crate) struct ShmLink {
    side: Side,
    socket: OwnedFd,
    rings: OnceLock<Rings>,
    /// The peer has closed its end of the socket: nothing is added to what lies in the ring.
    ended: AtomicBool,
}

#[derive(Debug)]
struct Rings {
    writer: Writer,
    reader: Reader,
}

impl ShmLink {
    /// Begins to connect to whoever on this host listens at `address`. The link has yet to be given
    /// memory; if the peer does that, it becomes readable when that has succeeded or failed.
    ///
    /// # Errors
    /// `ConnectionRefused` if there is nobody, or nobody who shares memory.
    pub(crate) fn connect(address: SocketAddr, names: Namespace) -> io::Result<Self> {
        let address = reached(address);
        let mut last = io::ErrorKind::ConnectionRefused.into();
        for listener in listeners_for(address) {
            match Self::connect_to(listener, address.ip(), names) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => last = error,
                result => return result,
            }
        }
        Err(last)
    }

    /// Connects to the listener that is named `listener`, from an address of our own at `ip`.
    fn connect_to(listener: SocketAddr, ip: IpAddr, names: Namespace) -> io::Result<Self> {
        let socket = socket()?;
        // Named like a TCP connection's end, so that the peer has an address to speak of.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let bound = (0..PORTS).find_map(|_| {
            let next = std::process::id().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
            let port = PORT_FIRST + (next % u32::from(PORTS)) as u16;
            let named = names.name_from(SocketAddr::new(ip, port));
            let named = named.and_then(|name| rustix::net::bind(&socket, &name));
            (named != Err(Errno::ADDRINUSE)).then_some(named)
        });
        bound.unwrap_or(Err(Errno::ADDRNOTAVAIL))?;
        rustix::net::connect(&socket, &names.name(listener)?)?;
        check_peer(socket.as_fd())?;
        Ok(Self::new(Side::Connector, socket))
    }

    fn new(side: Side, socket: OwnedFd) -> Self {
        Self { side, socket, rings: OnceLock::new(), ended: AtomicBool::new(false) }
    }

    /// Makes the memory and passes it to the peer, who takes it by `finish_connect`.
    pub(crate) fn offer(&self) -> io::Result<()> {
        let (mapping, file) = Mapping::create(MAPPING_BYTES)?;
        let files = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(&files));
        assert!(fits, "the space is made for one file");
        let bell = [IoSlice::new(&[0])];
        rustix::net::sendmsg(&self.socket, &bell, &mut ancillary, SendFlags::NOSIGNAL)?;
        self.begin(mapping);
        Ok(())
    }

    fn begin(&self, mapping: Mapping) {
        let (out, back) = match self.side {
            Side::Connector => (TO_ACCEPTOR, TO_CONNECTOR),
            Side::Acceptor => (TO_CONNECTOR, TO_ACCEPTOR),
        };
        let mapping = Arc::new(mapping);
        let writer = Writer::new(Arc::clone(&mapping), out);
        let reader = Reader::new(mapping, back);
        writer.arrive();
        let fresh = self.rings.set(Rings { writer, reader }).is_ok();
        assert!(fresh, "a link gets its memory once");
    }

    /// For the poller: readable when the peer has rung or is gone.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes in what the socket says: bells, which have done their work, or the peer's end.
    pub(crate) fn hear(&self) {
        let Some(rings) = self.rings.get() else { return };
        rings.reader.wake_up();
        let mut bells = [0; 64];
        match rustix::net::recv(&self.socket, &mut bells[..], RecvFlags::DONTWAIT) {
            Ok((_, 1..)) | Err(Errno::AGAIN | Errno::INTR) => {}
            Ok((_, 0)) | Err(_) => self.ended.store(true, Ordering::Release),
        }
    }

    /// Whether there is something to read.
    #[inline]
    pub(crate) fn is_readable(&self) -> bool {
        self.rings.get().is_some_and(|rings| rings.reader.is_readable())
    }

    /// Whether there is room to write.
    pub(crate) fn is_writable(&self) -> bool {
        self.rings.get().is_some_and(|rings| rings.writer.has_room(1))
    }

    /// Whether there is room for more than a few frames.
    pub(crate) fn has_room(&self) -> bool {
        self.rings.get().is_some_and(|rings| rings.writer.has_room(CAPACITY / 4))
    }

    /// Writes that the ring to the peer had room for some of.
    #[cfg(feature = "streams")]
    pub(crate) fn sends(&self) -> u64 {
        self.rings.get().map_or(0, |rings| rings.writer.writes())
    }

    /// Where it is connected from: the address that its socket is named after.
    #[cfg(feature = "streams")]
    pub(crate) fn local_address(&self, names: Namespace) -> io::Result<SocketAddr> {
        let own = rustix::net::SocketAddrUnix::try_from(rustix::net::getsockname(&self.socket)?)?;
        let own = own.abstract_name().and_then(|name| names.address_of(name));
        own.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Has the peer ring when it writes, from here on. Returns false if it has written already.
    pub(crate) fn sleep(&self) -> bool {
        self.rings.get().is_none_or(|rings| rings.reader.sleep())
    }

    /// Receives what is there, as [`Transfer::receive`] does, and says whether the peer was rung for
    /// because there is room now.
    #[inline]
    pub(crate) fn take(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<(usize, bool)> {
        let rings = self.rings()?;
        // Before the ring: whoever ends a link has written everything by then.
        let ended = self.ended.load(Ordering::Acquire) || rings.reader.is_finished();
        match rings.reader.read(into)? {
            (0, _) if !ended => Err(io::ErrorKind::WouldBlock.into()),
            (count, wake) => {
                if wake {
                    self.ring_bell();
                }
                Ok((count, wake))
            }
        }
    }

    fn ring_bell(&self) {
        // A full socket holds bells enough, and a peer that is gone needs none.
        let _ = rustix::net::send(&self.socket, &[0], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }

    fn rings(&self) -> io::Result<&Rings> {
        self.rings.get().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Transfer for ShmLink {
    #[inline]
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let rings = self.rings()?;
        // Who has ended its end may have left something to read before: an error would end the connection first. As over
        // TCP, what is sent to somebody who is gone goes nowhere.
        if self.ended.load(Ordering::Acquire) && !rings.reader.is_readable() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let (count, wake) = rings.writer.write(pieces)?;
        if wake {
            self.ring_bell();
        }
        Ok(count)
    }

    #[inline]
    fn receive(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.take(into).map(|(count, _)| count)
    }

    fn finish_connect(&self) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let into = &mut [IoSliceMut::new(&mut byte)];
        let received = rustix::net::recvmsg(&self.socket, into, &mut ancillary, flags)?;
        let files = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        match (received.bytes, files.flatten().next()) {
            (0, _) => Err(io::ErrorKind::ConnectionRefused.into()),
            (_, Some(file)) => {
                let mapping = Mapping::open(file.as_fd(), MAPPING_BYTES)?;
                self.begin(mapping);
                Ok(())
            }
            (_, None) => Err(io::Error::new(io::ErrorKind::InvalidData, "no memory was passed")),
        }
    }

    fn finish(&self) {
        // The peer may have gone first; then there is nobody to tell.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }

    fn shutdown(&self) {
        // The peer may have gone first; then there is nothing left to end.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }
}

#[cfg(test)]
mod tests;
