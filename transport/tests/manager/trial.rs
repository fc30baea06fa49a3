//! Nodes that all know each other, connect to each other at one moment, lose connections, hang, and restart, in
//! orders drawn at random: whatever happens, each hears of the others in order, and in the end each two have
//! one connection.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::{join, join_all};
use proptest::prelude::*;
use weft_transport::limits::HANDSHAKE_TIMEOUT;
use weft_transport::{CallError, Endpoint, Incarnation, NodeEvent, NodeEvents, NodeId};

use crate::world::{BACKOFF, INTERVAL, MS, SECOND, World, address};

const NODES: usize = 4;

#[derive(Debug, Clone)]
enum Step {
    /// Time passes, in which nodes come back to each other.
    Pass { ms: u32 },
    /// Two nodes connect to each other, the second a little later.
    Meet { one: usize, other: usize, later_us: u64 },
    /// Calls from one node to another, if there is a connection.
    Call { from: usize, to: usize, count: usize },
    /// The network loses a connection.
    Lose,
    /// A node does nothing from now on, or goes on.
    Hang { which: usize, hangs: bool },
    /// A node ends in good order, and its next life begins after a while.
    Restart { which: usize, ms: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    let node = || 0..NODES;
    prop_oneof![
        6 => (1u32..1500).prop_map(|ms| Step::Pass { ms }),
        4 => (node(), node(), 0u64..2000)
            .prop_map(|(one, other, later_us)| Step::Meet { one, other, later_us }),
        6 => (node(), node(), 1usize..6)
            .prop_map(|(from, to, count)| Step::Call { from, to, count }),
        6 => Just(Step::Lose),
        2 => (node(), any::<bool>()).prop_map(|(which, hangs)| Step::Hang { which, hangs }),
        1 => (node(), 0u32..300).prop_map(|(which, ms)| Step::Restart { which, ms }),
    ]
}

/// A node, and what it has been told of the others.
struct Member {
    endpoint: Endpoint,
    events: NodeEvents,
    /// Which life of each it has found, and whether it is connected to that.
    known: BTreeMap<u64, (Incarnation, bool)>,
}

struct Trial {
    world: World,
    members: Vec<Member>,
    /// Which life each is in.
    lives: [u64; NODES],
    /// Which do nothing now: who waits for something of its own endpoint's would wait for ever.
    hangs: [bool; NODES],
}

impl Trial {
    fn new(seed: u64) -> Self {
        let (members, lives, hangs) = (Vec::new(), [0; NODES], [false; NODES]);
        let mut trial = Self { world: World::new(seed), members, lives, hangs };
        for which in 0..NODES {
            let member = trial.begin_life(which);
            trial.members.push(member);
        }
        trial
    }

    fn begin_life(&mut self, which: usize) -> Member {
        self.lives[which] += 1;
        let endpoint = self.world.node(which as u64 + 1, self.lives[which]);
        let events = endpoint.manager().events();
        for id in 1..=NODES as u64 {
            assert!(endpoint.manager().add(address(id)), "own included");
        }
        Member { endpoint, events, known: BTreeMap::new() }
    }

    fn do_step(&mut self, step: Step) {
        match step {
            Step::Pass { ms } => self.world.pass(ms * MS),
            Step::Meet { one, other, later_us }
                if one != other && !self.hangs[one] && !self.hangs[other] =>
            {
                let deadline = self.world.now() + 3 * SECOND;
                let nodes = [one, other].map(|which| self.members[which].endpoint.clone());
                let later = self.world.now() + Duration::from_micros(later_us);
                let (first, second) = self.world.run(join(
                    nodes[0].connect(address(other as u64 + 1), deadline),
                    async {
                        nodes[1].sleep_until(later).await;
                        nodes[1].connect(address(one as u64 + 1), deadline).await
                    },
                ));
                for (connection, to) in [(first, other), (second, one)] {
                    // It may hang, be gone, or lose the connection.
                    let Ok(connection) = connection else { continue };
                    assert_eq!(connection.peer().node, NodeId(to as u64 + 1));
                }
            }
            Step::Call { from, to, count } if from != to && !self.hangs[from] => {
                let manager = self.members[from].endpoint.manager();
                let Some(connection) = manager.connection(NodeId(to as u64 + 1)) else { return };
                let deadline = self.world.now() + SECOND;
                let calls = (0..count).map(async |number| {
                    let body = [from as u8, to as u8, number as u8];
                    match connection.call(&body, deadline).await {
                        Ok(reply) => assert_eq!(*reply, body),
                        Err(
                            CallError::Disconnected { .. } | CallError::DeadlineExceeded { .. },
                        ) => {}
                        Err(error) => panic!("{error}"),
                    }
                });
                self.world.run(join_all(calls));
            }
            Step::Lose => {
                self.world.network.lose_one();
            }
            Step::Hang { which, hangs } => {
                self.hangs[which] = hangs;
                self.world.hang(&self.members[which].endpoint, hangs);
            }
            Step::Restart { which, ms } => {
                let endpoint = self.members[which].endpoint.clone();
                self.hangs[which] = false;
                self.world.stop(endpoint);
                self.world.pass(ms * MS);
                self.members[which] = self.begin_life(which);
            }
            Step::Meet { .. } | Step::Call { .. } => {}
        }
        self.hear();
    }

    /// Takes what has been told, which is in order.
    fn hear(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        for (which, member) in self.members.iter_mut().enumerate() {
            let own = which as u64 + 1;
            while let Poll::Ready(Some(event)) = pin!(member.events.next()).poll(&mut context) {
                match event {
                    NodeEvent::Found(peer) => {
                        let now = (peer.incarnation, false);
                        let before = member.known.insert(peer.node.0, now);
                        assert_ne!(peer.node.0, own, "nobody is found by itself");
                        if let Some((incarnation, connected)) = before {
                            assert!(!connected, "{own} finds {peer:?} though connected before");
                            assert!(peer.incarnation > incarnation, "{own} goes back to {peer:?}");
                        }
                    }
                    NodeEvent::Connected(peer) => {
                        let before = member.known.insert(peer.node.0, (peer.incarnation, true));
                        assert_eq!(before, Some((peer.incarnation, false)), "{own} to {peer:?}");
                    }
                    NodeEvent::Lost { peer, .. } => {
                        let before = member.known.insert(peer.node.0, (peer.incarnation, false));
                        assert_eq!(before, Some((peer.incarnation, true)), "{own} from {peer:?}");
                    }
                    NodeEvent::Missed(count) => panic!("{count} events have waited for nobody"),
                }
            }
            let connected = member.endpoint.manager().connected();
            let mut nodes: Vec<_> = connected.iter().map(|peer| peer.node.0).collect();
            nodes.sort_unstable();
            nodes.dedup();
            assert_eq!(nodes.len(), connected.len(), "one connection to each: {connected:?}");
            // Of a connection that has ended by itself it may be yet to be told.
            let told = |node: &u64| member.known.get(node).is_some_and(|(_, connected)| *connected);
            assert!(nodes.iter().all(told), "{nodes:?}, {:?}", member.known);
        }
    }

    /// Lets everybody come back to everybody.
    fn finish(mut self) {
        for member in &self.members {
            self.world.hang(&member.endpoint, false);
        }
        // Who was in the middle of a greeting gives that up first, and the pauses have grown.
        self.world.pass(2 * HANDSHAKE_TIMEOUT + 4 * BACKOFF.max + INTERVAL);
        self.hear();
        for (which, member) in self.members.iter().enumerate() {
            let manager = member.endpoint.manager();
            for (other, life) in self.lives.iter().enumerate().filter(|(other, _)| *other != which)
            {
                let connection = manager.connection(NodeId(other as u64 + 1)).expect("connected");
                assert_eq!(connection.peer().incarnation, Incarnation(*life));
                let call = connection.call(b"there?", self.world.deadline());
                assert_eq!(&*self.world.run(call).unwrap(), b"there?");
            }
            assert_eq!(member.endpoint.stats().connections, NODES as u64 - 1);
            assert!(member.known.values().all(|(_, connected)| *connected), "{:?}", member.known);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn all_find_each_other_again_over_one_connection_each(
        seed: u64,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut trial = Trial::new(seed);
        steps.into_iter().for_each(|step| trial.do_step(step));
        trial.finish();
    }
}
