//! Workers of Weft's shuffle as processes of a benchmark, which are started as those of its peers are.

use std::io::{BufRead as _, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use weft_shuffle::{LinkPolicy, Listening, Secret, Worker, WorkerConfig, WorkerId};

use crate::carried;

/// Is worker number `worker` of `workers`: meets the others, does `work`, and reports what it returns to the process that started it.
pub(crate) fn join<R: Serialize>(
    worker: usize,
    workers: usize,
    links: LinkPolicy,
    work: impl FnOnce(&Worker) -> anyhow::Result<R>,
) -> anyhow::Result<()> {
    let listening = Listening::start(WorkerConfig {
        id: WorkerId(worker),
        workers,
        types: carried::types(),
        arguments: String::new(),
        secret: Secret::new(0x5ec7e7),
        hang_timeout: Duration::from_secs(30),
        listen: std::net::Ipv4Addr::LOCALHOST.into(),
        attempt: 1,
        checkpoints: None,
        links,
        memory_bytes: memory_bytes(workers),
        spill_folder: std::env::temp_dir(),
    })?;
    writeln!(std::io::stdout(), "{}", listening.address())?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let addresses = line.split_whitespace().map(str::parse);
    let addresses: Vec<SocketAddr> =
        addresses.collect::<Result<_, _>>().context("no addresses on standard input")?;
    let worked = work(&listening.join(&addresses)?).map_err(|error| format!("{error:#}"));
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&worked)?).context("cannot report")
}

/// Half of the machine's memory, in equal parts, as `shuffle` has it.
fn memory_bytes(workers: usize) -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram * u64::from(system.mem_unit) / 2 / workers as u64
}
