//! One-way traffic over plain sockets: messages copied into large writes, or bare bytes.

use std::hint::black_box;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use weft_transport::Clock;

use super::WRITE_BYTES;
use crate::phases::{Phase, Phases};
use crate::tally::Tally;

/// What writes of 64 KiB are called.
pub(crate) const WRITES: &str = "64 KiB writes";

/// What writes are called that are one segment each.
pub(crate) const SEGMENTS: &str = "1 segment writes";

/// Copies messages of `size` bytes into a buffer of `write_bytes`, and writes it when no further one fits. A
/// message that is longer is written from where it lies.
pub(crate) fn send_messages(
    address: SocketAddr,
    size: usize,
    write_bytes: usize,
    connections: usize,
    phases: &Phases,
) -> anyhow::Result<()> {
    let mut messages = Messages::new(size, write_bytes);
    write_in_turn(address, connections, phases, |stream| {
        messages.next_write().chunks(write_bytes).try_for_each(|part| stream.write_all(part))
    })
}

/// Messages of one size, each of which begins with its length.
pub(super) struct Messages {
    message: Vec<u8>,
    buffer: Vec<u8>,
    write_bytes: usize,
}

impl Messages {
    pub(super) fn new(size: usize, write_bytes: usize) -> Self {
        let mut message = vec![7_u8; size];
        let length = u32::try_from(size).expect("a message is at most 1 MiB");
        let bytes = length_bytes(size);
        message[..bytes].copy_from_slice(&length.to_le_bytes()[..bytes]);
        Self { message, buffer: Vec::with_capacity(write_bytes), write_bytes }
    }

    /// What [`next_write`](Self::next_write) has returned last.
    pub(super) fn last_write(&self) -> &[u8] {
        if self.buffer.is_empty() { &self.message } else { &self.buffer }
    }

    /// As many as go into one write, copied anew, or one that is longer.
    pub(super) fn next_write(&mut self) -> &[u8] {
        if self.message.len() > self.write_bytes / 2 {
            return &self.message;
        }
        self.buffer.clear();
        for _ in 0..self.write_bytes / self.message.len() {
            // Without the black box the compiler may see that all copies are one.
            self.buffer.extend_from_slice(black_box(&self.message));
        }
        &self.buffer
    }
}

/// Writes the same bytes again and again.
pub(crate) fn send_bytes(
    address: SocketAddr,
    write_bytes: usize,
    connections: usize,
    phases: &Phases,
) -> anyhow::Result<()> {
    let buffer = vec![7_u8; write_bytes];
    write_in_turn(address, connections, phases, |stream| stream.write_all(&buffer))
}

fn write_in_turn(
    address: SocketAddr,
    connections: usize,
    phases: &Phases,
    mut write: impl FnMut(&mut TcpStream) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    let mut streams = (0..connections)
        .map(|_| super::connect(address))
        .collect::<anyhow::Result<Vec<TcpStream>>>()?;
    loop {
        for stream in &mut streams {
            if phases.now() == Phase::Stop {
                return Ok(());
            }
            write(stream)?;
        }
    }
}

pub(crate) fn serve_messages(
    size: usize,
    clock: Clock,
    tally: Arc<Tally>,
) -> anyhow::Result<SocketAddr> {
    super::serve_each(move |mut stream| {
        let mut buffer = vec![0_u8; WRITE_BYTES];
        let mut parser = Parser::new(size);
        loop {
            let read = stream.read(&mut buffer[parser.carried..])?;
            if read == 0 {
                return Ok(());
            }
            let mut batch = tally.batch(clock.now());
            batch.count(parser.parse(&mut buffer, read), read);
        }
    })
}

pub(crate) fn serve_bytes(clock: Clock, tally: Arc<Tally>) -> anyhow::Result<SocketAddr> {
    super::serve_each(move |mut stream| {
        let mut buffer = vec![0_u8; WRITE_BYTES];
        loop {
            let read = stream.read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            tally.batch(clock.now()).count(1, read);
        }
    })
}

/// One thread looks at all connections in turn and never sleeps.
pub(crate) fn serve_bytes_busy(
    connections: usize,
    clock: Clock,
    tally: Arc<Tally>,
) -> anyhow::Result<SocketAddr> {
    let (listener, address) = super::listen()?;
    std::thread::spawn(move || -> std::io::Result<()> {
        let mut streams = Vec::with_capacity(connections);
        for _ in 0..connections {
            let (stream, _) = listener.accept()?;
            stream.set_nonblocking(true)?;
            streams.push(stream);
        }
        let mut buffer = vec![0_u8; WRITE_BYTES];
        while !streams.is_empty() {
            streams.retain_mut(|stream| match stream.read(&mut buffer) {
                Ok(0) => false,
                Ok(read) => {
                    tally.batch(clock.now()).count(1, read);
                    true
                }
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            });
        }
        Ok(())
    });
    Ok(address)
}

/// Bytes of the length in front of a message, which counts itself.
fn length_bytes(size: usize) -> usize {
    if size < 4 { 1 } else { 4 }
}

/// Finds the messages in what is received.
pub(super) struct Parser {
    length_bytes: usize,
    /// Bytes of the last message that are still to come.
    rest: usize,
    /// Bytes of a cut length, which stand at the front of the buffer.
    pub(super) carried: usize,
}

impl Parser {
    pub(super) fn new(size: usize) -> Self {
        Self { length_bytes: length_bytes(size), rest: 0, carried: 0 }
    }

    /// Number of messages that have ended in `read` bytes received behind what was carried.
    pub(super) fn parse(&mut self, buffer: &mut [u8], read: usize) -> u64 {
        let end = self.carried + read;
        let (mut messages, mut at) = (0, 0);
        if self.rest > 0 {
            at = self.rest.min(end);
            self.rest -= at;
            messages += u64::from(self.rest == 0);
        }
        while at + self.length_bytes <= end {
            let mut length = [0; 4];
            length[..self.length_bytes].copy_from_slice(&buffer[at..at + self.length_bytes]);
            let length = u32::from_le_bytes(length) as usize;
            // Nothing else would end the loop at a length of zero, which nobody sends.
            let stop = at + length.max(self.length_bytes);
            black_box(&buffer[at..stop.min(end)]);
            self.rest = stop.saturating_sub(end);
            messages += u64::from(self.rest == 0);
            at = stop.min(end);
        }
        buffer.copy_within(at..end, 0);
        self.carried = end - at;
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_when_they_end_however_they_are_cut() {
        for size in [1, 2, 3, 4, 5, 9, 100, WRITE_BYTES / 2, 3 * WRITE_BYTES] {
            let mut messages = Messages::new(size, WRITE_BYTES);
            let mut bytes = Vec::new();
            while bytes.len() < 3 * size.max(50) {
                bytes.extend_from_slice(messages.next_write());
            }
            for cut in [1, 3, 7, 64, WRITE_BYTES - 4] {
                // Bytes one at a time take long for large messages, and no other way.
                let bytes = &bytes[..bytes.len().min(cut << 18)];
                let mut parser = Parser::new(size);
                let mut buffer = vec![0; WRITE_BYTES];
                let mut counted = 0;
                for part in bytes.chunks(cut) {
                    buffer[parser.carried..][..part.len()].copy_from_slice(part);
                    counted += parser.parse(&mut buffer, part.len());
                }
                assert_eq!(counted, (bytes.len() / size) as u64, "{size} cut at {cut}");
            }
        }
    }
}
