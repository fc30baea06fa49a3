//! What was measured: a histogram of latencies for each kind of operation, those that succeeded and
//! those that failed apart, and how many returned what.
//!
//! Latencies are recorded in nanoseconds with three significant digits (HdrHistogram), and reported
//! in microseconds. With a throughput target YCSB knows two latencies: from when the operation
//! began, and from when it was due (`intended`), which counts the wait behind a slow predecessor.

use hdrhistogram::Histogram;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
    /// The check of a read record (`dataintegrity`).
    Verify,
}

impl Operation {
    pub(crate) const ALL: [Operation; 6] = [
        Operation::Read,
        Operation::Update,
        Operation::Insert,
        Operation::Scan,
        Operation::ReadModifyWrite,
        Operation::Verify,
    ];

    /// YCSB's name of the metric.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Read => "READ",
            Operation::Update => "UPDATE",
            Operation::Insert => "INSERT",
            Operation::Scan => "SCAN",
            Operation::ReadModifyWrite => "READ-MODIFY-WRITE",
            Operation::Verify => "VERIFY",
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    /// The record does not exist.
    NotFound,
    /// The target failed, or could not be reached.
    Error,
    /// The record is there, but is not what was written.
    UnexpectedState,
}

impl Status {
    pub(crate) const ALL: [Status; 4] =
        [Status::Ok, Status::NotFound, Status::Error, Status::UnexpectedState];

    /// YCSB's name, after `Return=`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::NotFound => "NOT_FOUND",
            Status::Error => "ERROR",
            Status::UnexpectedState => "UNEXPECTED_STATE",
        }
    }
}

/// When an operation was due and when it began, in nanoseconds of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) intended_ns: u64,
    pub(crate) start_ns: u64,
}

/// Which latencies are recorded (`measurement.interval`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Interval {
    /// From when the operation began.
    #[default]
    Operation,
    /// From when it was due.
    Intended,
    /// Both, the second under `Intended-…`.
    Both,
}

/// Latencies of one metric, in nanoseconds. A histogram grows with what it sees, so nothing is
/// spent on metrics that never occur.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Option<Histogram<u64>>);

impl Latencies {
    fn record(&mut self, nanos: u64) {
        let histogram = self.0.get_or_insert_with(growing_histogram);
        histogram.record(nanos).expect("a histogram that grows takes every value");
    }

    fn merge(&mut self, other: &Latencies) {
        if let Some(other) = &other.0 {
            let sum = self.0.get_or_insert_with(growing_histogram);
            sum.add(other).expect("a histogram that grows has room for another's values");
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, Histogram::len)
    }

    pub(crate) fn mean_us(&self) -> f64 {
        self.0.as_ref().map_or(0.0, Histogram::mean) / 1_000.0
    }

    pub(crate) fn min_us(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |histogram| histogram.min() as f64) / 1_000.0
    }

    pub(crate) fn max_us(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |histogram| histogram.max() as f64) / 1_000.0
    }

    /// The latency that `percent` of the operations did not exceed.
    pub(crate) fn percentile_us(&self, percent: f64) -> f64 {
        let nanos = self.0.as_ref().map_or(0, |histogram| histogram.value_at_percentile(percent));
        nanos as f64 / 1_000.0
    }
}

fn growing_histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three significant digits are valid")
}

/// What was measured of one kind of operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metric {
    /// Of those that succeeded, from when they began.
    pub(crate) ok: Latencies,
    /// Of those that failed, from when they began.
    pub(crate) failed: Latencies,
    /// Of those that succeeded, from when they were due.
    pub(crate) ok_intended: Latencies,
    /// Of those that failed, from when they were due.
    pub(crate) failed_intended: Latencies,
    returned: [u64; Status::ALL.len()],
}

impl Metric {
    pub(crate) fn returned(&self, status: Status) -> u64 {
        self.returned[status as usize]
    }

    pub(crate) fn count(&self) -> u64 {
        self.returned.iter().sum()
    }

    pub(crate) fn errors(&self) -> u64 {
        self.count() - self.returned(Status::Ok)
    }
}

/// Everything measured, by one thread or, merged, by all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measurements {
    pub(crate) interval: Interval,
    metrics: [Metric; Operation::ALL.len()],
    /// Operations of the workload that ended: a read-modify-write counts once here, and thrice
    /// among the metrics.
    pub(crate) operations: u64,
}

impl Measurements {
    pub(crate) fn new(interval: Interval) -> Measurements {
        Measurements { interval, ..Measurements::default() }
    }

    pub(crate) fn record(&mut self, operation: Operation, status: Status, span: Span, end_ns: u64) {
        let metric = &mut self.metrics[operation as usize];
        metric.returned[status as usize] += 1;
        let (started, intended) = match status {
            Status::Ok => (&mut metric.ok, &mut metric.ok_intended),
            _ => (&mut metric.failed, &mut metric.failed_intended),
        };
        if self.interval != Interval::Intended {
            started.record(end_ns.saturating_sub(span.start_ns));
        }
        if self.interval != Interval::Operation {
            intended.record(end_ns.saturating_sub(span.intended_ns));
        }
    }

    /// Adds `other`, recorded with the same interval, or with any to measurements still empty.
    pub(crate) fn merge(&mut self, other: &Measurements) {
        self.interval = other.interval;
        self.operations += other.operations;
        for (sum, metric) in self.metrics.iter_mut().zip(&other.metrics) {
            sum.ok.merge(&metric.ok);
            sum.failed.merge(&metric.failed);
            sum.ok_intended.merge(&metric.ok_intended);
            sum.failed_intended.merge(&metric.failed_intended);
            for (sum, count) in sum.returned.iter_mut().zip(metric.returned) {
                *sum += count;
            }
        }
    }

    /// Takes what was recorded since the last call.
    pub(crate) fn take(&mut self) -> Measurements {
        std::mem::replace(self, Measurements::new(self.interval))
    }

    /// Whatever occurred, in a fixed order.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = (Operation, &Metric)> {
        let occurred = |operation: &Operation| self.metrics[*operation as usize].count() > 0;
        Operation::ALL
            .into_iter()
            .filter(occurred)
            .map(|operation| (operation, &self.metrics[operation as usize]))
    }

    /// What a report lists: metrics under YCSB's names, in a fixed order.
    pub(crate) fn series(&self) -> Vec<Series<'_>> {
        self.metrics().flat_map(|(operation, metric)| self.series_of(operation, metric)).collect()
    }

    fn series_of<'a>(&self, operation: Operation, metric: &'a Metric) -> Vec<Series<'a>> {
        let started = [("", "", &metric.ok), ("", "-FAILED", &metric.failed)];
        let intended = |prefix| {
            [(prefix, "", &metric.ok_intended), (prefix, "-FAILED", &metric.failed_intended)]
        };
        let listed = match self.interval {
            Interval::Operation => started.to_vec(),
            Interval::Intended => intended("").to_vec(),
            Interval::Both => [started, intended("Intended-")].concat(),
        };
        let name = operation.name();
        let series = listed.into_iter().map(|(prefix, suffix, latencies)| Series {
            name: format!("{prefix}{name}{suffix}"),
            latencies,
            // Return codes stand under the operation's own name, even if none succeeded.
            returned: (prefix.is_empty() && suffix.is_empty()).then_some(metric),
        });
        series.filter(|series| series.returned.is_some() || series.latencies.count() > 0).collect()
    }
}

/// One metric of a report.
#[derive(Debug)]
pub(crate) struct Series<'a> {
    pub(crate) name: String,
    pub(crate) latencies: &'a Latencies,
    /// The metric whose return codes are listed here.
    pub(crate) returned: Option<&'a Metric>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { intended_ns: 1_000_000, start_ns: 5_000_000 };

    fn names(interval: Interval) -> Vec<String> {
        let mut measurements = Measurements::new(interval);
        measurements.record(Operation::Read, Status::Ok, SPAN, 6_000_000);
        measurements.record(Operation::Read, Status::NotFound, SPAN, 6_000_000);
        measurements.record(Operation::Update, Status::Error, SPAN, 6_000_000);
        measurements.series().into_iter().map(|series| series.name).collect()
    }

    #[test]
    fn failures_have_a_metric_of_their_own() {
        assert_eq!(names(Interval::Operation), ["READ", "READ-FAILED", "UPDATE", "UPDATE-FAILED"]);
        assert_eq!(names(Interval::Intended), ["READ", "READ-FAILED", "UPDATE", "UPDATE-FAILED"]);
        assert_eq!(
            names(Interval::Both),
            [
                "READ",
                "READ-FAILED",
                "Intended-READ",
                "Intended-READ-FAILED",
                "UPDATE",
                "UPDATE-FAILED",
                "Intended-UPDATE-FAILED"
            ]
        );
    }

    #[test]
    fn the_intended_latency_counts_the_wait() {
        for (interval, expected_ms) in [(Interval::Operation, 1), (Interval::Intended, 5)] {
            let mut measurements = Measurements::new(interval);
            measurements.record(Operation::Read, Status::Ok, SPAN, 6_000_000);
            let max = measurements.series()[0].latencies.max_us() / 1_000.0;
            assert!((max - f64::from(expected_ms)).abs() < 0.01 * max, "{interval:?}: {max}");
        }
    }

    #[test]
    fn merging_adds_counts_and_latencies() {
        let mut sum = Measurements::new(Interval::Operation);
        for end_ms in 1..=100 {
            let mut part = Measurements::new(Interval::Operation);
            let span = Span { intended_ns: 0, start_ns: 0 };
            part.record(Operation::Insert, Status::Ok, span, end_ms * 1_000_000);
            part.operations += 1;
            sum.merge(&part.take());
            assert_eq!(part.metrics().count(), 0, "what was taken is gone");
        }
        assert_eq!(sum.operations, 100);
        let (_, insert) = sum.metrics().next().unwrap();
        assert_eq!((insert.count(), insert.errors()), (100, 0));
        let median = insert.ok.percentile_us(50.0);
        assert!((49_900.0..50_100.0).contains(&median), "{median}");
        assert!((insert.ok.mean_us() - 50_500.0).abs() < 50.0);
        assert!((insert.ok.max_us() - 100_000.0).abs() < 100.0);
    }
}
