//! How a thread that has nothing to do waits: spin, yield, park.
//!
//! Waking a sleeper on another core costs about 20 us, so what a thread does between two messages
//! decides as much as the code that handles them. But a thread that spins takes a core from
//! everybody else: a process spins on no more threads than its affinity has cores.

mod thrift;

use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::time::Time;

use thrift::Thrift;

/// How threads wait for the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PollPolicy {
    /// Spin as long as there is a core to spin on: the lowest latency, and a core each.
    Busy,
    /// Spin while messages come faster than a sleeper wakes, then park: near the throughput of
    /// `Busy` under load, and near its latency where few wait; no processor time when idle, and little where
    /// many messages come together at their own pace.
    #[default]
    Adaptive,
    /// Park at once: the least processor time.
    Park,
}

impl FromStr for PollPolicy {
    type Err = UnknownPollPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "busy" => Ok(Self::Busy),
            "adaptive" => Ok(Self::Adaptive),
            "park" => Ok(Self::Park),
            _ => Err(UnknownPollPolicy),
        }
    }
}

impl std::fmt::Display for PollPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Busy => "busy",
            Self::Adaptive => "adaptive",
            Self::Park => "park",
        })
    }
}

/// A name that is no poll policy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown poll policy, choose busy, adaptive or park")]
pub struct UnknownPollPolicy;

/// How long an adaptive thread spins at most. A round trip to a peer that sleeps costs two wake-ups
/// of 20 to 40 us each and the peer's work on a batch; what comes within that is met spinning, and
/// then neither side sleeps any more.
const SPIN_MAX: Duration = Duration::from_micros(200);

/// After this many waits in a row that spinning did not shorten, an adaptive thread parks at once.
const FRUITLESS_MAX: u32 = 8;

/// While parking at once, every so many waits one is tried spinning.
const RETRY_EVERY: u32 = 64;

/// A spinning thread that gets its core back only after so long has given it to one that never
/// waits, not to one with a message to handle.
const CORE_TAKEN: Duration = Duration::from_millis(2);

/// For so long after that the core counts as taken: one time slice in 25 is lost to finding out
/// that it still is.
const TAKEN_FOR: Duration = Duration::from_millis(100);

/// A yield that returns sooner than this let nobody else run: there is nobody else on this core.
pub(crate) const YIELD_MIN: Duration = Duration::from_nanos(1500);

/// After this many yields in one wait that let others run, and no input, the core is taken for one
/// that others have work for.
const SHARED_MAX: u32 = 16;

/// For so long after that an adaptive thread parks at once: with more threads than cores, one that
/// spins delays those whose work it waits for.
const CROWDED_FOR: Duration = Duration::from_millis(20);

/// The waiting of one reactor.
#[derive(Debug)]
pub(crate) struct Idle {
    policy: PollPolicy,
    fruitless: u32,
    waits: u32,
    taken_until: Time,
    /// Yields of this wait that let others run.
    shared: u32,
    /// Whether the last yield did.
    shares_core: bool,
    crowded_until: Time,
    thrift: Thrift,
}

impl Idle {
    pub(crate) fn new(policy: PollPolicy) -> Self {
        Self {
            policy,
            fruitless: 0,
            waits: 0,
            taken_until: Time::ZERO,
            shared: 0,
            shares_core: false,
            crowded_until: Time::ZERO,
            thrift: Thrift::new(),
        }
    }

    /// Until when to spin in a wait that begins at `now`; nothing means to park at once. While the
    /// permit is held, the thread counts as a spinner.
    pub(crate) fn begin(&mut self, now: Time) -> Option<(Time, SpinPermit)> {
        Some((self.spin_until(now)?, SpinPermit::take()?))
    }

    /// As [`begin`](Self::begin), for somebody who spins on a thread that is not theirs.
    pub(crate) fn spin_until(&mut self, now: Time) -> Option<Time> {
        self.waits = self.waits.wrapping_add(1);
        self.shared = 0;
        match self.policy {
            PollPolicy::Park => None,
            PollPolicy::Busy => Some(Time::MAX),
            PollPolicy::Adaptive => {
                let fruitless =
                    self.fruitless >= FRUITLESS_MAX && !self.waits.is_multiple_of(RETRY_EVERY);
                let parks = fruitless
                    || self.core_is_taken(now)
                    || now < self.crowded_until
                    || self.thrift.sleeps();
                (!parks).then_some(now + SPIN_MAX)
            }
        }
    }

    /// Whether something that never waits has lately had this thread's core. Then yielding it costs
    /// a time slice, and a sleeper gets it back sooner than a spinner.
    pub(crate) fn core_is_taken(&self, now: Time) -> bool {
        now < self.taken_until
    }

    /// The thread yielded its core at most once from `before` to `now`, and had nothing else to do.
    /// Returns whether it is to park instead of spinning on.
    pub(crate) fn yielded(&mut self, before: Time, now: Time) -> bool {
        if now.since(before) < CORE_TAKEN {
            return false;
        }
        self.taken_until = now + TAKEN_FOR;
        self.policy == PollPolicy::Adaptive
    }

    /// While it span, the thread yielded its core from `before` to `now`. Returns whether it is to
    /// park instead of spinning on, since others have had work for the core again and again.
    pub(crate) fn gave_way(&mut self, before: Time, now: Time) -> bool {
        self.shares_core = now.since(before) >= YIELD_MIN;
        if self.policy != PollPolicy::Adaptive || !self.shares_core {
            return false;
        }
        self.shared += 1;
        if self.shared < SHARED_MAX {
            return false;
        }
        self.crowded_until = now + CROWDED_FOR;
        true
    }

    /// Whether others waited for this thread's core when it yielded last, in this wait or one before: what it spins for comes no sooner by that, and what they have to
    /// do comes later.
    pub(crate) fn shares_core(&self) -> bool {
        self.shares_core
    }

    /// A turn has brought so many messages, requests and replies by `now`.
    pub(crate) fn brought(&mut self, messages: u64, now: Time) {
        if self.policy == PollPolicy::Adaptive {
            self.thrift.brought(messages, now);
        }
    }

    /// A wait ended: `spun` says whether input came while spinning, `waited` how long it took.
    pub(crate) fn end(&mut self, spun: bool, waited: Duration) {
        self.thrift.waited(waited);
        if spun || waited < SPIN_MAX {
            self.fruitless = 0;
        } else {
            self.fruitless = self.fruitless.saturating_add(1);
        }
    }
}

static SPINNERS: AtomicUsize = AtomicUsize::new(0);

/// The right to spin, of which a process has one for each core that it may run on.
#[derive(Debug)]
pub(crate) struct SpinPermit(());

impl SpinPermit {
    fn take() -> Option<Self> {
        let cores = cores();
        let take = |spinners| (spinners < cores).then_some(spinners + 1);
        SPINNERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok().map(|_| Self(()))
    }
}

impl Drop for SpinPermit {
    fn drop(&mut self) {
        SPINNERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many cores this process may run on, by its affinity when it first asked.
pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| {
        rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize).max(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_threads_spin_than_there_are_cores() {
        let permits: Vec<_> = std::iter::from_fn(SpinPermit::take).take(10_000).collect();
        assert!(permits.len() <= cores());
        drop(permits);
        assert!(SpinPermit::take().is_some());
    }

    #[test]
    fn an_adaptive_thread_gives_up_spinning_that_does_not_help_and_tries_again() {
        let mut idle = Idle::new(PollPolicy::Adaptive);
        let long = SPIN_MAX * 10;
        for _ in 0..FRUITLESS_MAX {
            idle.end(false, long);
        }
        let spins = (0..RETRY_EVERY).filter(|_| idle.begin(Time::ZERO).is_some()).count();
        assert_eq!(spins, 1);
        idle.end(true, Duration::ZERO);
        assert!(idle.begin(Time::ZERO).is_some());
    }

    #[test]
    fn a_thread_whose_core_is_taken_parks_for_a_while() {
        let mut idle = Idle::new(PollPolicy::Adaptive);
        let before = Time::from_nanos(1_000_000);
        assert!(!idle.yielded(before, before + CORE_TAKEN / 2));
        assert!(idle.begin(before + CORE_TAKEN / 2).is_some());
        let now = before + CORE_TAKEN;
        assert!(idle.yielded(before, now));
        assert!(idle.core_is_taken(now) && idle.begin(now).is_none());
        assert!(idle.begin(now + TAKEN_FOR).is_some());
    }

    #[test]
    fn a_thread_that_keeps_others_from_their_work_parks_for_a_while() {
        let mut idle = Idle::new(PollPolicy::Adaptive);
        let now = Time::from_nanos(1_000_000);
        for _ in 0..10 {
            assert!(idle.begin(now).is_some());
            // Nobody else wanted the core, or few did before there was input.
            assert!((0..100).all(|_| !idle.gave_way(now, now + YIELD_MIN / 2)));
            assert!((1..SHARED_MAX).all(|_| !idle.gave_way(now, now + YIELD_MIN)));
        }
        let later = now + YIELD_MIN;
        assert!(idle.gave_way(now, later));
        assert!(idle.begin(later).is_none());
        assert!(idle.begin(later + CROWDED_FOR).is_some());
        let mut busy = Idle::new(PollPolicy::Busy);
        assert!((0..100).all(|_| !busy.gave_way(now, later)));
    }

    #[test]
    fn a_busy_thread_spins_on_and_keeps_its_core() {
        let mut idle = Idle::new(PollPolicy::Busy);
        let now = Time::ZERO + CORE_TAKEN;
        assert!(!idle.yielded(Time::ZERO, now));
        assert!(idle.core_is_taken(now) && idle.begin(now).is_some());
    }

    #[test]
    fn parking_never_spins_and_busy_spins_for_ever() {
        assert!(Idle::new(PollPolicy::Park).begin(Time::ZERO).is_none());
        let (until, _permit) = Idle::new(PollPolicy::Busy).begin(Time::ZERO).unwrap();
        assert_eq!(until, Time::MAX);
    }
}
