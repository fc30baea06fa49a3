//! What a partition tells of what happens in it, against a plain model: random operations with watchers that come and go.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "store_watching/feeds.rs"]
mod feeds;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Wake, Waker};

use proptest::prelude::*;
use weft_protocol::{
    Eviction, FieldChange, Key, KeyChange, List, Slot, TableId, TableRemoval, Value, Version,
    WatchEvent, Watched,
};
use weft_server::store::{
    Compared, Feed, FeedError, FeedPage, Partition, PartitionConfig, StoreError, TableConfig,
};
use weft_transport::{Memory, MemoryConfig};

/// Beside the table that is always there: one that is ordered, and one that evicts.
const ORDERED: TableId = TableId(1);
const EVICTING: TableId = TableId(2);
const TABLES: [TableId; 3] = [TableId::DEFAULT, ORDERED, EVICTING];
/// Room for all that a run tells.
const QUEUE_BYTES: usize = 1 << 20;

type Place = (TableId, Vec<u8>);

/// An event of a table.
#[derive(Debug, Clone, PartialEq)]
enum Told {
    Key { place: Place, change: KeyChange, version: Version },
    Table { table: TableId, change: TableRemoval, version: Version },
}

#[derive(Debug, Clone)]
enum Step {
    Put {
        place: Place,
        ttl_ms: Option<u64>,
    },
    Delete(Place),
    Get(Place),
    CompareAndSet {
        place: Place,
        is_right: bool,
        ttl_ms: Option<u64>,
    },
    Increment {
        place: Place,
        ttl_ms: Option<u64>,
    },
    Append {
        place: Place,
        ttl_ms: Option<u64>,
    },
    PutFields {
        place: Place,
        ttl_ms: Option<u64>,
    },
    GetAndPut {
        place: Place,
        ttl_ms: Option<u64>,
    },
    GetAndDelete(Place),
    Expire {
        place: Place,
        ttl_ms: Option<u64>,
    },
    Wait {
        ms: u64,
    },
    Sweep {
        buckets: usize,
    },
    Evict {
        of: Option<TableId>,
    },
    Truncate(TableId),
    /// Drops a table and makes it anew.
    Recreate(TableId),
    Watch {
        place: Place,
        is_prefix: bool,
    },
    Unwatch(prop::sample::Index),
    /// Takes what one was told, and says to have received it or not.
    Take {
        watcher: prop::sample::Index,
        is_received: bool,
    },
    /// Looks at every key.
    LookAtAll,
}

/// An object, as far as it was told.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Object {
    version: Version,
    expiry_ms: Option<u64>,
}

/// Somebody who watches.
struct Watcher {
    feed: Arc<Feed>,
    table: TableId,
    bytes: Vec<u8>,
    is_prefix: bool,
    /// What was told to all tables before it came, and up to when it was told anything.
    from: usize,
    to: Option<usize>,
    received: u64,
    bell: Arc<Bell>,
    /// How many events there were when it last found none.
    waits_since: Option<usize>,
}

#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Checked {
    partition: Partition,
    now_ms: u64,
    /// One for each table, which are told everything.
    all: Vec<Watcher>,
    /// What they were told, in order.
    log: Vec<Told>,
    there: BTreeMap<Place, Object>,
    newest: BTreeMap<Place, Version>,
    watchers: Vec<Watcher>,
}

fn slots() -> (Slot, Slot) {
    (Slot::from_number(100).unwrap(), Slot::from_number(200).unwrap())
}

fn create(partition: &mut Partition, id: TableId) {
    let eviction = if id == EVICTING { Eviction::LeastRecentlyUsed } else { Eviction::None };
    partition.create_table(TableConfig { id, ordered: id == ORDERED, quota: None, eviction });
}

fn owned(table: TableId, event: &WatchEvent<'_>) -> Told {
    match *event {
        WatchEvent::Key { key, change, version } => {
            Told::Key { place: (table, key.to_vec()), change, version }
        }
        WatchEvent::Table { first_slot, last_slot, change, version } => {
            assert_eq!((first_slot, last_slot), slots());
            Told::Table { table, change, version }
        }
    }
}

impl Watcher {
    fn new(partition: &mut Partition, (table, bytes): Place, is_prefix: bool, from: usize) -> Self {
        let key = Key::new(&bytes).unwrap();
        let watched = if is_prefix { Watched::Prefix(key) } else { Watched::Key(key) };
        let feed = Arc::new(Feed::new(table, watched, QUEUE_BYTES));
        partition.watch(&feed, slots());
        let bell = Arc::default();
        let (to, received, waits_since) = (None, 0, None);
        Watcher { feed, table, bytes, is_prefix, from, to, received, bell, waits_since }
    }

    fn poll(&self) -> Poll<Result<FeedPage, FeedError>> {
        self.feed.poll(self.received, &Waker::from(Arc::clone(&self.bell)))
    }

    /// What it is to be told, of all that was.
    fn expected(&self, log: &[Told]) -> Vec<Told> {
        let is_told = |told: &&Told| match told {
            Told::Key { place: (table, key), .. } => {
                let is_key =
                    if self.is_prefix { key.starts_with(&self.bytes) } else { *key == self.bytes };
                *table == self.table && is_key
            }
            Told::Table { table, .. } => *table == self.table,
        };
        log[self.from..self.to.unwrap_or(log.len())].iter().filter(is_told).cloned().collect()
    }

    /// Takes what is told and compares it.
    fn take(&mut self, log: &[Told], is_received: bool) {
        let expected = self.expected(log);
        let (received, rest) = expected.split_at(self.received as usize);
        if let Some(count) = self.waits_since.take() {
            let is_news = expected.len() > count || self.to.is_some();
            assert_eq!(self.bell.0.swap(false, Ordering::Relaxed), is_news, "the bell");
        }
        match self.poll() {
            Poll::Ready(Ok(page)) => {
                let reply = page.reply();
                assert_eq!(reply.first, received.len() as u64 + 1);
                let told: Vec<_> =
                    reply.events.iter().map(|event| owned(self.table, &event)).collect();
                assert_eq!(told, rest, "all, once and in order");
                if is_received {
                    self.received += told.len() as u64;
                }
            }
            Poll::Ready(Err(error)) => {
                assert_eq!(error, FeedError::TableDropped);
                assert!(self.to.is_some() && rest.is_empty());
            }
            Poll::Pending => {
                assert!(self.to.is_none() && rest.is_empty(), "{rest:?} is not told");
                self.waits_since = Some(expected.len());
            }
        }
    }
}

impl Checked {
    fn new(seed: u64) -> Checked {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let config = PartitionConfig { id: 1, epoch: 1, seed, memory };
        let mut partition = Partition::new(config).unwrap();
        TABLES.into_iter().for_each(|table| create(&mut partition, table));
        let all = TABLES
            .into_iter()
            .map(|table| Watcher::new(&mut partition, (table, Vec::new()), true, 0))
            .collect();
        Checked {
            partition,
            now_ms: 1_000,
            all,
            log: Vec::new(),
            there: BTreeMap::new(),
            newest: BTreeMap::new(),
            watchers: Vec::new(),
        }
    }

    fn expiry(&self, ttl_ms: Option<u64>) -> Option<u64> {
        ttl_ms.map(|ttl_ms| self.now_ms + ttl_ms)
    }

    fn current(&self, place: &Place) -> Option<Object> {
        let is_current = |object: &&Object| object.expiry_ms.is_none_or(|at| at > self.now_ms);
        self.there.get(place).filter(is_current).copied()
    }

    /// The expiry of an object that keeps its own, if there is one.
    fn kept(&self, place: &Place, ttl_ms: Option<u64>) -> Option<u64> {
        self.current(place).map_or(self.expiry(ttl_ms), |object| object.expiry_ms)
    }

    fn take(&mut self, step: Step) {
        let now_ms = self.now_ms;
        let partition = &mut self.partition;
        let mut written = None;
        let mut certain = None;
        let evicts = matches!(step, Step::Evict { .. });
        match step {
            Step::Put { place, ttl_ms } => {
                let expiry_ms = ttl_ms.map(|ttl_ms| now_ms + ttl_ms);
                let version = partition.put(place.0, &place.1, b"7", expiry_ms, now_ms).unwrap();
                written = Some((place, version, expiry_ms));
            }
            Step::Delete(place) => {
                let deleted = partition.delete(place.0, &place.1, now_ms).unwrap();
                assert_eq!(deleted.existed, self.current(&place).is_some());
                certain = deleted.existed.then_some((place, deleted.version));
            }
            Step::Get(place) => drop(partition.get(place.0, &place.1, now_ms)),
            Step::CompareAndSet { place, is_right, ttl_ms } => {
                let current = self.current(&place).map_or(Version::NONE, |object| object.version);
                let expected = if is_right { current } else { Version(u64::MAX) };
                let expiry_ms = self.expiry(ttl_ms);
                let (table, key) = (place.0, &place.1);
                let compared =
                    self.partition.compare_and_set(table, key, expected, b"8", expiry_ms, now_ms);
                match compared.unwrap() {
                    Compared::Written(version) => written = Some((place, version, expiry_ms)),
                    Compared::Conflict(_) | Compared::Absent(_) => assert!(!is_right),
                }
            }
            Step::Increment { place, ttl_ms } => {
                let expiry_ms = self.kept(&place, ttl_ms);
                let given = self.expiry(ttl_ms);
                match self.partition.increment(place.0, &place.1, 1, given, now_ms) {
                    Ok(done) => written = Some((place, done.version, expiry_ms)),
                    Err(error) => assert_eq!(error, StoreError::NotANumber),
                }
            }
            Step::Append { place, ttl_ms } => {
                let expiry_ms = self.kept(&place, ttl_ms);
                let given = self.expiry(ttl_ms);
                let done = self.partition.append(place.0, &place.1, b"9", given, 60, now_ms);
                match done {
                    Ok(done) => written = Some((place, done.version, expiry_ms)),
                    Err(error) => assert!(matches!(error, StoreError::OnlyByUpload { .. })),
                }
            }
            Step::PutFields { place, ttl_ms } => {
                let expiry_ms = self.kept(&place, ttl_ms);
                let given = self.expiry(ttl_ms);
                let name = Key::new(b"name").unwrap();
                let change = [FieldChange { name, value: Some(Value::new(b"field").unwrap()) }];
                let (changes, _) = List::fitting(&change);
                let mut scratch = Vec::new();
                let (table, key) = (place.0, &place.1);
                match self.partition.put_fields(table, key, changes, given, &mut scratch, now_ms) {
                    Ok(version) => written = Some((place, version, expiry_ms)),
                    Err(error) => assert_eq!(error, StoreError::NotARecord),
                }
            }
            Step::GetAndPut { place, ttl_ms } => {
                let expiry_ms = self.expiry(ttl_ms);
                let done = self.partition.get_and_put(place.0, &place.1, b"12", expiry_ms, now_ms);
                written = Some((place, done.unwrap().version, expiry_ms));
            }
            Step::GetAndDelete(place) => {
                let done = partition.get_and_delete(place.0, &place.1, now_ms).unwrap();
                assert_eq!(done.previous.is_some(), self.current(&place).is_some());
                certain = done.previous.is_some().then_some((place, done.version));
            }
            Step::Expire { place, ttl_ms } => {
                let (before, expiry_ms) = (self.current(&place), self.expiry(ttl_ms));
                let done = self.partition.expire(place.0, &place.1, expiry_ms, 60, now_ms).unwrap();
                assert_eq!(done.is_some(), before.is_some());
                let is_new = before.is_some_and(|object| object.expiry_ms != expiry_ms);
                if is_new {
                    written = Some((place, done.unwrap(), expiry_ms));
                }
            }
            Step::Wait { ms } => self.now_ms += ms,
            Step::Sweep { buckets } => drop(partition.sweep(buckets, now_ms)),
            Step::Evict { of } => drop(partition.evict(of, 400, now_ms)),
            Step::Truncate(table) => {
                let version = partition.version();
                let removed = partition.truncate(table).unwrap();
                let is_of = |(place, _): &(&Place, &Object)| place.0 == table;
                assert_eq!(removed, self.there.iter().filter(is_of).count() as u64);
                if removed > 0 {
                    self.expect_table(table, TableRemoval::Truncated, version);
                }
            }
            Step::Recreate(table) => {
                let version = partition.version();
                partition.drop_table(table).unwrap();
                create(partition, table);
                self.expect_table(table, TableRemoval::Dropped, version);
                let to = Some(self.log.len());
                for watcher in &mut self.watchers {
                    if watcher.table == table {
                        watcher.to = watcher.to.or(to);
                    }
                }
                let at = TABLES.iter().position(|of| *of == table).unwrap();
                assert_eq!(self.all[at].poll(), Poll::Ready(Err(FeedError::TableDropped)));
                let place = (table, Vec::new());
                self.all[at] = Watcher::new(&mut self.partition, place, true, self.log.len());
            }
            Step::Watch { place, is_prefix } => {
                let watcher = Watcher::new(partition, place, is_prefix, self.log.len());
                self.watchers.push(watcher);
            }
            Step::Unwatch(index) if !self.watchers.is_empty() => {
                let watcher = index.get(&self.watchers);
                partition.unwatch(&watcher.feed);
                let to = Some(self.log.len());
                let at = index.index(self.watchers.len());
                self.watchers[at].to = self.watchers[at].to.or(to);
            }
            Step::Take { watcher, is_received } if !self.watchers.is_empty() => {
                let at = watcher.index(self.watchers.len());
                self.watchers[at].take(&self.log, is_received);
            }
            Step::Unwatch(_) | Step::Take { .. } => {}
            Step::LookAtAll => {
                for place in all_places() {
                    let version = self.partition.exists(place.0, &place.1, now_ms);
                    let expected = self.current(&place).map(|object| object.version);
                    assert_eq!(version, expected, "{place:?} is not as it was told");
                }
            }
        }
        self.explain(written, certain, evicts);
    }

    /// Takes what is told to all, and sees to it that it is what has happened.
    fn explain(
        &mut self,
        mut written: Option<(Place, Version, Option<u64>)>,
        mut deleted: Option<(Place, Version)>,
        evicts: bool,
    ) {
        for told in self.told_to_all() {
            let Told::Key { place, change, version } = &told else {
                panic!("{told:?} is unexpected")
            };
            match change {
                KeyChange::Written => {
                    let (expected, at, expiry_ms) = written.take().expect("a write");
                    assert_eq!((&expected, at), (place, *version));
                    let newest = self.newest.insert(expected.clone(), at);
                    assert!(newest.is_none_or(|newest| newest < at), "versions of a key grow");
                    self.there.insert(expected, Object { version: at, expiry_ms });
                }
                KeyChange::Deleted => {
                    assert_eq!(deleted.take(), Some((place.clone(), *version)));
                    let was = self.there.remove(place).expect("there was an object");
                    assert!(was.version < *version);
                    self.newest.insert(place.clone(), *version);
                }
                KeyChange::Expired => {
                    let was = self.there.remove(place).expect("there was an object");
                    assert_eq!(was.version, *version);
                    assert!(was.expiry_ms.is_some_and(|at| at <= self.now_ms), "{was:?}");
                }
                KeyChange::Evicted => {
                    assert!(evicts && place.0 == EVICTING, "{place:?} is evicted");
                    let was = self.there.remove(place).expect("there was an object");
                    assert_eq!(was.version, *version);
                }
            }
            self.log.push(told);
        }
        assert_eq!((written, deleted), (None, None), "not told");
    }

    fn expect_table(&mut self, table: TableId, change: TableRemoval, version: Version) {
        let told = self.told_to_all();
        assert_eq!(told, [Told::Table { table, change, version }]);
        self.log.extend(told);
        self.there.retain(|place, _| place.0 != table);
    }

    fn told_to_all(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        for watcher in &mut self.all {
            if let Poll::Ready(Ok(page)) = watcher.poll() {
                let events = page.reply().events;
                watcher.received += events.len() as u64;
                told.extend(events.iter().map(|event| owned(watcher.table, &event)));
            }
        }
        told
    }
}

fn all_places() -> impl Iterator<Item = Place> {
    TABLES.into_iter().flat_map(|table| (0..KEYS).map(move |number| (table, key_bytes(number))))
}

const KEYS: u8 = 24;

/// Some are the beginning of others, and one is empty.
fn key_bytes(number: u8) -> Vec<u8> {
    vec![b'a' + number % 4; usize::from(number / 4)]
}

fn place() -> impl Strategy<Value = Place> {
    (0_u16..3, 0..KEYS).prop_map(|(table, number)| (TableId(table), key_bytes(number)))
}

fn step() -> impl Strategy<Value = Step> {
    let aimed = || (place(), prop::option::weighted(0.4, 0_u64..60));
    let watcher = || any::<prop::sample::Index>();
    prop_oneof![
        8 => aimed().prop_map(|(place, ttl_ms)| Step::Put { place, ttl_ms }),
        4 => place().prop_map(Step::Delete),
        3 => place().prop_map(Step::Get),
        3 => (aimed(), any::<bool>()).prop_map(|((place, ttl_ms), is_right)| {
            Step::CompareAndSet { place, is_right, ttl_ms }
        }),
        3 => aimed().prop_map(|(place, ttl_ms)| Step::Increment { place, ttl_ms }),
        2 => aimed().prop_map(|(place, ttl_ms)| Step::Append { place, ttl_ms }),
        2 => aimed().prop_map(|(place, ttl_ms)| Step::PutFields { place, ttl_ms }),
        2 => aimed().prop_map(|(place, ttl_ms)| Step::GetAndPut { place, ttl_ms }),
        2 => place().prop_map(Step::GetAndDelete),
        3 => aimed().prop_map(|(place, ttl_ms)| Step::Expire { place, ttl_ms }),
        3 => (0_u64..40).prop_map(|ms| Step::Wait { ms }),
        2 => (1_usize..400).prop_map(|buckets| Step::Sweep { buckets }),
        2 => prop::option::of((0_u16..3).prop_map(TableId)).prop_map(|of| Step::Evict { of }),
        1 => (0_u16..3).prop_map(|table| Step::Truncate(TableId(table))),
        1 => (1_u16..3).prop_map(|table| Step::Recreate(TableId(table))),
        4 => (place(), any::<bool>())
            .prop_map(|(place, is_prefix)| Step::Watch { place, is_prefix }),
        1 => watcher().prop_map(Step::Unwatch),
        8 => (watcher(), any::<bool>())
            .prop_map(|(watcher, is_received)| Step::Take { watcher, is_received }),
        1 => Just(Step::LookAtAll),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn everything_that_happens_is_told_once_and_in_order(
        seed: u64,
        steps in prop::collection::vec(step(), 1..250),
    ) {
        let mut checked = Checked::new(seed);
        for step in steps {
            checked.take(step);
        }
        // What has expired is told of when all was looked at.
        checked.take(Step::LookAtAll);
        let now_ms = checked.now_ms;
        prop_assert!(checked.there.values().all(|object| object.expiry_ms.is_none_or(|at| at > now_ms)));
        let Checked { mut watchers, log, partition, .. } = checked;
        for watcher in &mut watchers {
            watcher.take(&log, true);
            watcher.take(&log, true);
        }
        prop_assert_eq!(partition.verify(), Ok(()));
    }
}
