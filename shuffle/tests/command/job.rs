//! Runs the command, for a bounded time.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far more than any job here takes.
pub(crate) const LONG: Duration = Duration::from_secs(100);

/// The small real graph that ships.
pub(crate) const WIKI_VOTE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/graphs/wiki-Vote.txt.zst");

/// A command that runs; it ends with this value.
pub(crate) struct Job {
    child: Child,
    stdout: File,
    stderr: File,
}

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Job {
    /// Starts `shuffle` with `arguments`.
    pub(crate) fn start<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Self {
        Self::start_with(arguments, [])
    }

    /// Starts `shuffle` with `arguments` and `variables`.
    pub(crate) fn start_with<'v, A: AsRef<OsStr>>(
        arguments: impl IntoIterator<Item = A>,
        variables: impl IntoIterator<Item = (&'v str, &'v str)>,
    ) -> Self {
        Self::start_command(Self::command(arguments).envs(variables))
    }

    /// Starts `shuffle` with `arguments` in `folder`.
    pub(crate) fn start_in<A: AsRef<OsStr>>(
        folder: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self::start_command(Self::command(arguments).current_dir(folder))
    }

    fn command<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shuffle"));
        command.args(arguments);
        command
    }

    fn start_command(command: &mut Command) -> Self {
        let (stdout, stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let child = command
            .stdin(Stdio::null())
            .stdout(stdout.try_clone().unwrap())
            .stderr(stderr.try_clone().unwrap())
            .spawn()
            .unwrap();
        Self { child, stdout, stderr }
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let status = wait_for("the command's end", || self.child.try_wait().unwrap());
        let [stdout, stderr] = [&mut self.stdout, &mut self.stderr].map(|file| {
            let mut text = String::new();
            file.rewind().unwrap();
            file.read_to_string(&mut text).unwrap();
            text
        });
        assert!(!stderr.contains("panicked"), "{stderr}");
        Ended { code: status.code(), stdout, stderr }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `shuffle` with `arguments` to its end.
pub(crate) fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Ended {
    Job::start(arguments).end()
}

/// What `found` gives as soon as it gives something.
pub(crate) fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {LONG:?} for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
