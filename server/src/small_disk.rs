//! A file system of a few mebibytes for tests that fill it up, where the machine lets one be mounted.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file system in memory, as long as this lives.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// One with so much room; `None`, and said so, where none can be mounted.
    pub(crate) fn mount(mebibytes: u32) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={mebibytes}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "weft-test"]).arg(folder.path());
        let outcome = mount.stdout(Stdio::null()).stderr(Stdio::null()).status();
        let is_mounted = outcome.is_ok_and(|status| status.success());
        if !is_mounted {
            let _ = writeln!(io::stderr(), "left out: no file system can be mounted");
        }
        is_mounted.then(|| SmallDisk(folder))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes all its room but so many bytes.
    pub(crate) fn fill(&self, leave_bytes: u64) {
        let disk = rustix::fs::statvfs(self.path()).unwrap();
        let free_bytes = disk.f_bavail * disk.f_frsize;
        let ballast = fs::File::create(self.ballast()).unwrap();
        if let Some(bytes) = free_bytes.checked_sub(leave_bytes).filter(|bytes| *bytes > 0) {
            rustix::fs::fallocate(&ballast, rustix::fs::FallocateFlags::empty(), 0, bytes).unwrap();
        }
    }

    /// Gives it back.
    pub(crate) fn free(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // What is open on it in this moment, such as by a process that a test has just ended, is no reason to keep it.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}
