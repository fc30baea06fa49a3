//! Three replicas by hand, in situations that the model seldom or never comes into.

mod learners;

use std::sync::Arc;
use std::time::Duration;

use weft_protocol::replication::{Entry, PeerMessage};
use weft_protocol::{Configuration, Member, PartitionId, Version};
use weft_transport::{Body, Incarnation, NodeId, Time};

use super::{Effect, Handled, LeaseSettings, Leases, Replica, Settings};

/// The nodes by what they are at first and later: the primary, the next one, and the rest.
const FORMER: usize = 0;
const NEXT: usize = 1;
const REST: usize = 2;
const ALL: [usize; 3] = [FORMER, NEXT, REST];

struct Node {
    replica: Replica,
    leases: Arc<Leases>,
    /// Whether effects are carried out, or the store is slow.
    applies: bool,
    /// Whether what was applied is on disk at once, or the disk is slow.
    syncs: bool,
    has_contradicted: bool,
    /// What the coordinator was told.
    said: Vec<Effect>,
}

struct Nodes {
    nodes: [Node; 3],
    now: Time,
}

fn member(index: usize) -> Member {
    Member { node: NodeId(index as u64 + 1), incarnation: Incarnation(1) }
}

fn index(member: Member) -> usize {
    member.node.0 as usize - 1
}

impl Nodes {
    /// All of them members in epoch 1, and the first one serves.
    fn new() -> Nodes {
        Nodes::with(&Settings::default())
    }

    fn with(settings: &Settings) -> Nodes {
        let nodes = ALL.map(|index| {
            let leases = Arc::new(Leases::new(LeaseSettings::default(), Time::ZERO, false));
            let (id, settings) = (PartitionId(0), settings.clone());
            let replica = Replica::new(id, member(index), settings, Arc::clone(&leases));
            Node {
                replica,
                leases,
                applies: true,
                syncs: true,
                has_contradicted: false,
                said: Vec::new(),
            }
        });
        let mut nodes = Nodes { nodes, now: Time::ZERO };
        nodes.told(&ALL, 1, FORMER, &ALL);
        nodes.exchange(&ALL);
        // That nobody was granted a lease before is said in whole milliseconds.
        nodes.pass(Duration::from_millis(2));
        nodes.lease(&ALL);
        assert!(nodes.reads(FORMER));
        nodes
    }

    /// These are told of this epoch, which came with a version of the map of the same number.
    fn told(&mut self, who: &[usize], epoch: u32, primary: usize, members: &[usize]) {
        self.told_of_learners(who, epoch, primary, members, &[]);
    }

    fn told_of_learners(
        &mut self,
        who: &[usize],
        epoch: u32,
        primary: usize,
        members: &[usize],
        learners: &[usize],
    ) {
        let configuration = Configuration {
            epoch,
            primary: Some(member(primary)),
            members: members.iter().copied().map(member).collect(),
            learners: learners.iter().copied().map(member).collect(),
            min_in_sync: 1,
            is_lost: false,
        };
        for &index in who {
            let node = &mut self.nodes[index];
            node.replica.configure(&configuration, epoch.into(), self.now);
            node.leases.learned(epoch.into());
            node.carry_out();
        }
    }

    /// Has these, and no others, hear each other until nobody has anything to say.
    fn exchange(&mut self, who: &[usize]) {
        while who.iter().any(|&from| self.deliver(from, who)) {}
    }

    /// What a node has to say, and to whom.
    fn say(&mut self, from: usize) -> Vec<(usize, Vec<u8>)> {
        let now = self.now;
        let mut said = Vec::new();
        let speaker = &mut self.nodes[from].replica;
        while let Some((to, message)) = speaker.poll_message(now) {
            let mut bytes = vec![0; message.len()];
            message.write(&mut bytes);
            said.push((index(to), bytes));
        }
        said
    }

    /// Delivers what a node has to say, if its receiver hears it; whether there was anything.
    fn deliver(&mut self, from: usize, who: &[usize]) -> bool {
        let now = self.now;
        let said = self.say(from);
        let acknowledged = self.nodes[from].replica.poll_acknowledgement();
        for (to, bytes) in said.iter().filter(|(to, _)| who.contains(to)) {
            self.hear(from, *to, bytes);
        }
        let is_heard = |(to, _): &(Member, _)| who.contains(&index(*to));
        if let Some((to, acknowledgement)) = acknowledged.filter(is_heard) {
            let listener = &mut self.nodes[index(to)];
            listener.replica.acknowledged(member(from), &acknowledgement, now);
            listener.carry_out();
        }
        !said.is_empty() || acknowledged.is_some()
    }

    fn hear(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let message = PeerMessage::decode(bytes).unwrap();
        let listener = &mut self.nodes[to];
        assert_eq!(listener.replica.handle(member(from), &message, self.now), Handled::Done);
        listener.carry_out();
    }

    /// Each of these grants each other of them a lease.
    fn lease(&mut self, who: &[usize]) {
        for &holder in who {
            for &grantor in who.iter().filter(|grantor| **grantor != holder) {
                let lease = self.nodes[holder].leases.request(self.now);
                let grant =
                    self.nodes[grantor].leases.handle_lease(member(holder), &lease, self.now);
                self.nodes[holder].leases.handle_grant(member(grantor), &grant.unwrap(), self.now);
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        for node in &mut self.nodes {
            node.replica.tick(self.now);
            node.carry_out();
        }
    }

    /// The primary makes an entry.
    fn write(&mut self, index: usize) -> Version {
        let replica = &mut self.nodes[index].replica;
        let version = replica.next_version().unwrap();
        replica.record(Entry { version, bytes: b"an entry" }).unwrap();
        self.nodes[index].carry_out();
        version
    }

    fn serves(&self, index: usize) -> bool {
        self.nodes[index].replica.is_serving()
    }

    fn reads(&self, index: usize) -> bool {
        self.nodes[index].replica.may_read(self.now)
    }
}

impl Node {
    fn carry_out(&mut self) {
        if !self.applies {
            return;
        }
        while let Some(effect) = self.replica.poll_effect() {
            match effect {
                Effect::Apply { last, .. } => self.replica.applied(last),
                Effect::Contradiction { .. } => self.has_contradicted = true,
                // Its store holds nothing.
                Effect::Feed { learner, session } => self.replica.snapshot_done(learner, session),
                Effect::Unreachable { .. }
                | Effect::Answers { .. }
                | Effect::GivenUp { .. }
                | Effect::CaughtUp { .. } => self.said.push(effect),
                _ => {}
            }
        }
        if self.syncs {
            self.replica.synced(self.replica.last().sequence());
        }
    }
}

/// The next one is named in epoch 2 and fences the rest; the former one hears nothing of it, is named again in epoch 3, of which the next one hears
/// nothing, and goes on. Who `hears_of_3` besides the former one?
fn passed_to_and_fro(hears_of_3: &[usize]) -> Nodes {
    let mut nodes = Nodes::new();
    nodes.told(&[NEXT, REST], 2, NEXT, &ALL);
    nodes.exchange(&[NEXT, REST]);
    nodes.told(&[FORMER], 3, FORMER, &ALL);
    nodes.told(hears_of_3, 3, FORMER, &ALL);
    nodes.pass(Duration::from_millis(50));
    // Leases get through, whatever else does not.
    nodes.lease(&ALL);
    assert!(nodes.serves(FORMER) && nodes.reads(FORMER));
    nodes
}

/// What members said to a primary before another one was primary in between is of no use to it: that one may read.
#[test]
fn who_was_passed_over_for_an_epoch_waits_for_those_who_were_not() {
    for hears_of_3 in [&[REST][..], &[]] {
        let mut nodes = passed_to_and_fro(hears_of_3);
        nodes.told(&[NEXT], 4, NEXT, &[NEXT, REST]);
        nodes.exchange(&[NEXT, REST]);
        for _ in 0..100 {
            assert!(!(nodes.serves(NEXT) && nodes.reads(FORMER)), "{hears_of_3:?}");
            nodes.pass(Duration::from_millis(10));
            nodes.lease(&ALL);
            nodes.exchange(&[NEXT, REST]);
        }
        assert!(nodes.serves(NEXT) && !nodes.reads(FORMER), "{hears_of_3:?}");
    }
}

/// Nor does it go by what they had then.
#[test]
fn who_was_passed_over_for_an_epoch_adopts_what_was_made_in_it() {
    let mut nodes = passed_to_and_fro(&[REST]);
    let version = nodes.write(FORMER);
    nodes.exchange(&[FORMER, REST]);
    assert_eq!(nodes.nodes[REST].replica.last(), version);
    nodes.told(&[NEXT, REST], 4, NEXT, &[NEXT, REST]);
    for _ in 0..100 {
        nodes.exchange(&[NEXT, REST]);
        nodes.pass(Duration::from_millis(10));
    }
    assert!(nodes.serves(NEXT));
    assert_eq!(nodes.nodes[NEXT].replica.last(), version);
    assert!(nodes.nodes.iter().all(|node| !node.has_contradicted));
}

/// A primary that has served goes on when it missed that another one was named, who cannot have come further than to ask it.
#[test]
fn who_serves_goes_on_over_an_epoch_in_which_nobody_did() {
    let mut nodes = passed_to_and_fro(&[NEXT, REST]);
    let version = nodes.write(FORMER);
    nodes.exchange(&ALL);
    assert!(ALL.iter().all(|index| nodes.nodes[*index].replica.last() == version));
    assert_eq!(nodes.nodes[FORMER].replica.committed(), version.sequence());
}

/// Who takes over from a primary that lives waits for nothing but its own store.
#[test]
fn who_is_handed_a_partition_serves_as_soon_as_it_has_applied_what_it_adopted() {
    let mut nodes = Nodes::new();
    let version = nodes.write(FORMER);
    nodes.exchange(&[FORMER, REST]);
    nodes.nodes[NEXT].applies = false;
    nodes.told(&ALL, 2, NEXT, &ALL);
    nodes.exchange(&ALL);
    assert!(!nodes.serves(NEXT) && nodes.nodes[NEXT].replica.last() == version);
    nodes.nodes[NEXT].applies = true;
    nodes.nodes[NEXT].carry_out();
    assert!(nodes.serves(NEXT));
}

/// A member of which all that is awaited is its disk says what it has when it is sent that again, and so gets what is new.
#[test]
fn who_waits_for_its_disk_is_not_sent_what_it_has() {
    let settings = Settings { is_synced: true, append_bytes: 100, ..Settings::default() };
    let mut nodes = Nodes::with(&settings);
    nodes.nodes[NEXT].syncs = false;
    for round in 0..5 {
        for _ in 0..50 {
            nodes.write(FORMER);
        }
        let version = nodes.write(FORMER);
        nodes.exchange(&ALL);
        assert_eq!(nodes.nodes[NEXT].replica.last(), version, "round {round}");
        nodes.pass(settings.resend_after * 3 / 2);
        nodes.lease(&ALL);
        nodes.exchange(&ALL);
    }
    assert_eq!(nodes.nodes[FORMER].replica.committed(), 0);
    nodes.nodes[NEXT].syncs = true;
    nodes.nodes[NEXT].carry_out();
    nodes.exchange(&ALL);
    assert_eq!(nodes.nodes[FORMER].replica.committed(), 5 * 51);
}

/// However much is sent to it again, it says that once, or each answer would have more sent.
#[test]
fn who_is_sent_much_again_says_once_that_it_has_it() {
    let settings = Settings { is_synced: true, append_bytes: 100, ..Settings::default() };
    let mut nodes = Nodes::with(&settings);
    nodes.nodes[NEXT].syncs = false;
    for _ in 0..50 {
        nodes.write(FORMER);
    }
    nodes.exchange(&ALL);
    nodes.pass(settings.resend_after / 2);
    // The connection was lost.
    let now = nodes.now;
    nodes.nodes[FORMER].replica.connected(member(NEXT).node, now);
    let again: Vec<_> = nodes.say(FORMER).into_iter().filter(|(to, _)| *to == NEXT).collect();
    assert!(again.len() > 10, "{}", again.len());
    let mut answers = 0;
    for (to, bytes) in &again {
        nodes.hear(FORMER, *to, bytes);
        answers += nodes.say(NEXT).len();
    }
    assert_eq!(answers, 1);
}

/// What a node has from before the partition began anew is no part of it, though it learns of that before of any configuration.
#[test]
fn what_was_recovered_of_a_partition_that_was_lost_is_dropped() {
    let recovered = || {
        let leases = Arc::new(Leases::new(LeaseSettings::default(), Time::ZERO, true));
        let entries = [Entry { version: Version::new(2, 1), bytes: b"an entry" }];
        let (id, settings) = (PartitionId(0), Settings::default());
        Replica::recovered(id, member(NEXT), settings, leases, Version::NONE, entries, 3)
    };
    let mut replica = recovered();
    replica.begin_anew_if_before(4);
    assert_eq!((replica.last(), replica.is_in_sync()), (Version::NONE, false));
    // Of what began before it was written there is nothing to be dropped.
    let mut replica = recovered();
    replica.begin_anew_if_before(2);
    assert_eq!((replica.last(), replica.is_in_sync()), (Version::new(2, 1), true));
}

/// Nor does a node that has not heard of it bring any of that back, whoever asks it what it has.
#[test]
fn who_slept_through_a_loss_brings_nothing_back() {
    let mut nodes = Nodes::new();
    nodes.write(FORMER);
    nodes.exchange(&ALL);
    let holders = [FORMER, NEXT];
    nodes.nodes[FORMER].replica.begin_anew_if_before(4);
    nodes.told(&[FORMER], 4, FORMER, &holders);
    for _ in 0..10 {
        nodes.exchange(&holders);
        nodes.pass(Duration::from_millis(200));
    }
    assert!(!nodes.serves(FORMER) && nodes.nodes[FORMER].replica.last() == Version::NONE);
    nodes.nodes[NEXT].replica.begin_anew_if_before(4);
    nodes.told(&[NEXT], 4, FORMER, &holders);
    for _ in 0..10 {
        nodes.pass(Duration::from_millis(200));
        nodes.exchange(&holders);
    }
    assert!(nodes.serves(FORMER));
    assert!(holders.iter().all(|index| nodes.nodes[*index].replica.last() == Version::NONE));
    let version = nodes.write(FORMER);
    nodes.exchange(&holders);
    assert_eq!(nodes.nodes[NEXT].replica.last(), version);
}
