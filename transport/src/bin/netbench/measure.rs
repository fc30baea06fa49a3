//! The runs: each half in turn, with a fresh server process for each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use weft_transport::PollPolicy;

use crate::affinity;
use crate::args::{Benchmark, Lane, LinkKind, Plan, Shape};
use crate::phases::{self, Phases};
use crate::raw::{self, ping_pong::Wait};
use crate::report::{Half, Report, Run};
use crate::serve::Service;
use crate::server_process::ServerProcess;
use crate::tally::Gaps;
use crate::weft::{self, Clients};

pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Report> {
    affinity::pin(plan.placement.client())?;
    let mut runs = Vec::with_capacity(plan.runs);
    for _ in 0..plan.runs {
        runs.push(match plan.benchmark {
            Benchmark::Latency => latency(plan)?,
            Benchmark::Rate => rate(plan)?,
            Benchmark::Bandwidth => bandwidth(plan)?,
        });
    }
    Ok(Report::new(plan, &runs))
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
    let size = plan.shape.size;
    let raw =
        raw_flow(plan, Service::RawMessages, "64 KiB writes", |address, connections, phases| {
            raw::stream::send_messages(address, size, connections, phases)
        })?;
    let raws = ring_flow(plan)?.into_iter().chain([raw]).collect();
    Ok(Run { pauses: Some(pauses(plan)?), weft: weft_flow(plan)?, raws })
}

fn bandwidth(plan: &Plan) -> anyhow::Result<Run> {
    let raw = raw_flow(plan, Service::RawBytes, "64 KiB writes", raw::stream::send_bytes)?;
    let raws = ring_flow(plan)?.into_iter().chain([raw]).collect();
    Ok(Run { pauses: Some(pauses(plan)?), weft: weft_flow(plan)?, raws })
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
fn ring_flow(plan: &Plan) -> anyhow::Result<Option<Half>> {
    if plan.shape.links.kind != LinkKind::Shm {
        return Ok(None);
    }
    let shape =
        Shape { threads: plan.shape.threads.min(plan.shape.connections), ..plan.shape.clone() };
    let server = ServerProcess::start(plan, Service::RawRingMessages)?;
    let memory = server.memory().to_owned();
    let all = plan.shape.lanes();
    let half = flow(plan, "ring", server, shape.threads, |thread, phases| {
        raw::ring::send_messages(&memory, shape.size, all, &shape.lanes_of(thread), phases)
    })?;
    Ok(Some(half))
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
    let threads = plan.shape.threads;
    let histograms = phases::run(
        threads,
        plan.warm_up,
        plan.window,
        |thread, phases| worker(&plan.shape.lanes_of(thread), phases),
        || Ok(()),
    )?;
    let mut all = Histogram::<u64>::new(3)?;
    for histogram in &histograms {
        all.add(histogram)?;
    }
    anyhow::ensure!(!all.is_empty(), "no round trip ended while it was measured");
    let quantile_us = |quantile| all.value_at_quantile(quantile) as f64 / 1e3;
    Ok(Half {
        method,
        figures: vec![
            ("p50_us", quantile_us(0.5)),
            ("p99_us", quantile_us(0.99)),
            ("p999_us", quantile_us(0.999)),
        ],
    })
}

/// Plain sockets have one writer a connection at most: two would have to share a lock.
fn raw_flow(
    plan: &Plan,
    service: Service,
    method: &'static str,
    worker: impl Fn(SocketAddr, usize, &Phases) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<Half> {
    let server = ServerProcess::start(plan, service)?;
    let address = server.address()?;
    let connections = plan.shape.connections;
    let threads = plan.shape.threads.min(connections);
    flow(plan, method, server, threads, |thread, phases| {
        worker(address, (thread..connections).step_by(threads).count(), phases)
    })
}

fn weft_flow(plan: &Plan) -> anyhow::Result<Half> {
    let server = ServerProcess::start(plan, Service::WeftMessages)?;
    let shape = &plan.shape;
    let clients = Clients::connect(server.address()?, shape)?;
    flow(plan, "weft", server, shape.threads, |thread, phases| {
        weft::messages::send(&clients, shape.size, &shape.lanes_of(thread), phases)
    })
}

fn flow(
    plan: &Plan,
    method: &'static str,
    mut server: ServerProcess,
    threads: usize,
    worker: impl Fn(usize, &Arc<Phases>) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<Half> {
    let mut samples = Vec::with_capacity(2);
    phases::run(threads, plan.warm_up, plan.window, worker, || {
        samples.push(server.sample()?);
        Ok(())
    })?;
    let [earlier, later] = &samples[..] else {
        anyhow::bail!("the senders ended before the window did");
    };
    let flow = later.flow_since(earlier)?;
    let headline = match plan.benchmark {
        Benchmark::Bandwidth => ("bytes_per_second", flow.bytes_per_second),
        Benchmark::Latency | Benchmark::Rate => ("messages_per_second", flow.messages_per_second),
    };
    let mut figures = vec![headline];
    figures.extend(gap_figures(flow.gaps, plan.window));
    Ok(Half { method, figures })
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
