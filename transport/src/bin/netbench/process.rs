//! Another process of this program: it prints a line when it is ready and one for each line that it
//! is told, and ends when its standard input does, so it cannot outlive the one that started it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context as _;

/// A running process; dropping it ends it, and says on stderr if a signal had done so before.
pub(crate) struct Process {
    /// What it is, and which of several, for errors.
    name: String,
    child: Child,
    /// Taken when the process is to end.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this same binary with `arguments`, and returns the line by which it says that it is ready.
    pub(crate) fn start(
        name: impl Into<String>,
        arguments: &[String],
    ) -> anyhow::Result<(Self, String)> {
        let name = name.into();
        let this = std::env::current_exe().context("failed to find this program's own file")?;
        let mut child = Command::new(this)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start the {name} process"))?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("stdout was asked to be piped"));
        let mut process = Process { name, child, stdin, stdout };
        let ready = process.answer()?;
        Ok((process, ready))
    }

    /// Tells it `line`, and waits for its answer.
    pub(crate) fn ask(&mut self, line: &str) -> anyhow::Result<String> {
        self.tell(line)?;
        self.answer()
    }

    /// Tells it `line`; [`answer`](Self::answer) is to follow.
    pub(crate) fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().expect("stdin is open until the drop");
        writeln!(stdin, "{line}")
            .and_then(|()| stdin.flush())
            .with_context(|| format!("failed to tell the {} process", self.name))
    }

    /// Its next line.
    pub(crate) fn answer(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.stdout
            .read_line(&mut line)
            .with_context(|| format!("failed to read what the {} process said", self.name))?;
        // An empty line is the end of its output: it has said on stderr what was wrong.
        anyhow::ensure!(!line.is_empty(), "the {} process ended too soon", self.name);
        Ok(line.trim_end().to_owned())
    }

    /// Its next line, which is to be `expected`.
    pub(crate) fn expect(&mut self, expected: &str) -> anyhow::Result<()> {
        let said = self.answer()?;
        let name = &self.name;
        anyhow::ensure!(
            said == expected,
            "the {name} process said {said:?} instead of {expected:?}"
        );
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stdin = None;
        // It ends with its stdin; if it was already gone, waiting says so at once.
        let ended = self.child.wait();
        // What fails by itself has said so. Of a process that was killed, those who measure see a
        // reset connection or nothing, and nobody but this one knows why.
        if let Ok(status) = ended
            && status.signal().is_some()
        {
            let _ = writeln!(std::io::stderr(), "netbench: the {} process: {status}", self.name);
        }
    }
}
