//! `netbench sizes`: the same traffic in messages of every size, by number and by bytes, and where the
//! one size is much slower than the one before.

mod figure;
pub(crate) mod plan;
mod report;

use std::fs::File;
use std::io::Write as _;

use anyhow::Context as _;

use crate::affinity;
use crate::apart::Distances;
use crate::measure;
use crate::mesh::node::NodeMethod;
use crate::mesh::plan::Case;
use crate::mesh::{self, Stage};
use crate::tally::Flow;
use plan::{Pattern, SizesPlan};
use report::Report;

/// What one size has reached in one run.
#[derive(Clone, Copy)]
struct Point {
    weft: Flow,
    raw: Flow,
}

pub(crate) fn measure(plan: &SizesPlan) -> anyhow::Result<String> {
    affinity::pin(plan.placement.client())?;
    // Before all that is measured would be lost.
    let figure = plan.svg.as_ref().map(|path| {
        let file = File::create(path);
        file.with_context(|| format!("failed to write {}", path.display())).map(|file| (path, file))
    });
    let figure = figure.transpose()?;
    let mut runs = Vec::with_capacity(plan.runs);
    let mut distances = Distances::of(plan.placement);
    for _ in 0..plan.runs {
        // All sizes take turns, so that what the machine does meanwhile hits all of them.
        runs.push(distances.still_all(&plan.sizes, |size| point(plan, *size))?);
    }
    let report = Report::new(plan, &runs, &distances);
    if let Some((path, mut file)) = figure {
        file.write_all(figure::svg(&report)?.as_bytes())
            .with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(if plan.json { report.json() } else { report.text() })
}

fn point(plan: &SizesPlan, size: usize) -> anyhow::Result<Point> {
    let one = plan.one_run(size);
    let point = || match plan.pattern {
        Pattern::OneWay => measure::one_way(&one).map(|(weft, raw)| Point { weft, raw }),
        Pattern::Bidirectional | Pattern::AllToAll => {
            let case = Case { nodes: plan.nodes, both_ways: true };
            let stage = Stage { warm_up: plan.warm_up, window: plan.window, cpus: &plan.cpus };
            let flow = |method| mesh::flow(&stage, &one.shape, case, method);
            let raw = flow(NodeMethod::raw(one.shape.links.kind))?.total;
            Ok(Point { weft: flow(NodeMethod::Weft)?.total, raw })
        }
    };
    point().with_context(|| format!("messages of {size} bytes"))
}
