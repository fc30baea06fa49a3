//! Three replicas by hand, in situations that the model seldom or never comes into.

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
            Node { replica, leases, applies: true, syncs: true, has_contradicted: false }
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
        let configuration = Configuration {
            epoch,
            primary: Some(member(primary)),
            members: members.iter().copied().map(member).collect(),
            learners: Vec::new(),
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

    /// Delivers what a node has to say, if its receiver hears it; whether there was anything.
    fn deliver(&mut self, from: usize, who: &[usize]) -> bool {
        let now = self.now;
        let mut said = Vec::new();
        let speaker = &mut self.nodes[from].replica;
        while let Some((to, message)) = speaker.poll_message(now) {
            let mut bytes = vec![0; message.len()];
            message.write(&mut bytes);
            said.push((index(to), bytes));
        }
        let acknowledged = speaker.poll_acknowledgement();
        let has_said = !said.is_empty() || acknowledged.is_some();
        for (to, bytes) in said.iter().filter(|(to, _)| who.contains(to)) {
            let message = PeerMessage::decode(bytes).unwrap();
            let listener = &mut self.nodes[*to];
            assert_eq!(listener.replica.handle(member(from), &message, now), Handled::Done);
            listener.carry_out();
        }
        if let Some((to, acknowledgement)) =
            acknowledged.filter(|(to, _)| who.contains(&index(*to)))
        {
            let listener = &mut self.nodes[index(to)];
            listener.replica.acknowledged(member(from), &acknowledgement, now);
            listener.carry_out();
        }
        has_said
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
