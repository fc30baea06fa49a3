//! Services as arguments: called back where they are, counted, and released by whoever drops them or dies.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use weft_object::service;
use weft_object::service::{Client as _, Refusal, ServiceError, Services, ServicesConfig};
use weft_transport::{Endpoint, LinkPolicy};

use crate::world::{World, endpoint, links, next_client, soon, wait_until};

/// Is told of numbers.
#[service]
trait Listener {
    fn told(&self, number: u64) -> u64;
    /// Has `board` tell the listener, which may go on likewise.
    #[blocking]
    fn pass_on(&self, board: BoardClient, depth: u64) -> u64;
}

/// Tells its listeners.
#[service]
trait Board {
    /// Keeps the listener.
    fn join(&self, listener: ListenerClient);
    /// Gives up all listeners.
    fn forget(&self);
    /// Tells all, and adds what they say.
    #[blocking]
    fn tell(&self, number: u64) -> u64;
    /// Tells one, while its caller waits.
    #[blocking]
    fn ask(&self, listener: ListenerClient, number: u64) -> u64;
    #[blocking]
    fn bounce(&self, listener: Option<ListenerClient>, depth: u64) -> u64;
    fn is_here(&self) -> bool;
}

#[derive(Default)]
struct Notices {
    listeners: Mutex<Vec<ListenerClient>>,
    /// A reference to this, for those that it passes itself to.
    own: Mutex<Option<Arc<dyn Board>>>,
}

impl Board for Notices {
    fn join(&self, listener: ListenerClient) {
        self.listeners.lock().unwrap().push(listener);
    }

    fn forget(&self) {
        self.listeners.lock().unwrap().clear();
    }

    fn tell(&self, number: u64) -> u64 {
        let listeners = self.listeners.lock().unwrap().clone();
        listeners.iter().map(|listener| listener.blocking().told(number).unwrap_or(0)).sum()
    }

    fn ask(&self, listener: ListenerClient, number: u64) -> u64 {
        listener.blocking().told(number).unwrap()
    }

    fn bounce(&self, listener: Option<ListenerClient>, depth: u64) -> u64 {
        let Some(listener) = listener else { return 0 };
        let own = self.own.lock().unwrap().clone().unwrap();
        listener.blocking().pass_on(own, depth).unwrap()
    }

    fn is_here(&self) -> bool {
        true
    }
}

/// Adds what it is told to its own number, and counts those that there are.
struct Adder {
    number: u64,
    told: AtomicU64,
    alive: Arc<AtomicUsize>,
}

impl Adder {
    fn new(number: u64, alive: &Arc<AtomicUsize>) -> Arc<Self> {
        alive.fetch_add(1, Ordering::SeqCst);
        Arc::new(Self { number, told: AtomicU64::new(0), alive: Arc::clone(alive) })
    }
}

impl Drop for Adder {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Listener for Adder {
    fn told(&self, number: u64) -> u64 {
        self.told.fetch_add(1, Ordering::SeqCst);
        self.number + number
    }

    fn pass_on(&self, board: BoardClient, depth: u64) -> u64 {
        if depth == 0 {
            return self.number;
        }
        let again = Adder::new(self.number + 1, &self.alive);
        board.blocking().bounce(Some(again), depth - 1).unwrap()
    }
}

fn board(world: &World) -> (Arc<Notices>, BoardClient) {
    let notices = Arc::<Notices>::default();
    *notices.own.lock().unwrap() = Some(Arc::clone(&notices) as _);
    world.exporter.export::<dyn Board>("board", Arc::clone(&notices) as _);
    let client = world.importer.import_blocking::<dyn Board>(&world.connection, "board").unwrap();
    (notices, client)
}

#[test]
fn a_service_that_is_passed_is_called_where_it_is() {
    for &link in links() {
        let world = World::new(link);
        let (_, client) = board(&world);
        let client = client.blocking();
        let alive = Arc::default();
        let adder = Adder::new(5, &alive);
        assert_eq!(client.ask(Arc::clone(&adder) as _, 7).unwrap(), 12);
        assert_eq!(adder.told.load(Ordering::SeqCst), 1, "this very object");
        client.join(Arc::clone(&adder) as _).unwrap();
        client.join(adder).unwrap();
        assert_eq!(client.tell(10).unwrap(), 30);
        assert_eq!(alive.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn calls_that_go_back_and_forth_wait_for_one_another() {
    for &link in links() {
        let world = World::new(link);
        let (notices, client) = board(&world);
        let alive = Arc::default();
        let deepest = client.blocking().bounce(Some(Adder::new(100, &alive)), 12).unwrap();
        assert_eq!(deepest, 112);
        *notices.own.lock().unwrap() = None;
        wait_until(&world.client, "the release of all that were passed", || {
            alive.load(Ordering::SeqCst) == 0 && world.importer.references() == 0
        });
        assert_eq!(world.exporter.references(), 1, "the client's import");
    }
}

#[test]
fn a_reference_is_released_when_the_callee_drops_it() {
    for &link in links() {
        let world = World::new(link);
        let (_, client) = board(&world);
        let client = client.blocking();
        let alive = Arc::default();
        for number in 0..3 {
            client.join(Adder::new(number, &alive)).unwrap();
        }
        assert_eq!((alive.load(Ordering::SeqCst), world.importer.references()), (3, 3));
        client.forget().unwrap();
        wait_until(&world.client, "a release", || alive.load(Ordering::SeqCst) == 0);
        assert_eq!(world.importer.references(), 0);
    }
}

#[test]
fn what_is_passed_to_nobody_is_not_kept() {
    let world = World::new(LinkPolicy::Auto);
    let (_, client) = board(&world);
    let alive = Arc::default();
    world.connection.close();
    let error = client.blocking().join(Adder::new(1, &alive)).unwrap_err();
    assert!(matches!(error, ServiceError::Call(_)), "{error}");
    assert_eq!(world.importer.references(), 0);
    wait_until(&world.client, "the end of the object", || alive.load(Ordering::SeqCst) == 0);
}

#[test]
fn a_caller_that_goes_gives_up_its_imports_and_a_callee_that_goes_what_it_was_passed() {
    for &link in links() {
        let world = World::new(link);
        let (notices, client) = board(&world);
        let alive = Arc::default();
        client.blocking().join(Adder::new(1, &alive)).unwrap();
        assert_eq!((world.exporter.references(), world.importer.references()), (1, 1));
        world.server.shutdown();
        wait_until(&world.client, "the release of what was passed", || {
            alive.load(Ordering::SeqCst) == 0 && world.importer.references() == 0
        });
        wait_until(&world.client, "the release of what was imported", || {
            world.exporter.references() == 0
        });
        let listener = notices.listeners.lock().unwrap().pop().unwrap();
        assert!(listener.blocking().told(1).is_err(), "its connection has ended");
    }
}

#[test]
fn a_reference_is_of_no_use_to_anybody_else() {
    let world = World::new(LinkPolicy::Auto);
    let (_, client) = board(&world);
    // Another client has the same number for what it may have imported elsewhere.
    let services = Services::new();
    let other = endpoint(next_client(), LinkPolicy::Auto, &services);
    let address = world.connection.peer().address;
    let connection = other.block_on(other.connect(address, soon(&other))).unwrap();
    let stolen = services.import_blocking::<dyn Board>(&connection, "board").unwrap();
    drop(client);
    wait_until(&world.client, "a release", || world.exporter.references() == 1);
    // The place of what was released is given to the next one, under another number.
    let again = world.importer.import_blocking::<dyn Board>(&world.connection, "board").unwrap();
    assert!(again.blocking().is_here().unwrap() && stolen.blocking().is_here().unwrap());
}

#[test]
fn a_peer_gets_no_more_references_than_it_may_hold() {
    let config = ServicesConfig { references_max: 3, ..ServicesConfig::default() };
    let few = || Services::with_config(config);
    let world = World::with(LinkPolicy::Auto, few(), few());
    let (_, client) = board(&world);
    let client = client.blocking();
    let alive = Arc::default();
    for number in 0..3 {
        client.join(Adder::new(number, &alive)).unwrap();
    }
    let error = client.join(Adder::new(3, &alive)).unwrap_err();
    assert_eq!(error, ServiceError::TooManyReferences { limit: 3 });
    assert_eq!(alive.load(Ordering::SeqCst), 3, "what was refused is not kept");
    let imports: Vec<_> = (0..3)
        .map(|_| world.importer.import_blocking::<dyn Board>(&world.connection, "board"))
        .collect();
    assert_eq!(imports.iter().filter(|import| import.is_ok()).count(), 2, "with the first, three");
    client.forget().unwrap();
    wait_until(&world.client, "a release", || world.importer.references() == 0);
    client.join(Adder::new(4, &alive)).unwrap();
}

/// Gives services, which know it in turn.
#[service]
trait Bank {
    fn open(&self, number: u64) -> Arc<dyn Account>;
    #[blocking]
    fn find(&self, number: u64) -> Result<Option<Arc<dyn Account>>, u32>;
}

#[service]
trait Account {
    fn add(&self, amount: u64) -> u64;
    fn bank(&self) -> Arc<dyn Bank>;
}

/// Both, since a bank is what its accounts give.
struct Ledger {
    sum: AtomicU64,
    alive: Arc<AtomicUsize>,
}

impl Ledger {
    fn new(number: u64, alive: &Arc<AtomicUsize>) -> Arc<Self> {
        alive.fetch_add(1, Ordering::SeqCst);
        Arc::new(Self { sum: AtomicU64::new(number), alive: Arc::clone(alive) })
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Bank for Ledger {
    fn open(&self, number: u64) -> Arc<dyn Account> {
        Self::new(number, &self.alive)
    }

    fn find(&self, number: u64) -> Result<Option<Arc<dyn Account>>, u32> {
        match number {
            0 => Err(404),
            1 => Ok(None),
            number => Ok(Some(self.open(number))),
        }
    }
}

impl Account for Ledger {
    fn add(&self, amount: u64) -> u64 {
        self.sum.fetch_add(amount, Ordering::SeqCst) + amount
    }

    fn bank(&self) -> Arc<dyn Bank> {
        Self::new(0, &self.alive)
    }
}

#[test]
fn a_service_that_is_given_is_called_and_released_as_any() {
    for &link in links() {
        let world = World::new(link);
        let alive = Arc::default();
        world.exporter.export::<dyn Bank>("bank", Ledger::new(0, &alive));
        let bank = world.importer.import_blocking::<dyn Bank>(&world.connection, "bank").unwrap();
        let bank = bank.blocking();
        let [one, other] = [10, 20].map(|number| bank.open(number).unwrap().blocking());
        assert_eq!([one.add(1), one.add(1), other.add(1)].map(Result::unwrap), [11, 12, 21]);
        let found = bank.find(30).unwrap().unwrap().unwrap().blocking();
        assert_eq!(found.add(5).unwrap(), 35);
        assert!(bank.find(1).unwrap().unwrap().is_none());
        assert_eq!(bank.find(0).unwrap().unwrap_err(), 404);
        let again = found.bank().unwrap().blocking().open(40).unwrap().blocking();
        assert_eq!(again.add(2).unwrap(), 42);
        drop((one, other, found, again));
        wait_until(&world.client, "the release of all that were given", || {
            alive.load(Ordering::SeqCst) == 1 && world.exporter.references() == 1
        });
    }
}

#[test]
fn a_service_is_not_given_to_who_holds_as_many_as_it_may() {
    let config = ServicesConfig { references_max: 2, ..ServicesConfig::default() };
    let world = World::with(LinkPolicy::Auto, Services::with_config(config), Services::new());
    let alive = Arc::default();
    world.exporter.export::<dyn Bank>("bank", Ledger::new(0, &alive));
    let bank = world.importer.import_blocking::<dyn Bank>(&world.connection, "bank").unwrap();
    let bank = bank.blocking();
    let one = bank.open(1).unwrap();
    let error = bank.open(2).unwrap_err();
    assert!(matches!(error, ServiceError::Refused(Refusal::Result { .. })), "{error}");
    // The bank, and the account that is held.
    let is_dropped = || alive.load(Ordering::SeqCst) == 2;
    wait_until(&world.client, "the end of the account that is refused", is_dropped);
    drop(one);
    wait_until(&world.client, "a release", || world.exporter.references() == 1);
    assert_eq!(bank.open(2).unwrap().blocking().add(1).unwrap(), 3);
}

/// Panics where it is called.
#[service]
trait Fragile {
    #[blocking]
    fn break_down(&self);
    fn is_whole(&self) -> bool;
}

struct Glass;

impl Fragile for Glass {
    fn break_down(&self) {
        panic!("as it was asked to");
    }

    fn is_whole(&self) -> bool {
        true
    }
}

#[test]
fn a_method_that_panics_on_a_thread_of_its_own_fails_its_call_alone() {
    let world = World::new(LinkPolicy::Auto);
    world.exporter.export::<dyn Fragile>("glass", Arc::new(Glass));
    let client = world.importer.import_blocking::<dyn Fragile>(&world.connection, "glass").unwrap();
    let client = client.blocking();
    for _ in 0..3 {
        let error = client.break_down().unwrap_err();
        assert!(
            matches!(error, ServiceError::Call(weft_transport::CallError::Unanswered)),
            "{error}"
        );
        assert!(client.is_whole().unwrap());
    }
}

/// Calls back from a method that does not say that it waits.
#[service]
trait Hasty {
    fn ask(&self, listener: ListenerClient) -> u64;
}

struct Forgets;

impl Hasty for Forgets {
    fn ask(&self, listener: ListenerClient) -> u64 {
        listener.blocking().told(1).unwrap_or(0)
    }
}

#[test]
fn a_method_that_waits_and_does_not_say_so_panics_instead_of_waiting_for_itself() {
    let world = World::new(LinkPolicy::Auto);
    world.exporter.export::<dyn Hasty>("hasty", Arc::new(Forgets));
    let client = world.importer.import_blocking::<dyn Hasty>(&world.connection, "hasty").unwrap();
    let alive = Arc::default();
    let error = client.blocking().ask(Adder::new(1, &alive)).unwrap_err();
    assert!(
        matches!(error, ServiceError::Call(weft_transport::CallError::Disconnected { .. })),
        "{error}"
    );
    wait_until(&world.client, "a release", || alive.load(Ordering::SeqCst) == 0);
    let shutdown = std::panic::AssertUnwindSafe(|| world.server.shutdown());
    assert!(std::panic::catch_unwind(shutdown).is_err(), "whoever shuts it down is told");
}

/// What the second process is told to do, by its environment.
const ROLE: &str = "WEFT_SERVICES_TEST_ADDRESS";

/// Not a test of its own: what the process does that is killed. It imports a board, joins it with a listener of its own, and waits for the end.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a process that is told by its environment what it is"
)]
fn the_process_that_is_killed() {
    let Ok(address) = std::env::var(ROLE) else { return };
    let services = Services::new();
    let client: Endpoint = endpoint(next_client(), LinkPolicy::Auto, &services);
    let connection = client.connect(address.parse().unwrap(), soon(&client));
    let connection = client.block_on(connection).unwrap();
    let board = services.import_blocking::<dyn Board>(&connection, "board").unwrap();
    board.blocking().join(Adder::new(1, &Arc::default())).unwrap();
    println!("joined");
    loop {
        std::thread::park();
    }
}

/// Dies when the server tells of it.
struct Witness(Arc<AtomicUsize>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Listener for Witness {
    fn told(&self, number: u64) -> u64 {
        number
    }

    fn pass_on(&self, _: BoardClient, depth: u64) -> u64 {
        depth
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "starts this very program again")]
fn a_process_that_is_killed_gives_up_all_that_it_held() {
    let services = Services::new();
    let server = endpoint(weft_transport::NodeId(1), LinkPolicy::Auto, &services);
    let address = server.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let notices = Arc::<Notices>::default();
    services.export::<dyn Board>("board", Arc::clone(&notices) as _);
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "references::the_process_that_is_killed", "--nocapture"])
        .env(ROLE, address.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let joined = lines.map_while(Result::ok).any(|line| line.contains("joined"));
    assert!(joined, "the process has come as far as that");
    assert_eq!(services.references(), 1, "its import");
    // What it has passed can be called, and is passed something that this side is to get back.
    let alive = Arc::new(AtomicUsize::new(1));
    let own: Arc<dyn Board> = Arc::new(Owned { _witness: Witness(Arc::clone(&alive)) });
    let listener = notices.listeners.lock().unwrap().pop().unwrap();
    assert_eq!(listener.blocking().told(4).unwrap(), 5);
    let late = listener.clone();
    let passing = std::thread::spawn(move || late.blocking().pass_on(own, 5));
    wait_until(&server, "the call", || services.references() == 2);
    process.kill().unwrap();
    process.wait().unwrap();
    wait_until(&server, "the release of all that it held", || {
        services.references() == 0 && alive.load(Ordering::SeqCst) == 0
    });
    let error = passing.join().unwrap().unwrap_err();
    assert!(matches!(error, ServiceError::Call(_)), "{error}");
    assert!(listener.blocking().told(1).is_err());
}

/// A board that lives as long as its references, and never answers.
struct Owned {
    _witness: Witness,
}

impl Board for Owned {
    fn join(&self, _: ListenerClient) {}

    fn forget(&self) {}

    fn tell(&self, number: u64) -> u64 {
        number
    }

    fn ask(&self, _: ListenerClient, number: u64) -> u64 {
        number
    }

    /// Holds up whoever has called, until it is killed.
    #[expect(clippy::disallowed_methods, reason = "waiting is what it is for")]
    fn bounce(&self, _: Option<ListenerClient>, depth: u64) -> u64 {
        std::thread::sleep(std::time::Duration::from_secs(2));
        depth
    }

    fn is_here(&self) -> bool {
        true
    }
}
