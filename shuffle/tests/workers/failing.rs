//! Workers that are lost or stop, and strangers.

use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};

use weft_shuffle::{Dataset, JobError, Listening, Secret, WorkerConfig, WorkerId, records};
use weft_transport::{
    CloseReason, ConnectError, Endpoint, EndpointConfig, Goodbye, Incarnation, Memory,
    MemoryConfig, NoHandler, NodeId, Time,
};

use crate::threads::{SECRET, config, run, run_with_addresses};

#[test]
fn a_lost_worker_is_named() {
    let (dead, deaths) = channel();
    let (dead, deaths) = (Mutex::new(dead), Mutex::new(deaths));
    let parts = run(3, |worker| {
        worker.gather(0_u64).unwrap();
        if worker.id() == WorkerId(1) {
            dead.lock().unwrap().send(()).unwrap();
            return None;
        }
        if worker.id() == WorkerId(0) {
            deaths.lock().unwrap().recv().unwrap();
        }
        Some(worker.gather(1_u64).unwrap_err())
    });
    let errors: Vec<JobError> = parts.into_iter().flatten().collect();
    // The second to notice may first see the other one leave.
    assert!(errors.iter().all(|error| matches!(error, JobError::Lost { .. })), "{errors:?}");
    let is_named = |error: &JobError| matches!(error, JobError::Lost { worker: WorkerId(1), .. });
    assert!(errors.iter().any(is_named), "{errors:?}");
}

#[test]
fn a_worker_that_stops_says_why() {
    let met = Barrier::new(3);
    let parts = run(3, |worker| {
        // Who is still joining when another stops fails to join.
        met.wait();
        if worker.id() == WorkerId(2) {
            worker.stop(&JobError::Job("line 7 is no edge".into()));
            return None;
        }
        Some(worker.gather(1_u64).unwrap_err().to_string())
    });
    let [Some(first), Some(second), None] = &parts[..] else { panic!("{parts:?}") };
    for text in [first, second] {
        assert!(text.contains("worker"), "{text}");
    }
    assert!([first, second].iter().any(|text| text.contains("line 7 is no edge")), "{parts:?}");
}

#[test]
fn a_record_for_a_worker_that_there_is_not_is_an_error() {
    for workers in [1, 2] {
        let (met, done) = (Barrier::new(workers), Barrier::new(workers));
        let errors = run(workers, |worker| {
            // Who is still joining when another leaves fails to join.
            met.wait();
            let nobody = WorkerId(workers);
            let refused = records([1_u64]).partition_by(|_| nobody).to_vec(worker).unwrap_err();
            done.wait();
            refused
        });
        for error in errors {
            let JobError::NoSuchWorker { worker, workers: found } = error else {
                panic!("{error}")
            };
            assert_eq!((worker, found), (WorkerId(workers), workers));
        }
    }
}

/// What becomes of a connection to `address` by somebody who says to be `worker`.
fn claim(
    worker: usize,
    incarnation: u64,
    secret: Option<Secret>,
    address: SocketAddr,
) -> Result<(), ConnectError> {
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
    let config = EndpointConfig::new(NodeId(worker as u64 + 1), Incarnation(incarnation), memory);
    let stranger =
        Endpoint::start(EndpointConfig { secret, ..config }, Arc::new(NoHandler)).unwrap();
    stranger.block_on(stranger.connect(address, Time::MAX)).map(drop)
}

#[test]
fn a_stranger_that_claims_to_be_a_worker_is_refused_and_the_job_goes_on() {
    let parts = run_with_addresses(2, |worker, addresses| {
        if worker.id() == WorkerId(0) {
            // As the other worker, in the same life or a later one, with a wrong secret or none.
            for (incarnation, secret) in
                [(1, None), (2, None), (1, Some(Secret::new(0))), (2, Some(Secret::new(0)))]
            {
                let refused = claim(1, incarnation, secret, addresses[0]).unwrap_err();
                let text = "wrong or missing secret".to_owned();
                let reason = CloseReason::Goodbye(Goodbye { code: 16, text });
                assert_eq!(refused, ConnectError::Closed { address: addresses[0], reason });
            }
        }
        worker.gather(worker.id().0 as u64).unwrap()
    });
    assert_eq!(parts, [[0, 1], [0, 1]]);
}

#[test]
fn a_worker_without_the_secret_of_the_others_is_told_so() {
    let others = Listening::start(config(1, 2)).unwrap();
    assert_ne!(SECRET, Secret::new(1));
    let without = WorkerConfig { secret: Secret::new(1), ..config(0, 2) };
    let listening = Listening::start(without).unwrap();
    let addresses = [listening.address(), others.address()];
    let error = listening.join(&addresses).unwrap_err();
    assert!(matches!(error, JobError::Unreachable { worker: WorkerId(1), .. }), "{error:?}");
    assert_eq!(error.to_string().matches("wrong or missing secret").count(), 1, "{error}");
    assert!(std::error::Error::source(&error).is_none(), "all of it has been said");
}
