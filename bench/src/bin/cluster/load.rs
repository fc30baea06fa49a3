//! A constant load: for each partition somebody who reads and somebody who writes, each at its pace, so that a partition that
//! does not answer holds up nobody but those who ask it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use weft_client::{Client, ClientConfig, ClientError, LinkPolicy, Lookup, Slot};

use crate::ledger::{Finding, Ledger, key, value};

/// Objects of one multi-operation.
const TOGETHER: usize = 5_000;

/// How long nodes that have just been started may take to tell a client who holds what.
const CONNECT_PATIENCE: Duration = Duration::from_secs(120);
const CONNECT_PAUSE: Duration = Duration::from_millis(20);

/// Errors that are quoted.
const EXAMPLES: usize = 3;

/// A request that was answered as it should be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) partition: u16,
    pub(crate) is_write: bool,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
}

/// What should not have been.
#[derive(Default)]
pub(crate) struct Faults {
    errors: u64,
    stale: u64,
    absent: u64,
    garbled: u64,
    examples: Vec<String>,
}

/// What is asked, and what came of it so far.
pub(crate) struct Load<'a> {
    client: &'a Client,
    ledger: &'a Ledger,
    /// Requests a second, half of them writes.
    rate: u32,
    answers: Mutex<Vec<Answer>>,
    faults: Mutex<Faults>,
    is_over: AtomicBool,
}

/// What each requester needs to know.
struct Requester<'k> {
    partition: u16,
    keys: &'k [u32],
    is_write: bool,
    interval: Duration,
}

/// A client with the default retry, as soon as a node answers.
pub(crate) fn connect(addresses: &[String], link: LinkPolicy) -> Result<Client> {
    let until = Instant::now() + CONNECT_PATIENCE;
    loop {
        let config = ClientConfig { link, ..ClientConfig::new(addresses.to_vec()) };
        match Client::connect_blocking(config) {
            Ok(client) => return Ok(client),
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_) => thread::sleep(CONNECT_PAUSE),
        }
    }
}

/// The keys of each partition of the table `default`, by the client's map.
pub(crate) fn keys_by_partition(client: &Client, ledger: &Ledger) -> BTreeMap<u16, Vec<u32>> {
    let map = client.map();
    let mut keys = BTreeMap::<u16, Vec<u32>>::new();
    for number in 0..ledger.keys() {
        let index = map.partition_of(map.default_class(), Slot::of(&key(number)));
        if let Some(partition) = index.and_then(|index| map.partitions().get(index)) {
            keys.entry(partition.id.0).or_default().push(number);
        }
    }
    keys
}

/// Writes every key once.
pub(crate) fn fill(client: &Client, ledger: &Ledger) -> Result<()> {
    let numbers: Vec<u32> = (0..ledger.keys()).collect();
    for some in numbers.chunks(TOGETHER) {
        let pairs: Vec<(u32, u32)> =
            some.iter().filter_map(|&number| Some((number, ledger.begin_write(number)?))).collect();
        let asked: Vec<_> =
            pairs.iter().map(|(number, write)| (key(*number), value(*number, *write))).collect();
        let mut written = client.multi_put(&asked);
        while let Some(outcome) = client.block_on(written.next()) {
            let (index, _) = outcome.map_err(|(_, error)| error)?;
            let (number, write) = pairs[index];
            ledger.end_write(number, write, true);
        }
    }
    Ok(())
}

/// Reads every key and holds it against the account.
pub(crate) fn verify(client: &Client, ledger: &Ledger) -> Faults {
    let mut faults = Faults::default();
    let numbers: Vec<u32> = (0..ledger.keys()).collect();
    for some in numbers.chunks(TOGETHER) {
        let keys: Vec<_> = some.iter().map(|number| key(*number)).collect();
        let mut found = client.multi_get(&keys);
        while let Some(outcome) = client.block_on(found.next()) {
            match outcome {
                Ok((index, lookup)) => {
                    let number = some[index];
                    let least = ledger.acknowledged(number);
                    faults.note(number, least, ledger, &lookup);
                }
                Err((_, error)) => faults.fail(&error),
            }
        }
    }
    faults
}

impl Faults {
    pub(crate) fn is_none(&self) -> bool {
        self.errors + self.wrong() == 0
    }

    /// Reads that showed less than they had to, or something else.
    pub(crate) fn wrong(&self) -> u64 {
        self.stale + self.absent + self.garbled
    }

    pub(crate) fn errors(&self) -> u64 {
        self.errors
    }

    pub(crate) fn to_json(&self) -> Value {
        let Self { errors, stale, absent, garbled, examples } = self;
        json!({
            "errors": errors,
            "stale": stale,
            "absent": absent,
            "garbled": garbled,
            "examples": examples,
        })
    }

    /// These and `more`.
    pub(crate) fn and(mut self, more: Self) -> Self {
        self.errors += more.errors;
        self.stale += more.stale;
        self.absent += more.absent;
        self.garbled += more.garbled;
        self.examples.extend(more.examples);
        self.examples.truncate(EXAMPLES);
        self
    }

    pub(crate) fn fail(&mut self, error: &ClientError) {
        self.errors += 1;
        self.quote(|| error.to_string());
    }

    /// Whether the read was as it should be.
    pub(crate) fn note(
        &mut self,
        number: u32,
        least: u32,
        ledger: &Ledger,
        lookup: &Lookup,
    ) -> bool {
        let found = lookup.object().map(|object| &**object);
        let finding = ledger.judge(number, least, found);
        match finding {
            Finding::Fine => return true,
            Finding::Stale => self.stale += 1,
            Finding::Absent => self.absent += 1,
            Finding::Garbled => self.garbled += 1,
        }
        let version = lookup.version();
        self.quote(|| {
            format!("key {number} at {version}: {finding:?}, {least} at least, {found:?}")
        });
        false
    }

    fn quote(&mut self, example: impl FnOnce() -> String) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(example());
        }
    }
}

impl<'a> Load<'a> {
    pub(crate) fn new(client: &'a Client, ledger: &'a Ledger, rate: u32) -> Self {
        Self {
            client,
            ledger,
            rate,
            answers: Mutex::default(),
            faults: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// What was answered since this was asked last.
    pub(crate) fn take_answers(&self) -> Vec<Answer> {
        std::mem::take(&mut self.answers.lock())
    }

    pub(crate) fn take_faults(&self) -> Faults {
        std::mem::take(&mut self.faults.lock())
    }

    /// Has [`run`](Self::run) return as soon as nobody waits for an answer any more.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Asks until this is over.
    pub(crate) fn run(&self) -> Result<()> {
        let keys = keys_by_partition(self.client, self.ledger);
        ensure!(!keys.is_empty(), "the cluster has no partitions");
        let interval = self.interval(keys.len());
        let asked: FuturesUnordered<_> = keys
            .iter()
            .flat_map(|(&partition, keys)| {
                [false, true].map(|is_write| Requester { partition, keys, is_write, interval })
            })
            .map(|requester| self.request(requester))
            .collect();
        self.client.block_on(asked.collect::<()>());
        Ok(())
    }

    /// The pause between two requests of one requester.
    pub(crate) fn interval(&self, partitions: usize) -> Duration {
        Duration::from_secs(1) * (2 * partitions as u32) / self.rate
    }

    /// One request after the other.
    async fn request(&self, requester: Requester<'_>) {
        let Requester { partition, keys, is_write, interval } = requester;
        let endpoint = self.client.endpoint();
        let seed = u64::from(partition) * 2 + u64::from(is_write);
        let mut random = StdRng::seed_from_u64(seed);
        let until = |duration: Duration| endpoint.clock().now() + duration;
        let offset = interval.mul_f64(random.random_range(0.0..1.0));
        endpoint.sleep_until(until(offset)).await;
        while !self.is_over.load(Ordering::Acquire) {
            let number = keys[random.random_range(0..keys.len())];
            let began = Instant::now();
            let is_fine = if is_write { self.write(number).await } else { self.read(number).await };
            let ended = Instant::now();
            if is_fine {
                self.answers.lock().push(Answer { partition, is_write, began, ended });
            }
            // Who was late does not make up for it: nobody is to ask faster than the others after a failure.
            let left = interval.saturating_sub(ended.duration_since(began));
            endpoint.sleep_until(until(left)).await;
        }
    }

    async fn read(&self, number: u32) -> bool {
        let least = self.ledger.acknowledged(number);
        match self.client.get(key(number)).await {
            Ok(lookup) => self.faults.lock().note(number, least, self.ledger, &lookup),
            Err(error) => {
                self.faults.lock().fail(&error);
                false
            }
        }
    }

    async fn write(&self, number: u32) -> bool {
        let Some(write) = self.ledger.begin_write(number) else { return false };
        let written = self.client.put(key(number), value(number, write)).await;
        self.ledger.end_write(number, write, written.is_ok());
        if let Err(error) = &written {
            self.faults.lock().fail(error);
        }
        written.is_ok()
    }
}
