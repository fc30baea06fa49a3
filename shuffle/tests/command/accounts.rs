//! What `--report` has written of a job, beside what is known of it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weft_object::TextKey;
use weft_shuffle::worker_of;

use crate::death::{kill, workers_with};
use crate::job::{Ended, Job, WIKI_VOTE, run, wait_for};

/// A folder in which a job gives account.
pub(crate) struct Accounted {
    pub(crate) folder: tempfile::TempDir,
}

impl Accounted {
    pub(crate) fn new() -> Accounted {
        Accounted { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).into_os_string().into_string().unwrap()
    }

    /// A file with a text.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        run(arguments.iter().copied().chain(["--report", &self.path("account")]))
    }

    /// The account of a job that is done, and what it printed.
    pub(crate) fn done(&self, arguments: &[&str]) -> (Value, Value) {
        let ended = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.stderr, "");
        (self.account(), serde_json::from_str(&ended.stdout).unwrap())
    }

    /// What was written, where it is consistent.
    pub(crate) fn account(&self) -> Value {
        let text = std::fs::read_to_string(self.path("account.json")).unwrap();
        let account: Value = serde_json::from_str(&text).unwrap();
        check(&account);
        account
    }

    pub(crate) fn page(&self) -> String {
        std::fs::read_to_string(self.path("account.html")).unwrap()
    }

    fn assert_no_account(&self) {
        let names = std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap());
        let names: Vec<String> =
            names.map(|entry| entry.file_name().into_string().unwrap()).collect();
        assert!(!names.iter().any(|name| name.starts_with("account")), "{names:?}");
    }
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

/// The stages that a verb has made.
fn of_verb<'a>(account: &'a Value, verb: &str) -> Vec<&'a Value> {
    items(&account["stages"]).iter().filter(|stage| stage["verb"] == verb).collect()
}

/// What holds of every account.
fn check(account: &Value) {
    let known = ["done", "failed"].map(Value::from);
    assert!(known.contains(&account["outcome"]), "{account}");
    assert_eq!(account["error"].is_null(), account["outcome"] == "done");
    assert_eq!(account["result"].is_null(), account["outcome"] == "failed");
    assert_eq!((&account["report"], &account["version"]), (&json!(1), &json!("0.1.0")));
    let workers = items(&account["workers"]);
    let all = seconds(&account["seconds"]);
    for (id, worker) in workers.iter().enumerate() {
        assert_eq!(worker["id"], id);
        if worker["has_told"] == false {
            continue;
        }
        let timeline = items(&worker["timeline"]);
        let busy: f64 = timeline.iter().map(|span| seconds(&span["seconds"])).sum();
        let took = seconds(&worker["seconds"]);
        // Times are told to the microsecond.
        assert!(busy <= took + 1e-6 * timeline.len() as f64 && took <= all, "{busy} {took} {all}");
        assert!(timeline.iter().all(|span| seconds(&span["began"]) <= seconds(&span["ended"])));
        assert!(timeline.len() <= 1024, "{} spans", timeline.len());
        let spilled: u64 = items(&account["stages"])
            .iter()
            .map(|stage| numbers(&stage["bytes_spilled_by_worker"])[id])
            .sum();
        assert_eq!(worker["bytes_spilled"], spilled, "all of it is of some stage");
    }
    for stage in items(&account["stages"]) {
        for [sum, parts] in [
            ["records_in", "records_in_by_worker"],
            ["records_out", "records_out_by_worker"],
            ["bytes_shuffled", "bytes_sent_by_worker"],
            ["bytes_spilled", "bytes_spilled_by_worker"],
        ] {
            let parts = numbers(&stage[parts]);
            assert_eq!(parts.len(), workers.len());
            assert_eq!(stage[sum], parts.iter().sum::<u64>(), "{sum}");
        }
    }
    let between = items(&account["bytes_between_workers"]).iter().map(numbers);
    let sent: u64 = items(&account["stages"])
        .iter()
        .map(|stage| stage["bytes_shuffled"].as_u64().unwrap())
        .sum();
    let between = between.flatten().sum::<u64>();
    // What a stage has sent that did not come to its end is only counted, not to whom.
    let is_known = if account["outcome"] == "done" { between == sent } else { between <= sent };
    assert!(is_known, "{between} of {sent}");
}

const CHUNK_BYTES: usize = 1 << 20;

#[test]
fn records_and_bytes_are_those_of_the_words_that_are_counted() {
    const WORKERS: usize = 3;
    let mut text = String::new();
    for number in 0..400_000_u64 {
        writeln!(
            text,
            "the größe{} of {}",
            number * number % 9_973,
            number % 700 + number / 40_000
        )
        .unwrap();
    }
    assert!(text.len() > WORKERS * CHUNK_BYTES, "everybody has a part");
    let job = Accounted::new();
    let input = job.file("text", &text);
    let output = job.path("counts");
    let (account, result) =
        job.done(&["wordcount", "--input", &input, "--output", &output, "--workers", "3"]);

    // The words of a worker are those of the lines that begin in its chunks.
    let mut words: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); WORKERS];
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        words[begin / CHUNK_BYTES % WORKERS].extend(line.split_whitespace());
        begin += line.len();
    }
    let home = |word: &str| worker_of(&TextKey::from(word), WORKERS).0;
    let [reduce] = of_verb(&account, "reduce_by_key")[..] else { panic!("{account}") };
    let given: Vec<u64> = words.iter().map(|words| words.len() as u64).collect();
    assert_eq!(numbers(&reduce["records_in_by_worker"]), given);
    let homes: Vec<usize> = words.iter().flatten().map(|word| home(word)).collect();
    let held = [0, 1, 2].map(|worker| homes.iter().filter(|home| **home == worker).count() as u64);
    assert_eq!(numbers(&reduce["records_out_by_worker"]), held);
    let moved = (0..WORKERS).map(|at| words[at].iter().filter(|word| home(word) != at).count());
    assert_eq!(reduce["records_shuffled"], moved.sum::<usize>());
    let mean = held.iter().sum::<u64>() as f64 / WORKERS as f64;
    let skew = *held.iter().max().unwrap() as f64 / mean;
    assert!((reduce["skew"].as_f64().unwrap() - skew).abs() < 1e-9, "{reduce}");
    assert_eq!(reduce["inputs"], json!([{"read": input}]));

    // The links took that, and a head of each frame.
    let bytes = reduce["bytes_shuffled"].as_u64().unwrap() as f64;
    let links = result["bytes_shuffled"].as_u64().unwrap() as f64;
    assert!((0.97..=1.0).contains(&(bytes / links)), "{bytes} of {links}");
    assert_eq!(account["result"], result);
    assert_eq!((&account["job"], &account["outcome"]), (&json!("wordcount"), &json!("done")));
    assert_eq!(account["read"], json!([input]));
    assert_eq!(account["written"], json!([{"path": output, "inputs": [{"stage": 0}]}]));
    let arguments = items(&account["arguments"]);
    assert_eq!((&arguments[0], &arguments[1]), (&json!("wordcount"), &json!("--input")));
    let started = account["started"].as_str().unwrap();
    assert!(started.starts_with("20") && started.ends_with('Z'), "{started}");
    assert_eq!(items(&account["attempts"]).len(), 1);
    assert_eq!(account["attempts"][0]["end"], "done");
}

#[test]
fn words_of_one_worker_alone_are_as_skew_as_can_be() {
    let of_worker_1 = (0..).map(|number: u32| format!("word{number}"));
    let of_worker_1 = of_worker_1.filter(|word| worker_of(&TextKey::from(&**word), 4).0 == 1);
    let text: Vec<String> = of_worker_1.take(500).collect();
    let job = Accounted::new();
    let input = job.file("text", &text.join("\n"));
    let (account, _) = job.done(&["wordcount", "--input", &input, "--workers", "4"]);
    let [reduce] = of_verb(&account, "reduce_by_key")[..] else { panic!("{account}") };
    assert_eq!((&reduce["skew"], &reduce["records_out"]), (&json!(4.0), &json!(500)));
    assert_eq!(numbers(&reduce["records_out_by_worker"]), [0, 500, 0, 0]);
    let received = numbers(&reduce["bytes_received_by_worker"]);
    assert!(received[1] > 500 * 8 && received[0] < 200, "{received:?}");
}

#[test]
fn what_memory_has_no_room_for_is_said_of_its_stage() {
    let job = Accounted::new();
    let (input, output) = (job.path("records"), job.path("sorted"));
    let made = run(["generate", "terasort", "--records", "1500000", "--output", &input]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let (account, result) =
        job.done(&["sort", "--input", &input, "--output", &output, "--memory", "64MiB"]);
    let spilled = result["bytes_spilled"].as_u64().unwrap();
    assert!(spilled > 10 << 20, "{result}");
    let stages = items(&account["stages"]).iter();
    let of_stages: u64 = stages.map(|stage| stage["bytes_spilled"].as_u64().unwrap()).sum();
    assert_eq!(of_stages, spilled);
    let [sort] = of_verb(&account, "sort_by_key")[..] else { panic!("{account}") };
    assert_eq!(sort["records_out"], 1_500_000);
    assert!(sort["bytes_spilled"].as_u64().unwrap() > 0);
    let peaks = items(&account["workers"]).iter().map(|worker| &worker["peak_memory_bytes"]);
    let peak = peaks.map(|peak| peak.as_u64().unwrap()).max().unwrap();
    assert!(peak >= result["peak_memory_bytes"].as_u64().unwrap());
}

#[test]
fn rounds_are_one_stage_however_many_there_are() {
    const ROUNDS: u64 = 5_000;
    let job = Accounted::new();
    let (account, _) = job.done(&["pagerank", "--input", WIKI_VOTE, "--iterations", "5000"]);
    let [combine] = of_verb(&account, "combine_incoming")[..] else { panic!("{account}") };
    assert_eq!((&combine["times"], &combine["in_loop"]), (&json!(ROUNDS), &json!(0)));
    // A sum of what dangles comes before it, and after it the next one.
    let in_loop = items(&account["stages"]).iter().filter(|stage| !stage["in_loop"].is_null());
    let in_loop: Vec<&Value> = in_loop.collect();
    let [sum, _] = in_loop[..] else { panic!("{in_loop:?}") };
    assert_eq!((&sum["verb"], &sum["times"]), (&json!("gather"), &json!(ROUNDS)));
    assert_eq!(combine["inputs"], json!([{"stage": sum["number"]}]));
    assert!(items(&sum["inputs"]).contains(&json!({"stage": combine["number"]})), "{sum}");
    let values = combine["records_shuffled"].as_u64().unwrap();
    assert!(values > 0 && values.is_multiple_of(ROUNDS), "as many in each round: {values}");
    assert!(seconds(&combine["seconds_longest"]) <= seconds(&combine["seconds"]));
    for file in ["account.json", "account.html"] {
        let bytes = std::fs::metadata(job.path(file)).unwrap().len();
        assert!(bytes < 1 << 20, "{file} has {bytes} bytes");
    }
}

#[test]
fn every_job_gives_account_of_its_verbs_and_files() {
    let points: String = (0..300).map(|at| format!("{},{}\n", at % 17, at % 5)).collect();
    let pairs = "1 10\n2 20\n3 30\n2 21\n";
    let verbs = |account: &Value| -> BTreeSet<String> {
        let stages = items(&account["stages"]).iter();
        stages.map(|stage| stage["verb"].as_str().unwrap().to_owned()).collect()
    };
    for (command, more, expected) in [
        ("components", vec![], vec!["spread_graph", "combine_incoming", "reduce_by_key"]),
        ("kmeans", vec!["--clusters", "3"], vec!["broadcast", "gather"]),
        ("join", vec![], vec!["join"]),
        ("join", vec!["--small-right"], vec!["broadcast"]),
        ("pagerank", vec!["--shape", "keyed"], vec!["reduce_by_key", "partition_by"]),
        ("pagerank", vec!["--shape", "indexed"], vec!["reduce_by_index", "spread_graph"]),
    ] {
        let job = Accounted::new();
        let output = job.path("output");
        let (left, right) = (job.file("left", pairs), job.file("right", pairs));
        let points = job.file("points", &points);
        let inputs = match command {
            "join" => vec!["--left", &left, "--right", &right],
            "kmeans" => vec!["--input", &points],
            _ => vec!["--input", &left],
        };
        let arguments = [vec![command], inputs, more, vec!["--output", &output]].concat();
        let (account, result) = job.done(&arguments);
        let verbs = verbs(&account);
        assert!(expected.iter().all(|verb| verbs.contains(*verb)), "{command}: {verbs:?}");
        let read = items(&account["read"]).len();
        assert_eq!(read, if command == "join" { 2 } else { 1 }, "{account}");
        assert_eq!(account["written"][0]["path"], output);
        assert!(!items(&account["written"][0]["inputs"]).is_empty());
        assert_eq!(account["result"], result);
        // Everything comes from what was read.
        let stages = items(&account["stages"]);
        assert!(stages.iter().all(|stage| !items(&stage["inputs"]).is_empty()), "{account}");
    }
}

#[test]
fn an_attempt_that_lost_a_worker_is_told_with_why() {
    let job = Accounted::new();
    let arguments = ["pagerank", "--input", WIKI_VOTE, "--iterations", "4000", "--workers", "3"];
    let report = job.path("account");
    let running = Job::start(arguments.into_iter().chain([
        "--report",
        &report,
        "--output",
        &job.path("ranks"),
    ]));
    let workers = wait_for("the workers", || {
        let found = workers_with(job.folder.path());
        (found.len() == 3).then_some(found)
    });
    let victim = workers.iter().find(|worker| worker.index == 1).unwrap();
    kill(victim.id);
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let account = job.account();
    let [first, second] = items(&account["attempts"]) else { panic!("{account}") };
    assert_eq!((&first["attempt"], &first["end"]), (&json!(1), &json!("lost")));
    assert!(first["error"].as_str().unwrap().contains("worker 1"), "{first}");
    let failure = &first["failure"];
    assert_eq!((&failure["worker"], &failure["process"]), (&json!(1), &json!(victim.id)));
    assert_eq!((&failure["attempt"], &second["failure"]), (&json!(1), &Value::Null));
    assert!(items(&account["stages"]).iter().all(|stage| stage["end"] == "done"), "{account}");
    assert_eq!((&second["attempt"], &second["end"]), (&json!(2), &json!("done")));
    assert!(second["error"].is_null());
    let ended = seconds(&first["began"]) + seconds(&first["seconds"]);
    assert!(ended <= seconds(&second["began"]), "{account}");
    assert!(items(&account["workers"]).iter().all(|worker| worker["has_told"] == true));
    assert_eq!(account["result"]["attempts"], 2);
}

#[test]
fn a_job_that_fails_gives_account_of_that() {
    let job = Accounted::new();
    let input = job.file("graph", "1 2\n2 3\nthree\n");
    let ended = job.run(&["pagerank", "--input", &input]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    let account = job.account();
    assert_eq!(account["outcome"], "failed");
    let error = account["error"].as_str().unwrap();
    assert_eq!(ended.stderr, format!("shuffle: {error}\n"));
    assert!(error.contains("line 3"), "{error}");
    assert_eq!(account["attempts"][0]["end"], "failed");
    assert!(job.page().contains("line 3"));

    // Also one that had no attempt.
    let ended = job.run(&["pagerank", "--input", &job.path("absent")]);
    assert_eq!(ended.code, Some(1));
    let account = job.account();
    assert!(account["error"].as_str().unwrap().contains("absent"), "{account}");
    assert!(items(&account["attempts"]).is_empty());
    let left = std::fs::read_dir(job.folder.path()).unwrap().count();
    assert_eq!(left, 3, "two files and the input: nothing half-written");
}

#[test]
fn a_stage_that_fails_is_there_with_what_was_counted() {
    let job = Accounted::new();
    let mut pairs: String = (0..500_000).map(|key| format!("{key} {}\n", key % 7)).collect();
    let victim = pairs.len() / CHUNK_BYTES % 2;
    pairs += "no pair\n";
    let [left, right] = ["left", "right"].map(|name| job.path(name));
    std::fs::write(&left, &pairs).unwrap();
    std::fs::write(&right, "1 2\n").unwrap();
    let output = job.path("output");
    let arguments = ["join", "--left", &left, "--right", &right, "--output", &output];
    let ended = job.run(&arguments);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    let begin = format!(
        "shuffle: worker {victim}: in stage 0 (join), on partition {victim}: line 500001 of "
    );
    assert!(ended.stderr.starts_with(&begin), "{}", ended.stderr);
    let account = job.account();
    let failure = &account["attempts"][0]["failure"];
    assert_eq!((&failure["attempt"], &failure["worker"]), (&json!(1), &json!(victim)));
    assert_eq!((&failure["stage"], &failure["verb"]), (&json!(0), &json!("join")));
    assert_eq!((&failure["partition"], &failure["agent"]), (&json!(victim), &Value::Null));
    assert!(failure["process"].as_u64().is_some(), "{failure}");
    let stage = &account["stages"][0];
    assert_eq!((&stage["number"], &stage["verb"]), (&json!(0), &json!("join")));
    assert_eq!((&stage["end"], &stage["times"]), (&json!("failed"), &json!(0)));
    assert_eq!(stage["inputs"], json!([{"read": left}]));
    assert!(numbers(&stage["records_in_by_worker"])[victim] > 10_000, "{stage}");
    assert!(numbers(&stage["bytes_sent_by_worker"])[victim] > 64 << 10, "{stage}");
    assert!(seconds(&stage["seconds"]) > 0.0, "{stage}");
    let timeline = items(&account["workers"][victim]["timeline"]);
    assert_eq!(timeline.last().unwrap()["stage"], 0, "it is on the time line");
    let page = job.page();
    assert!(page.contains("<b class=\"failed\">failed</b>"), "{page}");
    assert!(page.contains(&format!("attempt 1, worker {victim} (process ")), "{page}");
}

#[test]
fn an_account_that_cannot_be_written_is_refused_before_the_work() {
    // There is no such input: who looked at it first would say so.
    let refused = |report: &str, words: &[&str]| {
        let ended =
            run(["sort", "--input", "no/such/input", "--output", "no/such", "--report", report]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        for word in words {
            assert!(ended.stderr.contains(word), "no {word:?} in {:?}", ended.stderr);
        }
    };
    let job = Accounted::new();
    let absent = job.path("absent/account");
    refused(&absent, &["cannot write", &format!("{absent}.json")]);
    job.assert_no_account();

    // The second of the two cannot be written: nothing is left of the first.
    std::fs::create_dir(job.path("taken.html")).unwrap();
    refused(&job.path("taken"), &["cannot write", "taken.html"]);
    let part = job.file("other.html.part", "somebody's");
    refused(&job.path("other"), &["cannot write", "other.html", "another job is writing there"]);
    assert_eq!(std::fs::read_to_string(part).unwrap(), "somebody's");
    let left = std::fs::read_dir(job.folder.path()).unwrap().count();
    assert_eq!(left, 2, "what was there");
}

#[test]
fn an_account_does_not_take_the_place_of_an_input() {
    let job = Accounted::new();
    let (graph, link) = (job.file("graph.json", "1 2\n2 1\n"), job.path("link.html"));
    std::os::unix::fs::symlink(&graph, link).unwrap();
    for report in ["graph", "link"] {
        let report = job.path(report);
        let ended = run(["pagerank", "--input", &graph, "--report", &report]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{}", ended.stderr);
        for words in ["--report", &report, "is the same file as an input"] {
            assert!(ended.stderr.contains(words), "no {words:?} in {}", ended.stderr);
        }
    }
    assert_eq!(std::fs::read_to_string(&graph).unwrap(), "1 2\n2 1\n");
}

#[test]
fn an_account_is_replaced_as_a_whole() {
    let job = Accounted::new();
    let before = job.file("account.json", "what was there");
    let arguments = ["pagerank", "--input", WIKI_VOTE, "--iterations", "1000000"];
    let (report, mark) = (job.path("account"), job.path("ranks"));
    let arguments = arguments.into_iter().chain(["--report", &report, "--output", &mark]);
    let running = Job::start(arguments);
    wait_for("the workers", || (workers_with(job.folder.path()).len() == 2).then_some(()));
    // While it runs, the old one is there.
    assert_eq!(std::fs::read_to_string(&before).unwrap(), "what was there");
    drop(running);
    assert_eq!(std::fs::read_to_string(&before).unwrap(), "what was there");
    let part = PathBuf::from(job.path("account.json.part"));
    assert!(part.exists(), "the command was killed");
    std::fs::remove_file(part).unwrap();
    std::fs::remove_file(job.path("account.html.part")).unwrap();
    let (account, _) = job.done(&["pagerank", "--input", WIKI_VOTE]);
    assert_eq!(account["job"], "pagerank");
    assert!(!Path::new(&job.path("account.html.part")).exists());
}
