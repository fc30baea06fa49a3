//! Jobs that are submitted to a cluster.

use std::path::Path;

use serde_json::Value;
use weft_client::{BlockingClient, ClientConfig, TableOptions};

use crate::agents::{Cluster, words};
use crate::job::{Job, WIKI_VOTE, run};
use crate::ranks::{assert_equal, parse_line};

/// What is in a file, or in all files of a folder: its lines, or its records of this many bytes.
fn parts(path: &Path, record: Option<usize>) -> Vec<Vec<u8>> {
    let files: Vec<_> = match path.is_dir() {
        true => std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect(),
        false => vec![path.to_owned()],
    };
    let bytes: Vec<u8> = files.into_iter().flat_map(|file| std::fs::read(file).unwrap()).collect();
    let mut parts: Vec<_> = match record {
        Some(len) => bytes.chunks(len).map(<[u8]>::to_vec).collect(),
        None => bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect(),
    };
    parts.sort();
    parts
}

#[test]
fn every_job_comes_to_the_same_as_without_a_cluster() {
    let cluster = Cluster::start(&[2, 1]);
    let text: String =
        (0..5000).map(|line| format!("{} {}\n", line % 70, line * line % 301)).collect();
    std::fs::write(cluster.path("pairs"), &text).unwrap();
    std::fs::write(
        cluster.path("more pairs"),
        text.lines().take(100).map(|line| format!("{line}\n")).collect::<String>(),
    )
    .unwrap();
    let points: String = (0..900).map(|n| format!("{},{}\n", n % 30, n % 7)).collect();
    std::fs::write(cluster.path("points"), points).unwrap();
    let records: Vec<u8> =
        (0..300_000_u32).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(cluster.path("records"), records).unwrap();
    // Paths are those of where the job was submitted, with whatever is in them.
    let jobs: [&[&str]; 6] = [
        &["wordcount", "--input", "pairs"],
        &["components", "--input", "pairs"],
        &["kmeans", "--input", "points", "--clusters", "4", "--seed", "1"],
        &["sort", "--input", "records"],
        &["join", "--left", "more pairs", "--right", "pairs"],
        &["pagerank", "--input", "pairs", "--shape", "keyed"],
    ];
    for job in jobs {
        for (output, before) in [("here", &[][..]), ("there", &["submit", "--wait", "--cluster"])] {
            let address = cluster.address();
            let before =
                before.iter().copied().chain((!before.is_empty()).then_some(address.as_str()));
            let after = ["--output", output, "--workers", "3", "--json"];
            let ended = Job::start_in(
                cluster.folder.path(),
                before.chain(job.iter().copied()).chain(after),
            )
            .end();
            assert_eq!(ended.code, Some(0), "{job:?} {output}: {}", ended.stderr);
            let report: Value = serde_json::from_str(&ended.stdout).unwrap();
            assert_eq!(report["workers"], 3, "{job:?}: {report}");
        }
        let [here, there] = ["here", "there"].map(|name| cluster.path(name));
        if job[0] == "pagerank" {
            let ranks = |path: &Path| {
                std::fs::read_to_string(path).unwrap().lines().map(parse_line).collect()
            };
            assert_equal(&ranks(&there), &ranks(&here), 1e-12, "on a cluster and here");
        } else {
            let record = (job[0] == "sort").then_some(100);
            let [here, there] = [&here, &there].map(|path| parts(path, record));
            assert!(here.len() > 3 && here == there, "{job:?}");
        }
        for path in [here, there] {
            match path.is_dir() {
                true => std::fs::remove_dir_all(path).unwrap(),
                false => std::fs::remove_file(path).unwrap(),
            }
        }
    }
    cluster.assert_left(&["more pairs", "pairs", "points", "records"]);
    let jobs = cluster.json(&["job", "ls"]);
    assert_eq!(jobs.as_array().unwrap().len(), 6);
    assert!(jobs.as_array().unwrap().iter().all(|job| job["state"] == "succeeded"), "{jobs}");
    let shown = cluster.show(1);
    assert_eq!(
        (&shown["result"]["words"], &shown["attempt"]),
        (&10_000.into(), &1.into()),
        "{shown}"
    );
}

#[test]
fn a_submitted_job_reads_and_writes_tables_of_its_cluster() {
    let cluster = Cluster::start(&[3]);
    let client = BlockingClient::connect(ClientConfig::new([cluster.address()])).unwrap();
    let [texts, words] =
        ["texts", "words"].map(|name| client.create_table(name, TableOptions::default()).unwrap());
    for number in 0..500 {
        texts.put(format!("text {number}"), format!("all of {} words", number % 7)).unwrap();
    }
    // Its tables are where it is submitted, as nobody says otherwise.
    let job = ["wordcount", "--input-table", "texts", "--output-table", "words", "--workers", "3"];
    let id = cluster.submit(&[], &job);
    let job = cluster.wait_for_state(id, "succeeded");
    assert_eq!((&job["result"]["words"], &job["result"]["distinct"]), (&2000.into(), &10.into()));
    assert_eq!(words.count().unwrap(), 10);
    let address = cluster.address();
    let elsewhere = ["submit", "--wait", "--cluster", &address, "wordcount", "--cluster"];
    let elsewhere = elsewhere.into_iter().chain(["127.0.0.1:1", "--input-table", "texts"]);
    let ended = Job::start_with(elsewhere, [("WEFT_CLUSTER", address.as_str())]).end();
    assert!(ended.stderr.contains("cannot open the table texts"), "{}", ended.stderr);
    for (word, count) in [("all", 500), ("0", 72), ("6", 71)] {
        let found = words.get(word).unwrap().into_object().unwrap();
        assert_eq!(std::str::from_utf8(&found).unwrap(), count.to_string(), "{word}");
    }
}

#[test]
fn what_came_out_is_said_though_the_report_cannot_be_written() {
    let cluster = Cluster::start(&[1]);
    std::fs::create_dir(cluster.path("folder")).unwrap();
    let job = cluster.long_ranks("ranks");
    let job = words(&job).into_iter().map(|word| if word == "3" { "1" } else { word });
    let address = cluster.address();
    let submit = ["submit", "--wait", "--cluster", &address].into_iter();
    let waiting = Job::start_in(
        cluster.folder.path(),
        submit.chain(job).chain(["--json", "--report", "folder/report"]),
    );
    cluster.workers(1);
    std::fs::remove_dir_all(cluster.path("folder")).unwrap();
    let ended = waiting.end();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(result["vertices"], 7115);
    assert!(ended.stderr.contains("cannot write folder/report"), "{}", ended.stderr);
    let job = cluster.wait_for_state(1, "succeeded");
    assert!(job["unreported"].as_str().unwrap().contains("cannot write folder/report"), "{job}");
    cluster.assert_left(&["ranks"]);
}

#[test]
fn a_job_that_is_cancelled_leaves_nothing() {
    let cluster = Cluster::start(&[3]);
    let job = cluster.long_ranks("ranks");
    let [runs, waits] = [(); 2].map(|()| cluster.submit(&[], &words(&job)));
    cluster.wait_for_rounds(runs);
    let address = cluster.address();
    for id in [waits, runs] {
        let id = id.to_string();
        let ended = run(["job", "cancel", &id, "--cluster", &address]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let id = id.parse().unwrap();
        cluster.wait_for_state(id, "cancelled");
    }
    let again = run(["job", "cancel", &runs.to_string(), "--cluster", &address]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("is over: it is cancelled"), "{}", again.stderr);
    cluster.assert_left(&[]);
    let next = cluster.submit(&[], &["wordcount", "--input", WIKI_VOTE]);
    cluster.wait_for_state(next, "succeeded");
}

#[test]
fn pools_share_the_workers_and_several_jobs_run_at_once() {
    let cluster = Cluster::start(&[2]);
    let submit = |pool: &str, output: &str| {
        let output = cluster.path(output);
        let words = ["pagerank", "--input", WIKI_VOTE, "--iterations", "1000000", "--workers", "1"];
        let output = ["--output", output.to_str().unwrap()];
        cluster.submit(&["--pool", pool], &[&words[..], &output].concat())
    };
    let first = [submit("many", "1"), submit("many", "2")];
    first.iter().for_each(|id| drop(cluster.wait_for_state(*id, "running")));
    let (third, other) = (submit("many", "3"), submit("few", "4"));
    let cancel = |id: u64| drop(cluster.json(&["job", "cancel", &id.to_string()]));
    cancel(first[0]);
    cluster.wait_for_state(other, "running");
    assert_eq!(cluster.state(third), "queued", "the other pool had nothing");
    cancel(first[1]);
    cluster.wait_for_state(third, "running");
    [third, other].into_iter().for_each(cancel);
    [third, other].iter().for_each(|id| drop(cluster.wait_for_state(*id, "cancelled")));
    cluster.assert_left(&[]);
}

#[test]
fn an_agent_of_another_build_has_no_workers_of_the_eldest_ones_jobs() {
    let mut cluster = Cluster::start(&[1]);
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("shuffle");
    let mut bytes = std::fs::read(env!("CARGO_BIN_EXE_shuffle")).unwrap();
    // What comes behind its last section means nothing to the system.
    bytes.push(0);
    std::fs::write(&program, bytes).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    cluster.add_agent_of(&program, 8);
    let id = cluster.submit(&[], &["wordcount", "--input", WIKI_VOTE, "--workers", "2"]);
    let fits = cluster.submit(&[], &["wordcount", "--input", WIKI_VOTE, "--workers", "1"]);
    cluster.wait_for_state(fits, "succeeded");
    assert_eq!(cluster.state(id), "queued");
    // The other one is the eldest when this one is gone.
    cluster.agents.remove(0);
    cluster.wait_for_state(id, "succeeded");
}

#[test]
fn what_is_wrong_with_a_job_is_told_and_ends_it_at_once() {
    let cluster = Cluster::start(&[2]);
    let address = cluster.address();
    let bad = cluster.path("bad");
    std::fs::write(&bad, "1 2\n3 x\n").unwrap();
    for (job, told) in [
        (&["wordcount", "--input", "absent"][..], "cannot open absent"),
        (&["pagerank", "--input", "bad"], "line 2 of bad is no edge"),
        (&["pagerank", "--input", WIKI_VOTE, "--output", "no/where"], "cannot make no/where"),
    ] {
        let words =
            ["submit", "--wait", "--cluster", &address].into_iter().chain(job.iter().copied());
        let ended = Job::start_in(cluster.folder.path(), words).end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains(told), "{}", ended.stderr);
    }
    cluster.assert_left(&["bad"]);
    // Where it was: the driver of the first job, and a worker of the second one.
    let agent = cluster.json(&["agents"])[0].clone();
    let (number, at) = (&agent["agent"], agent["address"].as_str().unwrap());
    let [absent, malformed] = [1, 2].map(|id| cluster.show(id));
    for failure in [&absent["failure"], &malformed["failure"]] {
        assert_eq!((&failure["agent"], &failure["address"]), (number, &agent["address"]));
        assert_eq!(failure["attempt"], 1, "{failure}");
        assert!(failure["process"].as_u64().is_some(), "{failure}");
    }
    assert_eq!(absent["failure"]["worker"], Value::Null);
    let told = format!("attempt 1 of 3: agent {number} at {at}: cannot open absent");
    assert!(absent["error"].as_str().unwrap().starts_with(&told), "{absent}");
    let failure = &malformed["failure"];
    assert_eq!((&failure["worker"], &failure["partition"]), (&0.into(), &0.into()), "{failure}");
    assert_eq!((&failure["stage"], &failure["verb"]), (&0.into(), &"spread_graph".into()));
    let process = &failure["process"];
    let told = format!(
        "attempt 1 of 3: worker 0 (process {process} of agent {number} at {at}): in stage 0 (spread_graph), on partition 0: line 2 of bad is no edge"
    );
    assert!(malformed["error"].as_str().unwrap().starts_with(&told), "{malformed}");
    let text = run(["job", "show", "2", "--cluster", &address]).stdout;
    let told = format!(
        "failed in         attempt 1, agent {number} at {at}, worker 0 (process {process}), stage 0 (spread_graph), partition 0\n"
    );
    assert!(text.contains(&told), "{text}");
    let jobs = cluster.json(&["job", "ls"]);
    let lost = |job: &Value| job["attempts_lost"].as_array().unwrap().len();
    assert!(
        jobs.as_array().unwrap().iter().all(|job| job["state"] == "failed" && lost(job) == 0),
        "{jobs}"
    );
    for (command, code, told) in [
        (&["job", "show", "77"][..], 1, "there is no job 77"),
        (&["job", "cancel", "77"], 1, "there is no job 77"),
        (&["job", "cancel", "1"], 1, "job 1"),
        (&["job", "show", "x"], 2, "invalid value"),
        (&["submit", "generate"], 2, "unrecognized subcommand"),
        (&["submit", "wordcount"], 2, "--input"),
        (&["agent", "--listen", "0.0.0.0:0"], 2, "name the address"),
        (&["agent", "--listen", "192.0.2.1:0"], 2, "--insecure"),
        (&["agent", "--slots", "0"], 2, "not a number from 1 to 1024"),
    ] {
        let ended = Job::start_with(command, [("WEFT_CLUSTER", address.as_str())]).end();
        assert_eq!(ended.code, Some(code), "{command:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(told), "{command:?}: {}", ended.stderr);
    }
    // A variable that is set to nothing counts as unset.
    let unset = Job::start_with(["job", "ls"], [("WEFT_CLUSTER", "")]).end();
    assert!(unset.code == Some(0) || unset.stderr.contains("127.0.0.1:7400"), "{}", unset.stderr);
    let nowhere = run(["job", "ls", "--cluster", "127.0.0.1:1"]);
    assert_eq!(nowhere.code, Some(1));
    assert!(nowhere.stderr.contains("no node of the cluster answered"), "{}", nowhere.stderr);
}
