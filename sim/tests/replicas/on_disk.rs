//! Tables of `fsync` on whole nodes: nodes lose power, one or all at once, and nothing that was acknowledged is lost.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use rand::RngExt;
use weft_client::{Client, Lookup};
use weft_protocol::{Durability, TableOptions};
use weft_sim::world::DiskFate;

use super::{Play, placements};

fn fsync(replicas: u8) -> TableOptions {
    TableOptions { replicas, durability: Durability::Fsync, ..TableOptions::default() }
}

impl Play {
    fn begin_again(&mut self, index: usize, fate: DiskFate) {
        if fate == DiskFate::Wiped {
            self.nodes[index].last_life = None;
        }
        self.restart_with(index, fate);
    }

    /// Starts with a table that is kept on disk.
    fn on_disk(seed: u64, nodes: u64, replicas: u8) -> Play {
        let mut play = Play::with(seed, nodes, fsync(replicas));
        play.go_on(Duration::from_secs(1));
        play
    }
}

/// What a writer was told.
#[derive(Default)]
struct Log {
    acknowledged: Vec<u32>,
    failed: u32,
    is_ended: bool,
}

/// Writes keys one after the other, each once, until it is told to end.
async fn write(client: Client, log: Rc<RefCell<Log>>, first: u32) {
    for number in first.. {
        if log.borrow().is_ended {
            return;
        }
        match client.put(format!("key-{number}"), value(number)).await {
            Ok(_) => log.borrow_mut().acknowledged.push(number),
            Err(_) => log.borrow_mut().failed += 1,
        }
        let next = client.endpoint().clock().now() + Duration::from_millis(1);
        client.endpoint().sleep_until(next).await;
    }
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 1 + number as usize % 700]
}

async fn read_all(client: Client, numbers: Vec<u32>, seen: Rc<RefCell<usize>>) {
    for number in numbers {
        match client.get(format!("key-{number}")).await {
            Ok(Lookup::Found(found)) => assert_eq!(*found, value(number)[..], "key {number}"),
            Ok(Lookup::Absent { .. }) => panic!("key {number} was acknowledged, and is gone"),
            Err(error) => panic!("key {number}: {error}"),
        }
        *seen.borrow_mut() += 1;
    }
}

impl Play {
    fn begin_writing(&mut self) -> Rc<RefCell<Log>> {
        let log = Rc::new(RefCell::new(Log::default()));
        for writer in 0..3 {
            let (connected, log) = (self.client(1 + writer), Rc::clone(&log));
            let first = writer as u32 * 1_000_000;
            self.world.spawn(async move { write(connected.await, log, first).await });
        }
        log
    }

    /// All that was acknowledged is there. Returns how much that is.
    fn check(&mut self, log: &Rc<RefCell<Log>>) -> usize {
        log.borrow_mut().is_ended = true;
        self.go_on(Duration::from_secs(6));
        let acknowledged = log.borrow().acknowledged.clone();
        let (seen, count) = (Rc::new(RefCell::new(0)), acknowledged.len());
        let (connected, seeing) = (self.client(9), Rc::clone(&seen));
        self.world.spawn(async move { read_all(connected.await, acknowledged, seeing).await });
        self.go_on(Duration::from_secs(10));
        assert_eq!(*seen.borrow(), count);
        self.check_digests();
        count
    }
}

#[test]
fn a_node_that_lost_power_keeps_its_place() {
    let mut play = Play::on_disk(1, 3, 3);
    let log = play.begin_writing();
    play.go_on(Duration::from_secs(1));
    for index in 0..3 {
        play.crash(index);
        play.go_on(Duration::from_millis(100));
        play.begin_again(index, DiskFate::Torn);
        let (me, _) = play.nodes[index].life.clone().expect("it has just begun");
        let partitions = play.state.partitions();
        let places = partitions.filter(|(_, partition)| partition.configuration.has_member(me));
        assert_eq!(places.count(), 4);
        play.go_on(Duration::from_secs(3));
    }
    assert!(play.check(&log) > 500);
    for (id, partition) in play.state.partitions() {
        assert_eq!(partition.configuration.members.len(), 3, "{id}: {partition:?}");
    }
}

/// A coordinator that has not heard yet that a node is back tells it of the time before.
#[test]
fn what_was_committed_before_a_life_costs_that_nothing() {
    let mut play = Play::on_disk(4, 3, 3);
    let log = play.begin_writing();
    play.go_on(Duration::from_secs(1));
    (0..3).for_each(|index| play.crash(index));
    let map = play.state.cluster_map().expect("there are partitions");
    let before = placements(&play.state);
    for index in 0..3 {
        play.begin_again(index, DiskFate::Torn);
        let (_, handler) = play.nodes[index].life.clone().expect("it has just begun");
        handler.learn(map.clone(), &before).expect("the world is made for it");
    }
    play.go_on(Duration::from_secs(3));
    assert!(play.check(&log) > 100);
}

#[test]
fn all_nodes_lose_power_at_once_and_have_all_that_was_acknowledged() {
    let mut play = Play::on_disk(2, 3, 3);
    let log = play.begin_writing();
    for _ in 0..3 {
        play.go_on(Duration::from_millis(1500));
        (0..3).for_each(|index| play.crash(index));
        play.go_on(Duration::from_millis(200));
        (0..3).for_each(|index| play.begin_again(index, DiskFate::Torn));
        play.go_on(Duration::from_secs(2));
    }
    assert!(play.check(&log) > 500);
}

/// Has the first node begin anew, without its disk, and become a member of everything; then all lose power, and the others their disks. Whether writes go on meanwhile
/// makes a difference: a learner that has nothing to acknowledge has to wait for its disk as well.
fn be_given_everything_and_be_left_alone_with_it(seed: u64, writes_meanwhile: bool) {
    let mut play = Play::on_disk(seed, 3, 3);
    let log = play.begin_writing();
    play.go_on(Duration::from_secs(1));
    log.borrow_mut().is_ended = !writes_meanwhile;
    play.crash(0);
    play.go_on(Duration::from_secs(3));
    if !writes_meanwhile {
        play.disk_takes = Duration::from_millis(100)..Duration::from_millis(300);
    }
    play.begin_again(0, DiskFate::Wiped);
    let (me, _) = play.nodes[0].life.clone().expect("it has just begun");
    let is_member = |play: &Play| {
        play.state.partitions().all(|(_, partition)| partition.configuration.has_member(me))
    };
    assert!(!is_member(&play));
    let mut waited = 0;
    while !is_member(&play) {
        play.go_on(Duration::from_millis(10));
        waited += 1;
        assert!(waited < 3000, "it becomes a member");
    }
    (0..3).for_each(|index| play.crash(index));
    // Until it is known that they are down: they will not say that they have been there before.
    play.go_on(Duration::from_secs(3));
    play.disk_takes = Duration::from_micros(50)..Duration::from_millis(5);
    play.begin_again(0, DiskFate::Torn);
    (1..3).for_each(|index| play.begin_again(index, DiskFate::Wiped));
    play.go_on(Duration::from_secs(3));
    assert!(play.check(&log) > 100);
}

#[test]
fn who_was_given_everything_has_it_though_all_others_lose_their_disks() {
    (10..15).for_each(|seed| be_given_everything_and_be_left_alone_with_it(seed, true));
}

#[test]
fn a_learner_is_no_member_before_its_snapshot_is_on_disk() {
    (20..23).for_each(|seed| be_given_everything_and_be_left_alone_with_it(seed, false));
}

#[test]
fn a_node_that_is_alone_acknowledges_what_it_still_has_after_a_crash() {
    let mut play = Play::on_disk(3, 1, 1);
    let log = play.begin_writing();
    for _ in 0..6 {
        play.go_on(Duration::from_millis(700));
        play.crash(0);
        play.go_on(Duration::from_millis(50));
        play.begin_again(0, DiskFate::Torn);
        play.go_on(Duration::from_secs(2));
    }
    assert!(play.check(&log) > 500);
}

#[test]
fn nodes_that_lose_power_at_any_time_lose_nothing() {
    for seed in 100..112 {
        let mut play = Play::on_disk(seed, 3, 3);
        let log = play.begin_writing();
        for _ in 0..6 {
            let wait = play.random.random_range(50..1500);
            play.go_on(Duration::from_millis(wait));
            let count = play.random.random_range(1..=3);
            let first = play.random.random_range(0..3);
            let down: Vec<usize> = (first..first + count).map(|index| index % 3).collect();
            down.iter().for_each(|index| play.crash(*index));
            let wait = play.random.random_range(0..1000);
            play.go_on(Duration::from_millis(wait));
            down.iter().for_each(|index| play.begin_again(*index, DiskFate::Torn));
        }
        play.go_on(Duration::from_secs(3));
        assert!(play.check(&log) > 100, "seed {seed}");
    }
}
