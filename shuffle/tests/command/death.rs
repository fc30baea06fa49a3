//! An attempt ends when one of its processes does, and leaves none behind.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::job::{Job, WIKI_VOTE, wait_for};

/// What is promised when a worker dies.
const PROMISED: Duration = Duration::from_secs(2);

/// A busy machine may be late now and then; it is not late every time.
const TRIES: usize = 3;

/// A job that would take minutes, and a path that only its processes have on their command lines.
struct LongJob {
    job: Job,
    workers: Vec<Process>,
    mark: tempfile::TempDir,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    /// Which worker it is.
    pub(crate) index: usize,
    pub(crate) id: u32,
}

impl LongJob {
    /// Starts a job, and waits for its processes.
    fn start(workers: usize) -> Self {
        Self::start_with(workers, &[])
    }

    fn start_with(workers: usize, more: &[&str]) -> Self {
        let mark = tempfile::tempdir().unwrap();
        let output = mark.path().join("ranks");
        let count = workers.to_string();
        let arguments = [
            "pagerank",
            "--input",
            WIKI_VOTE,
            "--iterations",
            "1000000",
            "--max-attempts",
            "1",
            "--workers",
        ];
        let job = Job::start(
            arguments
                .into_iter()
                .chain([&count, "--output", output.to_str().unwrap()])
                .chain(more.iter().copied()),
        );
        let workers = wait_for("the workers", || {
            let found = workers_with(mark.path());
            (found.len() == workers).then_some(found)
        });
        Self { job, workers, mark }
    }

    /// Waits until every worker has worked for longer than it takes to load the graph.
    fn wait_for_rounds(&self) {
        for worker in &self.workers {
            wait_for("a worker's rounds", || (ticks(worker.id) >= 50).then_some(()));
        }
    }

    /// Kills a worker, looks at how the job ends, and returns after what time.
    fn kill_worker(self, index: usize) -> Duration {
        let Self { job, workers, mark } = self;
        let victim = workers.iter().find(|worker| worker.index == index).unwrap();
        let killed_at = Instant::now();
        kill(victim.id);
        let ended = job.end();
        let after = killed_at.elapsed();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        // The one, unless the machine is so busy that what the others saw is told first.
        let killed = format!("worker {index} (process {}) was killed by signal 9", victim.id);
        let lost = format!("worker {index} is lost");
        let unreachable = format!("worker {index} cannot be reached");
        let is_named = [killed, lost, unreachable].iter().any(|words| ended.stderr.contains(words));
        assert!(is_named, "worker {index} is not named in {:?}", ended.stderr);
        assert!(workers_with(mark.path()).is_empty(), "no worker is left when the command ends");
        after
    }
}

/// The workers that have `mark` on their command lines.
pub(crate) fn workers_with(mark: &Path) -> Vec<Process> {
    let mark = mark.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let id = entry.unwrap().file_name().to_str()?.parse().ok()?;
        // One that has ended in the meantime, or was not waited for yet, has no command line.
        let line = std::fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?;
        let mut words = line.split('\0');
        words.clone().find(|word| word.contains(mark))?;
        let index = words.find_map(|word| word.strip_prefix("--index="))?.parse().ok()?;
        Some(Process { index, id })
    });
    processes.collect()
}

/// The time that a process has had of the processors, in hundredths of a second.
pub(crate) fn ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name, in parentheses, may hold anything; user and system time are fields 14 and 15.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

pub(crate) fn kill(process: u32) {
    send(process, Signal::KILL);
}

pub(crate) fn send(process: u32, signal: Signal) {
    let process = Pid::from_raw(process.try_into().unwrap()).unwrap();
    kill_process(process, signal).unwrap();
}

/// Tries `end` until it takes no longer than was promised.
fn assert_in_time(what: &str, end: impl Fn() -> Duration) {
    let mut took = Vec::new();
    while took.len() < TRIES {
        took.push(end());
        if took.last() <= Some(&PROMISED) {
            return;
        }
    }
    panic!("{what}: the job ended {took:?} later, every time");
}

#[test]
fn a_worker_that_dies_at_work_ends_the_job_and_is_named() {
    for (workers, victim) in [(1, 0), (2, 0), (2, 1), (3, 1)] {
        assert_in_time(&format!("worker {victim} of {workers} was killed"), || {
            let job = LongJob::start(workers);
            job.wait_for_rounds();
            job.kill_worker(victim)
        });
    }
}

#[test]
fn a_worker_that_dies_while_they_meet_ends_the_job_and_is_named() {
    for victim in [0, 1] {
        assert_in_time(&format!("worker {victim} was killed early"), || {
            LongJob::start(2).kill_worker(victim)
        });
    }
}

#[test]
fn a_worker_that_hangs_ends_the_job_and_is_named() {
    for workers in [2, 3] {
        let job = LongJob::start_with(workers, &["--hang-timeout", "2"]);
        job.wait_for_rounds();
        let LongJob { job, workers, mark } = job;
        let victim = workers.iter().find(|worker| worker.index == 1).unwrap();
        send(victim.id, Signal::STOP);
        let ended = job.end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        let named = "worker 1 hangs: it has answered nothing for 2 s";
        assert!(ended.stderr.contains(named), "{}", ended.stderr);
        assert!(
            workers_with(mark.path()).is_empty(),
            "no worker is left, the one that hung neither"
        );
    }
}

#[test]
fn a_worker_that_hangs_from_the_beginning_ends_the_job_and_is_named() {
    // Stopped as soon as it is there: before it has told its address, or while the workers meet.
    for (workers, victim) in [(2, 1), (3, 1), (3, 2), (2, 0)] {
        let LongJob { job, workers, mark } = LongJob::start_with(workers, &["--hang-timeout", "2"]);
        let victim = workers.iter().find(|worker| worker.index == victim).unwrap();
        send(victim.id, Signal::STOP);
        let ended = job.end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        let Process { index, id } = victim;
        let named = [
            format!("no address for 2 s from worker {index} (process {id}): the job stops"),
            format!("worker {index} cannot be reached: "),
            format!("worker {index} does not answer: "),
            format!("worker {index} hangs: "),
        ];
        assert!(named.iter().any(|words| ended.stderr.contains(words)), "{}", ended.stderr);
        assert!(workers_with(mark.path()).is_empty(), "no worker is left");
    }
}

#[test]
fn a_job_that_is_told_to_end_leaves_nothing_and_ends_by_the_signal() {
    for signal in [Signal::INT, Signal::TERM] {
        let kept = tempfile::tempdir().unwrap();
        let folder = kept.path().to_str().unwrap();
        let more = ["--max-attempts", "3", "--checkpoint-dir", folder];
        let arguments = ["pagerank", "--input", WIKI_VOTE, "--iterations", "1000000", "--output"];
        let mark = tempfile::tempdir().unwrap();
        let output = mark.path().join("ranks");
        let job = Job::start(arguments.iter().chain(&[output.to_str().unwrap()]).chain(&more));
        wait_for("the workers", || (workers_with(mark.path()).len() == 2).then_some(()));
        wait_for("the state of a round", || {
            let states = std::fs::read_dir(kept.path()).unwrap().next()?.unwrap();
            std::fs::read_dir(states.path()).unwrap().next().map(drop)
        });
        send(job.process(), signal);
        let ended = job.end();
        assert_eq!((ended.code, ended.stdout.as_str()), (None, ""), "{}", ended.stderr);
        let told = format!("shuffle: the job was ended by signal {}\n", signal.as_raw());
        assert_eq!(ended.stderr, told);
        assert!(workers_with(mark.path()).is_empty(), "no worker is left");
        for folder in [&mark, &kept] {
            let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }
}

#[test]
fn workers_end_when_the_command_that_started_them_is_killed() {
    for at_work in [false, true] {
        let LongJob { job, workers, mark } = {
            let job = LongJob::start(2);
            if at_work {
                job.wait_for_rounds();
            }
            job
        };
        kill(job.process());
        wait_for("the end of the workers", || workers_with(mark.path()).is_empty().then_some(()));
        assert_eq!(workers.len(), 2);
    }
}
