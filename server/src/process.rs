//! What the system gives this process: processor time, and descriptors.

mod leaving;

pub use self::leaving::leave_at_once;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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
        let microseconds = |time: TimeVal| u64::try_from(time.num_microseconds()).unwrap_or(0);
        CpuTime {
            user_us: microseconds(usage.user_time()),
            system_us: microseconds(usage.system_time()),
        }
    }
}

/// How many descriptors this process may have open; nothing if there is no limit.
pub fn descriptor_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Raises the number of descriptors that this process may have open, and with it the number of
/// connections, as far as it may do so itself. The usual 1,024 are meant for programs that call
/// `select`. Returns the number.
pub fn raise_descriptor_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    if raised.is_ok() { maximum } else { current }
}
