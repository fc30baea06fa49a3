//! Plain sockets, used as the streams are: all connections at once, writes gathered alike.

use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use weft_transport::{Clock, Time};

use crate::phases::{Phase, Phases};
use crate::raw;

/// One connection's round trips.
pub(super) fn ping_blocking(
    address: SocketAddr,
    size: usize,
    phases: &Phases,
) -> anyhow::Result<Histogram<u64>> {
    let mut stream = raw::connect(address)?;
    let clock = Clock::system();
    let (message, mut answer) = (vec![7_u8; size], vec![0_u8; size]);
    let mut histogram = Histogram::new(3)?;
    loop {
        let phase = phases.now();
        if phase == Phase::Stop {
            return Ok(histogram);
        }
        let asked = clock.now();
        stream.write_all(&message)?;
        stream.read_exact(&mut answer).context("the plain server went away")?;
        if phase == Phase::Measure {
            histogram.record(u64::try_from(clock.now().since(asked).as_nanos())?)?;
        }
    }
}

/// A connection that waits for the rest of an answer.
struct Asked {
    stream: TcpStream,
    phase: Phase,
    at: Time,
    filled: usize,
}

/// The round trips of all connections, which one thread looks at in turn.
pub(super) fn ping_busy(
    address: SocketAddr,
    size: usize,
    connections: usize,
    phases: &Phases,
) -> anyhow::Result<Histogram<u64>> {
    let clock = Clock::system();
    let (message, mut answer) = (vec![7_u8; size], vec![0_u8; size]);
    let mut histogram = Histogram::new(3)?;
    let mut all = Vec::with_capacity(connections);
    for _ in 0..connections {
        let mut stream = raw::connect(address)?;
        stream.set_nonblocking(true)?;
        let at = clock.now();
        raw::ping_pong::write_spinning(&mut stream, &message)?;
        all.push(Asked { stream, phase: Phase::WarmUp, at, filled: 0 });
    }
    while !all.is_empty() {
        let mut failed = None;
        all.retain_mut(|asked| {
            let mut round = || -> anyhow::Result<bool> {
                match asked.stream.read(&mut answer[asked.filled..]) {
                    Ok(0) => anyhow::bail!("the plain server went away"),
                    Ok(count) => asked.filled += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                    Err(error) => return Err(error.into()),
                }
                if asked.filled < size {
                    return Ok(true);
                }
                let now = clock.now();
                if asked.phase == Phase::Measure {
                    histogram.record(u64::try_from(now.since(asked.at).as_nanos())?)?;
                }
                (asked.phase, asked.at, asked.filled) = (phases.now(), clock.now(), 0);
                if asked.phase == Phase::Stop {
                    return Ok(false);
                }
                raw::ping_pong::write_spinning(&mut asked.stream, &message)?;
                Ok(true)
            };
            round().unwrap_or_else(|error| {
                failed = Some(error);
                false
            })
        });
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Ok(histogram)
}

/// One connection's one-way messages, `flush` of them in each write.
pub(super) fn flow_blocking(
    address: SocketAddr,
    size: usize,
    flush: usize,
    phases: &Phases,
) -> anyhow::Result<Histogram<u64>> {
    let mut stream = raw::connect(address)?;
    let message = vec![7_u8; size];
    while phases.now() != Phase::Stop {
        let mut pieces = vec![IoSlice::new(&message); flush];
        let mut rest = &mut pieces[..];
        while !rest.is_empty() {
            let count = stream.write_vectored(rest)?;
            IoSlice::advance_slices(&mut rest, count);
        }
    }
    Ok(Histogram::new(3)?)
}

/// The one-way messages of all connections, which one thread looks at in turn.
pub(super) fn flow_busy(
    address: SocketAddr,
    size: usize,
    flush: usize,
    connections: usize,
    phases: &Phases,
) -> anyhow::Result<Histogram<u64>> {
    let message = vec![7_u8; size];
    let mut all = Vec::with_capacity(connections);
    for _ in 0..connections {
        let stream = raw::connect(address)?;
        stream.set_nonblocking(true)?;
        // What is left of the write that is under way.
        all.push((stream, Vec::new(), 0));
    }
    while phases.now() != Phase::Stop {
        for (stream, pieces, done) in &mut all {
            if *done == pieces.len() {
                (*pieces, *done) = (vec![IoSlice::new(&message); flush], 0);
            }
            let mut rest = &mut pieces[*done..];
            match stream.write_vectored(rest) {
                Ok(count) => {
                    IoSlice::advance_slices(&mut rest, count);
                    *done = flush - rest.len();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(Histogram::new(3)?)
}
