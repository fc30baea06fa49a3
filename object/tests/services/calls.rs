//! What calls carry, both ways, by both kinds of proxies.

use std::sync::Arc;
use std::time::Duration;

use weft_object::service::{
    Blob, Client as _, Exported, GraphRef, GraphReply, ImportError, Refusal, ServiceError,
};
use weft_object::{Frozen, Graph, Link, Seq, Text, Types, Wire, service};
use weft_transport::{Applied, CallError, LinkPolicy, Purpose};

use crate::world::{World, links, memory, wait_until};

#[derive(Wire, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Point {
    x: f64,
    y: f64,
    flag: bool,
    rest: [u8; 7],
}

#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
struct Person {
    name: Text,
    friends: Seq<Link<Person>>,
    boss: Option<Link<Person>>,
    born: u32,
}

#[derive(Wire, Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
enum Failure {
    Negative { by: u32 },
    Forbidden { why: u32 },
}

/// One method of each kind.
#[service]
trait Kinds {
    fn nothing(&self);
    fn sum(&self, a: u64, b: i8, c: u16, d: f64) -> f64;
    fn mirror(&self, point: Point) -> Point;
    fn shout(&self, text: &str) -> String;
    fn reverse(&self, bytes: &[u8]) -> Vec<u8>;
    fn total(&self, numbers: &[u32]) -> u64;
    fn maybe(&self, text: Option<&str>, number: Option<u8>) -> Option<String>;
    fn root_of(&self, number: i64) -> Result<u32, Failure>;
    fn several(&self, number: u8) -> (u8, String, Option<Blob>);
    fn blob(&self, len: u64) -> Blob;
    fn oldest(&self, people: GraphRef<'_, Person>) -> String;
    fn people(&self, count: u32) -> Frozen<Person>;
    #[blocking]
    fn beside(&self, people: GraphRef<'_, Person>, bytes: &[u8]) -> u64;
}

struct Plain;

impl Kinds for Plain {
    fn nothing(&self) {}

    fn sum(&self, a: u64, b: i8, c: u16, d: f64) -> f64 {
        a as f64 + f64::from(b) + f64::from(c) + d
    }

    fn mirror(&self, point: Point) -> Point {
        Point { x: point.y, y: point.x, ..point }
    }

    fn shout(&self, text: &str) -> String {
        text.to_uppercase()
    }

    fn reverse(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.iter().rev().copied().collect()
    }

    fn total(&self, numbers: &[u32]) -> u64 {
        numbers.iter().map(|number| u64::from(*number)).sum()
    }

    fn maybe(&self, text: Option<&str>, number: Option<u8>) -> Option<String> {
        Some(format!("{}{}", text?, number?))
    }

    fn root_of(&self, number: i64) -> Result<u32, Failure> {
        let number = u64::try_from(number);
        let number = number.map_err(|_| Failure::Negative { by: 1 })?;
        if number == 13 { Err(Failure::Forbidden { why: 13 }) } else { Ok(number.isqrt() as u32) }
    }

    fn several(&self, number: u8) -> (u8, String, Option<Blob>) {
        (number, number.to_string(), (number > 9).then(|| Blob::from(vec![number; 3])))
    }

    fn blob(&self, len: u64) -> Blob {
        (0..len).map(|at| at as u8).collect::<Vec<_>>().into()
    }

    fn oldest(&self, people: GraphRef<'_, Person>) -> String {
        let oldest = people.view().records::<Person>().flatten().min_by_key(|one| one.born);
        people.view().text(&oldest.unwrap_or(people.root()).name).to_owned()
    }

    fn people(&self, count: u32) -> Frozen<Person> {
        people(count)
    }

    fn beside(&self, people: GraphRef<'_, Person>, bytes: &[u8]) -> u64 {
        people.view().records::<Person>().flatten().count() as u64 + bytes.len() as u64
    }
}

/// A ring of friends, each with a text that is too long for its field.
fn people(count: u32) -> Frozen<Person> {
    Graph::build(&memory(), Purpose::Send, KindsClient::types(), |graph| {
        let mut all = Vec::new();
        for number in 0..count {
            let born = 100_000 - number;
            let name = graph.text(&format!("a person born in {born}"))?;
            let friends = Seq::EMPTY;
            all.push(graph.alloc(Person { name, friends, boss: None, born })?);
        }
        for at in 0..all.len() {
            let friends = graph.seq(&[all[(at + 1) % all.len()].link()])?;
            graph.get_mut(all[at]).friends = friends;
        }
        Ok(all[0])
    })
    .unwrap()
}

fn count(people: &GraphReply<Person>) -> usize {
    let (view, first) = (people.view(), people.root());
    let next = |person: &Person| *view.get(view.seq(person.friends)[0]);
    let mut person = next(first);
    let mut count = 1;
    while person.born != first.born {
        person = next(&person);
        count += 1;
    }
    count
}

fn with_kinds(link: LinkPolicy) -> (World, Exported<dyn Kinds>, KindsClient) {
    let world = World::new(link);
    let exported = world.exporter.export::<dyn Kinds>("kinds", Arc::new(Plain));
    let client = world.importer.import_blocking::<dyn Kinds>(&world.connection, "kinds").unwrap();
    (world, exported, client)
}

#[test]
fn all_that_may_be_taken_and_given_arrives() {
    let point = Point { x: 1.5, y: -2.5, flag: true, rest: [7; 7] };
    for &link in links() {
        let (_world, _exported, client) = with_kinds(link);
        let client = client.blocking();
        client.nothing().unwrap();
        assert_eq!(client.sum(1, -2, 3, 0.5).unwrap(), 2.5);
        assert_eq!(client.mirror(point).unwrap(), Point { x: -2.5, y: 1.5, ..point });
        assert_eq!(client.shout("straße").unwrap(), "STRASSE");
        assert_eq!(client.total(&[1, 2, u32::MAX]).unwrap(), 3 + u64::from(u32::MAX));
        assert_eq!(client.maybe(Some("a"), Some(1)).unwrap(), Some("a1".to_owned()));
        assert_eq!(client.maybe(None, Some(1)).unwrap(), None);
        assert_eq!(client.maybe(Some("a"), None).unwrap(), None);
        assert_eq!(client.root_of(17).unwrap(), Ok(4));
        assert_eq!(client.root_of(-1).unwrap(), Err(Failure::Negative { by: 1 }));
        assert_eq!(client.root_of(13).unwrap(), Err(Failure::Forbidden { why: 13 }));
        let (number, text, blob) = client.several(9).unwrap();
        assert_eq!((number, &*text, blob), (9, "9", None));
        assert_eq!(client.several(10).unwrap().2.as_deref(), Some(&[10, 10, 10][..]));
    }
}

#[test]
fn bytes_and_graphs_of_every_length_arrive() {
    for &link in links() {
        let (world, _exported, client) = with_kinds(link);
        let client = client.blocking();
        for len in [0, 1, 7, 8, 9, 100, 5_000, 20_000, 300_000, 3 << 20] {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let blob = client.blob(len as u64).unwrap();
            assert_eq!(*blob, *bytes, "{len}");
            assert!(client.reverse(&bytes).unwrap().into_iter().rev().eq(bytes), "{len}");
        }
        for len in [1, 10, 500, 60_000] {
            let graph = people(len);
            let expected = format!("a person born in {}", 100_001 - len);
            assert_eq!(client.oldest(&graph).unwrap(), expected);
            assert_eq!(client.beside(&graph, &[1, 2, 3]).unwrap(), u64::from(len) + 3);
            assert_eq!(count(&client.people(len).unwrap()), len as usize);
        }
        assert_eq!(world.exporter.references(), 1, "an import is a reference");
    }
}

#[test]
fn many_calls_are_under_way_at_once_on_whichever_executor() {
    for &link in links() {
        let (world, _exported, client) = with_kinds(link);
        let calls = (0..100_u64).map(|number| {
            let client = client.clone();
            async move { client.sum(number, 1, 0, 0.0).await.unwrap() }
        });
        // A future that may be moved to another thread.
        fn is_send<F: Future + Send>(future: F) -> F {
            future
        }
        let sums = world.client.block_on(is_send(join(calls.collect())));
        assert!(sums.into_iter().enumerate().all(|(at, sum)| sum == at as f64 + 1.0));
        let threads: Vec<_> = (0..4_u8)
            .map(|number| {
                let client = client.blocking();
                std::thread::spawn(move || {
                    for _ in 0..200 {
                        assert_eq!(
                            client.maybe(Some("n"), Some(number)).unwrap(),
                            Some(format!("n{number}"))
                        );
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// All of them, in order.
async fn join<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(move |context| {
        for (future, output) in futures.iter_mut().filter(|(_, output)| output.is_none()) {
            if let std::task::Poll::Ready(ready) = future.as_mut().poll(context) {
                *output = Some(ready);
            }
        }
        match futures.iter().all(|(_, output)| output.is_some()) {
            true => std::task::Poll::Ready(
                futures.iter_mut().map(|(_, output)| output.take().unwrap()).collect(),
            ),
            false => std::task::Poll::Pending,
        }
    })
    .await
}

#[test]
fn a_name_that_nobody_has_exported_cannot_be_imported() {
    let (world, exported, client) = with_kinds(LinkPolicy::Auto);
    let import = |name| world.importer.import_blocking::<dyn Kinds>(&world.connection, name);
    let error = import("others").unwrap_err();
    assert_eq!(error, ImportError::NoName { name: "others".to_owned() });
    exported.withdraw();
    assert!(matches!(import("kinds"), Err(ImportError::NoName { .. })));
    client.blocking().nothing().expect("who has imported it goes on");
}

/// An implementation that says which it is.
#[service]
trait Version {
    fn version(&self) -> u32;
}

impl Version for u32 {
    fn version(&self) -> u32 {
        *self
    }
}

#[test]
fn an_implementation_is_exchanged_under_those_who_have_imported_it() {
    for &link in links() {
        let world = World::new(link);
        let exported = world.exporter.export::<dyn Version>("version", Arc::new(1));
        let import = || {
            let imported =
                world.importer.import_blocking::<dyn Version>(&world.connection, "version");
            imported.unwrap().blocking()
        };
        let client = import();
        assert_eq!(client.version().unwrap(), 1);
        assert_eq!(exported.replace(Arc::new(2)).version(), 1);
        assert_eq!(client.version().unwrap(), 2, "without importing it again");
        // Another object under the name is for those who import it from then on.
        world.exporter.export::<dyn Version>("version", Arc::new(3));
        assert_eq!((client.version().unwrap(), import().version().unwrap()), (2, 3));
        exported.replace(Arc::new(4));
        assert_eq!((client.version().unwrap(), import().version().unwrap()), (4, 3));
    }
}

/// Waits as long as it is told to.
#[service]
trait Slow {
    #[blocking]
    fn wait(&self, millis: u64) -> u64;
}

struct Waits;

impl Slow for Waits {
    #[expect(clippy::disallowed_methods, reason = "being slow is what it is for")]
    fn wait(&self, millis: u64) -> u64 {
        std::thread::sleep(Duration::from_millis(millis));
        millis
    }
}

#[test]
fn a_call_has_its_deadline_and_its_error_says_whether_it_may_have_been_applied() {
    for &link in links() {
        let world = World::new(link);
        world.exporter.export::<dyn Slow>("slow", Arc::new(Waits));
        let client = world.importer.import_blocking::<dyn Slow>(&world.connection, "slow").unwrap();
        let hasty = client.within(Duration::from_millis(20)).blocking();
        let error = hasty.wait(400).unwrap_err();
        let applied = Applied::Maybe;
        assert_eq!(error, ServiceError::Call(CallError::DeadlineExceeded { applied }));
        assert_eq!(error.applied(), Applied::Maybe);
        assert_eq!(client.blocking().wait(1).unwrap(), 1, "the proxy's own deadline is later");
        world.connection.close();
        let error = client.blocking().wait(1).unwrap_err();
        assert!(matches!(error, ServiceError::Call(CallError::Disconnected { .. })), "{error}");
        assert_eq!(error.applied(), Applied::No);
    }
}

#[test]
fn a_graph_of_other_types_is_refused_before_it_is_sent() {
    let (_world, _exported, client) = with_kinds(LinkPolicy::Auto);
    let build = |types: &Types| {
        let person = Person { name: Text::EMPTY, friends: Seq::EMPTY, boss: None, born: 1 };
        Graph::build(&memory(), Purpose::Send, types, |graph| graph.alloc(person)).unwrap()
    };
    let graph = build(&Types::new().with::<u16>().with::<Person>());
    let error = client.blocking().oldest(&graph).unwrap_err();
    assert_eq!(error, ServiceError::GraphTypes);
    assert_eq!(error.applied(), Applied::No);
    // The same list, made elsewhere, is the same list.
    let graph = build(&Types::new().with::<Person>());
    assert_eq!(client.blocking().oldest(&graph).unwrap(), "");
}

/// What cannot be sent back.
#[service]
trait Careless {
    fn too_long(&self) -> Blob;
    fn of_other_types(&self) -> Frozen<Person>;
}

struct IsCareless;

impl Careless for IsCareless {
    fn too_long(&self) -> Blob {
        vec![0; weft_transport::limits::LARGE_MAX].into()
    }

    fn of_other_types(&self) -> Frozen<Person> {
        let types = Types::new().with::<u16>().with::<Person>();
        let person = Person { name: Text::EMPTY, friends: Seq::EMPTY, boss: None, born: 1 };
        Graph::build(&memory(), Purpose::Send, &types, |graph| graph.alloc(person)).unwrap()
    }
}

#[test]
fn a_result_that_cannot_be_sent_is_a_typed_error_and_the_connection_lives() {
    let world = World::new(LinkPolicy::Auto);
    world.exporter.export::<dyn Careless>("careless", Arc::new(IsCareless));
    let client = world.importer.import_blocking::<dyn Careless>(&world.connection, "careless");
    let client = client.unwrap().blocking();
    for error in [client.too_long().unwrap_err(), client.of_other_types().unwrap_err()] {
        assert!(matches!(error, ServiceError::Refused(Refusal::Result { .. })), "{error}");
        assert_eq!(error.applied(), Applied::Maybe);
    }
    assert!(world.connection.is_open());
}

#[test]
fn the_last_proxy_that_is_dropped_releases_the_reference() {
    for &link in links() {
        let (world, _exported, client) = with_kinds(link);
        let other = client.clone();
        drop(client);
        other.blocking().nothing().unwrap();
        assert_eq!(world.exporter.references(), 1);
        drop(other);
        wait_until(&world.client, "a release", || world.exporter.references() == 0);
    }
}
