//! `weft-sim`: runs simulated clusters, seed by seed, until one is not as it should be.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a program talks to its user, and measures itself")]

#[path = "main/total.rs"]
mod total;

use std::io::Write;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use weft_sim::planted::Planted;
use weft_sim::scenario::{Caps, Run, Scenario};
use weft_sim::shrink::shrink;

use total::Total;

/// Run simulated clusters: production nodes and clients in virtual time, with faults drawn from a
/// seed, and check that what the clients were told is linearizable, and that no change is lost, there twice or
/// there for no reason.
#[derive(Parser)]
#[command(name = "weft-sim", version)]
#[command(after_help = "Exit codes: 0 all seeds are well, 1 one is not, 2 wrong usage.")]
struct Args {
    /// The first seed: the same seed is the same run, event by event
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = seed)]
    seed: u64,
    /// How many seeds to run, counting up from the first; many have to meet all that the scenario is there to meet
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    #[arg(value_parser = count)]
    seeds: u64,
    /// How many seeds to run at once
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    #[arg(value_parser = count)]
    jobs: u64,
    /// What to simulate
    #[arg(long, value_name = "NAME", default_value = Scenario::Store.name())]
    #[arg(value_parser = PossibleValuesParser::new(Scenario::ALL.map(Scenario::name)))]
    scenario: String,
    /// Print each run's history
    #[arg(long)]
    history: bool,
    /// Look for a smaller run that fails in the same way
    #[arg(long)]
    shrink: bool,
    /// Put this bug into the nodes, to see that it is found: `replica:SkipFence` and others
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", value_parser = planted)]
    planted: Option<Planted>,
    #[command(flatten)]
    smaller: Smaller,
}

impl Args {
    #[cfg(feature = "planted-bugs")]
    fn planted(&self) -> Option<Planted> {
        self.planted
    }

    #[cfg(not(feature = "planted-bugs"))]
    #[expect(clippy::unused_self, reason = "with the feature there is something to look at")]
    fn planted(&self) -> Option<Planted> {
        None
    }
}

#[cfg(feature = "planted-bugs")]
fn planted(name: &str) -> Result<Planted, String> {
    let names = || Planted::ALL.iter().map(|planted| planted.name()).collect::<Vec<_>>();
    Planted::named(name).ok_or_else(|| format!("give one of {}", names().join(", ")))
}

/// The most of everything that a run has: what was drawn is less or gets no more
#[derive(clap::Args)]
#[command(next_help_heading = "Smaller runs")]
struct Smaller {
    /// No more clients than this
    #[arg(long, value_name = "COUNT")]
    clients: Option<u32>,
    /// No more tasks of each client than this
    #[arg(long, value_name = "COUNT")]
    requesters: Option<u32>,
    /// No more operations of each task than this
    #[arg(long, value_name = "COUNT")]
    operations: Option<u32>,
    /// No more keys of each kind than this
    #[arg(long, value_name = "COUNT")]
    keys: Option<u32>,
    /// No more tables besides `default` than this; clusters only
    #[arg(long, value_name = "COUNT")]
    tables: Option<u32>,
    /// The first faults only
    #[arg(long, value_name = "COUNT")]
    faults: Option<u32>,
    /// Leave out these faults, by their places from 0
    #[arg(long, value_name = "PLACES", value_delimiter = ',')]
    without_faults: Vec<usize>,
}

impl Smaller {
    fn caps(&self) -> Caps {
        let Smaller { clients, requesters, operations, keys, tables, faults, .. } = *self;
        let without = self.without_faults.clone();
        Caps { clients, requesters, operations, keys, tables, faults, without }
    }
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
    if args.planted().is_some() && scenario == Scenario::Store {
        let what = "bugs are planted in nodes of whole clusters: say `--scenario cluster`";
        Args::command().error(ErrorKind::ArgumentConflict, what).exit()
    }
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

fn count(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|&count| count > 0);
    count.ok_or_else(|| format!("give a whole number from 1 to {}", u64::MAX))
}

/// Returns whether all seeds are well; the first that is not ends it.
fn run_all(scenario: Scenario, seeds: RangeInclusive<u64>, args: &Args) -> anyhow::Result<bool> {
    let began = Instant::now();
    let caps = args.smaller.caps();
    let (total, failed) = if args.jobs == 1 {
        run_some(scenario, &caps, args, seeds)?
    } else {
        run_on_threads(scenario, &caps, args, seeds)?
    };
    let mut out = std::io::stdout().lock();
    if let Some(Failed { seed, reason }) = failed {
        // Once more, since a history does not leave its thread.
        let mut run = run_one(scenario, seed, &caps, args);
        if run.outcome.is_ok() {
            writeln!(out, "seed {seed} failed, and is well when it is run once more: what failed is this machine, or runs of a seed differ.\nIt failed with: {reason}\n").context("failed to print")?;
        } else if args.shrink {
            writeln!(out, "{run}\n\nlooking for a smaller run").context("failed to print")?;
            run = shrink(run, SHRINKING_RUNS_MAX, |caps| run_one(scenario, seed, caps, args));
        }
        writeln!(out, "{run}").context("failed to print")?;
        return Ok(false);
    }
    let missing = total.missing(scenario, args.seeds);
    total.print(&mut out, args.seeds, args.seed, began.elapsed()).context("failed to print")?;
    if let [first, ..] = missing[..] {
        let count = missing.len();
        writeln!(out, "{count} situations never came about in so many seeds, such as: {first}")
            .context("failed to print")?;
    }
    Ok(missing.is_empty())
}

/// The first seed that is not well.
struct Failed {
    seed: u64,
    /// What is wrong with it.
    reason: String,
}

/// Runs seeds one by one, up to the first that is not well, which is returned.
fn run_some(
    scenario: Scenario,
    caps: &Caps,
    args: &Args,
    seeds: impl Iterator<Item = u64>,
) -> anyhow::Result<(Total, Option<Failed>)> {
    let mut total = Total::default();
    for seed in seeds {
        let run = run_one(scenario, seed, caps, args);
        if args.history {
            let mut out = std::io::stdout().lock();
            for operation in run.history.operations() {
                writeln!(out, "{operation}").context("failed to print")?;
            }
        }
        if let Err(failure) = &run.outcome {
            return Ok((total, Some(Failed { seed, reason: failure.to_string() })));
        }
        if args.seeds == 1 {
            writeln!(std::io::stdout(), "{run}").context("failed to print")?;
        }
        total.add(&run);
    }
    Ok((total, None))
}

/// The same on several threads, each of which takes the next seed. The lowest seed that is not well is
/// returned, whichever thread is first.
fn run_on_threads(
    scenario: Scenario,
    caps: &Caps,
    args: &Args,
    seeds: RangeInclusive<u64>,
) -> anyhow::Result<(Total, Option<Failed>)> {
    let seeds = Mutex::new(seeds);
    let lowest_failed = AtomicU64::new(u64::MAX);
    let next = || {
        let seed = seeds.lock().expect("no thread panics while it takes a seed").next()?;
        (seed < lowest_failed.load(Ordering::SeqCst)).then_some(seed)
    };
    let work = || {
        let (total, failed) = run_some(scenario, caps, args, std::iter::from_fn(next))?;
        if let Some(failed) = &failed {
            lowest_failed.fetch_min(failed.seed, Ordering::SeqCst);
        }
        anyhow::Ok((total, failed))
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.jobs).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a run tells of its panics"))
            .collect()
    });
    let (mut total, mut lowest) = (Total::default(), None);
    for result in results {
        let (of_thread, failed) = result?;
        total.merge(&of_thread);
        lowest = [lowest, failed].into_iter().flatten().min_by_key(|failed: &Failed| failed.seed);
    }
    Ok((total, lowest))
}

fn run_one(scenario: Scenario, seed: u64, caps: &Caps, args: &Args) -> Run {
    scenario.run(seed, caps, args.planted())
}

/// Runs of a search for a smaller one: some seconds to a minute.
const SHRINKING_RUNS_MAX: u32 = 400;
