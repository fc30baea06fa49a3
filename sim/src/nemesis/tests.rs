//! Plans are carried out, counted and healed.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weft_server::durable::Disk as _;
use weft_transport::{
    Batch, EndpointConfig, Handler, Incarnation, IncomingKind, Memory, MemoryConfig, NodeId,
    SimConfig,
};

use super::*;

const MILLI: Duration = Duration::from_millis(1);

fn play(kinds: &[Kind], seed: u64) -> (World, Vec<MemberId>, Nemesis) {
    let network = SimConfig { seed: 0, delay: MILLI..2 * MILLI, loss: 0.0, partial: 0.0 };
    let mut world = World::new(seed, network);
    let hosts: Vec<MemberId> =
        (1..=3).map(|host| world.add_host([10, 0, 0, host].into(), None)).collect();
    hosts.iter().for_each(|host| live(&mut world, *host));
    let mut random = StdRng::seed_from_u64(seed);
    let swarm = Swarm {
        kinds: kinds.to_vec(),
        interval: 20 * MILLI,
        lasts_max: 100 * MILLI,
        faults_max: 30,
    };
    let plan = Plan::draw(&mut random, &swarm);
    let nemesis = Nemesis::new(plan, &world, hosts.clone(), Vec::new());
    (world, hosts, nemesis)
}

struct Echo;

impl Handler for Echo {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            if let IncomingKind::Call(call) = incoming.kind {
                batch.reply(call, incoming.body);
            }
        }
    }
}

/// A host that keeps calling the others.
fn live(world: &mut World, member: MemberId) {
    let memory = Memory::new(MemoryConfig { limit_bytes: 16 << 20 }).unwrap();
    let IpAddr::V4(address) = world.address(member) else { panic!("they have been given such") };
    let own = address.octets()[3];
    let config = EndpointConfig::new(NodeId(own.into()), Incarnation(world.life(member)), memory);
    let endpoint = world.add_endpoint(member, config, Arc::new(Echo)).unwrap();
    endpoint.listen(SocketAddr::new(address.into(), 7400)).unwrap();
    let (disk, clock) = (world.disk(member), endpoint.clone());
    world.spawn_background(member, async move {
        for number in 0_u64.. {
            // Whether or not the disk does it.
            let late = {
                let (name, mut disk) = (number.to_string(), disk.lock());
                let _ = disk.create(&name, 1).and_then(|()| disk.append(&name, b"x"));
                let _ = disk.sync(&name).and_then(|()| disk.remove(&name));
                disk.delay()
            };
            clock.sleep_until(clock.clock().now() + 5 * MILLI + late).await;
        }
    });
    for other in (1..=3).filter(|other| *other != own) {
        let endpoint = endpoint.clone();
        world.spawn_background(member, async move {
            let address = SocketAddr::from(([10, 0, 0, other], 7400));
            loop {
                let deadline = endpoint.clock().now() + 20 * MILLI;
                // Whether or not anybody answers.
                if let Ok(connection) = endpoint.connect(address, deadline).await {
                    let _ = connection.call(&b"hello"[..], deadline).await;
                }
                endpoint.sleep_until(deadline).await;
            }
        });
    }
}

fn run(world: &mut World, nemesis: &mut Nemesis) {
    let mut restart = |world: &mut World, member, fate| {
        world.restart(member, fate, |world| live(world, member));
    };
    while let Some(at) = nemesis.next_at() {
        world.go_on_until(at).unwrap();
        nemesis.act(world, 0, &mut restart);
    }
    nemesis.heal(world, 0, &mut restart);
}

#[test]
fn every_kind_of_fault_comes_about_and_bites() {
    let mut counts = Counts::default();
    for kind in Kind::ALL {
        let (mut world, hosts, mut nemesis) = play(&[kind], 5);
        world.go_on_until(world.clock().now() + 100 * MILLI).unwrap();
        run(&mut world, &mut nemesis);
        assert!(hosts.iter().all(|host| world.is_up(*host)), "{kind:?}");
        counts.add(nemesis.counts());
    }
    for kind in Kind::ALL.into_iter() {
        let Count { injected, bit } = counts.of(kind);
        assert!(injected > 3 && bit > 0, "{kind:?}: {injected} injected, {bit} bit");
    }
}

#[test]
fn everybody_lives_and_hears_everybody_in_the_end() {
    for seed in 0..10 {
        let (mut world, hosts, mut nemesis) = play(&Kind::ALL, seed);
        run(&mut world, &mut nemesis);
        assert_eq!(nemesis.next_at(), None);
        assert!(hosts.iter().all(|host| world.is_up(*host)));
        let before = world.network().counters();
        world.go_on_until(world.clock().now() + Duration::from_secs(2)).unwrap();
        let after = world.network().counters();
        assert_eq!(before.connects_held, after.connects_held, "seed {seed}");
    }
}

#[test]
fn a_plan_without_a_fault_is_otherwise_the_same() {
    let (_, _, nemesis) = play(&Kind::ALL, 3);
    let whole = nemesis.plan;
    let less = whole.clone().without(&[0, 4]);
    assert_eq!(less.faults.len(), whole.faults.len() - 2);
    assert_eq!([&less.faults[0], &less.faults[3]], [&whole.faults[1], &whole.faults[5]]);
}

/// Whose hosts take some looks to end, and begin another life then.
#[derive(Default)]
struct Patient {
    looks: u32,
    started: u32,
}

impl Hand for Patient {
    fn restart(&mut self, world: &mut World, member: MemberId, fate: DiskFate) {
        world.restart(member, fate, |world| live(world, member));
    }

    fn stop(&mut self, _: &mut World, _: MemberId) -> bool {
        true
    }

    fn start(&mut self, world: &mut World, member: MemberId) -> bool {
        self.looks += 1;
        let has_ended = self.looks.is_multiple_of(3);
        if has_ended {
            self.started += 1;
            world.crash(member, SimCrash::Process);
            self.restart(world, member, DiskFate::Kept);
        }
        has_ended
    }
}

#[test]
fn what_was_told_to_end_is_started_again_when_it_has() {
    let (mut world, hosts, mut nemesis) = play(&[Kind::Stop], 5);
    let mut patient = Patient::default();
    while let Some(at) = nemesis.next_at() {
        world.go_on_until(at).unwrap();
        nemesis.act(&mut world, 0, &mut patient);
    }
    let Count { injected, .. } = nemesis.counts().of(Kind::Stop);
    assert!(injected > 3, "{injected} were told");
    assert_eq!((u64::from(patient.started), patient.looks), (injected, 3 * patient.started));
    assert!(hosts.iter().all(|host| world.is_up(*host)));
}

#[test]
fn the_faults_of_two_plans_come_in_their_order() {
    let (_, _, calm) = play(&Kind::ALL, 3);
    let (_, _, busy) = play(&[Kind::Stop], 4);
    let both = calm.plan.clone().and(busy.plan.clone());
    assert_eq!(both.faults.len(), calm.plan.faults.len() + busy.plan.faults.len());
    assert!(both.faults.is_sorted_by_key(|fault| fault.after));
    assert_eq!(both.clone().first(Some(2)).faults, both.faults[..2]);
    assert_eq!(both.clone().first(None), both);
}
