//! One direction of a shared-memory link: a ring of bytes with one writer and one reader, in two
//! processes that do not trust each other.
//!
//! Positions are 64-bit and only grow; a byte lies at its position modulo the capacity. Each side
//! remembers its own position by itself and only publishes it; the other's is read once, checked
//! against what is possible, and then used, so a peer that writes nonsense ends the link and
//! harms nobody. Bytes are copied out before anything looks at them.
//!
//! A side that is about to sleep says so in a flag, and then looks once more; the other side, after
//! it has moved its position, takes the flag down and rings. So a bell costs a system call only
//! when somebody sleeps (the armed flag of UCX), and none is ever missed: of the two, flag and
//! position, one side writes the first and reads the second, the other the other way round, each
//! with a full fence in between. A writer does so after every write. A reader does it once in an
//! eighth of a ring: a writer sleeps only while the ring is full, so that the reader has more than
//! that before it, and rings before there is nothing left.

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

use crate::sync::atomic::{Ordering, fence};

use super::mapping::{Mapping, Word};

/// In a model, a ring is full after four words.
const IS_MODEL: bool = cfg!(all(test, feature = "loom"));

/// Bytes of a ring: what both sides' caches hold, and enough for 50 us at full speed. A stream of
/// large messages runs at two thirds of its speed through half of it, and at an eighth through a
/// quarter.
pub(super) const CAPACITY: usize = if IS_MODEL { 32 } else { 256 << 10 };

/// Words that a ring's control block takes: each of its four values that change has two cache lines
/// for itself, since processors fetch lines in pairs.
pub(super) const CONTROL_WORDS: usize = 4 * LINE_WORDS;

const LINE_WORDS: usize = 16;

/// What is copied between two looks of the other side, in bytes: it works on the first part while
/// the next is copied.
const STEP: usize = if IS_MODEL { 16 } else { 16 << 10 };

/// After reading so much, in bytes, the reader looks whether the writer waits: no more than a
/// capacity.
pub(super) const LOOK: usize = if IS_MODEL { 16 } else { CAPACITY / 8 };

/// Where in the mapping a ring lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Word of its control block.
    pub(super) control: usize,
    /// Byte of its first byte.
    pub(super) data: usize,
}

#[derive(Debug)]
struct Shared {
    mapping: Arc<Mapping>,
    place: Place,
}

/// A peer's position that cannot be.
fn impossible() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the peer moved a ring's position where it cannot be",
    )
}

impl Shared {
    /// End of what has been written.
    #[inline]
    fn written(&self) -> &Word {
        &self.mapping.words()[self.place.control]
    }

    /// Not zero: nothing more will be written. Beside the position, which is looked at anyway.
    #[inline]
    fn finished(&self) -> &Word {
        &self.mapping.words()[self.place.control + 1]
    }

    /// Not zero: the side that writes has the memory, which is when it has been accepted.
    fn arrived(&self) -> &Word {
        &self.mapping.words()[self.place.control + 2]
    }

    /// End of what has been read.
    #[inline]
    fn read(&self) -> &Word {
        &self.mapping.words()[self.place.control + LINE_WORDS]
    }

    /// The reader sleeps until it is told of bytes.
    #[inline]
    fn reader_sleeps(&self) -> &Word {
        &self.mapping.words()[self.place.control + 2 * LINE_WORDS]
    }

    /// The writer waits until it is told of room.
    #[inline]
    fn writer_waits(&self) -> &Word {
        &self.mapping.words()[self.place.control + 3 * LINE_WORDS]
    }

    /// Copies `from` to `position`, where it does not cross the end.
    #[inline]
    fn store(&self, position: u64, from: &[u8]) {
        let (mut at, mut rest) = (self.place.data + (position as usize & (CAPACITY - 1)), from);
        while at & 7 != 0 && !rest.is_empty() {
            self.mapping.bytes()[at].store(rest[0], Ordering::Relaxed);
            (at, rest) = (at + 1, &rest[1..]);
        }
        let (words, tail) = rest.as_chunks::<8>();
        let into = &self.mapping.words()[at / 8..at / 8 + words.len()];
        for (word, bytes) in into.iter().zip(words) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        at += words.len() * 8;
        for (byte, value) in self.mapping.bytes()[at..at + tail.len()].iter().zip(tail) {
            byte.store(*value, Ordering::Relaxed);
        }
    }

    /// Copies what lies at `position` to `into`, where it does not cross the end.
    #[inline]
    fn load(&self, position: u64, into: &mut [u8]) {
        let (mut at, mut rest) = (self.place.data + (position as usize & (CAPACITY - 1)), into);
        while at & 7 != 0 && !rest.is_empty() {
            rest[0] = self.mapping.bytes()[at].load(Ordering::Relaxed);
            (at, rest) = (at + 1, &mut rest[1..]);
        }
        let (words, tail) = rest.as_chunks_mut::<8>();
        let from = &self.mapping.words()[at / 8..at / 8 + words.len()];
        for (bytes, word) in words.iter_mut().zip(from) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        at += words.len() * 8;
        for (value, byte) in tail.iter_mut().zip(&self.mapping.bytes()[at..]) {
            *value = byte.load(Ordering::Relaxed);
        }
    }
}

/// Bytes from `position` to the end of its lap.
fn lap_left(position: u64) -> usize {
    CAPACITY - (position as usize & (CAPACITY - 1))
}

/// The writing end. One thread at a time writes: whoever has the sender role.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Shared,
    /// Our own position; what is in shared memory is only ever written from it.
    written: Word,
    /// The last position of the reader's that was found good.
    read: Word,
    /// Writes that there was room for some of. Nothing depends on it, so models do not look at it.
    writes: std::sync::atomic::AtomicU64,
}

impl Writer {
    pub(super) fn new(mapping: Arc<Mapping>, place: Place) -> Self {
        let shared = Shared { mapping, place };
        Self { shared, written: Word::new(0), read: Word::new(0), writes: Default::default() }
    }

    /// Says that this side has the memory.
    pub(super) fn arrive(&self) {
        self.shared.arrived().store(1, Ordering::Release);
    }

    /// Bytes that there is room for.
    fn room(&self, written: u64) -> io::Result<usize> {
        let read = self.shared.read().load(Ordering::Acquire);
        if read < self.read.load(Ordering::Relaxed) || read > written {
            return Err(impossible());
        }
        self.read.store(read, Ordering::Relaxed);
        Ok(CAPACITY - (written - read) as usize)
    }

    /// Writes as much of `pieces` as there is room for, and says whether the reader has to be
    /// woken. `WouldBlock` if there is none: the reader will ring when there is.
    pub(super) fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<(usize, bool)> {
        loop {
            if let Some(written) = self.write_now(pieces)? {
                return Ok(written);
            }
            if self.sleep()? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }

    /// As [`write`](Self::write), but without room it is nothing, and the reader will not ring.
    pub(super) fn write_now(&self, pieces: &[IoSlice<'_>]) -> io::Result<Option<(usize, bool)>> {
        let start = self.written.load(Ordering::Relaxed);
        // What was known of the reader is enough, unless the ring seems half full.
        let known = CAPACITY - (start - self.read.load(Ordering::Relaxed)) as usize;
        let mut room = if known >= CAPACITY / 2 { known } else { self.room(start)? };
        if room == 0 {
            return Ok(None);
        }
        let (mut written, mut published) = (start, start);
        for piece in pieces {
            let mut rest = &piece[..piece.len().min(room)];
            room -= rest.len();
            while !rest.is_empty() {
                let (part, after) = rest.split_at(rest.len().min(STEP).min(lap_left(written)));
                self.shared.store(written, part);
                written += part.len() as u64;
                rest = after;
                if written - published >= STEP as u64 {
                    self.shared.written().store(written, Ordering::Release);
                    published = written;
                }
            }
            if room == 0 {
                break;
            }
        }
        self.shared.written().store(written, Ordering::Release);
        self.written.store(written, Ordering::Relaxed);
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        self.writes.store(self.writes.load(relaxed) + 1, relaxed);
        Ok(Some(((written - start) as usize, self.take_sleeper())))
    }

    /// Writes that there was room for some of.
    #[cfg(feature = "streams")]
    pub(super) fn writes(&self) -> u64 {
        self.writes.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Has the reader ring when it has made room. Returns false if it has already: then it does not.
    pub(super) fn sleep(&self) -> io::Result<bool> {
        self.shared.writer_waits().store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let full = self.room(self.written.load(Ordering::Relaxed))? == 0;
        if !full {
            self.wake_up();
        }
        Ok(full)
    }

    /// The writer looks by itself again.
    pub(super) fn wake_up(&self) {
        self.shared.writer_waits().store(0, Ordering::Relaxed);
    }

    /// Says that nothing more will be written, and returns whether the reader has to be woken.
    #[cfg(any(feature = "streams", test))]
    pub(super) fn finish(&self) -> bool {
        self.shared.finished().store(1, Ordering::Release);
        self.take_sleeper()
    }

    /// Whether the reader has not read everything.
    #[cfg(any(feature = "streams", test))]
    pub(super) fn is_unread(&self) -> bool {
        self.room(self.written.load(Ordering::Relaxed)).map_or(true, |room| room < CAPACITY)
    }

    /// Whether the reader sleeps and this thread is the one to wake it.
    fn take_sleeper(&self) -> bool {
        fence(Ordering::SeqCst);
        let sleeps = self.shared.reader_sleeps();
        sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
    }

    /// Whether there is room for `bytes`, or a mistake of the peer's to be found. Anybody may ask at
    /// any time; while somebody writes, the answer is about a moment ago.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let written = self.written.load(Ordering::Relaxed);
        let read = self.shared.read().load(Ordering::Relaxed);
        written.wrapping_sub(read) <= (CAPACITY - bytes) as u64 || read > written
    }
}

/// The reading end. One thread at a time reads: whoever drives the reactor.
#[derive(Debug)]
pub(super) struct Reader {
    shared: Shared,
    /// Our own position; what is in shared memory is only ever written from it.
    read: Word,
    /// Where it was when it was last looked whether the writer waits.
    looked: Word,
}

impl Reader {
    pub(super) fn new(mapping: Arc<Mapping>, place: Place) -> Self {
        let shared = Shared { mapping, place };
        Self { shared, read: Word::new(0), looked: Word::new(0) }
    }

    /// Reads what is there, as far as it fits, and says whether the writer has to be woken.
    /// Nothing there is zero bytes.
    ///
    /// Whether the writer waits is looked at once every [`LOOK`] bytes. It waits only while the ring is
    /// full, so the reader has more than that to read, and looks, before it has nothing left. So a
    /// small message costs no fence, and a woken writer has room for more than a few bytes (as TCP's
    /// receivers hold back small windows).
    pub(super) fn read(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<(usize, bool)> {
        let start = self.read.load(Ordering::Relaxed);
        let written = self.shared.written().load(Ordering::Acquire);
        let mut there = match written.checked_sub(start) {
            Some(there) if there <= CAPACITY as u64 => there as usize,
            _ => return Err(impossible()),
        };
        if there == 0 {
            return Ok((0, false));
        }
        let mut read = start;
        for buffer in into {
            let len = buffer.len().min(there);
            there -= len;
            let mut rest = &mut buffer[..len];
            while !rest.is_empty() {
                let (part, after) = rest.split_at_mut(rest.len().min(STEP).min(lap_left(read)));
                self.shared.load(read, part);
                read += part.len() as u64;
                rest = after;
                self.shared.read().store(read, Ordering::Release);
            }
        }
        self.read.store(read, Ordering::Relaxed);
        let wake =
            read - self.looked.load(Ordering::Relaxed) >= LOOK as u64 && self.take_waiter(read);
        Ok(((read - start) as usize, wake))
    }

    /// Whether the writer waits, and this thread is the one to wake it.
    #[cold]
    fn take_waiter(&self, read: u64) -> bool {
        self.looked.store(read, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let waits = self.shared.writer_waits();
        waits.load(Ordering::Relaxed) != 0 && waits.swap(0, Ordering::Relaxed) != 0
    }

    /// Whether there is something to read, the end, or a mistake of the peer's to be found.
    #[inline]
    pub(super) fn is_readable(&self) -> bool {
        self.shared.written().load(Ordering::Relaxed) != self.read.load(Ordering::Relaxed)
            || self.shared.finished().load(Ordering::Relaxed) != 0
    }

    /// Bytes that lie ready, no more than a ring holds.
    #[cfg(any(feature = "streams", test))]
    #[inline]
    pub(super) fn ready(&self) -> usize {
        let written = self.shared.written().load(Ordering::Acquire);
        written.wrapping_sub(self.read.load(Ordering::Relaxed)).min(CAPACITY as u64) as usize
    }

    /// Whether nothing is added to what lies ready from here on.
    #[inline]
    pub(super) fn is_finished(&self) -> bool {
        self.shared.finished().load(Ordering::Acquire) != 0
    }

    /// Whether the writer has ever had the memory.
    #[cfg(feature = "streams")]
    pub(super) fn writer_arrived(&self) -> bool {
        self.shared.arrived().load(Ordering::Acquire) != 0
    }

    /// Has the writer ring when it has written. Returns false if it has already: then it does not.
    pub(super) fn sleep(&self) -> bool {
        self.shared.reader_sleeps().store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.is_readable() {
            self.wake_up();
            return false;
        }
        true
    }

    /// The reader looks by itself again.
    pub(super) fn wake_up(&self) {
        self.shared.reader_sleeps().store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, feature = "loom"))]
mod models;
