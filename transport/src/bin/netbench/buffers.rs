//! `netbench buffers`: both levels of sending and receiving beside the raw link, as Javia was measured
//! beside its network: round trips and bandwidth by size, and the size from which on buffers that are
//! registered beat copies.

pub(crate) mod levels;
pub(crate) mod plan;
mod report;
pub(crate) mod sides;

use crate::affinity;
use crate::apart::Distances;
use crate::args::Plan;
use crate::links::LinkKind;
use crate::phases;
use crate::quantiles::Quantiles;
use crate::raw::{self, ping_pong::Wait};
use crate::serve::Service;
use crate::server_process::ServerProcess;
use weft_transport::PollPolicy;

use levels::Level;
use plan::BuffersPlan;
use report::Report;

/// Who carries the messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    /// Plain sockets, or over shared memory bare rings.
    Raw,
    Weft(Level),
}

const METHODS: [Method; 4] = [
    Method::Raw,
    Method::Weft(Level::Copying),
    Method::Weft(Level::Posted),
    Method::Weft(Level::Anew),
];

impl Method {
    fn name(self) -> &'static str {
        match self {
            Method::Raw => "raw",
            Method::Weft(level) => level.name(),
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    /// Median, one message at a time.
    RoundTripMicros,
    /// By the receiver's count.
    BytesPerSecond,
}

/// One size of one figure: of each method, what each run gave.
struct Line {
    figure: Figure,
    size: usize,
    series: Vec<Vec<f64>>,
}

pub(crate) fn measure(plan: &BuffersPlan) -> anyhow::Result<String> {
    affinity::pin(plan.placement.client())?;
    let mut lines = Vec::new();
    let mut distances = Distances::of(plan.placement);
    for figure in [Figure::RoundTripMicros, Figure::BytesPerSecond] {
        for size in &plan.sizes {
            let mut series = vec![Vec::new(); METHODS.len()];
            // The methods take turns, so that what the machine does meanwhile hits all of them.
            for _ in 0..plan.runs {
                let one = plan.one_run(*size);
                let figures = distances.still_all(&METHODS, |method| match figure {
                    Figure::RoundTripMicros => round_trip_us(&one, *method),
                    Figure::BytesPerSecond => bytes_per_second(&one, *method),
                })?;
                series.iter_mut().zip(figures).for_each(|(series, figure)| series.push(figure));
            }
            lines.push(Line { figure, size: *size, series });
        }
    }
    let report = Report::new(plan, &lines, &distances);
    Ok(if plan.json { report.json() } else { report.text() })
}

fn round_trip_us(plan: &Plan, method: Method) -> anyhow::Result<f64> {
    let is_ring = plan.shape.links.kind == LinkKind::Shm;
    let wait = match plan.shape.poll {
        PollPolicy::Busy => Wait::Busy,
        PollPolicy::Adaptive | PollPolicy::Park => Wait::Blocking,
    };
    let service = match method {
        Method::Raw if is_ring => Service::RawRingEcho,
        Method::Raw if wait == Wait::Busy => Service::RawBusy,
        Method::Raw => Service::RawBlocking,
        Method::Weft(level) => level.echo(),
    };
    let server = ServerProcess::start(plan, service)?;
    let (size, lanes) = (plan.shape.size, plan.shape.lanes_of(0));
    let histograms = phases::run(
        1,
        plan.warm_up,
        plan.window,
        |_, phases| match method {
            Method::Raw if is_ring => raw::ring::measure(server.memory(), size, 1, &lanes, phases),
            Method::Raw => raw::ping_pong::measure(server.address()?, size, &lanes, wait, phases),
            Method::Weft(level) => sides::ping(server.address()?, plan, level, phases),
        },
        || Ok(()),
    )?;
    Ok(Quantiles::of(&histograms)?.micros(0.5))
}

fn bytes_per_second(plan: &Plan, method: Method) -> anyhow::Result<f64> {
    let is_ring = plan.shape.links.kind == LinkKind::Shm;
    let service = match method {
        Method::Raw if is_ring => Service::RawRingMessages,
        Method::Raw => Service::RawMessages,
        Method::Weft(level) => level.sink(),
    };
    let mut server = ServerProcess::start(plan, service)?;
    let (size, lanes) = (plan.shape.size, plan.shape.lanes_of(0));
    let (memory, mut samples) = (server.memory().to_owned(), Vec::with_capacity(2));
    phases::run(
        1,
        plan.warm_up,
        plan.window,
        |_, phases| match method {
            Method::Raw if is_ring => raw::ring::send_messages(&memory, size, 1, &lanes, phases),
            Method::Raw => {
                raw::stream::send_messages(memory.parse()?, size, raw::SEGMENT_BYTES, 1, phases)
            }
            Method::Weft(level) => sides::flow(memory.parse()?, plan, level, phases),
        },
        || {
            samples.push(server.sample()?);
            Ok(())
        },
    )?;
    let [earlier, later] = &samples[..] else {
        anyhow::bail!("the sender ended before the window did");
    };
    Ok(later.flow_since(earlier)?.bytes_per_second)
}
