//! The agents of a job, as its driver uses them: processes that are elsewhere.

use std::collections::HashMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use weft_transport::{
    Batch, Connection, Endpoint, EndpointConfig, Handler, Incarnation, IncomingKind, LinkPolicy,
    Memory, MemoryConfig, NodeId, PollPolicy, Secret,
};

use super::message::{FromAgent, Task, ToAgent, encode};
use crate::launch::{Happening, Told};
use crate::process::End;
use crate::site::Site;

/// How long an agent may take to be connected to.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a process may take to be gone that was killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Memory for what agents and drivers say to one another.
const MEMORY_BYTES: u64 = 256 << 20;

/// Where a worker of the job goes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) agent: String,
    pub(crate) address: SocketAddr,
}

/// The agents of an attempt at a job, connected.
pub(crate) struct Fleet {
    job: u64,
    attempt: u32,
    folder: String,
    /// By worker.
    agents: Vec<(Place, Connection)>,
    known: Arc<Known>,
    endpoint: Endpoint,
}

/// A process at an agent.
pub(crate) struct Hosted {
    task: Task,
    place: Place,
    agent: Connection,
    known: Arc<Known>,
    /// When it was asked to end.
    killed: Option<Instant>,
}

/// What is known of all of them.
#[derive(Default)]
pub(crate) struct Known {
    tasks: Mutex<HashMap<Task, Standing>>,
    changed: Condvar,
    is_cancelled: AtomicBool,
}

struct Standing {
    tell: Sender<Told>,
    process: Option<u32>,
    /// Of a line of which more is to come.
    begun: String,
    end: Option<End>,
}

/// An endpoint of an agent, which listens, or of a driver.
pub(crate) fn endpoint(
    secret: u128,
    handler: Arc<dyn Handler>,
    is_agent: bool,
) -> anyhow::Result<Endpoint> {
    let memory = Memory::new(MemoryConfig { limit_bytes: MEMORY_BYTES })?;
    let id: u64 = rand::random();
    // A node that listens has an id of 63 bits: so that no two are equal, and it is not none.
    let node = if is_agent { NodeId((id >> 1).max(1)) } else { NodeId::client(id) };
    let config = EndpointConfig {
        secret: Some(Secret::new(secret)),
        poll: PollPolicy::Park,
        links: LinkPolicy::Tcp,
        ..EndpointConfig::new(node, Incarnation(1), memory)
    };
    Ok(Endpoint::start(config, handler)?)
}

impl Fleet {
    /// Connects to the agents of an attempt.
    pub(crate) fn connect(
        secret: u128,
        (job, attempt): (u64, u32),
        folder: String,
        places: Vec<Place>,
        known: Arc<Known>,
    ) -> anyhow::Result<Fleet> {
        let endpoint = endpoint(secret, Arc::new(Listening(Arc::clone(&known))), false)?;
        let mut connected: HashMap<SocketAddr, Connection> = HashMap::new();
        let mut agents = Vec::with_capacity(places.len());
        for place in places {
            let connection = match connected.get(&place.address) {
                Some(connection) => connection.clone(),
                None => {
                    let deadline = endpoint.clock().now() + CONNECT_TIMEOUT;
                    let connecting = endpoint.connect(place.address, deadline);
                    let connection = endpoint
                        .block_on(connecting)
                        .with_context(|| format!("agent {} cannot be reached", place.agent))?;
                    connected.insert(place.address, connection.clone());
                    connection
                }
            };
            agents.push((place, connection));
        }
        for (address, connection) in connected {
            let known = Arc::clone(&known);
            let of_agent: Vec<_> = agents
                .iter()
                .enumerate()
                .filter(|(_, (place, _))| place.address == address)
                .map(|(worker, _)| Task { job, attempt, worker })
                .collect();
            std::thread::spawn(move || {
                let reason = connection.block_on(connection.ended());
                let why = format!("its agent at {address} is lost: {reason}");
                of_agent.into_iter().for_each(|task| known.end(task, End::Gone(why.clone())));
            });
        }
        Ok(Fleet { job, attempt, folder, agents, known, endpoint })
    }

    /// Has the agent of a worker start its process.
    pub(crate) fn start(
        &self,
        worker: usize,
        arguments: Vec<OsString>,
        tell: Sender<Told>,
    ) -> anyhow::Result<Hosted> {
        let task = Task { job: self.job, attempt: self.attempt, worker };
        let (place, agent) = &self.agents[worker];
        let arguments = arguments.into_iter().map(OsString::into_string);
        let arguments = arguments
            .collect::<Result<_, _>>()
            .map_err(|word| anyhow!("{} is no UTF-8", word.display()))?;
        let standing = Standing { tell, process: None, begun: String::new(), end: None };
        self.known.begin(task, standing);
        let hosted = Hosted {
            task,
            place: place.clone(),
            agent: agent.clone(),
            known: Arc::clone(&self.known),
            killed: None,
        };
        hosted.say(&ToAgent::Start { task, folder: self.folder.clone(), arguments });
        if !agent.is_open() {
            self.known.end(task, End::Gone("its agent is lost".to_owned()));
        }
        Ok(hosted)
    }
}

impl Place {
    pub(crate) fn locate(&self, site: &mut Site) {
        (site.agent, site.address) = (self.agent.parse().ok(), Some(self.address));
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.endpoint.shutdown();
    }
}

impl Hosted {
    /// Writes a line to its standard input. One that cannot be told has ended, which is told.
    pub(crate) fn tell(&mut self, line: &str) {
        self.say(&ToAgent::Input { task: self.task, line: line.to_owned() });
    }

    /// Has it end, if it has not by itself.
    pub(crate) fn kill(&mut self) {
        if self.killed.is_none() && !self.known.is_over(self.task) {
            self.killed = Some(Instant::now());
            self.say(&ToAgent::Kill { task: self.task });
        }
    }

    /// Waits until it has ended, or its agent seems to hang: that one keeps what it has then, and the next attempt does not touch it.
    pub(crate) fn wait_until_killed(&self) {
        let Some(killed) = self.killed else { return };
        let mut tasks = self.known.tasks.lock();
        while tasks.get(&self.task).is_some_and(|standing| standing.end.is_none()) {
            if self.known.changed.wait_until(&mut tasks, killed + KILL_TIMEOUT).timed_out() {
                return;
            }
        }
    }

    /// How it ended, once it has.
    pub(crate) fn end(&mut self) -> End {
        let mut tasks = self.known.tasks.lock();
        loop {
            if let Some(end) = tasks.get(&self.task).and_then(|known| known.end.clone()) {
                return end;
            }
            self.known.changed.wait(&mut tasks);
        }
    }

    pub(crate) fn name(&self) -> String {
        let Place { agent, address } = &self.place;
        let process = self.known.tasks.lock().get(&self.task).and_then(|known| known.process);
        match process {
            Some(process) => format!("process {process} of agent {agent} at {address}"),
            None => format!("of agent {agent} at {address}"),
        }
    }

    /// Where it is.
    pub(crate) fn locate(&self, site: &mut Site) {
        self.place.locate(site);
        site.process = self.known.tasks.lock().get(&self.task).and_then(|known| known.process);
    }

    fn say(&self, message: &ToAgent) {
        let message = encode(message);
        // Whom it does not reach is lost, which is told.
        let _ = self.agent.block_on(self.agent.send(message.as_slice()));
    }
}

impl Known {
    /// Somebody wants the job to end.
    pub(crate) fn cancel(&self) {
        let tasks = self.tasks.lock();
        self.is_cancelled.store(true, Ordering::Relaxed);
        for (task, standing) in tasks.iter() {
            let _ = standing.tell.send(Told { worker: task.worker, what: Happening::Cancelled });
        }
    }

    fn begin(&self, task: Task, standing: Standing) {
        let mut tasks = self.tasks.lock();
        if self.is_cancelled.load(Ordering::Relaxed) {
            let _ = standing.tell.send(Told { worker: task.worker, what: Happening::Cancelled });
        }
        tasks.insert(task, standing);
    }

    fn is_over(&self, task: Task) -> bool {
        self.tasks.lock().get(&task).is_none_or(|standing| standing.end.is_some())
    }

    fn end(&self, task: Task, end: End) {
        let mut tasks = self.tasks.lock();
        let Some(known) = tasks.get_mut(&task) else { return };
        if known.end.is_none() {
            known.end = Some(end);
            // Nobody listens any more once the job has failed.
            let _ = known.tell.send(Told { worker: task.worker, what: Happening::Ended });
        }
        self.changed.notify_all();
    }

    fn take(&self, message: FromAgent) {
        let task = message.task();
        match message {
            FromAgent::Started { process, .. } => {
                if let Some(known) = self.tasks.lock().get_mut(&task) {
                    known.process = Some(process);
                }
            }
            FromAgent::Refused { why, .. } => self.end(task, End::Gone(why)),
            FromAgent::Ended { status, .. } => {
                self.end(task, End::Exited(ExitStatus::from_raw(status)));
            }
            FromAgent::Line { part, is_last, .. } => {
                let mut tasks = self.tasks.lock();
                let Some(known) = tasks.get_mut(&task) else { return };
                known.begun += &part;
                if is_last {
                    let line = std::mem::take(&mut known.begun);
                    let _ = known.tell.send(Told::of_line(task.worker, line));
                }
            }
        }
    }
}

/// What comes from agents.
struct Listening(Arc<Known>);

impl Handler for Listening {
    fn handle(&self, batch: &mut Batch<'_>) {
        while let Some(incoming) = batch.next() {
            if let (IncomingKind::Message, Ok(message)) =
                (incoming.kind, serde_json::from_slice(incoming.body))
            {
                self.0.take(message);
            }
        }
    }
}
