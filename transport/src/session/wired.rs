//! Two sessions and a wire each way, for tests that drive them step by step in whatever order.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};

use super::Session;
use super::departures::{ANNOUNCEMENT_COST, Departure};
use super::inbound::{Delivery, Inbound};
use super::landings::Landed;
use super::outbound::Outbound;
use super::receives::Messages;
use crate::frame::{Class, Kind};
use crate::handshake::{Hello, LARGE, Windows};
use crate::identity::{Incarnation, NodeId};
use crate::link::Transfer;
use crate::memory::{Memory, MemoryConfig, Purpose};

/// A link that takes a part of what it is given, and keeps it.
#[derive(Default)]
pub(super) struct Wire {
    pub(super) bytes: RefCell<Vec<u8>>,
    room: Cell<usize>,
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
}

impl Side {
    pub(super) fn new(limit_bytes: u64, messages: Messages) -> Self {
        let windows = Windows::default();
        let session = Session::new(&windows, messages);
        session.open(&windows, LARGE);
        let outbound = std::mem::take(&mut *session.outbound.lock());
        let memory = Memory::new(MemoryConfig { limit_bytes }).unwrap();
        let inbound = Inbound::new();
        let (wire, came) = (Wire::default(), BTreeMap::new());
        let mut side = Self { session, outbound, inbound, wire, memory, came };
        let (node, incarnation) = (NodeId(1), Incarnation(1));
        let hello = Hello { node, incarnation, features: LARGE, windows, secret: None };
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
        self.session.departures.queued_without_bound(len);
        let header = (Kind::Request, Class::Request, id, false);
        self.session.departures.push(Departure::new(header, Some(head), Some(tail)));
    }

    /// Writes up to `room` bytes to the wire.
    pub(super) fn transmit(&mut self, room: usize) {
        self.wire.room.set(room);
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
    pub(super) fn receive(&mut self, mut bytes: &[u8]) {
        let (mut wakers, mut frames, mut landed) = (Vec::new(), Vec::new(), Vec::new());
        let (mut hello, mut replied, mut grant_due) = (None, false, false);
        let mut to = Delivery {
            session: &self.session,
            memory: &self.memory,
            wakers: &mut wakers,
            frames: &mut frames,
            landed: &mut landed,
            hello: &mut hello,
            replied: &mut replied,
            grant_due: &mut grant_due,
        };
        let filled = self.inbound.fill(bytes);
        if filled > 0 {
            bytes = &bytes[filled..];
            self.inbound.handle_filled(filled, &mut to).unwrap();
        }
        if !bytes.is_empty() {
            let mut block = self.memory.allocate(bytes.len() + 512, Purpose::Receive).unwrap();
            let front = self.inbound.copy_carry(&mut block);
            block[front..front + bytes.len()].copy_from_slice(bytes);
            let end = front + bytes.len();
            self.inbound.handle_bytes(&block.freeze(), 0..end, &mut to).unwrap();
        }
        assert!(frames.is_empty(), "all of it is large");
        for Landed { frame, block } in landed {
            assert!(self.came.insert(frame.id, block[frame.body.clone()].to_vec()).is_none());
            self.session.receive_credit.release(frame.class, frame.cost());
        }
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
