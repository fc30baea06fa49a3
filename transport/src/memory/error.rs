//! Why memory was refused.

use std::io;

/// Why memory was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The hard limit has no room for the request.
    #[error(
        "reach the memory limit: {requested_bytes} bytes asked for, {allocated_bytes} of {limit_bytes} in use; delete \
         objects or raise the limit"
    )]
    LimitReached {
        /// What was asked for, in whole pages for blocks.
        requested_bytes: u64,
        /// What was handed out and charged at that moment.
        allocated_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The limit has room, but no free extent is long enough.
    #[error(
        "find {requested_bytes} bytes in one piece: the largest free extent has {largest_free_bytes}; free memory or \
         raise the limit"
    )]
    Fragmented {
        /// What was asked for, in whole pages.
        requested_bytes: u64,
        /// The longest piece that could have been had.
        largest_free_bytes: usize,
    },
    /// The system refused the region.
    #[error(
        "reserve {bytes} bytes of address space, check ulimit -v and the memory limit: {}",
        io::Error::from_raw_os_error(*os_error)
    )]
    Reserve {
        /// Size of the region.
        bytes: u64,
        /// What the system said (`errno`).
        os_error: i32,
    },
}
