//! Who makes room when there is too little: of connections or of memory. Whoever is in use stays, and of the others
//! the one that has been without use, or has kept memory, for longest goes.

use std::time::Duration;

use super::stranger::{Heard, Stranger, frame};
use super::*;
use crate::frame::{Class, Kind};
use crate::handler::{Batch, IncomingKind};
use crate::limits::{FREE_SHARE, LEAVE_TIMEOUT, MESSAGE_MAX};

/// Codes of goodbyes: there is no room for one more, one is ended to make room, and one for memory.
const TOO_MANY: u64 = 11;
const EVICTED: u64 = 12;
const MEMORY: u64 = 14;

const SECOND: Duration = Duration::from_secs(1);

/// Answers with nothing.
struct Answering;

impl Handler for Answering {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            if let IncomingKind::Call(call) = incoming.kind {
                batch.reply(call, &[][..]);
            }
        }
    }
}

/// A node that has room for so many connections.
fn node(connections_max: usize) -> (World, SocketAddr) {
    let mut world = World::new(1);
    world.make_prompt();
    let address = world.node(1, Arc::new(Answering), 16 << 20, |config| {
        config.connections_max = connections_max;
    });
    (world, address)
}

fn request() -> Vec<u8> {
    frame(Kind::Request, Class::Request, 7, 100)
}

/// The first and the second half of a request that is too long to be carried over.
fn halves() -> (Vec<u8>, Vec<u8>) {
    let mut bytes = frame(Kind::Request, Class::Request, 8, MESSAGE_MAX / 8);
    let rest = bytes.split_off(bytes.len() / 2);
    (bytes, rest)
}

impl Stranger {
    /// It is asked, and answers.
    #[track_caller]
    fn assert_served(&self, world: &mut World) {
        self.write(&request());
        world.settle();
        assert_eq!(self.hear(), said(&[(Kind::Reply, 7)], false));
    }
}

fn said(frames: &[(Kind, u64)], is_end: bool) -> Heard {
    Heard { frames: frames.to_vec(), is_end }
}

#[test]
fn connections_make_room_in_the_order_of_their_last_use() {
    let (mut world, address) = node(4);
    let mut peers = Vec::new();
    for client in 0..4 {
        world.pass(SECOND);
        peers.push(Stranger::greeted(&mut world, address, client));
    }
    for used in [2, 0, 3, 1] {
        world.pass(SECOND);
        peers[used].assert_served(&mut world);
    }
    world.pass(SECOND);
    let mut newcomers = Vec::new();
    for (client, goes) in [2, 0, 3, 1].into_iter().enumerate() {
        newcomers.push(Stranger::greeted(&mut world, address, 10 + client as u64));
        let told: Vec<_> = peers.iter().map(Stranger::hear).collect();
        for (peer, told) in told.into_iter().enumerate() {
            let goodbye = [(Kind::Goodbye, EVICTED)];
            let expected = if peer == goes { &goodbye[..] } else { &[] };
            assert_eq!(told, said(expected, false), "{peer} when {goes} is to go");
        }
    }
    // They were used a moment ago.
    let refused = Stranger::silent(&world, address);
    world.settle();
    assert_eq!(refused.hear(), said(&[(Kind::Goodbye, TOO_MANY)], true));
}

#[test]
fn who_is_in_use_makes_no_room_however_long_nothing_came() {
    let (mut world, address) = node(2);
    let (first, rest) = halves();
    let busy = Stranger::greeted(&mut world, address, 1);
    busy.write(&first);
    world.pass(SECOND);
    let idle = Stranger::greeted(&mut world, address, 2);
    world.pass(2 * SECOND);
    // The one beside it goes, though something has come on it since.
    let newcomer = Stranger::greeted(&mut world, address, 3);
    assert_eq!(idle.hear(), said(&[(Kind::Goodbye, EVICTED)], false));
    assert_eq!(busy.hear(), said(&[], false));
    newcomer.write(&first);
    world.pass(2 * SECOND);
    // Now that all are in use, nobody is let in, and nobody goes.
    let refused = Stranger::silent(&world, address);
    world.settle();
    assert_eq!(refused.hear(), said(&[(Kind::Goodbye, TOO_MANY)], true));
    for peer in [busy, newcomer] {
        peer.write(&rest);
        world.settle();
        assert_eq!(peer.hear(), said(&[(Kind::Reply, 8)], false));
    }
}

#[test]
fn who_is_left_to_make_room_has_its_time_to_go() {
    const INSTANT: Duration = Duration::from_millis(1);
    let (mut world, address) = node(1);
    let stays = Stranger::greeted(&mut world, address, 1);
    world.pass(SECOND);
    let _newcomer = Stranger::greeted(&mut world, address, 2);
    assert_eq!(stays.hear(), said(&[(Kind::Goodbye, EVICTED)], false));
    world.pass(LEAVE_TIMEOUT - INSTANT);
    // What was on its way when it was told is answered to the last.
    stays.assert_served(&mut world);
    world.pass(SECOND);
    assert_eq!(stays.hear(), said(&[], true));
}

#[test]
fn memory_is_taken_from_who_has_kept_it_for_longest() {
    let (mut world, address) = node(10);
    let peers = [1, 2, 3].map(|client| Stranger::greeted(&mut world, address, client));
    let (first, rest) = halves();
    for keeps in [1, 2, 0] {
        peers[keeps].write(&first);
        world.pass(SECOND);
    }
    let memory = world.endpoints[0].memory().clone();
    assert!(!memory.is_short(FREE_SHARE));
    // Until there is too little by less than one of them keeps.
    let mut taken = Vec::new();
    while !memory.is_short(FREE_SHARE) {
        taken.push(memory.allocate(4 << 10, Purpose::Send).unwrap());
    }
    world.pass(SECOND);
    let told = peers.each_ref().map(Stranger::hear);
    let goodbye = said(&[(Kind::Goodbye, MEMORY)], true);
    assert_eq!(told, [said(&[], false), goodbye, said(&[], false)]);
    assert!(!memory.is_short(FREE_SHARE), "one was enough");
    for keeps in [2, 0] {
        peers[keeps].write(&rest);
        world.settle();
        assert_eq!(peers[keeps].hear(), said(&[(Kind::Reply, 8)], false));
    }
}
