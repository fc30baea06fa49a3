//! What this process costs: processor time and time alive.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Processor time used by all threads so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In this program, in microseconds.
    pub user_us: u64,
    /// In the kernel on its behalf, in microseconds.
    pub system_us: u64,
}

impl CpuTime {
    /// Asks the system, which takes less than a microsecond.
    pub fn of_this_process() -> CpuTime {
        let usage =
            getrusage(UsageWho::RUSAGE_SELF).expect("RUSAGE_SELF and the pointer are valid");
        let microseconds =
            |time: nix::sys::time::TimeVal| u64::try_from(time.num_microseconds()).unwrap_or(0);
        CpuTime {
            user_us: microseconds(usage.user_time()),
            system_us: microseconds(usage.system_time()),
        }
    }
}
