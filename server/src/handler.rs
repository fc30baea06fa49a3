//! A storage node without sockets and threads: what it does with the requests that arrive.
//!
//! The transport calls it, with a batch at a time, on the thread that received the batch, and in
//! the simulator it is called the same way. It does no I/O and asks only the clock that it was
//! given.
//!
//! A batch runs to completion: its requests are decoded where they were received, the memory they
//! will read is prefetched, and each is worked off by its operation through the one match in
//! `dispatch`. A partition's lock is kept from one request to the next while they are for the same
//! partition.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use weft_protocol::{
    ClusterMap, Configuration, ErrorCode, ErrorReply, Member, PartitionId, StatsReply, TableId,
};
use weft_transport::{Batch, Clock, Handler, Incarnation, NodeId, SendError, Time};

use crate::answers::Answers;
use crate::catalog::NodeCatalog;
use crate::cleaner::Cleaner;
use crate::clients::Clients;
use crate::cluster::coordination::Coordination;
pub use crate::cluster::hosted::LastEntry;
use crate::cluster::hosted::{Due, Now};
pub use crate::cluster::reports::{Report, Told};
use crate::cluster::{Cluster, ClusterSettings};
use crate::coordinator::{ClusterId, Timing};
use crate::counters::Counters;
use crate::durable::{Event, Mode};
use crate::evictor::Evictor;
use crate::hot_keys::HotKeys;
use crate::logs::{Logs, NoLog, RecoveredPartition, log_of};
use crate::maps::Maps;
use crate::memory::NodeMemory;
use crate::partitions::Partitions;
pub use crate::partitions::Placement;
use crate::pins::Pins;
use crate::replication::{LeaseSettings, Settings};
use crate::report::{self, Surroundings};
use crate::scratch::Scratch;
use crate::store::StoreError;
use crate::sweeper::Sweeper;
pub use crate::watches::Answer;
use crate::watches::Watches;
use crate::withheld::Answer as WithheldAnswer;
use crate::work::Work;

/// What a node starts from.
#[derive(Debug)]
pub struct NodeOptions {
    /// Who it is.
    pub node: NodeId,
    /// Which life of it this is.
    pub incarnation: Incarnation,
    /// Where everything is kept.
    pub memory: NodeMemory,
    /// What it asks for the time.
    pub clock: Clock,
    /// What keys are hashed with: random, and secret, so that nobody can choose keys that collide.
    pub seed: u64,
    /// How often it tells others that it is there.
    pub heartbeat: Duration,
    /// How long leases between nodes last; the same on all of them.
    pub lease_settings: LeaseSettings,
    /// What replicas go by.
    pub replica_settings: Settings,
    /// Whether the node may have had an earlier life whose leases still run.
    pub has_earlier_life: bool,
    /// What is kept on disk. A node without can hold only what is kept in memory.
    pub logs: Option<Logs>,
    /// A bug that was put in. Those of replication are in the settings of replicas, those of logs in theirs.
    #[cfg(any(test, feature = "planted-bugs"))]
    pub planted_in_store: Option<crate::store::PlantedBug>,
}

/// A storage node without sockets and threads.
pub struct NodeHandler {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) memory: NodeMemory,
    pub(crate) partitions: Partitions,
    pub(crate) cluster: Cluster,
    pub(crate) logs: Option<Logs>,
    pub(crate) pins: Pins,
    pub(crate) catalog: NodeCatalog,
    pub(crate) cleaner: Cleaner,
    pub(crate) evictor: Evictor,
    pub(crate) sweeper: Sweeper,
    pub(crate) scratch: Scratch,
    pub(crate) counters: Counters,
    pub(crate) hot_keys: HotKeys,
    pub(crate) watches: Watches,
    pub(crate) answers: Arc<Answers>,
    pub(crate) coordination: Arc<Coordination>,
    pub(crate) surroundings: RwLock<Option<Box<dyn Fn() -> Surroundings + Send + Sync>>>,
    pub(crate) maps: Maps,
    /// Placements that memory had no room for, and the version of the map that they came with: the latest of each partition.
    refused: Mutex<BTreeMap<PartitionId, (u64, Placement)>>,
    pub(crate) clients: Arc<Clients>,
    clock: Clock,
    started_at: Time,
    stopping: AtomicBool,
}

impl NodeOptions {
    /// A node with the usual settings, in its first life.
    pub fn new(me: Member, memory: NodeMemory, clock: Clock, seed: u64) -> NodeOptions {
        NodeOptions {
            node: me.node,
            incarnation: me.incarnation,
            memory,
            clock,
            seed,
            heartbeat: Timing::default().heartbeat(),
            lease_settings: LeaseSettings::default(),
            replica_settings: Settings::default(),
            has_earlier_life: false,
            logs: None,
            #[cfg(any(test, feature = "planted-bugs"))]
            planted_in_store: None,
        }
    }

    /// Of a cluster whose nodes keep this time.
    pub fn keep_time(&mut self, timing: Timing) {
        self.heartbeat = timing.heartbeat();
        self.lease_settings = timing.leases();
        self.replica_settings = timing.replicas();
    }
}

impl NodeHandler {
    /// A node with nothing in it.
    ///
    /// # Errors
    /// [`StoreError::EpochsExhausted`] if the map's epoch is beyond what versions have room for, and
    /// [`StoreError::MemoryLimit`] if the memory has no room for the partitions, for counts of hot keys, or for a request to be worked off in.
    pub fn new(options: NodeOptions) -> Result<NodeHandler, StoreError> {
        let NodeOptions {
            node,
            incarnation,
            memory,
            clock,
            seed,
            heartbeat,
            lease_settings,
            replica_settings,
            has_earlier_life,
            logs,
            #[cfg(any(test, feature = "planted-bugs"))]
            planted_in_store,
        } = options;
        let started_at = clock.now();
        let me = Member { node, incarnation };
        let clients = Arc::new(Clients::new(seed, me));
        let cluster = Cluster::new(
            me,
            ClusterSettings {
                heartbeat,
                leases: lease_settings,
                replicas: replica_settings,
                #[cfg(any(test, feature = "planted-bugs"))]
                planted_in_store,
            },
            started_at,
            has_earlier_life,
            Arc::clone(&clients),
            &memory.store,
        );
        Ok(NodeHandler {
            node,
            incarnation,
            hot_keys: HotKeys::new(&memory.network, seed, started_at)
                .map_err(StoreError::MemoryLimit)?,
            watches: Watches::new(&memory.network, seed, started_at),
            partitions: Partitions::new(&memory.store, seed)?,
            cluster,
            logs,
            pins: Pins::new(memory.clone()),
            catalog: NodeCatalog::new(&memory.store),
            cleaner: Cleaner::new(memory.store.clone()),
            answers: Arc::default(),
            coordination: Arc::new(Coordination::new(node, seed.rotate_left(32) ^ incarnation.0)),
            evictor: Evictor::default(),
            sweeper: Sweeper::default(),
            scratch: Scratch::new(memory.network.clone()).map_err(StoreError::MemoryLimit)?,
            memory,
            counters: Counters::new(),
            surroundings: RwLock::new(None),
            maps: Maps::default(),
            refused: Mutex::default(),
            clients,
            started_at,
            clock,
            stopping: AtomicBool::new(false),
        })
    }

    /// The node is of this cluster from now on, in which it may be a coordinator.
    pub fn belong(&self, cluster: ClusterId, may_coordinate: bool) {
        self.coordination.set_cluster(cluster);
        self.coordination.set_may_coordinate(may_coordinate);
    }

    /// The coordinator has committed `map`, of which `placements` are all that concern this node, or did before: what it holds, serves and tells is
    /// by that from now on. Placements that are older than what is known are ignored, so that maps may come in any order,
    /// and so are those of an earlier life of this node.
    ///
    /// # Errors
    /// [`StoreError::MemoryLimit`] if there is no room for a partition, which is [tried again](Self::try_refused_again) if it is kept in memory. [`StoreError::NoDataDirectory`] if a partition's tables
    /// are kept on disk, and this node has [no logs](NodeOptions::logs), and [`StoreError::PartitionIncomplete`] if its log of one is not complete though it is to be
    /// a member in an epoch that the log knows. All others were taken.
    pub fn learn(&self, map: ClusterMap, placements: &[Placement]) -> Result<(), StoreError> {
        let version = map.epoch();
        let mut due = Due::default();
        let placed = self.place(version, placements, &mut due);
        self.partitions.learn_epoch(version);
        self.cluster.leases.learned(version);
        self.maps.replace(map);
        self.cluster.deliver(&self.answers, &mut due);
        self.share_quotas_anew();
        placed
    }

    /// Takes the partitions that memory had no room for when this node was given them, as far as it has by now: nobody gives them to it again. Whoever runs the node
    /// calls this with every heartbeat.
    pub fn try_refused_again(&self) {
        let refused = std::mem::take(&mut *self.refused.lock());
        if refused.is_empty() {
            return;
        }
        let mut due = Due::default();
        for (partition, (version, placement)) in refused {
            if self.place(version, &[placement], &mut due).is_ok() {
                tracing::info!(partition = partition.0, "there is room for a partition by now");
            }
        }
        self.cluster.deliver(&self.answers, &mut due);
        self.share_quotas_anew();
    }

    /// Holds, serves and gives up partitions as these placements say, which came with the map of this version.
    fn place(
        &self,
        version: u64,
        placements: &[Placement],
        due: &mut Due,
    ) -> Result<(), StoreError> {
        let now = self.now_by_both();
        let mut refused = Ok(());
        for placement in placements {
            self.refused.lock().remove(&placement.id);
            let configuration = &placement.configuration;
            let me = self.cluster.me;
            if names_earlier_life(configuration, me) {
                // Of before this life: that it joined with what its log has is still to come, and it may be a member by that.
                continue;
            }
            let holds = configuration.has_member(me) || configuration.learners.contains(&me);
            let logs = self.logs.as_ref();
            let durability = placement.class.durability;
            let is_here = holds || logs.is_some_and(|logs| logs.waits(placement.id));
            let is_new_here = configuration.has_member(me) && !configuration.is_lost;
            let lacks = |logs: &Logs| is_new_here && logs.lacks(placement.id, configuration.epoch);
            let position = match self.partitions.position_of_id(placement.id) {
                None if !is_here => None,
                None if logs.is_some_and(lacks) => {
                    let partition = placement.id.0;
                    refused = Err(StoreError::PartitionIncomplete { partition });
                    None
                }
                _ => match log_of(logs, durability) {
                    Ok(log) => match self.partitions.host_of(&self.cluster, placement, log) {
                        Ok(position) => Some(position),
                        Err(error) => {
                            // What its log had has been given up: it begins anew when the coordinators give it the partition in another epoch.
                            if log.is_none() {
                                let again = (version, placement.clone());
                                self.refused.lock().insert(placement.id, again);
                            }
                            refused = Err(error);
                            None
                        }
                    },
                    Err(NoLog) => {
                        refused = Err(StoreError::NoDataDirectory { partition: placement.id.0 });
                        None
                    }
                },
            };
            if let Some(position) = position {
                let mut hosted = self.partitions.host(position);
                hosted.configure(&self.cluster, placement, version, now, due);
                self.cluster.reports.settled(placement.id, configuration.epoch);
            }
            let serves = position.filter(|_| configuration.primary == Some(me));
            self.partitions.lead(placement, serves);
        }
        refused
    }

    /// What its logs had of partitions when it started, by number. Those that are complete keep their place, if the coordinator is told of them before it gives the node its
    /// life; all others begin anew.
    pub fn recovered(&self) -> &[RecoveredPartition] {
        self.logs.as_ref().map_or(&[], Logs::found)
    }

    /// What is kept on disk, if anything is.
    pub fn logs(&self) -> Option<&Logs> {
        self.logs.as_ref()
    }

    /// The log of `mode` tells what became so. Whoever drives the log calls this, in order.
    pub fn log_told(&self, mode: Mode, events: &[Event]) {
        let (now, mut due) = (self.now_by_both(), Due::default());
        let mut is_of_all = false;
        for event in events {
            match event {
                Event::Durable { partition, .. }
                | Event::BegunAnew { partition }
                | Event::SnapshotDurable { partition } => {
                    let Some(position) = self.partitions.position_of_id(*partition) else {
                        continue;
                    };
                    let mut hosted = self.partitions.host(position);
                    hosted.log_told(event);
                    hosted.settle(&self.cluster, now, &mut due);
                }
                Event::Fenced { .. } => {}
                Event::Opened | Event::MadeRoom | Event::Closed => is_of_all = true,
                Event::Full => {
                    let log = mode.name();
                    tracing::warn!(log, "the disk is full: writes are refused until it has room");
                    is_of_all = true;
                }
                Event::Resumed => {
                    tracing::info!(log = mode.name(), "the disk has room again");
                    is_of_all = true;
                }
                Event::Poisoned { error } => {
                    let log = mode.name();
                    tracing::error!(log, %error, "a log failed: nothing is acknowledged any more that it has to have; check the disk and restart the node");
                    is_of_all = true;
                }
            }
        }
        let is_awaited = self.logs.as_ref().is_some_and(|logs| logs.journal(mode).take_awaited());
        if is_of_all || is_awaited {
            self.settle_log(mode, now, &mut due);
        }
        self.cluster.deliver(&self.answers, &mut due);
    }

    /// Hands over to the log of `mode` what it had no room for before. Returns whether it has all of it now that anybody was told of, or has failed.
    pub fn flush_log(&self, mode: Mode) -> bool {
        let (now, mut due) = (self.now_by_both(), Due::default());
        self.settle_log(mode, now, &mut due);
        self.cluster.deliver(&self.answers, &mut due);
        self.partitions.positions().all(|position| {
            let hosted = self.partitions.host(position);
            !hosted.is_in(mode) || hosted.is_flushed()
        })
    }

    fn settle_log(&self, mode: Mode, now: Now, due: &mut Due) {
        for position in self.partitions.positions() {
            let mut hosted = self.partitions.host(position);
            if hosted.is_in(mode) {
                hosted.record();
                hosted.settle(&self.cluster, now, due);
            }
        }
    }

    /// What the coordinator is to be told of the partitions here, and whether this node wants to see a newer map. `reporter` is woken when there is more;
    /// what is so is told again with every heartbeat.
    pub fn reports(&self, reporter: &Waker) -> (Vec<Told>, bool) {
        self.cluster.reports.due(reporter)
    }

    /// How many learners this node has given up, as primary or as the learner.
    pub fn learners_given_up(&self) -> u64 {
        self.cluster.reports.given_up()
    }

    /// Whether this node serves every partition that it is to be the primary of.
    pub(crate) fn serves_what_it_leads(&self, map: &ClusterMap) -> bool {
        let mut led = map.partitions().iter().filter(|entry| entry.primary == Some(self.node));
        led.all(|entry| {
            let position = self.partitions.position_of_id(entry.id);
            position.is_some_and(|position| self.partitions.host(position).serves())
        })
    }

    /// A digest of every partition that this node holds, by number: equal on all members that have applied the same entries. With it, whether the
    /// node is in sync.
    pub fn digests(&self) -> Vec<(PartitionId, u128, bool)> {
        let unix_ms = self.now_by_both().unix_ms;
        let digest = |position| self.partitions.host(position).digest(unix_ms);
        self.partitions.positions().map(digest).collect()
    }

    /// Up to where this node has every partition that it was ever given.
    pub fn last_entries(&self) -> Vec<LastEntry> {
        let last = |position| self.partitions.host(position).last_entry();
        self.partitions.positions().map(last).collect()
    }

    /// What there is here of every partition that this node was ever given: its number, how many objects, and the tables besides the one that is always
    /// there. Of one that is others' by now there is nothing.
    pub fn holdings(&self) -> Vec<(PartitionId, u64, Vec<TableId>)> {
        let holding = |position| self.partitions.host(position).holding();
        self.partitions.positions().map(holding).collect()
    }

    /// Says whom to ask for what only a shell knows. Without that, it is missing from the stats.
    pub fn observe(&self, surroundings: impl Fn() -> Surroundings + Send + Sync + 'static) {
        *self.surroundings.write() = Some(Box::new(surroundings));
    }

    /// Asks nobody any more, and knows of no connection: whoever runs the node is done with it, and each of these would keep the endpoint, which keeps this.
    pub fn forget_surroundings(&self) {
        *self.surroundings.write() = None;
        self.cluster.peers.forget();
    }

    /// Refuses every request from now on, those that wait for events of a watch included: the node is being stopped.
    pub fn take_no_more(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.watches.close();
    }

    /// Whether requests are refused.
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// For some ten microseconds, ends watches that nobody asks for, has partitions forget clients that are over, removes objects that are of no use any more, or empties segments of the log if memory is
    /// short enough for that, or goes on with writing partitions anew to their log on disk. Returns whether there was something to do.
    pub fn clean(&self) -> bool {
        let (now, now_ms) = (self.clock.now(), self.clock.unix_millis());
        // In this order: what is removed does not have to move.
        self.watches.end_abandoned(&self.partitions, now)
            || self.see_to_clients(now)
            || self.sweeper.step(&self.partitions, self.cleaner.is_memory_short(), now, now_ms)
            || self.cleaner.step(&self.partitions, now_ms)
            || self.logs.as_ref().is_some_and(|logs| logs.rewrite(&self.partitions))
    }

    /// For a millisecond or several, gets memory ready for what will be written next, if much is written. Returns whether there was something to do.
    pub fn get_memory_ahead(&self) -> bool {
        let began = self.clock.now();
        let has_got = self.cluster.pages.is_due(began) && self.memory.store.get_ahead();
        if has_got {
            self.cluster.pages.got(began, self.clock.now());
        }
        has_got
    }

    /// The answers that are due to those who wait for events of their watches, and when the next one is due though there is no
    /// event. `answerer` is woken if one is due before. Whoever runs the node calls this again and again, and sends what it
    /// returns.
    pub fn watch_answers(&self, answerer: &Waker) -> (Vec<Answer>, Option<Time>) {
        self.watches.answers(answerer, self.clock.now())
    }

    /// The answers that are due and for which their peers have no room yet: whoever runs the node sends them, as it sends
    /// [those of watches](Self::watch_answers). `sender` is woken when there are more.
    pub fn late_answers(&self, sender: &Waker) -> Vec<LateAnswer> {
        self.answers.take_late(sender).into_iter().map(LateAnswer).collect()
    }

    /// How the node is: what it holds, what it has done, what that costs.
    pub fn stats(&self) -> StatsReply<'static> {
        report::stats(self)
    }

    /// Who holds what, as this node knows it, once it does.
    pub fn map(&self) -> Option<Arc<ClusterMap>> {
        self.maps.current()
    }

    /// What both clocks say.
    pub(crate) fn now_by_both(&self) -> Now {
        Now { time: self.clock.now(), unix_ms: self.clock.unix_millis() }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What the clock says.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// How long it has been up, in milliseconds.
    pub(crate) fn uptime_ms(&self) -> u64 {
        let uptime = self.clock.now().since(self.started_at);
        u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX)
    }

    /// What a client is told of a write that the store refused. Without a detail, so that the
    /// errors of all items of a multi-operation fit one part.
    #[cold]
    pub(crate) fn refusal(&self, error: &StoreError) -> ErrorReply<'static> {
        match error {
            StoreError::MemoryLimit(_) => ErrorReply::memory_limit(self.memory.limit_bytes()),
            StoreError::KeyTooLong { .. } => ErrorReply::new(ErrorCode::KeyTooLong),
            StoreError::ValueTooLarge { limit, .. } => {
                ErrorReply { argument: *limit as u64, ..ErrorReply::new(ErrorCode::ValueTooLarge) }
            }
            StoreError::TooManyFields { limit, .. } => {
                ErrorReply { argument: *limit as u64, ..ErrorReply::new(ErrorCode::TooManyFields) }
            }
            StoreError::TableUnknown { .. } => ErrorReply::new(ErrorCode::TableUnknown),
            StoreError::QuotaReached { limit } => {
                ErrorReply { argument: *limit, ..ErrorReply::new(ErrorCode::QuotaReached) }
            }
            StoreError::OnlyByUpload { .. } => ErrorReply::new(ErrorCode::OnlyByUpload),
            StoreError::UploadUnknown => ErrorReply::new(ErrorCode::UploadUnknown),
            StoreError::NotARecord => ErrorReply::new(ErrorCode::NotARecord),
            StoreError::NotANumber => ErrorReply::new(ErrorCode::NotANumber),
            StoreError::NumberOverflow => ErrorReply::new(ErrorCode::NumberOverflow),
            StoreError::NoDataDirectory { .. }
            | StoreError::PartitionIncomplete { .. }
            | StoreError::VersionsExhausted { .. }
            | StoreError::EpochsExhausted { .. }
            | StoreError::SegmentsExhausted { .. } => {
                tracing::error!(%error, "a partition can take no more writes");
                ErrorReply::new(ErrorCode::Internal)
            }
        }
    }
}

/// Whether a configuration has a node in a life before this one of its.
fn names_earlier_life(configuration: &Configuration, me: Member) -> bool {
    let mut all = configuration.members.iter().chain(&configuration.learners);
    all.any(|member| member.node == me.node && member.incarnation < me.incarnation)
}

/// An answer that waits for its peer's window.
#[derive(Debug)]
#[must_use = "who waits is answered by sending it"]
pub struct LateAnswer(WithheldAnswer);

impl LateAnswer {
    /// Sends it. Waits for the peer's window.
    ///
    /// # Errors
    /// See [`SendError`]: nobody waits any more.
    pub async fn send(self) -> Result<(), SendError> {
        self.0.send().await
    }
}

impl Handler for NodeHandler {
    fn handle(&self, batch: &mut Batch<'_>) {
        let mut work = Work::new(self, batch, self.clock.unix_millis());
        work.work_off();
        work.replicate();
        work.pay();
        self.counters.add(&work.tally);
        self.hot_keys.give_back(work.sampler);
    }
}

impl fmt::Debug for NodeHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeHandler")
            .field("node", &self.node)
            .field("incarnation", &self.incarnation)
            .field("partitions", &self.partitions.len())
            .finish_non_exhaustive()
    }
}
