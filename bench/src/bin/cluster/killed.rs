//! Nodes that are killed under load and started again: how long their partitions are not served, what the others feel of it, and how
//! long it takes until all is there again.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use weft_client::Durability;

use crate::control::View;
use crate::ledger::Ledger;
use crate::load::{self, Answer, Load};
use crate::setup::{Cluster, Setup};
use crate::tail::Tail;

/// How long the load is looked at before each kill.
const BEFORE: Duration = Duration::from_secs(3);

/// When after its end a node is started again.
const DEAD: Duration = Duration::from_secs(3);

/// Who is killed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Victim {
    /// One node after the other.
    InTurn,
    /// Whoever leads the coordinators.
    Leader,
}

/// One kill.
struct Kill {
    node: u64,
    led_coordinators: bool,
    affected: BTreeSet<u16>,
    killed_at: Instant,
    restarted_at: Instant,
    whole_at: Instant,
    /// What was answered from the kill until the cluster was whole.
    answers: Vec<Answer>,
}

/// What the partitions of other nodes answered: before a kill, until the node was started again, and while it was given what it lacked.
struct Others {
    before: [Tail; 2],
    dead: [Tail; 2],
    filling: [Tail; 2],
    all_before: Tail,
    all_after: Tail,
}

/// Kills `kills` times.
pub(crate) fn run(setup: &Setup, kills: u32, victim: Victim) -> Result<Value> {
    let mut cluster = setup.cluster(3, Durability::Memory)?;
    let client = setup.client(&cluster)?;
    let ledger = Ledger::new(setup.keys);
    load::fill(&client, &ledger)?;
    let load = Load::new(&client, &ledger, setup.rate);
    let done = thread::scope(|scope| {
        let asking = scope.spawn(|| load.run());
        let done = kill_all(&mut cluster, &load, kills, victim);
        load.end();
        asking.join().expect("the load does not panic")?;
        done
    });
    let (rounds, others) = done?;
    let faults = load.take_faults();
    let lost = load::verify(&client, &ledger);
    Ok(json!({
        "keys": setup.keys,
        "rate": setup.rate,
        "payload_bytes": ledger.bytes(),
        "kills": rounds,
        "others": others,
        "faults": faults.to_json(),
        "at_the_end": lost.to_json(),
    }))
}

fn kill_all(
    cluster: &mut Cluster,
    load: &Load<'_>,
    kills: u32,
    victim: Victim,
) -> Result<(Vec<Value>, Value)> {
    let partitions = cluster.rest()?.primaries.len();
    let mut others = Others::new(load.interval(partitions))?;
    let mut rounds = Vec::new();
    for round in 0..kills {
        let view = cluster.rest()?;
        load.take_answers();
        thread::sleep(BEFORE);
        let before = load.take_answers();
        let kill = Kill::do_it(cluster, load, victim.choose(&view, round)?)?;
        others.add(&kill, &before);
        let report = kill.report()?;
        eprintln!("kill {} of {kills}: {report}", round + 1);
        rounds.push(report);
    }
    Ok((rounds, others.to_json()))
}

impl Victim {
    fn choose(self, view: &View, round: u32) -> Result<u64> {
        match self {
            Self::InTurn => {
                let ids: Vec<_> = view.led.keys().copied().collect();
                Ok(ids[round as usize % ids.len()])
            }
            Self::Leader => view.leader.context("nobody leads the coordinators"),
        }
    }
}

impl Kill {
    fn do_it(cluster: &mut Cluster, load: &Load<'_>, node: u64) -> Result<Self> {
        let view = cluster.control.look().context("no node says how the cluster is")?;
        let affected: BTreeSet<u16> = view.led_by(node).into_iter().collect();
        let killed_at = Instant::now();
        cluster.servers.kill(node)?;
        thread::sleep(DEAD.saturating_sub(killed_at.elapsed()));
        let restarted_at = Instant::now();
        cluster.servers.start_node(node)?;
        cluster.whole()?;
        let whole_at = Instant::now();
        let led_coordinators = view.leader == Some(node);
        let answers = load.take_answers();
        Ok(Self { node, led_coordinators, affected, killed_at, restarted_at, whole_at, answers })
    }

    fn report(&self) -> Result<Value> {
        let unserved = |is_write| self.unserved(is_write);
        let [reads, writes] = [unserved(false)?, unserved(true)?];
        let others = |is_write| {
            let is_other = |answer: &&Answer| {
                answer.is_write == is_write && !self.affected.contains(&answer.partition)
            };
            let took = |answer: &Answer| answer.ended.duration_since(answer.began);
            let longest = self.answers.iter().filter(is_other).map(took).max();
            longest.unwrap_or_default().as_secs_f64() * 1e3
        };
        Ok(json!({
            "node": self.node,
            "led_coordinators": self.led_coordinators,
            "partitions": self.affected.len(),
            "unavailable_ms": reads.max(writes),
            "unavailable_reads_ms": reads,
            "unavailable_writes_ms": writes,
            "others_longest_read_ms": others(false),
            "others_longest_write_ms": others(true),
            "whole_after_s": self.whole_at.duration_since(self.restarted_at).as_secs_f64(),
        }))
    }

    /// Of the partitions that the node was primary of, the longest time from the kill to the first answer to a request that began after it,
    /// in milliseconds.
    fn unserved(&self, is_write: bool) -> Result<f64> {
        let mut first = BTreeMap::<u16, Instant>::new();
        let of_kind = self.answers.iter().filter(|answer| answer.is_write == is_write);
        for answer in of_kind.filter(|answer| answer.began >= self.killed_at) {
            let first = first.entry(answer.partition).or_insert(answer.ended);
            *first = answer.ended.min(*first);
        }
        let served = self.affected.iter().map(|partition| first.get(partition));
        let served: Option<Vec<_>> = served.collect();
        let served = served.context("a partition was not served again")?;
        let longest = served.into_iter().max().context("the node was primary of nothing")?;
        Ok(longest.duration_since(self.killed_at).as_secs_f64() * 1e3)
    }
}

impl Others {
    fn new(interval: Duration) -> Result<Self> {
        let tail = || Tail::new(interval);
        Ok(Self {
            before: [tail()?, tail()?],
            dead: [tail()?, tail()?],
            filling: [tail()?, tail()?],
            all_before: tail()?,
            all_after: tail()?,
        })
    }

    fn add(&mut self, kill: &Kill, before: &[Answer]) {
        let is_other = |answer: &&Answer| !kill.affected.contains(&answer.partition);
        self.all_before.add(before.iter().filter(is_other));
        self.all_after.add(kill.answers.iter().filter(is_other));
        for is_write in [false, true] {
            let of_kind = |answer: &&Answer| answer.is_write == is_write && is_other(answer);
            let index = usize::from(is_write);
            self.before[index].add(before.iter().filter(of_kind));
            let after = || kill.answers.iter().filter(of_kind);
            self.dead[index].add(after().filter(|answer| answer.began < kill.restarted_at));
            self.filling[index].add(after().filter(|answer| answer.began >= kill.restarted_at));
        }
    }

    fn to_json(&self) -> Value {
        let kinds =
            |tails: &[Tail; 2]| json!({"reads": tails[0].to_json(), "writes": tails[1].to_json()});
        json!({
            "before": kinds(&self.before),
            "while_dead": kinds(&self.dead),
            "while_filled": kinds(&self.filling),
            "p99_us_before": self.all_before.p99_us(),
            "p99_us_after": self.all_after.p99_us(),
            "paced_p99_us_before": self.all_before.paced_p99_us(),
            "paced_p99_us_after": self.all_after.paced_p99_us(),
        })
    }
}
