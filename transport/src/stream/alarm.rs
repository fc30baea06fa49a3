//! A clock that rings once: a descriptor of the system's, so that no executor has to be built with timers for it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::readiness::{Watched, watch};

#[derive(Debug)]
pub(super) struct Alarm {
    timer: AsyncFd<Timer>,
}

#[derive(Debug)]
struct Timer(OwnedFd);

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Watched for Timer {}

impl Alarm {
    /// Rings after so long, which is not zero.
    ///
    /// # Errors
    /// The system's, such as that the process has no descriptor left.
    pub(super) fn set(after: Duration) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let after = Timespec {
            tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: after.subsec_nanos().into(),
        };
        let times = Itimerspec { it_interval: once, it_value: after };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
        Ok(Self { timer: watch(Timer(timer), Interest::READABLE)? })
    }

    /// Returns when it rings. An executor that cannot say when counts as that.
    pub(super) async fn rings(&self) {
        if let Ok(mut ready) = self.timer.readable().await {
            ready.retain_ready();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_after_its_time_without_timers_of_the_executor() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let clock = crate::time::Clock::system();
        runtime.block_on(async {
            let began = clock.now();
            let late = Alarm::set(Duration::from_secs(100)).unwrap();
            let soon = Alarm::set(Duration::from_millis(20)).unwrap();
            tokio::select! {
                () = late.rings() => panic!("it rings too early"),
                () = soon.rings() => {}
            }
            assert!(clock.now().since(began) >= Duration::from_millis(20));
        });
    }
}
