//! A node that is told to end: it takes no more, closes its logs in good order, and is to find them complete when it is started again.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use weft_protocol::Durability;
use weft_server::durable::{CloseError, Log, Mode, State};
use weft_server::handler::{LastEntry, NodeHandler};
use weft_server::logs::{Logs, RecoveredPartition};
use weft_transport::{Endpoint, EndpointConfig, Incarnation, Memory, MemoryConfig, NoHandler};

use super::host::Host;
use super::nodes::Cluster;
use super::{Role, Stands};
use crate::cluster::BuildError;
use crate::disk::Disk;
use crate::logs::{self, Timer};
use crate::scenario::Failure;
use crate::world::{MemberId, World};

/// How a life of a node ends, if it is told to. Clones are of the same life.
#[derive(Clone, Default)]
pub(super) struct Parting(Rc<Life>);

#[derive(Default)]
struct Life {
    is_told: Cell<bool>,
    /// What its logs go by.
    timer: RefCell<Option<Timer>>,
    closed: RefCell<Option<Closed>>,
}

/// The logs have ended.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    /// As they should, or not: that of `disk`, and that of `fsync`.
    outcomes: [Result<(), CloseError>; 2],
    /// What the node had of what is kept on disk.
    left: Vec<LastEntry>,
    /// Whether the disk was full, slow or failing meanwhile, so that they may have ended otherwise than they should.
    was_hindered: bool,
}

/// How often nodes were told to end, and what came of it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Stopped {
    /// Logs that were closed in good order.
    pub(super) closed: u64,
    /// Logs that were not: the disk was full, or failed.
    pub(super) unclosed: u64,
    /// Starts that found all that an orderly stop had left of `disk`, where it had left something.
    pub(super) found: u64,
}

impl Parting {
    /// Goes on with `work` as long as the node was not told to end.
    pub(super) async fn unless_told(self, work: impl Future<Output = ()>) {
        let mut work = pin!(work);
        poll_fn(|context| match self.is_told() {
            true => Poll::Ready(()),
            false => work.as_mut().poll(context),
        })
        .await;
    }

    /// What the logs of this life go by, whose node begins with `endpoint`.
    pub(super) fn timer(&self, endpoint: &Endpoint) -> Timer {
        self.0.timer.borrow_mut().get_or_insert_with(|| Timer::of(endpoint.clone())).clone()
    }

    /// Whether it was told to end.
    pub(super) fn is_told(&self) -> bool {
        self.0.is_told.get()
    }

    /// What came of it, when that is known.
    pub(super) fn closed(&self) -> Option<Closed> {
        self.0.closed.borrow().clone()
    }

    /// Whether everything that is kept on disk is there, whatever becomes of the host but that it loses the disk.
    pub(super) fn is_closed_well(&self) -> bool {
        self.closed().is_some_and(|closed| closed.outcomes.iter().all(Result::is_ok))
    }

    async fn close(self, handler: Arc<NodeHandler>, timer: Timer, disk: Arc<Mutex<Disk>>) {
        let is_full = |mode: &Mode| {
            let is_full = |log: &mut Log, _| *log.state() == State::Full;
            handler.logs().is_some_and(|logs| logs.journal(*mode).with(is_full))
        };
        let was_full = [Mode::Disk, Mode::Fsync].iter().any(is_full);
        let has_failed = handler.logs().is_some_and(Logs::has_failed);
        let before = disk.lock().failed_or_late();
        let outcomes = logs::close(&handler, &timer).await;
        let was_hindered = was_full || has_failed || disk.lock().failed_or_late() > before;
        let left = handler.last_entries().into_iter();
        let left = left.filter(|held| held.is_in_sync && held.durability != Durability::Memory);
        *self.0.closed.borrow_mut() = Some(Closed { outcomes, left: left.collect(), was_hindered });
    }
}

impl Closed {
    /// What is missing of what an orderly stop had left, in what the next start has found.
    fn missing(&self, found: &[RecoveredPartition]) -> Option<String> {
        let [of_disk, of_fsync] = &self.outcomes;
        let is_there = |held: &LastEntry| {
            let of_partition = found.iter().find(|found| found.partition == held.partition);
            // A log that had no room has not taken what came last, and nobody was told of that.
            of_partition.is_some_and(|found| {
                let is_as_far = self.was_hindered || found.last >= held.version;
                found.completeness.is_complete() && is_as_far
            })
        };
        let was_closed = |held: &&LastEntry| match held.durability {
            Durability::Disk => of_disk.is_ok(),
            Durability::Fsync => of_fsync.is_ok(),
            Durability::Memory => false,
        };
        let missing = self.left.iter().filter(was_closed).find(|held| !is_there(held))?;
        let found = found.iter().find(|found| found.partition == missing.partition);
        Some(format!("{missing:?} was closed in good order, and this is there: {found:?}"))
    }
}

impl Cluster {
    /// Tells a storage node to end: it takes no more, its connections end, nobody listens, and it closes its logs, which takes time.
    pub(super) fn tell_to_end(
        &mut self,
        world: &mut World,
        member: MemberId,
    ) -> Result<bool, BuildError> {
        let hosts = self.hosts.borrow();
        let is_node = |host: &&Host| host.role == Role::Storage && world.is_up(member);
        let Some(host) = hosts.get(&member).filter(is_node) else { return Ok(false) };
        let (Some(handler), Some(endpoint)) = (host.handler.clone(), host.endpoint.clone()) else {
            return Ok(false);
        };
        let parting = host.parting.clone();
        if parting.0.is_told.replace(true) {
            return Ok(false);
        }
        drop(hosts);
        handler.take_no_more();
        let timer = parting.timer(&endpoint);
        // Who ends the endpoint ends its timers too.
        let memory = Memory::new(MemoryConfig { limit_bytes: TIMER_MEMORY_BYTES })?;
        let config = EndpointConfig::new(endpoint.node(), ENDED, memory);
        world.end_endpoints(member);
        timer.go_on_by(world.add_endpoint(member, config, Arc::new(NoHandler))?);
        let disk = world.disk(member);
        world.spawn_background(member, parting.close(handler, timer, disk));
        Ok(true)
    }

    /// How far a node has come with ending.
    pub(super) fn parting_of(&self, world: &World, member: MemberId) -> Stands {
        let hosts = self.hosts.borrow();
        let told = hosts.get(&member).map(|host| &host.parting).filter(|parting| parting.is_told());
        match told {
            // Who is down is started again by what took it down.
            Some(parting) if world.is_up(member) => match parting.closed() {
                None => Stands::Ending,
                Some(_) => Stands::Ended,
            },
            _ => Stands::Elsewhere,
        }
    }

    /// Compares what a node finds when it starts with what the life before had left, if that has ended in good order.
    pub(super) fn check_stop(&mut self, former: &Closed, found: &[RecoveredPartition]) {
        let Closed { outcomes: [of_disk, of_fsync], left, was_hindered } = former;
        let is_well = of_disk.is_ok() && of_fsync.is_ok();
        self.stopped.closed += u64::from(is_well);
        self.stopped.unclosed += u64::from(!is_well);
        let has_of_disk = left.iter().any(|held| held.durability == Durability::Disk);
        let unclosed = match (of_disk, of_fsync) {
            // There is room for all that it has taken, be the disk full or not.
            (Err(error @ CloseError::Late), _) => Some(format!("the log of disk: {error}")),
            // What fails cannot be closed, nor can that of fsync write what waits for room.
            (Err(_), _) | (_, Err(_)) if *was_hindered => None,
            (Err(error), _) | (_, Err(error)) => {
                Some(format!("logs on a disk that does what it is to do: {error}"))
            }
            (Ok(()), Ok(())) => None,
        };
        let missing = unclosed.or_else(|| former.missing(found));
        self.stopped.found += u64::from(is_well && has_of_disk && missing.is_none());
        if let Some(reason) = missing {
            self.failed.borrow_mut().get_or_insert(Failure::NotConverged { reason });
        }
    }

    /// Waits for those that were told to end and have not yet.
    pub(super) fn await_ends(&self, world: &mut World) -> Result<(), Failure> {
        let end = world.clock().now() + ENDED_AFTER_MAX;
        let members: Vec<MemberId> = self.hosts.borrow().keys().copied().collect();
        let is_ending = |world: &World| {
            let stand = members.iter().map(|member| self.parting_of(world, *member));
            stand.into_iter().any(|stands| stands == Stands::Ending)
        };
        while is_ending(world) && world.clock().now() < end {
            let next = world.clock().now() + LOOK_EVERY;
            world.go_on_until(next)?;
        }
        Ok(())
    }
}

/// Whether a host is there for others: it is not about to end.
pub(super) fn stays(host: &Host) -> bool {
    !host.parting.is_told()
}

/// Of an endpoint that nobody is told of.
const ENDED: Incarnation = Incarnation(1);
const TIMER_MEMORY_BYTES: u64 = 16 << 20;
/// Longer than a node waits for its logs.
const ENDED_AFTER_MAX: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
