//! What a worker does.

use anyhow::Context as _;
use serde::Serialize;
use weft_object::Pair;
use weft_shuffle::job::components::{both_ways, components};
use weft_shuffle::job::graph::Graph;
use weft_shuffle::job::top::Top;
use weft_shuffle::{Dataset as _, EdgeList, Share, Worker, WorkerId, records};

use super::{Component, Components, Connected, LEARNING, LOADING};
use crate::event::{Event, Outcome, tell};
use crate::usage::Usage;
use crate::work::while_telling;

/// A vertex as a line of JSON.
#[derive(Serialize)]
struct MemberLine {
    vertex: u64,
    component: u64,
}

/// A worker's part of the job.
pub(super) fn run(job: &Components, worker: &Worker, report: bool) -> anyhow::Result<()> {
    let began = worker.clock().now();
    let list = EdgeList::open(&job.input)?.skip_malformed(job.skip_bad);
    let share = Share::new(worker.id().0, worker.workers()).context("a share of the input")?;
    let mut out = job.output().map(|output| output.create(worker.id())).transpose()?;
    let graph = while_telling(report, LOADING, |read| {
        Graph::spread(worker, both_ways(list.records(share, read)))
    })?;
    let lines_skipped = list.skipped_in_all(worker)?;
    let load_seconds = worker.clock().now().since(began).as_secs_f64();
    let (mut first_round, mut rounds) = (None, 0);
    let tells = worker.id() == WorkerId(0) && report;
    let members = components(worker, &graph, |round| {
        first_round.get_or_insert(round);
        rounds = round + 1;
        if tells {
            // Without anybody to tell, the end of standard input ends this process.
            let _ = tell(&Event::Progress { phase: LEARNING, done: rounds as u64 });
        }
    })?;
    if let Some(out) = &mut out {
        for member in &members {
            let (vertex, component) = (member.vertex, member.component);
            let line = format_args!("{vertex}\t{component}");
            out.write(|out| job.format.write(out, line, &MemberLine { vertex, component }))?;
        }
    }
    out.map_or(Ok(()), |out| out.finish())?;
    job.output.iter().for_each(|folder| worker.has_written(folder));

    let (mut found, mut top) = (0, Top::new(job.top));
    records(members)
        .map(|member| Pair { key: member.component, value: 1 })
        .reduce_by_key(|one: u64, other| one + other)
        .run(worker, |size| {
            found += 1;
            top.see(&size);
            Ok(())
        })?;
    let found = worker.gather(found)?.iter().sum();
    let tops = records(top.into_vec()).collect(worker)?;
    let usage = Usage::gather(worker, began)?;
    if worker.id() == WorkerId(0) {
        let mut top = Top::new(job.top);
        tops.iter().for_each(|size| top.see(size));
        let top = top.into_vec().into_iter();
        tell(&Event::Done(Outcome::Components(Connected {
            vertices: graph.vertices(),
            components: found,
            lines_skipped,
            load_seconds,
            first_round: first_round.unwrap_or(0),
            rounds,
            usage,
            top: top.map(|size| Component { component: size.key, vertices: size.value }).collect(),
        })))?;
    }
    // Nobody leaves before the result is safe: until then, an end is a failure.
    worker.gather(0_u64)?;
    Ok(())
}
