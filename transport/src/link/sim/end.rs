//! One end of a simulated connection: what it sends, receives and sees of the other.

use std::io::{self, IoSlice, IoSliceMut};

use rand::RngExt as _;

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
        connection.gone[self.side]
            || due(connection.lost_at[self.side])
            || due(pipe.ends_at)
            || due(pipe.chunks.front().map(|(at, _)| *at))
    }

    /// Whether a send would take something, or fail.
    pub(crate) fn is_writable(&self) -> bool {
        let state = self.network.state.lock();
        let now = state.clock.now();
        let Some(connection) = state.connections.get(&self.id) else { return true };
        let lost =
            connection.gone[self.side] || connection.lost_at[self.side].is_some_and(|at| at <= now);
        let open = connection.accepted_at <= now || self.side == 1;
        lost || open && connection.pipes[1 - self.side].bytes < PIPE_BYTES
    }
}

impl Transfer for SimLink {
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.network.state.lock();
        let now = state.clock.now();
        let (id, side) = (self.id, self.side);
        let connection = state.live(id, side, now)?;
        let way = (connection.hosts[side], connection.hosts[1 - side]);
        let is_gone = connection.gone[1 - side];
        let room = PIPE_BYTES.saturating_sub(connection.pipes[1 - side].bytes);
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let is_open = state.is_open(way);
        let at = if is_open { state.arrival(way) } else { Time::MAX };
        let loss = state.config.loss;
        let lose = is_open && loss > 0.0 && state.random.random_bool(loss);
        let taken = state.shortened(pieces.iter().map(|piece| piece.len()).sum()).min(room);
        let bytes = gathered(pieces, taken);
        let is_slow = state.routes.get(&way).is_some_and(|route| route.slow.is_some());
        state.counters.sends_held += u64::from(!is_open);
        state.counters.sends_slowed += u64::from(is_open && is_slow);
        let connection = state.live(id, side, now)?;
        let pipe = &mut connection.pipes[1 - side];
        pipe.last = pipe.last.max(at);
        pipe.bytes += taken;
        pipe.chunks.push_back((pipe.last, bytes));
        let (last, port) = (pipe.last, connection.ports[1 - side]);
        if is_gone {
            // Nobody is there to take it, but the system may be to say so.
            if is_open && state.is_open((way.1, way.0)) {
                state.reset(id, side, at);
            }
        } else {
            state.agenda.note(last, port);
        }
        if lose {
            state.lose(id);
        }
        Ok(taken)
    }

    fn receive(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut state = self.network.state.lock();
        let now = state.clock.now();
        let mut left = state.shortened(into.iter().map(|buffer| buffer.len()).sum());
        let connection = state.live(self.id, self.side, now)?;
        let way_back = (connection.hosts[self.side], connection.hosts[1 - self.side]);
        let pipe = &mut connection.pipes[self.side];
        let was_full = pipe.bytes >= PIPE_BYTES;
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
            if count == chunk.len() {
                pipe.chunks.pop_front();
            } else {
                chunk.drain(..count);
            }
            received += count;
            left -= count;
        }
        if received > 0 {
            // The sender has room again when it hears of this.
            pipe.unacknowledged += received;
            if state.is_open(way_back) {
                state.acknowledge(self.id, self.side, was_full);
            }
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
        state.live(self.id, self.side, now).map(|_| ())
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
                let is_unheard = state.connections[&id].accepted_at == Time::MAX;
                let queue = state.listeners.get_mut(&to).map(|listening| &mut listening.waiting);
                is_unheard
                    || queue.is_some_and(|queue| {
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

/// The first `len` bytes of `pieces`.
fn gathered(pieces: &[IoSlice<'_>], len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    for piece in pieces {
        let rest = len - bytes.len();
        bytes.extend_from_slice(&piece[..piece.len().min(rest)]);
    }
    bytes
}
