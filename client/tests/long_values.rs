//! Values that are longer than a request, as a program uses them, on a real node.

#![expect(clippy::disallowed_methods, reason = "it waits until objects have expired")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use weft_client::{
    Applied, BlockingClient, ClientConfig, ClientError, Compared, ErrorCode, LinkPolicy, Lookup,
    RangeLookup, ScanOptions, TableOptions, Version,
};
use weft_protocol::LimitError;
use weft_protocol::limits::{REQUEST_VALUE_MAX, UPLOAD_PIECE_BYTES, VALUE_MAX};
use weft_server::config::{Config, Host, HttpAddress, Settings};
use weft_server::node::Node;

const MIB: usize = 1 << 20;

fn node(memory: &str) -> Node {
    let settings = Settings {
        listen: Some("127.0.0.1:0".parse().unwrap()),
        http: Some(HttpAddress::Off),
        control: Some(HttpAddress::Off),
        memory: Some(memory.parse().unwrap()),
        reactors: Some(1.try_into().unwrap()),
        ..Settings::default()
    };
    Node::start(&Config::resolve(settings, Host::of_this_process()).unwrap()).unwrap()
}

fn client(node: &Node, change: impl FnOnce(&mut ClientConfig)) -> BlockingClient {
    let mut config = ClientConfig::new([node.address().to_string()]);
    config.timeout = Duration::from_secs(30);
    change(&mut config);
    BlockingClient::connect(config).unwrap()
}

/// Bytes of which no piece is like another.
fn value(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut value = Vec::with_capacity(len + 8);
    while value.len() < len {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        value.extend_from_slice(&state.to_le_bytes());
    }
    value.truncate(len);
    value
}

fn found(client: &BlockingClient, key: &str) -> (Vec<u8>, Version) {
    let object = client.get(key).unwrap().into_object().expect("it is there");
    (object.to_vec(), object.version())
}

#[test]
fn what_is_put_is_got_whatever_its_length() {
    let node = node("512MiB");
    for link in [LinkPolicy::Tcp, LinkPolicy::Shm] {
        let client = client(&node, |config| config.link = link);
        let lens = [
            REQUEST_VALUE_MAX,
            REQUEST_VALUE_MAX + 1,
            4 * UPLOAD_PIECE_BYTES,
            4 * UPLOAD_PIECE_BYTES + 1,
            10 * MIB + 3,
            VALUE_MAX,
        ];
        for len in lens {
            let value = value(len, len as u64);
            let version = client.put("long", &value).unwrap();
            let (got, got_version) = found(&client, "long");
            assert!(got == value && got_version == version, "{len} over {link}");
        }
        let error = client.put("long", vec![0; VALUE_MAX + 1]).unwrap_err();
        let limit = LimitError::ValueTooLarge { len: VALUE_MAX + 1 };
        assert!(matches!(&error, ClientError::Limit(found) if *found == limit), "{error}");
        assert_eq!(error.code(), ErrorCode::ValueTooLarge);
        assert_eq!(found(&client, "long").0.len(), VALUE_MAX);
    }
}

#[test]
fn every_write_takes_a_long_value() {
    let node = node("512MiB");
    let client = client(&node, |_| ());
    let (one, other) = (value(3 * MIB, 1), value(5 * MIB + 7, 2));

    let first = client.put_if_absent("key", &one, None).unwrap().written().unwrap();
    let late = client.put_if_absent("key", &other, None).unwrap();
    assert!(matches!(late, Compared::Conflict { version } if version == first));
    assert_eq!(found(&client, "key"), (one.clone(), first));
    let second = client.compare_and_set("key", first, &other, None).unwrap().written().unwrap();
    assert_eq!(found(&client, "key"), (other.clone(), second));
    let absent = client.compare_and_set("nobody", first, &other, None).unwrap();
    assert!(matches!(absent, Compared::Absent { .. }));

    let replaced = client.get_and_put("key", &one, None).unwrap();
    let previous = replaced.previous.unwrap();
    assert!(*previous == other && previous.version() == second);
    let removed = client.get_and_delete("key").unwrap().previous.unwrap();
    assert!(*removed == one && removed.version() == replaced.version);

    client.put_expiring("brief", &one, Duration::from_millis(400)).unwrap();
    std::thread::sleep(Duration::from_millis(450));
    assert!(client.get("brief").unwrap().into_object().is_none());
    client.delete("brief").unwrap();
    drop((previous, removed));
    assert_eq!(client.count().unwrap(), 0);
}

#[test]
fn a_value_grows_past_a_request_and_keeps_its_expiry() {
    let node = node("512MiB");
    let client = client(&node, |_| ());
    let expected = value(4 * MIB + 11, 3);
    // Short to short, short to long, long to long; the last with more than a request carries.
    let cuts = [0, 100, REQUEST_VALUE_MAX, REQUEST_VALUE_MAX + 300, 2 * MIB, expected.len()];
    let mut version = client.put_expiring("key", "", Duration::from_secs(600)).unwrap();
    for (from, to) in cuts.iter().zip(&cuts[1..]) {
        let appended = client.append("key", &expected[*from..*to], None).unwrap();
        assert_eq!(appended.value_len, *to as u64);
        assert!(appended.version > version);
        version = appended.version;
    }
    assert_eq!(found(&client, "key"), (expected.clone(), version));
    let mut scan = client.scan(ScanOptions::default()).unwrap();
    let expiry = scan.next().unwrap().unwrap().expires_at_ms;
    assert!(expiry.is_some(), "appending keeps the expiry");

    let same = client.append("key", "", None).unwrap();
    assert!(same.version > version && same.value_len == expected.len() as u64);
    let kept = client.persist("key").unwrap();
    assert!(kept.exists && kept.version > same.version);
    assert_eq!(client.persist("key").unwrap().version, kept.version, "it has none to take back");
    let brief = client.expire("key", Duration::from_millis(300)).unwrap();
    assert_eq!(found(&client, "key"), (expected, brief.version));
    std::thread::sleep(Duration::from_millis(350));
    assert!(!client.exists("key").unwrap().exists);
    assert!(!client.expire("key", Duration::from_secs(1)).unwrap().exists);

    let long = value(2 * MIB, 4);
    assert_eq!(client.append("new", &long, None).unwrap().value_len, 2 * MIB as u64);
    assert_eq!(found(&client, "new").0, long);
}

#[test]
fn long_values_go_among_many() {
    let node = node("512MiB");
    let client = client(&node, |_| ());
    let long = [value(9 * MIB, 5), value(2 * MIB, 6), value(12 * MIB, 7)];
    let objects = [
        ("a", &long[0][..]),
        ("b", b"short"),
        ("c", &long[1]),
        ("b", &long[2]),
        ("c", b"the last"),
        ("d", &vec![0; VALUE_MAX + 1]),
        ("e", b"behind"),
    ];
    let outcomes = client.multi_put(&objects).collect_in_order();
    let failed: Vec<_> = outcomes.iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, false, false, false, false, true, false]);
    assert!(outcomes[3].as_ref().unwrap() > outcomes[1].as_ref().unwrap());

    let keys = ["a", "b", "nobody", "c", "a", "d", "e"];
    let expected = [Some(&long[0][..]), Some(&long[2]), None, Some(b"the last"), Some(&long[0])];
    let got = client.multi_get(&keys).collect_in_order();
    let values = got.iter().map(|outcome| match outcome {
        Ok(Lookup::Found(object)) => Some(&**object),
        Ok(Lookup::Absent { .. }) => None,
        Err(error) => panic!("{error}"),
    });
    let expected = expected.into_iter().chain([None, Some(&b"behind"[..])]);
    assert!(values.eq(expected));

    let options = ScanOptions { with_values: true, ..ScanOptions::default() };
    let scanned: Vec<_> = client.scan(options).unwrap().map(Result::unwrap).collect();
    assert_eq!(scanned.len(), 4);
    for object in scanned {
        let (value, version) = found(&client, std::str::from_utf8(&object.key).unwrap());
        assert!(*object.value.unwrap() == value && object.version == version);
    }
    match client.get_range("a", 8 * MIB as u64 + 5, 2 * MIB as u32).unwrap() {
        RangeLookup::Found { bytes, value_len } => {
            assert!(*bytes == long[0][8 * MIB + 5..] && value_len == 9 * MIB as u64);
        }
        RangeLookup::Absent { .. } => panic!("it is there"),
    }
}

#[test]
fn what_is_refused_leaves_nothing_behind() {
    let node = node("128MiB");
    let client = client(&node, |_| ());
    let quota_bytes = Some(4 * MIB as u64);
    let table = client
        .create_table("small", TableOptions { quota_bytes, ..TableOptions::default() })
        .unwrap();
    let kept = value(3 * MIB, 8);
    table.put("kept", &kept).unwrap();
    let error = table.put("more", value(2 * MIB, 9)).unwrap_err();
    assert_eq!((error.code(), error.applied()), (ErrorCode::QuotaReached, Applied::No));
    // Larger than the node could ever hold, and larger than what is left.
    for len in [VALUE_MAX, VALUE_MAX / 2] {
        let mut put = 0;
        let error = loop {
            match client.put(format!("key-{put}"), value(len, 10)) {
                Ok(_) => put += 1,
                Err(error) => break error,
            }
        };
        assert!(put < 5);
        assert_eq!((error.code(), error.applied()), (ErrorCode::MemoryLimitReached, Applied::No));
        for key in 0..put {
            assert!(client.delete(format!("key-{key}")).unwrap().existed);
        }
    }
    let stats = client.stats().remove(0).stats.unwrap();
    assert_eq!(stats.value("store.upload_bytes"), Some(0));
    assert_eq!(found(&table, "kept").0, kept);
}

/// As long as there are objects that may go, there is room, and not for more than is needed.
#[test]
fn room_is_made_for_a_long_value() {
    let node = node("128MiB");
    let client = client(&node, |_| ());
    let options = TableOptions {
        eviction: weft_client::Eviction::LeastRecentlyUsed,
        ..TableOptions::default()
    };
    let cache = client.create_table("cache", options).unwrap();
    let short = value(2_000, 11);
    for number in 0..60_000 {
        cache.put(format!("key-{number}"), &short).unwrap();
    }
    let long = value(16 * MIB, 12);
    for round in 0..3 {
        cache.put(format!("long-{round}"), &long).unwrap();
        assert_eq!(found(&cache, &format!("long-{round}")).0, long);
    }
    assert!(cache.count().unwrap() > 15_000);
}

/// A client that has no memory for a value is told so, and can read it by ranges.
#[test]
fn a_client_with_little_memory_reads_by_ranges() {
    let node = node("512MiB");
    let little = client(&node, |config| config.memory_limit_bytes = 16 << 20);
    let long = value(20 * MIB, 13);
    little.put("long", &long).unwrap();
    let error = little.get("long").unwrap_err();
    assert_eq!(error.code(), ErrorCode::ReplyMemory, "{error}");
    let mut read = Vec::new();
    while read.len() < long.len() {
        match little.get_range("long", read.len() as u64, MIB as u32).unwrap() {
            RangeLookup::Found { bytes, .. } => read.extend_from_slice(&bytes),
            RangeLookup::Absent { .. } => panic!("it is there"),
        }
    }
    assert!(read == long);
}
