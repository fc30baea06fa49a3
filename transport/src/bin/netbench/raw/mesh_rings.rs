//! What bare rings in shared memory reach when all nodes send to all: a ring each way of each pair, one
//! thread a node, which gives its core away when it has found nothing to do.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::Context as _;
use rustix::thread::sched_yield;
use weft_transport::{Clock, SharedMapping};

use super::ring::{self, Ring, STEP};
use crate::phases::{Phase, Phases};
use crate::tally::Tally;

/// Messages into one ring before the next one has its turn.
const MESSAGES_A_TURN: usize = 64;

/// A node's memory, into which all others write.
pub(crate) struct RingNode {
    own: Arc<SharedMapping>,
    address: String,
}

/// The rings from and to all others.
pub(crate) struct Rings {
    own: Arc<SharedMapping>,
    /// The others' memory, by node.
    others: Vec<(usize, SharedMapping)>,
    index: usize,
}

/// A ring in the middle of a message.
struct End<'a> {
    ring: Ring<'a>,
    /// Words of the message that have gone.
    done: usize,
}

impl RingNode {
    pub(crate) fn create(nodes: usize) -> anyhow::Result<Self> {
        let (own, address) = ring::create(nodes)?;
        Ok(Self { own, address })
    }

    /// Where the others find it.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn connect(&self, index: usize, addresses: &[String]) -> anyhow::Result<Rings> {
        let others = addresses.iter().enumerate().filter(|(node, _)| *node != index);
        let open = |(node, address): (usize, &String)| {
            let mapping = ring::open(address, addresses.len());
            Ok((node, mapping.with_context(|| format!("node {node}"))?))
        };
        let others = others.map(open).collect::<anyhow::Result<_>>()?;
        Ok(Rings { own: Arc::clone(&self.own), others, index })
    }
}

impl Rings {
    /// Sends to all others, if it `sends`, and counts what comes of them.
    pub(crate) fn run(&self, size: usize, sends: bool, tally: &Tally, phases: &Phases) {
        let clock = Clock::system();
        let end = |ring| End { ring, done: 0 };
        let to = |(_, mapping)| end(Ring::new(mapping, self.index, false));
        let mut out: Vec<_> = self.others.iter().map(|other| to((other.0, &other.1))).collect();
        let from = |node| end(Ring::new(&self.own, node, false));
        let mut come: Vec<_> = self.others.iter().map(|(node, _)| from(*node)).collect();
        let message = vec![7_u64; size.div_ceil(8)];
        let mut read = message.clone();
        while phases.now() != Phase::Stop {
            let mut moved = 0;
            for end in out.iter_mut().filter(|_| sends) {
                moved += (0..MESSAGES_A_TURN).take_while(|_| end.push(&message)).count();
            }
            for end in &mut come {
                let mut messages = 0;
                while end.pop(&mut read) {
                    black_box(&read);
                    messages += 1;
                }
                if messages > 0 {
                    tally.batch(clock.now()).count(messages, messages as usize * size);
                    moved += 1;
                }
            }
            if moved == 0 {
                sched_yield();
            }
        }
    }
}

impl End<'_> {
    /// Writes what there is room for; returns whether that was the rest of the message.
    fn push(&mut self, message: &[u64]) -> bool {
        while self.done < message.len() {
            let part = &message[self.done..message.len().min(self.done + STEP)];
            if !self.ring.push_part(black_box(part)) {
                return false;
            }
            self.done += part.len();
        }
        self.done = 0;
        true
    }

    /// Reads what there is; returns whether that was the rest of the message.
    fn pop(&mut self, message: &mut [u64]) -> bool {
        while self.done < message.len() {
            let end = message.len().min(self.done + STEP);
            if !self.ring.pop_part(&mut message[self.done..end]) {
                return false;
            }
            self.done = end;
        }
        self.done = 0;
        true
    }
}
