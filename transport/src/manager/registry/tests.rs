//! What is forgotten of nodes and attempts.

use super::*;
use crate::sync::atomic::Ordering;

fn registry() -> Registry {
    Registry::new(Backoff::default(), Duration::from_secs(1), 0)
}

#[test]
fn nodes_that_said_hello_once_are_forgotten_and_those_that_come_back_are_not() {
    let registry = registry();
    let hello = |node: u64| {
        let hello = registry.hellos.fetch_add(1, Ordering::Relaxed);
        registry.forget_nodes(hello);
        let known = Known { incarnation: Incarnation(1), connection: None, former: None, hello };
        registry.nodes.insert(NodeId(node), known);
    };
    for number in 0..NODES_KEPT * 10 {
        hello(1);
        hello(number + 2);
        assert!(registry.nodes.len() as u64 <= NODES_KEPT * 2);
        assert!(registry.nodes.contains_key(&NodeId(1)));
    }
}

#[test]
fn an_attempt_that_failed_is_forgotten() {
    let registry = registry();
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let ask = |now| registry.attempt(address, Asked::ByCaller, now);
    let (attempt, fresh) = ask(Time::ZERO).unwrap();
    assert!(fresh && !ask(Time::ZERO).unwrap().1);
    registry.forget_attempt(address);
    assert_eq!(registry.attempts.len(), 1, "it is under way");
    let error = ConnectError::ShutDown { address };
    registry.finish(address, &attempt, Err(error), Time::ZERO);
    registry.forget_attempt(address);
    assert_eq!(registry.attempts.len(), 0);
    assert!(
        ask(Time::ZERO + Backoff::default().max).unwrap().1,
        "after the pause there is another"
    );
}

#[test]
fn who_asks_at_once_does_not_wait_for_the_end_of_a_pause() {
    let registry = registry();
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let (attempt, _) = registry.attempt(address, Asked::ByCaller, Time::ZERO).unwrap();
    let failure = ConnectError::ShutDown { address };
    registry.finish(address, &attempt, Err(failure.clone()), Time::ZERO);
    let TooEarly { until, failure: told } =
        registry.attempt(address, Asked::ByCaller, Time::ZERO).unwrap_err();
    assert!(until > Time::ZERO && told == failure);
    let (_, is_fresh) = registry.attempt(address, Asked::AtOnce, Time::ZERO).unwrap();
    assert!(is_fresh);
}
