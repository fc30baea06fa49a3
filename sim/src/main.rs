//! `weft-sim`: runs simulated clusters, seed by seed, until one is not as it should be.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a program talks to its user")]

use std::io::Write;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use weft_sim::history::Counts;
use weft_sim::scenario::{Run, Scenario};

/// Run simulated clusters: production nodes and clients in virtual time, with faults drawn from a
/// seed, and check that what the clients were told is linearizable.
#[derive(Parser)]
#[command(name = "weft-sim", version)]
#[command(after_help = "Exit codes: 0 all seeds are well, 1 one is not, 2 wrong usage.")]
struct Args {
    /// The first seed: the same seed is the same run, event by event
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = seed)]
    seed: u64,
    /// How many seeds to run, counting up from the first
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    #[arg(value_parser = seeds)]
    seeds: u64,
    /// What to simulate
    #[arg(long, value_name = "NAME", default_value = Scenario::Store.name())]
    #[arg(value_parser = PossibleValuesParser::new(Scenario::ALL.map(Scenario::name)))]
    scenario: String,
    /// Print each run's history
    #[arg(long)]
    history: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let Some(last) = args.seed.checked_add(args.seeds - 1) else {
        let what = format!("there are no {} seeds from {} on", args.seeds, args.seed);
        let advice = format!("the last seed is {}; begin with a smaller one", u64::MAX);
        Args::command().error(ErrorKind::ValueValidation, format!("{what}: {advice}")).exit()
    };
    let scenario = Scenario::ALL
        .into_iter()
        .find(|scenario| scenario.name() == args.scenario)
        .expect("the parser takes no other name");
    name_the_seed_of_a_panic(scenario);
    match run_all(scenario, args.seed..=last, &args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // A closed stderr leaves nobody to tell, and the exit code still says it.
            let _ = writeln!(std::io::stderr(), "weft-sim: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("give a whole number from 0 to {}", u64::MAX))
}

fn seeds(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|&count| count > 0);
    count.ok_or_else(|| format!("give a whole number from 1 to {}", u64::MAX))
}

/// Returns whether all seeds are well; the first that is not ends it.
fn run_all(scenario: Scenario, seeds: RangeInclusive<u64>, args: &Args) -> anyhow::Result<bool> {
    let mut out = std::io::stdout().lock();
    let mut total = Total::default();
    for seed in seeds {
        SEED.store(seed, Ordering::Relaxed);
        let run = scenario.run(seed);
        if args.history {
            for operation in run.history.operations() {
                writeln!(out, "{operation}").context("failed to print")?;
            }
        }
        if run.outcome.is_err() {
            writeln!(out, "{run}").context("failed to print")?;
            return Ok(false);
        }
        if args.seeds == 1 {
            writeln!(out, "{run}").context("failed to print")?;
        }
        total.add(&run);
    }
    total.print(&mut out, args)?;
    Ok(true)
}

#[derive(Default)]
struct Total {
    counts: Counts,
    virtual_seconds: f64,
    connections_lost: u64,
    pauses: u64,
    nodes_gone: u64,
}

impl Total {
    fn add(&mut self, run: &Run) {
        let counts = run.history.counts();
        self.counts.completed += counts.completed;
        self.counts.not_applied += counts.not_applied;
        self.counts.unknown += counts.unknown;
        self.virtual_seconds += run.summary.virtual_time.as_secs_f64();
        self.connections_lost += run.summary.connections_lost;
        self.pauses += run.summary.pauses;
        self.nodes_gone += run.summary.nodes_gone;
    }

    fn print(&self, out: &mut impl Write, args: &Args) -> std::io::Result<()> {
        let Counts { completed, not_applied, unknown } = self.counts;
        let Total { virtual_seconds, connections_lost, pauses, nodes_gone, .. } = self;
        writeln!(out, "{} seeds from {}: linearizable", args.seeds, args.seed)?;
        writeln!(out, "{completed} operations told, {not_applied} not applied, {unknown} unknown")?;
        write!(out, "{virtual_seconds:.1} virtual seconds, {connections_lost} connections lost, ")?;
        writeln!(out, "{pauses} pauses, {nodes_gone} nodes gone")
    }
}

/// The seed that runs.
static SEED: AtomicU64 = AtomicU64::new(0);

/// A panic of production code is a finding like any other, so it has to name its seed.
fn name_the_seed_of_a_panic(scenario: Scenario) {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        let seed = SEED.load(Ordering::Relaxed);
        // Nobody to tell, and the process ends anyway.
        let _ = writeln!(std::io::stderr(), "seed {seed}; replay: {}", scenario.replay(seed));
    }));
}
