//! Hosts live, die and come back around whatever a builder makes: here nodes that echo, keep a count of
//! their lives on disk, and tell each other that they live.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weft_server::durable::Disk as _;
use weft_transport::{
    Batch, Endpoint, EndpointConfig, Handler, Incarnation, IncomingKind, Memory, MemoryConfig,
    NodeId,
};

use super::*;

const PORT: u16 = 7400;
const HEARTBEAT: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Echoes {
    answered: Rc<Cell<u64>>,
    failed: Rc<Cell<u64>>,
    lives: Vec<(Role, u32, Begins, usize)>,
    addresses: Vec<SocketAddr>,
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

async fn call(endpoint: &Endpoint, address: SocketAddr, timeout: Duration) -> bool {
    let deadline = endpoint.clock().now() + timeout;
    match endpoint.connect(address, deadline).await {
        Ok(connection) => connection.call(&b"hello"[..], deadline).await.is_ok(),
        Err(_) => false,
    }
}

impl Builder for Echoes {
    fn build(
        &mut self,
        world: &mut World,
        place: Place,
        options: &Options,
    ) -> Result<(), BuildError> {
        let Place { member, role, number, begins } = place;
        let memory = Memory::new(MemoryConfig { limit_bytes: 16 << 20 })?;
        let id = u64::from(number) + 1 + 100 * role as u64;
        let config = EndpointConfig::new(NodeId(id), Incarnation(world.life(member)), memory);
        let endpoint = world.add_endpoint(member, config, Arc::new(Echo))?;
        if role == Role::Client {
            let (answered, failed) = (Rc::clone(&self.answered), Rc::clone(&self.failed));
            let (addresses, operations) = (self.addresses.clone(), options.operations);
            let (think, timeout) = (options.think, options.timeout);
            world.spawn_on(member, async move {
                for operation in 0..operations as usize {
                    let address = addresses[operation % addresses.len()];
                    let told =
                        if call(&endpoint, address, timeout).await { &answered } else { &failed };
                    told.set(told.get() + 1);
                    endpoint.sleep_until(endpoint.clock().now() + think).await;
                }
            });
            return Ok(());
        }
        let address = SocketAddr::new(world.address(member), PORT);
        endpoint.listen(address)?;
        if begins == Begins::Anew {
            self.addresses.push(address);
        }
        let disk = world.disk(member);
        let mut disk = disk.lock();
        if disk.read("lives").is_none() {
            disk.create("lives", 0).expect("the disk is empty");
        }
        disk.append("lives", b"x").expect("nobody has made it fail");
        disk.sync("lives").expect("nobody has made it fail");
        disk.sync_names().expect("nobody has made it fail");
        let lives = disk.read("lives").expect("it has been written").len();
        self.lives.push((role, number, begins, lives));
        let others = self.addresses.clone();
        world.spawn_background(member, async move {
            loop {
                for other in others.iter().filter(|other| **other != address) {
                    // Whether or not it lives.
                    let _ = call(&endpoint, *other, HEARTBEAT).await;
                }
                endpoint.sleep_until(endpoint.clock().now() + HEARTBEAT).await;
            }
        });
        Ok(())
    }

    fn failed(&self) -> u64 {
        self.failed.get()
    }

    fn state(&self, _options: &Options) -> String {
        String::new()
    }

    fn converge(&mut self, world: &mut World, _options: &Options) -> Result<(), Failure> {
        let before = world.clock().now();
        world.go_on_until(before + Duration::from_secs(1))?;
        Ok(())
    }
}

#[test]
fn hosts_come_back_with_what_their_disks_have_kept() {
    let (mut lives, mut faults) = (Vec::new(), nemesis::Counts::default());
    let (mut answered, mut failed) = (0, 0);
    for seed in 0..20 {
        let mut play = Play::draw(seed, &Caps::default());
        let mut echoes = Echoes::default();
        play.run(&mut echoes).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        let nodes = play.options.coordinators + play.options.storage_nodes;
        assert_eq!(play.members(Role::Client).count() as u32, play.options.clients);
        let first = echoes.lives.iter().filter(|(_, _, begins, _)| *begins == Begins::Anew);
        assert_eq!(first.count() as u32, nodes);
        let everybody = [Role::Coordinator, Role::Storage, Role::Client];
        for member in everybody.into_iter().flat_map(|role| play.members(role)) {
            assert!(play.world.is_up(member));
        }
        let asked = play.options.clients * play.options.operations;
        assert_eq!(echoes.answered.get() + echoes.failed.get(), u64::from(asked));
        faults.add(&play.faults);
        lives.extend(echoes.lives);
        (answered, failed) = (answered + echoes.answered.get(), failed + echoes.failed.get());
    }
    assert!(answered > 10 * failed && failed > 0, "{answered} answered, {failed} failed");
    for (_, _, begins, on_disk) in &lives {
        match begins {
            Begins::Anew | Begins::Again(DiskFate::Wiped) => assert_eq!(*on_disk, 1),
            // What was synced survives a loss of power.
            Begins::Again(DiskFate::Kept | DiskFate::Torn) => assert!(*on_disk > 1),
        }
    }
    for fate in [DiskFate::Kept, DiskFate::Torn, DiskFate::Wiped] {
        assert!(lives.iter().any(|life| life.2 == Begins::Again(fate)), "{fate:?}: {faults}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = |seed| {
        let mut play = Play::draw(seed, &Caps::default());
        let mut echoes = Echoes::default();
        play.run(&mut echoes).unwrap();
        (echoes.lives, play.passed(), play.world.steps(), play.faults)
    };
    assert!((0..5).all(|seed| run(seed) == run(seed)));
}
