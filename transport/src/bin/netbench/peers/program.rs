//! Others' programs: whether they are installed, and running a pair of them within bounds.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::affinity::{self, Placement};

/// What a program may take beyond what it is to measure; a healthy one takes a few seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// For so long a client is tried again whose server may not listen yet.
const MEETING: Duration = Duration::from_secs(3);

/// A program that is not on the search path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) program: &'static str,
    /// Debian's packages that bring it.
    pub(super) packages: &'static str,
}

impl Missing {
    /// What installs it.
    pub(super) fn command(&self) -> String {
        format!("apt-get install {}", self.packages)
    }
}

/// Where `program` is, or what would bring it.
pub(super) fn find(program: &'static str, packages: &'static str) -> Result<PathBuf, Missing> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
        .ok_or(Missing { program, packages })
}

/// The first word with a dot between digits that a program says of its version.
pub(super) fn version(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output();
    let Ok(Output { stdout, .. }) = output else { return String::new() };
    let text = String::from_utf8_lossy(&stdout);
    let is_version =
        |word: &&str| word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.');
    text.split_whitespace().find(is_version).unwrap_or_default().to_owned()
}

/// A port of this host that nobody listens at.
pub(super) fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("failed to find a port")?;
    Ok(listener.local_addr()?.port())
}

/// Runs a server and its client, each on its side's processor, and returns what the client printed.
pub(super) fn run_pair(
    placement: Placement,
    server: &mut Command,
    client: &mut Command,
) -> anyhow::Result<String> {
    // A process starts where the thread that starts it may run.
    affinity::pin(placement.server())?;
    let server = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    affinity::pin(placement.client())?;
    let _server = Ended(server.context("failed to start the server")?);
    let began = Instant::now();
    loop {
        match run(client) {
            Ok(text) => return Ok(text),
            Err(_) if began.elapsed() < MEETING => std::thread::sleep(Duration::from_millis(50)),
            Err(error) => return Err(error),
        }
    }
}

/// Runs a program to its end, and returns what it printed.
pub(super) fn run(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().with_context(|| format!("failed to start {name}"))?;
    let mut child = Ended(child);
    let began = Instant::now();
    // What these programs print fits into a pipe, so they end unread.
    while child.0.try_wait()?.is_none() {
        anyhow::ensure!(began.elapsed() < PATIENCE, "{name} has not ended within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (mut stdout, mut stderr) = (String::new(), String::new());
    read(child.0.stdout.take(), &mut stdout)?;
    read(child.0.stderr.take(), &mut stderr)?;
    let status = child.0.wait()?;
    anyhow::ensure!(status.success(), "{name} failed: {status}: {}", stderr.trim());
    Ok(stdout)
}

fn read(from: Option<impl std::io::Read>, into: &mut String) -> std::io::Result<()> {
    from.map_or(Ok(()), |mut from| from.read_to_string(into).map(|_| ()))
}

/// A process that is ended when it is let go of.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // One that has ended already is only waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
