//! A client's user: asks one thing after the other, and writes down what it was told.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::rc::Rc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use weft_client::{
    Appended, Applied, Client, ClientError, Compared, Deleted, Existence, Incremented, Lookup,
    Multi, Replaced, Version,
};
use weft_transport::{Clock, Time};

use crate::cluster::Connector;
use crate::history::{Action, OperationId, Outcome, Recorder};
use crate::ledger::ID_END;
use crate::scenario::Failure;
use crate::scenario::keys::{Keys, TableKeys};

pub(super) struct Requester {
    pub(super) number: u32,
    pub(super) keys: Rc<Keys>,
    pub(super) recorder: Recorder,
    pub(super) clock: Clock,
    /// The client's.
    pub(super) timeout: Duration,
    /// Whether it changes nothing: where writes wait for whom nobody hears, it goes on.
    pub(super) only_reads: bool,
    pub(super) value_bytes_max: usize,
    /// The last version of each key that it was told.
    pub(super) versions: RefCell<BTreeMap<Vec<u8>, Version>>,
    /// When it began what it asks for now.
    pub(super) asked_at: Cell<Time>,
    /// Counts operations that fail.
    pub(super) failures: Rc<Cell<u64>>,
    /// Where a failure is left; the first one counts.
    pub(super) failed: Rc<RefCell<Option<Failure>>>,
    /// Where it is left what was in doubt too early.
    pub(super) doubt: Rc<RefCell<Option<Failure>>>,
}

impl Requester {
    /// Asks `operations` times at random.
    pub(super) async fn work(
        self,
        connector: Connector,
        operations: u32,
        think: Duration,
        mut random: StdRng,
    ) {
        let mut tables = TableClients::new(connected(&connector).await);
        for sequence in 0..operations {
            let keys = self.keys.some(&mut random);
            let (client, keys) = match tables.client(keys).await {
                Ok(client) => (client, keys),
                // It is not made yet, perhaps.
                Err(_) => (tables.of_default(), self.keys.of_default()),
            };
            let asked_at = self.clock.now();
            self.asked_at.set(asked_at);
            self.ask(client, keys, sequence, &mut random).await;
            self.check_time(asked_at);
            let pause = random.random_range(Duration::ZERO..=think);
            client.endpoint().sleep_until(self.clock.now() + pause).await;
        }
    }

    /// Reads every key; faults are over, so an error is a failure. Counts what nodes have answered `again`, if that is wanted.
    pub(super) async fn read_all(
        self,
        connector: Connector,
        wanted: BTreeSet<Vec<u8>>,
        again: Option<Rc<Cell<u64>>>,
    ) {
        let mut tables = match connector.connect().await {
            Ok(client) => TableClients::new(client),
            Err(error) => return self.fail(Failure::NotHealed(error)),
        };
        for (keys, key) in self.keys.all().filter(|(_, key)| wanted.contains(*key)) {
            let client = match tables.client(keys).await {
                Ok(client) => client,
                Err(error) => return self.fail(Failure::NotHealed(error)),
            };
            let id = self.invoke(key, Action::Get);
            let told = client.get(key).await;
            self.end(id, &told, read);
            if let Err(error) = told {
                self.fail(Failure::NotHealed(error));
            }
        }
        let Some(again) = again else { return };
        for node in tables.of_default().stats().await {
            let repeated = node.stats.ok().and_then(|stats| stats.value(REPEATED));
            again.set(again.get() + repeated.unwrap_or(0));
        }
    }

    /// An operation has to end by its timeout, whatever happens on the network.
    pub(super) fn check_time(&self, asked_at: Time) {
        let took = self.clock.now().since(asked_at);
        // The client's clock may be slow by half a hundredth.
        if took > self.timeout + self.timeout / 100 {
            let (number, timeout) = (self.number, self.timeout);
            let what = format!("client {number}, asked at {} us", asked_at.nanos() / 1000);
            self.fail(Failure::Late { what, took, timeout });
        }
    }

    pub(super) fn fail(&self, failure: Failure) {
        self.failed.borrow_mut().get_or_insert(failure);
    }

    async fn ask(&self, client: &Client, keys: &TableKeys, sequence: u32, random: &mut StdRng) {
        if self.only_reads {
            let keys: Vec<&Vec<u8>> = keys.all().collect();
            return self.get(client, keys[random.random_range(0..keys.len())]).await;
        }
        match random.random_range(0..100) {
            0..30 => self.ask_counter(client, keys, random).await,
            30..55 => self.ask_list(client, keys, sequence, random).await,
            55..85 => self.ask_register(client, keys, sequence, random).await,
            85..89 => {
                let keys = keys.some_registers(random).into_iter().enumerate();
                let pairs: Vec<(Vec<u8>, Vec<u8>)> =
                    keys.map(|(item, key)| (key, self.value(sequence, item, random))).collect();
                let puts = pairs.iter().map(|(key, value)| (key, Action::Put(value.clone())));
                let ids = puts.map(|(key, put)| self.invoke(key, put)).collect();
                self.end_each(ids, client.multi_put(&pairs), written).await;
            }
            89..95 => {
                let keys = keys.some_registers(random);
                let ids = keys.iter().map(|key| self.invoke(key, Action::Get)).collect();
                self.end_each(ids, client.multi_get(&keys), read).await;
            }
            _ => {
                let keys = keys.some_registers(random);
                let ids = keys.iter().map(|key| self.invoke(key, Action::Delete)).collect();
                self.end_each(ids, client.multi_delete(&keys), removed).await;
            }
        }
    }

    async fn ask_counter(&self, client: &Client, keys: &TableKeys, random: &mut StdRng) {
        let number = random.random_range(0..keys.counters.len());
        let key = &keys.counters[number];
        if random.random_bool(0.3) {
            return self.get(client, key).await;
        }
        // The same for all of a counter's increments: which of those of unknown outcome have been applied is
        // then no question, only how many.
        let delta = number as i64 + 1;
        let id = self.invoke(key, Action::Increment(delta));
        self.end(id, &client.increment(key, delta, None).await, counted);
    }

    async fn ask_list(
        &self,
        client: &Client,
        keys: &TableKeys,
        sequence: u32,
        random: &mut StdRng,
    ) {
        let key = one_of(&keys.lists, random);
        if random.random_bool(0.3) {
            return self.get(client, key).await;
        }
        let mut tail = format!("{}.{sequence}", self.number).into_bytes();
        tail.push(ID_END);
        let id = self.invoke(key, Action::Append(tail.clone()));
        self.end(id, &client.append(key, &tail, None).await, appended);
    }

    async fn ask_register(
        &self,
        client: &Client,
        keys: &TableKeys,
        sequence: u32,
        random: &mut StdRng,
    ) {
        let key = one_of(&keys.registers, random);
        match random.random_range(0..100) {
            0..22 => {
                let value = self.value(sequence, 0, random);
                let id = self.invoke(key, Action::Put(value.clone()));
                self.end(id, &client.put(key, &value).await, written);
            }
            22..45 => self.get(client, key).await,
            45..60 => {
                let id = self.invoke(key, Action::Delete);
                self.end(id, &client.delete(key).await, removed);
            }
            60..64 => {
                let id = self.invoke(key, Action::Exists);
                self.end(id, &client.exists(key).await, seen);
            }
            64..82 => {
                let value = self.value(sequence, 0, random);
                let known = self.versions.borrow().get(key).copied();
                let expected = known.filter(|_| random.random_bool(0.9)).unwrap_or(Version::NONE);
                let action = Action::CompareAndSet { expected: expected.0, value: value.clone() };
                let id = self.invoke(key, action);
                let told = client.compare_and_set(key, expected, &value, None).await;
                if let Ok(Compared::Conflict { version }) = told {
                    self.versions.borrow_mut().insert(key.to_vec(), version);
                }
                self.end(id, &told, compared);
            }
            82..90 => {
                let value = self.value(sequence, 0, random);
                let id = self.invoke(key, Action::GetAndPut(value.clone()));
                let told = client.get_and_put(key, &value, None).await;
                self.end(id, &told, |replaced| Outcome::Replaced {
                    previous: previous(replaced),
                    version: replaced.version.0,
                });
            }
            _ => {
                let id = self.invoke(key, Action::GetAndDelete);
                self.end(id, &client.get_and_delete(key).await, taken);
            }
        }
    }

    async fn get(&self, client: &Client, key: &[u8]) {
        let id = self.invoke(key, Action::Get);
        let told = client.get(key).await;
        if let Ok(Lookup::Found(object)) = &told {
            self.versions.borrow_mut().insert(key.to_vec(), object.version());
        }
        self.end(id, &told, read);
    }

    /// A value that no other put of the run writes, so that a read says whose it was.
    fn value(&self, sequence: u32, item: usize, random: &mut StdRng) -> Vec<u8> {
        let mut value = format!("{}.{sequence}.{item} ", self.number).into_bytes();
        let name_len = value.len();
        let len = random.random_range(0..=self.value_bytes_max).max(name_len);
        value.resize(len, 0);
        random.fill_bytes(&mut value[name_len..]);
        value
    }

    pub(super) fn invoke(&self, key: &[u8], action: Action) -> OperationId {
        self.recorder.invoke(self.number, key, action, self.clock.now())
    }

    pub(super) fn end<T>(
        &self,
        id: OperationId,
        told: &Result<T, ClientError>,
        outcome: fn(&T) -> Outcome,
    ) {
        self.failures.set(self.failures.get() + u64::from(told.is_err()));
        match told {
            Ok(answer) => self.recorder.complete(id, outcome(answer), self.clock.now()),
            Err(error) if error.applied() == Applied::No => {
                self.recorder.not_applied(id, self.clock.now());
            }
            // What may have been applied has no end.
            Err(error) => self.check_doubt(error),
        }
    }

    /// What is in doubt is asked again, under its number, for as long as there is time.
    fn check_doubt(&self, error: &ClientError) {
        let (took, timeout) = (self.clock.now().since(self.asked_at.get()), self.timeout);
        if took + PAUSE_MAX < timeout {
            let doubt = Failure::Doubt { error: error.clone(), took, timeout };
            self.doubt.borrow_mut().get_or_insert(doubt);
        }
    }

    /// Each item of a multi-operation is told apart, when its reply comes.
    async fn end_each<T>(
        &self,
        ids: Vec<OperationId>,
        mut outcomes: Multi<'_, T>,
        outcome: fn(&T) -> Outcome,
    ) {
        while let Some(told) = outcomes.next().await {
            let (item, told) = match told {
                Ok((item, answer)) => (item, Ok(answer)),
                Err((item, error)) => (item, Err(error)),
            };
            self.end(ids[item], &told, outcome);
        }
    }
}

/// A client that has found its cluster.
pub(super) async fn connected(connector: &Connector) -> Client {
    // One that does not find it starts again, as its user would.
    loop {
        if let Ok(client) = connector.connect().await {
            return client;
        }
        // A client that fails at once would be tried for ever at this moment.
        connector.pause(RECONNECT_PAUSE).await;
    }
}

/// A client, and the same for each table that it knows.
struct TableClients {
    of_default: Client,
    others: BTreeMap<String, Client>,
}

impl TableClients {
    fn new(of_default: Client) -> TableClients {
        TableClients { of_default, others: BTreeMap::new() }
    }

    fn of_default(&self) -> &Client {
        &self.of_default
    }

    /// That of the table with these keys, which it looks up once.
    async fn client(&mut self, keys: &TableKeys) -> Result<&Client, ClientError> {
        let Some(name) = &keys.table else { return Ok(&self.of_default) };
        match self.others.entry(name.clone()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) => Ok(unknown.insert(self.of_default.table(name).await?)),
        }
    }
}

/// More than a client has, so that a requester keeps its number where there are fewer.
pub(super) const REQUESTERS_MAX: u32 = 16;
/// What nodes count that was asked again.
const REPEATED: &str = "writes.repeated";

/// A client pauses for no longer between two attempts, and does not begin another one after its time.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Between two attempts of a client to find its cluster.
const RECONNECT_PAUSE: Duration = Duration::from_millis(1);

fn one_of<'a>(keys: &'a [Vec<u8>], random: &mut StdRng) -> &'a [u8] {
    &keys[random.random_range(0..keys.len())]
}

fn counted(told: &Incremented) -> Outcome {
    Outcome::Counted { number: told.number, version: told.version.0 }
}

fn appended(told: &Appended) -> Outcome {
    Outcome::Appended { len: told.value_len, version: told.version.0 }
}

fn compared(told: &Compared) -> Outcome {
    match told {
        Compared::Written { version } => Outcome::Written { version: version.0 },
        Compared::Conflict { version } => Outcome::Conflict { version: version.0 },
        Compared::Absent { version } => Outcome::Absent { as_of: Some(version.0) },
    }
}

fn previous(replaced: &Replaced) -> Option<(Vec<u8>, u64)> {
    replaced.previous.as_ref().map(|object| (object.to_vec(), object.version().0))
}

fn taken(told: &Replaced) -> Outcome {
    match previous(told) {
        None => Outcome::Absent { as_of: Some(told.version.0) },
        previous => Outcome::Replaced { previous, version: told.version.0 },
    }
}

pub(super) fn written(version: &Version) -> Outcome {
    Outcome::Written { version: version.0 }
}

pub(super) fn read(lookup: &Lookup) -> Outcome {
    match lookup {
        Lookup::Found(object) => {
            Outcome::Found { value: Some(object.to_vec()), version: object.version().0 }
        }
        Lookup::Absent { version } => Outcome::Absent { as_of: Some(version.0) },
    }
}

fn seen(existence: &Existence) -> Outcome {
    match existence {
        Existence { exists: true, version } => Outcome::Found { value: None, version: version.0 },
        Existence { exists: false, version } => Outcome::Absent { as_of: Some(version.0) },
    }
}

fn removed(deleted: &Deleted) -> Outcome {
    match deleted {
        Deleted { existed: true, version } => Outcome::Removed { version: version.0 },
        Deleted { existed: false, version } => Outcome::Absent { as_of: Some(version.0) },
    }
}
