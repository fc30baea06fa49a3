//! Timers and deadlines that a thread notes while another drives: however that one waits, they come.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as the tests do")]

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use weft_transport::{
    Batch, CallError, Endpoint, EndpointConfig, Handler, Incarnation, Memory, MemoryConfig,
    NoHandler, NodeId, PollPolicy, Time,
};

const POLICIES: [PollPolicy; 3] = [PollPolicy::Busy, PollPolicy::Adaptive, PollPolicy::Park];

/// What a timer that never comes would outlast.
const PATIENCE: Duration = Duration::from_secs(20);

/// Takes all that comes, and answers nothing.
struct Silent;

impl Handler for Silent {
    fn handle(&self, batch: &mut Batch<'_>) {
        while batch.next().is_some() {}
    }
}

fn endpoint(id: NodeId, poll: PollPolicy, handler: Arc<dyn Handler>) -> Endpoint {
    let memory = Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap();
    let mut config = EndpointConfig::new(id, Incarnation(1), memory);
    config.poll = poll;
    Endpoint::start(config, handler).unwrap()
}

/// Runs `future` on a thread of its own, which does not drive.
#[expect(clippy::disallowed_methods, reason = "the test must end where a timer does not come")]
fn elsewhere<F>(future: F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(futures_executor::block_on(future)));
    told.recv_timeout(PATIENCE).expect("it comes in time")
}

fn after(endpoint: &Endpoint, time: Duration) -> Time {
    endpoint.clock().now() + time
}

#[test]
fn a_timer_that_another_thread_sets_comes_however_the_driver_waits() {
    for poll in POLICIES {
        let node = endpoint(NodeId(1), poll, Arc::new(NoHandler));
        for _ in 0..3 {
            elsewhere(node.sleep_until(after(&node, Duration::from_millis(20))));
        }
        node.shutdown();
    }
}

#[test]
fn a_call_of_another_thread_ends_at_its_deadline_however_the_driver_waits() {
    for poll in POLICIES {
        let server = endpoint(NodeId(1), PollPolicy::Park, Arc::new(Silent));
        let address = server.listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let client = endpoint(NodeId::client(1), poll, Arc::new(NoHandler));
        let connection = client.block_on(client.connect(address, Time::MAX)).unwrap();
        for _ in 0..3 {
            let (caller, deadline) =
                (connection.clone(), after(&client, Duration::from_millis(20)));
            let reply = elsewhere(async move { caller.call(&b"anybody"[..], deadline).await });
            assert!(matches!(reply, Err(CallError::DeadlineExceeded { .. })), "{reply:?}");
        }
        client.shutdown();
        server.shutdown();
    }
}
