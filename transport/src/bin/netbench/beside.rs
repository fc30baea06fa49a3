//! `netbench beside`: what large replies, and a streamed body, do to small calls over the same connection.

pub(crate) mod plan;

use serde_json::{Value, json};

use crate::apart::Distances;
use crate::phases;
use crate::quantiles::Quantiles;
use crate::report::{micros, rounded};
use crate::serve::Service;
use crate::server_process::ServerProcess;
use crate::table::{median, table};
use crate::weft::beside::{self, Large};
use crate::weft::{self, Clients};
use plan::BesidePlan;

/// What small calls are measured beside; the first is what the others are compared with.
const CASES: [(&str, Option<Large>); 3] = [
    ("nothing", None),
    ("large replies", Some(Large::Replies)),
    ("a streamed body", Some(Large::Body)),
];

const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// One case in one run.
struct Outcome {
    /// Of the small calls, in microseconds.
    quantiles: [f64; 3],
    /// How often so many bytes were taken, a second.
    taken: f64,
}

/// The medians of one case.
struct Case {
    name: &'static str,
    quantiles: [f64; 3],
    taken: f64,
    /// Its last quantile to that of the first case.
    to_alone: f64,
    each_run: Vec<f64>,
}

pub(crate) fn measure(plan: &BesidePlan) -> anyhow::Result<String> {
    let mut series: Vec<Vec<Outcome>> = CASES.map(|_| Vec::new()).into();
    let mut distances = Distances::of(plan.processors);
    for _ in 0..plan.runs {
        let outcomes: Vec<Outcome> = distances.still(|| {
            // One connection for all cases of a run, as it is one that users have.
            let server = ServerProcess::start(&plan.one_run(), Service::WeftBeside)?;
            let clients = Clients::connect(server.address()?, &plan.shape)?;
            CASES.iter().map(|(_, large)| one(plan, &clients, *large)).collect()
        })?;
        series.iter_mut().zip(outcomes).for_each(|(series, outcome)| series.push(outcome));
    }
    let medians = |outcomes: &[Outcome]| {
        [0, 1, 2].map(|index| median(outcomes.iter().map(|outcome| outcome.quantiles[index])))
    };
    let [.., alone] = medians(&series[0]);
    let cases: Vec<Case> = CASES
        .iter()
        .zip(&series)
        .map(|((name, _), outcomes)| {
            let quantiles = medians(outcomes);
            Case {
                name,
                quantiles,
                taken: median(outcomes.iter().map(|outcome| outcome.taken)),
                to_alone: quantiles[2] / alone,
                each_run: outcomes.iter().map(|outcome| outcome.quantiles[2]).collect(),
            }
        })
        .collect();
    Ok(if plan.json { json(plan, &cases, &distances) } else { text(plan, &cases, &distances) })
}

/// Small calls of one thread, and another that takes large ones meanwhile.
fn one(plan: &BesidePlan, clients: &Clients, large: Option<Large>) -> anyhow::Result<Outcome> {
    enum Worked {
        Calls(hdrhistogram::Histogram<u64>),
        Taken(u64),
    }
    let threads = 1 + usize::from(large.is_some());
    let worker = |thread: usize, phases: &std::sync::Arc<phases::Phases>| match large {
        Some(large) if thread > 0 => {
            beside::take(clients, large, plan.large_size, plan.interval, phases).map(Worked::Taken)
        }
        _ => weft::calls::measure(clients, plan.shape.size, &plan.shape.lanes_of(0), phases)
            .map(Worked::Calls),
    };
    let worked = phases::run(threads, plan.warm_up, plan.window, worker, || Ok(()))?;
    let (mut calls, mut taken) = (Vec::new(), 0.0);
    for worked in worked {
        match worked {
            Worked::Calls(histogram) => calls.push(histogram),
            Worked::Taken(times) => taken = times as f64 / plan.window.as_secs_f64(),
        }
    }
    let quantiles = Quantiles::of(&calls)?;
    Ok(Outcome { quantiles: QUANTILES.map(|quantile| quantiles.micros(quantile)), taken })
}

fn text(plan: &BesidePlan, cases: &[Case], distances: &Distances) -> String {
    let mut text = format!(
        "beside over {}: {} B calls, poll {}, beside {} B every {} ms over the same connection; unpinned; median of \
         {} runs of {} s",
        plan.shape.links.kind.name(),
        plan.shape.size,
        plan.shape.poll,
        plan.large_size,
        plan.interval.as_millis(),
        plan.runs,
        plan.window.as_secs_f64(),
    );
    let row = |case: &Case| {
        let mut row = vec![case.name.to_owned()];
        row.extend(case.quantiles.map(micros));
        row.extend([format!("{:.1}", case.taken), format!("{:.2}", case.to_alone)]);
        row
    };
    let rows: Vec<_> = cases.iter().map(row).collect();
    text += &table(&["beside", "p50 us", "p99 us", "p99.9 us", "large/s", "p99.9 to alone"], &rows);
    distances.add_line(&mut text);
    text
}

fn json(plan: &BesidePlan, cases: &[Case], distances: &Distances) -> String {
    let cases: Vec<Value> = cases
        .iter()
        .map(|case| {
            let [p50, p99, p999] = case.quantiles.map(rounded);
            let each_run: Vec<Value> = case.each_run.iter().copied().map(rounded).collect();
            json!({
                "beside": case.name,
                "p50_us": p50,
                "p99_us": p99,
                "p999_us": p999,
                "large_per_second": rounded(case.taken),
                "p999_to_alone": rounded(case.to_alone),
                "each_run_p999_us": each_run,
            })
        })
        .collect();
    json!({
        "benchmark": "beside",
        "link": plan.shape.links.kind.name(),
        "size": plan.shape.size,
        "large_size": plan.large_size,
        "interval_ms": rounded(plan.interval.as_secs_f64() * 1e3),
        "poll": plan.shape.poll.to_string(),
        "seconds": plan.window.as_secs_f64(),
        "runs": plan.runs,
        "apart": distances.json(),
        "cases": cases,
    })
    .to_string()
}
