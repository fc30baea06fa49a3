//! What the settings amount to, and what is said of wrong ones.

use std::io::Write;

use tempfile::NamedTempFile;

use crate::support::{Process, run};

/// Exit code 2, and a message with each of `says`.
fn check_refused(arguments: &[&str], variables: &[(&str, &str)], says: &[&str]) {
    let (code, message) = run(arguments, variables);
    assert_eq!(code, Some(2), "{arguments:?}: {message}");
    for part in says {
        assert!(message.contains(part), "{arguments:?} does not say {part:?}: {message}");
    }
}

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn wrong_values_are_named_with_what_to_do() {
    let check = |arguments: &[&str], says: &[&str]| check_refused(arguments, &[], says);
    check(&["--memory", "lots"], &["--memory", "such as 512MiB"]);
    check(&["--memory", "1MiB"], &["at least 64"]);
    check(&["--memory", "101%"], &["--memory", "at most 100%"]);
    check(&["--node-id", "first"], &["--node-id", "give a whole number below", "such as 1"]);
    check(&["--partitions", "0"], &["--partitions", "from 1 to 4096"]);
    check(&["--partitions", "99999"], &["--partitions", "from 1 to 4096"]);
    check(&["--partitions", "4097"], &["4096 or less"]);
    check(&["--reactors", "0"], &["--reactors", "from 1 to 1024"]);
    check(&["--reactors", "1025"], &["--reactors 1024 or less"]);
    check(&["--reactors", "1000000"], &["--reactors 1024 or less"]);
    check(&["--poll", "fast"], &["busy, adaptive or park"]);
    check(&["--log-format", "xml"], &["`text` or `json`"]);
    check(&["--log", "loud"], &["info"]);
    check(&["--listen", "here"], &["HOST:PORT"]);
    check(&["--http", "127.0.0.1"], &["HOST:PORT"]);
    check(&["--listen", "no-such-host.invalid:7400"], &["no-such-host.invalid", "check the name"]);
    check(&["--insecure=maybe"], &["--insecure", "give true or false"]);
    check(&["--unknown"], &["--unknown", "--help"]);
}

#[test]
fn a_node_of_several_has_to_know_which_it_is_and_keep_what_it_agrees_to() {
    let check = |arguments: &[&str], says: &[&str]| check_refused(arguments, &[], says);
    check(&["--join", "127.0.0.1:1"], &["--node-id"]);
    check(&["--join", "127.0.0.1:1", "--node-id", "2"], &["--data-dir", "--roles storage"]);
    check(&["--join", "127.0.0.1", "--node-id", "1"], &["HOST:PORT"]);
    check(&["--join", "127.0.0.1:0", "--node-id", "1"], &["names no port"]);
    check(&["--join", "a:1,a:1", "--node-id", "1"], &["a:1 is there twice"]);
    check(&["--node-id", "65536"], &["65536", "below 65536"]);
    check(&["--roles", "storage"], &["--join"]);
    check(&["--roles", "proxy"], &["proxy", "storage,coordinator"]);
    check(&["--replicas", "4"], &["--replicas", "from 1 to 3"]);
    check(&["--durability", "tape"], &["memory, disk or fsync"]);
    check(&["--durability", "fsync"], &["kept on disk", "--data-dir"]);
    check(&["--advertise", "0.0.0.0:1"], &["names no host", "--advertise"]);
    let zone = "z".repeat(65);
    check(&["--zone", &zone], &["65 bytes", "at most 64"]);
    check(
        &[
            "--join",
            "127.0.0.1:1",
            "--node-id",
            "1",
            "--roles",
            "storage",
            "--listen",
            "0.0.0.0:7411",
            "--insecure",
        ],
        &["--advertise"],
    );
}

#[test]
fn data_and_http_want_ports_of_their_own() {
    let check = |arguments: &[&str]| {
        check_refused(arguments, &[], &["--listen", "--http", "`off`"]);
    };
    check(&["--listen", "127.0.0.1:7411", "--http", "127.0.0.1:7411"]);
    check(&["--listen", "127.0.0.1:7411", "--http", "localhost:7411"]);
    check(&["--listen", "0.0.0.0:7411", "--http", "127.0.0.1:7411", "--insecure"]);
    // The default of one may be what was given for the other.
    check(&["--listen", "127.0.0.1:7402"]);
    check(&["--http", "127.0.0.1:7400"]);
    let control = ["--control", "127.0.0.1:7411", "--listen", "127.0.0.1:7411"];
    check_refused(&control, &[], &["--listen", "--control"]);
    let control = ["--control", "127.0.0.1:7411", "--http", "127.0.0.1:7411"];
    check_refused(&control, &[], &["--http", "--control"]);
    Process::start(&["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"], &[]).end();
}

#[test]
fn addresses_that_others_can_reach_need_insecure() {
    for (flag, address) in [
        ("--listen", "0.0.0.0:0"),
        ("--listen", "[::]:0"),
        ("--http", "0.0.0.0:0"),
        ("--control", "0.0.0.0:0"),
    ] {
        check_refused(&[flag, address], &[], &[address, "--insecure"]);
    }
    // Asked for, it is had; and a variable that says no is heard.
    check_refused(&["--listen", "0.0.0.0:0"], &[("WEFT_INSECURE", "false")], &["--insecure"]);
    Process::start(&["--listen", "0.0.0.0:0", "--insecure"], &[]).end();
}

#[test]
fn a_flag_goes_before_a_variable_before_the_file() {
    let file =
        file("[server]\nreactors = 4\nmemory = \"80MiB\"\npoll = \"park\"\n[client]\nx = 1\n");
    let path = file.path().to_str().unwrap();
    let serving = |arguments: &[&str], variables: &[(&str, &str)]| {
        let node = Process::start(arguments, variables);
        let settings = (node.log_field("reactors"), node.log_field("memory"));
        node.end();
        settings
    };
    let memory = "80.0 MiB".to_owned();
    assert_eq!(serving(&["--config", path], &[]), ("4".into(), memory.clone()));
    let variables = [("WEFT_REACTORS", "3"), ("WEFT_CONFIG", path)];
    assert_eq!(serving(&[], &variables), ("3".into(), memory.clone()));
    assert_eq!(serving(&["--reactors", "1"], &variables), ("1".into(), memory));
}

#[test]
fn an_empty_variable_is_an_unset_one() {
    let file = file("[server]\nreactors = 4\n");
    let variables = [("WEFT_CONFIG", file.path().to_str().unwrap())];
    let empty = ["WEFT_REACTORS", "WEFT_JOIN", "WEFT_INSECURE", "WEFT_POLL", "WEFT_LOG"];
    let variables = [&variables[..], &empty.map(|name| (name, ""))].concat();
    let node = Process::start(&[], &variables);
    assert_eq!(node.log_field("reactors"), "4");
    node.end();
}

#[test]
fn a_mistake_in_the_file_is_found_where_it_is() {
    let check = |text: &str, says: &[&str]| {
        let file = file(text);
        let path = file.path().to_str().unwrap();
        check_refused(&["--config", path], &[], &[&[path][..], says].concat());
    };
    check("[server]\nmemory-max = \"1GiB\"\n", &["memory-max", "line 2"]);
    check("[server]\nmemory = \"much\"\n", &["such as 512MiB", "line 2"]);
    check("[server]\npartitions = -1\n", &["line 2"]);
    check("[server\n", &["line 1"]);
    check_refused(&["--config", "/no/such/file"], &[], &["/no/such/file", "--config"]);
}
