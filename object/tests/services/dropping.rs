//! Objects of the program are dropped where their destructors may do anything: call others, use the registry, panic.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use weft_object::service;
use weft_object::service::{Client as _, Exported, ServiceError, Services, ServicesConfig};
use weft_transport::{LinkPolicy, NodeId};

use crate::world::{World, endpoint, links, soon, wait_until};

#[service]
trait Listener {
    fn told(&self, number: u64) -> u64;
}

/// Does something when it is dropped.
struct OnDrop(Box<dyn Fn() + Send + Sync>);

impl OnDrop {
    fn new(then: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self(Box::new(then)))
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Listener for OnDrop {
    fn told(&self, number: u64) -> u64 {
        number
    }
}

#[service]
trait Board {
    fn join(&self, listener: ListenerClient);
    fn forget(&self);
    fn count(&self) -> u64;
    /// Takes the place of what handles this call.
    fn renew(&self);
}

#[derive(Default)]
struct Keeps {
    listeners: Mutex<Vec<ListenerClient>>,
    exported: Mutex<Option<Exported<dyn Board>>>,
    /// What is dropped with this.
    along: Mutex<Option<Arc<OnDrop>>>,
}

impl Board for Keeps {
    fn join(&self, listener: ListenerClient) {
        self.listeners.lock().unwrap().push(listener);
    }

    fn forget(&self) {
        self.listeners.lock().unwrap().clear();
    }

    fn count(&self) -> u64 {
        self.listeners.lock().unwrap().len() as u64
    }

    fn renew(&self) {
        let exported = self.exported.lock().unwrap().take().unwrap();
        drop(exported.replace(Arc::new(Self::default())));
    }
}

fn board(world: &World, keeps: Keeps) -> (Exported<dyn Board>, BoardClient) {
    let exported = world.exporter.export::<dyn Board>("board", Arc::new(keeps));
    let client = world.importer.import_blocking::<dyn Board>(&world.connection, "board").unwrap();
    (exported, client)
}

#[test]
fn the_destructor_of_an_object_that_is_refused_may_use_the_registry() {
    let config = ServicesConfig { references_max: 1, ..ServicesConfig::default() };
    let few = || Services::with_config(config);
    let world = World::with(LinkPolicy::Auto, few(), few());
    let (_, client) = board(&world, Keeps::default());
    client.blocking().join(OnDrop::new(|| ())).unwrap();
    let (seen, importer) = (Arc::new(Mutex::new(None)), world.importer.clone());
    let tells = Arc::clone(&seen);
    let refused = OnDrop::new(move || *tells.lock().unwrap() = Some(importer.references()));
    // On a thread of its own, which the test does not wait for if it never ends.
    let joining = std::thread::spawn(move || client.blocking().join(refused));
    wait_until(&world.client, "the end of the call", || joining.is_finished());
    let error = joining.join().unwrap().unwrap_err();
    assert_eq!(error, ServiceError::TooManyReferences { limit: 1 });
    assert_eq!(*seen.lock().unwrap(), Some(1));
}

#[test]
fn the_destructor_of_an_object_that_is_released_may_call_others() {
    for &link in links() {
        let world = World::new(link);
        let (_, client) = board(&world, Keeps::default());
        let (answers, calls) = (Arc::new(Mutex::new(Vec::new())), client.clone());
        let tells = Arc::clone(&answers);
        let object = OnDrop::new(move || {
            let count = calls.within(Duration::from_secs(5)).blocking().count();
            tells.lock().unwrap().push(count);
        });
        client.blocking().join(object).unwrap();
        client.blocking().forget().unwrap();
        wait_until(&world.client, "the destructor's call", || !answers.lock().unwrap().is_empty());
        assert_eq!(*answers.lock().unwrap(), [Ok(0)]);
    }
}

#[test]
fn an_implementation_that_is_replaced_while_it_handles_a_call_is_dropped_where_it_may_wait() {
    let world = World::new(LinkPolicy::Auto);
    let answers = Arc::new(Mutex::new(Vec::new()));
    let back = Arc::new(Mutex::new(None::<ListenerClient>));
    let (tells, calls) = (Arc::clone(&answers), Arc::clone(&back));
    let along = OnDrop::new(move || {
        let client = calls.lock().unwrap().take().unwrap();
        tells.lock().unwrap().push(client.within(Duration::from_secs(5)).blocking().told(7));
    });
    let keeps = Arc::new(Keeps { along: Mutex::new(Some(along)), ..Keeps::default() });
    let exported = world.exporter.export::<dyn Board>("board", Arc::clone(&keeps) as _);
    let client = world.importer.import_blocking::<dyn Board>(&world.connection, "board").unwrap();
    client.blocking().join(OnDrop::new(|| ())).unwrap();
    *back.lock().unwrap() = keeps.listeners.lock().unwrap().pop();
    assert!(keeps.along.lock().unwrap().is_some());
    *keeps.exported.lock().unwrap() = Some(exported);
    drop(keeps);
    client.blocking().renew().unwrap();
    wait_until(&world.client, "the destructor's call", || !answers.lock().unwrap().is_empty());
    assert_eq!(*answers.lock().unwrap(), [Ok(7)]);
}

#[test]
fn destructors_that_panic_when_a_holder_dies_are_nobody_elses() {
    let world = World::new(LinkPolicy::Auto);
    let (_, client) = board(&world, Keeps::default());
    let count = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let count = Arc::clone(&count);
        let object = OnDrop::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
            panic!("a destructor");
        });
        client.blocking().join(object).unwrap();
    }
    world.server.shutdown();
    wait_until(&world.client, "the end of all", || count.load(Ordering::SeqCst) == 3);
    assert_eq!(world.importer.references(), 0);
}

#[test]
fn the_end_of_a_holder_is_seen_though_destructors_wait_and_its_connection_has_made_way() {
    let few = Services::with_config(ServicesConfig { threads_max: 1, ..ServicesConfig::default() });
    let (other, third) = (Services::new(), Services::new());
    let ends = [(1, &few), (2, &other), (3, &third)]
        .map(|(node, services)| endpoint(NodeId(node), LinkPolicy::Tcp, services));
    let addresses = ends.each_ref().map(|end| end.listen(([127, 0, 0, 1], 0).into()).unwrap());
    let connect = |from: usize, to: usize| {
        ends[from].block_on(ends[from].connect(addresses[to], soon(&ends[from]))).unwrap()
    };
    let exported = [&few, &third]
        .map(|services| services.export::<dyn Board>("board", Arc::new(Keeps::default())));
    // The one thread that drops objects waits in a destructor.
    let away = few.import_blocking::<dyn Board>(&connect(0, 2), "board").unwrap().blocking();
    let (waits, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(2)));
    let (begins, opens) = (Arc::clone(&waits), Arc::clone(&gate));
    let object = OnDrop::new(move || {
        begins.fetch_add(1, Ordering::SeqCst);
        opens.wait();
    });
    away.join(object).unwrap();
    away.forget().unwrap();
    wait_until(&ends[0], "the destructor", || waits.load(Ordering::SeqCst) == 1);
    let connection = connect(1, 0);
    let client = other.import_blocking::<dyn Board>(&connection, "board").unwrap();
    assert_eq!(few.references(), 1);
    let used = connect(0, 1);
    wait_until(&ends[1], "the end of the first", || !connection.is_open());
    assert!(used.is_open());
    ends[1].shutdown();
    wait_until(&ends[0], "the end of the holder", || few.references() == 0);
    gate.wait();
    drop((client, exported));
}
