//! Ending the process while others work in it.
#![expect(unsafe_code, reason = "the system's call is behind an unsafe function")]

/// Ends the process as it is: nothing is run at its end. Whoever returns from `main` while another thread is inside of RocksDB has that thread's locks
/// destroyed under its hands, and the process aborts.
pub fn leave_at_once(code: u8) -> ! {
    // SAFETY: it takes a number, touches no memory and does not return.
    unsafe { libc::_exit(i32::from(code)) }
}
