//! The safe layer over libibverbs: every call of it is wrapped once, here and in this folder.
//!
//! What keeps it sound is ownership. A device reads and writes memory on its own, so whoever has a
//! [`Buffer`] has its bytes alone; posting it gives it away, and the completion gives it back. An
//! object of the device holds those that it was made from, and is destroyed before them.

#![expect(unsafe_code, reason = "calls libibverbs, which is a C library")]

mod device;
mod memory;
mod pair;
mod posting;
mod queues;

use std::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::OFlags;

pub(super) use device::{AsyncEvent, Context, Domain, GidKind, PortState};
#[cfg(feature = "streams")]
pub(super) use memory::Landing;
pub(crate) use memory::VerbsRegistration;
pub(super) use memory::{Access, Buffer, Exposed, Lent, reclaim, register};
pub(super) use pair::{PairOptions, QueuePair};
#[cfg(feature = "streams")]
pub(super) use posting::Write;
pub(super) use posting::{Read, Send};
pub(super) use queues::{Completed, Completion, QueueSizes, Queues, Receive, Sent};

/// The error that a call of libibverbs has returned: a positive number of the system, or -1 with
/// the number in `errno`.
fn check(returned: c_int) -> io::Result<()> {
    match returned {
        0 => Ok(()),
        1.. => Err(io::Error::from_raw_os_error(returned)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Calls on the descriptor return instead of waiting from now on.
fn set_nonblocking(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(descriptor)?;
    Ok(rustix::fs::fcntl_setfl(descriptor, flags | OFlags::NONBLOCK)?)
}
