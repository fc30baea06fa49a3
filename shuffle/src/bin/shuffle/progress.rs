//! Bars on a terminal: one for each phase of a job, with the stage that its workers are in.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::account::skew;
use crate::amounts::{bytes, count, span};
use crate::event::Now;

/// What a job does for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    /// What all workers together do.
    pub(crate) total: u64,
    pub(crate) unit: Unit,
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    Bytes,
    Rounds,
    Slots,
}

pub(crate) struct Progress {
    phases: Vec<Phase>,
    /// The phase that is drawn.
    current: usize,
    /// Of this phase, by worker.
    done: Vec<u64>,
    /// What each worker is doing.
    now: Vec<Option<Now>>,
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(phases: Vec<Phase>, workers: usize) -> Self {
        let bar = bar(&phases[0]);
        Self { phases, current: 0, done: vec![0; workers], now: vec![None; workers], bar }
    }

    /// A worker has come so far with a phase.
    pub(crate) fn tell(&mut self, worker: usize, phase: usize, done: u64) {
        // Another one has begun with the next already; or this one is told of that before it has begun with it.
        let is_early = phase > self.current && done == 0;
        if phase >= self.phases.len() || phase < self.current || is_early {
            return;
        }
        if phase > self.current {
            self.bar.finish_and_clear();
            self.bar = bar(&self.phases[phase]);
            self.current = phase;
            self.done.fill(0);
        }
        self.done[worker] = done;
        self.draw();
    }

    /// A worker is doing this.
    pub(crate) fn look(&mut self, worker: usize, now: Now) {
        self.now[worker] = Some(now);
        // A bar is not drawn before something is done.
        if self.bar.position() > 0 {
            self.draw();
        }
    }

    /// The job is done: the bar stays, full, and what is printed next is below it.
    pub(crate) fn finish(&self) {
        self.bar.finish();
        eprintln!();
    }

    fn draw(&self) {
        let phase = &self.phases[self.current];
        let done = self.done.iter().sum();
        let stage = stage(&self.now);
        self.bar.set_message(line(phase, done, self.bar.per_sec(), self.bar.eta(), &stage));
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !self.bar.is_finished() {
            self.bar.finish_and_clear();
        }
    }
}

/// With what [`line()`] gives, it fits into 100 columns; where there are fewer, the end is cut off.
fn bar(phase: &Phase) -> ProgressBar {
    let template = "{prefix:<5}[{bar:7}] {wide_msg}";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::new(phase.total).with_style(style).with_prefix(phase.name)
}

/// How far a phase is, how fast it goes and how long it will take, and then the stage; what matters most comes first.
fn line(phase: &Phase, done: u64, per_second: f64, left: Duration, stage: &str) -> String {
    let Phase { total, unit, .. } = *phase;
    let per_second = per_second as u64;
    let how_far = match unit {
        Unit::Bytes => {
            let part = u128::from(done.min(total)) * 100 / u128::from(total.max(1));
            format!("{part}% of {} {}/s", bytes(total), bytes(per_second))
        }
        Unit::Rounds | Unit::Slots => format!("{done}/{total} {}/s", count(per_second)),
    };
    format!("{how_far} {}{stage}", span(left.as_secs()))
}

/// The last stage that a worker is in: what those that are in it have made for it and sent, and how far the one that has most of it is above the others.
pub(crate) fn stage(now: &[Option<Now>]) -> String {
    let Some(number) = now.iter().flatten().map(|now| now.stage).max() else {
        return String::new();
    };
    let inside = || now.iter().flatten().filter(|now| now.stage == number);
    let Some(verb) = inside().find_map(|now| now.verb.as_deref()) else {
        let after = inside().find_map(|now| now.after.as_deref());
        return after.map_or_else(String::new, |verb| format!("  after {verb}"));
    };
    let records: u64 = inside().map(|now| now.records_made).sum();
    let sent: u64 = inside().map(|now| now.bytes_sent).sum();
    let held: Vec<u64> = inside().map(|now| now.records_held).collect();
    let skew = skew(&held).map_or_else(String::new, |skew| format!(" skew {skew:.2}"));
    format!("  {verb} {} records {}{skew}", count(records), bytes(sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: usize = 100;

    /// What is ahead of the line.
    const AHEAD: usize = "right[#######] ".len();

    fn now(stage: u32, verb: Option<&str>, made: u64, held: u64) -> Option<Now> {
        let verb = verb.map(str::to_owned);
        let after = Some("reduce_by_key".to_owned());
        Some(Now {
            stage,
            of: stage,
            verb,
            after,
            records_made: made,
            records_held: held,
            bytes_sent: 1 << 20,
        })
    }

    #[test]
    fn the_stage_is_said_with_its_records_bytes_and_skew() {
        let workers = [
            now(3, Some("sort_by_key"), 1_000, 3_000),
            now(3, Some("sort_by_key"), 2_000, 1_000),
            now(2, Some("sample"), 50, 50),
            None,
        ];
        assert_eq!(stage(&workers), "  sort_by_key 3.00k records 2.00 MiB skew 1.50");
        assert_eq!(stage(&[now(4, None, 0, 0), workers[0].clone()]), "  after reduce_by_key");
        assert_eq!(stage(&[None, None]), "");
        let nothing = [now(0, Some("join"), 0, 0)];
        assert_eq!(stage(&nothing), "  join 0 records 1.00 MiB");
    }

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        let read = Phase { name: "read", total: 4 << 30, unit: Unit::Bytes };
        let left = Duration::from_secs(75);
        let found = line(&read, 1 << 30, 300e6, left, "  join 5 records 7 B");
        assert_eq!(found, "25% of 4.00 GiB 286 MiB/s 1m15s  join 5 records 7 B");
        let rounds = Phase { name: "round", total: 20, unit: Unit::Rounds };
        assert_eq!(line(&rounds, 7, 1234.5, Duration::ZERO, ""), "7/20 1.23k/s 0s");
        let empty = Phase { name: "read", total: 0, unit: Unit::Bytes };
        assert_eq!(line(&empty, 0, 0.0, Duration::ZERO, ""), "0% of 0 B 0 B/s 0s");
    }

    #[test]
    fn the_longest_line_fits() {
        let verb = Some("combine_incoming");
        let many = 999_600_000_000;
        let mut workers = vec![now(u32::MAX, verb, 0, 0); 63];
        workers
            .push(Some(Now { bytes_sent: 1023 << 40, ..now(u32::MAX, verb, many, many).unwrap() }));
        let left = Duration::from_secs(100 * 60 * 60 - 1);
        for (unit, total, rate) in [(Unit::Bytes, 1023 << 40, 1e15), (Unit::Rounds, 1_000_000, 1e9)]
        {
            let phase = Phase { name: "right", total, unit };
            let found = line(&phase, total, rate, left, &stage(&workers));
            assert!(AHEAD + found.len() <= COLUMNS, "{} columns: {found}", AHEAD + found.len());
        }
    }
}
