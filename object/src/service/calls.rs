//! Calls that wait for a thread: each peer's in a line of its own, so that none waits behind another peer's for longer than for a few.
//!
//! A call takes one of its peer's slots from its beginning until its reply is taken. A peer has few of them, whatever it asks for: its calls that wait, and
//! replies that it does not take, hold up itself alone.

use std::collections::{HashMap, VecDeque};
use std::mem;

use super::references::Holder;
use super::workers::Slot;

/// A call that waits for a thread.
pub(super) struct Call {
    /// Who calls, and the connection that it came by.
    pub(super) caller: (Holder, u64),
    pub(super) job: CallJob,
}

/// Handles a call. Leaves the slot where it is, or takes it along.
pub(super) type CallJob = Box<dyn FnOnce(&mut Option<Slot>) + Send>;

/// All calls that wait.
pub(super) struct Calls {
    /// They have a slot of their peer's, and wait for a thread.
    ready: VecDeque<Call>,
    peers: HashMap<Holder, Line>,
    slots_max: usize,
}

/// One peer's calls.
#[derive(Default)]
struct Line {
    slots_taken: usize,
    /// They wait for a slot.
    waiting: VecDeque<Call>,
    /// Connections that calls have come by, and that have not ended.
    connections: Vec<u64>,
}

impl Calls {
    /// None, of peers that have `slots_max` slots each.
    pub(super) fn new(slots_max: usize) -> Self {
        Self { ready: VecDeque::new(), peers: HashMap::new(), slots_max }
    }

    /// How many wait for nothing but a thread.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// One more. Returns whether it is the first that has come by its connection, whose end nobody waits for yet.
    pub(super) fn add(&mut self, call: Call) -> bool {
        let (holder, connection) = call.caller;
        let line = self.peers.entry(holder).or_default();
        let is_first = !line.connections.contains(&connection);
        if is_first {
            line.connections.push(connection);
        }
        if line.slots_taken < self.slots_max {
            line.slots_taken += 1;
            self.ready.push_back(call);
        } else {
            line.waiting.push_back(call);
        }
        is_first
    }

    /// The next one, which has a slot.
    pub(super) fn next(&mut self) -> Option<Call> {
        self.ready.pop_front()
    }

    /// A slot of `holder`'s is free again.
    pub(super) fn give_back(&mut self, holder: Holder) {
        let Some(line) = self.peers.get_mut(&holder) else { return };
        match line.waiting.pop_front() {
            Some(call) => self.ready.push_back(call),
            None => line.slots_taken -= 1,
        }
        self.forget_line(holder);
    }

    /// A connection of `holder`'s has ended: nobody waits for what came by it. Returns the calls, to be dropped where nothing is locked.
    pub(super) fn end(&mut self, (holder, connection): (Holder, u64)) -> Vec<Call> {
        let Some(line) = self.peers.get_mut(&holder) else { return Vec::new() };
        line.connections.retain(|open| *open != connection);
        let mut ended = take(&mut line.waiting, (holder, connection));
        let ready = take(&mut self.ready, (holder, connection));
        for _ in &ready {
            self.give_back(holder);
        }
        ended.extend(ready);
        self.forget_line(holder);
        ended
    }

    /// All that wait, which nobody will ever handle.
    pub(super) fn take_all(&mut self) -> Vec<Call> {
        let waiting: Vec<_> =
            self.peers.values_mut().flat_map(|line| line.waiting.drain(..)).collect();
        let ready: Vec<_> = self.ready.drain(..).collect();
        for call in &ready {
            self.give_back(call.caller.0);
        }
        waiting.into_iter().chain(ready).collect()
    }

    fn forget_line(&mut self, holder: Holder) {
        let is_idle = |line: &Line| line.slots_taken == 0 && line.connections.is_empty();
        if self.peers.get(&holder).is_some_and(is_idle) {
            self.peers.remove(&holder);
        }
    }
}

/// Takes what has come by one connection out of a line.
fn take(line: &mut VecDeque<Call>, caller: (Holder, u64)) -> Vec<Call> {
    let mut taken = Vec::new();
    for call in mem::take(line) {
        if call.caller == caller {
            taken.push(call);
        } else {
            line.push_back(call);
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use weft_transport::{Incarnation, NodeId};

    use super::*;

    fn holder(node: u64) -> Holder {
        Holder::new(NodeId(node), Incarnation(1))
    }

    fn add(calls: &mut Calls, node: u64, connection: u64) -> bool {
        calls.add(Call { caller: (holder(node), connection), job: Box::new(|_| ()) })
    }

    fn next(calls: &mut Calls) -> Option<u64> {
        calls.next().map(|call| call.caller.1)
    }

    #[test]
    fn a_peer_has_no_more_calls_at_once_than_slots_and_others_go_ahead_of_the_rest() {
        let mut calls = Calls::new(2);
        let first = [1, 1, 1, 1, 2].map(|node| add(&mut calls, node, node));
        assert_eq!(first, [true, false, false, false, true]);
        let begun = [(); 4].map(|()| next(&mut calls));
        assert_eq!(begun, [Some(1), Some(1), Some(2), None]);
        calls.give_back(holder(1));
        assert_eq!([next(&mut calls), next(&mut calls)], [Some(1), None]);
    }

    #[test]
    fn what_has_come_by_a_connection_goes_with_it() {
        let mut calls = Calls::new(2);
        // One node by two connections.
        for connection in [7, 8, 7, 8, 7] {
            add(&mut calls, 1, connection);
        }
        assert_eq!(calls.end((holder(1), 7)).len(), 3);
        assert_eq!(calls.end((holder(1), 7)).len(), 0, "told twice");
        // The others have got the slot of what was ready.
        assert_eq!([(); 3].map(|()| next(&mut calls)), [Some(8), Some(8), None]);
        assert_eq!(calls.end((holder(1), 8)).len(), 0, "they have begun");
        assert_eq!(calls.peers.len(), 1);
        calls.give_back(holder(1));
        calls.give_back(holder(1));
        assert_eq!(calls.peers.len(), 0, "nothing is left of who has gone");
    }
}
