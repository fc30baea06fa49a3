//! A worker that is lost costs an attempt, and what comes out is the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use crate::death::{Process, kill, send, ticks, workers_with};
use crate::job::{Ended, Job, WIKI_VOTE, run, wait_for};
use crate::ranks::{Ranks, assert_equal, parse_line};
use crate::spilling::LargeGraph;

/// Kills of each job at random moments that have to cost an attempt.
const KILLS: usize = 6;

/// Moments that are tried for them: some come when a worker's part is done, or before there are any workers.
const TRIES: u64 = 10 * KILLS as u64;

/// A folder that only one test's processes have on their command lines, in which it runs a job again and again.
struct Repeated {
    folder: tempfile::TempDir,
    arguments: Vec<String>,
    workers: usize,
}

impl Repeated {
    fn of(command: &str, input: &Path, more: &[&str]) -> Self {
        Self::of_inputs(&[command, "--input", input.to_str().unwrap()], more)
    }

    fn of_inputs(command: &[&str], more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output").into_os_string().into_string().unwrap();
        let common = ["--output", &output, "--json"];
        let arguments = command.iter().chain(&common).chain(more);
        let arguments = arguments.map(|word| (*word).to_owned()).collect();
        Self { folder, arguments, workers: 3 }
    }

    fn with_workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("output")
    }

    fn start(&self, more: &[&str]) -> Job {
        let workers = self.workers.to_string();
        let arguments = self.arguments.iter().map(String::as_str);
        Job::start(arguments.chain(["--workers", &workers]).chain(more.iter().copied()))
    }

    /// Its workers, once all are there.
    fn workers(&self) -> Vec<Process> {
        wait_for("the workers", || {
            let found = workers_with(self.folder.path());
            (found.len() == self.workers).then_some(found)
        })
    }

    /// What it reports and what it writes, which is removed.
    fn end(&self, job: Job) -> (Value, String, String) {
        let Ended { code, stdout, stderr } = job.end();
        assert_eq!(code, Some(0), "{stderr}");
        let written = files(&self.output());
        match self.output().is_dir() {
            true => std::fs::remove_dir_all(self.output()).unwrap(),
            false => std::fs::remove_file(self.output()).unwrap(),
        }
        let left = std::fs::read_dir(self.folder.path()).unwrap().count();
        assert_eq!(left, 0, "nothing else is left");
        (serde_json::from_str(&stdout).unwrap(), written, stderr)
    }

    /// Kills a worker at random moments until it has cost an attempt as often as it has to; `is_right` looks at what was written without any and with one.
    fn kill_at_random_moments(&self, is_right: impl Fn(&str, &str)) {
        let began = Instant::now();
        let (report, expected, _) = self.end(self.start(&[]));
        let took = began.elapsed();
        assert_eq!(report["attempts"], 1);
        let mut cost = 0;
        let mut state = u64::from(std::process::id());
        for _ in 0..TRIES {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let moment = took * u32::try_from(state >> 54).unwrap() / 1024;
            let job = self.start(&[]);
            std::thread::sleep(moment);
            let workers = workers_with(self.folder.path());
            let victim = workers.get((state >> 33) as usize % 3);
            victim.into_iter().for_each(|victim| kill(victim.id));
            let (report, found, told) = self.end(job);
            is_right(&expected, &found);
            if report["attempts"] == 2 {
                let victim = victim.unwrap();
                assert!(told.contains(&format!("worker {}", victim.index)), "{moment:?}: {told}");
                assert!(told.ends_with("attempt 2 of 3 begins\n"), "{moment:?}: {told}");
                cost += 1;
            } else {
                assert_eq!((&report["attempts"], told.as_str()), (&Value::from(1), ""));
            }
            if cost == KILLS {
                return;
            }
        }
        panic!("of {TRIES} kills within {took:?}, {cost} cost an attempt");
    }
}

/// What is in a file, or in the files of a folder, by their names.
fn files(path: &Path) -> String {
    if !path.is_dir() {
        return std::fs::read_to_string(path).unwrap();
    }
    let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let files: BTreeMap<_, _> =
        files.map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect();
    files.into_values().map(|bytes| bytes.escape_ascii().to_string()).collect()
}

fn ranks(written: &str) -> Ranks {
    written.lines().map(parse_line).collect()
}

fn are_equal(expected: &str, found: &str) {
    assert_equal(&ranks(found), &ranks(expected), 1e-12, "with a kill and without");
}

#[test]
fn ranks_are_the_same_whenever_a_worker_is_killed() {
    for shape in ["static", "indexed", "keyed", "naos", "naos-sparse"] {
        let more = ["--shape", shape, "--iterations", "60", "--checkpoint-every", "7"];
        Repeated::of("pagerank", Path::new(WIKI_VOTE), &more).kill_at_random_moments(are_equal);
    }
}

#[test]
fn components_are_the_same_whenever_a_worker_is_killed() {
    let input = tempfile::NamedTempFile::new().unwrap();
    // A way of many steps, so that there are many rounds.
    let text: String = (0..400).map(|vertex| format!("{vertex} {}\n", vertex + 1)).collect();
    std::fs::write(input.path(), text).unwrap();
    let job = Repeated::of("components", input.path(), &["--checkpoint-every", "50"]);
    job.kill_at_random_moments(|expected, found| assert!(lines(expected) == lines(found)));
}

#[test]
fn centres_are_the_same_whenever_a_worker_is_killed() {
    let input = tempfile::NamedTempFile::new().unwrap();
    let text: String =
        (0..20_000_u64).map(|at| format!("{},{}\n", at * at % 9973, at * 7 % 9001)).collect();
    std::fs::write(input.path(), text).unwrap();
    let job = Repeated::of("kmeans", input.path(), &["--clusters", "8", "--iterations", "40"]);
    // To the last bit: sums are added up in the same order.
    job.kill_at_random_moments(|expected, found| assert_eq!(expected, found));
}

#[test]
fn what_is_joined_is_the_same_whenever_a_worker_is_killed() {
    let input = tempfile::NamedTempFile::new().unwrap();
    let text: String = (0..40_000).map(|at| format!("{} {at}\n", at % 20_000)).collect();
    std::fs::write(input.path(), text).unwrap();
    let job =
        Repeated::of_inputs(&["join", "--left", path_of(&input), "--right", path_of(&input)], &[]);
    job.kill_at_random_moments(|expected, found| assert!(lines(expected) == lines(found)));
}

fn path_of(file: &tempfile::NamedTempFile) -> &str {
    file.path().to_str().unwrap()
}

/// The lines of what several workers wrote, in order.
fn lines(written: &str) -> Vec<String> {
    let mut lines: Vec<String> = written.split(r"\n").map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn counts_are_the_same_whenever_a_worker_is_killed() {
    let input = tempfile::NamedTempFile::new().unwrap();
    let text: String =
        (0..400_000_u64).map(|number| format!("{} {}\n", number % 7_000, number % 300)).collect();
    std::fs::write(input.path(), text).unwrap();
    let job = Repeated::of("wordcount", input.path(), &[]);
    job.kill_at_random_moments(|expected, found| assert!(lines(expected) == lines(found)));
}

#[test]
fn records_are_in_the_same_order_whenever_a_worker_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("records");
    let made =
        run(["generate", "terasort", "--records", "100000", "--output", input.to_str().unwrap()]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let job = Repeated::of("sort", &input, &[]);
    job.kill_at_random_moments(|expected, found| assert!(expected == found));
}

/// A job of many rounds that keeps its state in `folder`, and has the state after `rounds` rounds there.
fn long_job(folder: &Path, rounds: usize, more: &[&str]) -> (Repeated, Job) {
    let folder_text = folder.to_str().unwrap();
    let job = Repeated::of(
        "pagerank",
        Path::new(WIKI_VOTE),
        &["--iterations", "2000", "--checkpoint-every", "20", "--checkpoint-dir", folder_text],
    );
    let running = job.start(more);
    wait_for("a checkpoint", || (whole_rounds(folder) >= rounds).then_some(()));
    (job, running)
}

/// The last round of which the state of all three workers was kept, in any attempt.
fn whole_rounds(folder: &Path) -> usize {
    whole_rounds_of(folder, 3)
}

/// The same of another number of workers.
fn whole_rounds_of(folder: &Path, workers: usize) -> usize {
    let mut files: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for folder in std::fs::read_dir(folder).unwrap() {
        // What is removed meanwhile was kept no more.
        for file in std::fs::read_dir(folder.unwrap().path()).into_iter().flatten().flatten() {
            let name = file.file_name().into_string().unwrap();
            let numbers: Vec<usize> =
                name.split('-').map_while(|number| number.parse().ok()).collect();
            if let [0, round, attempt, _] = numbers[..] {
                *files.entry((round, attempt)).or_default() += 1;
            }
        }
    }
    let whole = files.into_iter().filter(|(_, count)| *count == workers);
    whole.map(|((round, _), _)| round).max().unwrap_or(0)
}

#[test]
fn a_kill_costs_no_more_rounds_than_there_are_between_checkpoints() {
    let kept = tempfile::tempdir().unwrap();
    let (job, running) = long_job(kept.path(), 60, &[]);
    let at_least = whole_rounds(kept.path());
    kill(job.workers()[0].id);
    // Once more, when the second attempt has come further.
    wait_for("a checkpoint of the second attempt", || {
        (whole_rounds(kept.path()) >= at_least + 60).then_some(())
    });
    let later = whole_rounds(kept.path());
    kill(job.workers()[1].id);
    let (report, found, told) = job.end(running);
    assert_eq!(report["attempts"], 3, "{told}");
    let first_round = report["first_round"].as_u64().unwrap() as usize;
    assert!(first_round >= later && first_round.is_multiple_of(20), "{first_round}, {later}");
    assert_eq!(std::fs::read_dir(kept.path()).unwrap().count(), 0, "nothing is left");
    let more = ["--iterations", "2000", "--checkpoint-every", "0"];
    let job = Repeated::of("pagerank", Path::new(WIKI_VOTE), &more);
    let (report, expected, _) = job.end(job.start(&[]));
    assert_eq!((&report["attempts"], &report["first_round"]), (&Value::from(1), &Value::from(0)));
    are_equal(&expected, &found);
}

#[test]
fn ranks_are_the_same_with_a_kill_where_memory_has_no_room_for_edges() {
    let (graph, kept) = (LargeGraph::skewed(), tempfile::tempdir().unwrap());
    let folder = kept.path().to_str().unwrap();
    let more = ["--iterations", "100", "--checkpoint-every", "5", "--checkpoint-dir", folder];
    let job = Repeated::of("pagerank", &graph.path(), &more).with_workers(2);
    let (_, expected, _) = job.end(job.start(&[]));
    let running = job.start(&["--memory", "64MiB"]);
    wait_for("a checkpoint", || (whole_rounds_of(kept.path(), 2) >= 10).then_some(()));
    kill(job.workers()[1].id);
    let (report, found, told) = job.end(running);
    assert_eq!(report["attempts"], 2, "{told}");
    assert!(report["first_round"].as_u64() >= Some(10), "{report}");
    assert!(report["bytes_spilled"].as_u64() > Some(0), "{report}");
    assert_equal(&ranks(&found), &ranks(&expected), 1e-11, "with a kill and without");
}

#[test]
fn a_worker_that_hangs_costs_an_attempt() {
    let kept = tempfile::tempdir().unwrap();
    let (job, running) = long_job(kept.path(), 20, &["--hang-timeout", "2"]);
    send(job.workers()[2].id, Signal::STOP);
    let (report, _, told) = job.end(running);
    assert_eq!(report["attempts"], 2, "{told}");
    assert!(report["first_round"].as_u64() >= Some(20), "{report}");
    assert!(
        told.contains("worker 2 hangs: it has answered nothing for 2 s: attempt 2 of 3"),
        "{told}"
    );
}

#[test]
fn a_worker_that_hangs_while_others_send_to_it_costs_an_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("graph");
    let output = input.to_str().unwrap();
    let made =
        ["generate", "rmat", "--vertices", "65536", "--edges", "1500000", "--output", output];
    assert_eq!(run(made).code, Some(0));
    for workers in [2, 3] {
        let more = ["--hang-timeout", "1"];
        let job = Repeated::of("components", &input, &more).with_workers(workers);
        let running = job.start(&[]);
        let victim = wait_for("a worker", || {
            let workers = workers_with(job.folder.path());
            workers.into_iter().find(|worker| worker.index == 1)
        });
        // As soon as it reads, so that it takes nothing of what the others send.
        wait_for("that it works", || (ticks(victim.id) >= 2).then_some(()));
        send(victim.id, Signal::STOP);
        let (report, _, told) = job.end(running);
        assert_eq!(report["attempts"], 2, "{told}");
        assert!(told.contains("worker 1"), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

#[test]
fn workers_that_all_hang_cost_an_attempt() {
    for workers in [1, 2] {
        let more = ["--iterations", "20000", "--hang-timeout", "1"];
        let job = Repeated::of("pagerank", Path::new(WIKI_VOTE), &more).with_workers(workers);
        let running = job.start(&[]);
        let victims = job.workers();
        victims.iter().for_each(|victim| {
            wait_for("a worker's rounds", || (ticks(victim.id) >= 20).then_some(()));
        });
        victims.iter().for_each(|victim| send(victim.id, Signal::STOP));
        let (report, _, told) = job.end(running);
        assert_eq!(report["attempts"], 2, "{told}");
        assert!(
            told.contains("hangs: it has told nothing for 2 s: attempt 2 of 3 begins"),
            "{told}"
        );
    }
}

#[test]
fn where_what_was_kept_is_gone_the_next_attempt_begins_anew() {
    let kept = tempfile::tempdir().unwrap();
    let (job, running) = long_job(kept.path(), 20, &[]);
    let own = std::fs::read_dir(kept.path()).unwrap().next().unwrap().unwrap().path();
    let victim = job.workers()[0];
    send(victim.id, Signal::STOP);
    for file in std::fs::read_dir(&own).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    kill(victim.id);
    let (report, _, told) = job.end(running);
    assert_eq!(
        (&report["attempts"], &report["first_round"]),
        (&Value::from(2), &Value::from(0)),
        "{told}"
    );
}

#[test]
fn an_input_that_has_changed_ends_the_job() {
    let (kept, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let input = folder.path().join("graph");
    std::fs::write(&input, "1 2\n2 3\n3 1\n").unwrap();
    let more = ["--iterations", "1000000", "--checkpoint-dir", kept.path().to_str().unwrap()];
    let job = Repeated::of("pagerank", &input, &more);
    let running = job.start(&[]);
    wait_for("a checkpoint", || (whole_rounds(kept.path()) >= 10).then_some(()));
    std::fs::write(&input, "1 2\n2 3\n3 4\n4 1\n").unwrap();
    kill(job.workers()[1].id);
    let ended = running.end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap();
    assert_eq!(last, "shuffle: an input has changed since the first attempt began: the job stops");
    assert_eq!(std::fs::read_dir(job.folder.path()).unwrap().count(), 0, "nothing half-written");
}

#[test]
fn a_pipe_gets_the_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
        .unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).unwrap()
    });
    let ended = run(["pagerank", "--input", WIKI_VOTE, "--output", pipe.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(reader.join().unwrap().lines().count(), 7_115);
}

#[test]
fn attempts_are_bounded() {
    let kept = tempfile::tempdir().unwrap();
    let (job, running) = long_job(kept.path(), 20, &["--max-attempts", "2"]);
    let first = job.workers()[1];
    kill(first.id);
    let second = wait_for("the second attempt", || {
        workers_with(job.folder.path())
            .into_iter()
            .find(|worker| worker.index == 1 && worker.id != first.id)
    });
    std::fs::write(job.output(), "what was there").unwrap();
    kill(second.id);
    let ended = running.end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].ends_with(": attempt 2 of 2 begins"), "{lines:?}");
    assert!(
        lines[1].contains("worker 1") && lines[1].ends_with(", in attempt 2 of 2: the job stops"),
        "{lines:?}"
    );
    assert!(workers_with(job.folder.path()).is_empty(), "no worker is left");
    assert_eq!(std::fs::read_to_string(job.output()).unwrap(), "what was there");
    assert_eq!(std::fs::read_dir(job.folder.path()).unwrap().count(), 1, "nothing half-written");
    assert_eq!(std::fs::read_dir(kept.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn what_would_come_again_is_not_tried_again() {
    let kept = tempfile::tempdir().unwrap();
    let (job, running) = long_job(kept.path(), 20, &[]);
    let victim = job.workers()[1];
    send(victim.id, Signal::ABORT);
    let ended = running.end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    let expected = format!(
        "shuffle: worker 1 (process {}) ended by its own fault, signal 6: the job stops\n",
        victim.id
    );
    assert_eq!(ended.stderr, expected);
}

#[test]
fn a_folder_for_checkpoints_has_to_be_there() {
    let kept = tempfile::tempdir().unwrap();
    let absent = kept.path().join("absent");
    let job = Repeated::of(
        "pagerank",
        Path::new(WIKI_VOTE),
        &["--checkpoint-dir", absent.to_str().unwrap()],
    );
    let ended = job.start(&[]).end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    for words in [absent.to_str().unwrap(), "--checkpoint-dir", "No such file"] {
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
    // Who keeps none needs none.
    let (report, _, _) = job.end(job.start(&["--checkpoint-every", "0"]));
    assert_eq!(report["attempts"], 1);
}
