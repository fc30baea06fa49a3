//! `kv cluster workers`: which processes are registered as those that work for the cluster.

use anyhow::Context;
use serde_json::{Value, json};
use weft_protocol::control::v1::Worker;

use crate::control::Control;
use crate::output::{Format, Output};

const HEADING: [&str; 5] = ["worker", "address", "build", "slots", "process"];

pub(super) fn run(control: &Control, output: &mut Output) -> anyhow::Result<()> {
    let workers = control.workers().context("cannot list the workers")?;
    match output.format {
        Format::Table => output.table(&HEADING, workers.iter().map(cells), 3)?,
        Format::Raw => {
            for worker in &workers {
                output.line(cells(worker).join("\t"))?;
            }
        }
        Format::Json => output.json(&workers.iter().map(to_json).collect::<Value>())?,
    }
    Ok(())
}

fn cells(worker: &Worker) -> [String; 5] {
    let Worker { worker, address, slots, build, process } = worker.clone();
    let build = if build.is_empty() { "-".to_owned() } else { build };
    [worker.to_string(), address, build, slots.to_string(), process.to_string()]
}

fn to_json(worker: &Worker) -> Value {
    let Worker { worker, address, slots, build, process } = worker;
    json!({
        "worker": worker,
        "address": address,
        "slots": slots,
        "build": build,
        "process": process,
    })
}
