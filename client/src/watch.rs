//! What happens to a key, or to the keys with a prefix, as it happens: the watches of all nodes that matter, merged.
//!
//! Each node keeps the events that it has for this client until they were received, so a connection that is lost loses none. A node is
//! asked again when the events that it told were all returned: who is slow lets them add up at the nodes, where there is a bound for
//! them, and not here.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use weft_protocol::{Key, KeyChange, Slot, TableRemoval, Version, WatchEnd, Watched};
use weft_transport::NodeId;

use crate::core::Core;
use crate::error::{ClientError, NodeName};
use crate::object::Existence;
use crate::operation::watch::{AskWatch, Opened};
use crate::operation::watch_next::Events;
use crate::table::Table;

/// How a watch is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatchOptions {
    /// How many bytes of events each node keeps for this client, 16 and the key for each event: 4 KiB at least and 16 MiB at most. If nothing
    /// is said, 1 MiB, or less on a node with less than 1 GiB of memory. Who has more to come falls behind.
    pub queue_bytes: Option<u32>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// To the object of a key.
    Key {
        /// The key.
        key: Vec<u8>,
        /// What.
        change: KeyChange,
        /// As of which version. What is written or deleted has a newer one than all that was told of the key before; what expires or is evicted,
        /// that of its writing.
        version: Version,
    },
    /// To all objects of the table in one partition. Each partition has an event of its own.
    Table {
        /// The first of the partition's slots.
        first_slot: Slot,
        /// The last of them.
        last_slot: Slot,
        /// What.
        change: TableRemoval,
        /// What is in these slots and not newer than this is gone.
        version: Version,
    },
}

/// A watch that is open. Dropped, it ends at the nodes as well, or half a minute later if they cannot be reached.
///
/// It has to be asked again within half a minute, or a node takes it for abandoned and ends it; the next event is
/// [`ClientError::WatchLost`] then.
#[must_use = "what happens is told by asking for it"]
pub struct Watch {
    core: Arc<Core>,
    found: Option<Existence>,
    parts: Vec<Part>,
    /// The calls that are under way: at most one a part.
    asked: FuturesUnordered<Asked>,
    ready: VecDeque<WatchEvent>,
    /// Why there are no more events.
    ended: Option<ClientError>,
}

/// The watch at one node.
#[derive(Debug)]
struct Part {
    node: NodeId,
    id: u64,
    /// The sequence of the last event that came.
    received: u64,
    is_asked: bool,
}

/// The next events of a part.
type Asked = Pin<Box<dyn Future<Output = (usize, Result<Events, ClientError>)> + Send>>;

impl Watch {
    /// Has the owner of a key tell what happens to it.
    pub(crate) async fn of_key(
        core: Arc<Core>,
        table: Table,
        key: Key<'_>,
        options: WatchOptions,
    ) -> Result<Self, ClientError> {
        let queue_bytes = options.queue_bytes.unwrap_or(0);
        let ask = AskWatch { slot: key.slot(), watched: Watched::Key(key), queue_bytes };
        let opened = core.ask(table, ask).await?;
        let found = Existence { version: opened.version, exists: opened.exists };
        Ok(Self::new(core, Some(found), [opened]))
    }

    /// Has all nodes tell what happens to keys that begin so.
    pub(crate) async fn of_prefix(
        core: Arc<Core>,
        table: Table,
        prefix: Key<'_>,
        options: WatchOptions,
    ) -> Result<Self, ClientError> {
        let queue_bytes = options.queue_bytes.unwrap_or(0);
        let deadline = core.deadline();
        loop {
            let cluster = core.keeper.current_owned();
            let mut opening = FuturesUnordered::new();
            for slot in cluster.slots_of_nodes(table)? {
                let ask = AskWatch { slot, watched: Watched::Prefix(prefix), queue_bytes };
                opening.push(core.ask(table, ask));
            }
            let (mut opened, mut failed) = (Vec::new(), None);
            while let Some(one) = opening.next().await {
                match one {
                    Ok(one) => opened.push(one),
                    Err(error) => failed = Some(error),
                }
            }
            drop(opening);
            // Dropped again if it is no good, and with it what was opened.
            let watch = Self::new(Arc::clone(&core), None, opened);
            if let Some(error) = failed {
                return Err(error);
            }
            // By another map, other nodes may own some of the keys.
            if core.keeper.current().epoch() == cluster.epoch() {
                return Ok(watch);
            }
            if core.endpoint.clock().now() >= deadline {
                let (slot, timeout) = (prefix.slot(), core.config.timeout);
                let node = cluster.remotes()[0].name().clone();
                return Err(ClientError::MapUnsettled { slot, node, timeout });
            }
        }
    }

    fn new(
        core: Arc<Core>,
        found: Option<Existence>,
        opened: impl IntoIterator<Item = Opened>,
    ) -> Self {
        let part = |Opened { node, id, .. }| Part { node, id, received: 0, is_asked: false };
        let parts = opened.into_iter().map(part).collect();
        let (asked, ready) = (FuturesUnordered::new(), VecDeque::new());
        Self { core, found, parts, asked, ready, ended: None }
    }

    /// Of a key: what there was at the moment from which on events are told.
    pub fn found(&self) -> Option<Existence> {
        self.found
    }

    /// Whether there are no more events, since the last answer was an error that ended the watch.
    pub fn is_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// The next event, as soon as there is one. Those of one key come in the order of its versions, and so does what happens in one partition;
    /// none is left out and none comes twice.
    ///
    /// # Errors
    /// [`ClientError::FellBehind`] and [`ClientError::WatchLost`] if events were missed: whoever goes on watches again, and
    /// reads anew; the same is answered from then on. So it is once a table was dropped and all of that was told
    /// ([`ErrorCode::TableUnknown`](crate::ErrorCode::TableUnknown)). After any other error the watch may be asked again, and nothing was missed.
    ///
    /// # Cancel safety
    /// No event is lost with a future that is dropped.
    pub async fn next(&mut self) -> Result<WatchEvent, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            if let Some(error) = &self.ended {
                return Err(error.clone());
            }
            self.ask_all();
            let (at, answer) = self.asked.next().await.expect("every node is asked");
            self.parts[at].is_asked = false;
            match answer {
                Ok(events) => self.receive(at, events)?,
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    /// Asks the nodes that are not being asked.
    fn ask_all(&mut self) {
        for (at, part) in self.parts.iter_mut().enumerate() {
            if !std::mem::replace(&mut part.is_asked, true) {
                let core = Arc::clone(&self.core);
                let Part { node, id, received, .. } = *part;
                self.asked.push(Box::pin(async move {
                    (at, core.next_events(node, id, received).await)
                }));
            }
        }
    }

    fn receive(&mut self, at: usize, Events { first, events }: Events) -> Result<(), ClientError> {
        let part = &mut self.parts[at];
        if first != part.received + 1 {
            // Not by a node that does as it should.
            let node = self.name_of(at);
            return Err(self.failed(ClientError::WatchLost { node }));
        }
        part.received += events.len() as u64;
        self.ready.extend(events);
        Ok(())
    }

    /// Takes note of an error that ends the watch, and frees what the nodes keep.
    fn failed(&mut self, error: ClientError) -> ClientError {
        if error.ends_watch() || error.code() == crate::ErrorCode::TableUnknown {
            self.end();
            self.ended = Some(error.clone());
        }
        error
    }

    fn name_of(&self, at: usize) -> NodeName {
        let node = self.parts[at].node;
        let cluster = self.core.keeper.current_owned();
        let unknown = || NodeName { id: node, address: "an unknown address".into() };
        cluster.remote(node).map_or_else(unknown, |remote| remote.name().clone())
    }

    /// Tells the nodes, as far as a connection is open, and does not wait for what they say: what they are not told of ends by itself.
    fn end(&mut self) {
        self.asked.clear();
        let cluster = self.core.keeper.current_owned();
        for Part { node, id, .. } in self.parts.drain(..) {
            if let Some(connection) = cluster.remote(node).and_then(|remote| remote.open()) {
                let request = WatchEnd { id };
                // The request is written when the call is begun.
                let _ = connection.call(request, self.core.deadline()).now_or_never();
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl WatchEvent {
    /// As of which version it happened.
    pub fn version(&self) -> Version {
        match self {
            Self::Key { version, .. } | Self::Table { version, .. } => *version,
        }
    }
}

impl From<weft_protocol::WatchEvent<'_>> for WatchEvent {
    fn from(event: weft_protocol::WatchEvent<'_>) -> Self {
        match event {
            weft_protocol::WatchEvent::Key { key, change, version } => {
                Self::Key { key: key.to_vec(), change, version }
            }
            weft_protocol::WatchEvent::Table { first_slot, last_slot, change, version } => {
                Self::Table { first_slot, last_slot, change, version }
            }
        }
    }
}
