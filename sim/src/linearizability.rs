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
//! outcome that could not have been told what it was without it; leaving out any other changes
//! nothing that a client saw, and only loosens the bounds on later versions. So unknown operations
//! are taken just in time, together with the first operation that saw their effect.

mod register;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;

use crate::history::{History, Operation};
use crate::limits::CONFIGURATIONS_MAX;
use register::{Effect, Register, Step};

/// Checks every key of a history.
///
/// # Errors
///
/// [`CheckError::NotLinearizable`] for the first key without an explanation, and
/// [`CheckError::GaveUp`] if the search became too large to finish, which proves nothing either
/// way.
pub fn check(history: &History) -> Result<(), CheckError> {
    history.by_key().into_iter().try_for_each(|(key, operations)| check_key(key, &operations))
}

/// Why a history was not found linearizable.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CheckError {
    /// No order explains what the clients of a key were told.
    #[error("{0}")]
    NotLinearizable(Violation),
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
    let steps = register::steps(operations);
    let mut search = Search::new(&steps);
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

/// A known step, with the unknown one that it saw the effect of.
#[derive(Clone, Copy)]
struct Move {
    step: usize,
    unknown: Option<usize>,
    after: Register,
}

impl<'a> Search<'a> {
    fn new(steps: &'a [Step]) -> Self {
        let taken = Taken::none_of(steps.len());
        let unknown: Vec<usize> =
            (0..steps.len()).filter(|step| steps[*step].returned.is_none()).collect();
        let told = |(index, step): (usize, &Step)| Some((step.effect.version()?, index));
        let mut versions: Vec<(u64, usize)> = steps.iter().enumerate().filter_map(told).collect();
        versions.sort_unstable();
        let remaining = steps.len() - unknown.len();
        let deepest = (remaining, taken.clone(), Register::default());
        let configurations = HashSet::new();
        Search { steps, unknown, versions, taken, configurations, remaining, deepest }
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
            let Some(next) = frame.moves.get(frame.tried).copied() else {
                if let Some(arrival) = frame.arrival {
                    self.undo(arrival);
                }
                path.pop();
                continue;
            };
            frame.tried += 1;
            let from = (frame.first, frame.lowest);
            self.take(next);
            if self.configurations.insert((self.taken.clone(), next.after)) {
                if self.remaining < self.deepest.0 {
                    self.deepest = (self.remaining, self.taken.clone(), next.after);
                }
                path.push(self.frame(from, next.after, Some(next)));
            } else {
                self.undo(next);
            }
        }
        Verdict::Unexplained
    }

    fn take(&mut self, next: Move) {
        self.taken.set(next.step, true);
        if let Some(unknown) = next.unknown {
            self.taken.set(unknown, true);
        }
        self.remaining -= 1;
    }

    fn undo(&mut self, last: Move) {
        self.taken.set(last.step, false);
        if let Some(unknown) = last.unknown {
            self.taken.set(unknown, false);
        }
        self.remaining += 1;
    }

    fn frame(
        &self,
        (first, lowest): (usize, usize),
        state: Register,
        arrival: Option<Move>,
    ) -> Frame {
        let open = self.open(first);
        let mut moves = Vec::with_capacity(open.candidates.len());
        for &step in &open.candidates {
            match state.apply(&self.steps[step]) {
                Some(after) => moves.push(Move { step, unknown: None, after }),
                None => self.explain_by_unknown(step, open.earliest_return, state, &mut moves),
            }
        }
        let mut by_version =
            (lowest..self.versions.len()).filter(|version| self.is_open(self.versions[*version].1));
        let lowest = by_version.next().unwrap_or(self.versions.len());
        let lowest_two = [Some(lowest), by_version.next()]
            .map(|version| version.and_then(|version| self.versions.get(version)));
        moves.retain(|next| {
            let mut others = lowest_two.iter().flatten().filter(|(_, step)| *step != next.step);
            others.next().is_none_or(|(version, _)| !next.after.has_passed(*version))
        });
        // What returned first was most likely first; a wrong guess only costs time.
        moves.sort_by_key(|next| self.steps[next.step].returned);
        Frame { first: open.first, lowest, moves, tried: 0, arrival }
    }

    /// The ways in which `step` saw the effect of an unknown one right before it.
    fn explain_by_unknown(
        &self,
        step: usize,
        earliest_return: u64,
        state: Register,
        moves: &mut Vec<Move>,
    ) {
        let mut tried: Vec<Effect> = Vec::new();
        for &unknown in &self.unknown {
            let Step { invoked, effect, .. } = self.steps[unknown];
            if invoked > earliest_return {
                break;
            }
            // Unknown steps never return, so two with the same effect stay exchangeable for good.
            if self.taken.contains(unknown) || tried.contains(&effect) {
                continue;
            }
            tried.push(effect);
            let between = state.apply(&self.steps[unknown]);
            if let Some(after) = between.and_then(|between| between.apply(&self.steps[step])) {
                moves.push(Move { step, unknown: Some(unknown), after });
            }
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
            state: state.describe(operations),
            stuck: stuck.into_iter().map(operation).collect(),
            before: explained[context..].iter().copied().map(operation).collect(),
        }
    }
}

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
