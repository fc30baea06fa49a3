//! Two versions of one interface: which serve whom, and what is said of those that do not.

use std::sync::Arc;

use weft_object::service::{Client as _, GraphRef, ImportError, Interface, ServiceError, Services};
use weft_object::{Frozen, Graph, Text, TypesDiffer, Wire, service};
use weft_transport::{LinkPolicy, Purpose};

use crate::world::{World, links, memory};

mod old {
    use super::*;

    #[derive(Wire, Clone, Copy)]
    #[repr(C)]
    pub(super) struct Entry {
        pub(super) key: Text,
        pub(super) value: u64,
    }

    #[service]
    pub(super) trait Store {
        fn get(&self, key: &str) -> Option<u64>;
        fn put(&self, key: &str, value: u64) -> Result<u64, u32>;
        fn entry(&self, key: &str) -> Frozen<Entry>;
        fn value_of(&self, entry: GraphRef<'_, Entry>) -> u64;
    }

    #[service]
    pub(super) trait Watcher {
        fn changed(&self, key: &str);
        fn last(&self) -> Frozen<Entry>;
    }
}

/// As an implementation tells which method was called.
struct Tells;

mod newer {
    pub(super) use super::old::Entry;
    use super::*;

    #[derive(Wire, Clone, Copy)]
    #[repr(C)]
    pub(super) struct Extra {
        pub(super) more: u64,
    }

    #[service(name = "Store", types(Extra))]
    pub(super) trait Store {
        fn extra(&self, numbers: &[u64]) -> Frozen<Extra>;
        fn put(&self, key: &str, value: u64) -> Result<u64, u32>;
        fn delete(&self, key: &str);
        fn value_of(&self, entry: GraphRef<'_, Entry>) -> u64;
        fn entry(&self, key: &str) -> Frozen<Entry>;
        fn get(&self, key: &str) -> Option<u64>;
        #[blocking]
        fn watch(&self, watcher: WatcherClient) -> String;
    }

    #[service(name = "Watcher", types(Extra))]
    pub(super) trait Watcher {
        fn last(&self) -> Frozen<Entry>;
        fn changed(&self, key: &str);
    }

    impl Store for Tells {
        fn extra(&self, _: &[u64]) -> Frozen<Extra> {
            unreachable!("an older client does not know it")
        }

        fn put(&self, _: &str, value: u64) -> Result<u64, u32> {
            if value == 0 { Err(7) } else { Ok(value + 1) }
        }

        fn delete(&self, _: &str) {
            unreachable!("an older client does not know it")
        }

        fn entry(&self, key: &str) -> Frozen<Entry> {
            entry(StoreClient::types(), key)
        }

        fn value_of(&self, entry: GraphRef<'_, Entry>) -> u64 {
            entry.root().value + entry.view().text(&entry.root().key).len() as u64
        }

        fn get(&self, key: &str) -> Option<u64> {
            key.strip_prefix("is ").map(|key| key.len() as u64)
        }

        fn watch(&self, watcher: WatcherClient) -> String {
            watcher.blocking().changed("by a newer one").unwrap();
            let last = watcher.blocking().last().unwrap();
            last.view().text(&last.root().key).to_owned()
        }
    }
}

fn entry(types: &weft_object::Types, key: &str) -> Frozen<old::Entry> {
    Graph::build(&memory(), Purpose::Send, types, |graph| {
        let key = graph.text(key)?;
        graph.alloc(old::Entry { key, value: 42 })
    })
    .unwrap()
}

/// What importing `I` fails with where `services` export something under the name.
fn refusal<I: Interface + ?Sized>(services: Services) -> ImportError {
    let world = World::with(LinkPolicy::Auto, services, Services::new());
    let error = world.importer.import_blocking::<I>(&world.connection, "store").unwrap_err();
    assert_eq!(world.exporter.references(), 0, "who is refused holds nothing");
    assert!(world.connection.is_open());
    error
}

fn exporting<I: Interface + ?Sized>(implementation: Arc<I>) -> Services {
    let services = Services::new();
    services.export::<I>("store", implementation);
    services
}

#[test]
fn a_newer_interface_with_methods_added_anywhere_serves_older_clients() {
    for &link in links() {
        let exporter = exporting::<dyn newer::Store>(Arc::new(Tells));
        let world = World::with(link, exporter, Services::new());
        let client = world.importer.import_blocking::<dyn old::Store>(&world.connection, "store");
        let client = client.unwrap().blocking();
        assert_eq!(client.get("is here").unwrap(), Some(4));
        assert_eq!(client.get("").unwrap(), None);
        assert_eq!(client.put("key", 1).unwrap(), Ok(2));
        assert_eq!(client.put("key", 0).unwrap(), Err(7));
        let graph = client.entry("a key that is long").unwrap();
        assert_eq!(graph.view().text(&graph.root().key), "a key that is long");
        assert_eq!(graph.root().value, 42);
        let graph = entry(old::StoreClient::types(), "ten bytes.");
        assert_eq!(client.value_of(&graph).unwrap(), 52, "its types have other places there");
    }
}

impl old::Store for Tells {
    fn get(&self, _: &str) -> Option<u64> {
        None
    }

    fn put(&self, _: &str, value: u64) -> Result<u64, u32> {
        Ok(value)
    }

    fn entry(&self, key: &str) -> Frozen<old::Entry> {
        entry(old::StoreClient::types(), key)
    }

    fn value_of(&self, entry: GraphRef<'_, old::Entry>) -> u64 {
        entry.root().value
    }
}

#[test]
fn an_older_interface_does_not_serve_newer_clients_and_both_fingerprints_are_named() {
    let error = refusal::<dyn newer::Store>(exporting::<dyn old::Store>(Arc::new(Tells)));
    let ours = <dyn newer::Store>::DESCRIPTION.fingerprint;
    let theirs = <dyn old::Store>::DESCRIPTION.fingerprint;
    assert_ne!(ours, theirs);
    let (interface, method) = ("Store", "extra");
    assert_eq!(error, ImportError::MissingMethod { interface, method, ours, theirs });
    let text = error.to_string();
    for part in [ours.to_string(), theirs.to_string(), "extra".to_owned()] {
        assert!(text.contains(&part), "{text}");
    }
}

mod changed {
    use super::*;

    #[service(name = "Store")]
    pub(super) trait Store {
        fn get(&self, key: &str) -> Option<u32>;
    }

    #[service(name = "Store")]
    pub(super) trait Renamed {
        fn fetch(&self, key: &str) -> Option<u64>;
    }

    #[service(name = "Shop")]
    pub(super) trait Other {
        fn get(&self, key: &str) -> Option<u64>;
    }
}

#[test]
fn a_method_that_gives_other_types_is_refused_and_both_fingerprints_are_named() {
    let old = || exporting::<dyn old::Store>(Arc::new(Tells));
    let error = refusal::<dyn changed::Store>(old());
    let ours = <dyn changed::Store>::DESCRIPTION.methods[0].fingerprint;
    let theirs = <dyn old::Store>::DESCRIPTION.methods[0].fingerprint;
    let (interface, method) = ("Store", "get");
    assert_eq!(error, ImportError::OtherMethod { interface, method, ours, theirs });
    let text = error.to_string();
    assert!(text.contains(&ours.to_string()) && text.contains(&theirs.to_string()), "{text}");
    let error = refusal::<dyn changed::Renamed>(old());
    assert!(matches!(error, ImportError::MissingMethod { method: "fetch", .. }), "{error}");
    let error = refusal::<dyn changed::Other>(old());
    let ours = <dyn changed::Other>::DESCRIPTION.fingerprint;
    let theirs = <dyn old::Store>::DESCRIPTION.fingerprint;
    let (ours_name, theirs_name) = ("Shop", "Store".to_owned());
    assert_eq!(error, ImportError::OtherInterface { ours_name, ours, theirs_name, theirs });
}

mod relaid {
    use super::*;

    /// The same name, and other fields.
    #[derive(Wire, Clone, Copy)]
    #[repr(C)]
    pub(super) struct Entry {
        pub(super) value: u64,
        pub(super) key: Text,
    }

    #[service(name = "Store")]
    pub(super) trait Store {
        fn entry(&self, key: &str) -> Frozen<Entry>;
    }
}

#[test]
fn a_type_of_graphs_that_has_another_layout_is_refused_and_both_fingerprints_are_named() {
    let error = refusal::<dyn relaid::Store>(exporting::<dyn old::Store>(Arc::new(Tells)));
    let ImportError::Types(TypesDiffer::Layout { name, ours, theirs, .. }) = &error else {
        panic!("{error}")
    };
    assert_eq!(name, "Entry");
    assert_eq!(*ours, <relaid::Entry as Wire>::FINGERPRINT);
    assert_eq!(*theirs, <old::Entry as Wire>::FINGERPRINT);
}

impl old::Watcher for Tells {
    fn changed(&self, key: &str) {
        assert_eq!(key, "by a newer one");
    }

    fn last(&self) -> Frozen<old::Entry> {
        entry(old::WatcherClient::types(), "the last that was watched")
    }
}

mod between {
    use super::*;

    /// Knows the newer method, and has an older watcher to pass.
    #[service(name = "Store")]
    pub(super) trait Store {
        #[blocking]
        fn watch(&self, watcher: old::WatcherClient) -> String;
    }

    #[service(name = "Watcher")]
    pub(super) trait Watcher {
        fn changed(&self, key: u64);
    }

    #[service(name = "Store")]
    pub(super) trait Wrong {
        #[blocking]
        fn watch(&self, watcher: WatcherClient) -> String;
    }

    impl Watcher for Tells {
        fn changed(&self, _: u64) {}
    }
}

#[test]
fn a_service_that_is_passed_may_be_of_an_older_version_too() {
    for &link in links() {
        let exporter = exporting::<dyn newer::Store>(Arc::new(Tells));
        let world = World::with(link, exporter, Services::new());
        let client =
            world.importer.import_blocking::<dyn between::Store>(&world.connection, "store");
        let client = client.unwrap().blocking();
        assert_eq!(client.watch(Arc::new(Tells)).unwrap(), "the last that was watched");
    }
}

/// Takes what it is passed and says what came of calling it.
struct Calls;

#[service]
trait Judge {
    #[blocking]
    fn judge(&self, watcher: newer::WatcherClient) -> String;
}

mod judged {
    use super::*;

    #[service(name = "Judge")]
    pub(super) trait Judge {
        #[blocking]
        fn judge(&self, watcher: between::WatcherClient) -> String;
    }
}

impl Judge for Calls {
    fn judge(&self, watcher: newer::WatcherClient) -> String {
        match watcher.blocking().changed("anything") {
            Err(error @ ServiceError::Import(_)) => error.to_string(),
            other => format!("{other:?}"),
        }
    }
}

#[test]
fn a_service_that_is_passed_and_does_not_serve_is_a_typed_error_at_its_first_call() {
    let exporter = exporting::<dyn Judge>(Arc::new(Calls));
    let world = World::with(LinkPolicy::Auto, exporter, Services::new());
    let client = world.importer.import_blocking::<dyn judged::Judge>(&world.connection, "store");
    let said = client.unwrap().blocking().judge(Arc::new(Tells)).unwrap();
    let theirs = <dyn between::Watcher>::DESCRIPTION;
    assert!(said.contains("Watcher") && said.contains(&theirs.fingerprint.to_string()), "{said}");
}

#[test]
fn fingerprints_are_of_names_and_types_alone() {
    mod here {
        use super::*;

        #[service(name = "Store")]
        pub(super) trait Differently {
            fn get(&self, name: &str) -> Option<u64>;
            fn put(&self, name: &str, count: u64) -> Result<u64, u32>;
            fn entry(&self, name: &str) -> Frozen<old::Entry>;
            fn value_of(&self, one: GraphRef<'_, old::Entry>) -> u64;
        }
    }
    let (one, other) = (<dyn here::Differently>::DESCRIPTION, <dyn old::Store>::DESCRIPTION);
    assert_eq!(one, other);
    let all: Vec<_> = [<dyn newer::Store>::DESCRIPTION, one].map(|each| each.methods).concat();
    let of = |name: &str| -> Vec<_> {
        all.iter().filter(|method| method.name == name).map(|method| method.fingerprint).collect()
    };
    for name in ["get", "put", "entry"] {
        let [newer, old] = of(name)[..] else { panic!("{name}") };
        assert_eq!(newer, old, "{name}");
    }
    assert_ne!(of("get")[0], of("delete")[0]);
}
