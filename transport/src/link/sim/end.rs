//! One end of a simulated connection: what it sends, receives and sees of the other.

use std::io::{self, IoSlice, IoSliceMut};

use rand::RngExt;

use super::{PIPE_BYTES, SimNetwork};
use crate::link::Transfer;
use crate::time::Time;

/// One end of a simulated connection.
#[derive(Debug)]
pub(crate) struct SimLink {
    pub(super) network: SimNetwork,
    pub(super) id: u64,
    pub(super) side: usize,
}

impl SimLink {
    /// Whether the two are the ends of one connection.
    #[cfg(test)]
    pub(crate) fn is_other_end(&self, of: &Self) -> bool {
        self.id == of.id && self.side != of.side
    }

    /// Whether a receive would return something: bytes, the end or an error.
    pub(crate) fn is_readable(&self) -> bool {
        let state = self.network.state.lock();
        let now = state.clock.now();
        let Some(connection) = state.connections.get(&self.id) else { return true };
        let pipe = &connection.pipes[self.side];
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        due(connection.lost_at) || due(pipe.ends_at) || due(pipe.chunks.front().map(|(at, _)| *at))
    }

    /// Whether a send would take something, or fail.
    pub(crate) fn is_writable(&self) -> bool {
        let state = self.network.state.lock();
        let now = state.clock.now();
        let Some(connection) = state.connections.get(&self.id) else { return true };
        let lost = connection.lost_at.is_some_and(|at| at <= now);
        let open = connection.accepted_at <= now || self.side == 1;
        lost || open && connection.pipes[1 - self.side].bytes < PIPE_BYTES
    }
}

impl Transfer for SimLink {
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.network.state.lock();
        let at = state.arrival();
        let now = state.clock.now();
        let loss = state.config.loss;
        let lose = loss > 0.0 && state.random.random_bool(loss);
        let cut = state.cut(pieces.iter().map(|piece| piece.len()).sum());
        let connection = state.live(self.id, now)?;
        let pipe = &mut connection.pipes[1 - self.side];
        let room = PIPE_BYTES.saturating_sub(pipe.bytes);
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        bytes.truncate(room.min(cut));
        let sent = bytes.len();
        pipe.last = pipe.last.max(at);
        pipe.bytes += sent;
        pipe.chunks.push_back((pipe.last, bytes));
        if lose {
            state.lose(self.id);
        }
        Ok(sent)
    }

    fn receive(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut state = self.network.state.lock();
        let now = state.clock.now();
        let mut left = state.cut(into.iter().map(|buffer| buffer.len()).sum());
        let connection = state.live(self.id, now)?;
        let pipe = &mut connection.pipes[self.side];
        let mut received = 0;
        let mut buffers = into.iter_mut().map(|buffer| &mut **buffer);
        let mut buffer: &mut [u8] = buffers.next().unwrap_or_default();
        while left > 0 {
            if buffer.is_empty() {
                match buffers.next() {
                    Some(next) => buffer = next,
                    None => break,
                }
                continue;
            }
            let Some((at, chunk)) = pipe.chunks.front_mut() else { break };
            if *at > now {
                break;
            }
            let count = chunk.len().min(buffer.len()).min(left);
            let (filled, rest) = std::mem::take(&mut buffer).split_at_mut(count);
            filled.copy_from_slice(&chunk[..count]);
            buffer = rest;
            chunk.drain(..count);
            if chunk.is_empty() {
                pipe.chunks.pop_front();
            }
            pipe.bytes -= count;
            received += count;
            left -= count;
        }
        if received > 0 {
            return Ok(received);
        }
        if pipe.chunks.is_empty() && pipe.ends_at.is_some_and(|at| at <= now) {
            return Ok(0);
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn finish_connect(&self) -> io::Result<()> {
        let mut state = self.network.state.lock();
        let now = state.clock.now();
        state.live(self.id, now).map(|_| ())
    }

    fn finish(&self) {
        self.network.state.lock().end(self.id, self.side);
    }

    fn shutdown(&self) {
        self.network.state.lock().end(self.id, self.side);
    }
}

impl Drop for SimLink {
    fn drop(&mut self) {
        let mut state = self.network.state.lock();
        state.end(self.id, self.side);
        if let Some(connection) = state.connections.get_mut(&self.id) {
            connection.closed[self.side] = true;
            let unaccepted = connection.closed[0] && {
                let (to, id) = (connection.to, self.id);
                let queue = state.listeners.get_mut(&to);
                queue.is_some_and(|queue| {
                    let before = queue.len();
                    queue.retain(|(_, waiting)| *waiting != id);
                    queue.len() < before
                })
            };
            if unaccepted || state.connections[&self.id].closed == [true, true] {
                state.connections.remove(&self.id);
            }
        }
    }
}
