//! A peer that writes its frames by hand, on the simulated network: it does what no endpoint would.

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::time::Duration;

use super::World;
use crate::endpoint::Endpoint;
use crate::frame::{Class, HEADER_BYTES, Header, Kind, frame_len};
use crate::handshake::{Hello, Windows};
use crate::identity::{Incarnation, NodeId};
use crate::link::{SimLink, Transfer};

/// What the frames of one peer are by their headers, and whether nothing comes behind them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) frames: Vec<(Kind, u64)>,
    pub(super) is_end: bool,
}

/// One end of a link, with no endpoint behind it.
pub(super) struct Stranger {
    link: SimLink,
}

impl Stranger {
    /// One that has connected, and said nothing yet.
    pub(super) fn silent(world: &World, address: SocketAddr) -> Self {
        Self { link: world.network.port().connect(address).unwrap() }
    }

    /// A client that has said hello and been answered.
    pub(super) fn greeted(world: &mut World, address: SocketAddr, client: u64) -> Self {
        let stranger = Self::silent(world, address);
        stranger.write(&hello(client));
        world.settle();
        let heard = stranger.hear();
        assert_eq!(heard.frames.first().map(|(kind, _)| *kind), Some(Kind::Hello), "{heard:?}");
        stranger
    }

    /// Sends what the link has room for, which is to be all.
    pub(super) fn write(&self, bytes: &[u8]) {
        assert_eq!(self.link.send(&[IoSlice::new(bytes)]).unwrap(), bytes.len());
    }

    /// The same of more than the link has room for at once.
    pub(super) fn write_long(&self, world: &mut World, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.link.send(&[IoSlice::new(bytes)]) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            world.settle();
        }
    }

    /// All that has come by now.
    pub(super) fn hear(&self) -> Heard {
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        let is_end = loop {
            match self.link.receive(&mut [IoSliceMut::new(&mut buffer)]) {
                Ok(0) => break true,
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
                Err(error) => panic!("{error}"),
            }
        };
        let (mut frames, mut rest) = (Vec::new(), &bytes[..]);
        while let Some((header, _)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let header = Header::decode(header).unwrap();
            frames.push((header.kind, header.id));
            rest = &rest[header.frame_len()..];
        }
        assert!(rest.is_empty(), "a frame comes whole here");
        Heard { frames, is_end }
    }
}

/// The hello of a client.
pub(super) fn hello(client: u64) -> Vec<u8> {
    let (node, incarnation) = (NodeId::client(client), Incarnation(1));
    let windows = Windows::default();
    Hello { node, incarnation, features: 0, windows, secret: None }.encode()
}

/// A frame of this kind and class, with a body of so many zeros.
pub(super) fn frame(kind: Kind, class: Class, id: u64, len: usize) -> Vec<u8> {
    let header = Header { len: len as u32, kind, class, more: false, id };
    let mut bytes = header.encode().to_vec();
    bytes.resize(frame_len(len), 0);
    bytes
}

impl World {
    /// What is sent arrives at once and in one piece: what happens is told by the order in which it is said.
    pub(super) fn make_prompt(&self) {
        self.network.configure(|config| {
            config.delay = Duration::ZERO..Duration::ZERO;
            config.partial = 0.0;
        });
    }

    /// Goes on until nothing happens any more at this moment.
    pub(super) fn settle(&mut self) {
        while self.step() {}
    }

    /// Lets `time` pass, as long as timers need between two looks, and does all that there is to do.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.after(time);
        loop {
            self.settle();
            let next = self.endpoints.iter().filter_map(Endpoint::next_timer).min();
            match next {
                Some(next) if next < end => self.hand.advance_to(next),
                _ if self.clock.now() < end => self.hand.advance_to(end),
                _ => return,
            }
        }
    }
}
