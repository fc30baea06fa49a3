//! The receiving process, seen from the one that measures.

use std::net::SocketAddr;

use anyhow::Context as _;
use clap::ValueEnum as _;

use crate::args::Plan;
use crate::process::Process;
use crate::serve::Service;
use crate::tally::Sample;

/// A running `netbench serve`; dropping it ends it.
pub(crate) struct ServerProcess {
    process: Process,
    address: String,
}

impl ServerProcess {
    /// Starts a server, and returns once it listens.
    pub(crate) fn start(plan: &Plan, service: Service) -> anyhow::Result<Self> {
        let name = service.to_possible_value().expect("no service is skipped");
        let mut arguments = vec!["serve".to_owned(), name.get_name().to_owned()];
        let shape = &plan.shape;
        for (flag, value) in [
            ("--poll", shape.poll.to_string()),
            ("--size", shape.size.to_string()),
            ("--lanes", shape.lanes().to_string()),
            ("--handlers", shape.handlers.to_string()),
        ] {
            arguments.extend([flag.to_owned(), value]);
        }
        arguments.extend(shape.links.arguments());
        if let Some(cpu) = plan.placement.server() {
            arguments.extend(["--cpu".to_owned(), cpu.0.to_string()]);
        }
        let (process, address) = Process::start("server", &arguments)?;
        Ok(ServerProcess { process, address })
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
        Sample::parse(&self.process.ask("sample")?)
    }
}
