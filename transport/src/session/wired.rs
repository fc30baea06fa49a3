//! Two sessions and a wire each way, for tests that drive them step by step in whatever order.

mod remote;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

use super::Session;
use super::departures::{ANNOUNCEMENT_COST, Departure};
use super::inbound::{Delivery, Inbound};
use super::inflow::Inflow;
use super::landings::Landed;
use super::outbound::Outbound;
use super::receives::Messages;
use crate::error::CloseReason;
use crate::frame::{Class, Kind};
use crate::handshake::{BODIES, Hello, LARGE, Windows};
use crate::identity::{Incarnation, NodeId};
use crate::link::{Fetch, Offer, Source, Transfer};
use crate::memory::{Block, Memory, MemoryConfig, Purpose, Shared};

pub(super) use remote::Remote;

/// A link that takes a part of what it is given, and keeps it.
#[derive(Default)]
pub(super) struct Wire {
    pub(super) bytes: RefCell<Vec<u8>>,
    room: Cell<usize>,
    /// What both sides offer each other to be read, if they do.
    remote: Option<Remote>,
    /// How often something was to be read.
    fetches: Cell<usize>,
}

impl Wire {
    /// It takes so many bytes from now on.
    pub(super) fn make_room(&self, room: usize) {
        self.room.set(room);
    }
}

impl Transfer for Wire {
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut sent = 0;
        for piece in pieces {
            let count = piece.len().min(self.room.get());
            self.bytes.borrow_mut().extend_from_slice(&piece[..count]);
            self.room.set(self.room.get() - count);
            sent += count;
        }
        if sent == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(sent) }
    }

    fn receive(&self, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        unreachable!("the test moves the bytes")
    }

    fn finish_connect(&self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&self) {}

    fn shutdown(&self) {}

    fn offer(&self, body: &Shared) -> Option<Box<dyn Offer>> {
        Some(remote::offer(self.remote.as_ref()?, body))
    }

    /// Every third time it cannot, as when no more memory may be registered.
    fn fetch(&self, block: Block, sources: &[Source]) -> Result<Box<dyn Fetch>, Block> {
        let Some(remote) = &self.remote else { return Err(block) };
        self.fetches.set(self.fetches.get() + 1);
        if self.fetches.get().is_multiple_of(3) {
            return Err(block);
        }
        Ok(remote::fetch(remote, block, sources))
    }
}

/// One side, with all that has come to it.
pub(super) struct Side {
    pub(super) session: Session,
    outbound: Outbound,
    pub(super) inbound: Inbound,
    pub(super) wire: Wire,
    pub(super) memory: Memory,
    /// Large requests, by their ids.
    pub(super) came: BTreeMap<u64, Vec<u8>>,
    /// Bodies that are streamed behind requests, by the ids of these.
    pub(super) flows: BTreeMap<u64, Arc<Inflow>>,
}

impl Side {
    pub(super) fn new(limit_bytes: u64, messages: Messages) -> Self {
        Self::with_remote(limit_bytes, messages, None)
    }

    /// One that offers its memory, and reads what others with the same `remote` offer.
    pub(super) fn with_remote(
        limit_bytes: u64,
        messages: Messages,
        remote: Option<&Remote>,
    ) -> Self {
        let windows = Windows::default();
        let session = Session::new(&windows, messages);
        session.open(&windows, LARGE | BODIES);
        let outbound = std::mem::take(&mut *session.outbound.lock());
        let memory = Memory::new(MemoryConfig { limit_bytes }).unwrap();
        let inbound = Inbound::new();
        let wire = Wire { remote: remote.cloned(), ..Wire::default() };
        let (came, flows) = (BTreeMap::new(), BTreeMap::new());
        let mut side = Self { session, outbound, inbound, wire, memory, came, flows };
        let (node, incarnation) = (NodeId(1), Incarnation(1));
        let hello = Hello { node, incarnation, features: LARGE | BODIES, windows, secret: None };
        side.receive(&hello.encode());
        side
    }

    /// Sends a request whose body says which it is.
    pub(super) fn request(&self, id: u64, len: usize) {
        let mut block = self.memory.allocate(len, Purpose::Send).unwrap();
        block[..len].copy_from_slice(&body(id, len));
        let block = block.freeze();
        let (head, tail) = (block.slice(0..len / 3), block.slice(len / 3..len));
        assert!(self.session.send_credit.try_reserve(Class::Request, ANNOUNCEMENT_COST));
        // As much as is pushed: room is not what this is about.
        self.session.departures.reserve(Class::Request, len);
        let header = (Kind::Request, Class::Request, id, false);
        self.session.departures.push(Departure::new(header, Some(head), Some(tail)));
    }

    /// Writes up to `room` bytes to the wire.
    pub(super) fn transmit(&mut self, room: usize) {
        self.wire.make_room(room);
        self.outbound.transmit(&self.session, &self.wire).unwrap();
        drop(self.outbound.take_left());
    }

    /// Ends it, as when the connection has.
    pub(super) fn end(&mut self) {
        self.session.sends.abandon();
        self.session.receives.close();
        self.inbound = Inbound::new();
        drop(self.outbound.discard(&self.session));
    }

    /// Takes `bytes`, as a reactor does.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.take_in(bytes, false).unwrap();
    }

    /// Takes in what has been read.
    pub(super) fn fetch(&mut self) {
        self.take_in(&[], true).unwrap();
    }

    pub(super) fn take_in(&mut self, mut bytes: &[u8], fetched: bool) -> Result<(), CloseReason> {
        let (mut wakers, mut frames, mut landed) = (Vec::new(), Vec::new(), Vec::new());
        let (mut hello, mut replied, mut grant_due) = (None, false, false);
        let mut to = Delivery {
            session: &self.session,
            link: &self.wire,
            memory: &self.memory,
            wakers: &mut wakers,
            frames: &mut frames,
            landed: &mut landed,
            hello: &mut hello,
            left: &mut None,
            replied: &mut replied,
            grant_due: &mut grant_due,
        };
        if fetched {
            self.inbound.handle_fetched(&mut to);
        }
        let filled = if fetched { 0 } else { self.inbound.fill(bytes) };
        if filled > 0 {
            bytes = &bytes[filled..];
            self.inbound.handle_filled(filled, &mut to)?;
        }
        if !bytes.is_empty() {
            let mut block = self.memory.allocate(bytes.len() + 512, Purpose::Receive).unwrap();
            let front = self.inbound.copy_carry(&mut block);
            block[front..front + bytes.len()].copy_from_slice(bytes);
            let end = front + bytes.len();
            self.inbound.handle_bytes(&block.freeze(), 0..end, &mut to)?;
        }
        assert!(frames.is_empty(), "all of it is large");
        for Landed { frame, block, flow } in landed {
            match flow {
                Some(flow) => assert!(self.flows.insert(frame.id, flow).is_none()),
                None => {
                    let body = block[frame.body.clone()].to_vec();
                    assert!(self.came.insert(frame.id, body).is_none());
                }
            }
            self.session.receive_credit.release(frame.class, frame.cost());
        }
        Ok(())
    }

    /// Moves up to `count` bytes that have been sent to `other`.
    pub(super) fn deliver(&self, count: usize, other: &mut Self) {
        let mut sent = self.wire.bytes.borrow_mut();
        let count = count.min(sent.len());
        let bytes: Vec<u8> = sent.drain(..count).collect();
        drop(sent);
        other.receive(&bytes);
    }
}

/// A body that says whose it is.
pub(super) fn body(id: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u64 * 31 + at as u64 / 255 + id * 101) as u8).collect()
}
