//! A process that is killed in the middle of everything: what its connection had of the other side comes
//! back, all of it, and whoever waits for it is told.

#![expect(
    clippy::unwrap_used,
    reason = "the cases share functions that are no tests by themselves"
)]

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use weft_transport::{
    Applied, Batch, BodyError, BodyReader, BodyWriter, Connection, Endpoint, EndpointConfig,
    Handler, Incarnation, IncomingKind, LinkKind, LinkPolicy, Memory, MemoryConfig, NoHandler,
    NodeId, PollPolicy, Purpose, Time,
};

const MEMORY_BYTES: u64 = 128 << 20;

/// More than one frame may have: it is announced, granted and sent in chunks.
const LARGE: usize = 3 << 20;

/// What holds for a victim that has stopped: some of what it sent, and some of what it was to be sent.
const HELD_BYTES: u64 = 2 << 20;

/// What a connection keeps more or less of, whatever it is used for; less than a victim's rings have.
const USUAL_BYTES: u64 = 1 << 20;

const VICTIM: &str = "WEFT_TEST_VICTIM";

/// Replies with what it is asked, and keeps bodies.
#[derive(Default)]
struct Keeper {
    kept: Mutex<Vec<(BodyReader, BodyWriter)>>,
}

impl Handler for Keeper {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            match incoming.take_body() {
                Some(body) => {
                    let reply = batch.reply_body(call, b"head").unwrap();
                    self.kept.lock().unwrap().push((body, reply));
                }
                None => batch.reply(call, incoming.body),
            }
        }
    }
}

fn config(id: NodeId, links: LinkPolicy) -> EndpointConfig {
    let memory = Memory::new(MemoryConfig { limit_bytes: MEMORY_BYTES }).unwrap();
    let mut config = EndpointConfig::new(id, Incarnation(1), memory);
    config.links = links;
    config.poll = PollPolicy::Park;
    config
}

/// Far enough away that only a hang reaches it.
fn deadline(endpoint: &Endpoint) -> Time {
    endpoint.clock().now() + Duration::from_secs(120)
}

/// What the endpoint has given to connections of any kind, in bytes.
fn held(endpoint: &Endpoint) -> u64 {
    let account = endpoint.memory().account();
    let purposes = [Purpose::Receive, Purpose::Send, Purpose::Session, Purpose::Link];
    purposes.iter().map(|purpose| account.allocated_for(*purpose)).sum()
}

fn until(endpoint: &Endpoint, what: &str, is_so: impl Fn() -> bool) {
    let deadline = deadline(endpoint);
    while !is_so() {
        assert!(endpoint.clock().now() < deadline, "{what}: {} bytes are held", held(endpoint));
        endpoint.block_on(endpoint.sleep_until(endpoint.clock().now() + Duration::from_millis(5)));
    }
}

/// A whole window of small calls at once, and a large one.
async fn is_served(connection: &Connection, deadline: Time) {
    let calls = (0..64).map(|_| connection.call(&[7; 40_000], deadline));
    for reply in join_all(calls).await {
        assert!(*reply.unwrap() == [7; 40_000]);
    }
    assert_eq!(connection.call(&[8; LARGE], deadline).await.unwrap().len(), LARGE);
}

#[test]
fn what_a_killed_process_had_comes_back() {
    const KILLED: u64 = 6;
    for (links, kind) in [(LinkPolicy::Shm, LinkKind::Shm), (LinkPolicy::Tcp, LinkKind::Tcp)] {
        let keeper = Arc::new(Keeper::default());
        let server = Endpoint::start(config(NodeId(1), links), Arc::clone(&keeper) as _).unwrap();
        let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
        let client = Endpoint::start(config(NodeId::client(1), links), Arc::new(NoHandler));
        let client = client.unwrap();
        let connection = client.connect(address, deadline(&client));
        let connection = client.block_on(connection).unwrap();
        assert_eq!(connection.link(), kind);
        client.block_on(is_served(&connection, deadline(&client)));
        let before = held(&server) + USUAL_BYTES;
        for number in 0..KILLED {
            let mut victim = start_victim(address, links, 2 + number);
            until(&server, "the victim streams", || !keeper.kept.lock().unwrap().is_empty());
            let (mut body, mut reply) = keeper.kept.lock().unwrap().pop().unwrap();
            std::thread::scope(|scope| {
                let writing = scope.spawn(move || {
                    loop {
                        if let Err(error) = reply.write_blocking(&[4; 100_000]) {
                            break error;
                        }
                    }
                });
                let is_much = || held(&server) > before + HELD_BYTES;
                let process = Pid::from_child(&victim);
                // It stops somewhere, with rings, windows and messages as they are just then; a little earlier or later if it
                // was between two of them, and little is held.
                until(&server, "it stops with much under way", || {
                    until(&server, "much is under way", is_much);
                    kill_process(process, Signal::STOP).unwrap();
                    client.block_on(is_served(&connection, deadline(&client)));
                    is_much() || kill_process(process, Signal::CONT).is_err()
                });
                victim.kill().unwrap();
                victim.wait().unwrap();
                let error = writing.join().unwrap();
                assert!(matches!(error, BodyError::Disconnected { .. }), "{error:?}");
                assert_eq!(error.applied(), Applied::Maybe);
            });
            let lost = loop {
                match body.next_blocking() {
                    Ok(piece) => drop(piece.expect("it has no end")),
                    Err(error) => break error,
                }
            };
            assert!(matches!(lost, BodyError::Disconnected { .. }), "{lost:?}");
            drop(body);
            until(&server, "all comes back", || {
                server.stats().connections == 1 && held(&server) <= before
            });
            client.block_on(is_served(&connection, deadline(&client)));
        }
    }
}

/// What the test above starts, and nothing by itself: streams, calls and sends until it is killed, and
/// leaves what is streamed to it where it is.
#[test]
#[ignore = "another test starts it as a process of its own"]
#[expect(clippy::disallowed_methods, reason = "the process is told by a variable whom to send to")]
fn victim() {
    let Ok(told) = std::env::var(VICTIM) else { return };
    let told: Vec<&str> = told.split(' ').collect();
    let config = config(NodeId::client(told[2].parse().unwrap()), told[1].parse().unwrap());
    let endpoint = Endpoint::start(config, Arc::new(NoHandler)).unwrap();
    endpoint.block_on(async {
        let address = told[0].parse().unwrap();
        let connection = endpoint.connect(address, deadline(&endpoint)).await.unwrap();
        let call = connection.call_body(b"head", deadline(&endpoint));
        let (mut body, _replies) = call.await.unwrap();
        let streams = async { while body.write(&[1; 100_000]).await.is_ok() {} };
        let calls =
            (0..8).map(
                async |_| {
                    while connection.call(&[2; LARGE], deadline(&endpoint)).await.is_ok() {}
                },
            );
        let sends = async { while connection.send(&[3; 100_000]).await.is_ok() {} };
        futures_util::join!(streams, join_all(calls), sends);
    });
}

#[expect(clippy::disallowed_methods, reason = "a process is to be killed")]
fn start_victim(address: SocketAddr, links: LinkPolicy, id: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "victim"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.env(VICTIM, format!("{address} {links} {id}")).spawn().unwrap()
}
