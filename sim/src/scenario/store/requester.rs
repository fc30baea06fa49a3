//! A client's user: asks one thing after the other, and writes down what it was told.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::index::sample;
use rand::{Rng, RngExt};
use weft_client::{Applied, Client, ClientError, Deleted, Existence, Lookup, Multi, Version};
use weft_transport::{Clock, Time};

use crate::cluster::Connector;
use crate::history::{Action, OperationId, Outcome, Recorder};
use crate::scenario::Failure;

pub(super) struct Requester {
    pub(super) number: u32,
    pub(super) keys: Rc<[Vec<u8>]>,
    pub(super) recorder: Recorder,
    pub(super) clock: Clock,
    /// The client's.
    pub(super) timeout: Duration,
    pub(super) value_bytes_max: usize,
    /// Where a failure is left; the first one counts.
    pub(super) failed: Rc<RefCell<Option<Failure>>>,
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
        // A client that does not find its cluster starts again, as its user would.
        let client = loop {
            if let Ok(client) = connector.connect().await {
                break client;
            }
        };
        for sequence in 0..operations {
            let asked_at = self.clock.now();
            self.ask(&client, sequence, &mut random).await;
            self.check_time(asked_at);
            let pause = random.random_range(Duration::ZERO..=think);
            client.endpoint().sleep_until(self.clock.now() + pause).await;
        }
    }

    /// Reads every key; faults are over, so an error is a failure.
    pub(super) async fn read_all(self, connector: Connector) {
        let client = match connector.connect().await {
            Ok(client) => client,
            Err(error) => return self.fail(Failure::NotHealed(error)),
        };
        for key in self.keys.iter() {
            let id = self.invoke(key, Action::Get);
            let told = client.get(key).await;
            self.end(id, &told, read);
            if let Err(error) = told {
                self.fail(Failure::NotHealed(error));
            }
        }
    }

    /// An operation has to end by its timeout, whatever happens on the network.
    fn check_time(&self, asked_at: Time) {
        let took = self.clock.now().since(asked_at);
        if took > self.timeout {
            let (number, timeout) = (self.number, self.timeout);
            let what = format!("client {number}, asked at {} us", asked_at.nanos() / 1000);
            self.fail(Failure::Late { what, took, timeout });
        }
    }

    fn fail(&self, failure: Failure) {
        self.failed.borrow_mut().get_or_insert(failure);
    }

    async fn ask(&self, client: &Client, sequence: u32, random: &mut StdRng) {
        let key = &self.keys[random.random_range(0..self.keys.len())];
        match random.random_range(0..100) {
            0..35 => {
                let value = self.value(sequence, 0, random);
                let id = self.invoke(key, Action::Put(value.clone()));
                self.end(id, &client.put(key, &value).await, written);
            }
            35..65 => {
                let id = self.invoke(key, Action::Get);
                self.end(id, &client.get(key).await, read);
            }
            65..75 => {
                let id = self.invoke(key, Action::Delete);
                self.end(id, &client.delete(key).await, removed);
            }
            75..80 => {
                let id = self.invoke(key, Action::Exists);
                self.end(id, &client.exists(key).await, seen);
            }
            80..87 => {
                let keys = self.some_keys(random).into_iter().enumerate();
                let pairs: Vec<(Vec<u8>, Vec<u8>)> =
                    keys.map(|(item, key)| (key, self.value(sequence, item, random))).collect();
                let puts = pairs.iter().map(|(key, value)| (key, Action::Put(value.clone())));
                let ids = puts.map(|(key, put)| self.invoke(key, put)).collect();
                self.end_each(ids, client.multi_put(&pairs), written).await;
            }
            87..95 => {
                let keys = self.some_keys(random);
                let ids = keys.iter().map(|key| self.invoke(key, Action::Get)).collect();
                self.end_each(ids, client.multi_get(&keys), read).await;
            }
            _ => {
                let keys = self.some_keys(random);
                let ids = keys.iter().map(|key| self.invoke(key, Action::Delete)).collect();
                self.end_each(ids, client.multi_delete(&keys), removed).await;
            }
        }
    }

    /// Several keys in a drawn order, none twice.
    fn some_keys(&self, random: &mut StdRng) -> Vec<Vec<u8>> {
        let count = random.random_range(1..=self.keys.len());
        sample(random, self.keys.len(), count).iter().map(|key| self.keys[key].clone()).collect()
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

    fn invoke(&self, key: &[u8], action: Action) -> OperationId {
        self.recorder.invoke(self.number, key, action, self.clock.now())
    }

    fn end<T>(&self, id: OperationId, told: &Result<T, ClientError>, outcome: fn(&T) -> Outcome) {
        match told {
            Ok(answer) => self.recorder.complete(id, outcome(answer), self.clock.now()),
            Err(error) if error.applied() == Applied::No => {
                self.recorder.not_applied(id, self.clock.now());
            }
            // What may have been applied has no end.
            Err(_) => {}
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

fn written(version: &Version) -> Outcome {
    Outcome::Written { version: version.0 }
}

fn read(lookup: &Lookup) -> Outcome {
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
