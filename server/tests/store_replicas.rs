//! Replicas of a partition: random requests of clients, some of them repeated, at a primary; a follower that applies each entry and has to be the
//! same at every step; a learner that gets a snapshot meanwhile; changes of the primary; and all of it once more from the entries alone.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "store_replicas/learner.rs"]
mod learner;
#[path = "store_replicas/requests.rs"]
mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weft_protocol::{CompletionId, Eviction, TableId, Version};
use weft_server::store::{
    ApplyError, Attempt, OnceError, Partition, PartitionConfig, Quota, Recalled, Refusal,
    StoreError, TableConfig, Victim, split_entries,
};
use weft_transport::{Memory, MemoryConfig};

use self::learner::Learner;
use self::requests::{Answered, Request, Told, request};

const ORDERED: TableId = TableId(1);
/// It has a quota, and evicts.
const SMALL: TableId = TableId(2);
/// It comes and goes.
const BRIEF: TableId = TableId(3);
const QUOTA_BYTES: u64 = 60_000;
const CLIENTS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    /// A client asks, or nobody that could ask again.
    Ask {
        client: Option<usize>,
        request: Request,
    },
    /// What was asked before is asked again.
    Repeat(prop::sample::Index),
    /// A client has had so many answers more.
    Receive {
        client: usize,
        count: u64,
    },
    EndClient(usize),
    Wait {
        ms: u64,
    },
    Sweep {
        of_follower: bool,
        buckets: usize,
    },
    Clean {
        of_follower: bool,
        percent: u8,
        budget: usize,
    },
    Evict {
        buckets: usize,
    },
    Truncate(TableId),
    Recreate {
        table: TableId,
        ordered: bool,
    },
    Alter {
        table: TableId,
        evicts: bool,
    },
    /// A table is made, gets an object, loses it, or is dropped.
    Brief {
        key: u8,
        drops: bool,
    },
    BeginSnapshot {
        entries_before: usize,
    },
    SendPart {
        budget: usize,
    },
    ApplyEntries {
        count: usize,
    },
    ApplyPart {
        is_repeated: bool,
    },
    /// The learner gets all the rest, and takes the follower's place.
    EndSnapshot {
        budget: usize,
    },
    /// The follower leads from now on, and the primary follows.
    ChangePrimary,
}

/// A partition, and a segment of its log that is being emptied.
struct Replica {
    partition: Partition,
    victim: Option<Victim>,
}

#[derive(Default)]
struct Client {
    /// Tells its lives apart.
    number: u64,
    next: u64,
    first_incomplete: u64,
}

struct Cluster {
    primary: Replica,
    follower: Replica,
    learner: Option<Learner>,
    /// All entries that were made.
    entries: Vec<u8>,
    clients: [Client; CLIENTS],
    asked: Vec<(usize, CompletionId, Request)>,
    told: BTreeMap<(u64, u64), (Told, Version)>,
    quota: Arc<Quota>,
    seed: u64,
    uploads: u64,
    epoch: u32,
    now_ms: u64,
}

impl Replica {
    fn new(limit_bytes: u64, seed: u64) -> Replica {
        Replica { partition: empty(limit_bytes, seed), victim: None }
    }

    fn clean(&mut self, percent: u8, budget: usize, now_ms: u64) {
        let victim = self.victim.take();
        let chosen = || self.partition.victims(f64::from(percent) / 100.0).next();
        let Some(mut victim) = victim.or_else(chosen) else { return };
        if !self.partition.clean(&mut victim, budget, now_ms).is_done {
            self.victim = Some(victim);
        }
    }
}

impl Cluster {
    fn new(limit_bytes: u64, seed: u64) -> Cluster {
        let mut primary = Replica::new(limit_bytes, seed);
        let mut follower = Replica::new(64 << 20, seed ^ 1);
        primary.partition.set_recording(true);
        follower.partition.set_following(true);
        let clients =
            std::array::from_fn(|at| Client { number: at as u64, next: 1, first_incomplete: 1 });
        let quota = Arc::new(Quota::new(QUOTA_BYTES));
        let mut cluster = Cluster {
            primary,
            follower,
            learner: None,
            entries: Vec::new(),
            clients,
            asked: Vec::new(),
            told: BTreeMap::new(),
            quota,
            seed,
            uploads: 0,
            epoch: 1,
            now_ms: 1_000,
        };
        for (table, ordered) in [(ORDERED, true), (SMALL, false)] {
            cluster.create(table, ordered);
        }
        cluster.follow();
        cluster
    }

    fn create(&mut self, id: TableId, ordered: bool) {
        let quota = (id == SMALL).then(|| Arc::clone(&self.quota));
        let eviction = if id == SMALL { Eviction::LeastRecentlyUsed } else { Eviction::None };
        self.primary.partition.create_table(TableConfig { id, ordered, quota, eviction });
    }

    fn take(&mut self, step: Step) {
        let now_ms = self.now_ms;
        match step {
            Step::Ask { client, request } => self.ask(client, request),
            Step::Repeat(index) if !self.asked.is_empty() => {
                let (client, id, request) = index.get(&self.asked).clone();
                self.repeat(client, id, &request);
            }
            Step::Repeat(_) => {}
            Step::Receive { client, count } => {
                let client = &mut self.clients[client];
                client.first_incomplete = (client.first_incomplete + count).min(client.next);
            }
            Step::EndClient(client) => {
                let client = &mut self.clients[client];
                self.primary.partition.end_client(client.number).unwrap();
                *client = Client { number: client.number + 100, next: 1, first_incomplete: 1 };
            }
            Step::Wait { ms } => self.now_ms += ms,
            Step::Sweep { of_follower, buckets } => {
                let before = self.primary.partition.version();
                let _ = self.of(of_follower).partition.sweep(buckets, now_ms);
                assert_eq!(self.primary.partition.version(), before);
            }
            Step::Clean { of_follower, percent, budget } => {
                self.of(of_follower).clean(percent, budget, now_ms);
            }
            Step::Evict { buckets } => {
                let before = self.primary.partition.version();
                let evicted = self.primary.partition.evict(None, buckets, now_ms);
                let after = self.primary.partition.version();
                assert_eq!(after.sequence() - before.sequence(), evicted.objects);
                let at_follower = self.follower.partition.evict(None, buckets, now_ms);
                assert!(at_follower.is_exhausted && at_follower.bytes == 0);
            }
            Step::Truncate(table) => {
                self.primary.partition.truncate(table).unwrap();
            }
            Step::Recreate { table, ordered } => {
                self.primary.partition.drop_table(table).unwrap();
                assert_eq!(self.primary.partition.last_removal(), self.primary.partition.version());
                self.create(table, ordered);
            }
            Step::Alter { table, evicts } => {
                let eviction = if evicts { Eviction::LeastRecentlyUsed } else { Eviction::None };
                let quota = (table == SMALL).then(|| Arc::clone(&self.quota));
                let config = TableConfig { id: table, ordered: false, quota, eviction };
                self.primary.partition.alter_table(config);
            }
            Step::Brief { key, drops } => self.brief(key % 2, key % 3 > 0, drops),
            Step::BeginSnapshot { entries_before } => {
                // One that was under way is given up.
                let partition = self.learner.take().map(|learner| learner.partition);
                let partition = partition.unwrap_or_else(|| empty(64 << 20, self.seed ^ 2));
                let all: Vec<_> = split_entries(&self.entries).collect();
                let (before, behind) = all.split_at(all.len().saturating_sub(entries_before));
                let start = before.last().map_or(Version::NONE, |(version, _)| *version);
                let behind = behind.iter().map(|(_, entry)| entry.to_vec()).collect();
                let primary = &self.primary.partition;
                self.learner = Some(Learner::behind(start, behind, partition, primary));
            }
            Step::SendPart { budget } => {
                if let Some(learner) = &mut self.learner {
                    learner.send_part(&self.primary.partition, budget);
                }
            }
            Step::ApplyEntries { count } => {
                if let Some(learner) = &mut self.learner {
                    learner.apply_entries(count, now_ms);
                }
            }
            Step::ApplyPart { is_repeated } => {
                if let Some(learner) = &mut self.learner {
                    learner.apply_part(is_repeated, now_ms);
                }
            }
            Step::EndSnapshot { budget } => {
                if let Some(learner) = self.learner.take() {
                    let partition = learner.finish(&self.primary.partition, budget, now_ms);
                    self.follower = Replica { partition, victim: None };
                }
            }
            Step::ChangePrimary => self.change_primary(),
        }
        self.follow();
    }

    fn brief(&mut self, key: u8, puts: bool, drops: bool) {
        let (now_ms, partition) = (self.now_ms, &mut self.primary.partition);
        if !partition.has_table(BRIEF) {
            return self.create(BRIEF, false);
        }
        if drops {
            partition.drop_table(BRIEF).unwrap();
        } else if puts {
            // There may be no room.
            let _ = partition.put(BRIEF, &[key], b"for a while", None, now_ms);
        } else {
            partition.delete(BRIEF, &[key], now_ms).unwrap();
        }
    }

    fn of(&mut self, of_follower: bool) -> &mut Replica {
        if of_follower { &mut self.follower } else { &mut self.primary }
    }

    fn ask(&mut self, client: Option<usize>, request: Request) {
        let attempt = client.map(|client| {
            let Client { number, next, first_incomplete } = self.clients[client];
            Attempt { id: CompletionId { client: number, sequence: next }, first_incomplete }
        });
        let before = self.primary.partition.version();
        let answered = self.answer(&request, attempt, false);
        let after = self.primary.partition.version();
        if let (Some(client), Some(attempt)) = (client, attempt) {
            self.clients[client].next += 1;
            self.asked.push((client, attempt.id, request));
            match answered {
                Ok((told, version, is_repeated)) => {
                    assert!(!is_repeated && version == after);
                    assert_eq!(
                        after.sequence(),
                        before.sequence() + 1,
                        "one entry, whatever it did"
                    );
                    self.told.insert((attempt.id.client, attempt.id.sequence), (told, version));
                }
                Err(error) => {
                    check_refusal(error);
                    assert_eq!(after, before);
                    // The client is told so, and it has to stay true.
                    if let Ok(version) = self.primary.partition.give_up(attempt) {
                        let told = Told::Refused(Refusal::GivenUp);
                        self.told.insert((attempt.id.client, attempt.id.sequence), (told, version));
                    }
                }
            }
        } else {
            match answered {
                Ok((_, version, _)) => assert_eq!(version, after),
                Err(OnceError::Refused(_)) => assert_eq!(after, before),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn repeat(&mut self, client: usize, id: CompletionId, request: &Request) {
        let Client { number, first_incomplete, .. } = self.clients[client];
        if number != id.client {
            return;
        }
        let attempt = Attempt { id, first_incomplete };
        let before = (self.primary.partition.version(), self.primary.partition.digest(self.now_ms));
        let Some((told, version)) = self.told.get(&(id.client, id.sequence)).cloned() else {
            return;
        };
        let answered = self.answer(request, Some(attempt), true);
        if id.sequence < first_incomplete {
            assert_eq!(answered, Err(OnceError::Forgotten { first_incomplete }));
        } else if answered != Err(OnceError::Refused(memory_limit(&answered))) {
            assert_eq!(answered, Ok((told, version, true)));
            let Recalled::Done(_, found) = self.primary.partition.recall(attempt) else {
                panic!("it was answered from what is remembered")
            };
            assert_eq!(found, version);
        }
        let after = (self.primary.partition.version(), self.primary.partition.digest(self.now_ms));
        assert_eq!(after, before, "a repeated request does nothing");
    }

    fn answer(
        &mut self,
        request: &Request,
        attempt: Option<Attempt>,
        is_repeated: bool,
    ) -> Answered {
        self.uploads += 1;
        let upload = (self.uploads, is_repeated);
        request.ask(&mut self.primary.partition, attempt, upload, self.now_ms)
    }

    /// Has the follower apply what was made, and compares it.
    fn follow(&mut self) {
        let mut made = Vec::new();
        while let Some(entry) = self.primary.partition.take_entry() {
            let bytes = entry.bytes.to_vec();
            assert_eq!(bytes.len() % 8, 0);
            let split: Vec<_> = split_entries(&bytes).collect();
            assert_eq!(split, [(entry.version, &bytes[..])]);
            if let Some(learner) = &mut self.learner {
                learner.push(&bytes);
            }
            made.extend_from_slice(&bytes);
        }
        let (primary, follower) = (&self.primary.partition, &mut self.follower.partition);
        let entries: Vec<_> = split_entries(&made).collect();
        for (version, entry) in entries.iter().copied() {
            let before = follower.digest(self.now_ms);
            let applied = follower.apply_entries(entry, self.now_ms);
            if let Err(ApplyError::Refused { version: of, error }) = applied {
                assert!(of == version && matches!(error, StoreError::MemoryLimit(_)), "{error}");
                assert_eq!(follower.last_entry().sequence() + 1, version.sequence());
                assert_eq!(follower.digest(self.now_ms), before, "nothing of it was applied");
                follower.verify().unwrap();
                // It begins anew where there is more memory.
                let learner = Learner::new(empty(64 << 20, self.seed ^ 3), primary);
                *follower = learner.finish(primary, 40_000, self.now_ms);
                self.follower.victim = None;
                break;
            }
            assert_eq!(applied, Ok(version));
        }
        // What comes twice is not applied twice.
        if let Some((first, _)) = entries.first().copied() {
            let last = follower.last_entry();
            assert_eq!(last, primary.last_entry());
            let again = follower.apply_entries(&made, self.now_ms);
            assert_eq!(again, Err(ApplyError::OutOfSequence { last, found: first }));
        }
        self.entries.extend_from_slice(&made);
        compare(&self.primary.partition, &self.follower.partition, self.now_ms);
    }

    fn change_primary(&mut self) {
        self.follow();
        self.epoch += 1;
        let before = self.follower.partition.last_entry();
        std::mem::swap(&mut self.primary, &mut self.follower);
        let (primary, follower) = (&mut self.primary.partition, &mut self.follower.partition);
        follower.set_recording(false);
        follower.set_following(true);
        follower.set_quota(SMALL, None);
        primary.set_following(false);
        primary.set_recording(true);
        primary.set_quota(SMALL, Some(Arc::clone(&self.quota)));
        primary.begin_epoch(self.epoch).unwrap();
        assert_eq!(primary.last_entry(), before, "an epoch is no entry");
        assert_eq!(primary.version(), Version::new(self.epoch, before.sequence()));
        let fell = ApplyError::EpochFell { last: primary.version(), epoch: self.epoch - 1 };
        assert_eq!(primary.begin_epoch(self.epoch - 1), Err(fell));
        // A learner gets its snapshot from whoever leads.
        self.learner = None;
    }

    fn finish(mut self) {
        let learner = Learner::new(empty(64 << 20, self.seed ^ 5), &self.primary.partition);
        let learnt = learner.finish(&self.primary.partition, 10_000, self.now_ms);
        compare(&self.primary.partition, &learnt, self.now_ms);

        let mut rebuilt = empty(64 << 20, self.seed ^ 9);
        rebuilt.set_following(true);
        rebuilt.apply_entries(&self.entries, self.now_ms).unwrap();
        compare(&self.primary.partition, &rebuilt, self.now_ms);

        for client in &self.clients {
            self.primary.partition.end_client(client.number).unwrap();
        }
        assert_eq!(self.primary.partition.outcome_counts(), (0, 0));
        self.primary.partition.clear();
        assert_eq!(self.primary.partition.stats().objects, 0);
        assert_eq!(self.quota.used_bytes(), 0);
    }
}

/// What nobody promises, if there is little memory.
fn check_refusal(error: OnceError) {
    let OnceError::Refused(error) = error else { panic!("{error}") };
    let is_for_room = matches!(error, StoreError::MemoryLimit(_) | StoreError::QuotaReached { .. });
    assert!(is_for_room, "{error}");
}

fn memory_limit(answered: &Answered) -> StoreError {
    match answered {
        Err(OnceError::Refused(error @ StoreError::MemoryLimit(_))) => *error,
        _ => StoreError::NotANumber,
    }
}

fn empty(limit_bytes: u64, seed: u64) -> Partition {
    let memory = Memory::new(MemoryConfig { limit_bytes }).unwrap();
    memory.keep_back(64 << 10);
    Partition::new(PartitionConfig { id: 1, epoch: 1, seed, memory }).unwrap()
}

fn compare(primary: &Partition, replica: &Partition, now_ms: u64) {
    replica.verify().unwrap();
    assert_eq!(replica.last_entry(), primary.last_entry());
    assert_eq!(replica.outcome_counts(), primary.outcome_counts());
    assert_eq!(replica.digest(now_ms), primary.digest(now_ms));
    let tables =
        |partition: &Partition| partition.table_uses().map(|of| of.table).collect::<Vec<_>>();
    assert_eq!(tables(replica), tables(primary));
}

fn step() -> impl Strategy<Value = Step> {
    let table = || (0_u16..3).prop_map(TableId);
    prop_oneof![
        30 => (prop::option::weighted(0.8, 0..CLIENTS), request())
            .prop_map(|(client, request)| Step::Ask { client, request }),
        10 => any::<prop::sample::Index>().prop_map(Step::Repeat),
        3 => (0..CLIENTS, 0_u64..4).prop_map(|(client, count)| Step::Receive { client, count }),
        1 => (0..CLIENTS).prop_map(Step::EndClient),
        2 => (0_u64..20).prop_map(|ms| Step::Wait { ms }),
        2 => (any::<bool>(), 1_usize..40)
            .prop_map(|(of_follower, buckets)| Step::Sweep { of_follower, buckets }),
        4 => (any::<bool>(), 30_u8..=100, 1_usize..100_000).prop_map(
            |(of_follower, percent, budget)| Step::Clean { of_follower, percent, budget }
        ),
        2 => (1_usize..400).prop_map(|buckets| Step::Evict { buckets }),
        1 => table().prop_map(Step::Truncate),
        1 => (1_u16..3, any::<bool>())
            .prop_map(|(table, ordered)| Step::Recreate { table: TableId(table), ordered }),
        1 => (table(), any::<bool>()).prop_map(|(table, evicts)| Step::Alter { table, evicts }),
        6 => (any::<u8>(), any::<bool>()).prop_map(|(key, drops)| Step::Brief { key, drops }),
        2 => (0_usize..8).prop_map(|entries_before| Step::BeginSnapshot { entries_before }),
        6 => (1_usize..60_000).prop_map(|budget| Step::SendPart { budget }),
        4 => (1_usize..8).prop_map(|count| Step::ApplyEntries { count }),
        6 => any::<bool>().prop_map(|is_repeated| Step::ApplyPart { is_repeated }),
        2 => (1_usize..60_000).prop_map(|budget| Step::EndSnapshot { budget }),
        1 => Just(Step::ChangePrimary),
    ]
}

proptest! {
    #[test]
    fn replicas_are_the_same(
        limit_kib in prop_oneof![Just(400_u64), Just(1_500), Just(20_000)],
        seed: u64,
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut cluster = Cluster::new(limit_kib << 10, seed);
        for step in steps {
            cluster.take(step);
        }
        cluster.finish();
    }
}
