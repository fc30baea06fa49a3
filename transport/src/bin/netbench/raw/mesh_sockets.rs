//! What plain sockets reach when all nodes send to all: a socket a pair, one thread a node, which never
//! blocks but in `poll`.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_transport::Clock;

use super::stream::{Messages, Parser};
use super::{SEGMENT_BYTES, WRITE_BYTES};
use crate::phases::{Phase, Phases};
use crate::tally::Tally;

/// A node that listens and has no sockets yet.
pub(crate) struct SocketNode {
    listener: TcpListener,
    address: SocketAddr,
}

/// The sockets to all others.
pub(crate) struct Sockets(Vec<Peer>);

struct Peer {
    stream: TcpStream,
    buffer: Vec<u8>,
    parser: Parser,
    /// How much of the write that is under way has been taken.
    written: usize,
    /// Bytes of that write.
    write: usize,
}

impl SocketNode {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let (listener, address) = super::listen()?;
        Ok(Self { listener, address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts the nodes before `index`, which have connected, and connects to those behind it.
    pub(crate) fn connect(
        &self,
        index: usize,
        addresses: &[SocketAddr],
        size: usize,
    ) -> anyhow::Result<Sockets> {
        let mut peers = Vec::with_capacity(addresses.len());
        for _ in 0..index {
            let (stream, _) = self.listener.accept().context("failed to accept")?;
            peers.push(stream);
        }
        for address in &addresses[index + 1..] {
            peers.push(super::connect(*address)?);
        }
        let peer = |stream: TcpStream| {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let (buffer, parser) = (vec![0; WRITE_BYTES], Parser::new(size));
            Ok(Peer { stream, buffer, parser, written: 0, write: 0 })
        };
        Ok(Sockets(peers.into_iter().map(peer).collect::<anyhow::Result<_>>()?))
    }
}

impl Sockets {
    /// Sends to all others, if it `sends`, and counts what comes of them.
    pub(crate) fn run(
        &mut self,
        size: usize,
        sends: bool,
        tally: &Tally,
        phases: &Phases,
    ) -> anyhow::Result<()> {
        let clock = Clock::system();
        let mut messages = Messages::new(size, SEGMENT_BYTES);
        while phases.now() != Phase::Stop {
            let mut moved = false;
            for peer in &mut self.0 {
                if sends {
                    moved |= peer.write(&mut messages)?;
                }
                moved |= peer.read(&clock, tally)?;
            }
            if !moved {
                self.wait(sends)?;
            }
        }
        Ok(())
    }

    /// Sleeps until a socket can be read or written, or for 10 ms: then the phase may be over.
    fn wait(&self, sends: bool) -> anyhow::Result<()> {
        let writable = if sends { PollFlags::OUT } else { PollFlags::empty() };
        let watch = |peer| PollFd::new(peer, PollFlags::IN | writable);
        let mut watched: Vec<_> = self.0.iter().map(|peer| watch(&peer.stream)).collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        poll(&mut watched, Some(&timeout)).context("failed to wait for the sockets")?;
        Ok(())
    }
}

impl Peer {
    fn write(&mut self, messages: &mut Messages) -> anyhow::Result<bool> {
        // The bytes of all writes are equal, so a part of this one may come from the next.
        let bytes = if self.written == self.write {
            let bytes = messages.next_write();
            (self.written, self.write) = (0, bytes.len());
            bytes
        } else {
            messages.last_write()
        };
        let part = &bytes[self.written..self.write.min(self.written + SEGMENT_BYTES)];
        match self.stream.write(part) {
            Ok(count) => self.written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error).context("failed to write to a node"),
        }
        Ok(true)
    }

    fn read(&mut self, clock: &Clock, tally: &Tally) -> anyhow::Result<bool> {
        match self.stream.read(&mut self.buffer[self.parser.carried..]) {
            Ok(0) => anyhow::bail!("a node went away"),
            Ok(read) => {
                let mut batch = tally.batch(clock.now());
                batch.count(self.parser.parse(&mut self.buffer, read), read);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error).context("failed to read from a node"),
        }
    }
}
