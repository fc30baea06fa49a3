//! A process by its id and its start time, so that no other one is taken for it.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// Which process: its id, and when after which boot it started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    /// In ticks since boot, as in field 22 of /proc/PID/stat.
    started_at_ticks: u64,
    boot_id: String,
}

/// A hold on a process that is there: it stays this process's, whatever becomes of the id.
#[derive(Debug)]
pub(crate) struct Process {
    fd: OwnedFd,
}

impl Identity {
    /// Who has this id now.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let started_at_ticks = start_ticks(&stat)
            .ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat has another form")))?;
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        Ok(Self { pid, started_at_ticks, boot_id })
    }

    /// A hold on the process, if it is still there. One that has ended and that its parent has not
    /// asked after is not: in a container there may be nobody who asks.
    pub(crate) fn find(&self) -> io::Result<Option<Process>> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid else { return Ok(None) };
        // Who it is is asked after holding on to it: now the id cannot change hands any more.
        let fd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => fd,
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match Self::of(self.pid) {
            Ok(found) if found == *self => {
                let process = Process { fd };
                let has_ended = process.ends_within(Duration::ZERO)?;
                Ok((!has_ended).then_some(process))
            }
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Process {
    /// Sends `signal`; nothing happens if the process has ended.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.fd, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the process ends, or has ended, within `patience`.
    pub(crate) fn ends_within(&self, patience: Duration) -> io::Result<bool> {
        any_ends_within([self], patience)
    }
}

/// Whether one of `processes` ends, or has ended, within `patience`.
pub(crate) fn any_ends_within<'a>(
    processes: impl IntoIterator<Item = &'a Process>,
    patience: Duration,
) -> io::Result<bool> {
    let watch = |process: &'a Process| PollFd::new(&process.fd, PollFlags::IN);
    let mut watched: Vec<_> = processes.into_iter().map(watch).collect();
    let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
    match poll(&mut watched, Some(&patience)) {
        Ok(ready) => Ok(ready > 0),
        // A signal has come, which the caller may want to look at.
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Field 22 of a line of /proc/PID/stat. The second field is the program's name in parentheses, and
/// may hold spaces and parentheses itself.
fn start_ticks(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_start_time_is_found_behind_any_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
        for name in ["weft-server", "a b", ") S 1 (x"] {
            assert_eq!(start_ticks(&format!("17 ({name}) {rest}\n")), Some(4711), "{name}");
        }
        assert_eq!(start_ticks("17 (kv) S 1"), None);
        assert_eq!(start_ticks(""), None);
    }

    #[test]
    fn a_process_is_found_until_it_ends_and_nobody_is_taken_for_it() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        let process = identity.find().unwrap().expect("it runs");
        assert!(!process.ends_within(Duration::ZERO).unwrap());

        let started_earlier = identity.started_at_ticks - 1;
        let predecessor = Identity { started_at_ticks: started_earlier, ..identity.clone() };
        assert!(predecessor.find().unwrap().is_none());
        let last_boot = Identity { boot_id: "of another boot".to_owned(), ..identity.clone() };
        assert!(last_boot.find().unwrap().is_none());

        process.signal(Signal::KILL).unwrap();
        assert!(process.ends_within(Duration::from_secs(60)).unwrap());
        assert!(
            identity.find().unwrap().is_none(),
            "it has ended, though nobody has asked after it"
        );
        child.wait().unwrap();
        assert!(identity.find().unwrap().is_none());
        process.signal(Signal::KILL).unwrap();
    }
}
