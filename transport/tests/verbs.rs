//! Who ends up with which link where one side has an RDMA device, and what strangers get.
//!
//! Without a device the cases say so and do nothing; `cargo xtask softroce` runs them with one.

#![expect(
    clippy::unwrap_used,
    reason = "the cases share functions that are no tests by themselves"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use weft_transport::{
    Batch, Buffer, ConnectError, Endpoint, EndpointConfig, EndpointError, Handler, Incarnation,
    IncomingKind, LinkKind, LinkPolicy, Memory, MemoryConfig, Messages, NodeId, Purpose, Secret,
    Shared, Time, VerbsError,
};

struct Echo;

impl Handler for Echo {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            if let IncomingKind::Call(call) = incoming.kind {
                batch.reply(call, incoming.body);
            }
        }
    }
}

fn config(id: u64, links: LinkPolicy) -> EndpointConfig {
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
    let mut config = EndpointConfig::new(NodeId(id), Incarnation(1), memory);
    config.links = links;
    config
}

/// An endpoint that listens.
fn server(config: EndpointConfig) -> (Endpoint, SocketAddr) {
    let endpoint = Endpoint::start(config, Arc::new(Echo)).unwrap();
    let address = endpoint.listen(([127, 0, 0, 1], 0).into()).unwrap();
    (endpoint, address)
}

/// Far enough away that only a hang reaches it.
fn deadline(endpoint: &Endpoint) -> Time {
    endpoint.clock().now() + Duration::from_secs(30)
}

/// What a client with `config` ends up with, once it has called.
fn link_of(config: EndpointConfig, address: SocketAddr) -> Result<LinkKind, ConnectError> {
    let client = Endpoint::start(config, Arc::new(Echo)).unwrap();
    client.block_on(async {
        let connection = client.connect(address, deadline(&client)).await?;
        let reply = connection.call(b"ping", deadline(&client)).await.unwrap();
        assert_eq!(*reply, b"ping"[..]);
        Ok(connection.link())
    })
}

#[expect(clippy::print_stderr, reason = "says that a test was skipped")]
fn has_device() -> bool {
    match Endpoint::start(config(1, LinkPolicy::Verbs), Arc::new(Echo)) {
        Ok(_) => true,
        Err(EndpointError::Verbs(missing @ VerbsError::NoDevice)) => {
            eprintln!("skipped: {missing}");
            false
        }
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn both_sides_need_a_device_and_auto_goes_on_with_tcp() {
    if !has_device() {
        return;
    }
    let (_plain, without) = server(config(1, LinkPolicy::Tcp));
    assert_eq!(link_of(config(10, LinkPolicy::Auto), without), Ok(LinkKind::Tcp));
    let refused = link_of(config(11, LinkPolicy::Verbs), without).unwrap_err();
    assert_eq!(refused, ConnectError::NoVerbs { address: without });

    let (_able, with) = server(config(2, LinkPolicy::Verbs));
    assert_eq!(link_of(config(12, LinkPolicy::Verbs), with), Ok(LinkKind::Verbs));
    assert_eq!(link_of(config(13, LinkPolicy::Tcp), with), Ok(LinkKind::Tcp));
    assert_eq!(link_of(config(14, LinkPolicy::Auto), with), Ok(LinkKind::Shm));
}

#[test]
fn a_device_that_is_not_there_is_named() {
    if !has_device() {
        return;
    }
    let mut config = config(1, LinkPolicy::Verbs);
    config.verbs.device = Some("rxe77".to_owned());
    let error = Endpoint::start(config.clone(), Arc::new(Echo)).unwrap_err();
    let EndpointError::Verbs(VerbsError::NoSuchDevice { device, there }) = error else {
        panic!("{error:?}");
    };
    assert!(device == "rxe77" && !there.is_empty());
    config.verbs.device = None;
    config.verbs.gid_index = Some(200);
    let error = Endpoint::start(config, Arc::new(Echo)).unwrap_err();
    assert!(matches!(error, EndpointError::Verbs(VerbsError::NoGid { index: 200, .. })));
}

#[test]
fn strangers_are_given_nothing_and_harm_nobody() {
    if !has_device() {
        return;
    }
    let mut secretive = config(1, LinkPolicy::Verbs);
    secretive.secret = Some(Secret::new(0xfeed));
    let (server, address) = server(secretive);
    let mut friend = config(10, LinkPolicy::Verbs);
    friend.secret = Some(Secret::new(0xfeed));
    let friend = Endpoint::start(friend, Arc::new(Echo)).unwrap();
    let connection =
        friend.block_on(friend.connect(address, deadline(&friend))).expect("they know each other");

    let stranger = link_of(config(11, LinkPolicy::Verbs), address).unwrap_err();
    assert!(matches!(stranger, ConnectError::Refused { .. }), "{stranger}");
    let before = server.memory().account().allocated_bytes;
    // An introduction that shows no secret, and one that cannot be.
    for pair in [17u32, u32::MAX] {
        let mut introduction = [0; 64];
        introduction[..8].copy_from_slice(b"WEFTVRBS");
        introduction[8] = 1;
        introduction[10] = 3;
        introduction[14] = 32;
        introduction[16..20].copy_from_slice(&pair.to_le_bytes());
        introduction[25] = 32;
        let mut socket = socket(address);
        socket.write_all(&introduction).unwrap();
        let mut answer = Vec::new();
        // The end, or a reset.
        let _ = socket.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
    }
    // What the connections took is given back once they have been read to their end.
    let until = deadline(&friend);
    while server.memory().account().allocated_bytes > before {
        assert!(friend.clock().now() < until, "memory stays behind");
        friend.block_on(friend.sleep_until(friend.clock().now() + Duration::from_millis(20)));
    }
    let reply = friend.block_on(connection.call(b"still here", deadline(&friend)));
    assert_eq!(*reply.unwrap(), b"still here"[..]);
}

/// What is too long for one frame is read from where it lies, in both directions.
#[test]
fn large_bodies_are_read_from_the_sender_s_memory() {
    const LEN: usize = (5 << 20) + 12_345;
    if !has_device() {
        return;
    }
    let (server, address) = server(config(1, LinkPolicy::Verbs));
    let client = Endpoint::start(config(10, LinkPolicy::Verbs), Arc::new(Echo)).unwrap();
    let connection = client.block_on(client.connect(address, deadline(&client))).unwrap();
    let body: Vec<u8> = (0..LEN).map(|at| (at * 31 + at / 255) as u8).collect();
    for _ in 0..3 {
        let reply = client.block_on(connection.call(&body[..], deadline(&client))).unwrap();
        assert!(*reply == body[..], "it came back changed");
    }
    for side in [&client, &server] {
        let sent = side.stats().bytes_sent;
        assert!(sent < 64 << 10, "{sent} bytes were sent besides");
    }
    // Nothing of it stays behind, and nothing stays offered.
    let until = deadline(&client);
    while [&client, &server].iter().any(|side| {
        let account = side.memory().account();
        account.allocated_for(Purpose::Send) > 0
    }) {
        assert!(client.clock().now() < until, "memory stays behind");
        client.block_on(client.sleep_until(client.clock().now() + Duration::from_millis(20)));
    }
}

/// What is posted is sent from where it lies, but for what is too short: counted in bytes, in frames and in chunks. A
/// buffer that is back can be written and posted again.
#[test]
fn posted_buffers_are_sent_from_where_they_lie() {
    if !has_device() {
        return;
    }
    let mut posted = config(1, LinkPolicy::Verbs);
    posted.messages = Messages::Posted;
    let (server, address) = server(posted);
    let client = Endpoint::start(config(10, LinkPolicy::Verbs), Arc::new(Echo)).unwrap();
    let ours = client.block_on(client.connect(address, deadline(&client))).unwrap();
    let theirs = server.block_on(server.accept(deadline(&server))).unwrap();
    for len in [2_000, 100_000, 3 << 20] {
        let mut buffer = ours.register(Buffer::from(vec![0; len])).unwrap();
        for round in 0..3u8 {
            let before = client.stats().bytes_lent;
            buffer.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 7) as u8 ^ round);
            let ticket = buffer.post_send(len);
            let message = server.block_on(theirs.receive()).unwrap();
            assert!(message.iter().enumerate().all(|(at, byte)| *byte == (at / 7) as u8 ^ round));
            buffer = ticket.wait().unwrap().buffer;
            let lent = client.stats().bytes_lent - before;
            assert!((len * 9 / 10..=len).contains(&(lent as usize)), "{lent} of {len}");
        }
    }
    // What is sent otherwise, from a buffer of the moment, is copied.
    let before = client.stats().bytes_lent;
    client.block_on(ours.send(&[5; 100_000])).unwrap();
    assert_eq!(server.block_on(theirs.receive()).unwrap(), [5; 100_000]);
    assert_eq!(client.stats().bytes_lent, before);
}

/// Answers each call with the record of that number, from where it lies.
struct Records {
    records: Vec<Shared>,
}

impl Handler for Records {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            let number = incoming.body[0];
            if let IncomingKind::Call(call) = incoming.kind {
                let record = self.records[usize::from(number)].clone();
                batch.reply_shared(call, &[number][..], record);
            }
        }
    }
}

/// The records of a log are copied until that has cost as much as registering the log does, and are sent from where they
/// lie from then on: as replies, and as messages. Nobody holds them when all is done.
#[test]
fn records_of_a_log_that_is_read_are_sent_from_where_they_lie() {
    const LEN: usize = 8 << 10;
    const COUNT: usize = 7;
    if !has_device() {
        return;
    }
    let mut stored = config(1, LinkPolicy::Verbs);
    stored.messages = Messages::Posted;
    let block = stored.memory.allocate(64 << 10, Purpose::Log).unwrap();
    let block_len = block.len();
    let mut log = block.append_only();
    let records: Vec<Vec<u8>> =
        (0..COUNT).map(|number| (0..LEN).map(|at| (at / 5 + number * 3) as u8).collect()).collect();
    let shared = records.iter().map(|record| {
        let start = log.append(&[record]).unwrap();
        log.shared(start..start + LEN)
    });
    let handler = Arc::new(Records { records: shared.collect() });
    let server = Endpoint::start(stored, Arc::clone(&handler) as Arc<dyn Handler>).unwrap();
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let mut posted = config(10, LinkPolicy::Verbs);
    posted.messages = Messages::Posted;
    let client = Endpoint::start(posted, Arc::new(Echo)).unwrap();
    let ours = client.block_on(client.connect(address, deadline(&client))).unwrap();
    let theirs = server.block_on(server.accept(deadline(&server))).unwrap();

    let read = |number: usize| {
        let request = [number as u8];
        let reply = client.block_on(ours.call(&request[..], deadline(&client))).unwrap();
        assert!(reply[0] == number as u8 && reply[1..] == records[number][..], "{number}");
    };
    for turn in 0..block_len / LEN {
        read(turn % COUNT);
        assert_eq!(server.stats().bytes_lent, 0, "{turn}");
    }
    for turn in 0..3 * COUNT {
        let before = server.stats().bytes_lent;
        read(turn % COUNT);
        let lent = (server.stats().bytes_lent - before) as usize;
        assert!((LEN * 7 / 8..=LEN).contains(&lent), "{lent} of {LEN}");
    }
    // Other parts of the block go on being written, and are sent as they are then.
    let written = log.append(&[&[77; 2000]]).unwrap();
    let tail = log.shared(written..written + 2000);
    let before = server.stats().bytes_lent;
    server.block_on(theirs.send_shared(&b"head"[..], tail)).unwrap();
    let message = client.block_on(ours.receive()).unwrap();
    assert!(message[..4] == *b"head" && message[4..] == [77; 2000]);
    assert_eq!(server.stats().bytes_lent - before, 2000);

    // The device is asked again before the reactor sleeps.
    let until = deadline(&client);
    let is_held = || handler.records[0].holders() > 1 + COUNT;
    while is_held() {
        assert!(client.clock().now() < until, "records are held");
        client.block_on(client.sleep_until(client.clock().now() + Duration::from_millis(5)));
    }
}

/// A posted buffer comes back when the peer is killed in the middle of it, too.
#[test]
fn posted_buffers_come_back_from_a_peer_that_is_killed() {
    const LEN: usize = 900_000;
    if !has_device() {
        return;
    }
    let (server, address) = server(config(1, LinkPolicy::Verbs));
    let mut peer = start_peer(&address.to_string(), 20);
    let until = deadline(&server);
    let connection = loop {
        if let Some(connection) = server.manager().connection(NodeId(20)) {
            break connection;
        }
        assert!(server.clock().now() < until, "the peer does not come");
        server.block_on(server.sleep_until(server.clock().now() + Duration::from_millis(5)));
    };
    let tickets: Vec<_> = (0..8)
        .map(|_| connection.register(Buffer::from(vec![1; LEN])).unwrap().post_send(LEN))
        .collect();
    peer.kill().unwrap();
    peer.wait().unwrap();
    for ticket in tickets {
        let done = ticket.wait_until(deadline(&server));
        assert!(done.is_ok(), "it does not come back");
    }
}

/// A process that is killed in the middle of sending costs its own connection, soon, and no other. What its
/// messages had taken of the shared receives comes back: as many later ones are served as before.
#[test]
fn a_peer_that_is_killed_costs_its_own_connection_only() {
    const KILLED: u64 = 12;
    if !has_device() {
        return;
    }
    let (server, address) = server(config(1, LinkPolicy::Verbs));
    let client = Endpoint::start(config(10, LinkPolicy::Verbs), Arc::new(Echo)).unwrap();
    let connection = client.block_on(client.connect(address, deadline(&client))).unwrap();
    let pause = |millis| {
        client.block_on(client.sleep_until(client.clock().now() + Duration::from_millis(millis)));
    };
    let wait_until = |what: &dyn Fn() -> bool, by: Time| {
        while !what() {
            assert!(client.clock().now() < by, "it takes too long");
            pause(5);
        }
    };
    for number in 0..KILLED {
        let mut peer = start_peer(&address.to_string(), 20 + number);
        wait_until(&|| server.stats().connections == 2, deadline(&client));
        pause(30 + 7 * number);
        peer.kill().unwrap();
        peer.wait().unwrap();
        let by = client.clock().now() + Duration::from_secs(5);
        wait_until(&|| server.stats().connections == 1, by);
        let reply = client.block_on(connection.call(b"still here", deadline(&client)));
        assert_eq!(*reply.unwrap(), b"still here"[..]);
    }
    // Every receive that this connection may count on is there.
    client.block_on(async {
        let calls = (0..64).map(|_| connection.call(&[7; 40_000], deadline(&client)));
        for reply in futures_util::future::join_all(calls).await {
            assert_eq!(reply.unwrap().len(), 40_000);
        }
    });
}

/// What the test above starts, and nothing by itself: sends until it is killed.
#[test]
#[ignore = "another test starts it as a process of its own"]
#[expect(clippy::disallowed_methods, reason = "the process is told by a variable whom to send to")]
fn peer_process() {
    let Ok(address) = std::env::var("WEFT_TEST_PEER") else { return };
    let (address, id) = address.split_once(' ').unwrap();
    let peer = config(id.parse().unwrap(), LinkPolicy::Verbs);
    let peer = Endpoint::start(peer, Arc::new(Echo)).unwrap();
    peer.block_on(async {
        let address = address.parse().unwrap();
        let connection = peer.connect(address, deadline(&peer)).await.unwrap();
        loop {
            connection.send(&[3; 100_000]).await.unwrap();
        }
    });
}

#[expect(clippy::disallowed_methods, reason = "a process is to be killed")]
fn start_peer(address: &str, id: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "peer_process"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.env("WEFT_TEST_PEER", format!("{address} {id}")).spawn().unwrap()
}

/// A peer that introduces itself and whose queue pair is not there takes the connection that it made with it,
/// and no other.
#[test]
fn a_peer_that_cannot_be_reached_costs_its_own_connection_only() {
    if !has_device() {
        return;
    }
    let (server, address) = server(config(1, LinkPolicy::Verbs));
    let client = Endpoint::start(config(10, LinkPolicy::Verbs), Arc::new(Echo)).unwrap();
    let connection = client.block_on(client.connect(address, deadline(&client))).unwrap();
    let mut introduction = [0; 64];
    introduction[..8].copy_from_slice(b"WEFTVRBS");
    introduction[8] = 1;
    introduction[10] = 3;
    introduction[14] = 32;
    introduction[16] = 1;
    introduction[25] = 32;
    // No device has an address that is made of this one: it is for documents.
    introduction[42..48].copy_from_slice(&[0xff, 0xff, 192, 0, 2, 1]);
    let mut socket = socket(address);
    socket.write_all(&introduction).unwrap();
    let mut answer = [0; 64];
    // Its own device may tell the acceptor at once that there is no way.
    let answered = socket.read_exact(&mut answer).is_ok();
    assert!(!answered || answer.starts_with(b"WEFTVRBS"));
    drop(socket);
    let until = deadline(&client);
    while server.stats().connections > 1 {
        assert!(client.clock().now() < until, "the connection stays");
        client.block_on(client.sleep_until(client.clock().now() + Duration::from_millis(20)));
    }
    let reply = client.block_on(connection.call(b"still here", deadline(&client)));
    assert_eq!(*reply.unwrap(), b"still here"[..]);
}

#[expect(clippy::disallowed_methods, reason = "the test is the stranger")]
fn socket(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket
}
