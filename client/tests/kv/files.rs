//! What `kv` writes to files, and reads from them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::cluster::Cluster;

fn lines(path: &Path) -> BTreeSet<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

/// A cluster with 300 plain objects, one that is no text, one that expires, and a large one.
fn filled() -> Cluster {
    let cluster = Cluster::start(2);
    let pairs: Vec<_> =
        (0..300).flat_map(|n| [format!("key-{n}"), format!("value,{n}\n")]).collect();
    let pairs: Vec<_> = pairs.iter().map(String::as_str).collect();
    cluster.kv(&[&["mput"], &pairs[..]].concat()).ok();
    cluster.kv_with_stdin(&["put", "bytes", "-"], &[0xff, 0, b'"', b'\n']).ok();
    cluster.kv(&["put", "--expires-in", "1h", "short", "life"]).ok();
    let large = cluster.dir().join("large");
    fs::write(&large, vec![b'x'; 900_000]).unwrap();
    cluster.kv(&["put", "large", &format!("@{}", large.display())]).ok();
    cluster
}

#[test]
fn what_was_exported_is_imported() {
    let cluster = filled();
    let dir = cluster.dir();
    let before = dir.join("before.jsonl");
    assert_eq!(cluster.kv(&["export", before.to_str().unwrap()]).ok(), "303\n");
    assert!(!dir.join("before.jsonl.progress").exists());
    assert_eq!(lines(&before).len(), 303);
    assert!(lines(&before).contains(r#"{"key":"bytes","value_base64":"/wAiCg=="}"#));

    for name in ["all.csv", "all.jsonl"] {
        let file = dir.join(name);
        cluster.kv(&["export", file.to_str().unwrap()]).ok();
        let empty = Cluster::start(1);
        assert_eq!(empty.kv(&["import", file.to_str().unwrap()]).ok(), "303\n");
        let after = dir.join(format!("after-{name}.jsonl"));
        empty.kv(&["export", after.to_str().unwrap()]).ok();
        // But for the expiry, which is told by two clocks.
        let plain = |path| -> BTreeSet<_> {
            lines(path).into_iter().filter(|line| !line.contains("expires_at_ms")).collect()
        };
        assert_eq!(plain(&after).len(), 302);
        assert!(plain(&after) == plain(&before), "{name}");
        let short: Value =
            serde_json::from_str(&empty.kv(&["--json", "scan", "short"]).ok()).unwrap();
        assert!(short["expires_at_ms"].as_u64().is_some());
    }
    // To stdout, and a part.
    let some = cluster.kv(&["export", "-", "key-29"]).ok();
    assert_eq!(some.lines().count(), 11);
    assert_eq!(cluster.kv_with_stdin(&["import", "-"], some.as_bytes()).ok(), "11\n");
}

#[test]
fn an_export_that_was_stopped_goes_on() {
    let cluster = filled();
    let (whole, part) = (cluster.dir().join("whole"), cluster.dir().join("part"));
    cluster.kv(&["export", whole.to_str().unwrap()]).ok();
    // What is there is not written over.
    let again = cluster.kv(&["export", whole.to_str().unwrap()]);
    assert!(again.code == 1 && again.stderr.contains("is there already"), "{}", again.stderr);
    let nothing = cluster.kv(&["export", "--resume", part.to_str().unwrap()]);
    assert!(nothing.code == 1 && nothing.stderr.contains("nothing"), "{}", nothing.stderr);

    // As one leaves it that ends between two notes of how far it has come.
    let scanned = cluster.kv(&["scan", "--limit", "100"]);
    let (_, cursor) = scanned.stderr.trim_end().split_once("--cursor ").unwrap();
    let keys = String::from_utf8(scanned.stdout).unwrap();
    let keys: BTreeSet<_> = keys.lines().collect();
    let done: Vec<_> = lines(&whole)
        .into_iter()
        .filter(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            keys.contains(line["key"].as_str().unwrap())
        })
        .map(|line| line + "\n")
        .collect();
    assert_eq!(done.len(), keys.len());
    let done = done.concat();
    fs::write(&part, format!("{done}{{\"key\":\"unfin")).unwrap();
    let progress = json!({ "objects": keys.len(), "bytes": done.len(), "cursor": cursor });
    fs::write(cluster.dir().join("part.progress"), progress.to_string()).unwrap();
    cluster.kv(&["export", "--resume", part.to_str().unwrap()]).ok();
    assert!(lines(&part) == lines(&whole));
    assert_eq!(fs::read_to_string(&part).unwrap().lines().count(), 303, "each once");
    // What was begun as something else is not gone on with.
    let task = "export of csv from table default with prefix \"\"";
    let progress = json!({ "task": task, "objects": 1, "bytes": 1 });
    fs::write(cluster.dir().join("part.progress"), progress.to_string()).unwrap();
    let other = cluster.kv(&["export", "--resume", part.to_str().unwrap()]);
    assert!(other.code == 1 && other.stderr.contains("of csv"), "{}", other.stderr);
}

#[test]
fn an_import_that_failed_goes_on() {
    let cluster = Cluster::start(1);
    let file = cluster.dir().join("objects");
    let line = |n: usize| format!("{{\"key\":\"{n}\",\"value\":\"v\"}}\n");
    let good: Vec<_> = (0..2_500).map(line).collect();
    let mut bad = good.clone();
    "{\"key\":\"no value\"}\n".clone_into(&mut bad[2_200]);
    fs::write(&file, bad.concat()).unwrap();
    let failed = cluster.kv(&["import", file.to_str().unwrap()]);
    assert_eq!(failed.code, 1);
    for said in ["object 2201 has no text value", "2200 objects are stored", "--resume"] {
        assert!(failed.stderr.contains(said), "{said:?} of {}", failed.stderr);
    }
    assert_eq!(cluster.kv(&["scan"]).ok().lines().count(), 2_200);
    // A node of the same number that has nothing of it.
    let other = Cluster::start(1);
    let anew = other.kv(&["import", "--resume", file.to_str().unwrap()]);
    assert_eq!((anew.code, other.kv(&["count"]).ok().trim()), (1, "0"));
    for said in ["has started anew", "without --resume"] {
        assert!(anew.stderr.contains(said), "{said:?} of {}", anew.stderr);
    }
    cluster.kv(&["del", "7"]).ok();
    fs::write(&file, good.concat()).unwrap();
    cluster.kv(&["import", "--resume", file.to_str().unwrap()]).ok();
    assert_eq!(cluster.kv(&["scan"]).ok().lines().count(), 2_499, "7 was not stored again");
    let nothing = cluster.kv(&["import", "--resume", file.to_str().unwrap()]);
    assert!(nothing.code == 1 && nothing.stderr.contains("nothing"), "{}", nothing.stderr);
    fs::write(&file, bad.concat()).unwrap();
    assert_eq!(cluster.kv(&["import", file.to_str().unwrap()]).code, 1);
    let anew = cluster.kv(&["import", file.to_str().unwrap()]);
    assert!(anew.stderr.contains("this import begins anew"), "{}", anew.stderr);
    fs::write(&file, good.concat()).unwrap();
    cluster.kv(&["import", "--resume", file.to_str().unwrap()]).ok();
    // In the order of the file, whatever expires; what has expired is not stored.
    let lines = [
        r#"{"key":"twice","value":"old","expires_at_ms":99999999999999}"#,
        r#"{"key":"twice","value":"new"}"#,
        r#"{"key":"gone","value":"x","expires_at_ms":1}"#,
        "",
    ];
    fs::write(&file, lines.join("\n")).unwrap();
    assert_eq!(cluster.kv(&["import", file.to_str().unwrap()]).ok(), "2\n");
    assert_eq!(cluster.kv(&["get", "twice"]).ok(), "new");
    assert_eq!(cluster.kv(&["get", "gone"]).code, 1);
    fs::write(&file, "no object\n").unwrap();
    let wrong = cluster.kv(&["import", file.to_str().unwrap()]);
    assert!(wrong.code == 1 && wrong.stderr.contains("object 1 is no JSON"), "{}", wrong.stderr);
    assert!(!wrong.stderr.contains("--resume"), "nothing is to be gone on with: {}", wrong.stderr);
    assert!(!cluster.dir().join("objects.progress").exists());
    let missing = cluster.kv(&["import", "/no/such/file"]);
    assert!(missing.code == 1 && missing.stderr.contains("/no/such/file"), "{}", missing.stderr);
}

#[test]
fn the_largest_values_are_found() {
    let cluster = filled();
    let largest = cluster.kv(&["bigkeys", "--top", "2"]).ok();
    let mut largest = largest.lines();
    assert_eq!(largest.next(), Some("large\t900000"));
    assert!(largest.next().is_some_and(|line| line.ends_with("\t10")), "value,NNN and a line end");
    assert_eq!(largest.next(), None);
    let json = cluster.kv(&["--json", "bigkeys", "large"]).ok();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json, json!([{ "key": "large", "length": 900_000 }]));
}
