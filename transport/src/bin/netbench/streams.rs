//! `netbench streams`: tokio streams beside plain TCP sockets, as hadroNIO was measured beside Java's:
//! round trips, and messages of which every so many are gathered in one write; a warm-up of a tenth,
//! and standard deviations over the runs.

mod plain;
pub(crate) mod plan;
mod report;
pub(crate) mod weft;

use crate::affinity;
use crate::apart::Distances;
use crate::args::Plan;
use crate::links::LinkKind;
use crate::phases;
use crate::quantiles::Quantiles;
use crate::raw::ping_pong::Wait;
use crate::serve::Service;
use crate::server_process::ServerProcess;

use plan::StreamsPlan;
use report::Report;

/// Who carries the messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Plain(Wait),
    Streams(LinkKind),
}

impl Method {
    /// Plain sockets, and streams over each of `links`.
    fn all(links: &[LinkKind]) -> Vec<Self> {
        let plain = [Wait::Blocking, Wait::Busy].map(Method::Plain);
        plain.into_iter().chain(links.iter().copied().map(Method::Streams)).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Method::Plain(Wait::Blocking) => "tcp blocking",
            Method::Plain(Wait::Busy) => "tcp busy",
            Method::Streams(LinkKind::Tcp) => "streams tcp",
            Method::Streams(LinkKind::Shm) => "streams shm",
            Method::Streams(LinkKind::Verbs) => "streams verbs",
        }
    }
}

/// One line of the table.
#[derive(Clone, Copy)]
struct Case {
    size: usize,
    connections: usize,
    /// Messages that one write gathers; round trips without.
    flush: Option<usize>,
}

/// The same figure of one method, by run.
type Series = Vec<f64>;

pub(crate) fn measure(plan: &StreamsPlan) -> anyhow::Result<String> {
    affinity::pin(plan.placement.client())?;
    let mut lines = Vec::new();
    let methods = Method::all(&plan.links);
    let mut distances = Distances::of(plan.placement);
    for case in plan.cases() {
        let mut series = vec![Series::new(); methods.len()];
        // The methods take turns, so that what the machine does meanwhile hits all of them.
        for _ in 0..plan.runs {
            let figures = distances.still_all(&methods, |method| run(plan, case, *method))?;
            series.iter_mut().zip(figures).for_each(|(series, figure)| series.push(figure));
        }
        lines.push((case, series));
    }
    let report = Report::new(plan, &methods, &lines, &distances);
    Ok(if plan.json { report.json() } else { report.text() })
}

fn run(plan: &StreamsPlan, case: Case, method: Method) -> anyhow::Result<f64> {
    let link = match method {
        Method::Plain(_) => LinkKind::Tcp,
        Method::Streams(link) => link,
    };
    let plan = plan.one_run(case.size, case.connections, link);
    match case.flush {
        None => round_trip_us(&plan, method),
        Some(flush) => messages_per_second(&plan, method, flush),
    }
}

/// The median round trip, all connections at once.
fn round_trip_us(plan: &Plan, method: Method) -> anyhow::Result<f64> {
    let service = match method {
        Method::Plain(Wait::Blocking) => Service::RawBlocking,
        Method::Plain(Wait::Busy) => Service::RawBusy,
        Method::Streams(_) => Service::StreamsEcho,
    };
    let server = ServerProcess::start(plan, service)?;
    let (address, shape) = (server.address()?, plan.shape.clone());
    let histograms = phases::run(
        threads(method, shape.connections),
        plan.warm_up,
        plan.window,
        |_, phases| match method {
            Method::Plain(Wait::Blocking) => plain::ping_blocking(address, shape.size, phases),
            Method::Plain(Wait::Busy) => {
                plain::ping_busy(address, shape.size, shape.connections, phases)
            }
            Method::Streams(_) => weft::ping(address, &shape, phases),
        },
        || Ok(()),
    )?;
    Ok(Quantiles::of(&histograms)?.micros(0.5))
}

/// What the receiver has counted of one-way messages.
fn messages_per_second(plan: &Plan, method: Method, flush: usize) -> anyhow::Result<f64> {
    let service = match method {
        Method::Plain(Wait::Blocking) => Service::RawBytes,
        Method::Plain(Wait::Busy) => Service::RawBusyBytes,
        Method::Streams(_) => Service::StreamsSink,
    };
    let mut server = ServerProcess::start(plan, service)?;
    let (address, shape) = (server.address()?, plan.shape.clone());
    let mut samples = Vec::with_capacity(2);
    phases::run(
        threads(method, shape.connections),
        plan.warm_up,
        plan.window,
        |_, phases| match method {
            Method::Plain(Wait::Blocking) => {
                plain::flow_blocking(address, shape.size, flush, phases)
            }
            Method::Plain(Wait::Busy) => {
                plain::flow_busy(address, shape.size, flush, shape.connections, phases)
            }
            Method::Streams(_) => weft::flow(address, &shape, flush, phases),
        },
        || {
            samples.push(server.sample()?);
            Ok(())
        },
    )?;
    let [earlier, later] = &samples[..] else {
        anyhow::bail!("the senders ended before the window did");
    };
    Ok(later.flow_since(earlier)?.bytes_per_second / shape.size as f64)
}

/// Blocking sockets need a thread each; everything else has one.
fn threads(method: Method, connections: usize) -> usize {
    if method == Method::Plain(Wait::Blocking) { connections } else { 1 }
}
