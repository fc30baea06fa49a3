//! The other process, seen from the one that measures.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context as _;
use clap::ValueEnum as _;

use crate::args::Plan;
use crate::serve::Service;
use crate::tally::Sample;

/// A running `netbench serve`; dropping it ends it.
pub(crate) struct ServerProcess {
    child: Child,
    /// Taken when the process is to end.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    address: String,
}

impl ServerProcess {
    /// Starts this same binary as a server, and returns once it listens.
    pub(crate) fn start(plan: &Plan, service: Service) -> anyhow::Result<Self> {
        let this = std::env::current_exe().context("failed to find this program's own file")?;
        let mut command = Command::new(this);
        let name = service.to_possible_value().expect("no service is skipped");
        command.arg("serve").arg(name.get_name());
        command.args(["--poll", &plan.shape.poll.to_string()]);
        command.args(["--link", plan.shape.links.kind.name()]);
        if let Some(device) = &plan.shape.links.verbs.device {
            command.args(["--device", device]);
        }
        if let Some(index) = plan.shape.links.verbs.gid_index {
            command.args(["--gid-index", &index.to_string()]);
        }
        command.args(["--size", &plan.shape.size.to_string()]);
        command.args(["--lanes", &plan.shape.lanes().to_string()]);
        if let Some(cpu) = plan.placement.server() {
            command.args(["--cpu", &cpu.0.to_string()]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start the server process")?;
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout was asked to be piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).context("failed to read the server's address")?;
        // An empty line is the end of its output: it has said on stderr what was wrong.
        anyhow::ensure!(!line.is_empty(), "the server process ended before it listened");
        let address = line.trim().to_owned();
        Ok(ServerProcess { child, stdin, stdout, address })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> anyhow::Result<SocketAddr> {
        let address = &self.address;
        address
            .parse()
            .with_context(|| format!("the server process said {address:?} instead of its address"))
    }

    /// Where its shared memory is.
    pub(crate) fn memory(&self) -> &str {
        &self.address
    }

    /// What the server has received so far.
    pub(crate) fn sample(&mut self) -> anyhow::Result<Sample> {
        let stdin = self.stdin.as_mut().expect("stdin is open until the drop");
        writeln!(stdin, "sample").context("failed to ask the server process")?;
        let mut line = String::new();
        self.stdout.read_line(&mut line).context("failed to read the server's sample")?;
        let value = serde_json::from_str(&line)
            .with_context(|| format!("the server process said {line:?} instead of a sample"))?;
        Sample::from_json(&value)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.stdin = None;
        // It ends with its stdin; if it was already gone, waiting says so at once.
        let _ = self.child.wait();
    }
}
