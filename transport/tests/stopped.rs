//! A process that is stopped, as by a debugger or for want of processors, and goes on: whoever waits for nothing
//! from it does not mind, and who waits for it to take something gives it up in time.

#![expect(
    clippy::unwrap_used,
    reason = "the cases share functions that are no tests by themselves"
)]

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use rustix::process::{Pid, Signal, kill_process};
use weft_transport::{
    Applied, Batch, CallError, CloseReason, Endpoint, EndpointConfig, Handler, Incarnation,
    IncomingKind, LinkKind, LinkPolicy, Memory, MemoryConfig, NodeId, PollPolicy, Time,
};

const LINKS: [(LinkPolicy, LinkKind); 2] =
    [(LinkPolicy::Tcp, LinkKind::Tcp), (LinkPolicy::Shm, LinkKind::Shm)];

/// As long as TCP waits before it asks a silent peer, and longer than nodes are patient here.
const LONG: Duration = Duration::from_secs(13);

const STALL_TIMEOUT: Duration = Duration::from_secs(2);

const OTHER: &str = "WEFT_TEST_OTHER";

/// Replies with what it is asked.
struct Echo;

impl Handler for Echo {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            if let IncomingKind::Call(call) = incoming.kind {
                batch.reply(call, incoming.body);
            }
        }
    }
}

fn endpoint(id: NodeId, links: LinkPolicy) -> Endpoint {
    let memory = Memory::new(MemoryConfig { limit_bytes: 128 << 20 }).unwrap();
    let mut config = EndpointConfig::new(id, Incarnation(1), memory);
    config.links = links;
    config.poll = PollPolicy::Park;
    config.stall_timeout = STALL_TIMEOUT;
    Endpoint::start(config, Arc::new(Echo)).unwrap()
}

fn after(endpoint: &Endpoint, time: Duration) -> Time {
    endpoint.clock().now() + time
}

/// Far enough away that only a hang reaches it.
fn deadline(endpoint: &Endpoint) -> Time {
    after(endpoint, Duration::from_secs(120))
}

/// A process of its own, with a node that listens. It ends with the value.
struct Other {
    process: Child,
    address: SocketAddr,
}

impl Other {
    #[expect(clippy::disallowed_methods, reason = "a process is to be stopped")]
    fn start(links: LinkPolicy) -> Self {
        use std::io::BufRead;
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "other", "--nocapture"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).env(OTHER, links.to_string());
        let mut process = command.spawn().unwrap();
        let said = std::io::BufReader::new(process.stdout.take().unwrap());
        let mut lines = said.lines().map(Result::unwrap);
        let line = lines.find_map(|line| Some(line.split_once("listens at ")?.1.to_owned()));
        let address = line.expect("it says where it listens").parse().unwrap();
        Self { process, address }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have been killed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Both links at a time: most of it is waiting.
fn over_each_link(run: impl Fn(LinkPolicy, LinkKind) + Sync) {
    std::thread::scope(|scope| {
        for (links, kind) in LINKS {
            let run = &run;
            scope.spawn(move || run(links, kind));
        }
    });
}

#[test]
fn who_is_stopped_with_nothing_under_way_is_not_minded() {
    over_each_link(|links, kind| {
        let other = Other::start(links);
        let node = endpoint(NodeId::client(1), links);
        node.block_on(async {
            let connection = node.connect(other.address, deadline(&node)).await.unwrap();
            assert_eq!(connection.link(), kind);
            assert_eq!(&*connection.call(b"before", deadline(&node)).await.unwrap(), b"before");
            other.signal(Signal::STOP);
            node.sleep_until(after(&node, LONG)).await;
            assert!(connection.is_open(), "nothing waits for it");
            // A call waits no longer than it says, and is no reason to give the peer up: it may be at work.
            let late = connection.call(b"meanwhile", after(&node, STALL_TIMEOUT * 2)).await;
            let applied = Applied::Maybe;
            assert_eq!(late.map(drop), Err(CallError::DeadlineExceeded { applied }));
            assert!(connection.is_open());
            other.signal(Signal::CONT);
            assert_eq!(&*connection.call(b"after", deadline(&node)).await.unwrap(), b"after");
        });
        assert_eq!(node.stats().connections, 1);
    });
}

#[test]
fn who_is_stopped_and_does_not_take_what_it_is_sent_is_given_up() {
    over_each_link(|links, kind| {
        let other = Other::start(links);
        let node = endpoint(NodeId::client(1), links);
        node.block_on(async {
            let connection = node.connect(other.address, deadline(&node)).await.unwrap();
            assert_eq!(connection.link(), kind);
            let calls = (0..64).map(|_| connection.call(&[7; 1_000_000], deadline(&node)));
            let stop = async {
                other.signal(Signal::STOP);
                node.clock().now()
            };
            let (stopped, outcomes) = join(stop, join_all(calls)).await;
            for outcome in outcomes.into_iter().filter_map(Result::err) {
                let CallError::Disconnected { reason, .. } = &outcome else {
                    panic!("{outcome:?}")
                };
                // The system may notice first, which is as patient.
                let kind = std::io::ErrorKind::TimedOut;
                let is_late =
                    matches!(reason, CloseReason::Link { kind: found, .. } if *found == kind);
                assert!(is_late || *reason == CloseReason::Stalled, "{reason:?}");
            }
            assert!(!connection.is_open());
            assert!(node.clock().now().since(stopped) >= STALL_TIMEOUT);
            other.signal(Signal::CONT);
            let again = node.connect(other.address, deadline(&node)).await.unwrap();
            assert_eq!(&*again.call(b"again", deadline(&node)).await.unwrap(), b"again");
        });
    });
}

/// What the tests above start, and nothing by itself: replies until it is killed or nobody is left.
#[test]
#[ignore = "another test starts it as a process of its own"]
#[expect(clippy::disallowed_methods, reason = "the process is told by a variable what to do")]
fn other() {
    let Ok(links) = std::env::var(OTHER) else { return };
    let node = endpoint(NodeId(2), links.parse().unwrap());
    let address = node.listen(([127, 0, 0, 1], 0).into()).unwrap();
    println!("listens at {address}");
    // Until the other process ends, however it does.
    let _ = std::io::read_to_string(std::io::stdin());
}
