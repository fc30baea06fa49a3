//! What a receiver counts: messages, bytes, the longest time without any, and whether each
//! producer's came in order.

use std::time::Duration;

use anyhow::Context as _;
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use weft_transport::Time;

use crate::numbered::Numbered;

/// A gap worth counting: far more than a batch takes.
pub(crate) const GAP: Duration = Duration::from_millis(1);

/// A window in which nothing came is prolonged: a busy machine may stop all sides for longer than that.
/// One that hears nothing for so long is given up.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(20);

/// How long a prolonged window waits between two looks.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Times in which nothing happened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Gaps {
    pub(crate) longest: Duration,
    /// How many were longer than [`GAP`].
    pub(crate) long: u64,
}

impl Gaps {
    #[inline]
    pub(crate) fn note(&mut self, gap: Duration) {
        self.longest = self.longest.max(gap);
        self.long += u64::from(gap > GAP);
    }

    /// The worse of both in each respect.
    pub(crate) fn worse(self, other: Gaps) -> Gaps {
        Gaps { longest: self.longest.max(other.longest), long: self.long.max(other.long) }
    }
}

/// Shared by the threads that receive and the one that reports. Each thread that handles messages
/// has a share of its own.
pub(crate) struct Tally {
    arrivals: Mutex<Arrivals>,
    shares: Vec<CachePadded<Mutex<Share>>>,
}

#[derive(Default)]
struct Arrivals {
    last_batch: Option<Time>,
    gaps: Gaps,
}

#[derive(Clone)]
struct Share {
    messages: u64,
    bytes: u64,
    /// The next sequence number of each producer.
    next: Vec<u64>,
    /// The first thing that was out of order; a rate with a disorder is no rate.
    disorder: Option<String>,
}

impl Tally {
    /// For messages of so many producers, and as many threads that handle them.
    pub(crate) fn new(producers: usize, handlers: usize) -> Self {
        let share = Share { messages: 0, bytes: 0, next: vec![0; producers], disorder: None };
        let shares = (0..handlers).map(|_| CachePadded::new(Mutex::new(share.clone())));
        Tally { arrivals: Mutex::default(), shares: shares.collect() }
    }

    /// Begins a batch received at `now`, by the first or only handler.
    pub(crate) fn batch(&self, now: Time) -> TallyBatch<'_> {
        self.batch_of(0, now)
    }

    /// Begins a batch that is handled by `handler`, to which all messages of a producer come. The gap
    /// is counted from the beginning of one batch to that of the next, whoever handles it, so a batch
    /// that takes long is not hidden.
    pub(crate) fn batch_of(&self, handler: usize, now: Time) -> TallyBatch<'_> {
        let mut arrivals = self.arrivals.lock();
        if let Some(last) = arrivals.last_batch {
            arrivals.gaps.note(now.since(last));
        }
        arrivals.last_batch = Some(now);
        drop(arrivals);
        TallyBatch { share: self.shares[handler].lock() }
    }

    /// The counts so far, and the gaps since the last sample. `cpu` is the processor time that this
    /// process has used.
    pub(crate) fn sample(&self, now: Time, cpu: Duration) -> Sample {
        let mut arrivals = self.arrivals.lock();
        let mut gaps = std::mem::take(&mut arrivals.gaps);
        // A receiver that has been silent until now is in a gap that no batch has ended yet.
        gaps.note(arrivals.last_batch.map_or(Duration::ZERO, |last| now.since(last)));
        drop(arrivals);
        let mut sample = Sample { time: now, cpu, messages: 0, bytes: 0, gaps, disorder: None };
        for share in &self.shares {
            let share = share.lock();
            sample.messages += share.messages;
            sample.bytes += share.bytes;
            sample.disorder = sample.disorder.or_else(|| share.disorder.clone());
        }
        sample
    }
}

/// A share of the tally, held for one batch.
pub(crate) struct TallyBatch<'a> {
    share: MutexGuard<'a, Share>,
}

impl TallyBatch<'_> {
    /// Counts a message and checks its number.
    #[inline]
    pub(crate) fn numbered(&mut self, body: &[u8]) {
        self.count(1, body.len());
        let in_order = Numbered::number(body).is_some_and(|number| {
            self.share.next.get_mut(number.producer as usize).is_some_and(|next| {
                let expected = *next;
                *next = expected + 1;
                number.is(expected)
            })
        });
        if !in_order && self.share.disorder.is_none() {
            let number = Numbered::number(body);
            self.share.disorder =
                Some(format!("of {} bytes, {number:?} was not the next one", body.len()));
        }
    }

    /// Counts messages that carry no number.
    #[inline]
    pub(crate) fn count(&mut self, messages: u64, bytes: usize) {
        self.share.messages += messages;
        self.share.bytes += bytes as u64;
    }
}

/// The counts at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sample {
    time: Time,
    cpu: Duration,
    messages: u64,
    bytes: u64,
    gaps: Gaps,
    disorder: Option<String>,
}

/// What happened between two samples.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Flow {
    pub(crate) messages_per_second: f64,
    pub(crate) bytes_per_second: f64,
    /// Processors that the receiving process kept busy, 1 being all of one.
    pub(crate) processors: f64,
    /// Gaps between batches.
    pub(crate) gaps: Gaps,
}

impl Sample {
    /// Fails if anything was out of order, or nothing came at all.
    pub(crate) fn flow_since(&self, earlier: &Sample) -> anyhow::Result<Flow> {
        if let Some(disorder) = &self.disorder {
            anyhow::bail!("the receiver saw messages out of order: {disorder}");
        }
        let messages = self.messages - earlier.messages;
        anyhow::ensure!(messages > 0, "the receiver saw no message while it was measured");
        let seconds = self.time.since(earlier.time).as_secs_f64();
        Ok(Flow {
            processors: self.processors_since(earlier),
            messages_per_second: messages as f64 / seconds,
            bytes_per_second: (self.bytes - earlier.bytes) as f64 / seconds,
            gaps: self.gaps,
        })
    }

    /// Whether anything has come since.
    pub(crate) fn is_beyond(&self, earlier: &Sample) -> bool {
        self.messages > earlier.messages
    }

    /// Processors that the process kept busy, 1 being all of one.
    pub(crate) fn processors_since(&self, earlier: &Sample) -> f64 {
        let cpu = self.cpu.saturating_sub(earlier.cpu);
        cpu.as_secs_f64() / self.time.since(earlier.time).as_secs_f64()
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "time_ns": self.time.nanos(),
            "cpu_ns": u64::try_from(self.cpu.as_nanos()).unwrap_or(u64::MAX),
            "messages": self.messages,
            "bytes": self.bytes,
            "longest_gap_ns": u64::try_from(self.gaps.longest.as_nanos()).unwrap_or(u64::MAX),
            "long_gaps": self.gaps.long,
            "disorder": self.disorder,
        })
    }

    pub(crate) fn parse(line: &str) -> anyhow::Result<Self> {
        let value: Value = serde_json::from_str(line)
            .with_context(|| format!("a process said {line:?} instead of a sample"))?;
        let number = |name: &str| {
            value[name].as_u64().with_context(|| format!("the sample {value} has no {name}"))
        };
        Ok(Sample {
            time: Time::from_nanos(number("time_ns")?),
            cpu: Duration::from_nanos(number("cpu_ns")?),
            messages: number("messages")?,
            bytes: number("bytes")?,
            gaps: Gaps {
                longest: Duration::from_nanos(number("longest_gap_ns")?),
                long: number("long_gaps")?,
            },
            disorder: value["disorder"].as_str().map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_transport::Body as _;

    fn message(producer: u32, sequence: u64) -> Vec<u8> {
        let message = Numbered { producer, sequence, filling: &[0; 12] };
        let mut bytes = vec![0; message.len()];
        message.write(&mut bytes);
        bytes
    }

    const ONE_GAP: Gaps = Gaps { longest: Duration::from_millis(2), long: 1 };

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    #[test]
    fn the_flow_is_what_came_between_two_samples() {
        let tally = Tally::new(2, 1);
        tally.batch(at(0)).numbered(&message(0, 0));
        let earlier = tally.sample(at(10), Duration::ZERO);
        {
            let mut batch = tally.batch(at(40));
            batch.numbered(&message(1, 0));
            batch.numbered(&message(0, 1));
        }
        tally.batch(at(60)).numbered(&message(0, 2));
        let later = tally.sample(at(2060), Duration::from_micros(1025)).to_json();
        let later = Sample::parse(&later.to_string()).unwrap();
        let flow = later.flow_since(&earlier).unwrap();
        assert_eq!(flow.messages_per_second.round(), (3.0_f64 / 2050e-6).round());
        assert_eq!(flow.bytes_per_second.round(), (36.0_f64 / 2050e-6).round());
        assert_eq!(flow.processors, 0.5);
        assert_eq!(flow.gaps, ONE_GAP, "the open gap at the end is the longest");
    }

    #[test]
    fn lost_repeated_swapped_foreign_and_unnumbered_messages_are_disorder() {
        let check = |messages: &[Vec<u8>]| {
            let tally = Tally::new(1, 1);
            let earlier = tally.sample(at(0), Duration::ZERO);
            let mut batch = tally.batch(at(1));
            messages.iter().for_each(|message| batch.numbered(message));
            drop(batch);
            tally.sample(at(2), Duration::ZERO).flow_since(&earlier).is_err()
        };
        assert!(!check(&[message(0, 0), message(0, 1)]));
        assert!(check(&[message(0, 0), message(0, 2)]));
        assert!(check(&[message(0, 0), message(0, 0)]));
        assert!(check(&[message(0, 1), message(0, 0)]));
        assert!(check(&[message(1, 0)]));
        assert!(check(&[vec![]]));
        assert!(check(&[]), "a silent receiver has no rate");
    }

    #[test]
    fn what_several_handlers_have_counted_is_added() {
        let tally = Tally::new(2, 2);
        let earlier = tally.sample(at(0), Duration::ZERO);
        tally.batch_of(0, at(10)).numbered(&message(0, 0));
        tally.batch_of(1, at(20)).numbered(&message(1, 0));
        let flow = tally.sample(at(100), Duration::ZERO).flow_since(&earlier).unwrap();
        assert_eq!(flow.messages_per_second.round(), 20_000.0);
        tally.batch_of(1, at(110)).numbered(&message(1, 0));
        assert!(tally.sample(at(200), Duration::ZERO).flow_since(&earlier).is_err());
    }
}
