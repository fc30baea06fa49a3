//! What `kv` does with keys and values.

use std::fs;

use serde_json::{Value, json};
use weft_client::{BlockingClient, ClientConfig, Existence, Lookup};

use crate::cluster::Cluster;

#[test]
fn values_are_put_got_and_deleted() {
    let cluster = Cluster::start(2);
    let version = cluster.kv(&["put", "greeting", "hello"]).ok();
    assert_eq!(cluster.kv(&["exists", "greeting"]).ok(), version);
    assert_eq!(cluster.kv(&["get", "greeting"]).ok(), "hello");
    assert_eq!(cluster.kv(&["-o", "table", "get", "greeting"]).ok(), "hello\n");
    let got: Value =
        serde_json::from_str(&cluster.kv(&["--json", "get", "greeting"]).ok()).unwrap();
    assert_eq!(got, json!({ "key": "greeting", "version": version.trim_end(), "value": "hello" }));
    assert_eq!(cluster.kv(&["del", "greeting"]).ok(), "deleted\n");
    assert_eq!(cluster.kv(&["del", "greeting"]).ok(), "absent\n");
    for command in ["get", "exists"] {
        let gone = cluster.kv(&[command, "greeting"]);
        assert_eq!((gone.code, gone.stdout.as_slice()), (1, &b""[..]));
        assert!(gone.stderr.contains("key not found"), "{}", gone.stderr);
        let told = cluster.kv(&["--json", command, "greeting"]);
        assert_eq!(told.code, 1);
        assert!(told.stderr.contains("key not found"), "{}", told.stderr);
        let told: Value = serde_json::from_slice(&told.stdout).unwrap();
        // That nothing was there to be deleted is remembered, which takes a version too.
        let removed = json!({ "key": "greeting", "version": "1.3", "error": "key not found" });
        assert_eq!(told, removed);
    }
    let many = cluster.kv(&["--json", "mget", "greeting"]);
    let many: Value = serde_json::from_slice(&many.stdout).unwrap();
    assert_eq!(many[0]["version"], "1.3");
}

#[test]
fn presence_and_absence_have_a_version() {
    let cluster = Cluster::start(1);
    let client = BlockingClient::connect(ClientConfig::new(cluster.addresses())).unwrap();
    let written = client.put("greeting", "hello").unwrap();
    let there = Existence { version: written, exists: true };
    assert_eq!(client.exists("greeting").unwrap(), there);
    let deleted = client.delete("greeting").unwrap().version;
    assert!(deleted > written);
    let gone = Existence { version: deleted, exists: false };
    assert_eq!(client.exists("greeting").unwrap(), gone);
    let lookup = client.get("greeting").unwrap();
    assert!(matches!(lookup, Lookup::Absent { version } if version == deleted));
    let lookups = client.multi_get(&["greeting"]).try_collect_in_order().unwrap();
    assert!(matches!(lookups[..], [Lookup::Absent { version }] if version == deleted));
}

#[test]
fn values_are_bytes_from_anywhere() {
    let cluster = Cluster::start(2);
    let every_byte: Vec<u8> = (0..=255).collect();
    let from_stdin = cluster.kv_with_stdin(&["put", "bytes", "-"], &every_byte);
    from_stdin.ok();
    assert_eq!(cluster.kv(&["get", "bytes"]).stdout, every_byte);

    let file = cluster.dir().join("value");
    let large: Vec<u8> = (0..900_000u32).map(|at| (at * 7 + at / 251) as u8).collect();
    fs::write(&file, &large).unwrap();
    let source = format!("@{}", file.display());
    cluster.kv(&["put", "large", &source]).ok();
    assert!(cluster.kv(&["get", "large"]).stdout == large, "900000 bytes came back changed");

    cluster.kv(&["put", "--literal", "address", "@home"]).ok();
    assert_eq!(cluster.kv(&["get", "address"]).ok(), "@home");
    cluster.kv(&["put", "temperature", "-5"]).ok();
    assert_eq!(cluster.kv(&["get", "temperature"]).ok(), "-5");
    cluster.kv(&["put", "nothing", ""]).ok();
    let nothing = cluster.kv(&["get", "nothing"]);
    assert_eq!((nothing.code, nothing.stdout.as_slice()), (0, &b""[..]));
    // On a terminal bytes are not let loose.
    assert_eq!(cluster.kv(&["-o", "table", "get", "bytes"]).ok().lines().count(), 1);
    let json: Value = serde_json::from_str(&cluster.kv(&["--json", "get", "bytes"]).ok()).unwrap();
    assert_eq!(json["value_base64"].as_str().map(str::len), Some(344));
}

#[test]
fn values_that_no_request_carries_are_put_and_got() {
    let cluster = Cluster::start(1);
    let file = cluster.dir().join("value");
    let long: Vec<u8> = (0_u32..700_000).flat_map(u32::to_le_bytes).collect();
    fs::write(&file, &long).unwrap();
    let source = format!("@{}", file.display());
    cluster.kv(&["put", "long", &source]).ok();
    assert!(cluster.kv(&["get", "long"]).stdout == long, "{} bytes came back changed", long.len());
    assert_eq!(cluster.kv(&["append", "long", &source]).ok().trim_end(), "5600000");
    let end = cluster.kv(&["get", "long", "--offset", "5599996"]);
    assert_eq!(end.stdout, long[long.len() - 4..]);
    cluster.kv(&["put", "text", &"t".repeat(5_000)]).ok();
    for format in ["jsonl", "csv"] {
        let dump = cluster.dir().join(format!("dump.{format}"));
        let dump = dump.to_str().unwrap();
        cluster.kv(&["export", dump]).ok();
        cluster.kv(&["mdel", "long", "text"]).ok();
        cluster.kv(&["import", dump]).ok();
        let back = cluster.kv(&["get", "long"]).stdout;
        assert!(back == [&long[..], &long].concat(), "{} bytes came back changed", back.len());
    }
}

#[test]
fn what_is_too_large_is_refused_once_and_in_few_words() {
    let cluster = Cluster::start(1);
    let file = cluster.dir().join("value");
    fs::write(&file, vec![b'v'; (64 << 20) + 1]).unwrap();
    let value = cluster.kv(&["put", "k", &format!("@{}", file.display())]);
    assert_eq!(value.code, 1);
    assert_eq!(
        value.stderr.matches("value of 67108865 bytes is larger than 67108864").count(),
        1,
        "{}",
        value.stderr
    );
    assert!(value.stderr.contains("split the value over several keys"), "{}", value.stderr);
    let key = cluster.kv(&["get", &"k".repeat(65_536)]);
    assert_eq!(key.code, 1);
    assert!(key.stderr.contains("\"… (65536 bytes)") && key.stderr.contains("shorter key"));
    assert!(key.stderr.len() < 500, "{}", key.stderr);
}

#[test]
fn an_object_expires() {
    let cluster = Cluster::start(1);
    cluster.kv(&["put", "--expires-in", "1h", "long", "weft"]).ok();
    assert_eq!(cluster.kv(&["get", "long"]).ok(), "weft");
    cluster.kv(&["put", "--expires-in", "0s", "short", "weft"]).ok();
    assert_eq!(cluster.kv(&["get", "short"]).code, 1);
}

#[test]
fn a_value_is_put_only_where_it_is_wanted() {
    let cluster = Cluster::start(1);
    let first = cluster.kv(&["put", "--if-absent", "lock", "mine"]).ok();
    let first = first.trim_end();
    let taken = cluster.kv(&["put", "--if-absent", "lock", "theirs"]);
    assert_eq!((taken.code, taken.stdout.as_slice()), (1, &b""[..]));
    assert!(taken.stderr.contains(&format!("it is at version {first}")), "{}", taken.stderr);
    let second = cluster.kv(&["put", "--if-version", first, "lock", "ours"]).ok();
    let late = cluster.kv(&["--json", "put", "--if-version", first, "lock", "theirs"]);
    assert_eq!(late.code, 1);
    let told: Value = serde_json::from_slice(&late.stdout).unwrap();
    assert_eq!(told["version"], second.trim_end());
    assert_eq!(told["error"], format!("it is at version {}", second.trim_end()));
    assert_eq!(cluster.kv(&["get", "lock"]).ok(), "ours");
    let nothing = cluster.kv(&["put", "--if-version", first, "nobody", "x"]);
    assert!(nothing.code == 1 && nothing.stderr.contains("it has no value"), "{}", nothing.stderr);
    // A lock that frees itself.
    cluster.kv(&["put", "--if-absent", "--expires-in", "0s", "short", "x"]).ok();
    cluster.kv(&["put", "--if-absent", "short", "x"]).ok();
    for wrong in [&["--if-version", "7"][..], &["--if-absent", "--if-version", "1.1"]] {
        let wrong = cluster.kv(&[&["put"], wrong, &["lock", "x"]].concat());
        assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    }
}

#[test]
fn values_are_changed_in_their_place() {
    let cluster = Cluster::start(2);
    assert_eq!(cluster.kv(&["incr", "n"]).ok(), "1\n");
    assert_eq!(cluster.kv(&["incr", "n", "41"]).ok(), "42\n");
    assert_eq!(cluster.kv(&["incr", "n", "-50"]).ok(), "-8\n");
    assert_eq!(cluster.kv(&["get", "n"]).ok(), "-8");
    let told: Value = serde_json::from_str(&cluster.kv(&["--json", "incr", "n"]).ok()).unwrap();
    assert_eq!((&told["key"], &told["number"]), (&json!("n"), &json!("-7")));

    assert_eq!(cluster.kv(&["append", "log", "warp"]).ok(), "4\n");
    assert_eq!(cluster.kv_with_stdin(&["append", "log", "-"], b",weft").ok(), "9\n");
    assert_eq!(cluster.kv(&["get", "log"]).ok(), "warp,weft");
    assert_eq!(cluster.kv(&["get", "--offset", "5", "log"]).ok(), "weft");
    assert_eq!(cluster.kv(&["get", "--offset", "1", "--length", "3", "log"]).ok(), "arp");
    assert_eq!(cluster.kv(&["get", "--offset", "99", "log"]).ok(), "");
    let no_number = cluster.kv(&["incr", "log"]);
    assert_eq!(no_number.code, 1);
    assert!(no_number.stderr.contains("WEFT-1105"), "{}", no_number.stderr);

    assert_eq!(cluster.kv(&["getput", "log", "new"]).ok(), "warp,weft");
    assert_eq!(cluster.kv(&["getput", "fresh", "value"]).ok(), "");
    let told: Value = serde_json::from_str(&cluster.kv(&["--json", "getdel", "log"]).ok()).unwrap();
    assert_eq!(told["previous"]["value"], "new");
    let gone = cluster.kv(&["getdel", "log"]);
    assert_eq!((gone.code, gone.stdout.as_slice()), (1, &b""[..]));
    assert!(gone.stderr.contains("key not found"), "{}", gone.stderr);
    assert_eq!(cluster.kv(&["get", "--length", "1", "log"]).code, 1);

    cluster.kv(&["expire", "fresh", "1h"]).ok();
    let version = cluster.kv(&["persist", "fresh"]).ok();
    assert_eq!(cluster.kv(&["exists", "fresh"]).ok(), version);
    cluster.kv(&["expire", "fresh", "0s"]).ok();
    for arguments in [&["expire", "fresh", "1h"][..], &["persist", "fresh"], &["get", "fresh"]] {
        let gone = cluster.kv(arguments);
        assert!(gone.code == 1 && gone.stderr.contains("key not found"), "{}", gone.stderr);
    }
}

#[test]
fn fields_are_read_and_patched() {
    let cluster = Cluster::start(2);
    let version = cluster.kv(&["patch", "cloth", "warp=wool", "weft=silk", "note=a=b"]).ok();
    assert_eq!(cluster.kv(&["exists", "cloth"]).ok(), version);
    assert_eq!(cluster.kv(&["fields", "cloth", "weft"]).ok(), "weft\tsilk\n");
    cluster.kv(&["patch", "cloth", "--remove", "warp", "weft=gold"]).ok();
    // As the values of other commands.
    cluster.kv_with_stdin(&["patch", "read", "a=-"], b"from stdin").ok();
    cluster.kv(&["patch", "read", "--literal", "b=-", "c=@x"]).ok();
    assert_eq!(cluster.kv(&["fields", "read", "a", "b", "c"]).ok(), "a\tfrom stdin\nb\t-\nc\t@x\n");
    assert_eq!(cluster.kv(&["fields", "cloth"]).ok(), "weft\tgold\nnote\ta=b\n");
    let some = cluster.kv(&["--json", "fields", "cloth", "weft", "warp"]);
    assert_eq!(some.code, 1);
    assert!(some.stderr.contains("has no field \"warp\""), "{}", some.stderr);
    let some: Value = serde_json::from_slice(&some.stdout).unwrap();
    assert_eq!(some["fields"][0], json!({ "name": "weft", "value": "gold" }));
    assert_eq!(some["fields"][1], json!({ "name": "warp", "error": "no such field" }));
    cluster.kv(&["put", "plain", "text"]).ok();
    for arguments in
        [&["fields", "plain"][..], &["fields", "plain", "a"], &["patch", "plain", "a=b"]]
    {
        let refused = cluster.kv(arguments);
        assert!(refused.code == 1 && refused.stderr.contains("record"), "{}", refused.stderr);
    }
    assert_eq!(cluster.kv(&["fields", "nobody"]).code, 1);
    for wrong in [&["patch", "cloth"][..], &["patch", "cloth", "warp"]] {
        assert_eq!(cluster.kv(wrong).code, 2);
    }
}

#[test]
fn all_keys_are_scanned_in_one_go_or_in_several() {
    let cluster = Cluster::start(2);
    assert_eq!(cluster.kv(&["scan"]).ok(), "");
    let pairs: Vec<_> = (0..300).flat_map(|n| [format!("key-{n}"), format!("value-{n}")]).collect();
    let pairs: Vec<_> = pairs.iter().map(String::as_str).collect();
    cluster.kv(&[&["mput"], &pairs[..]].concat()).ok();
    let large = cluster.dir().join("large");
    fs::write(&large, vec![b'x'; 300_000]).unwrap();
    cluster.kv(&["put", "large", &format!("@{}", large.display())]).ok();
    let sorted = |text: String| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(cluster.kv(&["scan"]).ok()).len(), 301);
    let some = sorted(cluster.kv(&["scan", "--values", "key-29"]).ok());
    assert_eq!(some.len(), 11);
    assert_eq!(some[0], "key-29\tvalue-29");
    assert_eq!(sorted(cluster.kv(&["scan", "--values", "large"]).ok())[0].len(), 300_006);
    let json = cluster.kv(&["--json", "scan", "large"]).ok();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["key"], &json["length"]), (&json!("large"), &json!(300_000)));

    // In several, however small: each once.
    for limit in [2, 100] {
        let (mut keys, mut cursor) = (Vec::new(), "0.0".to_owned());
        loop {
            let limited = ["scan", "--limit", &limit.to_string(), "--cursor", &cursor];
            let part = cluster.kv(&limited);
            assert_eq!(part.code, 0, "{}", part.stderr);
            keys.extend(sorted(String::from_utf8(part.stdout).unwrap()));
            let Some((_, next)) = part.stderr.trim_end().split_once("--cursor ") else { break };
            assert_ne!(next, cursor);
            next.clone_into(&mut cursor);
        }
        assert_eq!(keys.len(), 301, "by {limit}");
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 301, "by {limit}");
    }
    let wrong = cluster.kv(&["scan", "--cursor", "x"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("no cursor of a scan"), "{}", wrong.stderr);
}

#[test]
fn many_keys_at_once_lie_on_many_nodes() {
    let cluster = Cluster::start(3);
    cluster.kv(&["mput", "a", "1", "b", "2", "c", "3", "d", "4"]).ok();
    assert_eq!(cluster.kv(&["mget", "d", "a", "c", "b"]).ok(), "4\n1\n3\n2\n");
    let some = cluster.kv(&["mget", "a", "nobody", "b"]);
    assert_eq!((some.code, some.stdout.as_slice()), (1, &b"1\n2\n"[..]));
    assert!(some.stderr.contains("key not found: \"nobody\""), "{}", some.stderr);
    assert_eq!(cluster.kv(&["mdel", "a", "nobody"]).ok(), "deleted\nabsent\n");

    let stat: Value = serde_json::from_str(&cluster.kv(&["--json", "stat"]).ok()).unwrap();
    assert_eq!(stat["total"]["keys"], 3);
    assert_eq!(stat["total"]["partitions"], 64);
    let keys = stat["nodes"].as_array().unwrap().iter().map(|node| node["keys"].as_u64().unwrap());
    assert_eq!(keys.sum::<u64>(), 3);
    for purpose in ["log", "index"] {
        assert!(stat["total"]["memory"]["by_purpose"][purpose].as_u64().unwrap() > 0, "{stat}");
    }
    let table = cluster.kv(&["-o", "table", "stat"]).ok();
    assert!(table.contains("resident") && table.contains("B/key"), "{table}");
    assert_eq!(cluster.kv(&["ping"]).ok().lines().count(), 3);
}
