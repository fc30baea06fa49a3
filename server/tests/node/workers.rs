//! Workers that register, over sockets: with a node that is a cluster of its own.

use std::time::{Duration, Instant};

use weft_protocol::{
    Completion, CompletionId, ErrorCode, RegisterWorker, RegisterWorkerReply, RenewWorker,
    UnregisterWorker, UnregisterWorkerReply, WorkerDescription, WorkerEntry, Workers, WorkersReply,
};
use weft_server::limits::WORKER_LIFETIME;

use crate::support::{Client, settings, start};

const ME: WorkerDescription<'_> =
    WorkerDescription { address: "loom:9", slots: 4, build: "1f", process: 77 };

fn register(client: &Client, completion: Option<Completion>, former: u64) -> u64 {
    let reply = client.call(RegisterWorker { completion, former, worker: ME });
    let RegisterWorkerReply { worker, lifetime_ms } = RegisterWorkerReply::decode(&reply).unwrap();
    assert_eq!(Duration::from_millis(lifetime_ms.into()), WORKER_LIFETIME);
    worker
}

fn unregister(client: &Client, worker: u64) {
    let reply = client.call(UnregisterWorker { worker });
    assert_eq!(UnregisterWorkerReply::decode(&reply), Ok(UnregisterWorkerReply));
}

fn workers(client: &Client) -> Vec<WorkerEntry> {
    WorkersReply::decode(&client.call(Workers)).unwrap().workers
}

fn numbers(client: &Client) -> Vec<u64> {
    workers(client).into_iter().map(|entry| entry.worker).collect()
}

#[test]
fn workers_come_and_go_and_what_is_asked_twice_is_done_once() {
    let node = start(settings());
    let client = Client::to(&node);
    assert!(numbers(&client).is_empty());
    let completion =
        Some(Completion { id: CompletionId { client: 7, sequence: 1 }, first_incomplete: 1 });
    let first = register(&client, completion, 0);
    assert_eq!(register(&client, completion, 0), first);
    let second = register(&client, None, 0);
    assert!(second > first);
    let listed = workers(&client);
    assert_eq!((listed[0].worker, listed[0].description()), (first, ME));
    assert_eq!(numbers(&client), [first, second]);
    let renewed = RegisterWorkerReply::decode(&client.call(RenewWorker { worker: first })).unwrap();
    assert_eq!(renewed.worker, first);
    unregister(&client, first);
    assert_eq!(numbers(&client), [second]);
    unregister(&client, first);
    let refused = client.refused(RenewWorker { worker: first });
    assert_eq!(refused.code, ErrorCode::WorkerUnknown);
    assert!(register(&client, None, 0) > second, "a number is given out once");
    let never = RegisterWorker { completion: None, former: 1_000, worker: ME };
    assert_eq!(client.refused(never).code, ErrorCode::WorkerUnknown);
}

#[test]
fn a_worker_that_says_nothing_is_forgotten_in_time_and_may_come_back_as_the_same() {
    let node = start(settings());
    let client = Client::to(&node);
    let (silent, renewed) = (register(&client, None, 0), register(&client, None, 0));
    let began = Instant::now();
    while numbers(&client).contains(&silent) {
        client.call(RenewWorker { worker: renewed });
        assert!(began.elapsed() < 3 * WORKER_LIFETIME, "it is there still");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(began.elapsed() >= WORKER_LIFETIME - Duration::from_millis(500));
    assert_eq!(numbers(&client), [renewed]);
    assert_eq!(register(&client, None, silent), silent);
    assert_eq!(numbers(&client), [silent, renewed]);
}
