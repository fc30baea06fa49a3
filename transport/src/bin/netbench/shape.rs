//! The traffic of a measurement: how large, over how many connections, from and to how many threads.

use weft_transport::PollPolicy;

use crate::links::Links;

#[derive(Clone)]
pub(crate) struct Shape {
    pub(crate) size: usize,
    pub(crate) connections: usize,
    /// Threads that call or produce.
    pub(crate) senders: usize,
    /// Threads that handle one-way messages; with one, the reactor does.
    pub(crate) handlers: usize,
    pub(crate) poll: PollPolicy,
    pub(crate) links: Links,
    /// Bytes of the streamed bodies that are sent in place of messages, if they are.
    pub(crate) body: Option<u64>,
}

/// One thread's use of one connection.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    pub(crate) id: u32,
    pub(crate) connection: usize,
}

impl Shape {
    /// Messages of so many bytes over one connection, from one thread to one.
    pub(crate) fn of_one(size: usize, poll: PollPolicy, links: Links) -> Self {
        Self { size, connections: 1, senders: 1, handlers: 1, poll, links, body: None }
    }

    /// Every thread has a connection and every connection has a thread, so there are as many lanes
    /// as the larger of both.
    pub(crate) fn lanes(&self) -> usize {
        self.connections.max(self.senders)
    }

    /// The lanes that a thread takes turns over.
    pub(crate) fn lanes_of(&self, thread: usize) -> Vec<Lane> {
        (thread..self.lanes())
            .step_by(self.senders)
            .map(|lane| Lane {
                id: u32::try_from(lane).expect("lanes are limited to a few hundred"),
                connection: lane % self.connections,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use weft_transport::VerbsOptions;

    use super::*;
    use crate::links::LinkKind;

    #[test]
    fn every_thread_and_every_connection_is_used() {
        for (connections, senders) in [(1, 1), (1, 4), (4, 1), (3, 2), (2, 3), (5, 5)] {
            let shape = Shape {
                size: 64,
                connections,
                senders,
                handlers: 1,
                poll: PollPolicy::Park,
                links: Links { kind: LinkKind::Tcp, verbs: VerbsOptions::default() },
                body: None,
            };
            let lanes: Vec<Vec<Lane>> = (0..senders).map(|thread| shape.lanes_of(thread)).collect();
            assert!(lanes.iter().all(|lanes| !lanes.is_empty()), "{connections} {senders}");
            let mut ids: Vec<u32> = lanes.iter().flatten().map(|lane| lane.id).collect();
            ids.sort_unstable();
            assert!(ids.iter().map(|id| *id as usize).eq(0..connections.max(senders)));
            let mut used: Vec<usize> = lanes.iter().flatten().map(|lane| lane.connection).collect();
            used.sort_unstable();
            used.dedup();
            assert!(used.into_iter().eq(0..connections));
        }
    }
}
