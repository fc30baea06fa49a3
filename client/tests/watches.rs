//! Watches, as a program uses them, on a cluster of real nodes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "tables/cluster.rs"]
mod cluster;
#[path = "tables/spread.rs"]
mod spread;

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use weft_client::{
    Applied, BlockingClient, BlockingWatch, ClientConfig, ClientError, ErrorCode, KeyChange,
    TableOptions, TableRemoval, Version, WatchEvent, WatchOptions,
};

use self::cluster::Cluster;
use self::spread::wait_until_spread;

const DEFAULT: WatchOptions = WatchOptions { queue_bytes: None };

/// A client that does not wait for long for a node that is gone.
fn impatient(cluster: &Cluster) -> BlockingClient {
    let mut config = ClientConfig::new(cluster.addresses.clone());
    config.timeout = Duration::from_millis(300);
    BlockingClient::connect(config).unwrap()
}

fn event(watch: &mut BlockingWatch) -> (Vec<u8>, KeyChange, Version) {
    match watch.next().unwrap().unwrap() {
        WatchEvent::Key { key, change, version } => (key, change, version),
        other => panic!("{other:?}"),
    }
}

/// The sum over all nodes.
fn stat(client: &BlockingClient, name: &str) -> u64 {
    let of = |node: weft_client::NodeStats| node.stats.unwrap().value(name).unwrap();
    client.stats().into_iter().map(of).sum()
}

fn wait_for(client: &BlockingClient, name: &str, expected: u64) {
    while stat(client, name) != expected {
        thread::yield_now();
    }
}

#[test]
fn all_that_happens_to_a_key_is_told() {
    let cluster = Cluster::start(2);
    wait_until_spread(|| cluster.client(), 2);
    let (client, other) = (cluster.client(), cluster.client());
    let first = client.put("loom", "1").unwrap();
    let mut watch = client.watch("loom", DEFAULT).unwrap();
    let found = watch.found().unwrap();
    assert_eq!((found.version, found.exists), (first, true));
    assert!(!client.watch("none", DEFAULT).unwrap().found().unwrap().exists);
    let mut versions = vec![
        other.put("loom", "2").unwrap(),
        other.increment("loom", 40, None).unwrap().version,
        other.append("loom", "0", None).unwrap().version,
        other.get_and_put("loom", "x", None).unwrap().version,
        other.expire("loom", Duration::from_secs(1_000)).unwrap().version,
        // In pieces, which are none of its events.
        other.put("loom", vec![7; 3 << 20]).unwrap(),
    ];
    other.put("looms", "another key").unwrap();
    let deleted = other.delete("loom").unwrap().version;
    for version in versions.drain(..) {
        assert_eq!(event(&mut watch), (b"loom".to_vec(), KeyChange::Written, version));
    }
    assert_eq!(event(&mut watch), (b"loom".to_vec(), KeyChange::Deleted, deleted));
    let expiring = other.put_expiring("loom", "3", Duration::from_millis(1)).unwrap();
    assert_eq!(event(&mut watch), (b"loom".to_vec(), KeyChange::Written, expiring));
    assert_eq!(event(&mut watch), (b"loom".to_vec(), KeyChange::Expired, expiring));
}

#[test]
fn the_keys_with_a_prefix_are_watched_at_all_nodes() {
    const ROUNDS: usize = 20;
    let cluster = Cluster::start(3);
    let keys: Vec<_> = (0..200).map(|number| format!("yarn:{number}").into_bytes()).collect();
    wait_until_spread(|| cluster.client(), 3);
    let client = cluster.client();
    let mut watch = client.watch_prefix("yarn:", DEFAULT).unwrap();
    assert!(watch.found().is_none());
    let write = || {
        let client = cluster.client();
        let mut versions = BTreeMap::<Vec<u8>, Vec<Version>>::new();
        for round in 0..ROUNDS {
            let pairs: Vec<_> = keys.iter().map(|key| (key, round.to_string())).collect();
            let written = client.multi_put(&pairs).try_collect_in_order().unwrap();
            for (key, version) in keys.iter().zip(written) {
                versions.entry(key.clone()).or_default().push(version);
            }
            client.put("other", "value").unwrap();
        }
        versions
    };
    let (expected, told) = thread::scope(|scope| {
        let writing = scope.spawn(write);
        let mut told = BTreeMap::<Vec<u8>, Vec<Version>>::new();
        for _ in 0..ROUNDS * keys.len() {
            let (key, change, version) = event(&mut watch);
            assert_eq!(change, KeyChange::Written);
            told.entry(key).or_default().push(version);
        }
        (writing.join().unwrap(), told)
    });
    assert_eq!(told, expected);
    assert_eq!(stat(&client, "watches.open"), 3);
    drop(watch);
    wait_for(&client, "watches.open", 0);
}

/// Where a node comes back, partitions get other primaries though nothing is wrong with those that they have.
#[test]
fn nothing_is_missed_silently_when_what_is_watched_moves() {
    let mut cluster = Cluster::start(3);
    wait_until_spread(|| cluster.client(), 3);
    let client = cluster.client();
    let keys: Vec<_> = (0..24).map(|number| format!("yarn:{number}")).collect();
    let watches: Vec<_> = keys.iter().map(|key| client.watch(key, DEFAULT).unwrap()).collect();
    cluster.restart(0);
    wait_until_spread(|| cluster.client(), 3);
    let mut moved = 0;
    for (key, mut watch) in keys.iter().zip(watches) {
        let written = client.put(key, "anew").unwrap();
        let told = loop {
            match watch.next().unwrap() {
                Ok(told) => break Some(told),
                Err(ClientError::WatchLost { .. }) => break None,
                // The node that was started anew is not there yet.
                Err(_) => {}
            }
        };
        match told {
            Some(WatchEvent::Key { version, .. }) => assert_eq!(version, written),
            Some(other) => panic!("{other:?}"),
            None => moved += 1,
        }
    }
    assert!(moved > 0);
}

#[test]
fn who_is_too_slow_is_told_so_and_nothing_else() {
    let cluster = Cluster::start(2);
    wait_until_spread(|| cluster.client(), 2);
    let client = cluster.client();
    let short = WatchOptions { queue_bytes: Some(4 << 10) };
    let mut watch = client.watch("loom", short).unwrap();
    let pairs = vec![("loom", "oak"); 205];
    let versions = client.multi_put(&pairs[..204]).try_collect_in_order().unwrap();
    assert_eq!(event(&mut watch).2, versions[0]);
    // As many as it has room for; the first one was not received yet as far as the node knows.
    client.put("loom", "elm").unwrap();
    let told: Vec<_> = (1..204).map(|_| event(&mut watch).2).collect();
    assert_eq!(told, versions[1..], "what was taken before is told");
    let error = watch.next().unwrap().unwrap_err();
    assert!(matches!(error, ClientError::FellBehind { .. }), "{error}");
    assert_eq!((error.code(), error.applied()), (ErrorCode::FellBehind, Applied::No));
    assert!(error.to_string().contains("watch again, then read anew"), "{error}");
    assert!(watch.next().is_none(), "there is no more of it");
    wait_for(&client, "watches.open", 0);
    // The advice is good.
    let mut watch = client.watch("loom", short).unwrap();
    let version = client.put("loom", "ash").unwrap();
    assert_eq!(event(&mut watch).2, version);
}

#[test]
fn a_node_that_was_started_anew_has_lost_the_watch() {
    // Of two copies both are needed for a write.
    let mut cluster = Cluster::start(3);
    wait_until_spread(|| cluster.client(), 3);
    let client = impatient(&cluster);

    let mut watch = client.client().block_on(client.client().watch_prefix("", DEFAULT)).unwrap();
    let next = |watch: &mut weft_client::Watch| client.client().block_on(watch.next());
    let key = (0..).map(|number| format!("key-{number}")).find(|key| {
        client.client().map().owner_of(weft_client::Slot::of(key.as_bytes())).unwrap().id.0 == 1
    });
    let key = key.unwrap();
    cluster.nodes[2] = None;
    // Nothing is missed of the others, and what cannot be asked is no end.
    let error = next(&mut watch).unwrap_err();
    assert!(!watch.is_ended() && matches!(error, ClientError::Unreachable { .. }), "{error}");
    // It waits until that one is known to be down, of whose copy nobody can be sure before.
    let version = cluster.client().put(&key, "value").unwrap();
    let told = loop {
        match next(&mut watch) {
            Ok(told) => break told,
            Err(error) => assert!(!watch.is_ended(), "{error}"),
        }
    };
    assert_eq!(told.version(), version);
    cluster.restart(2);
    let error = loop {
        match next(&mut watch) {
            Err(error) if watch.is_ended() => break error,
            Err(_) => {}
            Ok(told) => panic!("{told:?}"),
        }
    };
    assert!(matches!(&error, ClientError::WatchLost { node } if node.id.0 == 3), "{error}");
    assert_eq!(error.code(), ErrorCode::WatchUnknown);
    assert_eq!(next(&mut watch).unwrap_err().code(), ErrorCode::WatchUnknown, "for good");
}

#[test]
fn a_table_is_watched_until_it_is_dropped() {
    let cluster = Cluster::start(2);
    wait_until_spread(|| cluster.client(), 2);
    let client = cluster.client();
    let yarns = client.create_table("yarns", TableOptions::default()).unwrap();
    let mut watch = yarns.watch("wool", DEFAULT).unwrap();
    client.put("wool", "of another table").unwrap();
    let version = yarns.put("wool", "10 kg").unwrap();
    yarns.truncate().unwrap();
    client.drop_table("yarns").unwrap();
    assert_eq!(event(&mut watch), (b"wool".to_vec(), KeyChange::Written, version));
    for expected in [TableRemoval::Truncated, TableRemoval::Dropped] {
        let WatchEvent::Table { first_slot, last_slot, change, version: at } =
            watch.next().unwrap().unwrap()
        else {
            panic!("it is about the table")
        };
        assert_eq!(change, expected);
        assert!((first_slot..=last_slot).contains(&weft_client::Slot::of(b"wool")));
        assert!(at >= version, "what was written is gone");
    }
    assert_eq!(watch.next().unwrap().unwrap_err().code(), ErrorCode::TableUnknown);
    assert!(watch.next().is_none());
    assert_eq!(yarns.watch("wool", DEFAULT).unwrap_err().code(), ErrorCode::TableUnknown);
}

#[test]
fn a_prefix_that_one_node_does_not_watch_is_not_watched() {
    let cluster = Cluster::start(2);
    wait_until_spread(|| cluster.client(), 2);
    let client = cluster.client();
    // All that the network's memory has for it, at one of the nodes.
    let key = (0..).map(|number| format!("key-{number}")).find(|key| {
        client.client().map().owner_of(weft_client::Slot::of(key.as_bytes())).unwrap().id.0 == 2
    });
    let key = key.unwrap();
    let large = WatchOptions { queue_bytes: Some(45 << 16) };
    let kept = client.watch(&key, large).unwrap();
    let error = client.watch_prefix("", DEFAULT).unwrap_err();
    assert_eq!(error.code(), ErrorCode::TooManyWatches, "{error}");
    wait_for(&client, "watches.open", 1);
    drop(kept);
    wait_for(&client, "watches.open", 0);
    drop(client.watch_prefix("", DEFAULT).unwrap());
    let long = vec![b'k'; 65_536];
    for refused in [client.watch(&long, DEFAULT), client.watch_prefix(&long, DEFAULT)] {
        assert_eq!(refused.unwrap_err().code(), ErrorCode::KeyTooLong);
    }
}
