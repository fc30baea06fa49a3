//! What has come to an end, until it is read, and the receives that it came into.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::sync::atomic::Ordering;

use super::super::ffi::Receive;
use super::{End, HEAD_BYTES};
use crate::link::verbs_rules::credits::{Kind, POST_AT, POST_MAX, RECEIVES};

/// What has come and has not been read, and what is to be posted again.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    arrived: VecDeque<Arrived>,
    /// Receives that have been read and are to be posted again, [`POST_AT`] to [`POST_MAX`] in one call.
    emptied: Vec<Receive>,
}

#[derive(Debug)]
struct Arrived {
    receive: Receive,
    len: usize,
    read: usize,
}

impl End {
    /// Whether there is something to read, the end included.
    #[inline]
    pub(in crate::link::verbs) fn is_readable(&self) -> bool {
        self.ended.load(Ordering::Acquire)
            || self.has_failed()
            || self.fetched.load(Ordering::Acquire)
            || self.any_arrived.load(Ordering::Acquire)
    }

    /// Receives what has come, as far as it fits; zero bytes are the end.
    pub(in crate::link::verbs) fn receive(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        // Before what has come: nothing comes after the end.
        let (ended, failed) = (self.ended.load(Ordering::Acquire), self.has_failed());
        let mut guard = self.inbound.lock();
        let inbound = &mut *guard;
        let mut total = 0;
        for buffer in into {
            let mut rest = &mut buffer[..];
            while !rest.is_empty()
                && let Some(arrived) = inbound.arrived.front_mut()
            {
                let count = arrived.read(rest);
                rest = &mut rest[count..];
                total += count;
                if arrived.read == arrived.len {
                    let arrived = inbound.arrived.pop_front().expect("it was just there");
                    inbound.emptied.push(arrived.receive);
                }
            }
        }
        if inbound.arrived.is_empty() {
            self.any_arrived.store(false, Ordering::Release);
        }
        if inbound.emptied.len() as u32 >= POST_MAX {
            self.post_emptied(inbound)?;
        }
        match total {
            0 if failed => Err(io::ErrorKind::ConnectionReset.into()),
            0 if !ended => Err(io::ErrorKind::WouldBlock.into()),
            total => Ok(total),
        }
    }

    /// Nothing has come for a moment: posts again what has been read, if that is worth a call.
    pub(in crate::link::verbs) fn tidy(&self) {
        let mut inbound = self.inbound.lock();
        if inbound.emptied.len() as u32 >= POST_AT {
            // A failure has been noted.
            let _ = self.post_emptied(&mut inbound);
        }
    }

    fn post_emptied(&self, inbound: &mut Inbound) -> io::Result<()> {
        let count = inbound.emptied.len() as u32;
        self.queues.post(inbound.emptied.drain(..)).inspect_err(|_| self.fail())?;
        let mut out = self.out.lock();
        out.credits.post(Kind::Data, count);
        self.send_due(&mut out);
        Ok(())
    }

    /// A message has come. Returns the receive if nobody has to read it.
    pub(in crate::link::verbs) fn arrived(
        &self,
        receive: Receive,
        len: usize,
        immediate: Option<u32>,
    ) -> Option<Receive> {
        let Some((kind, position)) = immediate.and_then(Kind::of) else {
            self.fail();
            return Some(receive);
        };
        let mut out = self.out.lock();
        if !out.credits.hear(position) {
            self.fail();
            return Some(receive);
        }
        if kind != Kind::Data || len == 0 {
            if kind == Kind::End {
                self.end();
            }
            out.credits.post(kind, 1);
            self.send_due(&mut out);
            return Some(receive);
        }
        drop(out);
        let mut inbound = self.inbound.lock();
        if inbound.arrived.len() >= RECEIVES as usize {
            // More than it was granted, at the cost of others.
            self.fail();
            return Some(receive);
        }
        inbound.arrived.push_back(Arrived { receive, len, read: 0 });
        self.any_arrived.store(true, Ordering::Release);
        None
    }
}

impl Arrived {
    /// Copies what has not been read yet, as far as it fits.
    fn read(&mut self, into: &mut [u8]) -> usize {
        let start = self.read;
        let unread = self.len - self.read;
        let into_len = into.len().min(unread);
        if start == 0 && into_len <= HEAD_BYTES {
            // Most messages are as short.
            into[..into_len].copy_from_slice(&self.receive.head.bytes()[..into_len]);
            self.read = into_len;
            return into_len;
        }
        let mut into = &mut into[..into_len];
        while !into.is_empty() {
            let from = match self.read.checked_sub(HEAD_BYTES) {
                None => &self.receive.head.bytes()[self.read..],
                Some(at) => &self.receive.body.bytes()[at..],
            };
            let count = from.len().min(into.len());
            let (part, rest) = into.split_at_mut(count);
            part.copy_from_slice(&from[..count]);
            into = rest;
            self.read += count;
        }
        self.read - start
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let Inbound { arrived, emptied } = self.inbound.get_mut();
        // What was not read is lost with the connection; its receives are for the next.
        let unread = arrived.drain(..).map(|arrived| arrived.receive);
        if let Err(error) = self.queues.post(unread.chain(emptied.drain(..))) {
            tracing::warn!(%error, "receives of a closed connection were lost");
        }
    }
}
