//! Which machine this is, and what peers reach on it when nothing else runs.

use std::collections::HashMap;
use std::fs;
use std::thread;

use anyhow::{Context, Result};

/// What peers and bare sockets reach on one quiet machine: the yardstick by which a later run
/// says how far it was from that.
pub(super) struct Baseline {
    /// As /proc/cpuinfo has it: vendor, family, model.
    processor: (&'static str, &'static str, &'static str),
    processors: usize,
    /// redis 7.0.15, 100 requests in flight over one connection of the redis crate, server and
    /// client on a core each, 32 B reads a second.
    pub(super) redis_async: f64,
    /// The same with 100 blocking threads, a connection each.
    pub(super) redis_blocking: f64,
    /// Round trip of 64 B over bare loopback TCP with blocking calls, p50.
    pub(super) tcp_blocking_us: f64,
    /// The same when both sides spin.
    pub(super) tcp_busy_us: f64,
    /// 64 B messages a second over one bare loopback TCP connection, 64 KiB a write.
    pub(super) tcp_messages: f64,
    /// Bytes a second over one bare loopback TCP connection, 64 KiB a write.
    pub(super) tcp_bytes: f64,
}

const BASELINES: &[Baseline] = &[
    // A KVM guest with 2 processors of an AMD EPYC (Zen 5), Linux 6.18.
    Baseline {
        processor: ("AuthenticAMD", "26", "2"),
        processors: 2,
        redis_async: 855_000.0,
        redis_blocking: 127_000.0,
        tcp_blocking_us: 52.2,
        tcp_busy_us: 7.85,
        tcp_messages: 64e6,
        tcp_bytes: 5.64e9,
    },
    // A KVM guest with 2 processors of an Intel Xeon, Linux 6.18. Its wake-ups take 35 us, and one
    // second of a bare stream is half as fast as the next.
    Baseline {
        processor: ("GenuineIntel", "6", "167"),
        processors: 2,
        redis_async: 388_000.0,
        redis_blocking: 109_000.0,
        tcp_blocking_us: 79.0,
        tcp_busy_us: 5.8,
        tcp_messages: 30e6,
        tcp_bytes: 1.5e9,
    },
];

/// The machine that the benchmarks run on.
pub(super) struct Machine {
    cpuinfo: HashMap<String, String>,
    processors: usize,
    kernel: String,
}

impl Machine {
    /// Reads what the kernel says of this machine.
    pub(super) fn read() -> Result<Machine> {
        let cpuinfo =
            fs::read_to_string("/proc/cpuinfo").context("failed to read /proc/cpuinfo")?;
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")
            .context("failed to read the kernel's release")?;
        let pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        Ok(Machine {
            cpuinfo: pairs.map(|(key, value)| (key.trim().into(), value.trim().into())).collect(),
            processors: thread::available_parallelism()?.get(),
            kernel: kernel.trim().to_owned(),
        })
    }

    /// One line that names it in a report.
    pub(super) fn description(&self) -> String {
        let [vendor, family, model] = self.processor();
        format!(
            "{} processors, {} ({vendor} family {family} model {model}), Linux {}",
            self.processors,
            self.cpu("model name"),
            self.kernel
        )
    }

    /// What peers reach on this kind of machine, if that was ever measured on a quiet one.
    pub(super) fn baseline(&self) -> Option<&'static Baseline> {
        let [vendor, family, model] = self.processor();
        BASELINES.iter().find(|known| {
            known.processor == (vendor, family, model) && known.processors == self.processors
        })
    }

    /// Processes that ran or wanted to, on average over the last minute.
    pub(super) fn load(&self) -> Result<f64> {
        let text = fs::read_to_string("/proc/loadavg").context("failed to read /proc/loadavg")?;
        let first = text.split_whitespace().next().context("/proc/loadavg is empty")?;
        Ok(first.parse()?)
    }

    fn processor(&self) -> [&str; 3] {
        ["vendor_id", "cpu family", "model"].map(|key| self.cpu(key))
    }

    fn cpu(&self, key: &str) -> &str {
        self.cpuinfo.get(key).map_or("unknown", String::as_str)
    }
}
