//! Incoming: from bytes to frames, checked, with replies and credits delivered.
//!
//! Whoever drives the reactor drives this. Frames are read where they were received. One that is
//! cut off by the end of a receive is carried over to the front of the next one if it is short;
//! a long one gets a block of exactly its length, which the rest is received into. Nothing is
//! allocated before the header has been checked.

use std::ops::Range;
use std::task::Waker;

use super::Session;
use super::call::CallKey;
use super::credit::ReceiveCredit;
use crate::error::CloseReason;
use crate::frame::{Class, HEADER_BYTES, Header, Kind};
use crate::handshake::{Hello, Windows, decode_goodbye};
use crate::limits::CARRY_MAX;
use crate::memory::{Block, Memory, Purpose, Shared};
use crate::reply::Reply;

/// The receiver's half of a session.
#[derive(Debug)]
pub(crate) struct Inbound {
    /// The beginning of a short frame that was cut off.
    carry: Vec<u8>,
    /// A long frame that is being received into a block of its own.
    partial: Option<Partial>,
    greeted: bool,
    /// What the peer granted in its hello.
    windows: Windows,
    /// Bytes received, a class.
    received: [u64; 3],
    /// Frames that have come whole.
    frames: u64,
}

#[derive(Debug)]
struct Partial {
    block: Block,
    filled: usize,
    len: usize,
}

/// What the layer above has to handle: a message or a request in the received bytes.
#[derive(Debug, Clone)]
pub(crate) struct FrameRef {
    pub(crate) kind: Kind,
    pub(crate) class: Class,
    pub(crate) id: u64,
    pub(crate) body: Range<usize>,
}

impl FrameRef {
    /// What the frame costs of its window.
    #[inline]
    pub(crate) fn cost(&self) -> u64 {
        crate::frame::frame_len(self.body.len()) as u64
    }
}

/// What a session's receiving half delivers to.
pub(crate) struct Delivery<'a> {
    pub(crate) session: &'a Session,
    /// What long frames are received into.
    pub(crate) memory: &'a Memory,
    /// Those whose reply or window has come.
    pub(crate) wakers: &'a mut Vec<Waker>,
    /// Messages and requests, with ranges in the bytes that were passed.
    pub(crate) frames: &'a mut Vec<FrameRef>,
    /// The peer's hello, when it comes.
    pub(crate) hello: &'a mut Option<Hello>,
    /// Replies were delivered, so the connection is no one-way stream.
    pub(crate) replied: &'a mut bool,
    /// A window has let enough go that a grant is due.
    pub(crate) grant_due: &'a mut bool,
}

impl Inbound {
    pub(crate) fn new() -> Self {
        Self {
            carry: Vec::new(),
            partial: None,
            greeted: false,
            windows: Windows::default(),
            received: [0; 3],
            frames: 0,
        }
    }

    /// If the peer is in the middle of a frame, how many came before it.
    pub(crate) fn unfinished(&self) -> Option<u64> {
        (!self.carry.is_empty() || self.partial.is_some()).then_some(self.frames)
    }

    /// The unfilled rest of a frame that has a block of its own; what is received goes there first.
    pub(crate) fn unfilled(&mut self) -> Option<&mut [u8]> {
        self.partial.as_mut().map(|partial| &mut partial.block[partial.filled..partial.len])
    }

    /// Puts what has to stand in front of the next bytes into `buffer`; returns how much that is.
    pub(crate) fn copy_carry(&self, buffer: &mut [u8]) -> usize {
        buffer[..self.carry.len()].copy_from_slice(&self.carry);
        self.carry.len()
    }

    /// `count` bytes have been received into [`unfilled`](Self::unfilled). If that completes the
    /// frame, it is handled and its block returned; frames in `to` have their ranges in it.
    pub(crate) fn handle_filled(
        &mut self,
        count: usize,
        to: &mut Delivery<'_>,
    ) -> Result<Option<Shared>, CloseReason> {
        let partial = self.partial.as_mut().expect("something was unfilled");
        partial.filled += count;
        partial.block.mark_touched(partial.filled);
        if partial.filled < partial.len {
            return Ok(None);
        }
        let Partial { block, len, .. } = self.partial.take().expect("as above");
        let block = block.freeze();
        self.handle_bytes(&block, 0..len, to)?;
        Ok(Some(block))
    }

    /// Handles all frames in `range` of `buffer`, and keeps the beginning of one that is cut off.
    ///
    /// # Errors
    /// Why the connection has to be closed. Frames before the offence have been delivered.
    pub(crate) fn handle_bytes(
        &mut self,
        buffer: &Shared,
        range: Range<usize>,
        to: &mut Delivery<'_>,
    ) -> Result<(), CloseReason> {
        self.carry.clear();
        let bytes = &buffer[..range.end];
        let mut at = range.start;
        while let Some(header) = bytes[at..].first_chunk::<HEADER_BYTES>() {
            let header = Header::decode(header)?;
            let len = header.frame_len();
            if bytes.len() - at < len {
                self.admit(&header)?;
                if len > CARRY_MAX {
                    return self.begin_partial(&bytes[at..], len, to.memory);
                }
                break;
            }
            let body = at + HEADER_BYTES..at + HEADER_BYTES + header.len as usize;
            self.handle_frame(&header, buffer, body, to)?;
            at += len;
        }
        self.carry.extend_from_slice(&bytes[at..]);
        Ok(())
    }

    /// Whether a frame may come at this point of the conversation.
    fn admit(&self, header: &Header) -> Result<(), CloseReason> {
        match (header.kind, self.greeted) {
            (Kind::Hello, true) => Err(CloseReason::Violation("a second hello")),
            (Kind::Hello | Kind::Goodbye, _) | (_, true) => Ok(()),
            (_, false) => Err(CloseReason::Violation("no hello first")),
        }
    }

    fn begin_partial(
        &mut self,
        start: &[u8],
        len: usize,
        memory: &Memory,
    ) -> Result<(), CloseReason> {
        let mut block = memory.allocate(len, Purpose::Receive).map_err(|_| CloseReason::Memory)?;
        block[..start.len()].copy_from_slice(start);
        self.partial = Some(Partial { block, filled: start.len(), len });
        Ok(())
    }

    #[inline]
    fn handle_frame(
        &mut self,
        header: &Header,
        buffer: &Shared,
        body: Range<usize>,
        to: &mut Delivery<'_>,
    ) -> Result<(), CloseReason> {
        self.admit(header)?;
        self.frames += 1;
        match header.kind {
            Kind::Message | Kind::Request => {
                self.charge(header, &to.session.receive_credit)?;
                let Header { kind, class, id, .. } = *header;
                to.frames.push(FrameRef { kind, class, id, body });
            }
            Kind::Reply => {
                self.charge(header, &to.session.receive_credit)?;
                *to.replied = true;
                let reply = Reply::received(buffer, body);
                to.wakers.extend(to.session.calls.deliver(CallKey(header.id), reply, header.more));
                *to.grant_due |=
                    to.session.receive_credit.release(header.class, header.frame_len() as u64);
            }
            Kind::Credit => {
                // The peer cannot have let go of more than was ever sent to it.
                let window = u64::from(self.windows.of(header.class));
                if header.id > to.session.lanes.taken_bytes() + window {
                    return Err(CloseReason::Violation("window granted for what was never sent"));
                }
                to.session.grant(header.class, header.id, window, to.wakers);
            }
            Kind::Hello => {
                let hello = Hello::decode(&buffer[body])?;
                self.windows = hello.windows;
                self.greeted = true;
                *to.hello = Some(hello);
            }
            Kind::Goodbye => return Err(decode_goodbye(header, &buffer[body])),
        }
        Ok(())
    }

    /// Charges a frame to its window.
    #[inline]
    fn charge(&mut self, header: &Header, credit: &ReceiveCredit) -> Result<(), CloseReason> {
        if (header.kind == Kind::Reply) != (header.class == Class::Reply) {
            return Err(CloseReason::Violation("a frame in a class that is not its own"));
        }
        let received = &mut self.received[header.class as usize];
        *received += header.frame_len() as u64;
        if *received > credit.announced(header.class) {
            return Err(CloseReason::WindowExceeded);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
