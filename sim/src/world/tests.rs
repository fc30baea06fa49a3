//! What the world promises: of time, pauses, lives, and of noticing when nothing goes on.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use weft_server::durable::Disk as _;
use weft_transport::{Batch, Incarnation, IncomingKind, Memory, MemoryConfig, NodeId};

use super::*;

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

const DELAY: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn empty() -> World {
    World::new(7, SimConfig { seed: 0, delay: DELAY..DELAY, loss: 0.0, partial: 0.0 })
}

/// A world with a server that echoes, and a client.
fn world() -> (World, MemberId, Endpoint) {
    let mut world = empty();
    let mut add = |node| {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let config = EndpointConfig::new(NodeId(node), Incarnation(1), memory);
        world.add(config, Arc::new(Echo)).unwrap()
    };
    let ((server, listening), (_, client)) = (add(1), add(2));
    listening.listen(address()).unwrap();
    drop(listening);
    (world, server, client)
}

fn address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 7400))
}

/// Spawns a client that calls once; afterwards the time at which it was answered can be read.
fn call_once(world: &mut World, client: Endpoint) -> Rc<Cell<Option<Time>>> {
    let answered = Rc::new(Cell::new(None));
    let told = Rc::clone(&answered);
    world.spawn(async move {
        let deadline = Time::ZERO + 100 * SECOND;
        let connection = client.connect(address(), deadline).await.unwrap();
        let reply = connection.call(&b"hello"[..], deadline).await.unwrap();
        assert_eq!(&*reply, b"hello");
        told.set(Some(client.clock().now()));
    });
    answered
}

#[test]
fn time_passes_only_on_the_network() {
    let (mut world, _, client) = world();
    let answered = call_once(&mut world, client);
    assert_eq!(world.run_until(Time::ZERO + SECOND), Ok(true));
    let took = answered.get().unwrap().since(Time::ZERO);
    assert!(took.as_nanos().is_multiple_of(DELAY.as_nanos()), "{took:?}");
    assert!(took >= 3 * DELAY && took <= 5 * DELAY, "{took:?}");
}

#[test]
fn a_paused_endpoint_answers_when_it_goes_on() {
    let (mut world, server, client) = world();
    world.pause(server, 4 * SECOND);
    // The longest pause counts.
    world.pause(server, SECOND);
    let answered = call_once(&mut world, client);
    assert_eq!(world.run_until(Time::ZERO + 2 * SECOND), Ok(false));
    assert_eq!(answered.get(), None);
    assert_eq!(world.run_until(Time::ZERO + 20 * SECOND), Ok(true));
    assert!(answered.get().unwrap() > Time::ZERO + 4 * SECOND);
}

#[test]
fn a_stopped_endpoint_is_refused_and_one_paused_for_good_never_answers() {
    for stopped in [true, false] {
        let (mut world, server, client) = world();
        if stopped {
            world.stop(server);
        } else {
            world.pause(server, Duration::MAX);
        }
        let failed_at = Rc::new(Cell::new(None));
        let told = Rc::clone(&failed_at);
        world.spawn(async move {
            let connected = client.connect(address(), Time::ZERO + SECOND).await;
            assert!(connected.is_err());
            told.set(Some(client.clock().now()));
        });
        assert_eq!(world.run_until(Time::ZERO + 20 * SECOND), Ok(true));
        let expected = if stopped { Time::ZERO } else { Time::ZERO + SECOND };
        assert_eq!(failed_at.get(), Some(expected), "stopped: {stopped}");
    }
}

#[test]
fn a_task_that_waits_for_nothing_is_found() {
    let mut world = empty();
    world.spawn(std::future::pending());
    let stuck = world.run_until(Time::ZERO + SECOND);
    assert_eq!(stuck, Err(Stuck::Deadlock { tasks: 1, at: Time::ZERO }));
}

#[test]
fn a_task_that_never_waits_is_found() {
    let mut world = empty();
    world.spawn(std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    }));
    let stuck = world.run_until(Time::ZERO + SECOND);
    assert_eq!(stuck, Err(Stuck::Livelock { at: Time::ZERO }));
}

/// A host with the given clock, whose background task counts the times that it has slept so long.
fn ticking(world: &mut World, skew: Option<Skew>, every: Duration) -> (MemberId, Rc<Cell<u32>>) {
    let number = world.hosts.len() as u8 + 1;
    let member = world.add_host([10, 0, 1, number].into(), skew);
    let ticks = Rc::new(Cell::new(0));
    begin_ticking(world, member, every, &ticks);
    (member, ticks)
}

fn begin_ticking(world: &mut World, member: MemberId, every: Duration, ticks: &Rc<Cell<u32>>) {
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
    let config = EndpointConfig::new(NodeId(1), Incarnation(world.life(member)), memory);
    let endpoint = world.add_endpoint(member, config, Arc::new(Echo)).unwrap();
    let ticks = Rc::clone(ticks);
    world.spawn_background(member, async move {
        loop {
            endpoint.sleep_until(endpoint.clock().now() + every).await;
            ticks.set(ticks.get() + 1);
        }
    });
}

/// Goes on for so long, whether or not anything happens.
fn pass(world: &mut World, time: Duration) {
    let end = world.clock().now() + time;
    world.go_on_until(end).unwrap();
}

#[test]
fn a_clock_that_is_fast_wakes_its_host_as_much_sooner() {
    let mut world = empty();
    let rates = [500_000, 990_000, 1_000_000, 1_010_000, 3_000_000];
    let ticking = rates.map(|rate_ppm| {
        let skew = Skew { rate_ppm, wall_ahead_ms: 0 };
        ticking(&mut world, Some(skew), Duration::from_millis(10)).1
    });
    // A tick is noticed in the nanosecond in which it is due, or, where that is between two, in the next.
    pass(&mut world, 10 * SECOND + DELAY);
    assert_eq!(ticking.map(|ticks| ticks.get()), [500, 990, 1000, 1010, 3000]);
}

#[test]
fn a_host_that_is_paused_does_nothing_and_its_clock_goes_on() {
    let mut world = empty();
    let (member, ticks) = ticking(&mut world, Some(Skew::NONE), SECOND);
    pass(&mut world, 3 * SECOND + DELAY);
    world.pause(member, 4 * SECOND);
    pass(&mut world, 3 * SECOND);
    assert_eq!(ticks.get(), 3);
    assert_eq!(world.clock_of(member).now(), Time::ZERO + 6 * SECOND + DELAY);
    pass(&mut world, 2 * SECOND);
    assert_eq!(
        ticks.get(),
        5,
        "the one that was due, and one a second from the end of the pause on"
    );
    world.pause(member, Duration::MAX);
    pass(&mut world, 10 * SECOND);
    assert_eq!(ticks.get(), 5);
    world.resume(member);
    pass(&mut world, DELAY);
    assert_eq!(ticks.get(), 6);
}

#[test]
fn a_host_that_crashes_is_gone_with_its_tasks_and_comes_back_with_its_disk() {
    let mut world = empty();
    let (member, ticks) = ticking(&mut world, Some(Skew::NONE), SECOND);
    world.disk(member).lock().create("log", 0).unwrap();
    world.disk(member).lock().append("log", b"synced").unwrap();
    world.disk(member).lock().sync("log").unwrap();
    world.disk(member).lock().sync_names().unwrap();
    pass(&mut world, 2 * SECOND);
    world.crash(member, SimCrash::Process);
    assert!(!world.is_up(member));
    assert_eq!(Rc::strong_count(&ticks), 1, "its task is dropped");
    pass(&mut world, 5 * SECOND);
    assert_eq!(ticks.get(), 2);
    world.restart(member, DiskFate::Torn, |world| {
        begin_ticking(world, member, SECOND, &ticks);
    });
    assert!(world.is_up(member));
    assert_eq!((world.life(member), world.clock_of(member).now()), (2, Time::ZERO));
    assert_eq!(world.disk(member).lock().read("log").unwrap(), b"synced");
    pass(&mut world, 2 * SECOND);
    assert_eq!(ticks.get(), 4);
    world.crash(member, SimCrash::Machine);
    world.restart(member, DiskFate::Wiped, |_| ());
    assert!(world.disk(member).lock().read("log").is_none());
}

/// What a client is told whose server goes while it waits for the answer, and when.
fn told_of(goes: impl FnOnce(&mut World, MemberId, MemberId)) -> Option<Duration> {
    let mut world = empty();
    let mut add = |node: u8| {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let config = EndpointConfig::new(NodeId(node.into()), Incarnation(1), memory);
        let member = world.add_host([10, 0, 0, node].into(), None);
        (member, world.add_endpoint(member, config, Arc::new(Echo)).unwrap())
    };
    let ((server, listening), (at, client)) = (add(1), add(2));
    listening.listen(address()).unwrap();
    drop(listening);
    let told = Rc::new(Cell::new(None));
    world.spawn_on(at, {
        let told = Rc::clone(&told);
        async move {
            let deadline = Time::ZERO + 20 * SECOND;
            let connection = client.connect(address(), deadline).await.unwrap();
            client.sleep_until(Time::ZERO + SECOND).await;
            if connection.call(&b"hello"[..], deadline).await.is_err() {
                told.set(Some(client.clock().now().since(Time::ZERO + SECOND)));
            }
        }
    });
    assert_eq!(world.run_until(Time::ZERO + SECOND / 2), Ok(false));
    goes(&mut world, server, at);
    assert_eq!(world.run_until(Time::ZERO + 40 * SECOND), Ok(true));
    told.get()
}

#[test]
fn a_crash_is_told_by_a_reset_or_found_out_by_the_deadline() {
    assert_eq!(told_of(|_, _, _| ()), None);
    let reset = told_of(|world, server, _| world.crash(server, SimCrash::Process));
    assert!(reset.is_some_and(|after| after < SECOND), "{reset:?}");
    let silent = told_of(|world, server, _| world.crash(server, SimCrash::Machine));
    assert_eq!(silent, Some(19 * SECOND));
}

#[test]
fn a_cut_one_way_is_found_out_by_the_deadline() {
    for back in [false, true] {
        let cut = told_of(|world, server, client| {
            let ways = [client, server].map(|member| world.address(member));
            let [from, to] = if back { [ways[1], ways[0]] } else { ways };
            world.network().cut(from, to);
        });
        assert_eq!(cut, Some(19 * SECOND), "back: {back}");
    }
}

#[test]
fn tasks_of_a_host_that_crashes_are_not_waited_for() {
    let mut world = empty();
    let member = world.add_host([10, 0, 0, 1].into(), None);
    world.spawn_on(member, std::future::pending());
    world.crash(member, SimCrash::Machine);
    assert_eq!(world.run_until(Time::ZERO + SECOND), Ok(true));
}
