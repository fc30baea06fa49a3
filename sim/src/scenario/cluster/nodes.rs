//! Hosts that run what production runs: nodes with their coordinators, and clients that keep a history.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use weft_protocol::control::v1::{ListTablesResponse, StatusResponse};
use weft_protocol::{ClusterMap, Durability, Slot, TableClass};
use weft_server::coordinator::{Answer, Ask};
use weft_server::handler::NodeHandler;
use weft_transport::{
    EndpointConfig, Incarnation, Memory, MemoryConfig, NoHandler, NodeId, SimCrash, Time,
};

use super::brief_losses::lost_brief;
use super::host::{Host, PORT};
use super::judging::{ill, newest_map, unsettled};
use super::leaving::Left;
use super::losses::{self, Losses};
use super::stopping::Stopped;
use super::tables::{Made, Maker};
use super::{Begins, Builder, Options, Place, Role, Stands, sparing};
use crate::cluster::{BuildError, Connector};
use crate::history::{Ending, Operation, Recorder};
use crate::nemesis::Spares;
use crate::planted::Planted;
use crate::scenario::Failure;
use crate::scenario::keys::{Keys, TableKeys};
use crate::scenario::requester::{REQUESTERS_MAX, Requester};
use crate::world::{DiskFate, MemberId, Watcher, World};

/// Everybody of a run.
pub(super) struct Cluster {
    pub(super) seed: u64,
    pub(super) planted: Option<Planted>,
    options: Options,
    pub(super) recorder: Recorder,
    pub(super) keys: Rc<Keys>,
    failures: Rc<Cell<u64>>,
    pub(super) failed: Rc<RefCell<Option<Failure>>>,
    /// What was in doubt before its time was over.
    doubt: Rc<RefCell<Option<Failure>>>,
    pub(super) hosts: Rc<RefCell<BTreeMap<MemberId, Host>>>,
    /// Where coordinators listen.
    pub(super) seeds: Vec<SocketAddr>,
    /// What came of the tables that were to be made.
    pub(super) made: Rc<Cell<Made>>,
    /// Keys whose partition was lost, as it may be when what held it is gone.
    pub(super) lost: BTreeSet<Vec<u8>>,
    /// What was left of partitions when they were lost.
    pub(super) losses: Rc<RefCell<Losses>>,
    pub(super) stopped: Stopped,
    pub(super) left: Left,
    /// How many orders were given.
    pub(super) orders_given: u64,
    /// Of all lives.
    pub(super) handlers: Vec<Arc<NodeHandler>>,
}

impl Drop for Cluster {
    /// A handler and its endpoint keep each other while they know of connections: thousands of runs in one process would be more than it has room for.
    fn drop(&mut self) {
        self.handlers.iter().for_each(|handler| handler.forget_surroundings());
    }
}

/// What the coordinators say.
#[derive(Debug)]
struct Told {
    status: StatusResponse,
    tables: ListTablesResponse,
}

const CLIENT_MEMORY_BYTES: u64 = 64 << 20;

impl Cluster {
    pub(super) fn new(seed: u64, options: &Options, planted: Option<Planted>) -> Cluster {
        let of_default = Keys::new(options.keys, options.keys, options.keys);
        let keys = Rc::new(options.tables.names().fold(of_default, Keys::and_of));
        Cluster {
            seed,
            planted,
            options: options.clone(),
            recorder: Recorder::new(),
            keys,
            failures: Rc::default(),
            failed: Rc::default(),
            doubt: Rc::default(),
            hosts: Rc::default(),
            seeds: (1..=options.coordinators as u8)
                .map(|host| SocketAddr::from(([10, 0, 0, host], PORT)))
                .collect(),
            made: Rc::default(),
            lost: BTreeSet::new(),
            losses: Rc::default(),
            stopped: Stopped::default(),
            left: Left::default(),
            orders_given: 0,
            handlers: Vec::new(),
        }
    }

    /// The class of the table with these keys.
    pub(super) fn class(&self, keys: &TableKeys) -> TableClass {
        let tables = &self.options.tables;
        let mut named = tables.names().zip(&tables.lasting);
        let of_table = named.find(|(name, _)| Some(name) == keys.table.as_ref());
        of_table.map_or(self.options.default_table(), |(_, options)| *options).class()
    }

    /// The keys whose partition is lost, by the map of the end.
    fn lost_keys(&self, map: &ClusterMap) -> BTreeSet<Vec<u8>> {
        let is_lost = |keys: &TableKeys, key: &[u8]| {
            let (class, slot) = (self.class(keys), Slot::of(key));
            map.partitions().iter().any(|entry| {
                let is_of_key = (entry.first_slot..=entry.last_slot).contains(&slot);
                entry.is_lost && entry.class == class && is_of_key
            })
        };
        let lost = self.keys.all().filter(|(keys, key)| is_lost(keys, key));
        lost.map(|(_, key)| key.clone()).collect()
    }

    fn client(
        &mut self,
        world: &mut World,
        place: Place,
        options: &Options,
    ) -> Result<(), BuildError> {
        let Place { member, number, .. } = place;
        let connector = self.connector(world, member, number, options.timeout)?;
        for of_client in 0..options.requesters {
            let number = number * REQUESTERS_MAX + of_client;
            let mut requester = self.requester(world, number, options.timeout, options);
            requester.only_reads = of_client > 0 && of_client + 1 == options.requesters;
            let random = StdRng::seed_from_u64(self.seed.wrapping_add(u64::from(number)));
            let work = requester.work(connector.clone(), options.operations, options.think, random);
            world.spawn_on(member, work);
        }
        if number == 0 && options.tables.count() > 0 {
            let number = MAKER * REQUESTERS_MAX;
            let hand = self.requester(world, number, options.timeout, options);
            let maker = Maker { hand, tables: options.tables.clone(), made: Rc::clone(&self.made) };
            let random = StdRng::seed_from_u64(self.seed.wrapping_add(u64::from(number)));
            world.spawn_on(member, maker.work(connector, random));
        }
        Ok(())
    }

    /// What disks had is not lost, as long as none of them was replaced: who is left then may be one that the others had gone on without a moment before.
    ///
    /// A partition is, if all power is gone before it is on any disk, with nothing in it.
    fn check_lost(&self) -> Result<(), Failure> {
        let is_replaced = |host: &Host| host.role == Role::Storage && host.replaced;
        if self.hosts.borrow().values().any(is_replaced) {
            return Ok(());
        }
        // What is on disk soon is as good, as long as every life of a node that keeps something was told to end and has closed its logs.
        let ended_badly = |host: &Host| host.role == Role::Storage && host.ended_badly;
        let are_closed = !self.hosts.borrow().values().any(ended_badly);
        let is_synced = |keys: &TableKeys| match self.class(keys).durability {
            Durability::Memory => false,
            Durability::Disk => are_closed,
            Durability::Fsync => true,
        };
        let synced = self.keys.all().filter(|(keys, _)| is_synced(keys));
        let synced: BTreeSet<&Vec<u8>> = synced.map(|(_, key)| key).collect();
        match self.lost_changes().iter().find(|change| synced.contains(&change.key)) {
            Some(change) => {
                let reason = format!("a partition is lost, though it was on disk: {change}");
                Err(Failure::NotConverged { reason })
            }
            None => Ok(()),
        }
    }

    /// The same of the tables that were to be there for a short time, and are there still, since nobody was told that they were dropped.
    fn check_lost_brief(
        &self,
        map: &ClusterMap,
        tables: &ListTablesResponse,
    ) -> Result<(), Failure> {
        let is_replaced = |host: &Host| host.role == Role::Storage && host.replaced;
        if self.hosts.borrow().values().any(is_replaced) {
            return Ok(());
        }
        let names = tables.tables.iter().map(|table| &*table.name).collect();
        let history = self.recorder.history();
        match lost_brief(&history, &self.options.tables.brief, map, &names) {
            Some(change) => {
                let reason = format!("a partition is lost, though it was on disk: {change}");
                Err(Failure::NotConverged { reason })
            }
            None => Ok(()),
        }
    }

    /// What the coordinators say of the cluster, whichever node is asked.
    fn told(&self, world: &mut World) -> Result<Option<Told>, Failure> {
        let asking = self.hosts.borrow().values().find_map(|host| {
            let (handler, endpoint) = (host.handler.clone()?, host.endpoint.clone()?);
            (host.role == Role::Storage).then_some((handler, endpoint))
        });
        let Some((handler, endpoint)) = asking else { return Ok(None) };
        let told = Rc::<RefCell<Option<Told>>>::default();
        let telling = Rc::clone(&told);
        world.spawn(async move {
            let status = handler.ask_coordinators(&endpoint, &Ask::Status).await;
            let tables = handler.ask_coordinators(&endpoint, &Ask::Tables).await;
            if let (Answer::Status(status), Answer::Tables(tables)) = (status, tables) {
                telling.replace(Some(Told { status: *status, tables: *tables }));
            }
        });
        let end = world.clock().now() + HEALED_TIMEOUT;
        if !world.run_until(end)? {
            let state = "the coordinators do not say how the cluster is".to_owned();
            return Err(Failure::TooLong { at: end, state });
        }
        Ok(told.take())
    }

    /// What keeps the cluster from being as it should be, by itself and by what its coordinators say; or what they say.
    fn look(&self, world: &mut World) -> Result<Result<Told, String>, Failure> {
        if let Some(reason) = unsettled(&self.hosts.borrow()) {
            return Ok(Err(reason));
        }
        let Some(told) = self.told(world)? else {
            return Ok(Err("the coordinators do not say how the cluster is".to_owned()));
        };
        let ill = ill(&self.hosts.borrow(), &told.status, &told.tables);
        Ok(ill.map_or(Ok(told), Err))
    }

    /// The changes that were acknowledged and went with their partitions.
    pub(super) fn lost_changes(&self) -> Vec<Operation> {
        let history = self.recorder.history();
        let is_lost = |operation: &&Operation| {
            let is_acknowledged = matches!(operation.ending, Ending::Completed { .. });
            operation.action.is_mutation() && is_acknowledged && self.lost.contains(&operation.key)
        };
        history.operations().iter().filter(is_lost).cloned().collect()
    }

    /// Ends the process of a storage node, if it has not ended, and starts another.
    fn start_again(
        &mut self,
        world: &mut World,
        member: MemberId,
        number: u32,
        options: &Options,
    ) -> Result<(), BuildError> {
        let begins = Begins::Again(DiskFate::Kept);
        let place = Place { member, role: Role::Storage, number, begins };
        world.crash(member, SimCrash::Process);
        world.restart(member, DiskFate::Kept, |world| self.node(world, place, options))
    }

    fn connector(
        &self,
        world: &mut World,
        member: MemberId,
        number: u32,
        timeout: Duration,
    ) -> Result<Connector, BuildError> {
        let memory = Memory::new(MemoryConfig { limit_bytes: CLIENT_MEMORY_BYTES })?;
        let mut config =
            EndpointConfig::new(NodeId::client(u64::from(number)), Incarnation(1), memory);
        config.backoff = weft_client::BACKOFF;
        let endpoint = world.add_endpoint(member, config, Arc::new(NoHandler))?;
        let addresses = self.seeds.iter().map(SocketAddr::to_string);
        Ok(Connector::new(member, endpoint, addresses, timeout))
    }

    fn requester(
        &self,
        world: &World,
        number: u32,
        timeout: Duration,
        options: &Options,
    ) -> Requester {
        Requester {
            number,
            keys: Rc::clone(&self.keys),
            recorder: self.recorder.clone(),
            clock: world.clock().clone(),
            timeout,
            only_reads: false,
            value_bytes_max: options.value_bytes_max,
            versions: RefCell::default(),
            asked_at: Cell::new(Time::ZERO),
            failures: Rc::clone(&self.failures),
            failed: Rc::clone(&self.failed),
            doubt: Rc::clone(&self.doubt),
        }
    }
}

impl Builder for Cluster {
    fn build(
        &mut self,
        world: &mut World,
        place: Place,
        options: &Options,
    ) -> Result<(), BuildError> {
        match place.role {
            Role::Coordinator | Role::Storage => self.node(world, place, options),
            Role::Client => self.client(world, place, options),
        }
    }

    /// What a host holds is to be somewhere else too before it goes.
    fn spares(&self) -> Box<Spares> {
        Box::new(sparing::spares(Rc::clone(&self.hosts), self.options.on_disk()))
    }

    fn stop(&mut self, world: &mut World, member: MemberId) -> Result<bool, BuildError> {
        self.tell_to_end(world, member)
    }

    fn leave(&mut self, world: &mut World, member: MemberId) -> bool {
        self.tell_to_leave(world, member)
    }

    fn stay(&mut self, world: &mut World, member: MemberId) -> Stands {
        self.tell_to_stay(world, member)
    }

    fn stands(&self, world: &World, member: MemberId) -> Stands {
        self.parting_of(world, member)
    }

    fn watcher(&self) -> Option<Box<Watcher>> {
        Some(Box::new(losses::watch(Rc::clone(&self.hosts), Rc::clone(&self.losses))))
    }

    fn failed(&self) -> u64 {
        self.failures.get()
    }

    fn state(&self, _: &Options) -> String {
        let unsettled = unsettled(&self.hosts.borrow());
        unsettled.unwrap_or_else(|| "the cluster is as it should be".to_owned())
    }

    /// Nodes whose log has failed, which has to be done for them; those that met a full disk when they started, which end; and those that were told to end, or to leave.
    fn start_ended(&mut self, world: &mut World, options: &Options) -> Result<(), Failure> {
        self.await_ends(world)?;
        let failed: Vec<(MemberId, u32)> = {
            let hosts = self.hosts.borrow();
            let has_ended = |host: &Host| host.has_failed() || host.parting.is_told();
            let failed = hosts.iter().filter(|(_, host)| has_ended(host));
            failed.map(|(member, host)| (*member, host.number())).collect()
        };
        for (member, number) in failed {
            self.start_again(world, member, number, options)?;
        }
        for member in self.have_all_stay(world)? {
            let number = self.hosts.borrow()[&member].number();
            self.start_again(world, member, number, options)?;
        }
        Ok(())
    }

    fn converge(&mut self, world: &mut World, options: &Options) -> Result<(), Failure> {
        self.start_ended(world, options)?;
        if let Some(failure) = self.failed.take() {
            return Err(failure);
        }
        let disks = self.hosts.borrow();
        let outgrown = disks.keys().find(|member| world.disk(**member).lock().outgrown() > 0);
        if let Some(member) = outgrown {
            let reason = format!("{member:?}: a file is longer than what was kept for it");
            return Err(Failure::NotConverged { reason });
        }
        drop(disks);
        let end = world.clock().now() + CONVERGED_AFTER_MAX;
        let told = loop {
            let reason = match self.look(world)? {
                Ok(told) => break told,
                Err(reason) => reason,
            };
            if world.clock().now() >= end {
                return Err(Failure::NotConverged { reason });
            }
            let next = world.clock().now() + LOOK_EVERY;
            world.go_on_until(next)?;
        };
        let map = newest_map(&self.hosts.borrow()).expect("it was there a moment ago");
        self.lost = self.lost_keys(&map);
        self.check_lost()?;
        self.check_lost_brief(&map, &told.tables)?;
        let keys = self.keys.all().map(|(_, key)| key);
        let there = keys.filter(|key| !self.lost.contains(*key)).cloned().collect();
        let member = world.add_host([10, 0, 9, 1].into(), None);
        let connector = self.connector(world, member, READER, HEALED_TIMEOUT)?;
        let reader = self.requester(world, READER * REQUESTERS_MAX, HEALED_TIMEOUT, options);
        world.spawn(reader.read_all(connector, there, None));
        let end = world.clock().now() + 10 * HEALED_TIMEOUT;
        if !world.run_until(end)? {
            return Err(Failure::TooLong { at: end, state: self.state(options) });
        }
        match self.failed.take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}

/// How long a cluster in which nothing is wrong any more takes to be as it should be, at most.
const CONVERGED_AFTER_MAX: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Longer than anything takes in a cluster that is well.
const HEALED_TIMEOUT: Duration = Duration::from_secs(60);
/// The number by which a history knows who makes tables.
const MAKER: u32 = 98;
/// The number of the client that reads everything in the end.
const READER: u32 = 99;
