//! The first failures of a run, told while they happen; all of them are counted elsewhere.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::measurement::Operation;
use crate::say::say;
use crate::target::RequestError;

/// How many of a kind are told.
const SHOWN: u64 = 5;

/// Tells the first failures of each kind on standard error, so that many of one kind do not hide
/// another.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    /// By kind.
    seen: [AtomicU64; Failure::KINDS],
}

/// Why an operation did not do what it was for.
#[derive(Debug)]
pub(crate) enum Failure<'a> {
    /// The target failed, or could not be reached.
    Request(&'a RequestError),
    /// There is no record of this name.
    NotFound { key: &'a [u8] },
    /// The record is there, and not as this workload would have written it.
    Unexpected { key: &'a [u8] },
}

impl Failure<'_> {
    const KINDS: usize = 3;

    fn kind(&self) -> usize {
        match self {
            Failure::Request(_) => 0,
            Failure::NotFound { .. } => 1,
            Failure::Unexpected { .. } => 2,
        }
    }

    /// What failures of the kind are together.
    fn kind_name(&self) -> &'static str {
        match self {
            Failure::Request(_) => "failed requests",
            Failure::NotFound { .. } => "missing records",
            Failure::Unexpected { .. } => "unexpected records",
        }
    }
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Request(error) => write!(f, "{error}"),
            Failure::NotFound { key } => write!(
                f,
                "there is no record {}; check that recordcount, insertorder and zeropadding are \
                 those of the load",
                key.escape_ascii()
            ),
            Failure::Unexpected { key } => write!(
                f,
                "record {} is not of this workload; check that fieldcount is that of the load",
                key.escape_ascii()
            ),
        }
    }
}

impl FailureLog {
    /// Tells of `failure` if it is one of the first of its kind.
    pub(crate) fn show(&self, operation: Operation, failure: &Failure<'_>) {
        let seen = &self.seen[failure.kind()];
        // Not every one of millions writes to what all threads share.
        if seen.load(Ordering::Relaxed) > SHOWN {
            return;
        }
        match seen.fetch_add(1, Ordering::Relaxed) {
            number if number < SHOWN => {
                say(format_args!("ycsb: {} failed: {failure}", operation.name()))
            }
            SHOWN => {
                say(format_args!("ycsb: further {} are counted, not shown", failure.kind_name()))
            }
            _ => (),
        }
    }
}
