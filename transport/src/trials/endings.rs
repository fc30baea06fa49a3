//! What endpoints leave behind: nothing.

use std::io::ErrorKind;
use std::sync::Weak;
use std::task::Wake;
use std::time::Duration;

use super::*;
use crate::error::CloseReason;
use crate::handler::NoHandler;
use crate::session::receives::Messages;

/// The length of a request of which one is more than the simulated network holds.
const WAITING: usize = 512 << 10;

/// Two nodes that connect to each other at one moment, of whose connections one is too many; wherever in this
/// they are shut down, no connection outlives them.
#[test]
fn no_connection_outlives_its_endpoints() {
    for steps in 0..40 {
        let mut world = World::new(steps);
        let addresses = [0, 1].map(|at| world.node(at + 1, Arc::new(NoHandler), 16 << 20, |_| {}));
        let deadline = world.after(Duration::from_secs(60));
        for at in 0..2 {
            let (endpoint, to) = (world.endpoints[at].clone(), addresses[1 - at]);
            world.tasks.push(Box::pin(async move {
                let _ = endpoint.connect(to, deadline).await;
            }));
        }
        let mut cores: Vec<Weak<Core>> = Vec::new();
        for _ in 0..steps {
            if !world.step() {
                world.advance();
            }
            for endpoint in &world.endpoints {
                let reactor = endpoint.common().reactors.get().and_then(|all| all[0].upgrade());
                let reactor = reactor.expect("its endpoint lives");
                cores.extend(reactor.members.lock().values().map(Arc::downgrade));
            }
        }
        let shut_down = |world: World| {
            world.endpoints.iter().for_each(Endpoint::shutdown);
            drop(world);
        };
        shut_down(world);
        let left = cores.iter().filter(|core| core.upgrade().is_some()).count();
        assert_eq!(left, 0, "after {steps} steps");
    }
}

/// What is on its way when a connection ends, in lanes and in what the link has yet to take, is nobody's any more: its
/// memory is free at once, though somebody keeps the connection.
#[test]
fn what_waits_to_be_sent_is_let_go_of_with_its_connection() {
    let mut world = World::new(1);
    world.node(1, Arc::new(NoHandler), 16 << 20, |_| {});
    let address = world.node(2, Arc::new(NoHandler), 16 << 20, |_| {});
    let connection = world.connect(0, address);
    let deadline = world.after(Duration::from_secs(60));
    let call = |world: &mut World, len: usize| {
        let caller = connection.clone();
        world.tasks.push(Box::pin(async move {
            let called = caller.call(&vec![1; len][..], deadline).await;
            assert!(called.is_err(), "nobody answers");
        }));
    };
    // This thread has its lane from here on.
    call(&mut world, 0);
    while !world.tasks.is_empty() {
        assert!(world.step() || world.advance(), "it fails");
    }
    let memory = world.endpoints[0].memory().clone();
    let free_bytes = memory.free_bytes();
    let stopped = world.endpoints.pop();
    for _ in 0..3 {
        call(&mut world, WAITING);
    }
    while world.step() || world.advance_to_event() {}
    assert!(memory.free_bytes() < free_bytes - 2 * WAITING as u64, "much waits");
    connection.close();
    while world.step() {}
    assert!(world.tasks.is_empty(), "they have failed");
    assert_eq!(memory.free_bytes(), free_bytes);
    drop((connection, stopped));
}

/// Shuts nodes down when it is woken.
struct ShutsDown(Vec<Endpoint>);

impl Wake for ShutsDown {
    fn wake(self: Arc<Self>) {
        self.0.iter().for_each(Endpoint::shutdown);
    }
}

/// Who closes a connection wakes those who wait on it before it tells the driver. If the last driver has gone by then, it
/// is told in vain: all that it would have done is done.
#[test]
fn a_connection_whose_end_nobody_hears_of_leaves_nothing() {
    // The side that connected or the other, alone or both.
    for (at, both) in [(0, false), (0, true), (1, false), (1, true)] {
        let closing = std::thread::spawn(move || {
            let mut world = World::new(1);
            world.node(1, Arc::new(NoHandler), 16 << 20, |_| {});
            let address = world.node(2, Arc::new(NoHandler), 16 << 20, |_| {});
            let connection = world.connect(0, address);
            world.settle();
            let other = world.other_end(&connection.core, 1).expect("it has greeted");
            let core = [&connection.core, &other][at];
            let ending = world.endpoints[at].clone();
            let mut ended = vec![ending.clone()];
            ended.extend(both.then(|| world.endpoints[1 - at].clone()));
            let waker = Waker::from(Arc::new(ShutsDown(ended)));
            let caller = Connection::new(Arc::clone(core));
            let mut calling = Box::pin(caller.call(&[1][..], Time::MAX));
            assert!(calling.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            core.close(CloseReason::link(&ErrorKind::BrokenPipe.into()));
            assert!(calling.as_mut().poll(&mut noop()).is_ready(), "nobody answers");
            let counted = ending.stats().connections;
            world.endpoints.iter().for_each(Endpoint::shutdown);
            let left = [&connection.core, &other].map(Arc::downgrade);
            let reactors = left
                .each_ref()
                .map(|core| Arc::downgrade(&core.upgrade().expect("it is held here").reactor));
            drop((calling, connection, other, ending, world));
            (left, reactors, counted)
        });
        let (cores, reactors, counted) = closing.join().unwrap();
        let left = cores.map(|core| core.strong_count());
        assert_eq!(left, [0, 0], "endpoint {at} ends, both: {both}");
        assert_eq!(reactors.map(|reactor| reactor.strong_count()), [0, 0]);
        assert_eq!(counted, 0, "it counts no more");
    }
}

/// Wherever a large call is when its endpoint is shut down, and whether it is then heard out or given up: neither its
/// connection nor its reactor outlives it and its thread, which keeps a lane.
#[test]
fn a_call_that_outlives_its_endpoints_leaves_nothing() {
    for (steps, is_given_up) in (0..60).flat_map(|steps| [(steps, false), (steps, true)]) {
        let calling = std::thread::spawn(move || {
            let mut world = World::new(steps);
            world.node(1, Arc::new(NoHandler), 64 << 20, |_| {});
            let address = world.node(2, Arc::new(NoHandler), 64 << 20, |_| {});
            let connection = world.connect(0, address);
            let left = Arc::downgrade(&connection.core);
            let reactor = Arc::downgrade(&connection.core.reactor);
            world.tasks.push(Box::pin(async move {
                let called = connection.call(&vec![1; 3 << 20][..], Time::MAX).await;
                assert!(called.is_err(), "nobody answers");
            }));
            for _ in 0..steps {
                if !world.step() {
                    world.advance();
                }
            }
            let calls = std::mem::take(&mut world.tasks);
            world.endpoints.iter().for_each(Endpoint::shutdown);
            drop(world);
            if !is_given_up {
                for mut call in calls {
                    assert!(call.as_mut().poll(&mut noop()).is_ready());
                }
            }
            (left, reactor)
        });
        let (core, reactor) = calling.join().unwrap();
        let left = (core.strong_count(), reactor.strong_count());
        assert_eq!(left, (0, 0), "after {steps} steps");
    }
}

/// A connection that nobody has asked for, on which a message waits, is let go of with the last of its endpoint.
#[test]
fn what_nobody_has_accepted_ends_with_its_endpoint() {
    let ending = std::thread::spawn(|| {
        let mut world = World::new(1);
        world.make_prompt();
        world.node(1, Arc::new(NoHandler), 16 << 20, |_| {});
        let posted = |config: &mut EndpointConfig| config.messages = Messages::Posted;
        let address = world.node(2, Arc::new(NoHandler), 16 << 20, posted);
        let connection = world.connect(0, address);
        let sent = std::pin::pin!(connection.send(&[1][..])).poll(&mut noop());
        assert!(sent.is_ready(), "there is window");
        world.settle();
        let other = world.other_end(&connection.core, 1).expect("it has greeted");
        assert_eq!(other.session.receives.waiting(), 1);
        drop((connection, world));
        // As if it had greeted only now, while a caller drove.
        other.reactor.common.accepted.add(&other);
        (Arc::downgrade(&other), Arc::downgrade(&other.reactor))
    });
    let (core, reactor) = ending.join().unwrap();
    assert_eq!((core.strong_count(), reactor.strong_count()), (0, 0));
}
