//! The status line of `-s`, as upstream prints it to standard error: where the run is, how fast it
//! was since the last line, when it will be done, and the latencies since the last line.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use chrono::{DateTime, TimeZone};

use crate::measurement::{Measurements, Series};

/// Prints line after line of one run.
#[derive(Debug)]
pub(crate) struct StatusLine<'a> {
    label: &'a str,
    /// Operations of the whole run; `None`: nobody knows.
    all: Option<u64>,
    done: u64,
    last: Duration,
}

impl<'a> StatusLine<'a> {
    pub(crate) fn new(label: &'a str, all: Option<u64>) -> StatusLine<'a> {
        StatusLine { label, all, done: 0, last: Duration::ZERO }
    }

    /// The line at time `now` of the run, which the clock on the wall calls `date`; `recent` is what
    /// was measured since the last line.
    pub(crate) fn next<Zone: TimeZone<Offset: Display>>(
        &mut self,
        date: DateTime<Zone>,
        now: Duration,
        recent: &Measurements,
    ) -> String {
        self.done += recent.operations;
        let done = self.done;
        let label = self.label;
        let date = date.format("%Y-%m-%d %H:%M:%S:%3f");
        let mut line = format!("{label}{date} {} sec: {done} operations; ", now.as_secs());
        if done > 0 {
            let since = now.saturating_sub(self.last).as_secs_f64().max(1e-3);
            let rate = decimal(recent.operations as f64 / since);
            let _ = write!(line, "{rate} current ops/sec; ");
        }
        let left = self.all.unwrap_or(0).saturating_sub(done);
        if left > 0 && done > 0 {
            let seconds = (left as f64 * now.as_secs_f64() / done as f64).ceil() as u64;
            let _ = write!(line, "est completion in {}", remaining(seconds));
        }
        for series in recent.series() {
            let _ = write!(line, "{} ", summary(&series));
        }
        self.last = now;
        line
    }
}

fn summary(series: &Series<'_>) -> String {
    let latencies = series.latencies;
    let percentile = |percent| decimal(latencies.percentile_us(percent).floor());
    format!(
        "[{}: Count={}, Max={:.0}, Min={:.0}, Avg={}, 50={}, 90={}, 99={}, 99.9={}, 99.99={}]",
        series.name,
        latencies.count(),
        latencies.max_us().floor(),
        latencies.min_us().floor(),
        decimal(latencies.mean_us()),
        percentile(50.0),
        percentile(90.0),
        percentile(99.0),
        percentile(99.9),
        percentile(99.99)
    )
}

/// At most two decimals, none if they are zero: Java's pattern `#.##`.
fn decimal(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The largest units of a time to come, each with a blank behind it.
fn remaining(seconds: u64) -> String {
    let mut text = String::new();
    let mut push = |count: u64, unit: &str| {
        if count > 0 {
            let plural = if count == 1 { "" } else { "s" };
            let _ = write!(text, "{count} {unit}{plural} ");
        }
    };
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    push(days, "day");
    push(hours, "hour");
    if days == 0 {
        push(minutes, "minute");
    }
    if seconds < 60 {
        push(seconds, "second");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{Interval, Operation, Span, Status};

    fn measured(reads: u64) -> Measurements {
        let mut measurements = Measurements::new(Interval::Operation);
        for _ in 0..reads {
            let span = Span { intended_ns: 0, start_ns: 0 };
            measurements.record(Operation::Read, Status::Ok, span, 5_000);
            measurements.operations += 1;
        }
        measurements
    }

    #[test]
    fn lines_look_like_upstreams() {
        let date = chrono::DateTime::from_timestamp_millis(1_495_306_544_512).unwrap();
        let mut status = StatusLine::new("trial", Some(1_000));
        assert_eq!(
            status.next(date, Duration::ZERO, &measured(0)),
            "trial2017-05-20 18:55:44:512 0 sec: 0 operations; "
        );
        assert_eq!(
            status.next(date, Duration::from_secs(10), &measured(125)),
            "trial2017-05-20 18:55:44:512 10 sec: 125 operations; 12.5 current ops/sec; \
             est completion in 1 minute [READ: Count=125, Max=5, Min=5, Avg=5, 50=5, 90=5, 99=5, \
             99.9=5, 99.99=5] "
        );
        assert_eq!(
            status.next(date, Duration::from_secs(20), &measured(875)),
            "trial2017-05-20 18:55:44:512 20 sec: 1000 operations; 87.5 current ops/sec; \
             [READ: Count=875, Max=5, Min=5, Avg=5, 50=5, 90=5, 99=5, 99.9=5, 99.99=5] "
        );
    }

    #[test]
    fn times_to_come_are_told_in_large_units() {
        assert_eq!(remaining(1), "1 second ");
        assert_eq!(remaining(59), "59 seconds ");
        assert_eq!(remaining(121), "2 minutes ");
        assert_eq!(remaining(3_660), "1 hour 1 minute ");
        assert_eq!(remaining(90_000), "1 day 1 hour ");
    }
}
