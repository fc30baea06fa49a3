//! A node with logs in a directory, with partitions of every durability that it holds alone.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use weft_protocol::{
    Catalog, ClusterMap, Durability, ErrorCode, Get, GetReply, Key, Member, NodeEntry,
    PartitionEntry, PartitionId, Put, PutReply, ReplyError, ReplyHead, Slot, TableClass, TableId,
    TableOptions, Target, Value, Version,
};
use weft_server::durable::{
    CommitThread, Completeness, Directory, Disk, DiskError, Mode, Settings,
};
use weft_server::handler::{NodeHandler, NodeOptions, Placement};
use weft_server::logs::{LogDirectories, LogThreads, Logs, LogsOptions, OpenLogsError};
use weft_server::memory::NodeMemory;
use weft_server::store::StoreError;
use weft_transport::{Clock, Endpoint, EndpointConfig, Incarnation, NodeId, PollPolicy};

use crate::support::{Client, target};

pub(crate) const FSYNC: TableId = TableId(1);
pub(crate) const DISK: TableId = TableId(2);
const NODE: NodeId = NodeId(4);
const CLUSTER: u128 = 11;
/// How long logs may take to be closed.
const CLOSED_WITHIN: Duration = Duration::from_secs(60);
/// Partitions of each durability.
const EACH: u16 = 4;

pub(crate) struct DiskNode {
    pub(crate) handler: Arc<NodeHandler>,
    endpoint: Endpoint,
    address: SocketAddr,
    incarnation: Incarnation,
    logs: Threads,
    pub(crate) client: Client,
}

/// What drives its logs.
enum Threads {
    OfProduct(LogThreads),
    /// On disks of a test.
    Wrapped(Vec<CommitThread>),
    Gone,
}

/// What a test does to the disk, and sees of it.
#[derive(Clone, Default)]
pub(crate) struct Watch {
    pub(crate) fails: Arc<AtomicBool>,
    /// No file is made as long as this is set, and who makes one waits; then there is room for none.
    pub(crate) makes_none: Arc<AtomicBool>,
    pub(crate) makes_full: Arc<AtomicBool>,
    pub(crate) syncs: Arc<AtomicU64>,
}

/// A directory that does as it is told, and counts.
struct Watched(Directory, Watch);

impl Disk for Watched {
    fn names(&mut self) -> Result<Vec<String>, DiskError> {
        self.0.names()
    }

    fn create(&mut self, name: &str, reserve_bytes: u64) -> Result<(), DiskError> {
        while self.1.makes_none.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        if self.1.makes_full.load(Ordering::Relaxed) {
            return Err(DiskError::Full);
        }
        self.0.create(name, reserve_bytes)
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        self.0.append(name, bytes)
    }

    fn sync(&mut self, name: &str) -> Result<(), DiskError> {
        if self.1.fails.load(Ordering::Relaxed) {
            let (what, name) = ("sync", name.to_owned());
            return Err(DiskError::Failed { what, name, error: "told to fail".to_owned() });
        }
        self.1.syncs.fetch_add(1, Ordering::Relaxed);
        self.0.sync(name)
    }

    fn sync_names(&mut self) -> Result<(), DiskError> {
        self.0.sync_names()
    }

    fn trim(&mut self, name: &str) -> Result<(), DiskError> {
        self.0.trim(name)
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.0.remove(name)
    }

    fn settle(&mut self, name: &str) -> Result<(), DiskError> {
        self.0.settle(name)
    }

    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        self.0.read_at(name, offset, into)
    }
}

pub(crate) fn options(memory: &NodeMemory, settings: Settings) -> LogsOptions {
    LogsOptions {
        cluster: CLUSTER,
        node: NODE,
        memory: memory.clone(),
        seed: 7,
        clock: Clock::system(),
        settings,
    }
}

/// Files of a log so short that there are several.
pub(crate) fn short_files() -> Settings {
    let mut settings = Settings::default();
    settings.file_bytes = 256 << 10;
    settings
}

impl DiskNode {
    /// A node that begins a life with what is in this directory. Losses are accepted.
    pub(crate) fn start(path: &Path, life: u64) -> DiskNode {
        let node = DiskNode::try_start(path, life).unwrap();
        node.place(true).unwrap();
        node
    }

    /// The same, before it is told what it holds.
    pub(crate) fn try_start(path: &Path, life: u64) -> Result<DiskNode, OpenLogsError> {
        let memory = NodeMemory::divide(64 << 20).unwrap();
        let (logs, directories) = LogDirectories::open(path, &options(&memory, short_files()))?;
        let start = |handler: &_| Threads::OfProduct(directories.start(handler).unwrap());
        Ok(DiskNode::of(memory, life, logs, start))
    }

    /// The same on a disk that is watched.
    pub(crate) fn start_watched(path: &Path, life: u64, watch: &Watch) -> DiskNode {
        let memory = NodeMemory::divide(64 << 20).unwrap();
        let mut of_disk = Directory::open(&path.join("disk")).unwrap();
        let mut of_fsync = Directory::open(&path.join("fsync")).unwrap();
        let options = options(&memory, short_files());
        let logs = Logs::recover(&options, &mut of_disk, &mut of_fsync).unwrap();
        let journals = [Mode::Disk, Mode::Fsync].map(|mode| Arc::clone(logs.journal(mode)));
        let start = |handler: &Arc<NodeHandler>| {
            let driven = journals.into_iter().zip([of_disk, of_fsync]);
            let threads = driven.map(|(journal, directory)| {
                let (mode, handler) = (journal.mode(), Arc::clone(handler));
                let disk = Watched(directory, watch.clone());
                let tell = move |events: &[_]| handler.log_told(mode, events);
                CommitThread::drive(journal, disk, tell).unwrap()
            });
            Threads::Wrapped(threads.collect())
        };
        let node = DiskNode::of(memory, life, logs, start);
        for mode in [Mode::Disk, Mode::Fsync] {
            while node.handler.logs().unwrap().journal(mode).is_opening() {
                std::thread::yield_now();
            }
        }
        node.place(true).unwrap();
        node
    }

    fn of(
        memory: NodeMemory,
        life: u64,
        logs: Logs,
        start: impl FnOnce(&Arc<NodeHandler>) -> Threads,
    ) -> DiskNode {
        let incarnation = Incarnation(life);
        let me = Member { node: NODE, incarnation };
        let mut node_options = NodeOptions::new(me, memory.clone(), Clock::system(), 7);
        node_options.logs = Some(logs);
        let handler = Arc::new(NodeHandler::new(node_options).unwrap());
        let mut config = EndpointConfig::new(NODE, incarnation, memory.network);
        config.poll = PollPolicy::Park;
        let endpoint = Endpoint::start(config, Arc::clone(&handler) as _).unwrap();
        let address = endpoint.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let logs = start(&handler);
        DiskNode { handler, endpoint, address, incarnation, logs, client: Client::at(address) }
    }

    /// Tells it what it holds: what its logs have in the epoch that they know, and what they have not all of in the next one if the loss is accepted.
    pub(crate) fn place(&self, accepts_losses: bool) -> Result<(), StoreError> {
        let placed = self.place_alone(accepts_losses);
        self.give_tables();
        placed
    }

    fn place_alone(&self, accepts_losses: bool) -> Result<(), StoreError> {
        let incarnation = self.incarnation;
        let map = map(&self.address.to_string(), incarnation);
        let mut placements = Placement::of_nodes_alone(&map, incarnation);
        for placement in &mut placements {
            let mut found = self.handler.recovered().iter();
            if let Some(found) = found.find(|found| found.partition == placement.id) {
                let is_lost = accepts_losses && !found.completeness.is_complete();
                placement.configuration.epoch = found.epoch + u32::from(is_lost);
            }
        }
        self.handler.learn(map, &placements)
    }

    /// A node that learns of tables before it is given their partitions, as it does where tables are made in a cluster that is there. Losses are accepted.
    pub(crate) fn start_with_tables(path: &Path, life: u64) -> DiskNode {
        let node = DiskNode::try_start(path, life).unwrap();
        node.give_tables();
        node.place_alone(true).unwrap();
        node
    }

    fn give_tables(&self) {
        let options =
            |durability| TableOptions { replicas: 1, durability, ..TableOptions::default() };
        let catalog = Catalog::default().with("fsync", options(Durability::Fsync)).unwrap();
        let catalog = catalog.with("disk", options(Durability::Disk)).unwrap();
        self.handler.learn_catalog(&catalog).unwrap();
    }

    /// As in a crash, except that the system goes on: what was written is there, synced or not.
    pub(crate) fn crash(mut self) {
        self.logs = Threads::Gone;
        self.endpoint.shutdown();
    }

    /// In good order.
    pub(crate) fn stop(mut self) {
        self.handler.take_no_more();
        self.endpoint.shutdown();
        match std::mem::replace(&mut self.logs, Threads::Gone) {
            Threads::OfProduct(threads) => threads.close().unwrap(),
            Threads::Wrapped(threads) => {
                threads.into_iter().for_each(|thread| thread.close(CLOSED_WITHIN).unwrap());
            }
            Threads::Gone => panic!("it has no logs"),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The error that a read is answered with.
    pub(crate) fn get_refused(&self, table: TableId, key: &[u8]) -> ErrorCode {
        self.client.refused(get(table, key)).code
    }

    /// The error that a write is answered with.
    pub(crate) fn put_refused(&self, table: TableId, key: &[u8]) -> ErrorCode {
        self.client.refused(put(table, key, b"refused")).code
    }

    /// Puts it as soon as the disk is not behind.
    pub(crate) fn put(&self, table: TableId, key: &[u8], value: &[u8]) -> Version {
        loop {
            match PutReply::decode(&self.client.call(put(table, key, value))) {
                Ok(reply) => return reply.version,
                Err(ReplyError::Refused(error)) if error.code == ErrorCode::DiskBehind => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    pub(crate) fn get(&self, table: TableId, key: &[u8]) -> Option<Vec<u8>> {
        let reply = self.client.call(get(table, key));
        match ReplyHead::decode(&reply) {
            Err(ReplyError::Refused(error)) => panic!("{error:?}"),
            _ => GetReply::decode(&reply).unwrap().value().map(<[u8]>::to_vec),
        }
    }

    /// The durabilities of partitions that were found when the node started, and whether each was complete.
    pub(crate) fn found(&self) -> Vec<(Durability, bool)> {
        let found = self.handler.recovered().iter();
        found.map(|one| (one.durability, one.completeness.is_complete())).collect()
    }

    pub(crate) fn completeness(&self) -> Vec<Completeness> {
        self.handler.recovered().iter().map(|one| one.completeness.clone()).collect()
    }
}

fn get(table: TableId, key: &[u8]) -> Get<'_> {
    Get { table, map_epoch: 1, key: Key::new(key).unwrap() }
}

pub(crate) fn put<'a>(table: TableId, key: &'a [u8], value: &'a [u8]) -> Put<'a> {
    let target = Target { table, ..target(key) };
    Put { target, expires_at_ms: None, value: Value::new(value).unwrap() }
}

fn map(address: &str, incarnation: Incarnation) -> ClusterMap {
    let nodes = vec![NodeEntry { id: NODE, incarnation, address: address.to_owned() }];
    let partitions = Durability::ALL.into_iter().enumerate().flat_map(|(index, durability)| {
        let class = match durability {
            Durability::Memory => TableClass::DEFAULT,
            _ => TableClass { replicas: 1, durability },
        };
        (0..EACH).map(move |number| {
            let slot = |at: u16| Slot::from_number(at * (Slot::COUNT / EACH)).unwrap();
            let last = Slot::from_number((number + 1) * (Slot::COUNT / EACH) - 1).unwrap();
            PartitionEntry {
                id: PartitionId(index as u16 * EACH + number),
                class,
                first_slot: slot(number),
                last_slot: last,
                epoch: 1,
                primary: Some(NODE),
                members: vec![NODE],
                is_lost: false,
            }
        })
    });
    ClusterMap::new(1, nodes, partitions.collect()).unwrap()
}
