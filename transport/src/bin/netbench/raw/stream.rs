//! One-way traffic over plain sockets: messages copied into 64 KiB writes, or bare bytes.

use std::hint::black_box;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use weft_transport::Clock;

use super::WRITE_BYTES;
use crate::phases::{Phase, Phases};
use crate::tally::Tally;

/// Copies messages of `size` bytes into a buffer, and writes the buffer when no further one fits.
pub(crate) fn send_messages(
    address: SocketAddr,
    size: usize,
    connections: usize,
    phases: &Phases,
) -> anyhow::Result<()> {
    let mut message = vec![7_u8; size];
    let length = u32::try_from(size).expect("a message is at most 1 MiB");
    message[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    let messages_a_write = (WRITE_BYTES / size).max(1);
    let mut buffer = Vec::with_capacity(messages_a_write * size);
    write_in_turn(address, connections, phases, |stream| {
        buffer.clear();
        for _ in 0..messages_a_write {
            // Without the black box the compiler may see that all copies are one.
            buffer.extend_from_slice(black_box(&message));
        }
        stream.write_all(&buffer)
    })
}

/// Writes the same 64 KiB again and again.
pub(crate) fn send_bytes(
    address: SocketAddr,
    connections: usize,
    phases: &Phases,
) -> anyhow::Result<()> {
    let buffer = vec![7_u8; WRITE_BYTES];
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
        let mut buffer = vec![0_u8; WRITE_BYTES.max(size)];
        let mut filled = 0;
        loop {
            let read = stream.read(&mut buffer[filled..])?;
            if read == 0 {
                return Ok(());
            }
            let mut batch = tally.batch(clock.now());
            let (messages, parsed) = parse(&buffer[..filled + read]);
            batch.count(messages, parsed);
            drop(batch);
            buffer.copy_within(parsed..filled + read, 0);
            filled = filled + read - parsed;
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

/// The length in front of a message, which counts itself.
const LENGTH_BYTES: usize = 4;

/// Number of whole messages, and the bytes they take.
fn parse(bytes: &[u8]) -> (u64, usize) {
    let (mut messages, mut parsed) = (0, 0);
    while let Some(length) = bytes[parsed..].first_chunk::<LENGTH_BYTES>() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some(message) = bytes[parsed..].get(..length) else { break };
        black_box(message);
        messages += 1;
        parsed += length;
    }
    (messages, parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_messages_are_counted_and_a_part_is_left() {
        let mut bytes = Vec::new();
        for length in [4_u32, 9, 5] {
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.resize(bytes.len() + length as usize - LENGTH_BYTES, 1);
        }
        let check = |len: usize, expected| assert_eq!(parse(&bytes[..len]), expected, "{len}");
        check(0, (0, 0));
        check(3, (0, 0));
        check(4, (1, 4));
        check(12, (1, 4));
        check(13, (2, 13));
        check(17, (2, 13));
        check(18, (3, 18));
    }
}
