//! Has the executor watch a link's descriptor.

#![expect(unsafe_code, reason = "tokio has to be promised that a descriptor stays open")]

use std::io;
use std::os::fd::AsRawFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::link::{RingLink, ShmLink, ShmListener, TcpLink, TcpListener};

/// What owns one descriptor from its making to its drop, and never exchanges it for another.
pub(super) trait Watched: AsRawFd {}

impl Watched for TcpLink {}
impl Watched for TcpListener {}
impl Watched for ShmLink {}
impl Watched for ShmListener {}
impl Watched for RingLink {}

/// Begins to watch `link`, until the result is dropped.
pub(super) fn watch<T: Watched>(link: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: the types above hold their descriptor in a field of their own, or what it is open for as long as, which
    // is neither taken out nor assigned to; so it is open and the same for as long as `AsyncFd` owns it.
    Ok(unsafe { AsyncFd::register_with_interest(link, interest) }?)
}
