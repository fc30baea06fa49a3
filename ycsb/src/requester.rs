//! One requester: does one operation after another until its share is done or the time is over.
//!
//! Written once for blocking and shared sessions: with a blocking session the future never waits.
//! The clock is read once between two operations, since the end of one is the beginning of the
//! next; so what the driver itself spends on an operation, about 0.1 us, is part of its latency.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _};

use crate::clock::RunClock;
use crate::content::Content;
use crate::failure_log::{Failure, FailureLog};
use crate::generator::{KeyChooser, Random};
use crate::measurement::{Measurements, Operation, Span, Status};
use crate::pace::Pace;
use crate::record::Values;
use crate::target::{Fetched, RequestError, Scanned, Session};
use crate::workload::{Phase, Transaction, Workload};

/// What all requesters of a run share.
pub(crate) struct Shared {
    pub(crate) workload: Workload,
    pub(crate) pace: Option<Pace>,
    /// `spin.sleep`.
    pub(crate) spin: bool,
    /// No operation begins after this moment of the run.
    pub(crate) stop_at_ns: u64,
    pub(crate) failures: FailureLog,
}

/// One requester, with everything that an operation needs, so that none allocates.
pub(crate) struct Requester {
    shared: Arc<Shared>,
    session: Session,
    /// Shared with the requesters of the same thread, and with the status line.
    measurements: Arc<Mutex<Measurements>>,
    random: Random,
    key_chooser: KeyChooser,
    /// Operations to do; `None`: until the time is over.
    quota: Option<u64>,
    key: Vec<u8>,
    values: Values,
}

impl Requester {
    pub(crate) fn new(
        shared: Arc<Shared>,
        session: Session,
        measurements: Arc<Mutex<Measurements>>,
        quota: Option<u64>,
        seed: u64,
    ) -> Requester {
        Requester {
            key_chooser: shared.workload.key_chooser.clone(),
            shared,
            session,
            measurements,
            random: Random::seed_from_u64(seed),
            quota,
            key: Vec::new(),
            values: Values::default(),
        }
    }

    pub(crate) async fn run(mut self, clock: RunClock) {
        let Shared { pace, stop_at_ns, .. } = *self.shared;
        let mut now_ns = clock.now_ns();
        if let Some(pace) = pace {
            let spread = now_ns + pace.spread_ns(&mut self.random);
            now_ns = self.wait_until(spread.min(stop_at_ns), clock).await;
        }
        let began_ns = now_ns;
        let mut intended_ns = now_ns;
        let mut done = 0;
        while self.quota.is_none_or(|quota| done < quota) && now_ns < stop_at_ns {
            let span = Span { intended_ns, start_ns: now_ns };
            now_ns = match self.shared.workload.phase {
                Phase::Load => match self.load(span, clock).await {
                    Some(end_ns) => end_ns,
                    // As upstream. A store that is gone would else cost a timeout a record.
                    None => return,
                },
                Phase::Run => self.operate(span, clock).await,
            };
            done += 1;
            intended_ns = now_ns;
            if let Some(pace) = pace {
                intended_ns = pace.due_ns(began_ns, done);
                now_ns = self.wait_until(intended_ns.min(stop_at_ns), clock).await;
            }
        }
    }

    /// Does one operation of the mix; returns when it ended.
    async fn operate(&mut self, span: Span, clock: RunClock) -> u64 {
        match self.shared.workload.mix.choose(&mut self.random) {
            Transaction::Read => self.read(span, clock).await,
            Transaction::Update => self.update(span, clock).await,
            Transaction::Insert => self.insert(span, clock).await,
            Transaction::Scan => self.scan(span, clock).await,
            Transaction::ReadModifyWrite => self.read_modify_write(span, clock).await,
        }
    }

    async fn read(&mut self, span: Span, clock: RunClock) -> u64 {
        self.choose_key();
        let got = self.session.get(&self.key, &self.shared.workload.content.layout).await;
        let end_ns = clock.now_ns();
        self.finish(Operation::Read, self.status_of_get(&got), span, end_ns);
        self.verify(&got, end_ns, clock)
    }

    async fn update(&mut self, span: Span, clock: RunClock) -> u64 {
        self.choose_key();
        let status = self.change().await;
        let end_ns = clock.now_ns();
        self.finish(Operation::Update, status, span, end_ns);
        end_ns
    }

    /// Reads records from a certain one on, in the order of their names.
    async fn scan(&mut self, span: Span, clock: RunClock) -> u64 {
        self.choose_key();
        let workload = &self.shared.workload;
        let count = workload.scan_length.draw(&mut self.random);
        let layout = &workload.content.layout;
        let status = match self.session.scan(&self.key, layout, count).await {
            Ok(Scanned::Whole) => Status::Ok,
            Ok(Scanned::Unexpected { key }) => {
                self.shared.failures.show(Operation::Scan, &Failure::Unexpected { key: &key });
                Status::UnexpectedState
            }
            Err(error) => {
                self.shared.failures.show(Operation::Scan, &Failure::Request(&error));
                Status::Error
            }
        };
        let end_ns = clock.now_ns();
        self.finish(Operation::Scan, status, span, end_ns);
        end_ns
    }

    /// Reads a record, and writes one field of it or all of them. Measured as a whole and in its two parts.
    async fn read_modify_write(&mut self, span: Span, clock: RunClock) -> u64 {
        self.choose_key();
        let got = self.session.get(&self.key, &self.shared.workload.content.layout).await;
        let status = self.status_of_get(&got);
        let read_ns = clock.now_ns();
        self.measurements.lock().record(Operation::Read, status, span, read_ns);
        let (status, end_ns) = match status {
            Status::Ok => {
                let status = self.change().await;
                let (update, end_ns) = (Span { start_ns: read_ns, ..span }, clock.now_ns());
                self.measurements.lock().record(Operation::Update, status, update, end_ns);
                (status, end_ns)
            }
            _ => (status, read_ns),
        };
        self.finish(Operation::ReadModifyWrite, status, span, end_ns);
        self.verify(&got, end_ns, clock)
    }

    /// Adds a record to those that exist.
    async fn insert(&mut self, span: Span, clock: RunClock) -> u64 {
        let number = self.shared.workload.inserted.next();
        self.shared.workload.key_format.write(number, &mut self.key);
        let status = self.insert_record().await;
        // As upstream, also if it failed: others wait behind this number.
        self.shared.workload.inserted.acknowledge(number);
        let end_ns = clock.now_ns();
        self.finish(Operation::Insert, status, span, end_ns);
        end_ns
    }

    /// Inserts the next record to load, again if that fails and retries are allowed. Returns when
    /// it ended; nothing if it failed in the end.
    async fn load(&mut self, span: Span, clock: RunClock) -> Option<u64> {
        let number = self.shared.workload.to_load.next();
        self.shared.workload.key_format.write(number, &mut self.key);
        let retry = self.shared.workload.retry;
        let mut attempt = span;
        let mut retries_left = retry.limit;
        loop {
            let status = self.insert_record().await;
            let end_ns = clock.now_ns();
            if status == Status::Ok || retries_left == 0 || end_ns >= self.shared.stop_at_ns {
                self.finish(Operation::Insert, status, attempt, end_ns);
                return (status == Status::Ok).then_some(end_ns);
            }
            self.measurements.lock().record(Operation::Insert, status, attempt, end_ns);
            retries_left -= 1;
            let pause = retry.interval.mul_f64(self.random.random_range(0.8..1.2));
            let again_ns = end_ns + pause.as_nanos() as u64;
            attempt.start_ns = self.wait_until(again_ns, clock).await;
        }
    }

    /// Waits until `due_ns` of the run; returns what time it is then.
    async fn wait_until(&self, due_ns: u64, clock: RunClock) -> u64 {
        loop {
            let now_ns = clock.now_ns();
            if now_ns >= due_ns {
                return now_ns;
            }
            if self.shared.spin {
                self.session.spin().await;
            } else {
                self.session.sleep(Duration::from_nanos(due_ns - now_ns)).await;
            }
        }
    }

    fn choose_key(&mut self) {
        let workload = &self.shared.workload;
        let number = self.key_chooser.next(&mut self.random, &workload.inserted);
        workload.key_format.write(number, &mut self.key);
    }

    /// What became of a get of the key. By reference, as it is looked at everywhere: to move what is read costs as much as
    /// to read it.
    #[inline]
    fn status_of_get(&self, got: &Result<Fetched, RequestError>) -> Status {
        match got {
            Ok(fetched) if fetched.fits(&self.shared.workload.content.layout) => Status::Ok,
            unexpected => self.show_unexpected(unexpected),
        }
    }

    #[cold]
    fn show_unexpected(&self, got: &Result<Fetched, RequestError>) -> Status {
        let (failure, status) = match got {
            Ok(fetched) if fetched.is_there() => {
                (Failure::Unexpected { key: &self.key }, Status::UnexpectedState)
            }
            Ok(_) => (Failure::NotFound { key: &self.key }, Status::NotFound),
            Err(error) => (Failure::Request(error), Status::Error),
        };
        self.shared.failures.show(Operation::Read, &failure);
        status
    }

    /// Writes one field of the record of the key, or all of them.
    async fn change(&mut self) -> Status {
        let workload = &self.shared.workload;
        let Content { layout, .. } = &workload.content;
        let done = if workload.updates_all() {
            workload.content.fill(&self.key, &mut self.values, &mut self.random);
            self.session.put(&self.key, layout, &self.values).await
        } else {
            let field = self.random.random_range(0..layout.count());
            workload.content.fill_one(&self.key, field, &mut self.values, &mut self.random);
            self.session.put_fields(&self.key, layout, &self.values).await
        };
        self.status(Operation::Update, done)
    }

    /// Writes a whole new record.
    async fn insert_record(&mut self) -> Status {
        let content = &self.shared.workload.content;
        content.fill(&self.key, &mut self.values, &mut self.random);
        let done = self.session.put(&self.key, &content.layout, &self.values).await;
        self.status(Operation::Insert, done)
    }

    fn status(&self, operation: Operation, done: Result<(), RequestError>) -> Status {
        match done {
            Ok(()) => Status::Ok,
            Err(error) => {
                self.shared.failures.show(operation, &Failure::Request(&error));
                Status::Error
            }
        }
    }

    /// Records the operation that ends with this, and counts it.
    fn finish(&self, operation: Operation, status: Status, span: Span, end_ns: u64) {
        let mut measurements = self.measurements.lock();
        measurements.record(operation, status, span, end_ns);
        measurements.operations += 1;
    }

    /// Checks what was read, if the workload says so; returns when that ended.
    fn verify(
        &mut self,
        got: &Result<Fetched, RequestError>,
        start_ns: u64,
        clock: RunClock,
    ) -> u64 {
        let Workload { content, read_all_fields, .. } = &self.shared.workload;
        if !content.verifiable {
            return start_ns;
        }
        let layout = &content.layout;
        let fields = layout.count();
        let only = (!read_all_fields).then(|| self.random.random_range(0..fields));
        let status = match got {
            Ok(record) if record.is_there() => {
                match content.verify(&self.key, |index| record.field(layout, index), only) {
                    true => Status::Ok,
                    false => Status::UnexpectedState,
                }
            }
            Ok(_) | Err(_) => Status::Error,
        };
        let end_ns = clock.now_ns();
        let span = Span { intended_ns: start_ns, start_ns };
        self.measurements.lock().record(Operation::Verify, status, span, end_ns);
        end_ns
    }
}
