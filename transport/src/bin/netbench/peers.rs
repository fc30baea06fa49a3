//! `netbench peers`: what others' messaging reaches on this machine, in the same run: UCX, libfabric and
//! MPI, as far as they are installed. They are programs that are run, never linked.

mod libfabric;
mod mpi;
pub(crate) mod plan;
mod program;
mod report;
mod ucx;

use crate::affinity;
use crate::args::Benchmark;
use crate::links::LinkKind;
use crate::measure;
use mpi::Mpi;
use plan::PeersPlan;
use program::Missing;
use report::Report;

/// What is measured of everybody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Figure {
    /// Round trips, in microseconds.
    RoundTrip,
    /// Small one-way messages a second.
    Messages,
    /// Bytes a second in large ones.
    Bytes,
}

const FIGURES: [Figure; 3] = [Figure::RoundTrip, Figure::Messages, Figure::Bytes];

/// What one method has reached; a figure that it has no test for is missing.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct Reached {
    round_trip_us: Option<f64>,
    messages_per_second: Option<f64>,
    bytes_per_second: Option<f64>,
}

impl Reached {
    fn figure(&mut self, figure: Figure) -> &mut Option<f64> {
        match figure {
            Figure::RoundTrip => &mut self.round_trip_us,
            Figure::Messages => &mut self.messages_per_second,
            Figure::Bytes => &mut self.bytes_per_second,
        }
    }
}

/// Another messaging library, installed.
enum Peer {
    Ucx(ucx::Ucx),
    Libfabric(libfabric::Libfabric),
    Mpi(Mpi),
}

impl Peer {
    fn name(&self) -> String {
        match self {
            Peer::Ucx(ucx) => ucx.name(),
            Peer::Libfabric(libfabric) => libfabric.name(),
            Peer::Mpi(mpi) => mpi.name(),
        }
    }

    fn measure(&self, plan: &PeersPlan) -> anyhow::Result<Reached> {
        match self {
            Peer::Ucx(ucx) => ucx.measure(plan),
            Peer::Libfabric(libfabric) => libfabric.measure(plan),
            Peer::Mpi(mpi) => mpi.measure(plan),
        }
    }
}

/// The same method over all runs.
struct Series {
    name: String,
    runs: Vec<Reached>,
    /// Why it was given up, if it was.
    failure: Option<String>,
}

pub(crate) fn measure(plan: &PeersPlan) -> anyhow::Result<String> {
    let (peers, missing) = installed(plan.links.kind);
    affinity::pin(plan.placement.client())?;
    let series = |name: String| Series { name, runs: Vec::new(), failure: None };
    let mut ours = [series("weft".to_owned()), series(String::new())];
    let mut theirs: Vec<Series> = peers.iter().map(|peer| series(peer.name())).collect();
    for _ in 0..plan.runs {
        let (weft, raw, raw_method) = weft_and_raw(plan)?;
        ours[0].runs.push(weft);
        ours[1].runs.push(raw);
        ours[1].name = format!("raw {raw_method}");
        for (peer, series) in peers.iter().zip(&mut theirs) {
            if series.failure.is_some() {
                continue;
            }
            // One that does not work here is reported, and the others go on.
            match peer.measure(plan) {
                Ok(reached) => series.runs.push(reached),
                Err(error) => series.failure = Some(format!("{error:#}")),
            }
        }
    }
    let series: Vec<Series> = ours.into_iter().chain(theirs).collect();
    let report = Report { plan, series: &series, missing: &missing };
    Ok(if plan.json { report.json() } else { report.text() })
}

/// Those that are installed, and those that are not.
fn installed(link: LinkKind) -> (Vec<Peer>, Vec<Missing>) {
    let found = [
        ucx::Ucx::find(link).map(Peer::Ucx),
        libfabric::Libfabric::find(link).map(Peer::Libfabric),
        Mpi::find(link).map(Peer::Mpi),
    ];
    let (mut peers, mut missing) = (Vec::new(), Vec::new());
    for peer in found {
        match peer {
            Ok(peer) => peers.push(peer),
            Err(absent) => missing.push(absent),
        }
    }
    (peers, missing)
}

/// Ours and the machine's limit, and what the latter is called.
fn weft_and_raw(plan: &PeersPlan) -> anyhow::Result<(Reached, Reached, &'static str)> {
    let (mut weft, mut raw, mut method) = (Reached::default(), Reached::default(), "");
    for figure in FIGURES {
        let benchmark = match figure {
            Figure::RoundTrip => Benchmark::Latency,
            Figure::Messages => Benchmark::Rate,
            Figure::Bytes => Benchmark::Bandwidth,
        };
        let run = measure::run(&plan.one_run(benchmark))?;
        *weft.figure(figure) = Some(run.weft.headline());
        *raw.figure(figure) = Some(run.raws[0].headline());
        if figure == Figure::RoundTrip {
            method = if plan.links.kind == LinkKind::Shm { "rings" } else { "sockets" };
        }
    }
    Ok((weft, raw, method))
}
