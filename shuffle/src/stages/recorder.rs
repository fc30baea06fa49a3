//! Notes what a worker does, stage by stage.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weft_transport::{Clock, Time};

use super::timeline::Timeline;
use super::{Live, Origin, Span, Stage, Stages, Unfinished, Verb, Written};

/// Stages that are kept apart. A program that has more places with exchanges, or makes them in a loop of its own, has the others counted together, a stage for each verb.
const STAGES_MAX: usize = 256;

/// Loops that are kept apart; the others count as one.
const LOOPS_MAX: usize = 64;

/// Files that are named.
const FILES_MAX: usize = 64;

/// Inputs of a stage that are named.
const INPUTS_MAX: usize = 32;

/// Notes what a worker does, on the thread of its job.
pub(crate) struct Recorder {
    clock: Clock,
    /// When the worker had met the others.
    origin: Time,
    workers: usize,
    live: Arc<Live>,
    /// What was kept in files so far.
    bytes_spilled: Arc<AtomicU64>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    stages: Vec<Stage>,
    /// Which stage is made where in the program.
    places: HashMap<Place, usize>,
    /// The loops that there were, by where they are in the program.
    loops: HashMap<(Option<u32>, u32), u32>,
    /// Those that are going on, the innermost last, and what is outside of all.
    inside: Vec<Loop>,
    outside: Loop,
    /// Verbs that run, the innermost last, and when a loop or a verb that is inside of no other has begun.
    verbs: Vec<Running>,
    depth: usize,
    /// How many exchanges have begun, and how many have ended.
    exchanges_begun: u64,
    exchanges_ended: u64,
    /// The stage that an error ended, and when it was at work.
    unfinished: Option<(Unfinished, Span)>,
    began: Time,
    /// Where what the program has at the moment comes from.
    origins: Vec<Origin>,
    last: Option<Last>,
    waited: Duration,
    bytes_spilled: u64,
    timeline: Timeline,
    read: Vec<PathBuf>,
    written: Vec<Written>,
    merged: u64,
}

/// A verb that runs, and the exchanges that had begun and ended when it began.
#[derive(Clone, Copy, Debug)]
struct Running {
    verb: Verb,
    exchanges_begun: u64,
    exchanges_ended: u64,
}

/// Where in the program an exchange is made: in which loop, as the how-manieth of a round, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    of: Option<u32>,
    at: u32,
    verb: Verb,
}

/// Where a round is.
#[derive(Clone, Copy, Debug, Default)]
struct Loop {
    number: Option<u32>,
    /// Exchanges and loops that there were so far in this round.
    at: u32,
}

/// The exchange that has ended last.
#[derive(Clone, Copy, Debug)]
struct Last {
    stage: usize,
    of: Option<u32>,
    ended: Time,
}

/// What an exchange comes to when it ends.
pub(crate) struct Ended {
    pub(crate) number: u32,
    pub(crate) verb: Verb,
    pub(crate) records_kept: u64,
    pub(crate) records_sent: u64,
    pub(crate) bytes_sent: Vec<u64>,
    pub(crate) segments: u64,
}

/// A verb that runs, or a loop, until this is dropped.
pub(crate) struct Entered<'r> {
    recorder: &'r Recorder,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Verb,
    Loop,
}

impl Recorder {
    pub(crate) fn new(clock: Clock, workers: usize, bytes_spilled: Arc<AtomicU64>) -> Recorder {
        let (origin, live, state) = (clock.now(), Arc::default(), RefCell::default());
        Recorder { clock, origin, workers, live, bytes_spilled, state }
    }

    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// A verb begins: exchanges are its own until what is returned is dropped, and what comes after the last of them belongs to that.
    pub(crate) fn enter(&self, verb: Verb) -> Entered<'_> {
        let mut state = self.state.borrow_mut();
        let State { exchanges_begun, exchanges_ended, .. } = *state;
        state.verbs.push(Running { verb, exchanges_begun, exchanges_ended });
        self.run(&state, Some(verb));
        drop(state);
        self.entered(What::Verb)
    }

    /// A loop begins.
    pub(crate) fn enter_loop(&self) -> Entered<'_> {
        let mut state = self.state.borrow_mut();
        let outer = *state.round();
        state.round().at += 1;
        // A loop in a loop is the same one in each round.
        let next = state.loops.len().min(LOOPS_MAX - 1) as u32;
        let number = match state.loops.len() < LOOPS_MAX {
            true => *state.loops.entry((outer.number, outer.at)).or_insert(next),
            false => state.loops.get(&(outer.number, outer.at)).copied().unwrap_or(next),
        };
        state.inside.push(Loop { number: Some(number), at: 0 });
        drop(state);
        self.entered(What::Loop)
    }

    fn entered(&self, what: What) -> Entered<'_> {
        let mut state = self.state.borrow_mut();
        if state.depth == 0 {
            state.began = self.clock.now();
        }
        state.depth += 1;
        Entered { recorder: self, what }
    }

    /// An exchange is about to begin. Returns which verb makes it.
    pub(crate) fn begin(&self) -> Verb {
        let mut state = self.state.borrow_mut();
        state.exchanges_begun += 1;
        let verb = state.verbs.last().map_or(Verb::Exchange, |running| running.verb);
        self.run(&state, Some(verb));
        verb
    }

    /// A verb begins or goes on, or none does.
    fn run(&self, state: &State, verb: Option<Verb>) {
        let known = verb.and_then(|verb| state.known(verb));
        self.live.run(verb, known.map(|index| state.stages[index].number));
    }

    /// The worker has waited.
    pub(crate) fn waited(&self, time: Duration) {
        self.state.borrow_mut().waited += time;
    }

    /// An exchange has ended: it is a stage, or another time of one.
    pub(crate) fn ended(&self, ended: Ended) {
        let now = self.clock.now();
        let records_received = self.live.take_received();
        let mut state = self.state.borrow_mut();
        state.exchanges_ended += 1;
        state.unfinished = None;
        let began = state.stage_began();
        let (time, waiting) = (now.since(began), std::mem::take(&mut state.waited));
        let spilled = state.spilled_since(&self.bytes_spilled);
        let (index, goes_on) = state.stage(&ended, self.workers);
        let origins = std::mem::take(&mut state.origins);
        let stage = &mut state.stages[index];
        if !goes_on {
            origins.into_iter().for_each(|origin| add_new(&mut stage.inputs, origin, INPUTS_MAX));
        }
        let is_first = stage.times == 0;
        stage.times += 1;
        stage.time += time;
        stage.shortest = if is_first { time } else { stage.shortest.min(time) };
        stage.longest = stage.longest.max(time);
        stage.waiting += waiting;
        stage.records_kept += ended.records_kept;
        stage.records_sent += ended.records_sent;
        stage.records_received += records_received;
        let sent = stage.bytes_sent.iter_mut().zip(&ended.bytes_sent);
        sent.for_each(|(all, bytes)| *all += bytes);
        stage.segments += ended.segments;
        stage.bytes_spilled += spilled;
        let number = stage.number;
        state.origins.push(Origin::Stage(number));
        let of = state.round().number;
        state.last = Some(Last { stage: index, of, ended: now });
        self.live.ended(&ended, number, records_received);
        // What comes out of it goes to the verb around it, and is that one's.
        self.run(&state, state.verbs.iter().nth_back(1).map(|running| running.verb));
        let (began, ended) = (began.since(self.origin), now.since(self.origin));
        state.timeline.push(Span { number, began, ended, times: 1, time, waiting });
    }

    /// A verb or a loop has come to its end. If it is inside of no other, what was done since its last exchange belongs to that.
    fn left(&self, what: What) {
        let mut state = self.state.borrow_mut();
        state.depth -= 1;
        match what {
            What::Verb => {
                let left = state.verbs.pop();
                if let Some(verb) = left.and_then(|left| state.is_unfinished(left)) {
                    let unfinished = self.unfinished(&mut state, verb);
                    state.unfinished = Some(unfinished);
                }
                self.run(&state, state.verbs.last().map(|running| running.verb));
            }
            What::Loop => drop(state.inside.pop()),
        }
        if state.unfinished.is_some() {
            return;
        }
        let began = state.began;
        let outermost = state.depth == 0;
        let Some(last) = state.last.as_mut().filter(|last| outermost && last.ended >= began) else {
            return;
        };
        let now = self.clock.now();
        let time = now.since(std::mem::replace(&mut last.ended, now));
        let index = last.stage;
        let spilled = state.spilled_since(&self.bytes_spilled);
        let stage = &mut state.stages[index];
        stage.time += time;
        if stage.times == 1 {
            (stage.shortest, stage.longest) = (stage.time, stage.time);
        }
        stage.bytes_spilled += spilled;
        let number = stage.number;
        state.timeline.extend(number, now.since(self.origin));
    }

    /// A stage of a verb that an error has ended.
    fn unfinished(&self, state: &mut State, verb: Verb) -> (Unfinished, Span) {
        let (now, live) = (self.clock.now(), self.live.now());
        let began = state.stage_began();
        let (time, waiting) = (now.since(began), std::mem::take(&mut state.waited));
        let number = state.known(verb).map_or(live.number, |index| state.stages[index].number);
        let unfinished = Unfinished {
            number,
            verb,
            in_loop: state.round().number,
            inputs: state.origins.iter().take(INPUTS_MAX).cloned().collect(),
            time,
            waiting,
            records_made: live.records_made,
            records_held: live.records_held,
            bytes_sent: live.bytes_sent,
            bytes_spilled: state.spilled_since(&self.bytes_spilled),
        };
        let (began, ended) = (began.since(self.origin), now.since(self.origin));
        (unfinished, Span { number, began, ended, times: 1, time, waiting })
    }

    /// Runs something that what is run next does not go on with. Returns where it came to, for [`joined`](Self::joined).
    pub(crate) fn aside<T>(&self, run: impl FnOnce() -> T) -> (T, Vec<Origin>) {
        let under_way = |state: &State| state.exchanges_begun - state.exchanges_ended;
        let (before, begun) = {
            let state = self.state.borrow();
            (state.origins.clone(), under_way(&state))
        };
        let done = run();
        let mut state = self.state.borrow_mut();
        if under_way(&state) > begun {
            // An error ended it: its stage does not come to its end, and goes on with what it went on with.
            return (done, Vec::new());
        }
        (done, std::mem::replace(&mut state.origins, before))
    }

    /// What follows goes on with these, too.
    pub(crate) fn joined(&self, origins: Vec<Origin>) {
        let mut state = self.state.borrow_mut();
        let others = std::mem::replace(&mut state.origins, origins);
        others.into_iter().for_each(|origin| add_new(&mut state.origins, origin, INPUTS_MAX));
    }

    /// What comes next is read from a file.
    pub(crate) fn read(&self, path: &Path) {
        let mut state = self.state.borrow_mut();
        add_new(&mut state.read, path.to_owned(), FILES_MAX);
        state.origins = vec![Origin::Read(path.to_owned())];
    }

    /// What the program has now was written to a file.
    pub(crate) fn written(&self, path: &Path) {
        let mut state = self.state.borrow_mut();
        let written = Written { path: path.to_owned(), inputs: state.origins.clone() };
        add_new(&mut state.written, written, FILES_MAX);
    }

    /// All of it, so far.
    pub(crate) fn stages(&self) -> Stages {
        let state = self.state.borrow();
        let (unfinished, span) = state.unfinished.clone().unzip();
        Stages {
            elapsed: self.clock.now().since(self.origin),
            stages: state.stages.clone(),
            unfinished,
            timeline: state.timeline.spans().iter().copied().chain(span).collect(),
            read: state.read.clone(),
            written: state.written.clone(),
            merged: state.merged,
        }
    }
}

impl Entered<'_> {
    /// The next round of a loop begins.
    pub(crate) fn begin_round(&self) {
        self.recorder.state.borrow_mut().round().at = 0;
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.recorder.left(self.what);
    }
}

impl State {
    /// The loop that the program is in, or what is outside of all.
    fn round(&mut self) -> &mut Loop {
        self.inside.last_mut().unwrap_or(&mut self.outside)
    }

    /// When the stage began that is going on.
    fn stage_began(&self) -> Time {
        self.last.map_or(self.began, |last| last.ended.max(self.began))
    }

    /// The verb, if it comes to its end by an error: an exchange of its own has begun and not ended, or none has begun. Of verbs one inside of the other, the innermost counts.
    fn is_unfinished(&self, left: Running) -> Option<Verb> {
        let begun = (self.exchanges_begun - left.exchanges_begun).max(1);
        let ended = self.exchanges_ended - left.exchanges_ended;
        (ended < begun && self.unfinished.is_none()).then_some(left.verb)
    }

    /// The stage that an exchange of this verb would be another time of, if it is made now.
    fn known(&self, verb: Verb) -> Option<usize> {
        let Loop { number: of, at } = self.inside.last().copied().unwrap_or(self.outside);
        let place = Place { of, at, verb };
        self.gathering(verb).or_else(|| self.places.get(&place).copied())
    }

    /// The last stage, if it is a gathering and this is one that follows it.
    fn gathering(&self, verb: Verb) -> Option<usize> {
        let Loop { number: of, .. } = self.inside.last().copied().unwrap_or(self.outside);
        let last = self.last.filter(|last| last.of == of).map(|last| last.stage);
        last.filter(|last| verb == Verb::Gather && self.stages[*last].verb == Verb::Gather)
    }

    /// What was kept in files since this was asked last.
    fn spilled_since(&mut self, bytes_spilled: &AtomicU64) -> u64 {
        let all = bytes_spilled.load(Ordering::Relaxed);
        all - std::mem::replace(&mut self.bytes_spilled, all)
    }

    /// The stage that an exchange belongs to, and whether it is the one that was last, which goes on.
    fn stage(&mut self, ended: &Ended, workers: usize) -> (usize, bool) {
        let of = self.round().number;
        // Gatherings that follow one another are of one thing: what the workers have come to.
        if let Some(index) = self.gathering(ended.verb) {
            return (index, true);
        }
        let known = self.known(ended.verb);
        let place = Place { of, at: self.round().at, verb: ended.verb };
        self.round().at += 1;
        if let Some(index) = known {
            return (index, false);
        }
        if self.stages.len() >= STAGES_MAX {
            self.merged += 1;
            let of_verb = self.stages.iter().rposition(|stage| stage.verb == ended.verb);
            if let Some(index) = of_verb {
                return (index, false);
            }
        } else {
            self.places.insert(place, self.stages.len());
        }
        self.stages.push(Stage {
            number: ended.number,
            verb: ended.verb,
            in_loop: of,
            times: 0,
            inputs: Vec::new(),
            time: Duration::ZERO,
            shortest: Duration::ZERO,
            longest: Duration::ZERO,
            waiting: Duration::ZERO,
            records_kept: 0,
            records_sent: 0,
            records_received: 0,
            bytes_sent: vec![0; workers],
            segments: 0,
            bytes_spilled: 0,
        });
        (self.stages.len() - 1, false)
    }
}

/// Adds what is not there yet, if there is room.
fn add_new<T: PartialEq>(all: &mut Vec<T>, new: T, len_max: usize) {
    if all.len() < len_max && !all.contains(&new) {
        all.push(new);
    }
}
