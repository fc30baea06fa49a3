//! What a stream does with the link that an endpoint does not: it ends one direction and goes on
//! with the other, and looks without asking to be rung for.
//!
//! The end of a direction is a word in its ring, because the socket's end would take the bells of
//! the other direction with it.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::{ShmLink, ShmListener};

/// Bells taken from the socket at once. Fewer than this came means that there are no more.
const BELLS: usize = 64;

impl ShmLink {
    /// Whether it has been given its memory.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.rings.get().is_some()
    }

    /// Sends as much of `pieces` as there is room for, and says whether that took a bell.
    ///
    /// # Errors
    /// `WouldBlock` without room, and then nobody rings; `BrokenPipe` if the peer is gone.
    #[inline]
    pub(crate) fn send_now(&self, pieces: &[IoSlice<'_>]) -> io::Result<(usize, bool)> {
        let rings = self.rings()?;
        if self.ended.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let (count, wake) = rings.writer.write_now(pieces)?.ok_or(io::ErrorKind::WouldBlock)?;
        if wake {
            self.ring_bell();
        }
        Ok((count, wake))
    }

    /// Whether the peer is known to be gone.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// How many bytes can be received now.
    #[inline]
    pub(crate) fn ready(&self) -> usize {
        self.rings.get().map_or(0, |rings| rings.reader.ready())
    }

    /// Has the peer ring when it has made room, from here on. Returns false if there is room.
    pub(crate) fn sleep_for_room(&self) -> io::Result<bool> {
        self.rings()?.writer.sleep()
    }

    /// The reader looks by itself again.
    pub(crate) fn reader_wakes(&self) {
        if let Some(rings) = self.rings.get() {
            rings.reader.wake_up();
        }
    }

    /// The writer looks by itself again.
    pub(crate) fn writer_wakes(&self) {
        if let Some(rings) = self.rings.get() {
            rings.writer.wake_up();
        }
    }

    /// Takes in what the socket says, as [`hear`](Self::hear) does, but wakes nobody up.
    ///
    /// # Errors
    /// `WouldBlock` if there is no more to be heard for now; no error is the peer's end.
    pub(crate) fn take_bells(&self) -> io::Result<()> {
        let mut bells = [0; BELLS];
        loop {
            match rustix::net::recv(&self.socket, &mut bells[..], RecvFlags::DONTWAIT) {
                Ok((_, BELLS)) | Err(Errno::INTR) => {}
                Ok((_, 1..)) | Err(Errno::AGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
                Ok((_, 0)) | Err(_) => {
                    self.ended.store(true, Ordering::Release);
                    return Ok(());
                }
            }
        }
    }

    /// Says that nothing more will be sent, and whether that took a bell; the peer can go on sending.
    pub(crate) fn finish_sending(&self) -> bool {
        let wake = self.rings.get().is_some_and(|rings| rings.writer.finish());
        if wake {
            self.ring_bell();
        }
        wake
    }

    /// Whether the peer is gone and has not said that it would send no more; and has not read what was
    /// sent to it, or never had the memory, because nobody accepted this side where it listened.
    pub(crate) fn was_reset(&self) -> bool {
        let cut = |rings: &super::Rings| {
            !rings.reader.is_finished()
                && (rings.writer.is_unread() || !rings.reader.writer_arrived())
        };
        self.ended.load(Ordering::Acquire) && self.rings.get().is_none_or(cut)
    }
}

impl AsRawFd for ShmLink {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsRawFd for ShmListener {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
