use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use rustix::io::Errno;

use super::connecting::failure;
use super::*;
use crate::connection::Connection;
use crate::endpoint::{Endpoint, EndpointConfig};
use crate::error::ConnectError;
use crate::handler::NoHandler;
use crate::identity::{Incarnation, NodeId};
use crate::limits::HAND_OVER_TIMEOUT;
use crate::link::{LinkKind, LinkPolicy, not_over_verbs};
use crate::link::{Namespace, ShmListener};
use crate::manager::Attempted;
use crate::memory::{Memory, MemoryConfig};
use crate::reactor::Wait;
use crate::time::Clock;

fn endpoint(id: NodeId, links: LinkPolicy, limit_bytes: u64) -> Endpoint {
    endpoint_by(id, links, limit_bytes, Clock::system())
}

fn endpoint_by(id: NodeId, links: LinkPolicy, limit_bytes: u64, clock: Clock) -> Endpoint {
    let memory = Memory::new(MemoryConfig { limit_bytes }).unwrap();
    let mut config = EndpointConfig::new(id, Incarnation(1), memory);
    config.links = links;
    config.clock = clock;
    // Far enough away that only a hang reaches it.
    config.connect_timeout = Duration::from_secs(60);
    Endpoint::start(config, Arc::new(NoHandler)).unwrap()
}

fn node(links: LinkPolicy, limit_bytes: u64) -> (Endpoint, SocketAddr) {
    let node = endpoint(NodeId(1), links, limit_bytes);
    let address = node.listen(([127, 0, 0, 1], 0).into()).unwrap();
    (node, address)
}

const PLENTY: u64 = 64 << 20;
/// Room for all that a connection needs but for memory to share.
const LITTLE: u64 = 1 << 20;

fn connect(links: LinkPolicy, memory: u64, to: SocketAddr) -> Result<Connection, ConnectError> {
    let client = endpoint(NodeId::client(1), links, memory);
    let deadline = client.clock().now() + Duration::from_secs(30);
    client.block_on(client.connect(to, deadline))
}

#[test]
fn a_peer_that_never_passes_memory_is_connected_to_by_tcp() {
    let (_node, address) = node(LinkPolicy::Tcp, PLENTY);
    let _silent = ShmListener::bind(address, Namespace::Endpoints).unwrap();
    let connection = connect(LinkPolicy::Auto, PLENTY, address).unwrap();
    assert_eq!(connection.link(), LinkKind::Tcp);
}

#[test]
fn without_memory_on_either_side_a_connection_runs_over_tcp() {
    for (theirs, ours) in [(PLENTY, LITTLE), (LITTLE, PLENTY)] {
        let (_node, address) = node(LinkPolicy::Auto, theirs);
        let connection = connect(LinkPolicy::Auto, ours, address).unwrap();
        assert_eq!(connection.link(), LinkKind::Tcp);
    }
}

#[test]
fn with_shared_memory_alone_the_error_says_that_there_is_none() {
    let check = |memory, address| {
        let error = connect(LinkPolicy::Shm, memory, address).unwrap_err();
        assert_eq!(error, ConnectError::NotShared { address });
    };
    let (_shares, address) = node(LinkPolicy::Auto, PLENTY);
    assert!(connect(LinkPolicy::Shm, PLENTY, address).is_ok());
    check(LITTLE, address);
    let (_full, address) = node(LinkPolicy::Auto, LITTLE);
    check(PLENTY, address);
    let (_confined, address) = node(LinkPolicy::Tcp, PLENTY);
    check(PLENTY, address);
    check(PLENTY, ([192, 0, 2, 1], 7400).into());
}

#[test]
fn with_shared_memory_alone_an_address_where_nobody_listens_is_refused() {
    let (gone, address) = node(LinkPolicy::Auto, PLENTY);
    gone.shutdown();
    let error = connect(LinkPolicy::Shm, PLENTY, address).unwrap_err();
    let ConnectError::Refused { kind, .. } = &error else { panic!("{error}") };
    assert_eq!(*kind, io::ErrorKind::ConnectionRefused);
    assert!(error.to_string().contains("connection refused"), "{error}");
}

#[test]
fn with_verbs_alone_the_error_says_that_who_answers_takes_none() {
    let address = SocketAddr::from(([127, 0, 0, 1], 7400));
    let said = |kind, error| failure(kind, address, &error);
    assert_eq!(said(LinkKind::Verbs, not_over_verbs()), ConnectError::NoVerbs { address });
    // Nobody answers, or does without a word; and a device that cannot do something.
    for error in
        [Errno::CONNREFUSED.into(), Errno::OPNOTSUPP.into(), ErrorKind::ConnectionRefused.into()]
    {
        let expected = ConnectError::refused(address, &error);
        assert_eq!(said(LinkKind::Verbs, error), expected);
    }
    assert_eq!(said(LinkKind::Shm, not_over_verbs()), ConnectError::NotShared { address });
    let plain = ConnectError::refused(address, &not_over_verbs());
    assert_eq!(said(LinkKind::Tcp, not_over_verbs()), plain);
}

/// Whoever begins a connection over verbs hears at once that it leads to an endpoint which takes none.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test is who connects")]
fn an_endpoint_without_verbs_answers_an_introduction_with_something_else() {
    let (_node, address) = node(LinkPolicy::Tcp, PLENTY);
    let mut socket = TcpStream::connect(address).unwrap();
    let mut introduction = [0; 64];
    introduction[..8].copy_from_slice(b"WEFTVRBS");
    socket.write_all(&introduction).unwrap();
    let mut answer = [0; 8];
    socket.read_exact(&mut answer).unwrap();
    assert_ne!(answer, *b"WEFTVRBS");
}

#[test]
fn what_is_begun_while_an_endpoint_shuts_down_is_let_go_of() {
    let (_node, address) = node(LinkPolicy::Tcp, PLENTY);
    let seeker = endpoint(NodeId(2), LinkPolicy::Tcp, PLENTY);
    let reactor = seeker.common().reactors.get().unwrap()[0].upgrade().unwrap();
    seeker.shutdown();
    let turn = || {
        let attempt = Arc::new(Attempt::default());
        reactor.submit(Command::Connect(address, Arc::clone(&attempt)));
        reactor.state.lock().turn(&reactor, Wait::Poll).unwrap();
        attempt
    };
    // As if it were asked for before it is known that the endpoint stops, but after all others were closed.
    reactor.stopping.store(false, Ordering::SeqCst);
    reactor.abandoned.store(false, Ordering::SeqCst);
    let begun = turn();
    assert_eq!(reactor.members.lock().len(), 1);
    reactor.stopping.store(true, Ordering::SeqCst);
    reactor.state.lock().clear(&reactor);
    assert!(reactor.members.lock().is_empty(), "a member that nobody closes is driven for ever");
    let (mut begun, refused) = (pin!(Attempted(&begun)), turn());
    let mut context = Context::from_waker(Waker::noop());
    let closed = begun.as_mut().poll(&mut context).map(|ended| ended.map(drop));
    assert_eq!(closed, Poll::Ready(Err(ConnectError::ShutDown { address })));
    let refused = pin!(Attempted(&refused)).poll(&mut context).map(|ended| ended.map(drop));
    assert_eq!(refused, Poll::Ready(Err(ConnectError::ShutDown { address })));
}

#[test]
fn a_link_that_is_coming_about_has_its_time_in_spite_of_a_jump() {
    const BEFORE: Duration = HAND_OVER_TIMEOUT.checked_div(2).unwrap();
    let (_node, address) = node(LinkPolicy::Tcp, PLENTY);
    let _silent = ShmListener::bind(address, Namespace::Endpoints).unwrap();
    let (clock, hand) = Clock::manual();
    let seeker = endpoint_by(NodeId(2), LinkPolicy::Auto, PLENTY, clock.clone());
    let reactor = seeker.common().reactors.get().unwrap()[0].upgrade().unwrap();
    // Its thread ends, and what it would do is done here.
    seeker.shutdown();
    reactor.stopping.store(false, Ordering::SeqCst);
    reactor.abandoned.store(false, Ordering::SeqCst);
    let turn = || {
        let mut state = reactor.state.lock();
        state.turn(&reactor, Wait::Poll).unwrap();
        let kinds: Vec<_> = state.open().map(|open| open.core.link.kind()).collect();
        (kinds, state.next_timer(&reactor))
    };
    let pass = |time: Duration| {
        let end = clock.now() + time;
        loop {
            match turn() {
                (kinds, _) if clock.now() >= end => return kinds,
                (_, next) => hand.advance_to(next.min(end)),
            }
        }
    };
    reactor.submit(Command::Connect(address, Arc::new(Attempt::default())));
    assert_eq!(pass(BEFORE), [LinkKind::Shm]);
    hand.advance_to(clock.now() + Duration::from_secs(3600));
    // What passed between the last look and the jump counts as seen or not.
    assert_eq!(pass(HAND_OVER_TIMEOUT - BEFORE - 2 * HOUSEKEEPING), [LinkKind::Shm]);
    assert_eq!(pass(3 * HOUSEKEEPING), [LinkKind::Tcp], "it goes on over the next");
    reactor.stopping.store(true, Ordering::SeqCst);
    reactor.state.lock().clear(&reactor);
}
