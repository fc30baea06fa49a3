//! Requests and replies that are damaged in every way are refused or harmless: whoever gets one answers, and goes on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use weft_object::service::{Blob, Client as _, GraphRef, Services};
use weft_object::{Frozen, Graph, Link, Seq, Text, Wire, service};
use weft_transport::{
    Batch, Connection, Endpoint, Handler, IncomingKind, LinkPolicy, NodeId, Purpose,
};

use crate::world::{World, endpoint, handled_by, memory, next_client, soon};

#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
struct Node {
    name: Text,
    next: Option<Link<Node>>,
    kind: Kind,
    flag: bool,
    zero: [u8; 2],
    leaves: Seq<bool>,
}

#[derive(Wire, Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
enum Kind {
    Red = 1,
    Green = 2,
}

#[service]
trait Echo {
    fn back(&self, number: u32) -> u32;
}

impl Echo for u32 {
    fn back(&self, number: u32) -> u32 {
        number ^ self
    }
}

/// All kinds of items, each read to its last bit.
#[service]
trait Target {
    fn plain(&self, number: u64, kind: Kind, flag: bool) -> Option<Kind>;
    fn text(&self, text: &str, other: Option<&str>) -> (String, Blob);
    fn slices(&self, bytes: &[u8], flags: &[bool]) -> Vec<bool>;
    fn graph(&self, graph: GraphRef<'_, Node>) -> Result<Frozen<Node>, String>;
    #[blocking]
    fn beside(&self, graph: GraphRef<'_, Node>, number: u64) -> u64;
    #[blocking]
    fn call(&self, echo: EchoClient, number: u32) -> u32;
    fn give(&self, really: bool) -> Option<Arc<dyn Echo>>;
}

struct Touches;

/// All that can be read of a graph.
fn touch<B>(view: &weft_object::View<B>) -> u64 {
    view.records::<Node>()
        .flatten()
        .map(|node| {
            let leaves = view.seq(node.leaves).iter().filter(|leaf| **leaf).count() as u64;
            let next =
                node.next.map_or(0, |next| format!("{:?}", view.get(next).kind).len() as u64);
            leaves
                + next
                + view.text(&node.name).chars().map(u64::from).sum::<u64>()
                + u64::from(node.flag)
        })
        .sum()
}

impl Target for Touches {
    fn plain(&self, number: u64, kind: Kind, flag: bool) -> Option<Kind> {
        let _ = format!("{number}{kind:?}");
        flag.then_some(kind)
    }

    fn text(&self, text: &str, other: Option<&str>) -> (String, Blob) {
        let count = text.chars().chain(other.unwrap_or("").chars()).count();
        (text.to_uppercase(), Blob::from(vec![count as u8; count.min(100)]))
    }

    fn slices(&self, bytes: &[u8], flags: &[bool]) -> Vec<bool> {
        flags.iter().map(|flag| *flag ^ bytes.contains(&1)).collect()
    }

    fn graph(&self, graph: GraphRef<'_, Node>) -> Result<Frozen<Node>, String> {
        let sum = touch(graph.view());
        if graph.root().flag { Ok(nodes(3)) } else { Err(sum.to_string()) }
    }

    fn beside(&self, graph: GraphRef<'_, Node>, number: u64) -> u64 {
        touch(graph.view()) ^ number
    }

    fn call(&self, echo: EchoClient, number: u32) -> u32 {
        echo.within(Duration::from_secs(5)).blocking().back(number).unwrap_or(0)
    }

    fn give(&self, really: bool) -> Option<Arc<dyn Echo>> {
        really.then(|| Arc::new(3_u32) as _)
    }
}

fn nodes(count: usize) -> Frozen<Node> {
    Graph::build(&memory(), Purpose::Send, TargetClient::types(), |graph| {
        let mut next = None;
        for at in 0..count {
            let name = graph.text(&"näme".repeat(at + 1))?;
            let leaves = graph.seq(&vec![true; at])?;
            let (kind, flag, zero) = (Kind::Green, at > 0, [0; 2]);
            next = Some(graph.alloc(Node { name, next: None, kind, flag, zero, leaves })?);
        }
        let last = next.expect("there is one at least");
        let link = last.link();
        graph.get_mut(last).next = Some(link);
        Ok(last)
    })
    .unwrap()
}

/// Makes one call of each kind.
fn call_all(client: &BlockingTargetClient) {
    client.plain(7, Kind::Red, true).unwrap();
    client.text("tëxt", Some("other")).unwrap();
    client.text("tëxt of some length", None).unwrap();
    client.slices(&[1, 2, 3], &[true, false, true]).unwrap();
    for count in [1, 4, 40] {
        let _ = client.graph(&nodes(count)).unwrap();
        client.beside(&nodes(count), 9).unwrap();
    }
    assert_eq!(client.call(Arc::new(1), 5).unwrap(), 4);
    assert!(client.give(false).unwrap().is_none());
    assert_eq!(client.give(true).unwrap().unwrap().blocking().back(1).unwrap(), 2);
}

/// Keeps what comes, before it is handled.
#[derive(Clone)]
struct Recording {
    services: Services,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Handler for Recording {
    fn handle(&self, batch: &mut Batch<'_>) {
        let mut count = 0;
        while let Some(incoming) = batch.next() {
            count += 1;
            if matches!(incoming.kind, IncomingKind::Call(_)) {
                self.requests.lock().unwrap().push(incoming.body.to_vec());
            }
        }
        batch.give_back(count);
        self.services.handle(batch);
    }
}

#[derive(Clone, Debug)]
enum Damage {
    Set(prop::sample::Index, u8),
    Flip(prop::sample::Index, u8),
    Word(prop::sample::Index, u64),
    Cut(prop::sample::Index),
    Grow(u8, u8),
    Copy(prop::sample::Index, prop::sample::Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    let word =
        prop_oneof![any::<u64>(), 0..40_u64, Just(u64::MAX), Just(1 << 63), Just(u64::MAX / 4)];
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (at(), 0..8_u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        (at(), word).prop_map(|(at, word)| Damage::Word(at, word)),
        at().prop_map(Damage::Cut),
        (any::<u8>(), 1..40_u8).prop_map(|(byte, count)| Damage::Grow(byte, count)),
        (at(), at()).prop_map(|(from, to)| Damage::Copy(from, to)),
    ]
}

fn inflict(bytes: &mut Vec<u8>, damage: &Damage) {
    let len = bytes.len();
    let word = |at: &prop::sample::Index| at.index(len / 8) * 8;
    match damage {
        Damage::Grow(byte, count) => bytes.extend(std::iter::repeat_n(*byte, usize::from(*count))),
        _ if len < 8 => {}
        Damage::Set(at, byte) => bytes[at.index(len)] = *byte,
        Damage::Flip(at, bit) => bytes[at.index(len)] ^= 1 << bit,
        Damage::Word(at, new) => {
            let at = word(at);
            bytes[at..at + 8].copy_from_slice(&new.to_le_bytes());
        }
        Damage::Cut(at) => bytes.truncate(at.index(len)),
        Damage::Copy(from, to) => bytes.copy_within(word(from)..word(from) + 8, word(to)),
    }
}

fn cases() -> ProptestConfig {
    ProptestConfig {
        cases: option_env!("WEFT_HOSTILE_CASES").map_or(1_500, |cases| cases.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn strategy(count: usize) -> impl Strategy<Value = (usize, Vec<Damage>)> {
    (0..count, proptest::collection::vec(damage(), 1..6))
}

/// An endpoint that records what is asked of its services, and a client of it that has asked for everything.
struct Recorded {
    world: World,
    _server: Endpoint,
    connection: Connection,
    client: TargetClient,
    requests: Vec<Vec<u8>>,
}

impl Recorded {
    fn new() -> Self {
        let world = World::new(LinkPolicy::Auto);
        world.exporter.export::<dyn Target>("target", Arc::new(Touches));
        let recording = Recording { services: world.exporter.clone(), requests: Arc::default() };
        let server = handled_by(NodeId(2), Arc::new(recording.clone()));
        let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
        let connection = world.client.connect(address, soon(&world.client));
        let connection = world.client.block_on(connection).unwrap();
        let client = world.importer.import_blocking::<dyn Target>(&connection, "target").unwrap();
        call_all(&client.blocking());
        let requests = std::mem::take(&mut *recording.requests.lock().unwrap());
        assert_eq!(requests.len(), 15);
        Self { world, _server: server, connection, client, requests }
    }

    fn call(&self, request: &[u8]) -> Vec<u8> {
        let deadline = soon(&self.world.client);
        let reply = self.connection.block_on(self.connection.call(request, deadline));
        reply.unwrap().to_vec()
    }
}

#[test]
fn damaged_requests_are_refused_or_harmless() {
    let recorded = Recorded::new();
    let counts = Mutex::new([0; 11]);
    let run = |(which, damages): (usize, Vec<Damage>)| {
        let mut request = recorded.requests[which].clone();
        for damage in &damages {
            inflict(&mut request, damage);
            let reply = recorded.call(&request);
            // It begins with a word that says what came of it.
            let word = u64::from_le_bytes(*reply.first_chunk().unwrap());
            prop_assert!(word < 11, "{word}");
            counts.lock().unwrap()[word as usize] += 1;
        }
        Ok(())
    };
    TestRunner::new(cases()).run(&strategy(recorded.requests.len()), run).unwrap();
    // Some of it is still valid; of what is not, the most is found in arguments, and some in what stands ahead of them.
    let [done, no_object, no_method, arguments, ..] = *counts.lock().unwrap();
    assert!(done > 50 && no_object > 50 && no_method > 5 && arguments > 500, "{counts:?}");
    assert!(recorded.connection.is_open());
    call_all(&recorded.client.blocking());
}

/// Answers an import as it should be, and all else with what it is given.
struct Lies {
    import: Mutex<Vec<u8>>,
    next: Mutex<Vec<u8>>,
}

impl Handler for Lies {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            let is_import = incoming.body[..8] == [0; 8];
            let lie = if is_import { &self.import } else { &self.next };
            batch.reply(call, lie.lock().unwrap().as_slice());
        }
    }
}

#[test]
fn damaged_replies_are_refused_or_harmless() {
    let recorded = Recorded::new();
    let replies: Vec<_> = recorded.requests.iter().map(|request| recorded.call(request)).collect();
    let lies = Arc::new(Lies { import: Mutex::new(replies[0].clone()), next: Mutex::default() });
    let liar = handled_by(NodeId(3), Arc::clone(&lies) as _);
    let address = liar.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let services = Services::new();
    let honest = endpoint(next_client(), LinkPolicy::Auto, &services);
    let connection = honest.block_on(honest.connect(address, soon(&honest))).unwrap();
    let client = services.import_blocking::<dyn Target>(&connection, "target").unwrap();
    let client = client.blocking();
    let graph = nodes(2);
    let run = |(which, damages): (usize, Vec<Damage>)| {
        let mut reply = replies[which].clone();
        for damage in &damages {
            inflict(&mut reply, damage);
            lies.next.lock().unwrap().clone_from(&reply);
            let _ = client.plain(1, Kind::Red, true).map(|kind| format!("{kind:?}"));
            let _ = client.text("a", None).map(|(text, blob)| text.len() + blob.len());
            let _ = client.slices(&[], &[]).map(|flags| format!("{flags:?}"));
            if let Ok(Ok(graph)) = client.graph(&graph) {
                touch(graph.view());
                let _ = format!("{:?}", graph.root());
            }
            let _ = client.beside(&graph, 1);
            if let Ok(Some(echo)) = client.give(true) {
                let _ = echo.blocking().back(1);
            }
        }
        Ok(())
    };
    TestRunner::new(cases()).run(&strategy(replies.len()), run).unwrap();
    // Of imports, too: the importer is told something else than it should be.
    lies.next.lock().unwrap().clone_from(&replies[1]);
    let run = |damages: Vec<Damage>| {
        let mut import = replies[0].clone();
        damages.iter().for_each(|damage| inflict(&mut import, damage));
        *lies.import.lock().unwrap() = import;
        if let Ok(client) = services.import_blocking::<dyn Target>(&connection, "target") {
            let _ = client.blocking().plain(1, Kind::Red, true);
            let _ = client.blocking().graph(&graph).map(|graph| graph.is_ok());
        }
        Ok(())
    };
    let damages = proptest::collection::vec(damage(), 1..6);
    TestRunner::new(cases()).run(&damages, run).unwrap();
    assert!(connection.is_open());
}

#[test]
fn damaged_releases_take_nothing_from_anybody_else() {
    let recorded = Recorded::new();
    let services = Services::new();
    let hostile = endpoint(next_client(), LinkPolicy::Auto, &services);
    let address = recorded.connection.peer().address;
    let connection = hostile.block_on(hostile.connect(address, soon(&hostile))).unwrap();
    let _own = services.import_blocking::<dyn Target>(&connection, "target").unwrap();
    let run = |(object, damages): (u64, Vec<Damage>)| {
        // The registry's method 1. The lowest numbers are in use: its own, and the other client's.
        let mut release = [0, 1, object].map(u64::to_le_bytes).concat();
        for damage in &damages {
            inflict(&mut release, damage);
            connection.block_on(connection.send(release.as_slice())).unwrap();
            let reply = connection.call(release.as_slice(), soon(&hostile));
            let reply = connection.block_on(reply).unwrap();
            let word = u64::from_le_bytes(*reply.first_chunk().unwrap());
            prop_assert!(word < 11, "{word}");
        }
        Ok(())
    };
    let releases = (1..4_u64, proptest::collection::vec(damage(), 1..6));
    TestRunner::new(cases()).run(&releases, run).unwrap();
    assert!(connection.is_open());
    call_all(&recorded.client.blocking());
}
