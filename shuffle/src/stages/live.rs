//! What a worker is doing at the moment, for other threads of its process: who draws it, and who tells of a panic.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::{Ended, Verb};

/// Shared by a worker and whoever looks at it. Nothing waits for anything, so what is read together may be of two moments.
#[derive(Debug, Default)]
pub struct Live {
    /// The verb that runs, or none.
    verb: AtomicU8,
    /// The number of the exchange that it makes, or makes next, and of the stage that this is a time of.
    number: AtomicU32,
    stage: AtomicU32,
    /// The stage that has ended last, if any has.
    ended_verb: AtomicU8,
    ended_stage: AtomicU32,
    /// Of the stage that is going on, or of the next.
    records_sent: AtomicU64,
    records_kept: AtomicU64,
    records_received: AtomicU64,
    bytes_sent: AtomicU64,
    /// The same of the exchange that has ended last.
    ended_records_made: AtomicU64,
    ended_records_held: AtomicU64,
    ended_bytes_sent: AtomicU64,
}

/// A look at a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The number of the exchange that is going on or comes next.
    pub number: u32,
    /// The number of its stage: that of the first exchange, if it is there in each round of a loop.
    pub stage: u32,
    /// What makes it, if that has begun.
    pub verb: Option<Verb>,
    /// The number of the stage that has ended last, and what had made it.
    pub ended: Option<(u32, Verb)>,
    /// Records that this worker has made for the exchange, whoever they belong to; if none is going on, for the one that has ended last.
    pub records_made: u64,
    /// Records that this worker has of the same: its own, and those that have come.
    pub records_held: u64,
    /// Bytes that have gone to others.
    pub bytes_sent: u64,
}

impl Live {
    /// What the worker is doing.
    pub fn now(&self) -> Now {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let verb = Verb::of_code(self.verb.load(Ordering::Relaxed));
        let ended = Verb::of_code(self.ended_verb.load(Ordering::Relaxed));
        let (records_made, records_held, bytes_sent) = match (verb, ended) {
            (None, Some(_)) => (
                get(&self.ended_records_made),
                get(&self.ended_records_held),
                get(&self.ended_bytes_sent),
            ),
            _ => {
                let kept = get(&self.records_kept);
                let (sent, received) = (get(&self.records_sent), get(&self.records_received));
                (sent + kept, kept + received, get(&self.bytes_sent))
            }
        };
        Now {
            number: self.number.load(Ordering::Relaxed),
            stage: self.stage.load(Ordering::Relaxed),
            verb,
            ended: ended.map(|verb| (self.ended_stage.load(Ordering::Relaxed), verb)),
            records_made,
            records_held,
            bytes_sent,
        }
    }

    /// A verb begins or goes on, or none does; `stage` was there before, if it is told.
    pub(super) fn run(&self, verb: Option<Verb>, stage: Option<u32>) {
        self.verb.store(Verb::code(verb), Ordering::Relaxed);
        let stage = stage.unwrap_or_else(|| self.number.load(Ordering::Relaxed));
        self.stage.store(stage, Ordering::Relaxed);
    }

    /// An exchange has ended, and with it a time of a stage; so many have come for it.
    pub(super) fn ended(&self, ended: &Ended, stage: u32, received: u64) {
        let Ended { number, verb, records_kept, records_sent, .. } = *ended;
        let store = |count: &AtomicU64, value| count.store(value, Ordering::Relaxed);
        store(&self.ended_records_made, records_kept + records_sent);
        store(&self.ended_records_held, records_kept + received);
        store(&self.ended_bytes_sent, ended.bytes_sent.iter().sum());
        self.ended_stage.store(stage, Ordering::Relaxed);
        self.ended_verb.store(Verb::code(Some(verb)), Ordering::Relaxed);
        self.number.store(number + 1, Ordering::Relaxed);
        for count in [&self.records_sent, &self.records_kept, &self.bytes_sent] {
            count.store(0, Ordering::Relaxed);
        }
    }

    /// A segment has gone.
    pub(crate) fn add_sent(&self, records: u64, bytes: u64) {
        self.records_sent.fetch_add(records, Ordering::Relaxed);
        self.bytes_sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A segment has come.
    pub(crate) fn add_received(&self, records: u64) {
        self.records_received.fetch_add(records, Ordering::Relaxed);
    }

    /// So many of the worker's own were kept.
    pub(crate) fn set_kept(&self, records: u64) {
        self.records_kept.store(records, Ordering::Relaxed);
    }

    /// How many have come for the exchange that ends: those of the next one count anew.
    pub(super) fn take_received(&self) -> u64 {
        self.records_received.swap(0, Ordering::Relaxed)
    }
}

impl fmt::Display for Now {
    /// Where in the job a worker is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.verb, self.ended) {
            (Some(verb), _) => write!(f, "stage {} ({verb})", self.stage),
            (None, Some((number, verb))) => write!(f, "what follows stage {number} ({verb})"),
            (None, None) => f.write_str("what comes before the first stage"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of an exchange of two records, of which one went to another worker.
    fn end(number: u32, verb: Verb) -> Ended {
        let (records_kept, records_sent, bytes_sent) = (1, 1, vec![0, 40]);
        Ended { number, verb, records_kept, records_sent, bytes_sent, segments: 1 }
    }

    #[test]
    fn it_is_said_where_in_the_job_a_worker_is() {
        let live = Live::default();
        assert_eq!(live.now().to_string(), "what comes before the first stage");
        live.run(Some(Verb::SortByKey), None);
        assert_eq!(live.now().to_string(), "stage 0 (sort_by_key)");
        live.ended(&end(0, Verb::SortByKey), 0, 0);
        live.run(None, None);
        assert_eq!(live.now().to_string(), "what follows stage 0 (sort_by_key)");
        live.run(Some(Verb::Gather), None);
        assert_eq!(live.now().to_string(), "stage 1 (gather)");
        live.ended(&end(1, Verb::Gather), 1, 0);
        live.run(Some(Verb::Gather), Some(1));
        assert_eq!((live.now().number, live.now().to_string()), (2, "stage 1 (gather)".to_owned()));
    }

    #[test]
    fn records_are_those_of_the_stage_that_is_going_on() {
        let live = Live::default();
        live.add_sent(3, 100);
        live.set_kept(2);
        live.add_received(7);
        let now = live.now();
        assert_eq!((now.records_made, now.records_held, now.bytes_sent), (5, 9, 100));
        assert_eq!(live.take_received(), 7);
        live.ended(&end(0, Verb::Join), 0, 7);
        live.run(Some(Verb::Gather), None);
        let now = live.now();
        assert_eq!((now.records_made, now.records_held, now.bytes_sent), (0, 0, 0));
        // Between two stages, they are those of the one before.
        live.run(None, None);
        let now = live.now();
        assert_eq!((now.records_made, now.records_held, now.bytes_sent), (2, 8, 40));
    }
}
