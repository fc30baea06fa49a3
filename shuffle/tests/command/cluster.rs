//! Jobs that are submitted to a cluster: agents have their workers, and whoever is lost of both costs an attempt.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use weft_client::{BlockingClient, ClientConfig, TableOptions};
use weft_server::config::{Config, Host, HttpAddress, Settings};
use weft_server::node::Node;

use crate::death::{Process, kill, send, workers_with};
use crate::job::{Ended, Job, WIKI_VOTE, run, wait_for};
use crate::ranks::{assert_equal, parse_line};

/// A cluster of one node, with agents, and a folder that only its processes have on their command lines.
struct Cluster {
    node: Node,
    agents: Vec<Agent>,
    folder: tempfile::TempDir,
}

struct Agent {
    child: Child,
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have been stopped, or have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Cluster {
    /// With an agent for each of these numbers of slots.
    fn start(slots: &[usize]) -> Cluster {
        let settings = Settings {
            listen: Some("127.0.0.1:0".parse().unwrap()),
            http: Some(HttpAddress::Off),
            control: Some(HttpAddress::Off),
            memory: Some("256MiB".parse().unwrap()),
            reactors: Some(1.try_into().unwrap()),
            ..Settings::default()
        };
        let config = Config::resolve(settings, Host::of_this_process()).unwrap();
        let (node, folder) = (Node::start(&config).unwrap(), tempfile::tempdir().unwrap());
        let mut cluster = Cluster { node, agents: Vec::new(), folder };
        // One after the other, so that the first is the eldest.
        slots.iter().for_each(|slots| cluster.add_agent(*slots));
        cluster
    }

    fn add_agent(&mut self, slots: usize) {
        self.add_agent_of(Path::new(env!("CARGO_BIN_EXE_shuffle")), slots);
    }

    fn add_agent_of(&mut self, program: &Path, slots: usize) {
        let child = Command::new(program)
            .args(["agent", "--slots", &slots.to_string(), "--cluster", &self.address()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let process = child.id();
        self.agents.push(Agent { child });
        wait_for("an agent", || {
            let agents = self.json(&["agents"]);
            let of_process = |agent: &Value| agent["process"] == process;
            agents.as_array().unwrap().iter().any(of_process).then_some(())
        });
    }

    fn address(&self) -> String {
        self.node.address().to_string()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a command about the cluster prints.
    fn json(&self, command: &[&str]) -> Value {
        let address = self.address();
        let Ended { code, stdout, stderr } =
            run(command.iter().copied().chain(["--json", "--cluster", &address]));
        assert_eq!(code, Some(0), "{stderr}");
        serde_json::from_str(&stdout).unwrap()
    }

    /// Submits a job, in this cluster's folder. Returns its number.
    fn submit(&self, of: &[&str], job: &[&str]) -> u64 {
        let address = self.address();
        let words = ["submit", "--cluster", &address];
        let words = words.iter().chain(of).chain(job);
        let Ended { code, stdout, stderr } = Job::start_in(self.folder.path(), words).end();
        assert_eq!(code, Some(0), "{stderr}");
        stdout.trim().parse().unwrap()
    }

    fn show(&self, id: u64) -> Value {
        self.json(&["job", "show", &id.to_string()])
    }

    fn state(&self, id: u64) -> String {
        self.show(id)["state"].as_str().unwrap().to_owned()
    }

    fn wait_for_state(&self, id: u64, state: &str) -> Value {
        wait_for(state, || {
            let job = self.show(id);
            let is_over = !job["ended_ms"].is_null();
            assert!(job["state"] == state || !is_over, "{state}: {job}");
            (job["state"] == state).then_some(job)
        })
    }

    /// The workers of jobs, once there are so many.
    fn workers(&self, count: usize) -> Vec<Process> {
        wait_for("the workers", || {
            let found = workers_with(self.folder.path());
            (found.len() == count).then_some(found)
        })
    }

    /// Nothing of a job is left but what it came to: no process, no state in the store, and these files.
    fn assert_left(&self, files: &[&str]) {
        wait_for("the end of all workers", || {
            workers_with(self.folder.path()).is_empty().then_some(())
        });
        let client = BlockingClient::connect(ClientConfig::new([self.address()])).unwrap();
        wait_for("the end of all states", || {
            (client.table("shuffle-checkpoints").unwrap().count().unwrap() == 0).then_some(())
        });
        let mut left: Vec<_> = std::fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, files);
    }

    /// Rounds that take a few seconds, of three workers, and what they come to.
    fn long_ranks(&self, output: &str) -> Vec<String> {
        let output = self.path(output).into_os_string().into_string().unwrap();
        let words = ["pagerank", "--input", WIKI_VOTE, "--iterations", "4000"];
        let more = ["--checkpoint-every", "100", "--workers", "3", "--top", "0", "--output"];
        words.iter().chain(&more).map(|word| (*word).to_owned()).chain([output]).collect()
    }

    fn assert_ranks(&self, output: &str) {
        let words = ["pagerank", "--input", WIKI_VOTE, "--iterations", "4000", "--workers", "3"];
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().join("ranks");
        let ended = run(words.into_iter().chain(["--output", here.to_str().unwrap()]));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let [expected, found] = [here, self.path(output)]
            .map(|path| std::fs::read_to_string(path).unwrap().lines().map(parse_line).collect());
        assert_equal(&found, &expected, 1e-12, "on a cluster and here");
    }

    /// Waits until a job has kept something.
    fn wait_for_rounds(&self, id: u64) {
        wait_for("some rounds", || {
            let job = self.show(id);
            assert!(job["ended_ms"].is_null(), "{job}");
            let progress = &job["progress"];
            (progress["phase"] == "round" && progress["done"].as_u64() > Some(300)).then_some(())
        });
    }
}

fn words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

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
    let address = cluster.address();
    let job = ["wordcount", "--input-table", "texts", "--output-table", "words", "--workers", "3"];
    let id = cluster.submit(&[], &[&job[..], &["--cluster", &address]].concat());
    let job = cluster.wait_for_state(id, "succeeded");
    assert_eq!((&job["result"]["words"], &job["result"]["distinct"]), (&2000.into(), &10.into()));
    assert_eq!(words.count().unwrap(), 10);
    for (word, count) in [("all", 500), ("0", 72), ("6", 71)] {
        let found = words.get(word).unwrap().into_object().unwrap();
        assert_eq!(std::str::from_utf8(&found).unwrap(), count.to_string(), "{word}");
    }
}

#[test]
fn a_worker_that_is_killed_costs_an_attempt_that_goes_on_from_the_store() {
    let cluster = Cluster::start(&[2, 2]);
    let job = cluster.long_ranks("ranks");
    let id = cluster.submit(&[], &[&words(&job)[..], &["--report", "report"]].concat());
    for victim in [1, 2] {
        cluster.wait_for_rounds(id);
        let workers = cluster.workers(3);
        let victim = workers.iter().find(|worker| worker.index == victim).unwrap();
        kill(victim.id);
        wait_for("another attempt", || {
            let lost = cluster.show(id)["attempts_lost"].as_array().unwrap().clone();
            let named = format!("worker {}", victim.index);
            lost.last().is_some_and(|lost| lost.as_str().unwrap().contains(&named)).then_some(())
        });
        wait_for("the next attempt", || {
            (cluster.show(id)["progress"]["phase"] == "round").then_some(())
        });
    }
    let job = cluster.wait_for_state(id, "succeeded");
    let job_result = job["result"].clone();
    assert_eq!(job["attempt"], 3);
    let first_round = job["result"]["first_round"].as_u64().unwrap();
    assert!(first_round >= 200 && first_round.is_multiple_of(100), "{job}");
    cluster.assert_ranks("ranks");
    cluster.assert_left(&["ranks", "report.html", "report.json"]);
    // The report has all attempts, whoever drove them.
    let report = std::fs::read(cluster.path("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let ends: Vec<_> =
        report["attempts"].as_array().unwrap().iter().map(|attempt| &attempt["end"]).collect();
    assert_eq!(ends, ["lost", "lost", "done"]);
    let began = |at: usize| report["attempts"][at]["began"].as_f64().unwrap();
    assert!(0.0 < began(0) && began(0) < began(1) && began(1) < began(2), "{report}");
    assert_eq!(
        (&report["arguments"][0], &report["workers"][2]["has_told"]),
        (&"pagerank".into(), &true.into())
    );
    assert_eq!(report["result"], job_result);
}

#[test]
fn a_job_has_no_more_attempts_than_it_may() {
    let cluster = Cluster::start(&[3]);
    let job = cluster.long_ranks("ranks");
    let id = cluster.submit(&[], &[&words(&job)[..], &["--max-attempts", "1"]].concat());
    kill(cluster.workers(3)[0].id);
    let job = cluster.wait_for_state(id, "failed");
    assert!(job["error"].as_str().unwrap().ends_with(": the job stops"), "{job}");
    cluster.assert_left(&[]);
}

#[test]
fn when_the_eldest_agent_is_killed_another_goes_on_with_its_jobs() {
    let mut cluster = Cluster::start(&[1, 3]);
    let id = cluster.submit(&[], &words(&cluster.long_ranks("ranks")));
    let waits = cluster.submit(&[], &["wordcount", "--input", WIKI_VOTE, "--workers", "2"]);
    cluster.wait_for_rounds(id);
    assert_eq!(cluster.state(waits), "queued");
    drop(cluster.agents.remove(0));
    let job = cluster.wait_for_state(id, "succeeded");
    assert_eq!(job["attempts_lost"].as_array().unwrap().len(), 1, "{job}");
    assert!(job["result"]["first_round"].as_u64().unwrap() >= 100, "{job}");
    cluster.wait_for_state(waits, "succeeded");
    cluster.assert_ranks("ranks");
    cluster.assert_left(&["ranks"]);
}

#[test]
fn an_agent_that_is_killed_costs_one_attempt_and_is_given_no_more() {
    let mut cluster = Cluster::start(&[2, 1, 1]);
    let id = cluster.submit(&[], &words(&cluster.long_ranks("ranks")));
    cluster.wait_for_rounds(id);
    // It had a worker, and its place is taken by the third one at once, before the table forgets it.
    drop(cluster.agents.remove(1));
    let job = cluster.wait_for_state(id, "succeeded");
    assert_eq!(job["attempts_lost"].as_array().unwrap().len(), 1, "{job}");
    assert!(job["result"]["first_round"].as_u64().unwrap() >= 100, "{job}");
    cluster.assert_ranks("ranks");
    cluster.assert_left(&["ranks"]);
}

#[test]
fn an_agent_that_stands_still_and_goes_on_later_harms_nothing() {
    let cluster = Cluster::start(&[1, 3]);
    let id = cluster.submit(&[], &words(&cluster.long_ranks("ranks")));
    cluster.wait_for_rounds(id);
    // The agent, the driver that it started, and its worker.
    let agent = cluster.agents[0].child.id();
    let mut stopped = vec![agent];
    while let Some(child) = children_of(&stopped).into_iter().find(|child| !stopped.contains(child))
    {
        stopped.push(child);
    }
    assert!(stopped.len() >= 2, "a driver at least");
    stopped.iter().for_each(|process| send(*process, Signal::STOP));
    let job = cluster.wait_for_state(id, "succeeded");
    assert_eq!(job["attempts_lost"].as_array().unwrap().len(), 1, "{job}");
    cluster.assert_ranks("ranks");
    let written = std::fs::read(cluster.path("ranks")).unwrap();
    stopped.iter().rev().for_each(|process| send(*process, Signal::CONT));
    wait_for("the agent's return", || {
        let agents = cluster.json(&["agents"]);
        (agents.as_array().unwrap().len() == 2).then_some(())
    });
    cluster.assert_left(&["ranks"]);
    assert!(std::fs::read(cluster.path("ranks")).unwrap() == written);
    assert_eq!(cluster.state(id), "succeeded");
    let next = cluster.submit(&[], &["wordcount", "--input", WIKI_VOTE, "--workers", "4"]);
    cluster.wait_for_state(next, "succeeded");
}

#[test]
fn slots_of_an_attempt_whose_driver_stands_still_are_free_for_other_jobs() {
    let mut cluster = Cluster::start(&[2, 2]);
    let job = cluster.long_ranks("ranks");
    let job = words(&job).into_iter().map(|word| if word == "3" { "2" } else { word });
    let id = cluster.submit(&[], &job.collect::<Vec<_>>());
    cluster.wait_for_rounds(id);
    cluster.add_agent(6);
    let agent = cluster.agents[0].child.id();
    let mut stopped = vec![agent];
    stopped.extend(children_of(&[agent]));
    stopped.iter().for_each(|process| send(*process, Signal::STOP));
    wait_for("another attempt", || {
        (!cluster.show(id)["attempts_lost"].as_array().unwrap().is_empty()).then_some(())
    });
    // All slots but those of the agent that stands still: one of these was the attempt's.
    let next = cluster.submit(&[], &["wordcount", "--input", WIKI_VOTE, "--workers", "8"]);
    cluster.wait_for_state(id, "succeeded");
    let next = cluster.wait_for_state(next, "succeeded");
    assert_eq!(next["attempts_lost"].as_array().unwrap().len(), 0, "{next}");
}

/// The driver that an agent has started.
fn driver_of(agent: &Agent) -> u32 {
    wait_for("a driver", || {
        children_of(&[agent.child.id()]).into_iter().find(|process| {
            let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == b"drive")
        })
    })
}

#[test]
fn a_driver_that_stands_still_or_is_killed_costs_an_attempt_and_the_last_one_is_tidied_up_behind() {
    let cluster = Cluster::start(&[3]);
    let job = cluster.long_ranks("ranks");
    let more = ["--report", "report", "--max-attempts", "2"];
    let id = cluster.submit(&[], &[&words(&job)[..], &more].concat());
    for (signal, lost) in [(Signal::STOP, 1), (Signal::KILL, 2)] {
        cluster.wait_for_rounds(id);
        send(driver_of(&cluster.agents[0]), signal);
        wait_for("the loss of an attempt", || {
            (cluster.show(id)["attempts_lost"].as_array().unwrap().len() == lost).then_some(())
        });
    }
    let job = cluster.wait_for_state(id, "failed");
    let text = "the process that drove the job ended, in attempt 2 of 2: the job stops";
    assert_eq!(job["error"], text);
    wait_for("the report", || cluster.path("report.json").exists().then_some(()));
    cluster.assert_left(&["report.html", "report.json"]);
    let report = std::fs::read(cluster.path("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    assert_eq!((&report["error"], &report["attempts"][1]["end"]), (&text.into(), &"lost".into()));
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

/// Processes that any of these have started.
fn children_of(parents: &[u32]) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let id: u32 = entry.unwrap().file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        parents.contains(&parent).then_some(id)
    });
    processes.collect()
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

#[test]
fn an_agent_that_is_told_to_end_leaves_and_takes_its_workers_along() {
    let mut cluster = Cluster::start(&[3]);
    let id = cluster.submit(&[], &words(&cluster.long_ranks("ranks")));
    cluster.workers(3);
    let agent = &mut cluster.agents[0];
    send(agent.child.id(), Signal::TERM);
    let status = wait_for("its end", || agent.child.try_wait().unwrap());
    assert!(status.success(), "{status}");
    assert!(workers_with(cluster.folder.path()).is_empty(), "none is left when it has ended");
    assert_eq!(cluster.json(&["agents"]), Value::Array(Vec::new()));
    cluster.add_agent(3);
    cluster.wait_for_state(id, "succeeded");
    cluster.assert_ranks("ranks");
}
