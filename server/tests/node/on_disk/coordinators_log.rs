//! A coordinator's log that was damaged while its node was stopped.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::process::Signal;
use weft_protocol::{CreateTable, CreateTableReply, TableOptions, Tables, TablesReply};

use crate::files::{Files, check_unchanged, files};
use crate::support::{Client, Process, run};

/// The write-ahead log that has most in it.
fn write_ahead_log(files: &Files) -> PathBuf {
    let logs = files.iter().filter(|(path, _)| {
        path.extension().is_some_and(|ending| ending == "log")
            && path.parent().is_some_and(|folder| folder.ends_with("coordinator"))
    });
    logs.max_by_key(|(_, bytes)| bytes.len()).expect("there is one").0.clone()
}

#[test]
fn a_node_does_not_start_with_less_than_its_log_had() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("node");
    let directory_text = directory.to_str().unwrap();
    let node = Process::start(&["--memory", "64MiB", "--data-dir", directory_text], &[]);
    let client = Client::at(node.address);
    for number in 1..=20 {
        let name = format!("table-{number}");
        let options = TableOptions::default();
        let create = CreateTable { completion: None, name: &name, options };
        CreateTableReply::decode(&client.call(create)).unwrap();
    }
    drop(client);
    node.signal(Signal::KILL);

    let whole = files(&directory);
    let log = write_ahead_log(&whole);
    let bytes = &whole[&log];
    // In the middle, what is nearly at the end and looks like a record that the power cut short, and what is gone.
    let flipped = |at: usize| {
        let mut flipped = bytes.clone();
        flipped[at..at + 8].iter_mut().for_each(|byte| *byte ^= 0xff);
        flipped
    };
    let (middle, end) = (bytes.len() / 2, bytes.len() - 60);
    for damaged in [flipped(middle), flipped(end), bytes[..middle].to_vec(), Vec::new()] {
        fs::write(&log, damaged).unwrap();
        let before = files(&directory);
        let arguments = ["--memory", "64MiB", "--http", "off", "--listen", "127.0.0.1:0"];
        let (code, message) = run(&[&arguments[..], &["--data-dir", directory_text]].concat(), &[]);
        assert_eq!(code, Some(1), "{message}");
        let place = directory.join("coordinator").display().to_string();
        let advice = ["--join", "a new member", "the only coordinator", "no other copy"];
        for part in ["is damaged", &place, "nothing was changed"].iter().chain(&advice) {
            assert!(message.contains(part), "{part} is not in {message}");
        }
        check_unchanged(&before, &directory);
    }

    // With what it had, it goes on.
    fs::write(&log, bytes).unwrap();
    let node = Process::start(&["--memory", "64MiB", "--data-dir", directory_text], &[]);
    let reply = Client::at(node.address).call(Tables);
    assert_eq!(TablesReply::decode(&reply).unwrap().catalog.tables().len(), 20);
    node.end();
}

#[test]
fn a_node_that_keeps_nothing_yet_takes_little_of_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("node");
    let node =
        Process::start(&["--memory", "64MiB", "--data-dir", directory.to_str().unwrap()], &[]);
    let taken = |path: &PathBuf| fs::metadata(path).unwrap().blocks() * 512;
    let bytes: u64 = files(&directory).keys().map(taken).sum();
    assert!(bytes < 16 << 20, "{bytes} bytes");
    node.end();
}
