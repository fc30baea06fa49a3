//! One of the workers of a job, as its program sees it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use weft_object::Types;
use weft_transport::{
    Clock, ConnectError, Connection, Endpoint, EndpointConfig, Incarnation, LinkKind, LinkPolicy,
    Memory, MemoryConfig, NodeId, Purpose, Retained, Secret, SendError,
};

use crate::budget::{self, Budget};
use crate::checkpoint::{CheckpointConfig, Checkpoints};
use crate::dispatch::Dispatch;
use crate::error::JobError;
use crate::inbox::Inbox;
use crate::message::{Header, Kind};
use crate::program::Program;
use crate::spill::Spilling;
use crate::stages::{Live, Recorder, Stages};
use crate::watcher::{Watcher, lost};

/// How long a worker may take to answer another one's connection and greeting.
const MEET_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a worker waits for another one to begin: longer than that one waits for anybody, so that
/// who is named is the one that does not answer, and not one that waits for it.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a worker that stops the job tries to tell the others.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// A worker's place among the workers of a job, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub usize);

impl WorkerId {
    fn node(self) -> NodeId {
        NodeId(self.0 as u64 + 1)
    }

    pub(crate) fn of_node(node: NodeId) -> Self {
        Self(usize::try_from(node.0.wrapping_sub(1)).unwrap_or(usize::MAX))
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.0)
    }
}

/// What a worker is told before it begins.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Which worker this is.
    pub id: WorkerId,
    /// How many there are.
    pub workers: usize,
    /// The types of all records that the job exchanges.
    pub types: Types,
    /// What the job was asked to do: equal on all workers.
    pub arguments: String,
    /// What all workers of the job know and nobody else: who does not show it is refused.
    pub secret: Secret,
    /// A worker that answers nothing for so long while others wait for it ends the job.
    pub hang_timeout: Duration,
    /// The address to listen on, by which the others can reach it.
    pub listen: IpAddr,
    /// Which attempt at the job this is, from 1: equal on all workers, and another one has a secret of its own, so that who is left of an attempt cannot disturb the next.
    pub attempt: u32,
    /// Where iterations keep their state for the next attempt, if they do: equal on all workers. `u64` has to be one of the job's types then, and
    /// the form of the records that are gone through.
    pub checkpoints: Option<CheckpointConfig>,
    /// What connects it to the others: equal on all workers.
    pub links: LinkPolicy,
    /// Bytes that records and frames may take, and graphs. What a job keeps in values of its own is not counted.
    pub memory_bytes: u64,
    /// Where records and edges go that memory has no room for.
    pub spill_folder: PathBuf,
}

/// A worker that listens and does not know the others yet.
pub struct Listening {
    config: WorkerConfig,
    endpoint: Endpoint,
    inbox: Arc<Inbox>,
    program: Program,
    address: SocketAddr,
}

impl Listening {
    /// Begins to listen on a free port of its address.
    ///
    /// # Errors
    /// No memory, no port, no thread.
    pub fn start(config: WorkerConfig) -> Result<Self, JobError> {
        let same = format!("{} {} {:?}", config.arguments, config.attempt, config.checkpoints);
        let program = Program::of_this_process(config.types.clone(), &same)
            .map_err(|error| JobError::Job(format!("cannot read this executable: {error}")))?;
        let memory = Memory::new(MemoryConfig { limit_bytes: config.memory_bytes })?;
        let inbox = Arc::new(Inbox::new(config.types.clone(), config.workers));
        let workers = config.workers;
        let handler = Dispatch { program: program.clone(), inbox: Arc::clone(&inbox), workers };
        let secret = Some(config.secret);
        let network =
            EndpointConfig::new(config.id.node(), Incarnation(config.attempt.into()), memory);
        // Who takes nothing hangs, too.
        let stall_timeout = config.hang_timeout;
        let links = config.links;
        let network = EndpointConfig { secret, stall_timeout, links, ..network };
        let endpoint = Endpoint::start(network, Arc::new(handler))?;
        let address = endpoint.listen((config.listen, 0).into())?;
        Ok(Self { config, endpoint, inbox, program, address })
    }

    /// Where the others find it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Joins the others, whose addresses are `addresses`, this worker's own among them.
    ///
    /// # Errors
    /// A worker cannot be reached, or runs another program.
    pub fn join(self, addresses: &[SocketAddr]) -> Result<Worker, JobError> {
        let Self { config, endpoint, inbox, program, .. } = self;
        if addresses.len() != config.workers {
            let (told, expected) = (addresses.len(), config.workers);
            return Err(JobError::Job(format!("{told} addresses for {expected} workers")));
        }
        let mut peers: Vec<Option<Connection>> = vec![None; config.workers];
        // Of two connections between two nodes, the one stays that the lower id began. So the lower
        // one begins, and the higher one waits for that and uses it too.
        let (lower, higher) = (0..config.id.0, config.id.0 + 1..config.workers);
        for index in higher.chain(lower) {
            let (worker, address) = (WorkerId(index), addresses[index]);
            if worker < config.id {
                wait_for_greeting(&endpoint, &inbox, worker, address)?;
            }
            let met = meet(&endpoint, &program, worker, address);
            peers[index] = Some(met.map_err(|error| inbox.cause(error))?);
        }
        let watchers = peers.iter().enumerate().filter_map(|(index, peer)| {
            let peer = peer.as_ref()?;
            Some(Watcher::new(WorkerId(index), peer, &endpoint, config.hang_timeout))
        });
        let watchers = RefCell::new(watchers.collect());
        let (memory, types) = (endpoint.memory().clone(), program.types().clone());
        let budget = Budget::of_process(memory.clone(), config.memory_bytes);
        let spilling = Spilling::new(config.spill_folder, memory, types.clone(), budget);
        let recorder = Recorder::new(endpoint.clock().clone(), config.workers, spilling.counter());
        let place = (config.id, config.workers);
        let checkpoints = config
            .checkpoints
            .map(|checkpoints| Checkpoints::new(checkpoints, &spilling, place, config.attempt))
            .transpose()?;
        Ok(Worker {
            id: config.id,
            attempt: config.attempt,
            checkpoints,
            types,
            endpoint,
            inbox,
            peers,
            watchers,
            next_stage: Cell::new(0),
            spilling,
            recorder,
        })
    }
}

fn wait_for_greeting(
    endpoint: &Endpoint,
    inbox: &Inbox,
    worker: WorkerId,
    address: SocketAddr,
) -> Result<(), JobError> {
    let deadline = endpoint.clock().now() + JOIN_TIMEOUT;
    let mut timeout = std::pin::pin!(endpoint.sleep_until(deadline));
    endpoint.block_on(std::future::poll_fn(|context| {
        if let Poll::Ready(outcome) = inbox.poll_greeted(worker, context) {
            return Poll::Ready(outcome);
        }
        timeout.as_mut().poll(context).map(|()| {
            let reason = ConnectError::DeadlineExceeded { address };
            Err(inbox.cause(JobError::Unreachable { worker, reason }))
        })
    }))
}

/// Connects to a worker and compares programs with it.
fn meet(
    endpoint: &Endpoint,
    program: &Program,
    worker: WorkerId,
    address: SocketAddr,
) -> Result<Connection, JobError> {
    let deadline = endpoint.clock().now() + MEET_TIMEOUT;
    endpoint.block_on(async {
        let connection = match endpoint.manager().connection(worker.node()) {
            Some(connection) => connection,
            None => endpoint
                .connect(address, deadline)
                .await
                .map_err(|reason| JobError::Unreachable { worker, reason })?,
        };
        let hello = Header { kind: Kind::Hello, stage: 0, sequence: 0 };
        let greeting = [&hello.encode()[..], &program.greeting()].concat();
        let answer = connection
            .call(greeting.as_slice(), deadline)
            .await
            .map_err(|error| lost(worker, error))?;
        if answer.is_empty() {
            return Ok(connection);
        }
        let difference = String::from_utf8_lossy(&answer).into_owned();
        Err(JobError::Program { worker, difference })
    })
}

/// One of the workers of a job. Every worker runs the same program, so that the exchanges of all
/// come in the same order.
pub struct Worker {
    id: WorkerId,
    attempt: u32,
    checkpoints: Option<Checkpoints>,
    types: Types,
    endpoint: Endpoint,
    inbox: Arc<Inbox>,
    /// The connections to the others; none to itself.
    peers: Vec<Option<Connection>>,
    watchers: RefCell<Vec<Watcher>>,
    next_stage: Cell<u32>,
    spilling: Spilling,
    recorder: Recorder,
}

impl Worker {
    /// Which worker this is.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// How many there are.
    pub fn workers(&self) -> usize {
        self.peers.len()
    }

    /// All of them, in order.
    pub fn ids(&self) -> impl Iterator<Item = WorkerId> + use<> {
        (0..self.workers()).map(WorkerId)
    }

    /// Which attempt at the job this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// What time it is.
    pub fn clock(&self) -> &Clock {
        self.endpoint.clock()
    }

    /// Bytes that the links to the other workers have taken so far.
    pub fn bytes_sent(&self) -> u64 {
        self.endpoint.stats().bytes_sent
    }

    /// Segments that were sent from where their records had been written.
    pub fn segments_gathered(&self) -> u64 {
        self.endpoint.stats().bodies_gathered
    }

    /// Bytes of registered memory that were ever taken to write into what is sent.
    pub fn bytes_written_into(&self) -> u64 {
        self.memory().account().handed_out_for(Purpose::Send)
    }

    /// Bytes that were kept in files so far, for want of memory.
    pub fn bytes_spilled(&self) -> u64 {
        self.spilling.bytes_spilled()
    }

    /// The most of the machine's memory that this process ever had, in bytes, if that can be told.
    pub fn peak_memory_bytes(&self) -> Option<u64> {
        budget::peak_bytes()
    }

    /// What it has done so far, stage by stage. Costs as much as there is of it, so it is for the end.
    pub fn stages(&self) -> Stages {
        self.recorder.stages()
    }

    /// What it is doing at the moment, for other threads to look at.
    pub fn live(&self) -> Arc<Live> {
        Arc::clone(self.recorder.live())
    }

    /// Notes for [`stages`](Self::stages) that what comes next was read from a file, where no dataset of this crate has read it.
    pub fn has_read(&self, path: &Path) {
        self.recorder.read(path);
    }

    /// Notes for [`stages`](Self::stages) that what has come out last was written to a file.
    pub fn has_written(&self, path: &Path) {
        self.recorder.written(path);
    }

    /// What the connection to `worker` runs over; none to itself.
    pub fn link_to(&self, worker: WorkerId) -> Option<LinkKind> {
        self.peers.get(worker.0)?.as_ref().map(Connection::link)
    }

    /// Tells the others why this worker stops the job. Takes a second at most: who takes nothing, as it hangs, is not waited for.
    pub fn stop(&self, error: &JobError) {
        let header = Header { kind: Kind::Stop, stage: 0, sequence: 0 }.encode();
        let is_loss = u8::from(error.is_loss());
        let message = [&header[..], &[is_loss], error.to_string().as_bytes()].concat();
        let mut end = std::pin::pin!(self.endpoint.sleep_until(self.clock().now() + STOP_TIMEOUT));
        for peer in self.peers.iter().flatten() {
            let mut sending = std::pin::pin!(peer.send(message.as_slice()));
            // Best effort: whom it does not reach sees the connection end.
            self.endpoint.block_on(std::future::poll_fn(|context| {
                match sending.as_mut().poll(context) {
                    Poll::Ready(_) => Poll::Ready(()),
                    Poll::Pending => end.as_mut().poll(context),
                }
            }));
        }
        self.endpoint.shutdown();
    }

    pub(crate) fn types(&self) -> &Types {
        &self.types
    }

    pub(crate) fn memory(&self) -> &Memory {
        self.endpoint.memory()
    }

    /// Where iterations keep their state, if they do.
    pub(crate) fn checkpoints(&self) -> Option<&Checkpoints> {
        self.checkpoints.as_ref()
    }

    /// Where what memory has no room for goes.
    pub(crate) fn spilling(&self) -> &Spilling {
        &self.spilling
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// What notes which stages there are.
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The number of the next exchange.
    pub(crate) fn begin_stage(&self) -> u32 {
        self.next_stage.replace(self.next_stage.get() + 1)
    }

    /// The number of the exchange that was begun last: the one whose segments are pulled.
    pub(crate) fn last_stage(&self) -> u32 {
        self.next_stage.get().saturating_sub(1)
    }

    /// Sends to another worker, for a stage; drives the links while it waits for credit.
    pub(crate) fn send<'a, F>(
        &'a self,
        to: WorkerId,
        stage: u32,
        send: impl FnOnce(&'a Connection) -> F,
    ) -> Result<(), JobError>
    where
        F: Future<Output = Result<(), SendError>>,
    {
        let mut sending = std::pin::pin!(self.sending(to, send));
        self.wait(stage, |context| sending.as_mut().poll(context))
    }

    /// The same as a future, which does not see that another worker hangs.
    pub(crate) async fn sending<'a, F>(
        &'a self,
        to: WorkerId,
        send: impl FnOnce(&'a Connection) -> F,
    ) -> Result<(), JobError>
    where
        F: Future<Output = Result<(), SendError>>,
    {
        let peer = self.peers[to.0].as_ref().expect("a worker does not send to itself");
        send(peer).await.map_err(|error| match error {
            SendError::Disconnected(reason) => {
                self.inbox.cause(JobError::Lost { worker: to, reason })
            }
            SendError::Memory(error) => JobError::Memory(error),
            SendError::TooLarge { len, .. } => unreachable!("a segment of {len} bytes"),
        })
    }

    /// Waits until something is sent, which is `None`, or a segment has come for a stage that is pulled.
    pub(crate) fn sent_or_segment(
        &self,
        mut sending: Pin<&mut impl Future<Output = Result<(), JobError>>>,
        stage: u32,
    ) -> Result<Option<(WorkerId, Retained)>, JobError> {
        self.wait(stage, |context| {
            if let Poll::Ready(sent) = sending.as_mut().poll(context) {
                return Poll::Ready(sent.map(|()| None));
            }
            match self.inbox.poll_segment(stage, context) {
                // All others have ended the stage, and this one has not sent everything yet.
                Poll::Ready(Ok(None)) => Poll::Pending,
                other => other,
            }
        })
    }

    /// Waits for the next segment of a stage that is pulled: `None` when every other worker has ended it. Who is lost after that is not missed.
    pub(crate) fn wait_for_segment(
        &self,
        stage: u32,
    ) -> Result<Option<(WorkerId, Retained)>, JobError> {
        self.wait(stage, |context| self.inbox.poll_segment(stage, context))
    }

    /// Waits until every other worker has ended `stage`. A worker that is lost after that is not
    /// missed: the last ones to leave a job see the others go.
    pub(crate) fn wait_for_end(&self, stage: u32) -> Result<(), JobError> {
        self.wait(stage, |context| self.inbox.poll_ended(stage, context))
    }

    /// Waits for something of a stage, as long as those who have not ended it are there.
    fn wait<T>(
        &self,
        stage: u32,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<Result<T, JobError>>,
    ) -> Result<T, JobError> {
        let mut watchers = self.watchers.borrow_mut();
        let mut since = None;
        let outcome = self.endpoint.block_on(std::future::poll_fn(|context: &mut Context<'_>| {
            if let Poll::Ready(outcome) = poll(context) {
                return Poll::Ready(outcome);
            }
            since.get_or_insert_with(|| self.clock().now());
            watchers.iter_mut().for_each(|watcher| watcher.poll(context));
            let missed = watchers.iter_mut().find_map(|watcher| {
                if self.inbox.has_ended(stage, watcher.worker) { None } else { watcher.lost.take() }
            });
            match missed {
                Some(error) => Poll::Ready(Err(self.inbox.cause(error))),
                None => Poll::Pending,
            }
        }));
        if let Some(since) = since {
            self.recorder.waited(self.clock().now().since(since));
        }
        outcome
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("id", &self.id)
            .field("workers", &self.workers())
            .finish_non_exhaustive()
    }
}
