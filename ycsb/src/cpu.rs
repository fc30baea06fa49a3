//! CPU time, of this process and of others on this host: throughput that spins for its speed has to
//! show its price.

use rustix::time::{ClockId, clock_gettime};

/// CPU time taken during a run, user and system, in seconds.
#[derive(Clone, Debug)]
pub(crate) struct CpuSeconds {
    pub(crate) driver: f64,
    /// The error says why it is not known.
    pub(crate) server: Result<f64, String>,
}

/// CPU time of this process so far, all threads, user and system, in seconds.
pub(crate) fn driver_seconds() -> f64 {
    #[expect(clippy::disallowed_methods, reason = "what it has used of a processor, not a time")]
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// CPU time of the processes `pids` so far, user and system, in seconds.
pub(crate) fn processes_seconds(pids: &[u32]) -> Result<f64, String> {
    pids.iter().map(|&pid| process_seconds(pid)).sum()
}

#[expect(clippy::disallowed_methods, reason = "the system says it in a file")]
fn process_seconds(pid: u32) -> Result<f64, String> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let ticks = cpu_ticks(&stat).ok_or_else(|| format!("{path} has no CPU times"))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// `utime` and `stime`, fields 14 and 15 of proc(5). Field 2 is the name in parentheses, which may
/// hold blanks and parentheses itself.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 105 0 0 0 250 50 3 4 20 0 1 0 9";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks("7 (cut"), None);
        assert_eq!(cpu_ticks("7 (cut) S 1"), None);
    }

    #[test]
    fn work_shows_in_both_accounts() {
        let before = driver_seconds();
        let mut sum = 0_u64;
        while driver_seconds() - before < 0.05 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
        }
        let own = processes_seconds(&[std::process::id()]).unwrap();
        assert!(own > before + 0.02, "/proc tells {own}, the clock {before} before the work");
        assert!(processes_seconds(&[0]).unwrap_err().contains("/proc/0/stat"));
    }
}
