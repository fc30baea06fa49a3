//! What has come for the stages of a job, and what is done with it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};
use weft_object::{AlignedBytes, StableBytes as _, Types, View, is_aligned};
use weft_transport::{MemoryError, Retained};

use crate::error::JobError;
use crate::message::{HEADER_BYTES, Header, Kind};
use crate::worker::WorkerId;

/// Takes the records of one segment, where they were received; what it refuses breaks the rules.
pub(crate) type Sink = Box<dyn FnMut(WorkerId, &View<&[u8]>) -> Result<(), &'static str> + Send>;

/// Where a worker's reactor puts what comes, and where its job waits for it.
pub(crate) struct Inbox {
    types: Types,
    /// How many others there are.
    peers: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those who have said who they are.
    greeted: HashSet<WorkerId>,
    stages: HashMap<u32, Stage>,
    /// Stages that have been closed here: all below this one.
    closed: u32,
    failed: Option<JobError>,
    waker: Option<Waker>,
}

/// One exchange, as the receiving side sees it.
#[derive(Default)]
struct Stage {
    sink: Option<Sink>,
    /// What came before the stage was opened here, or is waiting to be asked for. It keeps its credit, so it is bounded by the
    /// windows.
    early: VecDeque<(WorkerId, Retained)>,
    from: HashMap<WorkerId, From>,
    ended: usize,
}

/// What one worker has sent in a stage.
#[derive(Default)]
struct From {
    segments: u64,
    ended: bool,
}

impl Inbox {
    pub(crate) fn new(types: Types, workers: usize) -> Self {
        Self { types, peers: workers - 1, state: Mutex::default() }
    }

    /// `worker` has said who it is.
    pub(crate) fn greet(&self, worker: WorkerId) {
        let mut state = self.state.lock();
        state.greeted.insert(worker);
        wake(state);
    }

    /// Ready when `worker` has said who it is.
    pub(crate) fn poll_greeted(
        &self,
        worker: WorkerId,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), JobError>> {
        self.state.lock().poll(context, |state| state.greeted.contains(&worker))
    }

    /// Ready with the next segment for `stage` that nobody has taken, or with nothing when every other worker has ended the stage. Who asks has not
    /// [opened](Self::open) it: segments keep their credit until they are asked for, so whoever sends waits.
    pub(crate) fn poll_segment(
        &self,
        stage: u32,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<(WorkerId, Retained)>, JobError>> {
        let mut state = self.state.lock();
        if state.failed.is_none()
            && let Some(segment) = state.stages.entry(stage).or_default().early.pop_front()
        {
            return Poll::Ready(Ok(Some(segment)));
        }
        let ended = |state: &State| state.stages.get(&stage).map_or(0, |stage| stage.ended);
        state.poll(context, |state| ended(state) == self.peers).map_ok(|()| None)
    }

    /// From here on, what comes for `stage` goes to `sink`; what has come already goes there now.
    pub(crate) fn open(&self, stage: u32, sink: Sink) {
        let mut state = self.state.lock();
        let State { stages, failed, .. } = &mut *state;
        let entry = stages.entry(stage).or_default();
        entry.sink = Some(sink);
        while let Some((worker, message)) = entry.early.pop_front() {
            let taken = in_place(&message, |body| entry.take(stage, worker, body, &self.types));
            if let Err(error) = taken {
                failed.get_or_insert(error);
            }
        }
    }

    /// Ready when every other worker has ended `stage`, or the job has failed.
    pub(crate) fn poll_ended(
        &self,
        stage: u32,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), JobError>> {
        let ended = |state: &State| state.stages.get(&stage).map_or(0, |stage| stage.ended);
        self.state.lock().poll(context, |state| ended(state) == self.peers)
    }

    /// Whether `worker` has ended `stage`.
    pub(crate) fn has_ended(&self, stage: u32, worker: WorkerId) -> bool {
        let state = self.state.lock();
        let from = state.stages.get(&stage).and_then(|stage| stage.from.get(&worker));
        from.is_some_and(|from| from.ended)
    }

    /// Forgets `stage`, and with it its sink.
    pub(crate) fn close(&self, stage: u32) {
        let mut state = self.state.lock();
        state.stages.remove(&stage);
        state.closed = stage + 1;
    }

    /// Why the job cannot go on when `error` was met: what has been noted before, if anything. A worker
    /// that stops the job says so first and then leaves, and so do those that it told.
    pub(crate) fn cause(&self, error: JobError) -> JobError {
        self.state.lock().failed.take().unwrap_or(error)
    }

    /// A segment or the end of a stage has come. `retain` keeps the message if it cannot be used
    /// yet.
    pub(crate) fn deliver(
        &self,
        worker: WorkerId,
        header: Header,
        body: &[u8],
        retain: impl FnOnce() -> Result<Retained, MemoryError>,
    ) {
        let mut state = self.state.lock();
        // Nobody begins a stage before all have ended the one before it, so nobody is further than one
        // stage ahead, and nobody comes back to one that all have ended.
        if !(state.closed..=state.closed.saturating_add(1)).contains(&header.stage) {
            drop(state);
            let (stage, what) = (header.stage, "nobody works on that stage");
            return self.fail(JobError::Protocol { worker, stage, what });
        }
        let stage = state.stages.entry(header.stage).or_default();
        let outcome = match header.kind {
            Kind::Segment => stage.count(header, worker).and_then(|()| match stage.sink {
                Some(_) => stage.take(header.stage, worker, body, &self.types),
                None => retain()
                    .map(|message| stage.early.push_back((worker, message)))
                    .map_err(JobError::Memory),
            }),
            _ => stage.end(header, worker),
        };
        let is_awaited = stage.ended == self.peers || !stage.early.is_empty();
        if let Err(error) = outcome {
            state.failed.get_or_insert(error);
        } else if !is_awaited {
            return;
        }
        wake(state);
    }

    /// The job cannot go on.
    pub(crate) fn fail(&self, error: JobError) {
        let mut state = self.state.lock();
        state.failed.get_or_insert(error);
        wake(state);
    }
}

impl State {
    /// Ready when the job has failed or `is_done`; else the job is woken when anything changes.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        is_done: impl FnOnce(&State) -> bool,
    ) -> Poll<Result<(), JobError>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        if is_done(self) {
            return Poll::Ready(Ok(()));
        }
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Wakes the job, if it waits.
fn wake(mut state: MutexGuard<'_, State>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Uses the body of a message where it was received, if it can be used there.
pub(crate) fn in_place<T>(message: &Retained, take: impl FnOnce(&[u8]) -> T) -> T {
    let body = &message[HEADER_BYTES..];
    if is_aligned(body) {
        return take(body);
    }
    // A short message was copied to wherever there was room.
    take(AlignedBytes::copied(body).bytes())
}

impl Stage {
    /// Notes a segment from `worker`: they come in order, none twice, none after the end.
    fn count(&mut self, header: Header, worker: WorkerId) -> Result<(), JobError> {
        let from = self.from.entry(worker).or_default();
        if from.ended || from.segments != header.sequence {
            let what = "a segment out of order";
            return Err(JobError::Protocol { worker, stage: header.stage, what });
        }
        from.segments += 1;
        Ok(())
    }

    fn end(&mut self, header: Header, worker: WorkerId) -> Result<(), JobError> {
        let from = self.from.entry(worker).or_default();
        if from.ended || from.segments != header.sequence {
            let what = "its end does not agree with its segments";
            return Err(JobError::Protocol { worker, stage: header.stage, what });
        }
        from.ended = true;
        self.ended += 1;
        Ok(())
    }

    /// Checks a segment and hands its records to the sink.
    fn take(
        &mut self,
        stage: u32,
        worker: WorkerId,
        body: &[u8],
        types: &Types,
    ) -> Result<(), JobError> {
        let view = View::validate(body, types).map_err(|reason| JobError::Block {
            worker,
            stage,
            reason,
        })?;
        let sink = self.sink.as_mut().expect("the stage was opened");
        sink(worker, &view).map_err(|what| JobError::Protocol { worker, stage, what })
    }
}
