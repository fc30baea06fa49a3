//! One frame after the other: whether it may come, and who it is for.

use std::ops::Range;

use super::{Delivery, FrameRef, Inbound};
use crate::error::{CallError, CloseReason};
use crate::frame::{Announcement, Class, Header, Kind};
use crate::handshake::{Hello, decode_goodbye};
use crate::memory::Shared;
use crate::reply::Reply;
use crate::session::call::CallKey;
use crate::session::credit::ReceiveCredit;

impl Inbound {
    /// Whether a frame may come at this point of the conversation.
    pub(super) fn admit(&self, header: &Header) -> Result<(), CloseReason> {
        match (header.kind, self.greeted) {
            (Kind::Hello, true) => Err(CloseReason::Violation("a second hello")),
            (Kind::Chunk, true) => self.landings.admit(header),
            (Kind::Hello | Kind::Goodbye, _) | (_, true) => Ok(()),
            (_, false) => Err(CloseReason::Violation("no hello first")),
        }
    }

    #[inline]
    pub(super) fn handle_frame(
        &mut self,
        header: &Header,
        buffer: &Shared,
        body: Range<usize>,
        to: &mut Delivery<'_>,
    ) -> Result<(), CloseReason> {
        self.admit(header)?;
        self.frames += 1;
        match header.kind {
            Kind::Message if to.session.receives.are_posted() => {
                self.charge(header, header.kind, &to.session.receive_credit)?;
                *to.replied = true;
                let body = &buffer[body];
                let taken = to.session.receives.arrive(header, body, to.memory, to.wakers);
                if taken.map_err(|_| CloseReason::Memory)? {
                    *to.grant_due |= to.session.release_all(std::slice::from_ref(header));
                }
            }
            Kind::Message | Kind::Request => {
                self.charge(header, header.kind, &to.session.receive_credit)?;
                let Header { kind, class, id, .. } = *header;
                to.frames.push(FrameRef { kind, class, id, body });
            }
            Kind::Reply => {
                self.charge(header, header.kind, &to.session.receive_credit)?;
                *to.replied = true;
                let reply = Reply::received(buffer, body);
                to.wakers.extend(to.session.calls.deliver(CallKey(header.id), reply, header.more));
                self.let_go += header.frame_len() as u64;
            }
            Kind::Unanswered => {
                self.charge(header, Kind::Reply, &to.session.receive_credit)?;
                *to.replied = true;
                to.session.calls.fail(CallKey(header.id), CallError::Unanswered, to.wakers);
                *to.grant_due |= to.session.release_all(std::slice::from_ref(header));
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
                // Frames that came along with the hello are handled before the connection is opened.
                to.session.departures.agree(hello.features);
                self.greeted = true;
                *to.hello = Some(hello);
            }
            Kind::Goodbye => match decode_goodbye(header, &buffer[body]) {
                reason @ (CloseReason::Duplicate | CloseReason::Evicted) if self.greeted => {
                    *to.left = Some(reason);
                }
                reason => return Err(reason),
            },
            Kind::Announce
            | Kind::Grant
            | Kind::Chunk
            | Kind::Refuse
            | Kind::Cancel
            | Kind::Source
            | Kind::Taken
            | Kind::Withdraw => {
                self.handle_transfer(header, &buffer[body], to)?;
            }
            Kind::OpenMessage | Kind::OpenRequest | Kind::OpenReply | Kind::End => {
                self.handle_body(header, &buffer[body], to)?;
            }
        }
        Ok(())
    }

    /// Handles what belongs to a large body.
    fn handle_transfer(
        &mut self,
        header: &Header,
        body: &[u8],
        to: &mut Delivery<'_>,
    ) -> Result<(), CloseReason> {
        let departures = &to.session.departures;
        if !departures.is_agreed() {
            return Err(CloseReason::Violation("a large message, which was not agreed on"));
        }
        match header.kind {
            Kind::Announce => {
                let announcement = Announcement::decode(body)
                    .ok_or(CloseReason::Violation("an announcement of nothing"))?;
                self.charge(header, announcement.kind, &to.session.receive_credit)?;
                self.landings.announce(header, announcement, to)
            }
            Kind::Chunk => {
                if let Some(place) = self.landings.place(header) {
                    place[..body.len()].copy_from_slice(body);
                }
                self.landings.handle_chunk(header, to)
            }
            Kind::Cancel => self.landings.cancel(header.id, body, to),
            Kind::Source => self.landings.offer(header.id, body),
            Kind::Withdraw => self.landings.withdraw(header.id, to),
            Kind::Taken => {
                let position = body.try_into().map(u64::from_le_bytes);
                let position = position.map_err(|_| CloseReason::Violation("nothing was taken"))?;
                *to.grant_due |= departures.taken(header.id, position, to.wakers)?;
                Ok(())
            }
            Kind::Grant => {
                let position = body.try_into().map(u64::from_le_bytes);
                let position =
                    position.map_err(|_| CloseReason::Violation("a grant of nothing"))?;
                *to.grant_due |= departures.granted(header.id, position)?;
                Ok(())
            }
            _ => {
                if let Some(call) = departures.refused(header.id, body, to.wakers)? {
                    to.session.calls.fail(call, CallError::PeerMemory, to.wakers);
                }
                *to.grant_due = true;
                Ok(())
            }
        }
    }

    /// Handles the beginning or the end of a streamed body.
    #[cold]
    fn handle_body(
        &mut self,
        header: &Header,
        bytes: &[u8],
        to: &mut Delivery<'_>,
    ) -> Result<(), CloseReason> {
        if !to.session.departures.streams() {
            return Err(CloseReason::Violation("a streamed body, which was not agreed on"));
        }
        let Some(kind) = header.kind.opened() else {
            return self.landings.end(header.id, bytes, to);
        };
        self.charge(header, kind, &to.session.receive_credit)?;
        *to.replied = true;
        self.landings.open(header, kind, bytes, to)
    }

    /// Charges a frame to its window.
    #[inline]
    pub(super) fn charge(
        &mut self,
        header: &Header,
        kind: Kind,
        credit: &ReceiveCredit,
    ) -> Result<(), CloseReason> {
        if (kind == Kind::Reply) != (header.class == Class::Reply) {
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
