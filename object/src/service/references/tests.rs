//! What becomes of references, one holder after the other.

use super::*;
use crate::service::Answer;
use crate::service::item::Reader;
use crate::types::Types;

struct Nothing;

impl Target for Nothing {
    fn contract(&self) -> &'static Contract {
        unreachable!("nobody asks")
    }

    fn dispatch(&self, _: u16, _: Reader<'_>, _: Answer<'_, '_>) {
        unreachable!("nobody calls")
    }
}

fn held() -> Held {
    Held { target: Arc::new(Nothing), lists: lists() }
}

fn lists() -> Lists {
    Lists { types: Types::new(), told: None }
}

fn holder(node: u64) -> Holder {
    Holder { node: NodeId(node), incarnation: Incarnation(1) }
}

fn give(references: &mut References, node: u64, connection: u64) -> u64 {
    references.give((holder(node), connection), held(), 10).ok().unwrap().id
}

#[test]
fn a_reference_is_its_holders_alone_and_ends_with_its_release() {
    let mut references = References::default();
    let ids = [1, 1, 2].map(|node| give(&mut references, node, node));
    assert!(references.find(ids[0], holder(2)).is_none(), "somebody else's");
    assert!(references.release(ids[0], holder(2)).is_none(), "somebody else's");
    assert!(references.release(ids[0], holder(1)).is_some());
    assert!(references.release(ids[0], holder(1)).is_none(), "twice");
    let again = give(&mut references, 1, 1);
    assert_ne!(again, ids[0], "a late call finds nothing");
    assert!(references.find(ids[0], holder(1)).is_none());
    for id in [ids[1], again] {
        assert!(references.release(id, holder(1)).is_some());
    }
    assert_eq!(references.len(), 1);
}

/// How many are released by the end of a connection; nothing if the holder goes on, or whether that is by one whose end is to be waited for.
fn end(references: &mut References, of: (u64, u64), by: Option<u64>) -> Result<usize, bool> {
    match references.end((holder(of.0), of.1), by) {
        End::Released(held) => Ok(held.len()),
        End::GoesOn { is_new } => Err(is_new),
    }
}

#[test]
fn the_end_of_a_holders_last_connection_releases_all_that_it_holds() {
    let mut references = References::default();
    for connection in [7, 8, 7] {
        give(&mut references, 1, connection);
    }
    give(&mut references, 2, 9);
    assert_eq!(end(&mut references, (1, 7), None), Err(false), "there is another one");
    assert_eq!(end(&mut references, (1, 7), None), Ok(0), "told twice");
    assert_eq!(end(&mut references, (1, 8), None), Ok(3));
    assert_eq!(references.len(), 1);
    assert_eq!(end(&mut references, (2, 9), None), Ok(1));
    assert_eq!(references.len(), 0);
}

#[test]
fn a_connection_that_makes_way_leaves_its_references_to_the_one_that_takes_its_place() {
    let mut references = References::default();
    let first = give(&mut references, 1, 7);
    assert_eq!(end(&mut references, (1, 7), Some(8)), Err(true), "whose end is to be waited for");
    assert!(references.find(first, holder(1)).is_some());
    give(&mut references, 1, 8);
    give(&mut references, 1, 9);
    assert_eq!(end(&mut references, (1, 8), Some(9)), Err(false), "it is waited for already");
    assert_eq!(end(&mut references, (1, 9), None), Ok(3));
    // Of nothing there is nothing to wait for.
    let id = give(&mut references, 1, 10);
    references.release(id, holder(1)).unwrap();
    assert_eq!(end(&mut references, (1, 10), Some(11)), Ok(0));
    assert!(references.len() == 0 && references.holders.is_empty());
}

#[test]
fn who_may_hold_nothing_is_not_kept() {
    let mut references = References::default();
    assert!(references.give((holder(1), 1), held(), 0).is_err());
    assert!(references.holders.is_empty() && references.entries.is_empty());
}

#[test]
fn a_place_has_each_number_once_and_rests_after_the_last() {
    let mut references = References::default();
    let mut numbers = std::collections::HashSet::new();
    for _ in 0..10_000 {
        let id = give(&mut references, 1, 1);
        assert!(numbers.insert(id), "{id:#x} twice");
        references.release(id, holder(1)).unwrap();
    }
    assert_eq!(references.entries.len(), 1);
    let tags = &references.tags;
    let firsts: Vec<_> = (0..4).map(|place| tags.tag(place, 0)).collect();
    assert!(firsts.iter().any(|tag| *tag > 10_000), "{firsts:?} can be guessed");
    references.entries[0].uses = u32::MAX;
    let last = give(&mut references, 1, 1);
    references.release(last, holder(1)).unwrap();
    assert_eq!(references.len(), 0);
    give(&mut references, 1, 1);
    assert!(references.entries.len() == 2 && references.len() == 1);
}

#[test]
fn a_peer_holds_no_more_than_it_may() {
    let mut references = References::default();
    let mut give = || references.give((holder(1), 1), held(), 2);
    let given = [give(), give(), give()].map(|given| given.ok().map(|given| given.is_first));
    assert_eq!(given, [Some(true), Some(false), None]);
}

#[test]
fn numbers_that_were_never_given_find_nothing() {
    let mut references = References::default();
    let id = give(&mut references, 1, 1);
    for wrong in [0, id + 1, id ^ 1 << 32, u64::MAX, 1 << 32, 1] {
        assert!(references.find(wrong, holder(1)).is_none(), "{wrong:#x}");
        assert!(references.release(wrong, holder(1)).is_none(), "{wrong:#x}");
        assert!(references.agree(wrong, holder(1), lists()).is_err(), "{wrong:#x}");
    }
}
