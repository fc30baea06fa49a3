//! What waits on an endpoint when it is shut down, and what is asked of it afterwards: none of it waits for ever,
//! whoever polls it.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as the tests do")]
#![expect(clippy::disallowed_methods, reason = "who listens and answers nobody")]

use std::future::{Future, poll_fn};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{join, join3};
use weft_transport::limits::{LEAVE_TIMEOUT, MESSAGE_MAX};
use weft_transport::{
    AcceptError, Applied, Backoff, Batch, CallError, Clock, CloseReason, ConnectError, Connection,
    Endpoint, EndpointConfig, EndpointError, Handler, Incarnation, LinkPolicy, Memory,
    MemoryConfig, Messages, NoHandler, NodeEvent, NodeId, PollPolicy, Responder, SendError,
    SimConfig, SimNetwork, Time,
};

/// Nobody listens there.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

/// What a wait that does not end would outlast.
const PATIENCE: Duration = Duration::from_secs(20);

/// Longer than any of this takes.
const LONG: Duration = Duration::from_secs(1_000_000);

fn config() -> EndpointConfig {
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
    let mut config = EndpointConfig::new(NodeId(1), Incarnation(1), memory);
    config.messages = Messages::Posted;
    config.backoff = Backoff { first: LONG, max: LONG };
    config
}

fn real(links: LinkPolicy) -> Endpoint {
    Endpoint::start(EndpointConfig { links, ..config() }, Arc::new(NoHandler)).unwrap()
}

fn simulated() -> Endpoint {
    let (clock, hand) = Clock::manual();
    let network =
        SimConfig { seed: 1, delay: Duration::ZERO..Duration::ZERO, loss: 0.0, partial: 0.0 };
    let network = SimNetwork::new(network, hand);
    Endpoint::simulated(EndpointConfig { clock, ..config() }, Arc::new(NoHandler), &network)
        .unwrap()
}

fn endpoints() -> [Endpoint; 3] {
    [real(LinkPolicy::Tcp), real(LinkPolicy::Shm), simulated()]
}

/// A future that was found waiting.
struct Waiting<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + 'a>>,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl<'a, T> Waiting<'a, T> {
    fn begin(future: impl Future<Output = T> + 'a) -> Self {
        let mut waiting = Self { future: Box::pin(future), woken: Arc::default() };
        assert!(waiting.poll().is_pending());
        waiting
    }

    fn poll(&mut self) -> Poll<T> {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// What it ends with; it has been woken for that.
    fn ended(mut self) -> T {
        assert!(self.woken.0.load(Ordering::SeqCst), "nobody would poll it again");
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it still waits"),
        }
    }
}

fn later(endpoint: &Endpoint) -> Time {
    endpoint.clock().now() + LONG
}

#[test]
fn what_waits_ends_when_the_endpoint_is_shut_down() {
    for endpoint in endpoints() {
        let mut events = endpoint.manager().events();
        let sleep = Waiting::begin(endpoint.sleep_until(later(&endpoint)));
        let accepts = [Time::MAX, later(&endpoint)].map(|deadline| {
            let endpoint = &endpoint;
            Waiting::begin(async move { endpoint.accept(deadline).await.err() })
        });
        let event = Waiting::begin(events.next());
        endpoint.shutdown();
        sleep.ended();
        for accept in accepts {
            assert_eq!(accept.ended(), Some(AcceptError::ShutDown));
        }
        assert_eq!(event.ended(), None);
    }
}

#[test]
fn who_waits_for_a_connection_is_told_when_the_endpoint_is_shut_down() {
    let silent = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = silent.local_addr().unwrap();
    for endpoint in [real(LinkPolicy::Tcp), simulated()] {
        let connect = Waiting::begin(async { endpoint.connect(address, Time::MAX).await.err() });
        endpoint.shutdown();
        assert_eq!(connect.ended(), Some(ConnectError::ShutDown { address }));
    }
}

/// Keeps the calls that come, and answers none.
#[derive(Default)]
struct Silent(Mutex<Vec<Responder>>);

impl Handler for Silent {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(mut incoming) = batch.next() {
            self.0.lock().unwrap().extend(incoming.responder());
        }
    }
}

/// Whoever asks why a connection has ended learns who was shut down: the peer, or the endpoint itself.
#[test]
fn either_side_is_told_which_of_them_was_shut_down() {
    for links in [LinkPolicy::Tcp, LinkPolicy::Shm] {
        let silent = Arc::new(Silent::default());
        let served = EndpointConfig { links, messages: Messages::Handled, ..config() };
        let server = Endpoint::start(served, Arc::clone(&silent) as _).unwrap();
        let address = server.listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let called = EndpointConfig { links, node: NodeId(2), ..config() };
        let client = Endpoint::start(called, Arc::new(NoHandler)).unwrap();
        let mut events = client.manager().events();
        let mut told = server.manager().events();
        let connection =
            client.block_on(client.connect(address, client.clock().now() + PATIENCE)).unwrap();
        let mut call = pin!(connection.call(b"anybody?", Time::MAX));
        client.block_on(poll_fn(|context| {
            assert!(call.as_mut().poll(context).is_pending());
            let has_come = !silent.0.lock().unwrap().is_empty();
            context.waker().wake_by_ref();
            if has_come { Poll::Ready(()) } else { Poll::Pending }
        }));
        client.shutdown();
        let reason = CloseReason::ShutDown;
        let disconnected = CallError::Disconnected { applied: Applied::Maybe, reason };
        assert_eq!(call.now_or_never().unwrap().err(), Some(disconnected));
        let sent = connection.send(b"more").now_or_never().unwrap();
        assert!(matches!(sent, Err(SendError::Disconnected(CloseReason::ShutDown))));
        let lost = |reason| move |event: &NodeEvent| matches!(event, NodeEvent::Lost { reason: why, .. } if *why == reason);
        let own = std::iter::from_fn(|| events.next().now_or_never().flatten());
        assert_eq!(own.filter(lost(CloseReason::ShutDown)).count(), 1);
        let seen = server.block_on(async {
            loop {
                if let NodeEvent::Lost { reason, .. } = told.next().await.unwrap() {
                    return reason;
                }
            }
        });
        assert_eq!(seen, CloseReason::ShuttingDown);
    }
}

/// Handles nothing as long as somebody holds it.
#[derive(Default)]
struct Stuck(Mutex<()>);

impl Handler for Stuck {
    fn handle(&self, batch: &mut Batch<'_>) {
        while batch.next().is_some() {
            drop(self.0.lock().unwrap());
        }
    }
}

/// Counts what comes, and takes its time.
#[derive(Default)]
struct Slow(AtomicUsize);

impl Handler for Slow {
    fn handle(&self, batch: &mut Batch<'_>) {
        while batch.next().is_some() {
            std::thread::sleep(Duration::from_micros(200));
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// More than a ring or the buffers of two sockets hold, of every kind of message up to `MESSAGE_MAX`.
#[test]
fn what_was_sent_before_the_shutdown_arrives() {
    for links in [LinkPolicy::Tcp, LinkPolicy::Shm] {
        for (len, count) in [(20, 3000), (16_000, 400), (60_000, 200), (MESSAGE_MAX, 20)] {
            let slow = Arc::new(Slow::default());
            let served = EndpointConfig { links, messages: Messages::Handled, ..config() };
            let server = Endpoint::start(served, Arc::clone(&slow) as _).unwrap();
            let address = server.listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
            let called = EndpointConfig { links, node: NodeId(2), ..config() };
            let client = Endpoint::start(called, Arc::new(NoHandler)).unwrap();
            let deadline = client.clock().now() + PATIENCE;
            let connection = client.block_on(client.connect(address, deadline)).unwrap();
            let message = vec![7; len];
            for _ in 0..count {
                client.block_on(connection.send(&message[..])).unwrap();
            }
            client.shutdown();
            let late = connection.send(&message[..]).now_or_never().expect("it waits for nothing");
            assert_eq!(late, Err(SendError::Disconnected(CloseReason::ShutDown)));
            let deadline = server.clock().now() + PATIENCE;
            while slow.0.load(Ordering::SeqCst) < count && server.clock().now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(slow.0.load(Ordering::SeqCst), count, "{len} bytes over {links}");
        }
    }
}

/// Either waits for the other to take what it has sent, and takes what comes meanwhile.
#[test]
fn two_that_have_sent_each_other_more_than_fits_are_shut_down_together() {
    for links in [LinkPolicy::Tcp, LinkPolicy::Shm] {
        let [one, other] = &[1, 2].map(|node| {
            let messages = Messages::Handled;
            let config = EndpointConfig { links, node: NodeId(node), messages, ..config() };
            Endpoint::start(config, Arc::new(Slow::default())).unwrap()
        });
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let [at_one, at_other] = [one, other].map(|end| end.listen(anywhere).unwrap());
        let deadline = one.clock().now() + PATIENCE;
        let there = one.block_on(one.connect(at_other, deadline)).unwrap();
        let back = other.block_on(other.connect(at_one, deadline)).unwrap();
        let fill = |connection: &Connection| {
            let mut count = 0;
            while connection.send(&[7; 60_000][..]).now_or_never().is_some_and(|sent| sent.is_ok())
            {
                count += 1;
            }
            count
        };
        let sent = [fill(&there), fill(&back)];
        assert!(sent.iter().all(|count| *count > 1), "{sent:?} over {links}");
        std::thread::scope(|scope| {
            scope.spawn(|| one.shutdown());
            scope.spawn(|| other.shutdown());
        });
        let left = deadline.since(one.clock().now());
        assert!(left > PATIENCE / 2, "{:?} over {links}", PATIENCE.saturating_sub(left));
    }
}

/// Nobody reads there. The peers are waited for at the same time, whichever reactors they are on.
#[test]
fn who_takes_nothing_does_not_hold_up_the_shutdown_for_long() {
    const PEERS: usize = 8;
    let stuck = Arc::new(Stuck::default());
    let links = LinkPolicy::Shm;
    let servers: Vec<_> = (0..PEERS as u64)
        .map(|server| {
            let node = NodeId(3 + server);
            let served = EndpointConfig { links, node, messages: Messages::Handled, ..config() };
            Endpoint::start(served, Arc::clone(&stuck) as _).unwrap()
        })
        .collect();
    let called = EndpointConfig { links, node: NodeId(2), reactors: PEERS, ..config() };
    let client = Endpoint::start(called, Arc::new(NoHandler)).unwrap();
    let deadline = client.clock().now() + PATIENCE;
    let connections: Vec<_> = servers
        .iter()
        .map(|server| server.listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap())
        .map(|address| client.block_on(client.connect(address, deadline)).unwrap())
        .collect();
    let held = stuck.0.lock().unwrap();
    for connection in &connections {
        while connection.send(&[7; 60_000][..]).now_or_never().is_some() {}
    }
    let begun = client.clock().now();
    client.shutdown();
    let took = client.clock().now().since(begun);
    drop(held);
    assert!(took >= LEAVE_TIMEOUT, "what is left for them is waited for: {took:?}");
    assert!(took < 3 * LEAVE_TIMEOUT, "{took:?}");
}

/// Whoever is second returns no earlier: the program may end then.
#[test]
fn all_who_shut_an_endpoint_down_wait_for_its_peers() {
    let stuck = Arc::new(Stuck::default());
    let served = EndpointConfig { links: LinkPolicy::Shm, messages: Messages::Handled, ..config() };
    let server = Endpoint::start(served, Arc::clone(&stuck) as _).unwrap();
    let address = server.listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let called = EndpointConfig { links: LinkPolicy::Shm, node: NodeId(2), ..config() };
    let client = Endpoint::start(called, Arc::new(NoHandler)).unwrap();
    let deadline = client.clock().now() + PATIENCE;
    let connection = client.block_on(client.connect(address, deadline)).unwrap();
    let held = stuck.0.lock().unwrap();
    while connection.send(&[7; 60_000][..]).now_or_never().is_some() {}
    let begun = client.clock().now();
    let shut_down = || {
        client.shutdown();
        client.clock().now().since(begun)
    };
    let took = std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(shut_down));
        threads.map(|thread| thread.join().unwrap())
    });
    drop(held);
    assert!(took.iter().all(|took| *took >= LEAVE_TIMEOUT), "{took:?}");
}

/// Shuts its endpoint down when it is asked to, while somebody else already does.
#[derive(Default)]
struct Resigning(Mutex<Option<Endpoint>>);

impl Handler for Resigning {
    fn handle(&self, batch: &mut Batch<'_>) {
        while batch.next().is_some() {
            let endpoint = self.0.lock().unwrap().take();
            if let Some(endpoint) = endpoint {
                std::thread::sleep(Duration::from_millis(300));
                endpoint.shutdown();
            }
        }
    }
}

#[test]
fn a_handler_may_shut_down_the_endpoint_while_somebody_else_waits_for_it() {
    for links in [LinkPolicy::Tcp, LinkPolicy::Shm] {
        let resigning = Arc::new(Resigning::default());
        let served = EndpointConfig { links, messages: Messages::Handled, ..config() };
        let server = Endpoint::start(served, Arc::clone(&resigning) as _).unwrap();
        let address = server.listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        *resigning.0.lock().unwrap() = Some(server.clone());
        let called = EndpointConfig { links, node: NodeId(2), ..config() };
        let client = Endpoint::start(called, Arc::new(NoHandler)).unwrap();
        let deadline = client.clock().now() + PATIENCE;
        let connection = client.block_on(client.connect(address, deadline)).unwrap();
        client.block_on(connection.send(&[7; 20][..])).unwrap();
        while resigning.0.lock().unwrap().is_some() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || {
            server.shutdown();
            ended.send(()).unwrap();
        });
        end.recv_timeout(PATIENCE).expect("neither waits for the other for ever");
    }
}

/// Hours of work for its handler have arrived: an endpoint that is shut down does not begin all of it.
#[test]
fn a_slow_handler_that_is_flooded_does_not_hold_up_the_shutdown_for_long() {
    for links in [LinkPolicy::Tcp, LinkPolicy::Shm] {
        let served = EndpointConfig { links, messages: Messages::Handled, ..config() };
        let server = Endpoint::start(served, Arc::new(Slow::default())).unwrap();
        let address = server.listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let called = EndpointConfig { links, node: NodeId(2), ..config() };
        let clients: Vec<_> = (2..6)
            .map(|node| EndpointConfig { node: NodeId(node), ..called.clone() })
            .map(|config| Endpoint::start(config, Arc::new(NoHandler)).unwrap())
            .collect();
        let connections: Vec<_> = clients
            .iter()
            .map(|client| {
                let deadline = client.clock().now() + PATIENCE;
                client.block_on(client.connect(address, deadline)).unwrap()
            })
            .collect();
        for connection in &connections {
            while connection.send(&[7; 20][..]).now_or_never().is_some() {}
        }
        let begun = server.clock().now();
        server.shutdown();
        let took = server.clock().now().since(begun);
        assert!(took < 8 * LEAVE_TIMEOUT, "{took:?} over {links}");
    }
}

#[test]
fn who_waits_for_the_end_of_a_pause_is_told_that_the_endpoint_is_shut_down() {
    let endpoint = real(LinkPolicy::Tcp);
    let failed = endpoint.block_on(endpoint.connect(NOWHERE, later(&endpoint)));
    assert!(matches!(failed, Err(ConnectError::Refused { .. })));
    let connect = Waiting::begin(async { endpoint.connect(NOWHERE, Time::MAX).await.err() });
    endpoint.shutdown();
    assert_eq!(connect.ended(), Some(ConnectError::ShutDown { address: NOWHERE }));
}

#[test]
fn what_is_asked_for_after_the_shutdown_ends_at_once() {
    // Already listened on: that the endpoint is shut down is seen first.
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let taken = listener.local_addr().unwrap();
    for endpoint in endpoints() {
        let (deadline, address) = (later(&endpoint), taken);
        endpoint.shutdown();
        assert!(endpoint.sleep_until(deadline).now_or_never().is_some());
        for deadline in [Time::MAX, deadline] {
            let accepted = endpoint.accept(deadline).now_or_never();
            assert_eq!(accepted.map(Result::err), Some(Some(AcceptError::ShutDown)));
            let connected = endpoint.connect(address, deadline).now_or_never();
            let shut_down = ConnectError::ShutDown { address };
            assert_eq!(connected.map(Result::err), Some(Some(shut_down)));
        }
        assert_eq!(endpoint.manager().events().next().now_or_never(), Some(None));
        let listened = endpoint.listen(address);
        assert!(matches!(listened, Err(EndpointError::ShutDown { address }) if address == taken));
    }
}

/// Completes when it has been told to, which the endpoint knows nothing of.
#[derive(Default)]
struct Word(Mutex<(bool, Option<Waker>)>);

impl Word {
    fn tell(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        state.1.take().into_iter().for_each(Waker::wake);
    }

    async fn told(&self) {
        let told = poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        });
        told.await;
    }
}

/// It goes on driving while it waits for something else.
#[test]
fn who_waits_for_more_than_the_endpoint_does_not_hold_up_the_shutdown() {
    for poll in [PollPolicy::Busy, PollPolicy::Adaptive, PollPolicy::Park] {
        let config = EndpointConfig { poll, links: LinkPolicy::Tcp, ..config() };
        let endpoint = Endpoint::start(config, Arc::new(NoHandler)).unwrap();
        let (word, stopping) = (Arc::new(Word::default()), endpoint.clone());
        let (tell, polled) = mpsc::channel();
        let waiting = {
            let word = Arc::clone(&word);
            std::thread::spawn(move || {
                let mut events = endpoint.manager().events();
                let accept = pin!(endpoint.accept(Time::MAX));
                let waits = join3(accept, events.next(), word.told());
                let all = join(waits, async { tell.send(()).unwrap() });
                let ((accepted, event, ()), ()) = endpoint.block_on(all);
                (accepted.err(), event)
            })
        };
        polled.recv_timeout(PATIENCE).unwrap();
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || {
            stopping.shutdown();
            done.send(()).unwrap();
        });
        ended.recv_timeout(PATIENCE).expect("the endpoint is shut down");
        word.tell();
        assert_eq!(waiting.join().unwrap(), (Some(AcceptError::ShutDown), None));
    }
}

/// It drives the links while it waits, as the endpoint's own thread may want to.
#[test]
fn who_accepts_by_blocking_does_not_hold_up_the_shutdown() {
    for poll in [PollPolicy::Busy, PollPolicy::Adaptive, PollPolicy::Park] {
        let config = EndpointConfig { poll, links: LinkPolicy::Tcp, ..config() };
        let endpoint = Endpoint::start(config, Arc::new(NoHandler)).unwrap();
        let (waits, told) = mpsc::channel();
        let (stopping, done) = (endpoint.clone(), waits.clone());
        let (tell, polled) = mpsc::channel();
        std::thread::spawn(move || {
            let accepted = endpoint.block_on(async {
                let accept = pin!(endpoint.accept(Time::MAX));
                let both = join(accept, async { tell.send(()).unwrap() });
                both.await.0.err()
            });
            waits.send(accepted).unwrap();
        });
        polled.recv_timeout(PATIENCE).unwrap();
        std::thread::spawn(move || {
            stopping.shutdown();
            done.send(None).unwrap();
        });
        let ends = [(); 2].map(|()| told.recv_timeout(PATIENCE).expect("it ends"));
        assert!(ends.contains(&Some(AcceptError::ShutDown)), "{ends:?}");
    }
}

#[test]
fn nobody_listens_any_more_where_an_endpoint_did() {
    let endpoint = real(LinkPolicy::Auto);
    let address = endpoint.listen(([127, 0, 0, 1], 0).into()).unwrap();
    assert!(TcpStream::connect(address).is_ok());
    endpoint.shutdown();
    assert!(TcpStream::connect(address).is_err());
    assert!(endpoint.listen(address).is_err());
    assert!(TcpStream::connect(address).is_err());
}
