//! Workers as threads of one process; elsewhere they are processes, connected alike.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use weft_object::{Pair, Types};
use weft_shuffle::job::graph::Graph;
use weft_shuffle::job::pagerank::PageRank;
use weft_shuffle::{KeyAlone, LinkPolicy, Listening, Secret, Worker, WorkerConfig, WorkerId};

pub(crate) const SECRET: Secret = Secret::new(0x5ec7e7);

fn types() -> Types {
    let types =
        Types::new().with::<u64>().with::<f64>().with::<Pair<u64, u64>>().with::<Pair<u64, f64>>();
    let types = types.with::<KeyAlone<u64>>();
    PageRank::types(Graph::types(types))
}

/// A configuration with memory for anything that is tried here.
pub(crate) fn config(id: usize, workers: usize) -> WorkerConfig {
    WorkerConfig {
        id: WorkerId(id),
        workers,
        types: types(),
        arguments: "a test".into(),
        secret: SECRET,
        hang_timeout: Duration::from_secs(30),
        listen: Ipv4Addr::LOCALHOST.into(),
        attempt: 1,
        checkpoints: None,
        links: LinkPolicy::Tcp,
        memory_bytes: 1 << 30,
        spill_folder: "/tmp".into(),
    }
}

/// Runs `job` on as many workers, and returns what each returned.
pub(crate) fn run<T: Send>(workers: usize, job: impl Fn(&Worker) -> T + Sync) -> Vec<T> {
    run_with_addresses(workers, |worker, _| job(worker))
}

/// As [`run`]; `job` is told where the workers listen, too.
pub(crate) fn run_with_addresses<T: Send>(
    workers: usize,
    job: impl Fn(&Worker, &[SocketAddr]) -> T + Sync,
) -> Vec<T> {
    run_with(workers, |config| config, job)
}

/// As [`run_with_addresses`], of workers whose configurations are changed.
pub(crate) fn run_with<T: Send>(
    workers: usize,
    change: impl Fn(WorkerConfig) -> WorkerConfig + Sync,
    job: impl Fn(&Worker, &[SocketAddr]) -> T + Sync,
) -> Vec<T> {
    let (addresses, barrier) = (Mutex::new(BTreeMap::new()), Barrier::new(workers));
    std::thread::scope(|scope| {
        let (job, change, addresses, barrier) = (&job, &change, &addresses, &barrier);
        let threads: Vec<_> = (0..workers)
            .map(|id| {
                scope.spawn(move || {
                    let listening = Listening::start(change(config(id, workers))).unwrap();
                    addresses.lock().unwrap().insert(id, listening.address());
                    barrier.wait();
                    let all: Vec<SocketAddr> =
                        addresses.lock().unwrap().values().copied().collect();
                    job(&listening.join(&all).unwrap(), &all)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// This worker's share of the numbers below `end`.
pub(crate) fn share(worker: &Worker, end: u64) -> impl Iterator<Item = u64> + use<> {
    (worker.id().0 as u64..end).step_by(worker.workers())
}
