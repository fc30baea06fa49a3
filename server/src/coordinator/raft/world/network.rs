//! Links between nodes that lose, delay, double and reorder, and that are cut in one direction or both.

use raft::eraftpb::MessageType;

use super::random::Random;
use super::{Event, World};
use crate::coordinator::raft::{Outgoing, envelope};

pub(super) struct Network {
    nodes: usize,
    /// By sender and receiver.
    cut: Vec<bool>,
    loss: f64,
    double: f64,
    /// The longest usual delay, in nanoseconds; some take ten times as long.
    delay: u64,
}

impl Network {
    pub(super) fn new(nodes: usize, random: &mut Random) -> Self {
        let loss = [0.0, 0.01, 0.05, 0.15][random.index(4)];
        let double = [0.0, 0.02, 0.2][random.index(3)];
        let delay = [1_000_000, 5_000_000, 40_000_000][random.index(3)];
        Network { nodes, cut: vec![false; nodes * nodes], loss, double, delay }
    }

    pub(super) fn set_cut(&mut self, from: usize, to: usize, is_cut: bool) {
        self.cut[from * self.nodes + to] = is_cut;
    }

    pub(super) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cut[from * self.nodes + to]
    }

    pub(super) fn mend(&mut self) {
        self.cut.fill(false);
        (self.loss, self.double, self.delay) = (0.0, 0.0, 2_000_000);
    }

    pub(super) fn join(&mut self) {
        self.cut.fill(false);
    }
}

impl World {
    pub(super) fn send(&mut self, from: usize, message: Outgoing) {
        let to = (message.node.0 - 100) as usize;
        if self.nemesis.is_watching() {
            self.watch(from, to, &message.bytes);
        }
        if self.network.is_cut(from, to) || self.random.chance(self.network.loss) {
            return self.count("messages lost");
        }
        if self.random.chance(self.network.double) {
            self.count("messages doubled");
            self.carry(to, message.bytes.clone());
        }
        self.carry(to, message.bytes);
    }

    fn carry(&mut self, to: usize, bytes: Vec<u8>) {
        let slow = if self.random.chance(0.02) { 10 } else { 1 };
        let delay = 100_000 + self.random.below(self.network.delay * slow);
        self.at(self.now + delay, Event::Deliver { node: to, bytes });
    }

    /// Breaks things just when somebody has voted.
    fn watch(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let Ok((_, message)) = envelope::decode(bytes) else { return };
        let is_vote =
            message.msg_type == MessageType::MsgRequestVoteResponse as i32 && !message.reject;
        if is_vote && self.random.chance(0.5) {
            self.strike_voter(from, to);
        }
    }
}
