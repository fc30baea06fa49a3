//! What an agent does about jobs: the eldest of all gives them slots, and each minds the drivers that it has started.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use parking_lot::Mutex;
use weft_transport::{Connection, Endpoint};

use super::drive::Order;
use super::fleet::Place;
use super::hosting::Hosting;
use super::message::{Task, ToAgent, encode};
use super::record::{AgentId, Attempt, JobRecord, State};
use super::schedule;
use super::store::{AgentRow, Store, now_ms};
use super::waiting::{self, Standing};
use crate::site::Site;

/// How long a driver may say nothing. It says something twice a second, unless it stands still.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// How long an agent may take to be connected to, while nothing else is done.
const REACH_TIMEOUT: Duration = Duration::from_millis(500);

/// How long one is left alone that could not be: an agent that waits for several of them says too late that it is there itself.
const MISSED_FOR: Duration = Duration::from_secs(5);

/// How long an agent that has nothing to mind takes another for the eldest: each look is a question that a quorum of the coordinators confirms.
const FOLLOWED_FOR: Duration = Duration::from_secs(1);

pub(crate) struct Scheduler {
    me: AgentId,
    /// By which others reach this agent.
    address: SocketAddr,
    build: String,
    store: Store,
    cluster: Vec<String>,
    secret: u128,
    /// What this agent has itself.
    hosting: Hosting,
    /// By which other agents are seen to be there, before the coordinators forget those that are not.
    endpoint: Endpoint,
    seen: HashMap<AgentId, Connection>,
    /// When those could not be reached that are registered.
    missed: HashMap<AgentId, Instant>,
    /// When another was last seen to be the eldest, if it was.
    followed: Option<Instant>,
    /// Why jobs wait, as it was written down last.
    waits: HashMap<u64, String>,
    /// By job, with the number of the attempt.
    drivers: HashMap<u64, (u32, Driver)>,
}

/// A process that drives an attempt; it ends with this value.
struct Driver {
    child: Child,
    stdin: Option<ChildStdin>,
    heard: Arc<Mutex<Instant>>,
}

impl Scheduler {
    pub(crate) fn new(
        (me, address): (AgentId, SocketAddr),
        build: String,
        store: Store,
        (cluster, secret): (Vec<String>, u128),
        (endpoint, hosting): (Endpoint, Hosting),
    ) -> Scheduler {
        let (seen, missed, drivers) = (HashMap::new(), HashMap::new(), HashMap::new());
        Scheduler {
            me,
            address,
            build,
            store,
            cluster,
            secret,
            hosting,
            endpoint,
            seen,
            missed,
            followed: None,
            waits: HashMap::new(),
            drivers,
        }
    }

    /// Does what is to be done now.
    pub(crate) fn turn(&mut self) -> anyhow::Result<()> {
        self.drivers.retain(|_, (_, driver)| driver.is_alive());
        let has_followed = self.followed.is_some_and(|at| at.elapsed() < FOLLOWED_FOR);
        if has_followed && self.drivers.is_empty() {
            return Ok(());
        }
        let agents = self.store.agents()?;
        // An agent that the others do not see decides nothing.
        let is_eldest = agents.first().is_some_and(|(id, _)| *id == self.me);
        self.followed = (!is_eldest).then(Instant::now);
        if !is_eldest && self.drivers.is_empty() {
            return Ok(());
        }
        let mut jobs = self.store.open_jobs()?;
        for (id, job) in &mut jobs {
            self.mind(*id, job, &agents, is_eldest)?;
        }
        if !is_eldest {
            return Ok(());
        }
        jobs.retain(|(_, job)| !job.is_ended());
        if !jobs.iter().any(|(_, job)| matches!(job.state, State::Queued)) {
            return Ok(());
        }
        let is_registered = |agent: &AgentId| agents.iter().any(|(other, _)| other == agent);
        self.seen.retain(|agent, _| is_registered(agent));
        self.missed.retain(|agent, since| is_registered(agent) && since.elapsed() < MISSED_FOR);
        let mut standings = Vec::with_capacity(agents.len());
        for (agent, row) in &agents {
            let standing = match row.build == self.build {
                true if self.is_there(agent, row) => Standing::Usable,
                true => Standing::Unreachable,
                // Only equal builds work together.
                false => Standing::OtherBuild,
            };
            standings.push((*agent, row.clone(), standing));
        }
        let slots = Standing::usable(&standings);
        while let Some((id, places)) = schedule::next(&jobs, &slots, now_ms()) {
            let job = self.begin(id, places, &agents)?;
            jobs.iter_mut()
                .filter(|(other, _)| *other == id)
                .for_each(|(_, old)| *old = job.clone());
            jobs.retain(|(_, job)| !job.is_ended());
        }
        self.say_why(&jobs, &standings)
    }

    /// Writes down why jobs wait, where that has changed.
    fn say_why(
        &mut self,
        jobs: &[(u64, JobRecord)],
        agents: &[(AgentId, AgentRow, Standing)],
    ) -> anyhow::Result<()> {
        self.waits.retain(|id, _| jobs.iter().any(|(other, _)| other == id));
        for (id, job) in jobs.iter().filter(|(_, job)| matches!(job.state, State::Queued)) {
            let why = waiting::why(job, jobs, agents);
            if self.waits.get(id) != Some(&why) {
                self.store.tell_waits(*id, &why)?;
                self.waits.insert(*id, why);
            }
        }
        Ok(())
    }

    /// Whether an agent that is registered can be reached: one that was killed is registered for some seconds more.
    fn is_there(&mut self, agent: &AgentId, row: &AgentRow) -> bool {
        if *agent == self.me || self.seen.get(agent).is_some_and(Connection::is_open) {
            return true;
        }
        let Ok(address) = row.address.parse() else { return false };
        if self.missed.contains_key(agent) {
            return false;
        }
        let deadline = self.endpoint.clock().now() + REACH_TIMEOUT;
        match self.endpoint.block_on(self.endpoint.connect(address, deadline)) {
            Ok(connection) => {
                self.seen.insert(*agent, connection);
                true
            }
            Err(_) => {
                self.missed.insert(*agent, Instant::now());
                false
            }
        }
    }

    /// Ends all drivers: their jobs go on with the next attempt, at another agent.
    pub(crate) fn end(&mut self) {
        self.drivers.clear();
    }

    /// Sees to a job that somebody drove, or that has ended.
    fn mind(
        &mut self,
        id: u64,
        job: &mut JobRecord,
        agents: &[(AgentId, AgentRow)],
        is_eldest: bool,
    ) -> anyhow::Result<()> {
        if job.is_ended() {
            return if is_eldest { self.store.close(id) } else { Ok(()) };
        }
        let Some(attempt) = job.attempt().cloned() else { return Ok(()) };
        let why = if attempt.driver == self.me {
            if self.drivers.get(&id).is_some_and(|(number, _)| *number == attempt.number) {
                return Ok(());
            }
            "the process that drove the job ended"
        } else if is_eldest && agents.iter().all(|(agent, _)| *agent != attempt.driver) {
            "the agent that drove the job is gone"
        } else {
            return Ok(());
        };
        if let State::Finishing { .. } = job.state {
            // All is done but to name it.
            let me = self.me;
            let changed = self.change(id, job, |job| match &mut job.state {
                State::Finishing { attempt: of, .. } if *of == attempt => {
                    of.driver = me;
                    true
                }
                _ => false,
            })?;
            return if changed { self.drive(id, job, agents) } else { Ok(()) };
        }
        let mut site = Site { agent: Some(attempt.driver.0), ..Site::default() };
        place(attempt.driver, agents).inspect(|place| place.locate(&mut site));
        let is_lost = self.change(id, job, |job| {
            let is_lost = job.attempt() == Some(&attempt) && matches!(job.state, State::Running(_));
            if is_lost {
                job.lose(why.to_owned(), site.clone(), now_ms());
            }
            is_lost
        })?;
        if is_lost {
            self.kill_left(id, &attempt, agents);
        }
        if is_lost && job.is_ended() {
            // Its driver would have tidied up behind it, and would have written its report.
            self.start_driver(id, job, attempt.number, Vec::new())?;
        }
        Ok(())
    }

    /// Has agents kill what they have of an attempt whose driver is lost: they see that only when the connection to it ends, and it may stand still.
    fn kill_left(&mut self, job: u64, attempt: &Attempt, agents: &[(AgentId, AgentRow)]) {
        for (worker, agent) in attempt.places.iter().enumerate() {
            let task = Task { job, attempt: attempt.number, worker };
            if *agent == self.me {
                self.hosting.kill(task);
            }
            let row = agents.iter().find(|(other, _)| other == agent);
            // It may be the first time that this agent has to do with that one.
            if !row.is_some_and(|(_, row)| self.is_there(agent, row)) {
                continue;
            }
            let Some(connection) = self.seen.get(agent) else { continue };
            let message = encode(&ToAgent::Kill { task });
            // Whom it does not reach is gone.
            let _ = self.endpoint.block_on(connection.send(message.as_slice()));
        }
    }

    /// Gives a job its slots, and has it driven. Returns it as it is then.
    fn begin(
        &mut self,
        id: u64,
        places: Vec<AgentId>,
        agents: &[(AgentId, AgentRow)],
    ) -> anyhow::Result<JobRecord> {
        let me = self.me;
        let changed = self.store.change(id, |job| {
            let State::Queued = job.state else { return false };
            let (number, driver) = (job.next_attempt(), me);
            let places = places.clone();
            job.state = State::Running(Attempt { number, driver, places, began_ms: now_ms() });
            true
        })?;
        let (mut job, is_changed) = changed.context("a job is gone that was there")?;
        if is_changed {
            self.waits.remove(&id);
            self.drive(id, &mut job, agents)?;
        }
        Ok(job)
    }

    /// Starts the process that drives a job's attempt, which is this agent's to drive.
    fn drive(
        &mut self,
        id: u64,
        job: &mut JobRecord,
        agents: &[(AgentId, AgentRow)],
    ) -> anyhow::Result<()> {
        let Some(attempt) = job.attempt() else { return Ok(()) };
        let number = attempt.number;
        // Of one that only names its output, workers may be gone.
        let places = attempt.places.iter().filter_map(|agent| place(*agent, agents)).collect();
        self.start_driver(id, job, number, places)
    }

    fn start_driver(
        &mut self,
        id: u64,
        job: &mut JobRecord,
        number: u32,
        places: Vec<Place>,
    ) -> anyhow::Result<()> {
        let (cluster, secret) = (self.store.nodes_and(&self.cluster), self.secret);
        let driver = Place { agent: self.me.0.to_string(), address: self.address };
        let order = Order { cluster, job: id, attempt: number, secret, driver, places };
        match Driver::start(&order, &job.folder) {
            Ok(driver) => drop(self.drivers.insert(id, (number, driver))),
            Err(error) => {
                let error = format!("{error:#}");
                self.change(id, job, |job| {
                    let is_at = job.is_at(number);
                    if is_at {
                        let mut site = Site { attempt: number, ..Site::default() };
                        order.driver.locate(&mut site);
                        let (ended_ms, site) = (now_ms(), Some(site));
                        job.state = State::Failed { ended_ms, error: error.clone(), site };
                    }
                    is_at
                })?;
            }
        }
        Ok(())
    }

    /// Changes a job in the store, and `job` with it. Whether it was changed.
    fn change(
        &self,
        id: u64,
        job: &mut JobRecord,
        change: impl FnMut(&mut JobRecord) -> bool,
    ) -> anyhow::Result<bool> {
        let Some((found, changed)) = self.store.change(id, change)? else { return Ok(false) };
        *job = found;
        Ok(changed)
    }
}

/// Where an agent is, if it is registered.
fn place(agent: AgentId, agents: &[(AgentId, AgentRow)]) -> Option<Place> {
    let (_, row) = agents.iter().find(|(other, _)| *other == agent)?;
    Some(Place { agent: agent.0.to_string(), address: row.address.parse().ok()? })
}

impl Driver {
    fn start(order: &Order, folder: &str) -> anyhow::Result<Driver> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut child = Command::new(&program)
            .arg(crate::args::DRIVE)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot drive the job in {folder}"))?;
        let mut stdin = child.stdin.take().expect("it was piped");
        let stdout = child.stdout.take().expect("it was piped");
        // Not on the command line, which everybody can read. One that cannot be told has ended.
        let _ = writeln!(stdin, "{}", serde_json::to_string(order)?);
        let heard = Arc::new(Mutex::new(Instant::now()));
        let hears = Arc::clone(&heard);
        std::thread::spawn(move || {
            for _ in BufReader::new(stdout).lines().map_while(Result::ok) {
                *hears.lock() = Instant::now();
            }
        });
        Ok(Driver { child, stdin: Some(stdin), heard })
    }

    fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None)) && self.heard.lock().elapsed() < SILENCE_MAX
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
