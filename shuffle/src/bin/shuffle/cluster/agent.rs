//! `shuffle agent`: has the processes of workers on this machine, for the jobs of a cluster.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::builder::BoolishValueParser;
use signal_hook::consts::{SIGINT, SIGTERM};
use weft_shuffle::build_of_this_program;

use super::hosting::Hosting;
use super::scheduler::Scheduler;
use super::store::{AgentRow, Store};
use super::{Cluster, TIMEOUT, fleet};
use crate::report::say;

/// How often an agent says that it is there, in the time for which that holds: each time is a commit of the coordinators, and two may fail.
const RENEWALS: u32 = 3;

/// How often it looks for what is to be done.
const TURN_EVERY: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Agent {
    #[command(flatten)]
    cluster: Cluster,
    /// Workers to have room for [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = slots)]
    slots: Option<usize>,
    /// The address for agents and workers, by which those on other machines reach this one; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Take an address that can be reached from other machines: nothing is encrypted, and who may read the cluster's tables may run jobs
    #[arg(long, value_parser = BoolishValueParser::new())]
    insecure: bool,
}

fn slots(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=1024).contains(number));
    number.ok_or_else(|| "not a number from 1 to 1024".to_owned())
}

impl Agent {
    /// Whether the cluster has a node on another machine, and this agent is where only its own machine finds it.
    fn is_out_of_reach(&self) -> bool {
        let is_elsewhere = |node: &String| {
            let address = node.parse::<SocketAddr>();
            address.is_ok_and(|address| !address.ip().is_loopback())
        };
        self.listen.ip().is_loopback() && self.cluster.cluster.iter().any(is_elsewhere)
    }

    /// What no single value can show.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.listen.ip().is_unspecified() {
            return Err(format!(
                "--listen {}: name the address by which others reach this machine",
                self.listen
            ));
        }
        if !self.listen.ip().is_loopback() && !self.insecure {
            return Err(format!(
                "--listen {} can be reached from other machines, and nothing is encrypted; use a loopback address, or --insecure if the network is trusted",
                self.listen
            ));
        }
        Ok(())
    }
}

/// Runs until it is told to end by SIGTERM or SIGINT.
pub(crate) fn run(asked: &Agent) -> anyhow::Result<()> {
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&is_over))?;
    }
    let cluster = &asked.cluster.cluster;
    let store = Store::open(cluster, TIMEOUT)?;
    let secret = store.secret(None)?;
    let processors = std::thread::available_parallelism().map_or(1, |number| number.get());
    let slots = asked.slots.unwrap_or(processors);
    let hosting = Hosting::new(slots, asked.listen.ip().to_string());
    let endpoint = fleet::endpoint(secret, Arc::new(hosting.clone()), true)?;
    let address = endpoint.listen(asked.listen)?;
    let build = build_of_this_program().context("cannot read this executable")?;
    let row = AgentRow { address: address.to_string(), slots, build, process: std::process::id() };
    let mut registered = Instant::now();
    let (id, lifetime) = store.register(&row, None)?;
    say(&format!("agent {} at {address}, with room for {slots} workers\n", id.0));
    if asked.is_out_of_reach() {
        eprintln!(
            "shuffle agent: agents on other machines cannot reach {address}, so no job has workers here and there: name an address of this machine by --listen"
        );
    }
    let mut scheduler = Scheduler::new(
        (id, address),
        row.build.clone(),
        store.clone(),
        (cluster.clone(), secret),
        (endpoint.clone(), hosting.clone()),
    );
    let (mut complained, mut is_stranger) = (None, false);
    while !is_over.load(Ordering::Relaxed) && !is_stranger {
        let mut turn = || -> anyhow::Result<()> {
            if registered.elapsed() >= lifetime / RENEWALS {
                // Counted from before: for how long it is there at least.
                let began = Instant::now();
                store.renew(id, &row)?;
                registered = began;
                // A cluster that has lost its tables has it no more, and who comes later would make another.
                is_stranger = store.secret(Some(secret))? != secret;
            }
            hosting.sweep();
            scheduler.turn()
        };
        match turn() {
            Ok(()) => complained = None,
            // The cluster may come back; until then, jobs go on that need nothing of it.
            Err(error) => {
                let text = format!("{error:#}");
                if complained.as_ref() != Some(&text) {
                    eprintln!("shuffle agent: {text}: trying again");
                    complained = Some(text);
                }
            }
        }
        std::thread::sleep(TURN_EVERY);
    }
    scheduler.end();
    hosting.end();
    endpoint.shutdown();
    store.leave(id)?;
    anyhow::ensure!(
        !is_stranger,
        "the cluster has lost what its agents had in common, and others have begun anew: start this agent again"
    );
    Ok(())
}
