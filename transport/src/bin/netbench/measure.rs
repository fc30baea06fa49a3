//! The runs: each half in turn, with a fresh server process for each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use weft_transport::PollPolicy;

use crate::affinity;
use crate::apart::Distances;
use crate::args::{Benchmark, Plan};
use crate::links::LinkKind;
use crate::phases::{self, Phases};
use crate::quantiles::Quantiles;
use crate::raw::{self, ping_pong::Wait};
use crate::report::{Half, Report, Run};
use crate::serve::Service;
use crate::server_process::ServerProcess;
use crate::shape::{Lane, Shape};
use crate::tally::{Flow, Gaps, LOOK_AGAIN, SILENCE_MAX};
use crate::weft::{self, Clients};

/// How long raw writes are, and what they are called.
const WRITES: [(&str, usize); 2] =
    [(raw::stream::WRITES, raw::WRITE_BYTES), (raw::stream::SEGMENTS, raw::SEGMENT_BYTES)];

pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Report> {
    affinity::pin(plan.placement.client())?;
    let mut runs = Vec::with_capacity(plan.runs);
    let mut distances = Distances::of(plan.placement);
    for _ in 0..plan.runs {
        runs.push(distances.still(|| run(plan))?);
    }
    Ok(Report::new(plan, &runs, distances))
}

/// One run: ours and every raw method.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<Run> {
    match plan.benchmark {
        Benchmark::Latency => latency(plan),
        Benchmark::Rate => rate(plan),
        Benchmark::Bandwidth => bandwidth(plan),
    }
}

fn latency(plan: &Plan) -> anyhow::Result<Run> {
    let blocking = raw_round_trips(plan, Service::RawBlocking, Wait::Blocking)?;
    let busy = if plan.can_spin {
        Some(raw_round_trips(plan, Service::RawBusy, Wait::Busy)?)
    } else {
        // It would measure the scheduler, and is not what the ratio compares with: who asks for
        // spinning threads is refused as many.
        None
    };
    // A transport that may sleep is compared with sockets that sleep, one that may not with sockets
    // that do not.
    let ring = (plan.can_spin && plan.shape.links.kind == LinkKind::Shm)
        .then(|| ring_round_trips(plan))
        .transpose()?;
    let raws = match plan.shape.poll {
        PollPolicy::Adaptive | PollPolicy::Park => {
            std::iter::once(blocking).chain(busy).chain(ring).collect()
        }
        PollPolicy::Busy => ring.into_iter().chain(busy).chain([blocking]).collect(),
    };
    let server = ServerProcess::start(plan, Service::WeftCalls)?;
    let clients = Clients::connect(server.address()?, &plan.shape)?;
    let weft = round_trips(plan, "weft", |lanes, phases| {
        weft::calls::measure(&clients, plan.shape.size, lanes, phases)
    })?;
    Ok(Run { pauses: None, weft, raws })
}

fn rate(plan: &Plan) -> anyhow::Result<Run> {
    let mut raws: Vec<_> = ring_flow(plan)?.into_iter().collect();
    for (method, write_bytes) in WRITES {
        raws.push((method, raw_messages(plan, write_bytes)?));
    }
    one_way_run(plan, raws)
}

fn bandwidth(plan: &Plan) -> anyhow::Result<Run> {
    let mut raws: Vec<_> = ring_flow(plan)?.into_iter().collect();
    for (method, write_bytes) in WRITES {
        let flow = raw_flow(plan, Service::RawBytes, |address, connections, phases| {
            raw::stream::send_bytes(address, write_bytes, connections, phases)
        })?;
        raws.push((method, flow));
    }
    one_way_run(plan, raws)
}

fn one_way_run(plan: &Plan, raws: Vec<(&'static str, Flow)>) -> anyhow::Result<Run> {
    let half = |(method, flow)| half(plan, method, flow);
    let raws = raws.into_iter().map(half).collect();
    Ok(Run { pauses: Some(pauses(plan)?), weft: half(("weft", weft_flow(plan)?)), raws })
}

/// One-way messages of one run: ours, and what the machine's limit is.
pub(crate) fn one_way(plan: &Plan) -> anyhow::Result<(Flow, Flow)> {
    let raw = match ring_flow(plan)? {
        Some((_, flow)) => flow,
        None => raw_messages(plan, raw::SEGMENT_BYTES)?,
    };
    Ok((weft_flow(plan)?, raw))
}

fn raw_messages(plan: &Plan, write_bytes: usize) -> anyhow::Result<Flow> {
    let size = plan.shape.size;
    raw_flow(plan, Service::RawMessages, |address, connections, phases| {
        raw::stream::send_messages(address, size, write_bytes, connections, phases)
    })
}

/// Round trips over bare rings, if the link is shared memory.
fn ring_round_trips(plan: &Plan) -> anyhow::Result<Half> {
    let server = ServerProcess::start(plan, Service::RawRingEcho)?;
    let shape = &plan.shape;
    round_trips(plan, "ring", |lanes, phases| {
        raw::ring::measure(server.memory(), shape.size, shape.lanes(), lanes, phases)
    })
}

/// Messages over bare rings, if the link is shared memory: one writer a ring.
fn ring_flow(plan: &Plan) -> anyhow::Result<Option<(&'static str, Flow)>> {
    if plan.shape.links.kind != LinkKind::Shm {
        return Ok(None);
    }
    let shape =
        Shape { senders: plan.shape.senders.min(plan.shape.connections), ..plan.shape.clone() };
    let server = ServerProcess::start(plan, Service::RawRingMessages)?;
    let memory = server.memory().to_owned();
    let all = plan.shape.lanes();
    let flow = flow(plan, server, shape.senders, |thread, phases| {
        raw::ring::send_messages(&memory, shape.size, all, &shape.lanes_of(thread), phases)
    })?;
    Ok(Some(("ring", flow)))
}

fn raw_round_trips(plan: &Plan, service: Service, wait: Wait) -> anyhow::Result<Half> {
    let server = ServerProcess::start(plan, service)?;
    let method = match wait {
        Wait::Blocking => "blocking",
        Wait::Busy => "busy-poll",
    };
    round_trips(plan, method, |lanes, phases| {
        raw::ping_pong::measure(server.address()?, plan.shape.size, lanes, wait, phases)
    })
}

fn round_trips(
    plan: &Plan,
    method: &'static str,
    worker: impl Fn(&[Lane], &Phases) -> anyhow::Result<Histogram<u64>> + Sync,
) -> anyhow::Result<Half> {
    let threads = plan.shape.senders;
    let histograms = phases::run(
        threads,
        plan.warm_up,
        plan.window,
        |thread, phases| worker(&plan.shape.lanes_of(thread), phases),
        || Ok(()),
    )?;
    let all = Quantiles::of(&histograms)?;
    Ok(Half {
        method,
        figures: vec![
            ("p50_us", all.micros(0.5)),
            ("p99_us", all.micros(0.99)),
            ("p999_us", all.micros(0.999)),
        ],
    })
}

/// Plain sockets have one writer a connection at most: two would have to share a lock.
fn raw_flow(
    plan: &Plan,
    service: Service,
    worker: impl Fn(SocketAddr, usize, &Phases) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<Flow> {
    let server = ServerProcess::start(plan, service)?;
    let address = server.address()?;
    let connections = plan.shape.connections;
    let threads = plan.shape.senders.min(connections);
    flow(plan, server, threads, |thread, phases| {
        worker(address, (thread..connections).step_by(threads).count(), phases)
    })
}

fn weft_flow(plan: &Plan) -> anyhow::Result<Flow> {
    let shape = &plan.shape;
    let service = if shape.body.is_some() { Service::WeftBodies } else { Service::WeftMessages };
    let server = ServerProcess::start(plan, service)?;
    let clients = Clients::connect(server.address()?, shape)?;
    flow(plan, server, shape.senders, |thread, phases| {
        let targets = weft::messages::targets(&clients, &shape.lanes_of(thread));
        match shape.body {
            Some(bytes) => weft::bodies::send(&targets, shape.size, bytes, phases),
            None => weft::messages::send(&targets, shape.size, phases),
        }
    })
}

fn flow(
    plan: &Plan,
    mut server: ServerProcess,
    threads: usize,
    worker: impl Fn(usize, &Arc<Phases>) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<Flow> {
    let mut samples = Vec::with_capacity(2);
    phases::run(threads, plan.warm_up, plan.window, worker, || {
        let mut sample = server.sample()?;
        if let Some(earlier) = samples.first() {
            let mut waited = Duration::ZERO;
            while !sample.is_beyond(earlier) && waited < SILENCE_MAX {
                std::thread::sleep(LOOK_AGAIN);
                waited += LOOK_AGAIN;
                sample = server.sample()?;
            }
        }
        samples.push(sample);
        Ok(())
    })?;
    let [earlier, later] = &samples[..] else {
        anyhow::bail!("the senders ended before the window did");
    };
    later.flow_since(earlier)
}

fn half(plan: &Plan, method: &'static str, flow: Flow) -> Half {
    let headline = match plan.benchmark {
        Benchmark::Bandwidth => ("bytes_per_second", flow.bytes_per_second),
        Benchmark::Latency | Benchmark::Rate => ("messages_per_second", flow.messages_per_second),
    };
    let mut figures = vec![headline];
    figures.extend(gap_figures(flow.gaps, plan.window));
    Half { method, figures }
}

/// What the machine itself does to a thread that never waits.
fn pauses(plan: &Plan) -> anyhow::Result<Half> {
    let gaps = raw::pauses::measure(plan.placement, plan.window)?;
    Ok(Half { method: "spinning threads", figures: gap_figures(gaps, plan.window).to_vec() })
}

fn gap_figures(gaps: Gaps, window: Duration) -> [(&'static str, f64); 2] {
    [
        ("longest_gap_us", gaps.longest.as_secs_f64() * 1e6),
        ("gaps_over_1ms_per_second", gaps.long as f64 / window.as_secs_f64()),
    ]
}
