//! What the host, or the cgroup that holds this process, has to give.

#![expect(clippy::disallowed_methods, reason = "what the host has is told in files")]

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

/// What a node may use when nobody says how much.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    /// The memory of the host, or of the cgroup if that is less.
    pub memory_bytes: u64,
    /// The cores that this process may run on, by affinity and by the cgroup's quota.
    pub cores: NonZeroUsize,
}

impl Host {
    /// What is there for this process.
    pub fn of_this_process() -> Host {
        let system = rustix::system::sysinfo();
        let host_bytes = u64::from(system.mem_unit) * system.totalram;
        let memory_bytes = cgroup_limit_bytes().map_or(host_bytes, |limit| limit.min(host_bytes));
        Host { memory_bytes, cores: available_parallelism().unwrap_or(NonZeroUsize::MIN) }
    }
}

/// The least limit on the way from this process's cgroup up to the root; `None` without a limit.
fn cgroup_limit_bytes() -> Option<u64> {
    let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_files(&membership).iter().filter_map(|file| read_limit(file)).min()
}

/// The files that may hold a limit. A line of the membership is `hierarchy:controllers:path`;
/// version 2 has hierarchy 0 and no controllers, version 1 one for memory. A container sees its own
/// cgroup as the root, so parents count too.
fn limit_files(membership: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let path = Path::new(path.trim_start_matches('/'));
        files.extend(path.ancestors().map(|ancestor| Path::new(root).join(ancestor).join(name)));
    }
    files
}

/// A limit in bytes; `max`, a missing file and one that cannot be read are none.
fn read_limit(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_may_be_set_anywhere_up_to_the_root() {
        assert_eq!(
            limit_files("0::/pod/box\n"),
            ["pod/box/memory.max", "pod/memory.max", "memory.max"]
                .map(|file| Path::new("/sys/fs/cgroup").join(file))
        );
        assert_eq!(
            limit_files("4:cpu,cpuacct:/x\n3:memory:/x\n"),
            ["x/memory.limit_in_bytes", "memory.limit_in_bytes"]
                .map(|file| Path::new("/sys/fs/cgroup/memory").join(file))
        );
        assert!(limit_files("nonsense\n").is_empty());
    }

    #[test]
    fn this_host_has_memory_and_cores() {
        let host = Host::of_this_process();
        assert!(host.memory_bytes > 0);
    }
}
