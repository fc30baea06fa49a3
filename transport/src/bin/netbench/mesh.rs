//! Nodes as processes that send to each other at the same time: `netbench bidirectional` and
//! `netbench all-to-all`. Totals are what all receivers have counted together.

pub(crate) mod node;
pub(crate) mod plan;
mod report;

use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::affinity::{Cpu, Placement};
use crate::apart::Distances;
use crate::process::Process;
use crate::shape::Shape;
use crate::tally::{Flow, LOOK_AGAIN, SILENCE_MAX, Sample};
use node::NodeMethod;
use plan::{Case, MeshPlan};
use report::Report;

/// One measurement of all nodes.
#[derive(Clone, Debug)]
pub(crate) struct MeshFlow {
    pub(crate) total: Flow,
    /// Messages a second that each node has received.
    pub(crate) each_node: Vec<f64>,
}

/// How long to measure, and where.
pub(crate) struct Stage<'a> {
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
    /// The processors that nodes take turns over; with none they run where the scheduler has them.
    pub(crate) cpus: &'a [Cpu],
}

pub(crate) fn measure(plan: &MeshPlan) -> anyhow::Result<String> {
    let stage = Stage { warm_up: plan.warm_up, window: plan.window, cpus: &plan.cpus };
    let mut runs = Vec::with_capacity(plan.runs);
    let mut distances = Distances::of(match plan.cpus[..] {
        [server, .., client] => Placement::Pinned { server, client },
        _ => Placement::Unpinned,
    });
    for _ in 0..plan.runs {
        // All cases take turns, and in each of them ours and the raw one.
        runs.push(distances.still_all(&plan.cases, |case| {
            let raw = flow(&stage, &plan.shape, *case, NodeMethod::raw(plan.shape.links.kind))?;
            let weft = flow(&stage, &plan.shape, *case, NodeMethod::Weft)?;
            Ok([weft, raw])
        })?);
    }
    let report = Report::new(plan, &runs, &distances);
    Ok(if plan.json { report.json() } else { report.text() })
}

/// Starts the nodes of `case`, lets them send, and returns what came meanwhile.
pub(crate) fn flow(
    stage: &Stage<'_>,
    shape: &Shape,
    case: Case,
    method: NodeMethod,
) -> anyhow::Result<MeshFlow> {
    let mut nodes = Vec::with_capacity(case.nodes);
    let mut addresses = Vec::with_capacity(case.nodes);
    for index in 0..case.nodes {
        let cpu = stage.cpus.get(index % stage.cpus.len().max(1)).copied();
        let arguments = node::arguments(shape, case, method, index, cpu);
        let (process, address) = Process::start(format!("node {index}"), &arguments)?;
        nodes.push(process);
        addresses.push(address);
    }
    let addresses = Value::from(addresses).to_string();
    for node in &mut nodes {
        node.tell(&addresses)?;
        node.expect("connected")?;
    }
    for node in &mut nodes {
        node.tell("go")?;
        node.expect("going")?;
    }
    std::thread::sleep(stage.warm_up);
    let before = sample(&mut nodes)?;
    std::thread::sleep(stage.window);
    let receivers = if case.both_ways { case.nodes } else { case.nodes - 1 };
    let mut after = sample(&mut nodes)?;
    let mut waited = Duration::ZERO;
    let heard = |after: &[Sample]| {
        let mut pairs = after.iter().zip(&before).take(receivers);
        pairs.all(|(after, before)| after.is_beyond(before))
    };
    while !heard(&after) && waited < SILENCE_MAX {
        std::thread::sleep(LOOK_AGAIN);
        waited += LOOK_AGAIN;
        after = sample(&mut nodes)?;
    }
    // All cease to send before the first of them goes away.
    for node in &mut nodes {
        node.tell("stop")?;
    }
    for node in &mut nodes {
        node.expect("stopped")?;
    }
    let mut total = Flow::default();
    let mut each_node = Vec::with_capacity(nodes.len());
    for (index, (before, after)) in before.iter().zip(&after).enumerate() {
        total.processors += after.processors_since(before);
        // The last node of a one-way case is sent nothing.
        if index >= receivers {
            continue;
        }
        let flow = after.flow_since(before).with_context(|| format!("node {index}"))?;
        total.messages_per_second += flow.messages_per_second;
        total.bytes_per_second += flow.bytes_per_second;
        total.gaps = total.gaps.worse(flow.gaps);
        each_node.push(flow.messages_per_second);
    }
    Ok(MeshFlow { total, each_node })
}

fn sample(nodes: &mut [Process]) -> anyhow::Result<Vec<Sample>> {
    // Asked all at once, so that the samples are of one moment.
    nodes.iter_mut().try_for_each(|node| node.tell("sample"))?;
    nodes.iter_mut().map(|node| Sample::parse(&node.answer()?)).collect()
}
