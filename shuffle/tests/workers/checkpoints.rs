//! Another attempt goes on with the state that was kept last.

#![expect(clippy::disallowed_methods, reason = "the tests look at files, and harm some")]

use std::num::NonZeroUsize;
use std::path::Path;

use weft_shuffle::{
    CheckpointConfig, CheckpointPlace, Dataset, JobError, Listening, Worker, WorkerConfig,
    WorkerId, records,
};

use crate::threads::{config, run_with};
use weft_client::{BlockingClient, ClientConfig};
use weft_server::config::{Config, Host, HttpAddress, Settings};
use weft_server::node::Node;
use weft_shuffle::{CHECKPOINT_TABLE, forget_checkpoints, make_checkpoint_table};

const ROUNDS: usize = 12;

/// An attempt that keeps every third round.
fn attempt(number: u32, folder: &Path) -> impl Fn(WorkerConfig) -> WorkerConfig + Sync {
    attempt_in(number, CheckpointPlace::Folder(folder.to_owned()))
}

fn attempt_in(number: u32, place: CheckpointPlace) -> impl Fn(WorkerConfig) -> WorkerConfig + Sync {
    let every = NonZeroUsize::new(3).unwrap();
    let checkpoints = Some(CheckpointConfig { place, every });
    move |config| WorkerConfig { attempt: number, checkpoints: checkpoints.clone(), ..config }
}

/// What a worker has in the end, and which rounds it made. Numbers go round the workers, and grow by one each time.
fn go_round(worker: &Worker, fails_at: usize) -> Result<(Vec<u64>, Vec<usize>), JobError> {
    let mut rounds = Vec::new();
    let begin = (0..1000).map(|number| number * worker.workers() as u64 + worker.id().0 as u64);
    let state = records(begin)
        .iterate(ROUNDS, |worker, round, numbers| {
            if round == fails_at {
                return Err(JobError::Job("told to fail".to_owned()));
            }
            rounds.push(round);
            let next = WorkerId((worker.id().0 + 1) % worker.workers());
            Ok(records(numbers).map(|number| number + 1).partition_by(move |_| next))
        })
        .to_vec(worker)?;
    Ok((state, rounds))
}

/// All numbers of all workers, in order, and the rounds that each worker made.
fn all(workers: usize, number: u32, folder: &Path, fails_at: usize) -> (Vec<u64>, Vec<Vec<usize>>) {
    all_in(workers, attempt(number, folder), fails_at)
}

fn all_in(
    workers: usize,
    attempt: impl Fn(WorkerConfig) -> WorkerConfig + Sync,
    fails_at: usize,
) -> (Vec<u64>, Vec<Vec<usize>>) {
    let parts = run_with(workers, attempt, |worker, _| {
        let part = go_round(worker, fails_at);
        // Nobody leaves before all have seen the end.
        worker.gather(0_u64).unwrap();
        part
    });
    let parts: Vec<_> = parts.into_iter().filter_map(Result::ok).collect();
    let mut numbers: Vec<u64> = parts.iter().flat_map(|(numbers, _)| numbers.clone()).collect();
    numbers.sort_unstable();
    (numbers, parts.into_iter().map(|(_, rounds)| rounds).collect())
}

fn expected(workers: usize) -> Vec<u64> {
    (0..1000 * workers as u64).map(|number| number + ROUNDS as u64).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_next_attempt_goes_on_with_the_last_round_that_was_kept() {
    for workers in [1, 2, 3] {
        let folder = tempfile::tempdir().unwrap();
        assert!(all(workers, 1, folder.path(), 8).1.is_empty(), "it fails");
        let of_workers =
            |round: usize| (0..workers).map(move |worker| format!("0-{round}-1-{worker}"));
        let kept: Vec<String> = of_workers(3).chain(of_workers(6)).collect();
        assert_eq!(names(folder.path()), kept);
        // It fails too, a round before it would keep something, and the third one goes on with the same.
        assert!(all(workers, 2, folder.path(), 8).1.is_empty());
        let (numbers, rounds) = all(workers, 3, folder.path(), ROUNDS);
        assert_eq!(rounds, vec![(6..ROUNDS).collect::<Vec<_>>(); workers]);
        assert_eq!(numbers, expected(workers));
        // Of what was kept, the last two rounds are there.
        let names = names(folder.path());
        assert_eq!(names.len(), 2 * workers, "{names:?}");
        assert!(names.contains(&"0-9-3-0".to_owned()), "{names:?}");
    }
}

#[test]
fn nothing_is_kept_unless_that_is_asked_for() {
    let parts = run_with(2, |config| config, |worker, _| go_round(worker, ROUNDS).unwrap().1);
    assert_eq!(parts, vec![(0..ROUNDS).collect::<Vec<_>>(); 2]);
}

#[test]
fn a_round_that_one_worker_has_not_kept_is_passed_over() {
    for (harm, begins_with) in [
        (&(|path: &Path| std::fs::remove_file(path).unwrap()) as &dyn Fn(&Path), 3),
        // What is there and cannot be used is told by nothing but reading it: all begin anew.
        (&|path| std::fs::write(path, b"").unwrap(), 0),
        (&|path| std::fs::write(path, [1; 8]).unwrap(), 0),
        (&|path| flip(path, 40), 0),
        (&|path| flip(path, 3000), 0),
        (&|path| cut(path), 0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        all(2, 1, folder.path(), 8);
        harm(&folder.path().join("0-6-1-1"));
        let (numbers, rounds) = all(2, 2, folder.path(), ROUNDS);
        assert_eq!(rounds, vec![(begins_with..ROUNDS).collect::<Vec<_>>(); 2]);
        assert_eq!(numbers, expected(2));
    }
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn cut(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
}

#[test]
fn files_of_two_attempts_make_no_round() {
    let folder = tempfile::tempdir().unwrap();
    all(2, 1, folder.path(), 8);
    std::fs::rename(folder.path().join("0-6-1-1"), folder.path().join("0-6-2-1")).unwrap();
    let (numbers, rounds) = all(2, 3, folder.path(), ROUNDS);
    assert_eq!(rounds, vec![(3..ROUNDS).collect::<Vec<_>>(); 2]);
    assert_eq!(numbers, expected(2));
}

#[test]
fn where_nothing_can_be_kept_the_job_fails_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent");
    let parts = run_with(2, attempt(1, &absent), |worker, _| go_round(worker, ROUNDS).unwrap_err());
    for error in parts {
        assert!(matches!(error, JobError::Checkpoint { .. } | JobError::Lost { .. }), "{error}");
        if let JobError::Checkpoint { folder, .. } = &error {
            assert_eq!(folder, &absent);
            assert!(error.to_string().contains("--checkpoint-dir"), "{error}");
        }
    }
}

/// A cluster of one node, with the table for states.
fn cluster() -> (Node, BlockingClient) {
    let settings = Settings {
        listen: Some("127.0.0.1:0".parse().unwrap()),
        http: Some(HttpAddress::Off),
        control: Some(HttpAddress::Off),
        memory: Some("256MiB".parse().unwrap()),
        reactors: Some(1.try_into().unwrap()),
        ..Settings::default()
    };
    let node = Node::start(&Config::resolve(settings, Host::of_this_process()).unwrap()).unwrap();
    let client = BlockingClient::connect(ClientConfig::new([node.address().to_string()])).unwrap();
    make_checkpoint_table(&client).unwrap();
    make_checkpoint_table(&client).unwrap();
    (node, client)
}

fn in_cluster(node: &Node, job: &str) -> CheckpointPlace {
    CheckpointPlace::Table { cluster: vec![node.address().to_string()], job: job.to_owned() }
}

#[test]
fn the_next_attempt_goes_on_with_what_a_cluster_has_kept() {
    let (node, client) = cluster();
    let table = client.table(CHECKPOINT_TABLE).unwrap();
    for workers in [1, 2, 3] {
        let job = format!("job-{workers}");
        let place = || in_cluster(&node, &job);
        assert!(all_in(workers, attempt_in(1, place()), 8).1.is_empty(), "it fails");
        // Two rounds of each worker, each a piece and what says that it is whole.
        assert_eq!(table.count().unwrap(), 2 * 2 * workers as u64);
        // Another job begins with nothing of it.
        let other = all_in(workers, attempt_in(2, in_cluster(&node, "job")), ROUNDS);
        assert_eq!(other.1, vec![(0..ROUNDS).collect::<Vec<_>>(); workers]);
        forget_checkpoints(&client, "job").unwrap();
        let (numbers, rounds) = all_in(workers, attempt_in(2, place()), ROUNDS);
        assert_eq!(rounds, vec![(6..ROUNDS).collect::<Vec<_>>(); workers]);
        assert_eq!(numbers, expected(workers));
        forget_checkpoints(&client, &job).unwrap();
        assert_eq!(table.count().unwrap(), 0);
    }
}

#[test]
fn a_state_of_many_pieces_comes_back_from_a_cluster_whole_or_not_at_all() {
    let (node, client) = cluster();
    let table = client.table(CHECKPOINT_TABLE).unwrap();
    // Pieces are 256 KiB: some 6 of 200,000 numbers of 8 bytes, of which the first is written at once with others.
    let count = 200_000_u64;
    let go = |number: u32, fails_at: usize| {
        run_with(1, attempt_in(number, in_cluster(&node, "large")), move |worker, _| {
            let mut first = None;
            let state = records(0..count).iterate(ROUNDS, |_, round, numbers| {
                first.get_or_insert(round);
                if round == fails_at {
                    return Err(JobError::Job("told to fail".to_owned()));
                }
                Ok(records(numbers).map(|number| number + 1))
            });
            state.to_vec(worker).map(|numbers| (numbers, first)).ok()
        })
    };
    let expected: Vec<u64> = (0..count).map(|number| number + ROUNDS as u64).collect();
    assert_eq!(go(1, 8), [None]);
    assert!(table.count().unwrap() > 10, "{}", table.count().unwrap());
    assert!(go(2, ROUNDS) == [Some((expected.clone(), Some(6)))]);
    // Of the last state, a piece is missing: it is not used, and as nobody can read it, all begin anew.
    table.delete("piece/large/0-9-2-0/3").unwrap();
    assert!(go(3, ROUNDS) == [Some((expected, Some(0)))]);
}

#[test]
fn a_cluster_that_has_no_table_for_states_or_is_not_there_is_an_error() {
    let (node, client) = cluster();
    let begin = |cluster: String| {
        let place = CheckpointPlace::Table { cluster: vec![cluster], job: "1".to_owned() };
        let listening = Listening::start(attempt_in(1, place)(config(0, 1))).unwrap();
        let address = listening.address();
        listening.join(&[address]).map(drop).unwrap_err().to_string()
    };
    let error = begin("127.0.0.1:1".to_owned());
    assert!(error.contains("no node of the cluster answered"), "{error}");
    client.drop_table(CHECKPOINT_TABLE).unwrap();
    let error = begin(node.address().to_string());
    assert!(error.contains("there is no table shuffle-checkpoints"), "{error}");
}

#[test]
fn workers_of_two_attempts_do_not_work_together() {
    let others = Listening::start(WorkerConfig { attempt: 2, ..config(1, 2) }).unwrap();
    let listening = Listening::start(config(0, 2)).unwrap();
    let addresses = [listening.address(), others.address()];
    let error = listening.join(&addresses).map(drop).unwrap_err();
    assert!(error.to_string().contains("it has other arguments"), "{error}");
}
