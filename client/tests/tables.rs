//! Tables, as a program uses them, on a cluster of real nodes.

#![expect(
    clippy::disallowed_methods,
    reason = "it waits for longer than one node is asked, and measures how long an operation tries"
)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "tables/cluster.rs"]
mod cluster;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};
use std::thread;
use std::time::{Duration, Instant};

use weft_client::{
    Applied, BlockingClient, CatalogError, ClientConfig, ClientError, Durability, ErrorCode,
    Eviction, RangeOptions, ScanOptions, Slot, TableAlteration, TableId, TableOptions,
};
use weft_server::node::Node;

use self::cluster::Cluster;

fn ordered() -> TableOptions {
    TableOptions { ordered: true, ..TableOptions::default() }
}

#[test]
fn a_table_is_scanned_in_parts() {
    let cluster = Cluster::start(2);
    let table = cluster.client().create_table("parts", TableOptions::default()).unwrap();
    let keys: BTreeSet<_> = (0..2000).map(|number| format!("key-{number}").into_bytes()).collect();
    let pairs: Vec<_> = keys.iter().map(|key| (key, "value")).collect();
    table.multi_put(&pairs).try_collect_in_order().unwrap();
    let scanned = |slots: RangeInclusive<Slot>| -> Vec<Vec<u8>> {
        // Small pages, so that there are many.
        let options =
            ScanOptions { slots: Some(slots.clone()), page_objects: 50, ..ScanOptions::default() };
        let keys = table.scan(options).unwrap().map(|scanned| scanned.unwrap().key);
        keys.inspect(|key| assert!(slots.contains(&Slot::of(key)))).collect()
    };
    let partitions = table.partitions();
    assert_eq!(partitions.len(), 6);
    assert!(partitions.iter().all(|partition| partition.primary.is_some()));
    let of_all: Vec<_> = partitions
        .iter()
        .map(|partition| scanned(partition.first_slot..=partition.last_slot))
        .collect();
    assert!(of_all.iter().all(|keys| (200..500).contains(&keys.len())));
    let all = of_all.concat();
    assert_eq!(all.len(), keys.len(), "each is met once");
    assert!(all.into_iter().collect::<BTreeSet<_>>() == keys);
    // Borders within partitions.
    let slot = |number| Slot::from_number(number).unwrap();
    let parts = [slot(0)..=slot(99), slot(100)..=slot(9_000), slot(9_001)..=slot(16_383)];
    let all = parts.map(scanned).concat();
    assert_eq!(all.len(), keys.len());
    assert!(all.into_iter().collect::<BTreeSet<_>>() == keys);
    assert_eq!(scanned(RangeInclusive::new(slot(5), slot(4))), Vec::<Vec<u8>>::new());
}

#[test]
fn tables_are_told_apart_on_all_nodes() {
    let cluster = Cluster::start(3);
    let (client, other) = (cluster.client(), cluster.client());
    let people = client.create_table("people", TableOptions::default()).unwrap();
    let exists = client.create_table("people", ordered()).unwrap_err();
    assert!(matches!(exists, ClientError::Catalog(CatalogError::Exists { .. })), "{exists}");
    assert_eq!(exists.code(), ErrorCode::TableExists);
    let names: Vec<_> = (0..300).map(|number| format!("key-{number}")).collect();
    for name in &names {
        client.put(name, "of default").unwrap();
        people.put(name, "of people").unwrap();
    }
    let same = other.table("people").unwrap();
    let objects = same.multi_get(&names).try_collect_in_order().unwrap();
    assert!(objects.into_iter().all(|found| &*found.into_object().unwrap() == b"of people"));
    same.multi_delete(&names[..100]).try_collect_in_order().unwrap();
    assert_eq!((people.count().unwrap(), client.count().unwrap()), (200, 300));
    let scanned = |client: &BlockingClient| client.scan(ScanOptions::default()).unwrap().count();
    assert_eq!((scanned(&people), scanned(&client)), (200, 300));

    let tables = client.tables().unwrap();
    let told: Vec<_> = tables.iter().map(|table| (&table.name[..], table.objects)).collect();
    assert_eq!(told, [("default", 300), ("people", 200)]);
    assert!(tables[1].bytes > 200 * 32 && tables[1].id != TableId::DEFAULT);

    assert_eq!(same.truncate().unwrap(), 200);
    assert_eq!((people.count().unwrap(), client.count().unwrap()), (0, 300));
    people.put("key", "value").unwrap();
    other.drop_table("people").unwrap();
    for refused in [
        people.get("key").unwrap_err(),
        people.put("key", "value").unwrap_err(),
        people.truncate().unwrap_err(),
        people.count().unwrap_err(),
        client.table("people").unwrap_err(),
        client.drop_table("people").unwrap_err(),
        people.multi_get(&["key"]).try_collect_in_order().unwrap_err(),
        people.scan(ScanOptions::default()).unwrap().next().unwrap().unwrap_err(),
    ] {
        assert_eq!(refused.code(), ErrorCode::TableUnknown, "{refused}");
    }
    let always = client.drop_table("default").unwrap_err();
    assert!(always.to_string().contains("always there"), "{always}");
    let malformed = client.create_table("a table", ordered()).unwrap_err();
    assert_eq!(malformed.code(), ErrorCode::TableNameMalformed);
    // Whoever had the number keeps out of the new table.
    let again = client.create_table("people", TableOptions::default()).unwrap();
    again.put("key", "new").unwrap();
    assert_eq!(people.get("key").unwrap_err().code(), ErrorCode::TableUnknown);
}

#[test]
fn who_creates_tables_at_the_same_time_creates_all_of_them() {
    let cluster = Cluster::start(3);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let client = cluster.client();
            scope.spawn(move || {
                for number in 0..5 {
                    let name = format!("table-{thread}-{number}");
                    let table = client.create_table(&name, TableOptions::default()).unwrap();
                    table.put("name", &name).unwrap();
                }
            });
        }
    });
    let client = cluster.client();
    let tables = client.tables().unwrap();
    assert_eq!(tables.len(), 21);
    for table in &tables[1..] {
        let found = client.table(&table.name).unwrap().get("name").unwrap().into_object().unwrap();
        assert_eq!(&*found, table.name.as_bytes());
    }
}

#[test]
fn tables_are_changed_though_a_node_is_down_which_learns_of_it_later() {
    let mut cluster = Cluster::start(3);
    let client = cluster.client();
    let first = client.create_table("first", TableOptions::default()).unwrap();
    let names: Vec<_> = (0..100).map(|number| format!("key-{number}")).collect();
    let put_all = |table: &BlockingClient| {
        let pairs: Vec<_> = names.iter().map(|name| (name, "value")).collect();
        table.multi_put(&pairs).try_collect_in_order().unwrap();
    };
    put_all(&first);
    cluster.nodes[1] = None;
    let second = client.create_table("second", ordered()).unwrap();
    let again = client.create_table("second", ordered()).unwrap_err();
    assert_eq!(again.code(), ErrorCode::TableExists);
    cluster.restart(1);
    put_all(&second);
    put_all(&cluster.client().table("first").unwrap());
    assert_eq!((first.count().unwrap(), second.count().unwrap()), (100, 100));
}

/// Two of three nodes stop, and with them the majority of the coordinators.
fn stop_most(cluster: &mut Cluster) {
    cluster.nodes.truncate(1);
}

/// They come back, and wait for one another.
fn restart_most(cluster: &mut Cluster) {
    let starting = [1, 2].map(|at| {
        let config = cluster.config(at);
        thread::spawn(move || Node::start(&config).unwrap())
    });
    cluster.nodes.extend(starting.map(|node| Some(node.join().unwrap())));
}

/// A client that has written nothing yet has no lease either, which the coordinators give.
#[test]
fn tables_are_changed_when_the_coordinators_have_a_majority_again() {
    let mut cluster = Cluster::start(3);
    let (new, known) = (cluster.client(), cluster.client());
    known.create_table("first", TableOptions::default()).unwrap();
    stop_most(&mut cluster);
    thread::scope(|scope| {
        let made = scope.spawn(|| new.create_table("second", ordered()));
        let dropped = scope.spawn(|| known.drop_table("first"));
        // Longer than any node is asked for, and shorter than the operation's time.
        thread::sleep(Duration::from_secs(2));
        assert!(!made.is_finished() && !dropped.is_finished(), "nobody can have decided");
        restart_most(&mut cluster);
        made.join().unwrap().unwrap();
        dropped.join().unwrap().unwrap();
    });
    let names = new.tables().unwrap().into_iter().map(|table| table.name).collect::<Vec<_>>();
    assert_eq!(names, ["default", "second"]);
}

#[test]
fn who_changes_tables_without_a_majority_is_told_so_when_the_time_is_over() {
    let mut cluster = Cluster::start(3);
    let timeout = Duration::from_secs(3);
    let [new, known] = [(); 2].map(|()| {
        let mut config = ClientConfig::new(cluster.addresses.clone());
        config.timeout = timeout;
        BlockingClient::connect(config).unwrap()
    });
    known.create_table("first", TableOptions::default()).unwrap();
    stop_most(&mut cluster);
    for (client, applied) in [(&new, Applied::No), (&known, Applied::Maybe)] {
        let begin = Instant::now();
        let undecided = client.create_table("second", ordered()).unwrap_err();
        let took = begin.elapsed();
        assert!(matches!(undecided, ClientError::Undecided { .. }), "{undecided}");
        let told = (undecided.code(), undecided.applied());
        assert_eq!(told, (ErrorCode::CoordinatorsUnavailable, applied), "{undecided}");
        // The last pause, of a tenth of a second, would have gone beyond the time.
        assert!(took > timeout - Duration::from_millis(100), "{took:?}: {undecided}");
    }
}

#[test]
fn a_table_that_no_node_could_keep_on_disk_is_refused() {
    let cluster = Cluster::start(1);
    let mut config = cluster.config(0);
    drop(cluster);
    config.data_dir = None;
    let _diskless = Node::start(&config).unwrap();
    let mut client = ClientConfig::new([config.listen.to_string()]);
    client.timeout = Duration::from_secs(30);
    let client = BlockingClient::connect(client).unwrap();
    for durability in [Durability::Disk, Durability::Fsync] {
        let options = TableOptions { durability, ..TableOptions::default() };
        let refused = client.create_table("kept", options).unwrap_err();
        assert_eq!((refused.code(), refused.applied()), (ErrorCode::NotPossible, Applied::No));
        for part in ["a node that keeps data on disk", "start nodes with --data-dir"] {
            assert!(refused.to_string().contains(part), "{refused}");
        }
    }
    client.create_table("kept", TableOptions::default()).unwrap().put("key", "value").unwrap();
}

/// The others have done it, and say so.
#[test]
fn what_some_nodes_have_done_is_not_told_to_be_undone() {
    let mut cluster = Cluster::start(3);
    let client = cluster.client();
    // Nobody takes over what a node has alone.
    let options = TableOptions { replicas: 1, ..TableOptions::default() };
    let table = client.create_table("table", options).unwrap();
    let mut config = ClientConfig::new(cluster.addresses.clone());
    config.timeout = Duration::from_millis(500);
    let hasty = BlockingClient::connect(config).unwrap();
    let hasty_table = hasty.table("table").unwrap();
    table.put("key", "value").unwrap();
    cluster.nodes[2] = None;
    let partly = hasty_table.truncate().unwrap_err();
    assert_eq!(partly.applied(), Applied::Maybe, "{partly}");
}

#[test]
fn an_old_client_does_not_find_new_tables_under_old_numbers() {
    let cluster = Cluster::start(2);
    let old = cluster.client().create_table("accounts", TableOptions::default()).unwrap();
    old.put("key", "an account").unwrap();
    let client = cluster.client();
    client.drop_table("accounts").unwrap();
    let new = client.create_table("sessions", TableOptions::default()).unwrap();
    new.put("key", "a session").unwrap();
    let refused = old.get("key").unwrap_err();
    assert_eq!(refused.code(), ErrorCode::TableUnknown, "{refused}");
    assert_eq!(new.count().unwrap(), 1);
}

#[test]
fn a_range_is_merged_from_all_nodes() {
    let cluster = Cluster::start(3);
    let client = cluster.client();
    let table = client.create_table("ordered", ordered()).unwrap();
    let mut model = BTreeMap::new();
    for number in 0..2_000_u32 {
        let (key, value) = (format!("key-{:05}", number * 7_919 % 5_000), number.to_string());
        table.put(&key, &value).unwrap();
        model.insert(key.into_bytes(), value.into_bytes());
    }
    // Too large for a page.
    let large = vec![7; 300_000];
    table.put("key-00500x", &large).unwrap();
    model.insert(b"key-00500x".to_vec(), large);
    let range = |options: RangeOptions| -> Vec<(Vec<u8>, Vec<u8>)> {
        let options = RangeOptions { with_values: true, ..options };
        let range = table.range(options).unwrap();
        range
            .map(|object| object.unwrap())
            .map(|object| (object.key, object.value.unwrap().to_vec()))
            .collect()
    };
    let expected: Vec<_> = model.clone().into_iter().collect();
    assert!(range(RangeOptions::default()) == expected);
    let backwards: Vec<_> = expected.iter().rev().cloned().collect();
    let all = RangeOptions { page_objects: 50, ..RangeOptions::default() };
    assert!(range(RangeOptions { descending: true, ..all.clone() }) == backwards);
    let begins = |prefix: &str| {
        let matching = model.iter().filter(|(key, _)| key.starts_with(prefix.as_bytes()));
        matching.map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>()
    };
    assert!(range(RangeOptions::prefix(b"key-005")) == begins("key-005"));
    assert_eq!(range(RangeOptions::prefix(b"none")), []);
    let (lower, upper) = (b"key-00100".to_vec(), b"key-00200".to_vec());
    let bounds = (Bound::Included(lower.clone()), Bound::Excluded(upper.clone()));
    let within = model.range(bounds).map(|(key, value)| (key.clone(), value.clone()));
    let between = RangeOptions {
        lower: Bound::Included(lower),
        upper: Bound::Excluded(upper),
        page_objects: 3,
        ..RangeOptions::default()
    };
    assert_eq!(range(between), within.collect::<Vec<_>>());

    // Removed and added meanwhile, but behind where the range has come to.
    let mut slow =
        table.range(RangeOptions { page_objects: 10, ..RangeOptions::default() }).unwrap();
    let first: Vec<_> = slow.by_ref().take(100).map(|object| object.unwrap().key).collect();
    table.put("key-99999", "added").unwrap();
    table.put("a", "added before").unwrap();
    table.delete(&first[50]).unwrap();
    let rest: Vec<_> = slow.map(|object| object.unwrap().key).collect();
    assert_eq!(rest.last().unwrap(), b"key-99999");
    assert_eq!(first.len() + rest.len(), model.len() + 1);

    let unordered = client.range(RangeOptions::default()).unwrap().next().unwrap().unwrap_err();
    assert_eq!(unordered.code(), ErrorCode::NotOrdered);
    let long = RangeOptions::from(vec![0; 70_000]);
    assert_eq!(client.range(long).unwrap_err().code(), ErrorCode::KeyTooLong);
}

#[test]
fn a_table_is_altered_on_all_nodes() {
    let cluster = Cluster::start(3);
    let (client, other) = (cluster.client(), cluster.client());
    let people = client.create_table("people", ordered()).unwrap();
    let value = vec![7; 1_000];
    let write = |client: &BlockingClient| {
        (0..300).map(|number| client.put(format!("key-{number}"), &value)).collect::<Vec<_>>()
    };
    assert!(write(&people).iter().all(Result::is_ok));
    let quota = |quota_bytes| TableAlteration { quota_bytes: Some(quota_bytes), eviction: None };
    for (name, table) in [("people", &people), ("default", &client)] {
        other.alter_table(name, quota(Some(60_000))).unwrap();
        table.truncate().unwrap();
        let refused = write(table).into_iter().filter_map(Result::err).collect::<Vec<_>>();
        assert!(refused.len() > 200, "{} of {name}", refused.len());
        assert!(refused.iter().all(|error| error.code() == ErrorCode::QuotaReached));
        let eviction = Eviction::LeastRecentlyUsed;
        let evicting = TableAlteration { eviction: Some(eviction), ..TableAlteration::default() };
        other.alter_table(name, evicting).unwrap();
        assert!(write(table).iter().all(Result::is_ok));
        let count = table.count().unwrap();
        assert!((20..100).contains(&count), "{count} of {name}");
        let told = client.tables().unwrap().into_iter().find(|told| told.name == name).unwrap();
        assert_eq!((told.options.quota_bytes, told.options.eviction), (Some(60_000), eviction));
        assert_eq!(told.options.ordered, name == "people");
        let back = TableAlteration { quota_bytes: Some(None), eviction: Some(Eviction::None) };
        other.alter_table(name, back).unwrap();
        assert!(write(table).iter().all(Result::is_ok));
        assert_eq!(table.count().unwrap(), 300);
    }
    let unknown = client.alter_table("nobody", quota(None)).unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::TableUnknown);
    let mut range = people.range(RangeOptions::default()).unwrap();
    assert_eq!(range.next().unwrap().unwrap().key, b"key-0");
}
