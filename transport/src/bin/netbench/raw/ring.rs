//! The limit of shared memory: bare rings of words that two processes have mapped, each message
//! published by itself, nobody ever asleep. No frame, no window, no dispatch.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use weft_transport::{Clock, SharedMapping};

use crate::phases::{Phase, Phases};
use crate::shape::Lane;
use crate::tally::Tally;

/// Words of a ring, the same as of a link's.
const CAPACITY: usize = (256 << 10) / 8;

/// Words of a ring with its two positions, each in cache lines of its own.
const RING_WORDS: usize = 32 + CAPACITY;

/// What is moved between two looks of the other side, in words.
pub(super) const STEP: usize = (16 << 10) / 8;

/// Spins between two looks at whether the measurement is over.
const LOOK_EVERY: u32 = 1 << 16;

/// The memory of all lanes: a ring each way.
fn mapping_bytes(lanes: usize) -> usize {
    (lanes * 2 * RING_WORDS * 8).next_multiple_of(4096)
}

pub(super) struct Ring<'a> {
    words: &'a [AtomicU64],
    /// The own position, the end of what was moved.
    position: u64,
}

impl<'a> Ring<'a> {
    pub(super) fn new(mapping: &'a SharedMapping, lane: usize, back: bool) -> Self {
        let start = (2 * lane + usize::from(back)) * RING_WORDS;
        Self { words: &mapping.words()[start..start + RING_WORDS], position: 0 }
    }

    fn written(&self) -> &AtomicU64 {
        &self.words[0]
    }

    fn read(&self) -> &AtomicU64 {
        &self.words[16]
    }

    fn data(&self, position: u64) -> &AtomicU64 {
        &self.words[32 + position as usize % CAPACITY]
    }

    fn available(&self) -> u64 {
        self.written().load(Ordering::Acquire) - self.position
    }

    fn room(&self) -> u64 {
        CAPACITY as u64 - (self.position - self.read().load(Ordering::Acquire))
    }

    /// Writes `message`, waiting for room as long as `wait` says. Returns false if it does not.
    fn push(&mut self, message: &[u64], wait: &mut impl FnMut() -> bool) -> bool {
        for part in message.chunks(STEP) {
            while !self.push_part(part) {
                if !wait() {
                    return false;
                }
            }
        }
        true
    }

    /// Writes `part`, if there is room for all of it.
    pub(super) fn push_part(&mut self, part: &[u64]) -> bool {
        if self.room() < part.len() as u64 {
            return false;
        }
        for (at, word) in part.iter().enumerate() {
            self.data(self.position + at as u64).store(*word, Ordering::Relaxed);
        }
        self.position += part.len() as u64;
        self.written().store(self.position, Ordering::Release);
        true
    }

    /// Reads a message into `into`, waiting for all of it as long as `wait` says.
    fn pop(&mut self, into: &mut [u64], wait: &mut impl FnMut() -> bool) -> bool {
        for part in into.chunks_mut(STEP) {
            while !self.pop_part(part) {
                if !wait() {
                    return false;
                }
            }
        }
        true
    }

    /// Reads into `part`, if there is enough for all of it.
    pub(super) fn pop_part(&mut self, part: &mut [u64]) -> bool {
        if self.available() < part.len() as u64 {
            return false;
        }
        for (at, word) in part.iter_mut().enumerate() {
            *word = self.data(self.position + at as u64).load(Ordering::Relaxed);
        }
        self.position += part.len() as u64;
        self.read().store(self.position, Ordering::Release);
        true
    }
}

/// Spins, until the measurement is over.
fn spin(phases: &Phases) -> impl FnMut() -> bool + use<'_> {
    let mut spins = 0_u32;
    move || {
        spin_loop();
        spins = spins.wrapping_add(1);
        !spins.is_multiple_of(LOOK_EVERY) || phases.now() != Phase::Stop
    }
}

/// One thread's ping-pongs, its lanes in turn.
pub(crate) fn measure(
    address: &str,
    size: usize,
    all_lanes: usize,
    lanes: &[Lane],
    phases: &Phases,
) -> anyhow::Result<Histogram<u64>> {
    let mapping = open(address, all_lanes)?;
    let ring = |lane: &Lane, back| Ring::new(&mapping, lane.id as usize, back);
    let mut rings: Vec<_> =
        lanes.iter().map(|lane| (ring(lane, false), ring(lane, true))).collect();
    let clock = Clock::system();
    let message = vec![7_u64; size.div_ceil(8)];
    let mut answer = message.clone();
    let mut histogram = Histogram::new(3)?;
    loop {
        for (out, back) in &mut rings {
            let phase = phases.now();
            if phase == Phase::Stop {
                return Ok(histogram);
            }
            let asked = clock.now();
            let mut wait = spin(phases);
            if !out.push(black_box(&message), &mut wait) || !back.pop(&mut answer, &mut wait) {
                return Ok(histogram);
            }
            if phase == Phase::Measure {
                let nanos = clock.now().since(asked).as_nanos();
                histogram.record(u64::try_from(nanos)?)?;
            }
        }
    }
}

/// One thread's messages, its lanes in turn, as fast as there is room.
pub(crate) fn send_messages(
    address: &str,
    size: usize,
    all_lanes: usize,
    lanes: &[Lane],
    phases: &Phases,
) -> anyhow::Result<()> {
    let mapping = open(address, all_lanes)?;
    let mut rings: Vec<_> =
        lanes.iter().map(|lane| Ring::new(&mapping, lane.id as usize, false)).collect();
    let message = vec![7_u64; size.div_ceil(8)];
    while phases.now() != Phase::Stop {
        for ring in &mut rings {
            for _ in 0..MESSAGES_A_TURN {
                if !ring.push(black_box(&message), &mut spin(phases)) {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Messages before the phase is looked at again.
const MESSAGES_A_TURN: usize = 64;

/// Sends back each message of every lane.
pub(crate) fn serve_echo(size: usize, lanes: usize) -> anyhow::Result<String> {
    let (mapping, address) = create(lanes)?;
    std::thread::spawn(move || {
        let ring = |lane, back| Ring::new(&mapping, lane, back);
        let mut rings: Vec<_> =
            (0..lanes).map(|lane| (ring(lane, false), ring(lane, true))).collect();
        let mut message = vec![0_u64; size.div_ceil(8)];
        loop {
            for (come, back) in &mut rings {
                if come.available() > 0 {
                    let mut wait = forever();
                    come.pop(&mut message, &mut wait);
                    back.push(&message, &mut wait);
                }
            }
            spin_loop();
        }
    });
    Ok(address)
}

/// Counts the messages of every lane, and their bytes.
pub(crate) fn serve_messages(
    size: usize,
    lanes: usize,
    clock: Clock,
    tally: Arc<Tally>,
) -> anyhow::Result<String> {
    let (mapping, address) = create(lanes)?;
    std::thread::spawn(move || {
        let mut rings: Vec<_> = (0..lanes).map(|lane| Ring::new(&mapping, lane, false)).collect();
        let words = size.div_ceil(8);
        let mut message = vec![0_u64; words];
        loop {
            for ring in &mut rings {
                let whole = ring.available() as usize / words;
                // Of a message that is longer than the ring, a part is enough to begin.
                let whole = if words > CAPACITY && ring.available() > 0 { 1 } else { whole };
                if whole == 0 {
                    spin_loop();
                    continue;
                }
                let mut batch = tally.batch(clock.now());
                for _ in 0..whole {
                    ring.pop(&mut message, &mut forever());
                    black_box(&message);
                }
                batch.count(whole as u64, whole * size);
            }
        }
    });
    Ok(address)
}

/// The server's process ends with its standard input, whatever this thread waits for.
fn forever() -> impl FnMut() -> bool {
    || {
        spin_loop();
        true
    }
}

/// Memory for `lanes`, and under which name the client finds it: a file of this process.
pub(super) fn create(lanes: usize) -> anyhow::Result<(Arc<SharedMapping>, String)> {
    use std::os::fd::IntoRawFd as _;
    let (mapping, file) =
        SharedMapping::create(mapping_bytes(lanes)).context("failed to make shared memory")?;
    // Kept open for the client, until the process ends.
    let address = format!("/proc/{}/fd/{}", std::process::id(), file.into_raw_fd());
    Ok((Arc::new(mapping), address))
}

pub(super) fn open(address: &str, lanes: usize) -> anyhow::Result<SharedMapping> {
    use std::os::fd::AsFd as _;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(address);
    let file = file.with_context(|| format!("failed to open {address}"))?;
    SharedMapping::open(file.as_fd(), mapping_bytes(lanes))
        .context("failed to map the server's memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_any_size_come_out_as_they_went_in() {
        for words in [1, 8, 100, CAPACITY, CAPACITY + 5] {
            let (mapping, _address) = create(1).unwrap();
            let mut out = Ring::new(&mapping, 0, false);
            let message: Vec<u64> = (0..words as u64).collect();
            std::thread::scope(|scope| {
                let sent = message.clone();
                scope.spawn(move || {
                    for _ in 0..5 {
                        assert!(out.push(&sent, &mut forever()));
                    }
                });
                let mut come = Ring::new(&mapping, 0, false);
                for _ in 0..5 {
                    let mut received = vec![0; words];
                    assert!(come.pop(&mut received, &mut forever()));
                    assert_eq!(received, message);
                }
            });
        }
    }
}
