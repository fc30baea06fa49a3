use std::time::Duration;

use weft_transport::{Incarnation, NodeId};

use super::*;

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn clients() -> Clients {
    of_member(1, 1, 1)
}

fn of_member(seed: u64, node: u64, incarnation: u64) -> Clients {
    Clients::new(seed, Member { node: NodeId(node), incarnation: Incarnation(incarnation) })
}

fn look(clients: &Clients, heard: &[(u64, bool)], seconds: u64) {
    clients.look(&heard.iter().copied().collect(), at(seconds));
}

const LEASE_S: u64 = CLIENT_LEASE.as_secs();

#[test]
fn a_client_is_known_for_as_long_as_it_renews() {
    let clients = clients();
    let OpenClientReply { client, lease_ms } = clients.open(at(0)).unwrap();
    assert_eq!(Duration::from_millis(lease_ms.into()), CLIENT_LEASE);
    assert_eq!(clients.renew(client, at(LEASE_S - 1)).unwrap().client, client);
    look(&clients, &[], 2 * LEASE_S - 2);
    assert!(!clients.is_over(client) && clients.endings() == 1);
    assert!(clients.renew(client, at(2 * LEASE_S - 2)).is_some());
    look(&clients, &[], 3 * LEASE_S - 2);
    assert!(clients.is_over(client) && clients.endings() == 2);
    assert_eq!(clients.renew(client, at(3 * LEASE_S - 2)), None);
    assert_eq!(clients.renew(client, at(3 * LEASE_S - 2)), None, "it stays over");
    assert!(!clients.is_over(client + 1), "nobody has it yet");
}

#[test]
fn who_does_something_is_heard_of_and_so_is_who_was_opened_elsewhere() {
    let clients = clients();
    let own = clients.open(at(0)).unwrap().client;
    let [silent, busy, renewed] = [7, 8, 9];
    look(&clients, &[(silent, true), (busy, true), (own, true)], 50);
    assert!(clients.renew(renewed, at(50)).is_some());
    look(&clients, &[(silent, false), (busy, true), (own, true)], 50 + LEASE_S - 1);
    assert!(!clients.is_over(silent));
    look(&clients, &[(silent, false), (busy, false), (own, true)], 50 + LEASE_S);
    let over = [silent, busy, renewed, own].map(|client| clients.is_over(client));
    assert_eq!(over, [true, false, true, false]);
    assert_eq!(clients.renew(silent, at(50 + LEASE_S)), None);
    // A partition that has not forgotten it yet does not bring it back.
    look(&clients, &[(silent, true)], 51 + LEASE_S);
    assert!(clients.is_over(silent));
}

#[test]
fn the_coordinator_says_who_is_over() {
    let clients = clients();
    clients.learn(false, &[], &[3], 5);
    let over = |clients: &Clients| (1..=9).filter(|client| clients.is_over(*client)).collect();
    let check = |expected: &[u64]| {
        let over: Vec<u64> = over(&clients);
        assert_eq!(over, expected);
    };
    check(&[3]);
    clients.learn(true, &[2, 3, 5], &[], 6);
    check(&[1, 3, 4, 6]);
    let before = clients.endings();
    clients.learn(false, &[], &[], 7);
    assert_eq!(clients.endings(), before, "nobody is over");
    check(&[1, 3, 4, 6]);
    clients.learn(false, &[], &[5], 7);
    assert!(clients.endings() > before);
    check(&[1, 3, 4, 5, 6]);
    // Whoever says so is mistaken, and nobody waits for it.
    clients.learn(false, &[], &[], u64::MAX);
    check(&[1, 3, 4, 5, 6]);
    // What an entry has said is true before the coordinator's word has come here.
    clients.are_over(&[2, 9]);
    check(&[1, 2, 3, 4, 5, 6, 9]);
    clients.learn(false, &[], &[8], 9);
    check(&[1, 2, 3, 4, 5, 6, 8, 9]);
    clients.learn(true, &[7, 9], &[], 9);
    check(&[1, 2, 3, 4, 5, 6, 8, 9]);
    // Time says nothing any more.
    look(&clients, &[(7, false)], 0);
    look(&clients, &[(7, false)], 10 * LEASE_S);
    assert!(!clients.is_over(7));
}

#[test]
fn numbers_are_nobodys_else() {
    let mut numbers = Vec::new();
    for (seed, node, incarnation) in
        [(1, 1, 1), (1, 1, 2), (1, 2, 1), (1, 2, 2), (2, 1, 1), (2, 1, 2)]
    {
        let clients = of_member(seed, node, incarnation);
        numbers.extend((0..1000).map(|_| clients.open(at(0)).unwrap().client));
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert!(numbers.len() == 6000 && numbers[0] > 0);
}

#[test]
fn there_is_a_limit_and_room_again_when_leases_run_out() {
    let clients = clients();
    assert!((0..CLIENTS_MAX).all(|_| clients.open(at(0)).is_some()));
    assert_eq!((clients.open(at(1)), clients.renew(7, at(1))), (None, None));
    look(&clients, &[], LEASE_S);
    assert!(clients.open(at(LEASE_S)).is_some());
    assert_eq!(clients.known.lock().ends.len(), 1);
}

#[test]
fn what_is_over_is_kept_in_a_bounded_memory() {
    let mut over = Over::default();
    for client in 0..2 * crate::limits::CLIENTS_OVER_MAX as u64 {
        assert!(over.insert(client) && !over.insert(client));
    }
    assert!(!over.contains(0) && over.contains(2 * crate::limits::CLIENTS_OVER_MAX as u64 - 1));
}
