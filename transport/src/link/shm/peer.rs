//! Which user the process at the other end of a local socket runs as.
//!
//! The C library is asked, and not rustix: its credentials have the peer's process id, which it takes to be
//! above zero. The system says zero for a process that this one cannot see, such as one in another container
//! of the same pod.

#![expect(unsafe_code, reason = "calls the C library")]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::process::Uid;

/// Whether the peer runs as the same user. Anybody may take a name; and memory that was passed on
/// stays for as long as the peer keeps it, which no limit of ours sees.
///
/// # Errors
/// `ConnectionRefused` if it does not.
pub(super) fn check_peer(socket: BorrowedFd<'_>) -> io::Result<()> {
    if user_of_peer(socket)? == rustix::process::geteuid() {
        Ok(())
    } else {
        Err(io::ErrorKind::ConnectionRefused.into())
    }
}

fn user_of_peer(socket: BorrowedFd<'_>) -> io::Result<Uid> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = mem::size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed, `credentials` has the `len` bytes that may be written,
    // and every value of them is valid.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut len,
        )
    };
    if result == 0 { Ok(Uid::from_raw(credentials.uid)) } else { Err(io::Error::last_os_error()) }
}
