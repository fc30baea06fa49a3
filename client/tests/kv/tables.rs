//! `kv table`, and the commands that a table changes.

use serde_json::Value;

use crate::cluster::Cluster;

#[test]
fn tables_are_made_used_and_dropped() {
    let cluster = Cluster::start(2);
    let kv = |arguments: &[&str]| cluster.kv(arguments);
    assert_eq!(kv(&["table", "list"]).ok(), "default\n");
    kv(&["table", "create", "hashed"]).ok();
    kv(&["table", "create", "ordered", "--ordered", "--quota", "1MiB"]).ok();
    let again = kv(&["table", "create", "ordered"]);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("there is a table ordered already"), "{}", again.stderr);
    assert!(again.stderr.contains("WEFT-1213"), "{}", again.stderr);
    for number in [3, 1, 2, 10] {
        kv(&["--table", "ordered", "put", &format!("key-{number:02}"), &number.to_string()]).ok();
    }
    kv(&["put", "key-01", "of default"]).ok();
    assert_eq!(kv(&["get", "-t", "ordered", "key-01"]).ok(), "1");
    assert_eq!(kv(&["get", "key-01"]).ok(), "of default");
    assert_eq!(kv(&["get", "-t", "hashed", "key-01"]).code, 1);
    assert_eq!(kv(&["-t", "ordered", "count"]).ok(), "4\n");

    let range = |arguments: &[&str]| kv(&[&["-t", "ordered", "range"], arguments].concat()).ok();
    assert_eq!(range(&[]), "key-01\nkey-02\nkey-03\nkey-10\n");
    assert_eq!(range(&["--prefix", "key-0", "--reverse", "--limit", "2"]), "key-03\nkey-02\n");
    assert_eq!(
        range(&["--from", "key-02", "--to", "key-10", "--values"]),
        "key-02\t2\nkey-03\t3\n"
    );
    assert_eq!(range(&["--after", "key-02", "--limit", "1"]), "key-03\n");
    let unordered = kv(&["-t", "hashed", "range"]);
    assert!(unordered.code == 1 && unordered.stderr.contains("WEFT-1110"), "{}", unordered.stderr);
    assert_eq!(kv(&["range", "--from", "a", "--after", "b"]).code, 2);

    let listed: Value = serde_json::from_str(&kv(&["--json", "table", "list"]).ok()).unwrap();
    assert_eq!(listed[2]["name"], "ordered");
    assert_eq!(
        (&listed[2]["ordered"], &listed[2]["quota_bytes"]),
        (&true.into(), &(1 << 20).into())
    );
    assert_eq!((&listed[0]["objects"], &listed[2]["objects"]), (&1.into(), &4.into()));
    assert!(listed[1]["quota_bytes"].is_null());

    let truncated: Value =
        serde_json::from_str(&kv(&["--json", "table", "truncate", "ordered"]).ok()).unwrap();
    assert_eq!(truncated["removed"], 4);
    assert_eq!(kv(&["-t", "ordered", "count"]).ok(), "0\n");
    kv(&["table", "drop", "ordered"]).ok();
    for arguments in [&["table", "drop", "ordered"][..], &["-t", "ordered", "get", "key-01"]] {
        let gone = kv(arguments);
        assert_eq!(gone.code, 1);
        assert!(gone.stderr.contains("there is no table ordered"), "{}", gone.stderr);
        assert!(gone.stderr.contains("WEFT-1008"), "{}", gone.stderr);
    }
    for wrong in [&["table", "create", "a b"][..], &["table", "drop", "default"]] {
        assert_eq!(kv(wrong).code, 1);
    }
    for wrong in [&["table", "create", "x", "--quota", "0"][..], &["table", "create"], &["table"]] {
        assert_eq!(kv(wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn a_table_has_as_many_copies_and_is_kept_as_it_was_created() {
    let cluster = Cluster::start_with(2, &["--replicas", "1"]);
    let kv = |arguments: &[&str]| cluster.kv(arguments);
    kv(&["table", "create", "usual"]).ok();
    kv(&["table", "create", "safe", "--replicas", "2", "--durability", "fsync"]).ok();
    let listed: Value = serde_json::from_str(&kv(&["--json", "table", "list"]).ok()).unwrap();
    let of = |name| {
        let table = listed.as_array().unwrap().iter().find(|table| table["name"] == name).unwrap();
        (table["replicas"].as_u64().unwrap(), table["durability"].as_str().unwrap())
    };
    assert_eq!(
        [of("default"), of("usual"), of("safe")],
        [(1, "memory"), (1, "memory"), (2, "fsync")]
    );
    kv(&["-t", "safe", "put", "key", "value"]).ok();
    assert_eq!(kv(&["-t", "safe", "get", "key"]).ok(), "value");
    for (wrong, said) in [
        (&["--replicas", "4"][..], "from 1 to 3"),
        (&["--replicas", "0"], "from 1 to 3"),
        (&["--durability", "tape"], "fsync"),
    ] {
        let refused = kv(&[&["table", "create", "wrong"], wrong].concat());
        assert_eq!(refused.code, 2, "{wrong:?}");
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
}

#[test]
fn a_table_that_evicts_makes_room() {
    let cluster = Cluster::start(2);
    let kv = |arguments: &[&str]| cluster.kv(arguments);
    kv(&["table", "create", "cache", "--quota", "64KiB", "--eviction", "lru"]).ok();
    kv(&["table", "create", "soon", "--eviction", "ttl"]).ok();
    let wrong = kv(&["table", "create", "wrong", "--eviction", "random"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("lru"), "{}", wrong.stderr);
    let listed: Value = serde_json::from_str(&kv(&["--json", "table", "list"]).ok()).unwrap();
    let evictions = [0, 1, 2].map(|at: usize| listed[at]["eviction"].as_str().unwrap());
    assert_eq!(evictions, ["none", "lru", "ttl"]);
    let table = kv(&["-o", "table", "table", "list"]).ok();
    assert!(table.lines().next().unwrap().contains("eviction"), "{table}");

    let value = "v".repeat(1_000);
    for first in 0..20 {
        let keys: Vec<_> = (0..20).map(|number| format!("key-{first}-{number}")).collect();
        let pairs = keys.iter().flat_map(|key| [key.as_str(), &value]);
        kv(&[&["-t", "cache", "mput"], &pairs.collect::<Vec<_>>()[..]].concat()).ok();
        kv(&["-t", "cache", "put", "hot", "hot"]).ok();
    }
    let count: u64 = kv(&["-t", "cache", "count"]).ok().trim().parse().unwrap();
    assert!((40..64).contains(&count), "{count}");
    assert_eq!(kv(&["-t", "cache", "get", "hot"]).ok(), "hot");
}

#[test]
fn a_table_is_altered() {
    let cluster = Cluster::start(2);
    let kv = |arguments: &[&str]| cluster.kv(arguments);
    kv(&["table", "create", "people", "--ordered"]).ok();
    kv(&["table", "alter", "people", "--quota", "1MiB"]).ok();
    kv(&["table", "alter", "default", "--eviction", "lru", "--quota", "2MiB"]).ok();
    let options = || {
        let listed: Value = serde_json::from_str(&kv(&["--json", "table", "list"]).ok()).unwrap();
        let of = |at: usize| (listed[at]["quota_bytes"].clone(), listed[at]["eviction"].clone());
        assert_eq!(listed[1]["ordered"], true);
        (of(0), of(1))
    };
    let (lru, none) = (|| Value::from("lru"), || Value::from("none"));
    assert_eq!(options(), ((Value::from(2 << 20), lru()), (Value::from(1 << 20), none())));
    kv(&["table", "alter", "default", "--quota", "none"]).ok();
    kv(&["table", "alter", "people", "--eviction", "ttl", "--quota", "none"]).ok();
    assert_eq!(options(), ((Value::Null, lru()), (Value::Null, Value::from("ttl"))));

    let unknown = kv(&["table", "alter", "nobody", "--quota", "none"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("WEFT-1008"), "{}", unknown.stderr);
    for wrong in [&["people"][..], &["people", "--quota", "0"], &["--quota", "none"], &[]] {
        let wrong = kv(&[&["table", "alter"], wrong].concat());
        assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    }
}
