//! Round trips over plain sockets, blocking and busy-polling.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use weft_transport::Clock;

use crate::phases::{Phase, Phases};
use crate::shape::Lane;

/// How a side waits for the next message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// In `recv`, asleep.
    Blocking,
    /// In a loop around a `recv` that returns at once.
    Busy,
}

/// One thread's ping-pongs, a connection a lane, in turn.
pub(crate) fn measure(
    address: SocketAddr,
    size: usize,
    lanes: &[Lane],
    wait: Wait,
    phases: &Phases,
) -> anyhow::Result<Histogram<u64>> {
    let mut streams = Vec::with_capacity(lanes.len());
    for _ in lanes {
        let stream = super::connect(address)?;
        stream.set_nonblocking(wait == Wait::Busy)?;
        streams.push(stream);
    }
    let clock = Clock::system();
    let message = vec![7_u8; size];
    let mut answer = vec![0_u8; size];
    let mut histogram = Histogram::new(3)?;
    loop {
        for stream in &mut streams {
            let phase = phases.now();
            if phase == Phase::Stop {
                return Ok(histogram);
            }
            let asked = clock.now();
            match wait {
                Wait::Blocking => {
                    stream.write_all(&message)?;
                    stream.read_exact(&mut answer).context("the raw server went away")?;
                }
                Wait::Busy => {
                    write_spinning(stream, &message)?;
                    let whole = read_spinning(stream, &mut answer)?;
                    anyhow::ensure!(whole, "the raw server went away");
                }
            }
            if phase == Phase::Measure {
                let nanos = clock.now().since(asked).as_nanos();
                histogram.record(u64::try_from(nanos)?)?;
            }
        }
    }
}

pub(crate) fn serve_blocking(size: usize) -> anyhow::Result<SocketAddr> {
    super::serve_each(move |mut stream| {
        let mut message = vec![0_u8; size];
        loop {
            stream.read_exact(&mut message)?;
            stream.write_all(&message)?;
        }
    })
}

/// One thread polls all connections in turn: several that spin on one processor would measure the
/// scheduler.
pub(crate) fn serve_busy(size: usize, connections: usize) -> anyhow::Result<SocketAddr> {
    let (listener, address) = super::listen()?;
    std::thread::spawn(move || poll_connections(&listener, size, connections));
    Ok(address)
}

fn poll_connections(
    listener: &TcpListener,
    size: usize,
    connections: usize,
) -> std::io::Result<()> {
    let mut streams = Vec::with_capacity(connections);
    for _ in 0..connections {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        streams.push((stream, 0_usize));
    }
    let mut message = vec![0_u8; size];
    while !streams.is_empty() {
        streams.retain_mut(|(stream, filled)| {
            // A message may come in parts; its bytes are all alike, so only their count is kept a
            // connection.
            match stream.read(&mut message[*filled..]) {
                Ok(0) => return false,
                Ok(read) => *filled += read,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
            if *filled < size {
                return true;
            }
            *filled = 0;
            write_spinning(stream, &message).is_ok()
        });
    }
    Ok(())
}

pub(crate) fn write_spinning(stream: &mut TcpStream, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns `false` if the stream ended first.
fn read_spinning(stream: &mut TcpStream, buffer: &mut [u8]) -> std::io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Ok(false),
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
