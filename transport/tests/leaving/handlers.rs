//! Handlers that wait for other threads of their endpoint, or that shut it down, wherever they run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use weft_transport::{
    Batch, Endpoint, Handler, HandlerPool, LinkPolicy, MessageHandler, NoHandler, PooledMessages,
    Time,
};

use super::waiting::Keeping;
use super::{LINKS, connect, endpoint, listen, wait_until};

/// Longer than a shutdown takes, with a handler that waits for what only the shutdown ends.
const ENDED_WITHIN: Duration = Duration::from_secs(5);

/// Waits on the endpoint's second thread for what the first one brings: a time that does not come.
#[derive(Default)]
struct Sleeping {
    endpoint: OnceLock<Endpoint>,
    sleeps: AtomicBool,
}

impl Handler for Sleeping {
    fn handle(&self, batch: &mut Batch<'_>) {
        while batch.next().is_some() {
            let is_second = thread::current().name() == Some("reactor-1");
            if is_second && !self.sleeps.swap(true, Ordering::SeqCst) {
                let endpoint = self.endpoint.get().unwrap().clone();
                futures_executor::block_on(endpoint.sleep_until(Time::MAX));
            }
        }
    }
}

#[test]
fn a_handler_that_waits_for_another_thread_of_the_endpoint_is_let_go() {
    for links in LINKS {
        let sleeping = Arc::new(Sleeping::default());
        let server = endpoint(1, links, 2, Arc::clone(&sleeping) as _);
        let address = listen(&server);
        sleeping.endpoint.set(server.clone()).unwrap();
        let clients = [2, 3].map(|node| endpoint(node, links, 1, Arc::new(NoHandler)));
        let connections = clients.each_ref().map(|client| connect(client, address));
        for (client, connection) in clients.iter().zip(&connections) {
            client.block_on(connection.send(&b"sleep"[..])).unwrap();
        }
        wait_until("a handler sleeps", || sleeping.sleeps.load(Ordering::SeqCst));
        let begun = server.clock().now();
        // Besides, nobody else sleeps for longer.
        let other = thread::spawn({
            let server = server.clone();
            move || futures_executor::block_on(server.sleep_until(Time::MAX))
        });
        server.shutdown();
        other.join().unwrap();
        let took = server.clock().now().since(begun);
        assert!(took < ENDED_WITHIN, "{took:?} over {links}");
    }
}

/// Has a thread of its own drive the first reactor of `server`, until a call fails that nobody answers.
pub(super) fn drive_in_block_on(
    server: &Endpoint,
    links: LinkPolicy,
) -> (Endpoint, thread::JoinHandle<bool>) {
    let silent = endpoint(9, links, 1, Arc::new(Keeping::default()));
    let (address, server) = (listen(&silent), server.clone());
    let driver = thread::Builder::new().name("driver".to_owned());
    let driver = driver.spawn(move || {
        let waits = || {
            server.block_on(async {
                // It drives while it connects, too, and may be told then already.
                if let Ok(connection) = server.connect(address, Time::MAX).await {
                    let _ = connection.call(&b"call"[..], Time::MAX).await;
                }
            });
        };
        catch_unwind(AssertUnwindSafe(waits)).is_err()
    });
    (silent, driver.unwrap())
}

/// On a thread in `block_on` it shuts its endpoint down, while it holds what the handler on the endpoint's own second thread waits for.
#[derive(Default)]
struct Resigning {
    endpoint: Mutex<Option<Endpoint>>,
    held: Mutex<()>,
    holds: AtomicBool,
    waits: AtomicBool,
    has_resigned: AtomicBool,
}

impl Handler for Resigning {
    fn handle(&self, batch: &mut Batch<'_>) {
        while batch.next().is_some() {
            match thread::current().name() {
                Some("reactor-1") if self.holds.load(Ordering::SeqCst) => {
                    self.waits.store(true, Ordering::SeqCst);
                    drop(self.held.lock().unwrap());
                }
                Some("driver") => {
                    let Some(endpoint) = self.endpoint.lock().unwrap().take() else { continue };
                    let held = self.held.lock().unwrap();
                    self.holds.store(true, Ordering::SeqCst);
                    wait_until("somebody waits", || self.waits.load(Ordering::SeqCst));
                    endpoint.shutdown();
                    drop(held);
                    self.has_resigned.store(true, Ordering::SeqCst);
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_handler_in_block_on_that_shuts_down_waits_for_no_other() {
    for links in LINKS {
        let resigning = Arc::new(Resigning::default());
        let server = endpoint(1, links, 2, Arc::clone(&resigning) as _);
        let address = listen(&server);
        let clients = [2, 3, 4, 5].map(|node| endpoint(node, links, 1, Arc::new(NoHandler)));
        let connections = clients.each_ref().map(|client| connect(client, address));
        *resigning.endpoint.lock().unwrap() = Some(server.clone());
        let (_silent, driver) = drive_in_block_on(&server, links);
        // Peers are dealt out to the reactors in turn, so each has some.
        wait_until("it has shut down", || {
            for connection in &connections {
                let _ = connection.send(&b"go"[..]).now_or_never();
            }
            resigning.has_resigned.load(Ordering::SeqCst)
        });
        assert!(!driver.join().unwrap(), "nobody has panicked");
    }
}

/// Shuts the other endpoint down for the first message, when both handlers are at work.
#[derive(Default)]
struct Rival {
    other: OnceLock<Endpoint>,
    at_work: Arc<AtomicUsize>,
    is_done: AtomicBool,
}

impl Handler for Rival {
    fn handle(&self, batch: &mut Batch<'_>) {
        while batch.next().is_some() {
            self.at_work.fetch_add(1, Ordering::SeqCst);
            wait_until("both are at work", || self.at_work.load(Ordering::SeqCst) > 1);
            self.other.get().unwrap().shutdown();
            self.is_done.store(true, Ordering::SeqCst);
        }
    }
}

#[test]
fn handlers_of_two_endpoints_that_shut_each_other_down_wait_for_nobody() {
    for links in LINKS {
        let at_work = Arc::new(AtomicUsize::new(0));
        let rival = || Arc::new(Rival { at_work: Arc::clone(&at_work), ..Rival::default() });
        let rivals = [rival(), rival()];
        let one = endpoint(1, links, 1, Arc::clone(&rivals[0]) as _);
        let other = endpoint(2, links, 1, Arc::clone(&rivals[1]) as _);
        rivals[0].other.set(other.clone()).unwrap();
        rivals[1].other.set(one.clone()).unwrap();
        let client = endpoint(3, links, 1, Arc::new(NoHandler));
        for server in [&one, &other] {
            let connection = connect(&client, listen(server));
            client.block_on(connection.send(&b"go"[..])).unwrap();
        }
        wait_until("both are done", || {
            rivals.iter().all(|rival| rival.is_done.load(Ordering::SeqCst))
        });
    }
}

/// On a thread of a pool, which shuts down while the handler that feeds the pool waits for it.
struct Feeding {
    pool: HandlerPool,
    resigned: Arc<AtomicBool>,
}

impl Handler for Feeding {
    fn handle(&self, batch: &mut Batch<'_>) {
        self.pool.take_all(batch);
        wait_until("the pool has shut down", || self.resigned.load(Ordering::SeqCst));
    }
}

struct Pooled {
    endpoint: Arc<OnceLock<Endpoint>>,
    resigned: Arc<AtomicBool>,
}

impl MessageHandler for Pooled {
    fn key(&self, _: &[u8]) -> u64 {
        0
    }

    fn handle(&self, _: &mut PooledMessages<'_>) {
        wait_until("it is known", || self.endpoint.get().is_some());
        self.endpoint.get().unwrap().shutdown();
        self.resigned.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_handler_of_a_pool_that_shuts_down_waits_for_nobody() {
    for links in LINKS {
        let (known, resigned) = (Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(false)));
        let pooled = Pooled { endpoint: Arc::clone(&known), resigned: Arc::clone(&resigned) };
        let pool = HandlerPool::start(1, Arc::new(pooled)).unwrap();
        let feeding = Feeding { pool, resigned: Arc::clone(&resigned) };
        let server = endpoint(1, links, 1, Arc::new(feeding));
        let client = endpoint(2, links, 1, Arc::new(NoHandler));
        let connection = connect(&client, listen(&server));
        known.set(server.clone()).unwrap();
        client.block_on(connection.send(&b"go"[..])).unwrap();
        wait_until("it has shut down", || resigned.load(Ordering::SeqCst));
        wait_until("its peers are told", || !connection.is_open());
    }
}

/// Drops a pool whose handler waits for that.
#[derive(Default)]
struct Closing {
    pool: Mutex<Option<HandlerPool>>,
    has_dropped: Arc<AtomicBool>,
}

impl Handler for Closing {
    fn handle(&self, batch: &mut Batch<'_>) {
        let pool = self.pool.lock().unwrap().take();
        match pool {
            Some(pool) => {
                pool.take_all(batch);
                drop(pool);
                self.has_dropped.store(true, Ordering::SeqCst);
            }
            None => while batch.next().is_some() {},
        }
    }
}

struct AfterDrop {
    has_dropped: Arc<AtomicBool>,
    is_handled: Arc<AtomicBool>,
}

impl MessageHandler for AfterDrop {
    fn key(&self, _: &[u8]) -> u64 {
        0
    }

    fn handle(&self, _: &mut PooledMessages<'_>) {
        wait_until("its pool is dropped", || self.has_dropped.load(Ordering::SeqCst));
        self.is_handled.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_pool_that_is_dropped_in_a_handler_handles_what_waits_and_is_not_waited_for() {
    for links in LINKS {
        let (closing, is_handled) = (Closing::default(), Arc::new(AtomicBool::new(false)));
        let has_dropped = Arc::clone(&closing.has_dropped);
        let waiting = AfterDrop { has_dropped, is_handled: Arc::clone(&is_handled) };
        *closing.pool.lock().unwrap() = Some(HandlerPool::start(2, Arc::new(waiting)).unwrap());
        let server = endpoint(1, links, 1, Arc::new(closing));
        let client = endpoint(2, links, 1, Arc::new(NoHandler));
        let connection = connect(&client, listen(&server));
        client.block_on(connection.send(&b"drop it"[..])).unwrap();
        wait_until("it is handled", || is_handled.load(Ordering::SeqCst));
    }
}
