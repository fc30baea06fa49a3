//! The logs of a node on a disk of the world: what is done for them takes time, and a crash comes wherever it comes.

use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weft_server::durable::{
    CloseError, Disk as Files, DiskError, Effect, Journal, Mode, State, perform,
};
use weft_server::handler::NodeHandler;
use weft_server::logs::{Logs, LogsOptions, RecoverError};
use weft_transport::{Endpoint, Sleep, Time};

use crate::disk::Disk;

/// A folder of a disk.
#[derive(Clone, Debug)]
pub struct Folder {
    disk: Arc<Mutex<Disk>>,
    /// What the names of its files begin with.
    prefix: String,
}

impl Folder {
    /// The folder of a log.
    pub fn of(disk: Arc<Mutex<Disk>>, mode: Mode) -> Folder {
        Folder { disk, prefix: format!("{}/", mode.name()) }
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

impl Files for Folder {
    fn names(&mut self) -> Result<Vec<String>, DiskError> {
        let names = self.disk.lock().names()?;
        Ok(names
            .iter()
            .filter_map(|name| name.strip_prefix(&self.prefix))
            .map(str::to_owned)
            .collect())
    }

    fn create(&mut self, name: &str, reserve_bytes: u64) -> Result<(), DiskError> {
        self.disk.lock().create(&self.name(name), reserve_bytes)
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        self.disk.lock().append(&self.name(name), bytes)
    }

    fn sync(&mut self, name: &str) -> Result<(), DiskError> {
        self.disk.lock().sync(&self.name(name))
    }

    fn sync_names(&mut self) -> Result<(), DiskError> {
        self.disk.lock().sync_names()
    }

    fn trim(&mut self, name: &str) -> Result<(), DiskError> {
        self.disk.lock().trim(&self.name(name))
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.disk.lock().remove(&self.name(name))
    }

    fn settle(&mut self, name: &str) -> Result<(), DiskError> {
        self.disk.lock().settle(&self.name(name))
    }

    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        self.disk.lock().read_at(&self.name(name), offset, into)
    }
}

/// What time a log goes by: an endpoint's, which may end before the log does. Clones are the same.
#[derive(Clone, Debug)]
pub struct Timer(Rc<RefCell<Endpoint>>);

impl Timer {
    /// The time of an endpoint.
    pub fn of(endpoint: Endpoint) -> Timer {
        Timer(Rc::new(RefCell::new(endpoint)))
    }

    /// Goes on by another endpoint on the same host. Who sleeps sleeps until the one before ends.
    pub fn go_on_by(&self, endpoint: Endpoint) {
        self.0.replace(endpoint);
    }

    fn now(&self) -> Time {
        self.0.borrow().clock().now()
    }

    fn sleep_until(&self, at: Time) -> Sleep {
        self.0.borrow().sleep_until(at)
    }
}

/// The logs that there are on a disk.
///
/// # Errors
/// See [`Logs::recover`].
pub fn recover(disk: &Arc<Mutex<Disk>>, options: &LogsOptions) -> Result<Logs, RecoverError> {
    let folder = |mode| Folder::of(Arc::clone(disk), mode);
    Logs::recover(options, &mut folder(Mode::Disk), &mut folder(Mode::Fsync))
}

/// Does for a log of a node what it asks for, each in a time drawn from `takes`, until it is closed or has failed.
pub async fn keep(
    handler: Arc<NodeHandler>,
    mode: Mode,
    disk: Arc<Mutex<Disk>>,
    timer: Timer,
    takes: Range<Duration>,
    seed: u64,
) {
    let Some(logs) = handler.logs() else { return };
    let journal = Arc::clone(logs.journal(mode));
    let mut folder = Folder::of(Arc::clone(&disk), mode);
    let mut random = StdRng::seed_from_u64(seed);
    while !journal.has_failed() {
        let mut effect = next(&journal, &timer).await;
        // What is written is there before anybody is told, and may be lost as long as it was not synced.
        let is_sync = matches!(effect, Effect::Sync { .. } | Effect::SyncNames);
        let early = (!is_sync).then(|| perform(&mut folder, &mut effect));
        let time = random.random_range(takes.clone()) + disk.lock().delay();
        timer.sleep_until(timer.now() + time).await;
        let outcome = match early {
            Some(outcome) => outcome,
            None => perform(&mut folder, &mut effect),
        };
        if outcome.is_err() {
            disk.lock().tell_failed();
        }
        journal.done(effect, outcome);
        handler.log_told(mode, &journal.take_events());
    }
}

/// Closes the logs of a node in good order, as [`LogThreads::close`](weft_server::logs::LogThreads::close) does; who [keeps](keep) them does what they ask for.
///
/// Returns what came of each, that of `disk` first.
pub async fn close(handler: &NodeHandler, timer: &Timer) -> [Result<(), CloseError>; 2] {
    handler.take_no_more();
    let until = timer.now() + CLOSE_PATIENCE;
    let of_disk = close_one(handler, Mode::Disk, timer, until).await;
    [of_disk, close_one(handler, Mode::Fsync, timer, until).await]
}

async fn close_one(
    handler: &NodeHandler,
    mode: Mode,
    timer: &Timer,
    until: Time,
) -> Result<(), CloseError> {
    let Some(logs) = handler.logs() else { return Ok(()) };
    let now = || timer.now();
    while !handler.flush_log(mode) {
        if now() >= until {
            return Err(CloseError::Late);
        }
        timer.sleep_until(now() + CLOSE_PAUSE).await;
    }
    let journal = logs.journal(mode);
    let state = || journal.with(|log, _| log.state().clone());
    let is_over = mode == Mode::Fsync && state() == State::Full;
    journal.with(|log, _| log.close());
    let until = if is_over { now() } else { until };
    loop {
        match state() {
            State::Closed => return Ok(()),
            State::Poisoned(poisoned) => return Err(CloseError::Poisoned(poisoned)),
            _ if now() >= until => return Err(CloseError::Late),
            _ => timer.sleep_until(now() + CLOSE_PAUSE).await,
        }
    }
}

/// As a node of production waits.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);
const CLOSE_PAUSE: Duration = Duration::from_millis(5);

/// Waits for what the log asks for next.
async fn next(journal: &Journal, timer: &Timer) -> Effect {
    loop {
        let due = journal.next_at();
        let mut sleep = due.map(|at| timer.sleep_until(at));
        let effect = poll_fn(|context| {
            if let Some(effect) = journal.poll(context.waker()) {
                return std::task::Poll::Ready(Some(effect));
            }
            // It may be due at another time now.
            if journal.next_at() != due {
                return std::task::Poll::Ready(None);
            }
            match &mut sleep {
                Some(sleep) => Pin::new(sleep).poll(context).map(|()| None),
                None => std::task::Poll::Pending,
            }
        });
        if let Some(effect) = effect.await {
            return effect;
        }
    }
}
