//! Watches on a simulated network: what connections that are lost take with them, and how long a node keeps what nobody asks for.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weft_client::{
    Client, ClientConfig, ClientError, ErrorCode, KeyChange, Version, WatchEvent, WatchOptions,
};
use weft_protocol::{
    Key, Put, Request, TableId, Target, Value, Watch, WatchNext, WatchNextReply, WatchReply,
    Watched,
};
use weft_server::handler::NodeHandler;
use weft_server::memory::NodeMemory;
use weft_sim::cluster::{Connector, Nodes};
use weft_sim::world::{MemberId, World};
use weft_transport::{
    Endpoint, EndpointConfig, Incarnation, Memory, MemoryConfig, NoHandler, NodeId, Purpose,
    SimConfig,
};

const TIMEOUT: Duration = Duration::from_secs(5);
/// What a node keeps a watch for that nobody asks for.
const LEASE: Duration = Duration::from_secs(30);

/// Of the node.
const ADDRESS: &str = "10.0.0.1:7400";

/// A node, and the tasks of clients.
struct Play {
    world: World,
    nodes: Nodes,
    handler: Arc<NodeHandler>,
    memory: NodeMemory,
    clients: u32,
}

impl Play {
    /// One node with one partition, so that its versions follow one another.
    fn new(seed: u64) -> Play {
        let mut play = Play::silent(seed);
        let connector = play.connector();
        let handler = Arc::clone(&play.handler);
        play.world.spawn(async move {
            let client = connector.connect().await.unwrap();
            answer(handler, client.endpoint().clone()).await;
        });
        play
    }

    /// The same, but that nobody answers those who wait.
    fn silent(seed: u64) -> Play {
        let delay = Duration::from_micros(5)..Duration::from_micros(200);
        let network = SimConfig { seed, delay, loss: 0.0, partial: 0.3 };
        let mut world = World::new(seed, network);
        let made = RefCell::new(None);
        let nodes = Nodes::build(&mut world, 1, 1, seed, &mut || None, &|seat| {
            let memory = seat.options.memory.clone();
            let handler = Arc::new(seat.handler()?);
            made.replace(Some((Arc::clone(&handler), memory)));
            Ok(handler as _)
        });
        let (nodes, (handler, memory)) = (nodes.unwrap(), made.take().unwrap());
        let mut play = Play { world, nodes, handler, memory, clients: 0 };
        let connector = play.connector();
        let handler = Arc::clone(&play.handler);
        play.world.spawn(async move {
            let client = connector.connect().await.unwrap();
            let timer = client.endpoint();
            keep_house(handler, timer).await;
        });
        play
    }

    fn connector(&mut self) -> Connector {
        self.clients += 1;
        self.nodes.client(&mut self.world, self.clients, TIMEOUT).unwrap()
    }

    /// An endpoint for a client, which can be paused.
    fn endpoint(&mut self, number: u64) -> (MemberId, Endpoint) {
        let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
        let config =
            EndpointConfig::new(NodeId::client((1 << 20) + number), Incarnation(1), memory);
        self.world.add(config, Arc::new(NoHandler)).unwrap()
    }

    fn run(&mut self, duration: Duration) {
        let end = self.world.clock().now() + duration;
        self.world.run_until(end).unwrap();
    }

    fn stat(&self, name: &str) -> u64 {
        self.handler.stats().value(name).unwrap()
    }
}

fn config() -> ClientConfig {
    ClientConfig::new([ADDRESS])
}

/// What a thread does for a real node.
async fn answer(handler: Arc<NodeHandler>, timer: Endpoint) {
    let mut sending = FuturesUnordered::new();
    let mut asleep: Option<Pin<Box<dyn Future<Output = ()>>>> = None;
    poll_fn(|context| {
        loop {
            let (answers, next_due) = handler.watch_answers(context.waker());
            sending.extend(answers.into_iter().map(|answer| Box::pin(answer.send())));
            while let Poll::Ready(Some(_)) = sending.poll_next_unpin(context) {}
            let Some(due) = next_due else { return Poll::<()>::Pending };
            let timer = timer.clone();
            let sleep = asleep.insert(Box::pin(async move { timer.sleep_until(due).await }));
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await;
}

/// What another thread does for it, more often.
async fn keep_house(handler: Arc<NodeHandler>, timer: &Endpoint) {
    loop {
        timer.sleep_until(timer.clock().now() + Duration::from_millis(100)).await;
        handler.clean();
    }
}

async fn pause(client: &Client, most: Duration, random: &mut StdRng) {
    let now = client.endpoint().clock().now();
    client.endpoint().sleep_until(now + random.random_range(Duration::ZERO..most)).await;
}

/// Writes to one key, and deletes it in the end.
async fn write(connector: Connector, mut random: StdRng) {
    // One that does not find its cluster starts again, as its user would.
    let client = loop {
        if let Ok(client) = connector.connect().await {
            break client;
        }
    };
    for _ in 0..150 {
        // One that fails may have been done or not; it is told if it was.
        let _ = client.put("loom", "oak").await;
        pause(&client, Duration::from_millis(2), &mut random).await;
    }
    while client.delete("loom").await.is_err() {}
}

/// Takes events up to the deletion.
async fn watch(
    connector: Connector,
    mut random: StdRng,
    told: Rc<RefCell<Vec<Version>>>,
    is_open: Rc<Cell<bool>>,
) {
    let client = connector.connect().await.unwrap();
    let mut watch = match random.random_bool(0.5) {
        true => client.watch("loom", WatchOptions::default()).await,
        false => client.watch_prefix("lo", WatchOptions::default()).await,
    }
    .unwrap();
    is_open.set(true);
    loop {
        match watch.next().await {
            Ok(WatchEvent::Key { change, version, .. }) => {
                told.borrow_mut().push(version);
                if change == KeyChange::Deleted {
                    return;
                }
                if random.random_bool(0.2) {
                    pause(&client, Duration::from_millis(5), &mut random).await;
                }
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert!(!watch.is_ended(), "{error}"),
        }
    }
}

#[test]
fn no_event_is_lost_nor_told_twice_with_the_connections() {
    let (mut lost, mut events) = (0, 0);
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut play = Play::new(random.random());
        let (told, is_open) = (Rc::default(), Rc::default());
        let connector = play.connector();
        let seeded = StdRng::seed_from_u64(random.random());
        play.world.spawn(watch(connector, seeded, Rc::clone(&told), Rc::clone(&is_open)));
        while !is_open.get() {
            play.run(Duration::from_millis(1));
        }
        let connector = play.connector();
        play.world.spawn(write(connector, StdRng::seed_from_u64(random.random())));
        for _ in 0..60 {
            play.run(random.random_range(Duration::ZERO..Duration::from_millis(4)));
            play.world.network().lose_one();
        }
        // Long enough for anything that still has to be tried again.
        play.run(Duration::from_secs(60));
        let told = told.borrow();
        let sequences: Vec<_> = told.iter().map(|version| version.sequence()).collect();
        assert!(sequences.len() > 100, "seed {seed}: {} events", sequences.len());
        let expected: Vec<_> = (1..=sequences.len() as u64).collect();
        assert_eq!(sequences, expected, "seed {seed}");
        events += sequences.len();
        lost += play.world.network().lost();
        // It was dropped, and the node knows.
        assert_eq!(play.stat("watches.open"), 0, "seed {seed}");
    }
    assert!(lost > 1_000 && events > 4_000, "{lost} connections, {events} events");
}

#[test]
fn a_watch_that_nobody_asks_for_ends_and_its_memory_comes_back() {
    let mut play = Play::new(1);
    let connector = play.connector();
    let lost = Rc::new(RefCell::new(None));
    let wake_at = play.world.clock().now() + 2 * LEASE;
    play.world.spawn({
        let lost = Rc::clone(&lost);
        async move {
            let client = connector.connect().await.unwrap();
            drop(client.watch("loom", WatchOptions::default()).await.unwrap());
            let options = WatchOptions { queue_bytes: Some(1 << 20) };
            let mut watch = client.watch_prefix("", options).await.unwrap();
            client.endpoint().sleep_until(wake_at).await;
            lost.replace(Some((watch.next().await, watch.next().await, watch.is_ended())));
        }
    });
    play.run(Duration::from_secs(1));
    assert_eq!(play.stat("watches.open"), 1, "the one that was dropped is gone");
    let kept = play.stat("memory.purpose.send");
    play.run(LEASE - Duration::from_secs(2));
    assert_eq!(play.stat("watches.open"), 1);
    play.run(Duration::from_secs(2));
    assert_eq!(play.stat("watches.open"), 0);
    assert!(kept - play.stat("memory.purpose.send") >= 1 << 20, "its queue was charged");

    play.run(LEASE);
    let (first, second, is_ended) = lost.take().unwrap();
    for told in [first, second] {
        let error = told.unwrap_err();
        assert!(matches!(error, ClientError::WatchLost { .. }), "{error}");
        assert_eq!(error.code(), ErrorCode::WatchUnknown);
    }
    assert!(is_ended);
}

#[test]
fn one_who_waits_keeps_the_watch_until_the_client_is_gone() {
    let mut play = Play::new(2);
    let (member, endpoint) = play.endpoint(0);
    play.world.spawn(async move {
        let client = Client::with_endpoint(endpoint, config()).await.unwrap();
        let mut watch = client.watch("loom", WatchOptions::default()).await.unwrap();
        panic!("{:?} has happened", watch.next().await);
    });
    for _ in 0..100 {
        play.run(Duration::from_secs(1));
        assert_eq!(play.stat("watches.open"), 1);
    }
    // It says nothing any more, not even that it is gone.
    play.world.pause(member, Duration::MAX);
    for _ in 0..29 {
        play.run(Duration::from_secs(1));
        assert_eq!(play.stat("watches.open"), 1);
    }
    for _ in 0..13 {
        play.run(Duration::from_secs(1));
    }
    assert_eq!(play.stat("watches.open"), 0);
}

/// A node that answers who waits only when it is told to, and two clients that ask by hand.
struct ByHand {
    play: Play,
    clients: [Endpoint; 2],
    id: u64,
    bell: Arc<Bell>,
}

/// Whether it was woken.
#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What was answered, if it was.
type Told = Rc<RefCell<Option<Vec<u8>>>>;

impl ByHand {
    fn new() -> ByHand {
        let mut play = Play::silent(3);
        let clients = [1, 2].map(|number| play.endpoint(number).1);
        let mut by_hand = ByHand { play, clients, id: 0, bell: Arc::default() };
        let watched = Watched::Key(Key::new(b"loom").unwrap());
        let open = Watch { table: TableId::DEFAULT, map_epoch: 1, watched, queue_bytes: 0 };
        let opened = by_hand.ask(0, Request::Watch(open));
        by_hand.id = WatchReply::decode(&opened.take().unwrap()).unwrap().id;
        by_hand
    }

    fn ask(&mut self, client: usize, request: Request<'static>) -> Told {
        let told = Told::default();
        let (endpoint, answer) = (self.clients[client].clone(), Rc::clone(&told));
        self.play.world.spawn(async move {
            let deadline = endpoint.clock().now() + Duration::from_secs(60);
            let connection = endpoint.connect(ADDRESS.parse().unwrap(), deadline).await.unwrap();
            let reply = connection.call(request, deadline).await.unwrap();
            answer.replace(Some(reply.to_vec()));
        });
        self.play.run(Duration::from_millis(10));
        told
    }

    fn next(&mut self, client: usize, received: u64) -> Told {
        self.ask(client, Request::WatchNext(WatchNext { id: self.id, received, wait_ms: 10_000 }))
    }

    fn put(&mut self) {
        let key = Key::new(b"loom").unwrap();
        let target = Target { table: TableId::DEFAULT, map_epoch: 1, completion: None, key };
        let value = Value::new(b"oak").unwrap();
        let put = self.ask(0, Request::Put(Put { target, expires_at_ms: None, value }));
        assert!(put.take().is_some());
    }

    /// Answers those who wait. Says whether there was word that there is something to answer.
    fn answer(&mut self) -> bool {
        let is_woken = self.bell.0.swap(false, Ordering::Relaxed);
        let bell = Waker::from(Arc::clone(&self.bell));
        let (answers, _) = self.play.handler.watch_answers(&bell);
        for answer in answers {
            self.play.world.spawn(async { answer.send().await.unwrap() });
        }
        self.play.run(Duration::from_millis(10));
        is_woken
    }
}

/// The sequence of the first event, and how many there are.
fn events(told: &Told) -> Option<(u64, usize)> {
    let message = told.take()?;
    let reply = WatchNextReply::decode(&message).unwrap();
    Some((reply.first, reply.events.len()))
}

#[test]
fn who_waits_is_not_answered_for_an_event_that_somebody_else_has_taken() {
    let mut by_hand = ByHand::new();
    let first = by_hand.next(0, 0);
    by_hand.put();
    // The same client over another connection, faster than those who wait are answered.
    let second = by_hand.next(1, 0);
    assert_eq!((events(&first), events(&second)), (None, Some((1, 1))));
    let third = by_hand.next(1, 1);
    by_hand.answer();
    assert_eq!((events(&first), events(&third)), (Some((1, 0)), None));
    assert!(!by_hand.answer(), "nothing has happened");
    by_hand.put();
    assert!(by_hand.answer(), "something has");
    assert_eq!(events(&third), Some((2, 1)));
}

#[test]
fn events_for_which_there_is_no_memory_are_told_later() {
    let mut by_hand = ByHand::new();
    let waits = by_hand.next(0, 0);
    by_hand.put();
    let memory = by_hand.play.memory.network.clone();
    let all = memory.charge(memory.free_bytes(), Purpose::Send).unwrap();
    let (answers, _) = by_hand.play.handler.watch_answers(Waker::noop());
    drop(all);
    for answer in answers {
        by_hand.play.world.spawn(async { answer.send().await.unwrap() });
    }
    by_hand.play.run(Duration::from_millis(10));
    assert_eq!(events(&waits), Some((1, 0)));
    assert_eq!(events(&by_hand.next(0, 0)), Some((1, 1)));
}
