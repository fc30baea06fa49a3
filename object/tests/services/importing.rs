//! What imports leave behind: of those that are refused nothing, of lists of types what is counted.

use std::sync::{Arc, Mutex};

use weft_object::service::{Client as _, GraphRef, ImportError, Services};
use weft_object::{Wire, service};
use weft_transport::{Batch, Handler, IncomingKind, LinkPolicy, NodeId, Purpose};

use crate::world::{World, endpoint, handled_by, links, next_client, soon, wait_until};

mod older {
    use super::*;

    #[derive(Wire, Clone, Copy)]
    #[repr(C)]
    pub(super) struct Rank {
        vertex: u64,
        rank: f64,
    }

    #[service]
    pub(super) trait Ranks {
        fn put(&self, rank: GraphRef<'_, Rank>);
    }
}

mod later {
    use super::*;

    #[derive(Wire, Clone, Copy)]
    #[wire(reads = "a0c6c7dc3964178fc02fa1650e131cc1")]
    #[repr(C)]
    pub(super) struct Rank {
        vertex: u64,
        weight: f64,
    }

    #[service]
    pub(super) trait Ranks {
        fn put(&self, rank: GraphRef<'_, Rank>);
    }

    pub(super) struct Ignores;

    impl Ranks for Ignores {
        fn put(&self, _: GraphRef<'_, Rank>) {}
    }
}

#[test]
fn what_who_imports_refuses_is_released() {
    for &link in links() {
        let world = World::new(link);
        world.exporter.export::<dyn later::Ranks>("ranks", Arc::new(later::Ignores));
        for _ in 0..3 {
            let imported =
                world.importer.import_blocking::<dyn older::Ranks>(&world.connection, "ranks");
            // The exporter reads what the importer has, which does not read what the exporter has.
            assert!(matches!(imported.unwrap_err(), ImportError::Types(_)));
        }
        wait_until(&world.client, "the release", || world.exporter.references() == 0);
    }
}

#[service]
trait Names {
    fn len(&self, name: &str) -> u64;
}

struct Counts;

impl Names for Counts {
    fn len(&self, name: &str) -> u64 {
        name.len() as u64
    }
}

/// Items as they travel: each at a multiple of eight.
fn items(items: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for item in items {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend_from_slice(item);
    }
    bytes
}

fn word(value: usize) -> [u8; 8] {
    (value as u64).to_le_bytes()
}

/// A list of so many types that nobody knows.
fn unknown_types(count: usize, seed: u8) -> Vec<u8> {
    let one = |number: usize| {
        let print = [word(number), [seed; 8]].concat();
        [&print[..], &print, &[0]].concat()
    };
    (0..count).flat_map(one).collect()
}

/// Asks for "names", of whose interface it knows no method, and tells of these types.
fn import(told: &[u8]) -> Vec<u8> {
    let texts: [&[u8]; 4] = [&word(5), b"names", &word(5), b"Names"];
    let [name_len, name, interface_len, interface] = texts;
    let head = [&word(0), &word(0), &word(0)];
    let head = head.map(|word| &word[..]);
    let none = word(0);
    let len = word(told.len());
    let rest: [&[u8]; 9] =
        [name_len, name, interface_len, interface, &[0; 16], &none, &none, &len, told];
    items(&[&head[..], &rest].concat())
}

#[test]
fn types_that_a_peer_tells_of_are_counted_and_limited() {
    let world = World::new(LinkPolicy::Auto);
    world.exporter.export::<dyn Names>("names", Arc::new(Counts));
    let ask = |told: &[u8]| {
        let request = import(told);
        let call = world.connection.call(&request[..], soon(&world.client));
        let reply = world.client.block_on(call).unwrap();
        u64::from_le_bytes(*reply.first_chunk().unwrap())
    };
    let account = || world.server.memory().account();
    let before = account().allocated_for(Purpose::Receive);
    let counted = || account().allocated_for(Purpose::Receive).saturating_sub(before);
    let list = |seed| unknown_types(1_900, seed);
    let one = list(0).len() as u64;
    assert_eq!(ask(&list(0)), 0);
    assert!(counted() >= one, "{} of {one}", counted());
    let of_one = counted();
    for _ in 0..200 {
        assert_eq!(ask(&list(0)), 0);
    }
    assert!(counted() < of_one + one, "what was told before is kept once");
    let statuses: Vec<_> = (1..=100).map(|seed| ask(&list(seed))).collect();
    let taken = statuses.iter().take_while(|status| **status == 0).count();
    assert!((10..100).contains(&taken), "{taken} lists of a peer");
    assert!(statuses[taken..].iter().all(|status| *status == 10), "as too many references are");
    assert!(counted() >= one * taken as u64);
    assert_eq!(ask(&list(0)), 0, "which is known");
    world.connection.close();
    wait_until(&world.client, "the end of all that", || {
        world.exporter.references() == 0 && counted() < one
    });
}

/// Answers each import with a list of types.
struct Tells(Mutex<Vec<u8>>);

impl Handler for Tells {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            batch.reply(call, self.0.lock().unwrap().as_slice());
        }
    }
}

#[test]
fn an_exporter_tells_of_no_more_types_than_an_interface_has_and_its_list_is_counted() {
    let tells = Arc::new(Tells(Mutex::default()));
    let server = handled_by(NodeId(1), Arc::clone(&tells) as _);
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let services = Services::new();
    let client = endpoint(next_client(), LinkPolicy::Auto, &services);
    let connection = client.block_on(client.connect(address, soon(&client))).unwrap();
    let tell = |count| {
        let told = unknown_types(count, 1);
        let (numbers, len) = ([0_u8; 2], word(told.len()));
        let parts: [&[u8]; 6] = [&word(0), &word(1), &word(1), &numbers, &len, &told];
        *tells.0.lock().unwrap() = items(&parts);
        told.len() as u64
    };
    tell(3_000);
    let error = services.import_blocking::<dyn Names>(&connection, "names").unwrap_err();
    assert!(matches!(error, ImportError::Reply(_)), "{error}");
    let len = tell(1_900);
    let before = client.memory().account().allocated_for(Purpose::Receive);
    let names = services.import_blocking::<dyn Names>(&connection, "names").unwrap();
    let counted = client.memory().account().allocated_for(Purpose::Receive) - before;
    assert!(counted >= len, "{counted} of {len}");
    drop(names);
    wait_until(&client, "the release", || {
        client.memory().account().allocated_for(Purpose::Receive) < before + len
    });
}

#[test]
fn who_says_that_it_is_another_finds_nothing_by_counting() {
    let services = Services::new();
    services.export::<dyn Names>("names", Arc::new(Counts));
    let server = endpoint(NodeId(1), LinkPolicy::Tcp, &services);
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let [one, other] = [Services::new(), Services::new()];
    let nodes = [&one, &other].map(|services| endpoint(NodeId(2), LinkPolicy::Tcp, services));
    let connect =
        |node: &weft_transport::Endpoint| node.block_on(node.connect(address, soon(node))).unwrap();
    let connection = connect(&nodes[0]);
    let names = one.import_blocking::<dyn Names>(&connection, "names").unwrap();
    let stranger = connect(&nodes[1]);
    for id in 1_usize..2_000 {
        let request = items(&[&word(id), &word(0), &word(1), b"a"]);
        let call = stranger.call(&request[..], soon(&nodes[1]));
        let reply = nodes[1].block_on(call).unwrap();
        assert_eq!(reply[..8], word(1), "{id}: no such object");
    }
    let _ = names.within(std::time::Duration::from_secs(1)).blocking().len("two");
}
