//! Values that are graphs of objects, on a real node.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use weft_client::{BlockingClient, ClientConfig, GraphError, GraphLookup, LinkPolicy, Version};
use weft_object::{Frozen, Graph, InvalidValue, Link, Seq, Text, Types, Wire};
use weft_server::config::{Config, Host, HttpAddress, Settings};
use weft_server::node::Node;
use weft_transport::{Memory, MemoryConfig, Purpose};

#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
struct Thread {
    name: Text,
    crossed: Seq<Link<Thread>>,
    number: u64,
}

fn start(link: LinkPolicy) -> (Node, BlockingClient) {
    let settings = Settings {
        listen: Some("127.0.0.1:0".parse().unwrap()),
        http: Some(HttpAddress::Off),
        control: Some(HttpAddress::Off),
        memory: Some("256MiB".parse().unwrap()),
        ..Settings::default()
    };
    let node = Node::start(&Config::resolve(settings, Host::of_this_process()).unwrap()).unwrap();
    let mut config = ClientConfig::new([node.address().to_string()]);
    config.timeout = Duration::from_secs(30);
    config.link = link;
    (node, BlockingClient::connect(config).unwrap())
}

fn types() -> Types {
    Types::new().with::<Thread>()
}

/// A ring of threads each of which crosses its neighbours.
fn cloth(count: usize) -> Frozen<Thread> {
    let memory = Memory::new(MemoryConfig { limit_bytes: 256 << 20 }).unwrap();
    Graph::build(&memory, Purpose::Send, &types(), |graph| {
        let mut threads = Vec::new();
        for number in 0..count as u64 {
            let name = graph.text(&format!("thread {number}"))?;
            threads.push(graph.alloc(Thread { name, crossed: Seq::EMPTY, number })?);
        }
        for at in 0..count {
            let neighbours = [(at + 1) % count, (at + count - 1) % count];
            let crossed = graph.seq(&neighbours.map(|at| threads[at].link()))?;
            graph.get_mut(threads[at]).crossed = crossed;
        }
        Ok(threads[0])
    })
    .unwrap()
}

#[test]
fn a_graph_comes_back_and_is_used_where_it_was_received() {
    for link in [LinkPolicy::Tcp, LinkPolicy::Auto] {
        let (_node, client) = start(link);
        // One segment, several, and more than one message takes.
        for count in [1, 100, 3_000, 60_000] {
            let version = client.put_graph("cloth", &cloth(count)).unwrap();
            let found = client.get_graph::<Thread>("cloth", &types()).unwrap();
            let found = found.into_object().unwrap();
            assert_eq!(found.version(), version);
            assert!(!found.is_copy(), "{count} are used where they were received");
            let view = found.view();
            let mut thread = found.root();
            for number in 0..count as u64 {
                assert_eq!(thread.number, number);
                assert_eq!(view.text(&thread.name), format!("thread {number}"));
                let [next, before] = view.seq(thread.crossed) else { panic!("{thread:?}") };
                let (next, before) = (view.get(*next), view.get(*before));
                assert_eq!(before.number, (number + count as u64 - 1) % count as u64);
                thread = next;
            }
            assert!(std::ptr::eq(thread, found.root()), "it goes round");
        }
    }
}

#[test]
fn what_is_no_graph_of_the_types_is_an_error_that_says_why() {
    let (_node, client) = start(LinkPolicy::Auto);
    let found = client.get_graph::<Thread>("cloth", &types()).unwrap();
    assert!(matches!(found, GraphLookup::Absent { .. }));

    client.put("cloth", "a rag of no type that is long enough").unwrap();
    let error = client.get_graph::<Thread>("cloth", &types()).unwrap_err();
    assert!(matches!(error, GraphError::NoGraph { reason: InvalidValue::NoGraph, .. }), "{error}");

    let version = client.put_graph("cloth", &cloth(3)).unwrap();
    let error = client.get_graph::<u64>("cloth", &types().with::<u64>()).unwrap_err();
    let GraphError::OtherRoot { version: of, reason } = error else { panic!("{error}") };
    assert_eq!((of, reason.expected, reason.found), (version, "u64", Some("Thread")));
    assert!(of > Version::NONE);

    let mut value = cloth(3).to_value();
    let half = value.len() / 2;
    value[half..].fill(0xee);
    client.put("cloth", &value).unwrap();
    let error = client.get_graph::<Thread>("cloth", &types()).unwrap_err();
    assert!(
        matches!(error, GraphError::NoGraph { reason: InvalidValue::Invalid(_), .. }),
        "{error}"
    );
    client.put("cloth", &value[..value.len() / 2]).unwrap();
    assert!(client.get_graph::<Thread>("cloth", &types()).is_err());
}
