//! One run of whole clusters, from a seed to a judgement.

use weft_transport::Time;

use super::nodes::Cluster;
use super::tables::is_brief;
use super::{Play, met};
use crate::ledger::Ledger;
use crate::nemesis::Kind;
use crate::planted::Planted;
use crate::scenario::{Caps, Run, Scenario, Summary, judge, judge_what_was_told, play_on};

/// Runs the scenario with everything drawn from `seed`, but no more of it than `caps` say.
pub fn run(seed: u64, caps: &Caps) -> Run {
    run_with(seed, caps, None)
}

/// The same on nodes with a bug, if one is given.
pub fn run_with(seed: u64, caps: &Caps, planted: Option<Planted>) -> Run {
    run_drawn(Play::draw(seed, caps), Scenario::Cluster, seed, caps, planted)
}

/// The same with an operator, who stops nodes in good order, and has some keep nothing on disk.
pub fn run_operated(seed: u64, caps: &Caps, planted: Option<Planted>) -> Run {
    run_drawn(Play::draw_with(seed, caps, true), Scenario::Operated, seed, caps, planted)
}

fn run_drawn(
    mut play: Play,
    scenario: Scenario,
    seed: u64,
    caps: &Caps,
    planted: Option<Planted>,
) -> Run {
    let drawn = play.options.to_string();
    let mut cluster = Cluster::new(seed, &play.options, planted);
    let outcome = play_on(|| play.run(&mut cluster));
    // What was lost as it may be is nobody's fault.
    let history = cluster.recorder.history().without(&cluster.lost);
    let ledger = Ledger::of(&history, |key| outcome.is_ok() && !is_brief(key));
    let outcome = outcome.and_then(|()| match cluster.lost.is_empty() {
        true => judge(&history, &ledger),
        // Of a partition that is lost before anything was in it nobody is told anything.
        false => judge_what_was_told(&history, &ledger),
    });
    let counters = play.world.network().counters();
    let deaths =
        [Kind::CrashProcess, Kind::CrashMachine, Kind::Replace, Kind::PowerCut, Kind::DiskFails];
    let summary = Summary {
        virtual_time: play.world.clock().now().since(Time::ZERO),
        connections_lost: counters.lost,
        unheard: counters.sends_held + counters.connects_held,
        delayed: play.world.delayed(),
        nodes_gone: deaths.map(|kind| play.faults.of(kind).injected).iter().sum(),
        steps: play.world.steps(),
    };
    let sometimes = met::sometimes(&history, &ledger, &summary, &play, &cluster);
    let caps = caps.clone();
    let (sizes, faults) = (play.sizes, play.faults);
    Run {
        scenario,
        seed,
        planted,
        drawn,
        history,
        summary,
        caps,
        sizes,
        faults,
        sometimes,
        ledger,
        outcome,
    }
}
