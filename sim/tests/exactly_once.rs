//! What clients ask is done once, however often they ask, and whoever is the primary by then.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "exactly_once/mutations.rs"]
mod mutations;
#[path = "exactly_once/nodes.rs"]
mod nodes;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use weft_protocol::{
    ErrorCode, Get, GetReply, IncrementReply, Key, PutReply, Request, TableId, Version,
};
use weft_server::limits::CLIENT_LEASE;

use self::mutations::{
    KEYS, PAIRS, before, completion, delete, each, increment, multi_delete, multi_put, put,
};
use self::nodes::Nodes;

/// What was asked, by what it is, and all parts of the answer.
type Told = Vec<(String, Vec<u8>, Vec<Vec<u8>>)>;

fn prepared(nodes: &mut Nodes) -> Version {
    before(&mut |request| drop(nodes.ask(1, request)));
    let parts = nodes.ask(1, &put(b"compared", b"once more", None));
    PutReply::decode(&parts[0]).unwrap().version
}

fn get(nodes: &mut Nodes, node: u64, key: &[u8]) -> Option<Vec<u8>> {
    let get = Get { table: TableId::DEFAULT, map_epoch: 1, key: Key::new(key).unwrap() };
    let parts = nodes.ask(node, &Request::Get(get));
    GetReply::decode(&parts[0]).unwrap().value().map(<[u8]>::to_vec)
}

fn count(nodes: &mut Nodes, node: u64, request: &Request<'_>) -> i64 {
    IncrementReply::decode(&nodes.ask(node, request)[0]).unwrap().number
}

fn encoded(request: &Request<'_>) -> Vec<u8> {
    let mut bytes = vec![0; request.encoded_len()];
    request.encode(&mut bytes);
    bytes
}

/// All of it is asked again, in another order, and answered as the first time, and changes nothing.
fn check_repetitions(nodes: &mut Nodes, node: u64, members: &[u64], told: &Told) {
    nodes.go_on(Duration::from_secs(1));
    let before = nodes.digest(members);
    for (name, request, answer) in told.iter().rev() {
        let again = nodes.ask(node, &Request::decode(request).unwrap());
        assert_eq!(&again, answer, "{name}, again at node {node}");
    }
    nodes.go_on(Duration::from_secs(1));
    assert_eq!(nodes.digest(members), before, "nothing has changed");
}

#[test]
fn every_mutation_is_answered_as_the_first_time_by_whoever_is_the_primary() {
    let mut nodes = Nodes::new(1, 3);
    let compared = prepared(&mut nodes);
    let client = nodes.open_client(1);
    let mut told = Told::new();
    each(client, compared, &mut |name, request, _| {
        let answer = nodes.ask(1, request);
        told.push((name.to_owned(), encoded(request), answer));
    });
    check_repetitions(&mut nodes, 1, &[1, 2, 3], &told);
    nodes.crash(1);
    nodes.configure(2, &[2, 3]);
    check_repetitions(&mut nodes, 2, &[2, 3], &told);
    nodes.configure(3, &[2, 3]);
    check_repetitions(&mut nodes, 3, &[2, 3], &told);
    // One that nobody has asked before is done.
    assert!(nodes.refused(3, &put(b"old", b"at last", Some(completion(client, 999, 1)))).is_none());
    assert_eq!(get(&mut nodes, 3, b"old").unwrap(), b"at last");
}

#[test]
fn a_node_alone_answers_as_the_first_time_too() {
    let mut nodes = Nodes::new(2, 1);
    let compared = prepared(&mut nodes);
    let client = nodes.open_client(1);
    let mut told = Told::new();
    each(client, compared, &mut |name, request, _| {
        let answer = nodes.ask(1, request);
        told.push((name.to_owned(), encoded(request), answer));
    });
    check_repetitions(&mut nodes, 1, &[1], &told);
}

#[test]
fn what_was_asked_again_before_others_is_not_undone() {
    let mut nodes = Nodes::new(3, 3);
    let client = nodes.open_client(1);
    let first = put(b"key", b"first", Some(completion(client, 1, 1)));
    let answer = nodes.ask(1, &first);
    nodes.ask(1, &put(b"key", b"second", None));
    assert_eq!(nodes.ask(1, &first), answer);
    nodes.crash(1);
    nodes.configure(2, &[2, 3]);
    assert_eq!(nodes.ask(2, &first), answer);
    assert_eq!(get(&mut nodes, 2, b"key").unwrap(), b"second");
    assert_eq!(count(&mut nodes, 2, &increment(b"n", None)), 1);
    assert_eq!(count(&mut nodes, 2, &increment(b"n", None)), 2, "without a number each counts");
}

#[test]
fn of_a_multi_request_the_items_that_were_done_are_not_done_again() {
    let mut nodes = Nodes::new(4, 3);
    let client = nodes.open_client(1);
    // The last two of three, as if the first were still to come; then all of them.
    let later = nodes.ask(1, &multi_put(&PAIRS[1..], Some(completion(client, 2, 1))));
    let after = nodes.ask(1, &put(PAIRS[1].0, b"by another", None));
    let all = nodes.ask(1, &multi_put(&PAIRS, Some(completion(client, 1, 1))));
    let versions = |parts: &[Vec<u8>]| -> Vec<Version> {
        let mut versions = Vec::new();
        for part in parts {
            for item in weft_protocol::MultiPutPart::decode(part).unwrap().items() {
                let weft_protocol::Outcome::Done(reply) = item.outcome else { panic!("{item:?}") };
                versions.push(reply.version);
            }
        }
        versions
    };
    let (later, all) = (versions(&later), versions(&all));
    assert_eq!(all[1..], later);
    assert!(all[0] > PutReply::decode(&after[0]).unwrap().version, "it was done last");
    assert_eq!(get(&mut nodes, 1, PAIRS[1].0).unwrap(), b"by another");
    // Deletes, of which a part was done before the node went.
    let some = nodes.ask(1, &multi_delete(&KEYS[..2], Some(completion(client, 4, 1))));
    nodes.ask(1, &put(KEYS[0], b"back again", None));
    nodes.crash(1);
    nodes.configure(2, &[2, 3]);
    let again = nodes.ask(2, &multi_delete(&KEYS[..2], Some(completion(client, 4, 1))));
    assert_eq!(some, again);
    nodes.ask(2, &multi_delete(&KEYS, Some(completion(client, 4, 1))));
    assert_eq!(get(&mut nodes, 2, KEYS[0]).unwrap(), b"back again");
    assert_eq!(get(&mut nodes, 2, KEYS[2]), None);
}

#[test]
fn what_the_client_has_the_answer_to_is_refused() {
    let mut nodes = Nodes::new(5, 3);
    let client = nodes.open_client(1);
    let first = increment(b"n", Some(completion(client, 1, 1)));
    assert_eq!(count(&mut nodes, 1, &first), 1);
    assert_eq!(count(&mut nodes, 1, &increment(b"n", Some(completion(client, 2, 2)))), 2);
    assert_eq!(nodes.refused(1, &first), Some(ErrorCode::RequestForgotten));
    nodes.crash(1);
    nodes.configure(2, &[2, 3]);
    assert_eq!(nodes.refused(2, &first), Some(ErrorCode::RequestForgotten));
    // The same number for something else is no answer to that.
    let other = delete(b"n", Some(completion(client, 2, 2)));
    assert_eq!(nodes.refused(2, &other), Some(ErrorCode::RequestForgotten));
    assert_eq!(count(&mut nodes, 2, &increment(b"n", None)), 3);
}

#[test]
fn what_is_answered_again_waits_until_it_is_committed() {
    let mut nodes = Nodes::new(10, 3);
    let client = nodes.open_client(1);
    nodes.ask(1, &increment(b"n", None));
    nodes.pause(3, Duration::from_millis(300));
    let first = increment(b"n", Some(completion(client, 1, 1)));
    let refused = delete(b"nothing", Some(completion(client, 2, 1)));
    let answers: Vec<_> =
        [&first, &refused, &first, &refused].map(|request| nodes.begin(1, request)).into();
    nodes.go_on(Duration::from_millis(200));
    assert!(answers.iter().all(|answer| answer.borrow().is_none()), "not every member has it");
    nodes.go_on(Duration::from_secs(1));
    assert!(answers.iter().all(|answer| answer.borrow().is_some()));
    assert_eq!((&answers[0], &answers[1]), (&answers[2], &answers[3]));
    assert_eq!(count(&mut nodes, 1, &increment(b"n", None)), 3);
}

#[test]
fn a_client_counts_right_whatever_becomes_of_connections_and_nodes() {
    const COUNT: i64 = 400;
    let mut nodes = Nodes::new(11, 3);
    let connected = nodes.client();
    let counted = Rc::new(Cell::new(0));
    let told = Rc::clone(&counted);
    nodes.world.spawn(async move {
        let client = connected.await;
        for expected in 1..=COUNT {
            let number = client.increment("n", 1, None).await.unwrap().number;
            assert_eq!(number, expected, "each counts once");
            told.set(number);
        }
    });
    let mut lost = 0;
    for round in 0..1_000 {
        nodes.go_on(Duration::from_millis(7));
        lost += u32::from(nodes.world.network().lose_one());
        if round == 60 {
            nodes.crash(1);
            nodes.configure(2, &[2, 3]);
        }
        if counted.get() == COUNT {
            break;
        }
    }
    assert_eq!(counted.get(), COUNT);
    assert!(lost > 20, "{lost}");
    let repeated = nodes.handler(2).stats().value("writes.repeated").unwrap();
    assert!(repeated > 0, "some were asked again");
}

#[test]
fn more_than_is_remembered_is_refused_and_not_done() {
    let mut nodes = Nodes::new(6, 1);
    let client = nodes.open_client(1);
    let full = weft_server::limits::OUTCOMES_PER_CLIENT_MAX as u64;
    let keys: Vec<&'static [u8]> = vec![b"nothing"; 16_384];
    for first in (1..=full).step_by(keys.len()) {
        nodes.ask(1, &multi_delete(&keys, Some(completion(client, first, 1))));
    }
    let one_more = increment(b"n", Some(completion(client, full + 1, 1)));
    assert_eq!(nodes.refused(1, &one_more), Some(ErrorCode::CompletionsFull));
    assert_eq!(get(&mut nodes, 1, b"n"), None);
    assert_eq!(count(&mut nodes, 1, &increment(b"n", Some(completion(client, full + 1, 2)))), 1);
}

#[test]
fn a_client_that_is_over_is_refused_by_every_primary() {
    let mut nodes = Nodes::new(7, 3);
    for node in 1..=3 {
        nodes.handler(node).learn_clients(true, &[4, 5], &[], 5);
    }
    let of = |client| increment(b"n", Some(completion(client, 1, 1)));
    assert_eq!(count(&mut nodes, 1, &of(4)), 1);
    assert_eq!(count(&mut nodes, 1, &of(5)), 2);
    assert_eq!(count(&mut nodes, 1, &of(6)), 3, "of whom the node has not heard yet");
    assert_eq!(nodes.refused(1, &of(3)), Some(ErrorCode::RequestForgotten), "over before");
    let before = nodes.digest(&[1, 2, 3]);
    nodes.handler(1).learn_clients(false, &[], &[4], 6);
    nodes.go_on(Duration::from_secs(1));
    assert_ne!(nodes.digest(&[1, 2, 3]), before, "it is an entry");
    assert_eq!(nodes.refused(1, &of(4)), Some(ErrorCode::RequestForgotten));
    assert_eq!(count(&mut nodes, 1, &of(5)), 2, "others are remembered");
    // The next primary has not heard it from the coordinator.
    nodes.crash(1);
    nodes.configure(2, &[2, 3]);
    assert_eq!(nodes.refused(2, &of(4)), Some(ErrorCode::RequestForgotten));
    assert_eq!(count(&mut nodes, 2, &of(6)), 3);
    assert_eq!(count(&mut nodes, 2, &increment(b"n", None)), 4);
}

#[test]
fn a_primary_ends_those_who_were_over_before_it_was_one() {
    let mut nodes = Nodes::new(8, 3);
    for node in 1..=3 {
        nodes.handler(node).learn_clients(true, &[4], &[], 4);
    }
    let of = |client| increment(b"n", Some(completion(client, 1, 1)));
    assert_eq!(count(&mut nodes, 1, &of(4)), 1);
    // Only those who do not lead hear of it.
    for node in 2..=3 {
        nodes.handler(node).learn_clients(false, &[], &[4], 4);
        nodes.tidy(&[node], Duration::from_secs(3));
    }
    assert_eq!(count(&mut nodes, 1, &of(4)), 1, "it is remembered as long as it is not ended");
    nodes.crash(1);
    nodes.configure(2, &[2, 3]);
    let before = nodes.digest(&[2, 3]);
    nodes.tidy(&[2, 3], Duration::from_secs(3));
    assert_ne!(nodes.digest(&[2, 3]), before, "it is ended by an entry");
    assert_eq!(nodes.refused(2, &of(4)), Some(ErrorCode::RequestForgotten));
    assert_eq!(count(&mut nodes, 2, &increment(b"n", None)), 2);
}

#[test]
fn a_node_alone_ends_clients_that_do_not_renew() {
    let mut nodes = Nodes::new(9, 1);
    let (silent, renewing, busy) =
        (nodes.open_client(1), nodes.open_client(1), nodes.open_client(1));
    let of = |client, sequence| increment(b"n", Some(completion(client, sequence, 1)));
    let stranger = 77;
    for (number, client) in [silent, renewing, busy, stranger].into_iter().enumerate() {
        assert_eq!(count(&mut nodes, 1, &of(client, 1)), number as i64 + 1);
    }
    for round in 0..6 {
        nodes.tidy(&[1], CLIENT_LEASE / 3);
        assert_eq!(nodes.renew_client(1, renewing), None);
        count(&mut nodes, 1, &of(busy, 2 + round));
    }
    for client in [silent, stranger] {
        assert_eq!(nodes.refused(1, &of(client, 1)), Some(ErrorCode::RequestForgotten));
        assert_eq!(nodes.renew_client(1, client), Some(ErrorCode::ClientUnknown));
    }
    assert_eq!(count(&mut nodes, 1, &of(renewing, 1)), 2);
    assert_eq!(count(&mut nodes, 1, &of(busy, 1)), 3);
    assert_eq!(count(&mut nodes, 1, &increment(b"n", None)), 11);
}
