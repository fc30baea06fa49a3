//! Words of a cluster's table are counted, and counts written into one.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_client::{BlockingClient, ClientConfig, ScanOptions, TableOptions};
use weft_server::config::{Config, Host, HttpAddress, Settings};
use weft_server::node::Node;

use crate::death::{kill, workers_with};
use crate::job::{Ended, Job, run, wait_for};

/// A cluster of one node, with a table of texts and one without anything.
struct Tables {
    node: Node,
    client: BlockingClient,
}

impl Tables {
    fn start() -> Tables {
        let settings = Settings {
            listen: Some("127.0.0.1:0".parse().unwrap()),
            http: Some(HttpAddress::Off),
            control: Some(HttpAddress::Off),
            memory: Some("256MiB".parse().unwrap()),
            reactors: Some(1.try_into().unwrap()),
            ..Settings::default()
        };
        let config = Config::resolve(settings, Host::of_this_process()).unwrap();
        let node = Node::start(&config).unwrap();
        let client = BlockingClient::connect(ClientConfig::new([node.address().to_string()]));
        let client = client.unwrap();
        let texts = client.create_table("texts", TableOptions::default()).unwrap();
        for number in 0..2000 {
            texts.put(format!("text {number}"), text(number)).unwrap();
        }
        client.create_table("counts", TableOptions::default()).unwrap();
        Tables { node, client }
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let address = self.node.address().to_string();
        ["wordcount", "--cluster", &address, "--json"]
            .iter()
            .chain(more)
            .map(|word| (*word).to_owned())
            .collect()
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let options = ScanOptions { with_values: true, ..ScanOptions::default() };
        let counts = self.client.table("counts").unwrap().scan(options).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        counts
            .map(|object| {
                let object = object.unwrap();
                (text(&object.key), text(&object.value.unwrap()).parse().unwrap())
            })
            .collect()
    }
}

fn text(number: u64) -> String {
    format!("größe word{}\n\tword{} {number}", number % 10, number % 7)
}

fn expected() -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for number in 0..2000 {
        for word in text(number).split_whitespace() {
            *counts.entry(word.to_owned()).or_insert(0) += 1;
        }
    }
    counts
}

fn report(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn words_go_from_table_to_table() {
    let tables = Tables::start();
    for workers in ["1", "3"] {
        let more = ["--input-table", "texts", "--output-table", "counts", "--workers", workers];
        let report = report(&run(tables.arguments(&more)));
        assert_eq!((&report["words"], &report["lines_skipped"]), (&json!(8000), &json!(0)));
        assert_eq!(report["top"][0], json!({"word": "größe", "count": 2000}));
        // The second time, the same objects are there already.
        assert!(tables.counts() == expected(), "{workers}");
    }
}

#[test]
fn tables_and_files_can_be_mixed() {
    let (tables, folder) = (Tables::start(), tempfile::tempdir().unwrap());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("text"), "a b a").unwrap();
    report(&run(tables.arguments(&["--input", &path("text"), "--output-table", "counts"])));
    assert_eq!(tables.counts(), [("a".to_owned(), 2), ("b".to_owned(), 1)].into());
    let output = path("counts");
    report(&run(tables.arguments(&["--input-table", "texts", "--output", &output])));
    let lines = std::fs::read_dir(&output)
        .unwrap()
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap().lines().count());
    assert_eq!(lines.sum::<usize>(), expected().len());
}

#[test]
fn a_killed_worker_costs_an_attempt_and_the_table_is_whole() {
    let (tables, folder) = (Tables::start(), tempfile::tempdir().unwrap());
    let spill = folder.path().to_str().unwrap();
    let more = ["--input-table", "texts", "--output-table", "counts", "--spill-dir", spill];
    let job = Job::start(tables.arguments(&more));
    let workers = wait_for("the workers", || {
        let workers = workers_with(folder.path());
        (workers.len() == 2).then_some(workers)
    });
    kill(workers[1].id);
    let report = report(&job.end());
    assert_eq!(report["attempts"], 2);
    assert!(tables.counts() == expected());
}

#[test]
fn a_value_that_is_no_text_is_named_or_skipped() {
    let tables = Tables::start();
    tables.client.table("texts").unwrap().put("odd\n", b"one \xff").unwrap();
    let ended = run(tables.arguments(&["--input-table", "texts"]));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    for says in ["the key \"odd\\n\" of the table texts", "UTF-8", "--skip-bad"] {
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
    }
    let report = report(&run(tables.arguments(&["--input-table", "texts", "--skip-bad", "1"])));
    assert_eq!((&report["words"], &report["lines_skipped"]), (&json!(8000), &json!(1)));
}

#[test]
fn what_is_no_table_is_said_before_the_work() {
    let tables = Tables::start();
    let refused = |more: &[&str], code, says: &str| {
        let ended = run(tables.arguments(more));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{more:?}: {}", ended.stderr);
    };
    refused(&["--input-table", "nothing"], 1, "cannot open the table nothing");
    let mixed = ["--input-table", "texts", "--output-table", "nothing"];
    refused(&mixed, 1, "cannot open the table nothing");
    refused(&["--input-table", "texts", "--output-table", "texts"], 2, "name another");
    refused(&["--input-table", "texts", "--input", "text"], 2, "--input");
    refused(&[], 2, "--input");
}
