//! What a receiver counts: messages, bytes, the longest time without any, and whether each
//! producer's came in order.

use std::time::Duration;

use anyhow::Context as _;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use weft_transport::Time;

use crate::numbered::Numbered;

/// A gap worth counting: far more than a batch takes.
pub(crate) const GAP: Duration = Duration::from_millis(1);

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

/// Shared by the threads that receive and the one that reports.
pub(crate) struct Tally {
    state: Mutex<State>,
}

struct State {
    messages: u64,
    bytes: u64,
    last_batch: Option<Time>,
    gaps: Gaps,
    /// The next sequence number of each producer.
    next: Vec<u64>,
    /// The first thing that was out of order; a rate with a disorder is no rate.
    disorder: Option<String>,
}

impl Tally {
    pub(crate) fn new(producers: usize) -> Self {
        Tally {
            state: Mutex::new(State {
                messages: 0,
                bytes: 0,
                last_batch: None,
                gaps: Gaps::default(),
                next: vec![0; producers],
                disorder: None,
            }),
        }
    }

    /// Begins a batch received at `now`. The gap is counted from the beginning of one batch to that
    /// of the next, so a batch that takes long is not hidden.
    pub(crate) fn batch(&self, now: Time) -> TallyBatch<'_> {
        let mut state = self.state.lock();
        if let Some(last) = state.last_batch {
            state.gaps.note(now.since(last));
        }
        state.last_batch = Some(now);
        TallyBatch { state }
    }

    /// The counts so far, and the gaps since the last sample.
    pub(crate) fn sample(&self, now: Time) -> Sample {
        let mut state = self.state.lock();
        let mut gaps = std::mem::take(&mut state.gaps);
        // A receiver that has been silent until now is in a gap that no batch has ended yet.
        gaps.note(state.last_batch.map_or(Duration::ZERO, |last| now.since(last)));
        Sample {
            time: now,
            messages: state.messages,
            bytes: state.bytes,
            gaps,
            disorder: state.disorder.clone(),
        }
    }
}

/// The tally, held for one batch.
pub(crate) struct TallyBatch<'a> {
    state: MutexGuard<'a, State>,
}

impl TallyBatch<'_> {
    /// Counts a message and checks its number.
    #[inline]
    pub(crate) fn numbered(&mut self, body: &[u8]) {
        self.count(1, body.len());
        let in_order = Numbered::number(body).is_some_and(|(producer, sequence)| {
            self.state.next.get_mut(producer as usize).is_some_and(|next| {
                let expected = *next;
                *next = expected + 1;
                expected == sequence
            })
        });
        if !in_order && self.state.disorder.is_none() {
            self.state.disorder = Some(match Numbered::number(body) {
                Some((producer, sequence)) => {
                    format!("producer {producer}: message {sequence} was not the next one")
                }
                None => format!("a message of {} bytes carries no number", body.len()),
            });
        }
    }

    /// Counts messages that carry no number.
    #[inline]
    pub(crate) fn count(&mut self, messages: u64, bytes: usize) {
        self.state.messages += messages;
        self.state.bytes += bytes as u64;
    }
}

/// The counts at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sample {
    time: Time,
    messages: u64,
    bytes: u64,
    gaps: Gaps,
    disorder: Option<String>,
}

/// What happened between two samples.
#[derive(Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) messages_per_second: f64,
    pub(crate) bytes_per_second: f64,
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
            messages_per_second: messages as f64 / seconds,
            bytes_per_second: (self.bytes - earlier.bytes) as f64 / seconds,
            gaps: self.gaps,
        })
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "time_ns": self.time.nanos(),
            "messages": self.messages,
            "bytes": self.bytes,
            "longest_gap_ns": u64::try_from(self.gaps.longest.as_nanos()).unwrap_or(u64::MAX),
            "long_gaps": self.gaps.long,
            "disorder": self.disorder,
        })
    }

    pub(crate) fn from_json(value: &Value) -> anyhow::Result<Self> {
        let number = |name: &str| {
            value[name].as_u64().with_context(|| format!("the sample {value} has no {name}"))
        };
        Ok(Sample {
            time: Time::from_nanos(number("time_ns")?),
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
        let message = Numbered { producer, sequence, filling: &[] };
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
        let tally = Tally::new(2);
        tally.batch(at(0)).numbered(&message(0, 0));
        let earlier = tally.sample(at(10));
        {
            let mut batch = tally.batch(at(40));
            batch.numbered(&message(1, 0));
            batch.numbered(&message(0, 1));
        }
        tally.batch(at(60)).numbered(&message(0, 2));
        let later = Sample::from_json(&tally.sample(at(2060)).to_json()).unwrap();
        let flow = later.flow_since(&earlier).unwrap();
        assert_eq!(flow.messages_per_second.round(), (3.0_f64 / 2050e-6).round());
        assert_eq!(flow.bytes_per_second.round(), (36.0_f64 / 2050e-6).round());
        assert_eq!(flow.gaps, ONE_GAP, "the open gap at the end is the longest");
    }

    #[test]
    fn lost_repeated_swapped_foreign_and_unnumbered_messages_are_disorder() {
        let check = |messages: &[Vec<u8>]| {
            let tally = Tally::new(1);
            let earlier = tally.sample(at(0));
            let mut batch = tally.batch(at(1));
            messages.iter().for_each(|message| batch.numbered(message));
            drop(batch);
            tally.sample(at(2)).flow_since(&earlier).is_err()
        };
        assert!(!check(&[message(0, 0), message(0, 1)]));
        assert!(check(&[message(0, 0), message(0, 2)]));
        assert!(check(&[message(0, 0), message(0, 0)]));
        assert!(check(&[message(0, 1), message(0, 0)]));
        assert!(check(&[message(1, 0)]));
        assert!(check(&[vec![0; 11]]));
        assert!(check(&[]), "a silent receiver has no rate");
    }
}
