//! Is there an order of the operations on each key that explains what every client was told?
//!
//! Linearizability is local: a history is linearizable if each key's part of it is, so keys are
//! checked one by one. The search is Wing and Gong's ("Testing and verifying concurrent objects",
//! 1993) with Lowe's memoization ("Testing for linearizability", 2017): take any operation that no
//! unfinished one precedes, apply it to the model, and go on; a set of taken operations with the
//! same state is entered once.
//!
//! An operation of unknown outcome may take effect at any later time or never. Taken like the
//! others, each would double the search for the rest of the history. It need not be: in an
//! explanation with the fewest unknown operations, each of them is followed at once by one of known
//! outcome that could not have been told what it was without it, or by another unknown one that
//! builds on it, such as an append; leaving out any other changes
//! nothing that a client saw, and only loosens the bounds on later versions. So unknown operations
//! are taken just in time, in chains, together with the first operation that saw their effect.

mod register;
mod steps;
mod values;
mod versions;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;

use crate::history::{History, Operation};
use crate::limits::CONFIGURATIONS_MAX;
use register::{Effect, Register};
use steps::Step;
use values::{ValueId, Values};

pub use versions::OutOfOrder;

/// Checks every key of a history: first that versions follow the order in which operations were told, which
/// takes no search and names two operations, then that there is an explanation.
///
/// # Errors
///
/// [`CheckError::OutOfOrder`] or [`CheckError::NotLinearizable`] for the first key without an explanation, and
/// [`CheckError::GaveUp`] if the search became too large to finish, which proves nothing either
/// way.
pub fn check(history: &History) -> Result<(), CheckError> {
    let keys = history.by_key();
    for (key, operations) in &keys {
        versions::check(key, operations).map_err(CheckError::OutOfOrder)?;
    }
    keys.into_iter().try_for_each(|(key, operations)| check_key(key, &operations))
}

/// Why a history was not found linearizable.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CheckError {
    /// No order explains what the clients of a key were told.
    #[error("{0}")]
    NotLinearizable(Violation),
    /// Versions of a key contradict what came first.
    #[error("{0}")]
    OutOfOrder(OutOfOrder),
    /// The search was abandoned.
    #[error("key {}: no explanation among {configurations} configurations", .key.escape_ascii())]
    GaveUp {
        /// The key.
        key: Vec<u8>,
        /// How many were tried.
        configurations: usize,
    },
}

/// A key whose history no order explains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The key.
    pub key: Vec<u8>,
    /// How many operations the longest attempt explained.
    pub explained: usize,
    /// What the key held at the end of that attempt.
    pub state: String,
    /// The operations that can be ordered no further: those that could be next, and those that have
    /// to come before the version goes on.
    pub stuck: Vec<Operation>,
    /// The explained operations that began last, for context.
    pub before: Vec<Operation>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "key {}: no order explains what clients were told", self.key.escape_ascii())?;
        writeln!(f, "  {} operations can be explained; of these began last:", self.explained)?;
        for operation in &self.before {
            writeln!(f, "    {operation}")?;
        }
        writeln!(f, "  then the key holds {}, and no order of these goes on:", self.state)?;
        for operation in &self.stuck {
            writeln!(f, "    {operation}")?;
        }
        write!(f, "  (other attempts fail earlier)")
    }
}

fn check_key(key: &[u8], operations: &[&Operation]) -> Result<(), CheckError> {
    let (steps, values) = steps::steps(operations);
    let mut search = Search::new(&steps, &values);
    match search.run() {
        Verdict::Explained => Ok(()),
        Verdict::GaveUp => Err(CheckError::GaveUp {
            key: key.to_vec(),
            configurations: search.configurations.len(),
        }),
        Verdict::Unexplained => Err(CheckError::NotLinearizable(search.violation(key, operations))),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Explained,
    Unexplained,
    GaveUp,
}

/// The search for one key. Steps are in the order of their invocation.
struct Search<'a> {
    steps: &'a [Step],
    values: &'a Values,
    /// Steps of unknown outcome.
    unknown: Vec<usize>,
    /// The known steps that were told a version, in the order of versions.
    versions: Vec<(u64, usize)>,
    taken: Taken,
    /// Every set of taken steps and state that was entered.
    configurations: HashSet<(Taken, Register)>,
    /// Known steps that are not taken.
    remaining: usize,
    /// The configuration with the fewest remaining steps.
    deepest: (usize, Taken, Register),
    /// Whether nothing is done but appending and reading.
    only_grows: bool,
    /// Where that is so: the step that read the longest value, and the value. Before that step, the key holds
    /// nothing but a beginning of it; after it, clients are told lengths only.
    grows_to: Option<(usize, ValueId)>,
    /// Chains of unknown steps were left out, so that nothing is proved by finding no explanation.
    has_left_out: bool,
}

/// A point in the search: what may come next, and what has been tried of it.
struct Frame {
    /// All known steps before this one are taken.
    first: usize,
    /// All of `versions` before this one are taken.
    lowest: usize,
    moves: Vec<Move>,
    tried: usize,
    /// What led here, to be undone on the way back.
    arrival: Option<Move>,
}

/// The known steps that may come next.
struct Open {
    /// The first that is not taken.
    first: usize,
    candidates: Vec<usize>,
    /// When the first of all that remain returned: no step that began later, unknown ones included,
    /// can be next.
    earliest_return: u64,
}

/// A known step, with the unknown ones before it that it saw the effect of.
#[derive(Clone)]
struct Move {
    step: usize,
    unknown: Vec<usize>,
    after: Register,
}

/// The chains of unknown steps that one known step is looked at with.
struct Chains<'a> {
    step: usize,
    earliest_return: u64,
    chain: Vec<usize>,
    moves: &'a mut Vec<Move>,
    /// States in which chains have come to the same set of steps.
    seen: HashSet<(Vec<usize>, Register)>,
}

impl<'a> Search<'a> {
    fn new(steps: &'a [Step], values: &'a Values) -> Self {
        let taken = Taken::none_of(steps.len());
        let unknown: Vec<usize> =
            (0..steps.len()).filter(|step| steps[*step].returned.is_none()).collect();
        let told = |(index, step): (usize, &Step)| Some((step.effect.version()?, index));
        let mut versions: Vec<(u64, usize)> = steps.iter().enumerate().filter_map(told).collect();
        versions.sort_unstable();
        let remaining = steps.len() - unknown.len();
        let deepest = (remaining, taken.clone(), Register::default());
        Search {
            steps,
            values,
            unknown,
            versions,
            taken,
            configurations: HashSet::new(),
            remaining,
            deepest,
            only_grows: only_grows(steps),
            grows_to: only_grows(steps).then(|| longest_read(steps, values)).flatten(),
            has_left_out: false,
        }
    }

    fn run(&mut self) -> Verdict {
        let mut path = vec![self.frame((0, 0), Register::default(), None)];
        while let Some(frame) = path.last_mut() {
            if self.remaining == 0 {
                return Verdict::Explained;
            }
            if self.configurations.len() > CONFIGURATIONS_MAX {
                return Verdict::GaveUp;
            }
            let Some(next) = frame.moves.get(frame.tried).cloned() else {
                if let Some(arrival) = path.pop().and_then(|frame| frame.arrival) {
                    self.undo(&arrival);
                }
                continue;
            };
            frame.tried += 1;
            let from = (frame.first, frame.lowest);
            self.take(&next);
            if self.configurations.insert((self.taken.clone(), next.after)) {
                if self.remaining < self.deepest.0 {
                    self.deepest = (self.remaining, self.taken.clone(), next.after);
                }
                path.push(self.frame(from, next.after, Some(next)));
            } else {
                self.undo(&next);
            }
        }
        if self.has_left_out { Verdict::GaveUp } else { Verdict::Unexplained }
    }

    fn take(&mut self, next: &Move) {
        self.taken.set(next.step, true);
        next.unknown.iter().for_each(|unknown| self.taken.set(*unknown, true));
        self.remaining -= 1;
    }

    fn undo(&mut self, last: &Move) {
        self.taken.set(last.step, false);
        last.unknown.iter().for_each(|unknown| self.taken.set(*unknown, false));
        self.remaining += 1;
    }

    fn frame(
        &mut self,
        (first, lowest): (usize, usize),
        state: Register,
        arrival: Option<Move>,
    ) -> Frame {
        let open = self.open(first);
        let mut moves = Vec::with_capacity(open.candidates.len());
        for &step in &open.candidates {
            let effect = self.steps[step].effect;
            let alone = state.apply(effect, self.values);
            let is_explained = alone.is_some() && !effect.is_told_less_than_it_leaves();
            moves.extend(alone.map(|after| Move { step, unknown: Vec::new(), after }));
            if !is_explained && !self.unknown.is_empty() {
                self.explain_by_unknown(step, open.earliest_return, state, &mut moves);
            }
        }
        let mut by_version =
            (lowest..self.versions.len()).filter(|version| self.is_open(self.versions[*version].1));
        let lowest = by_version.next().unwrap_or(self.versions.len());
        let lowest_two = [Some(lowest), by_version.next()]
            .map(|version| version.and_then(|version| self.versions.get(version)));
        moves.retain(|next| {
            // The step that has read the longest value leaves it.
            if !self.can_hold(next.after) {
                return false;
            }
            let mut others = lowest_two.iter().flatten().filter(|(_, step)| *step != next.step);
            others.next().is_none_or(|(version, _)| !next.after.has_passed(*version))
        });
        // What returned first was most likely first, and what clients have read is on the way; a wrong
        // guess only costs time.
        let leads_on = |after: Register| after.value().is_none_or(|v| self.values.leads_on(v));
        moves.sort_by_cached_key(|next| {
            (self.steps[next.step].returned, !leads_on(next.after), next.unknown.len())
        });
        Frame { first: open.first, lowest, moves, tried: 0, arrival }
    }

    /// The ways in which `step` saw the effect of unknown ones right before it.
    fn explain_by_unknown(
        &mut self,
        step: usize,
        earliest_return: u64,
        state: Register,
        moves: &mut Vec<Move>,
    ) {
        let (chain, seen) = (Vec::new(), HashSet::new());
        let mut chains = Chains { step, earliest_return, chain, moves, seen };
        self.extend_chain(state, &mut chains);
    }

    fn extend_chain(&mut self, state: Register, chains: &mut Chains<'_>) {
        let mut tried: Vec<Effect> = Vec::new();
        for index in 0..self.unknown.len() {
            let unknown = self.unknown[index];
            let Step { invoked, effect, .. } = self.steps[unknown];
            if invoked > chains.earliest_return {
                break;
            }
            // Of a chain all but the first build on what is there, or the one before would not be seen.
            // Unknown steps never return, so two with the same effect stay exchangeable for good.
            if !chains.chain.is_empty() && !effect.builds_on()
                || self.taken.contains(unknown)
                || chains.chain.contains(&unknown)
                || tried.iter().any(|other| self.is_exchangeable(effect, *other))
            {
                continue;
            }
            tried.push(effect);
            let Some(between) = state.apply(effect, self.values) else { continue };
            if between == state
                || !self.can_hold(between)
                || self.only_grows && self.is_too_long(between, self.steps[chains.step].effect)
            {
                continue;
            }
            if chains.seen.len() >= CHAINS_MAX {
                self.has_left_out = true;
                return;
            }
            chains.chain.push(unknown);
            let mut set = chains.chain.clone();
            set.sort_unstable();
            if chains.seen.insert((set, between)) {
                let step = chains.step;
                if let Some(after) = between.apply(self.steps[step].effect, self.values) {
                    chains.moves.push(Move { step, unknown: chains.chain.clone(), after });
                }
                self.extend_chain(between, chains);
            }
            chains.chain.pop();
        }
    }

    /// Whether a value that only grows is longer by now than `effect` was told that it is.
    fn is_too_long(&self, state: Register, effect: Effect) -> bool {
        let len = state.value().map_or(0, |value| self.values.len(value));
        match effect {
            Effect::Append { tail, told: Some((whole, _)) } => len + self.values.len(tail) > whole,
            Effect::Found { value: Some(value), .. } => len > self.values.len(value),
            _ => false,
        }
    }

    /// Whether two unknown steps that may both be next leave the same to be seen.
    fn is_exchangeable(&self, one: Effect, other: Effect) -> bool {
        match (one, other) {
            (Effect::Append { tail, .. }, Effect::Append { tail: other, .. })
                if self.only_grows && self.grows_to.is_none_or(|(step, _)| !self.is_open(step)) =>
            {
                self.values.len(tail) == self.values.len(other)
            }
            _ => one == other,
        }
    }

    /// Whether what remains does not rule out a state by itself.
    fn can_hold(&self, state: Register) -> bool {
        match (self.grows_to, state.value()) {
            (Some((step, longest)), Some(value)) if self.is_open(step) => {
                self.values.begins(longest, value)
            }
            _ => true,
        }
    }

    /// The known steps that may be next: those that no other remaining one precedes.
    fn open(&self, first: usize) -> Open {
        let mut remaining = (first..self.steps.len()).filter(|step| self.is_open(*step)).peekable();
        let first = remaining.peek().copied().unwrap_or(self.steps.len());
        let mut open = Open { first, candidates: Vec::new(), earliest_return: u64::MAX };
        for step in remaining {
            let Step { invoked, returned, .. } = self.steps[step];
            if invoked > open.earliest_return {
                break;
            }
            open.earliest_return = open.earliest_return.min(returned.unwrap_or(u64::MAX));
            open.candidates.push(step);
        }
        open
    }

    /// Whether a step is known and not taken.
    fn is_open(&self, step: usize) -> bool {
        self.steps[step].returned.is_some() && !self.taken.contains(step)
    }

    fn violation(mut self, key: &[u8], operations: &[&Operation]) -> Violation {
        let (_, taken, state) =
            std::mem::replace(&mut self.deepest, (0, Taken::none_of(0), Register::default()));
        self.taken = taken;
        let mut stuck = self.open(0).candidates;
        let by_version = self.versions.iter().map(|(_, step)| *step);
        let lowest_two = by_version.filter(|step| self.is_open(*step)).take(2);
        let lowest: Vec<usize> = lowest_two.filter(|step| !stuck.contains(step)).collect();
        stuck.extend(lowest);
        let operation = |step: usize| operations[self.steps[step].operation].clone();
        let explained: Vec<usize> =
            (0..self.steps.len()).filter(|step| self.taken.contains(*step)).collect();
        let context = explained.len().saturating_sub(CONTEXT);
        Violation {
            key: key.to_vec(),
            explained: explained.len(),
            state: state.describe(self.values),
            stuck: stuck.into_iter().map(operation).collect(),
            before: explained[context..].iter().copied().map(operation).collect(),
        }
    }
}

fn only_grows(steps: &[Step]) -> bool {
    let only_grows = |step: &Step| {
        matches!(step.effect, Effect::Append { .. } | Effect::Found { .. } | Effect::Absent { .. })
    };
    steps.iter().all(only_grows)
}

fn longest_read(steps: &[Step], values: &Values) -> Option<(usize, ValueId)> {
    let read = |(index, step): (usize, &Step)| match step.effect {
        Effect::Found { value: Some(value), .. } => Some((index, value)),
        _ => None,
    };
    let reads = steps.iter().enumerate().filter_map(read);
    reads.max_by_key(|(_, value)| values.len(*value))
}

/// Chains of unknown steps that are looked at before one known step. Of those that add the same number or
/// that no client has seen the effect of there are few.
const CHAINS_MAX: usize = 1 << 12;

/// Explained operations that a violation shows.
const CONTEXT: usize = 8;

/// A set of steps, as bits.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Taken(Box<[u64]>);

impl Taken {
    fn none_of(steps: usize) -> Self {
        Taken(vec![0; steps.div_ceil(64)].into())
    }

    fn contains(&self, step: usize) -> bool {
        self.0[step / 64] & (1 << (step % 64)) != 0
    }

    fn set(&mut self, step: usize, taken: bool) {
        let bit = 1 << (step % 64);
        if taken {
            self.0[step / 64] |= bit;
        } else {
            self.0[step / 64] &= !bit;
        }
    }
}
