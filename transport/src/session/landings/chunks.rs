//! Chunks: whether they may come, where they go, and what becomes of a transfer with its last one.

use std::task::Waker;

use super::{Landed, Landing, Landings, Stage};
use crate::error::{CloseReason, StopReason};
use crate::frame::{Header, Kind};
use crate::limits::CHUNK_BYTES;
use crate::reply::Reply;
use crate::session::call::CallKey;
use crate::session::departures::{ANNOUNCEMENT_COST, Control};
use crate::session::inbound::{Delivery, FrameRef};
use crate::session::inflow::End;

impl Landings {
    /// Whether a chunk may come that has this header.
    pub(in crate::session) fn admit(&self, header: &Header) -> Result<(), CloseReason> {
        if let Some(at) = self.bodies.find(header.id) {
            return self.bodies.admit(at, header);
        }
        let at = self.find(header.id)?;
        let landing = &self.open[at];
        if let Stage::Fetching(..) = landing.stage {
            return Err(CloseReason::Violation("a chunk of what is being read"));
        }
        let end = landing.received + header.len as usize;
        if header.len as usize != CHUNK_BYTES.min(landing.len - landing.received) {
            return Err(CloseReason::Violation("a chunk that is too long or too short"));
        }
        if end > landing.granted {
            return Err(CloseReason::WindowExceeded);
        }
        Ok(())
    }

    /// Where the chunk with this header goes, which was admitted; nothing if it is dropped.
    pub(in crate::session) fn place(&mut self, header: &Header) -> Option<&mut [u8]> {
        let number = header.id;
        if let Some(at) = self.bodies.find(number) {
            return self.bodies.place(at, header.len as usize);
        }
        let landing = self.open.iter_mut().find(|landing| landing.number == number)?;
        let bytes = match &mut landing.stage {
            Stage::Landing(block) => &mut block[..],
            Stage::Posted(claim) => claim.bytes(),
            Stage::Waiting | Stage::Unmatched | Stage::Fetching(..) | Stage::Refused => {
                return None;
            }
        };
        let len = CHUNK_BYTES.min(landing.len - landing.received);
        Some(&mut bytes[landing.received..landing.received + len])
    }

    /// A chunk that was admitted is in its place, or has been dropped.
    pub(in crate::session) fn handle_chunk(
        &mut self,
        header: &Header,
        to: &mut Delivery<'_>,
    ) -> Result<(), CloseReason> {
        if let Some(at) = self.bodies.find(header.id) {
            self.bodies.handle_chunk(at, header.len as usize, to.wakers);
            return Ok(());
        }
        let at = self.find(header.id)?;
        let landing = &mut self.open[at];
        landing.received += header.len as usize;
        self.granted_bytes -= header.len as usize;
        self.chunks += 1;
        if landing.received == landing.len {
            self.finish(at, to);
        } else if let Stage::Posted(claim) = &mut landing.stage {
            claim.mark_touched(landing.received);
        } else if let Stage::Landing(block) = &mut landing.stage {
            block.mark_touched(landing.received);
            let call = CallKey(landing.id);
            if landing.kind == Kind::Reply && !to.session.calls.is_waiting(call) {
                landing.stage = Stage::Refused;
                to.session.departures.tell(Control::Refuse { number: landing.number });
                *to.grant_due = true;
            }
        }
        Ok(())
    }

    /// The peer sends nothing more of transfer `number`, or of a body, which is for a reason then.
    pub(in crate::session) fn cancel(
        &mut self,
        number: u64,
        reason: &[u8],
        to: &mut Delivery<'_>,
    ) -> Result<(), CloseReason> {
        if let Some(at) = self.bodies.find(number) {
            let reason = StopReason::decode(reason)
                .ok_or(CloseReason::Violation("a cancel for a reason that is none"))?;
            self.bodies.end(at, End::Aborted(reason), to);
            return Ok(());
        }
        if !reason.is_empty() {
            return Err(CloseReason::Violation("a cancel of no streamed body, for a reason"));
        }
        let at = self.find(number)?;
        if let Stage::Fetching(..) = self.open[at].stage {
            return Err(CloseReason::Violation("a cancel of what is being read"));
        }
        self.drop_landing(at, to);
        Ok(())
    }

    /// Takes out a transfer that comes no further.
    pub(super) fn drop_landing(&mut self, at: usize, to: &mut Delivery<'_>) {
        let Landing { number, class, stage, .. } = self.remove(at, to.session);
        *to.grant_due |= to.session.receive_credit.release(class, ANNOUNCEMENT_COST as u64);
        let claim = match stage {
            Stage::Posted(claim) => Some(claim),
            Stage::Unmatched => None,
            Stage::Waiting | Stage::Landing(_) | Stage::Fetching(..) | Stage::Refused => return,
        };
        let matched = to.session.receives.forget(number, claim, to.memory);
        *to.grant_due |= to.session.release_all(&matched.taken);
        to.wakers.extend(matched.wakers);
    }

    /// Delivers a transfer that has come whole.
    pub(super) fn finish(&mut self, at: usize, to: &mut Delivery<'_>) {
        let Landing { number, kind, class, id, more, len, stage, .. } = self.remove(at, to.session);
        let released = |to: &mut Delivery<'_>| {
            *to.grant_due |= to.session.receive_credit.release(class, ANNOUNCEMENT_COST as u64);
        };
        let landed = match stage {
            Stage::Landing(block) => Some(block),
            Stage::Fetching(fetch, _) => {
                let position = len as u64;
                to.session.departures.tell(Control::Taken { number, position });
                *to.grant_due = true;
                fetch.into_block()
            }
            Stage::Posted(mut claim) => {
                claim.mark_touched(len);
                to.wakers.extend(claim.complete(len));
                None
            }
            Stage::Waiting | Stage::Unmatched | Stage::Refused => None,
        };
        let Some(mut block) = landed else { return released(to) };
        block.mark_touched(len);
        let block = block.freeze();
        if kind == Kind::Reply {
            *to.replied = true;
            let reply = Reply::received(&block, 0..len);
            let woken: Option<Waker> = to.session.calls.deliver(CallKey(id), reply, more);
            to.wakers.extend(woken);
            released(to);
        } else {
            let frame = FrameRef { kind, class, id, body: 0..len };
            to.landed.push(Landed { frame, block, flow: None });
        }
    }
}
