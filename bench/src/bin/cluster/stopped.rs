//! A primary that stands still for longer than its leases last, and then goes on as if nothing had been: nobody may be told by it
//! what is not so any more.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rustix::process::Signal;
use serde_json::{Value, json};
use weft_client::{Client, Durability, LinkPolicy};

use crate::ledger::{Ledger, key};
use crate::load::{self, Faults, Load, connect, keys_by_partition};
use crate::setup::{Cluster, Setup};

/// So few that most are overwritten while the node stands still.
const KEYS_MAX: u32 = 6_400;

/// How long the node stands still: twice as long as any lease lasts, and longer.
const STILL: Duration = Duration::from_secs(5);

/// Who has slept with an old map asks so long before the node goes on: soon enough that all of it is sent to that node, and nobody
/// looks for a newer map before it answers.
const AHEAD: Duration = Duration::from_millis(100);

/// For how long they go on asking.
const AWAKE: Duration = Duration::from_secs(2);

/// Reads that each of them has under way.
const TOGETHER: u64 = 25;

/// Clients that sleep, by shared memory and by TCP.
const SLEEPERS: [LinkPolicy; 4] =
    [LinkPolicy::Auto, LinkPolicy::Auto, LinkPolicy::Tcp, LinkPolicy::Tcp];

/// A client that knows the node as the primary, and does nothing while that stands still.
struct Sleeper {
    client: Client,
    keys: Vec<u32>,
}

/// Stops and continues a node `rounds` times.
pub(crate) fn run(setup: &Setup, rounds: u32) -> Result<Value> {
    let mut cluster = setup.cluster(3, Durability::Memory)?;
    let client = setup.client(&cluster)?;
    let ledger = Ledger::new(setup.keys.min(KEYS_MAX));
    load::fill(&client, &ledger)?;
    let load = Load::new(&client, &ledger, setup.rate);
    let done = thread::scope(|scope| {
        let asking = scope.spawn(|| load.run());
        let done = (0..rounds)
            .map(|round| {
                let report = once(&mut cluster, &client, &ledger, &load, round)?;
                eprintln!("stop {} of {rounds}: {report}", round + 1);
                Ok(report)
            })
            .collect::<Result<Vec<_>>>();
        load.end();
        asking.join().expect("the load does not panic")?;
        done
    });
    let faults = load.take_faults();
    let lost = load::verify(&client, &ledger);
    Ok(json!({
        "rounds": done?,
        "faults": faults.to_json(),
        "at_the_end": lost.to_json(),
    }))
}

fn once(
    cluster: &mut Cluster,
    client: &Client,
    ledger: &Ledger,
    load: &Load<'_>,
    round: u32,
) -> Result<Value> {
    let view = cluster.rest()?;
    let ids = cluster.servers.ids();
    let node = ids[round as usize % ids.len()];
    let affected = view.led_by(node);
    ensure!(!affected.is_empty(), "the node is primary of nothing");
    let mut keys = keys_by_partition(client, ledger);
    keys.retain(|partition, _| affected.contains(partition));
    let keys: Vec<u32> = keys.into_values().flatten().collect();
    let sleepers = SLEEPERS.iter().map(|link| {
        let sleeper =
            Sleeper { client: connect(&cluster.servers.addresses(), *link)?, keys: keys.clone() };
        // Now it has a connection to the node, and a map.
        ensure!(
            sleeper.read(ledger, 0, Duration::ZERO).0.is_none(),
            "a read is not as it should be"
        );
        Ok(sleeper)
    });
    let sleepers = sleepers.collect::<Result<Vec<_>>>()?;
    load.take_answers();
    let acknowledged =
        |keys: &[u32]| -> u64 { keys.iter().map(|key| u64::from(ledger.acknowledged(*key))).sum() };

    cluster.servers.signal(node, Signal::STOP)?;
    let stopped_at = Instant::now();
    thread::sleep(STILL - AHEAD);
    let moved = cluster.control.look().context("no node says how the cluster is")?;
    let elsewhere = moved.primaries.values().filter(|primary| **primary != node).count();
    let before = acknowledged(&keys);
    let found = thread::scope(|scope| {
        let reading: Vec<_> = sleepers
            .iter()
            .zip(0..)
            .map(|(sleeper, seed)| scope.spawn(move || sleeper.read(ledger, seed, AWAKE)))
            .collect();
        thread::sleep(AHEAD);
        cluster.servers.signal(node, Signal::CONT)?;
        let joined = reading.into_iter().map(|one| one.join().expect("a reader does not panic"));
        anyhow::Ok(joined.collect::<Vec<_>>())
    })?;
    let still = stopped_at.elapsed() - AWAKE;
    cluster.whole()?;
    let answers = load.take_answers();
    let writes = answers.iter().filter(|answer| answer.is_write && answer.began >= stopped_at);
    let reads: u64 = found.iter().map(|(_, reads)| reads).sum();
    let faults: Vec<Value> = found.iter().map(|(faults, _)| faults.to_json()).collect();
    let wrong: u64 = found.iter().map(|(faults, _)| faults.wrong()).sum();
    let errors: u64 = found.iter().map(|(faults, _)| faults.errors()).sum();
    Ok(json!({
        "node": node,
        "partitions": affected.len(),
        "still_s": still.as_secs_f64(),
        "partitions_served_elsewhere": elsewhere,
        "of_partitions": moved.primaries.len(),
        "writes_meanwhile": writes.count(),
        "writes_a_key": before as f64 / keys.len() as f64,
        "reads_of_sleepers": reads,
        "wrong_reads_of_sleepers": wrong,
        "errors_of_sleepers": errors,
        "sleepers": faults,
    }))
}

impl Sleeper {
    /// Reads for so long, and each requester at least once. Returns what was wrong, and how many reads there were.
    fn read(&self, ledger: &Ledger, seed: u64, duration: Duration) -> (Faults, u64) {
        let until = Instant::now() + duration;
        let requesters: FuturesUnordered<_> =
            (0..TOGETHER).map(|one| self.request(ledger, seed * TOGETHER + one, until)).collect();
        let found: Vec<_> = self.client.block_on(requesters.collect());
        found.into_iter().fold((Faults::default(), 0), |(faults, count), (more, reads)| {
            (faults.and(more), count + reads)
        })
    }

    async fn request(&self, ledger: &Ledger, seed: u64, until: Instant) -> (Faults, u64) {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut faults, mut reads) = (Faults::default(), 0);
        loop {
            let number = self.keys[random.random_range(0..self.keys.len())];
            let least = ledger.acknowledged(number);
            match self.client.get(key(number)).await {
                Ok(lookup) => {
                    faults.note(number, least, ledger, &lookup);
                }
                Err(error) => faults.fail(&error),
            }
            reads += 1;
            if Instant::now() >= until {
                return (faults, reads);
            }
            // 2 ms between reads leave the processors to others.
            let clock = self.client.endpoint().clock();
            self.client.endpoint().sleep_until(clock.now() + Duration::from_millis(2)).await;
        }
    }
}
