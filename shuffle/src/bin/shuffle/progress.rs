//! A bar on a terminal: the phase of a job, with the stage that its workers are in.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::amounts::{bytes, count, span};
use crate::how_far::{Done, Unit};

/// What goes to and fro where nobody can know how long it takes.
const TICKS: [&str; 6] = ["##     ", " ##    ", "  ##   ", "   ##  ", "    ## ", "     ##"];

/// The least time by which a rate is told.
const RATE_LEAST: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct Progress {
    /// The phase that was seen last, and since when.
    phase: Option<(String, Instant)>,
    /// The same of the exchange.
    exchange: Option<(u32, Instant)>,
    /// Once something was done.
    drawn: Option<Drawn>,
}

struct Drawn {
    bar: ProgressBar,
    phase: String,
    /// Whether what there is to be done is known, and not done.
    is_measured: bool,
}

impl Progress {
    /// Draws how far the job is.
    pub(crate) fn draw(&mut self, now: &Done) {
        let in_phase = since(&mut self.phase, &now.phase);
        let in_exchange = since(&mut self.exchange, &now.exchange);
        // A bar is not drawn before something is done.
        if self.drawn.is_none() && now.done == 0 {
            return;
        }
        let is_measured = now.total > 0 && now.done < now.total;
        let is_same =
            |drawn: &Drawn| (&drawn.phase, drawn.is_measured) == (&now.phase, is_measured);
        if !self.drawn.as_ref().is_some_and(is_same) {
            self.hide();
        }
        let Drawn { bar, .. } = self.drawn.get_or_insert_with(|| Drawn::new(now, is_measured));
        if is_measured {
            bar.set_message(measured(now, in_phase));
            bar.set_position(now.done);
        } else {
            bar.set_message(unmeasured(now, in_exchange));
            bar.tick();
        }
    }

    /// Prints a line above the bar.
    pub(crate) fn say(&self, line: &str) {
        match &self.drawn {
            Some(drawn) => drawn.bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }

    /// The job is done: the bar stays, and what is printed next is below it.
    pub(crate) fn finish(&mut self) {
        if let Some(Drawn { bar, .. }) = self.drawn.take() {
            bar.finish();
            eprintln!();
        }
    }

    /// The bar goes, and the job begins anew.
    pub(crate) fn clear(&mut self) {
        self.hide();
        (self.phase, self.exchange) = (None, None);
    }

    fn hide(&mut self) {
        if let Some(Drawn { bar, .. }) = self.drawn.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.hide();
    }
}

impl Drawn {
    fn new(now: &Done, is_measured: bool) -> Drawn {
        let template = |bar: &str| {
            let template = format!("{{prefix:<5}}[{bar}] {{wide_msg}}");
            ProgressStyle::with_template(&template).expect("the template is a constant")
        };
        let bar = match is_measured {
            true => ProgressBar::new(now.total).with_style(template("{bar:7}")),
            false => {
                let style = template("{spinner}").tick_strings(&TICKS);
                ProgressBar::new_spinner().with_style(style)
            }
        };
        let phase = now.phase.clone();
        Drawn { bar: bar.with_prefix(phase.clone()), phase, is_measured }
    }
}

/// For how long this was the last that was seen.
fn since<T: Clone + PartialEq>(last: &mut Option<(T, Instant)>, now: &T) -> Duration {
    match last {
        Some((seen, since)) if seen == now => since.elapsed(),
        _ => {
            *last = Some((now.clone(), Instant::now()));
            Duration::ZERO
        }
    }
}

fn per_second(done: u64, since: Duration) -> f64 {
    done as f64 / since.max(RATE_LEAST).as_secs_f64()
}

/// How far a phase is, how fast it goes and how long it will take, and then the stage; what matters most comes first. With what is ahead of it, it fits into 100 columns; where there are fewer, the end is cut off.
fn measured(now: &Done, since: Duration) -> String {
    let Done { unit, done, total, .. } = *now;
    let rate = per_second(done, since);
    let left = if rate > 0.0 { total.saturating_sub(done) as f64 / rate } else { 0.0 };
    let per_second = rate as u64;
    let how_far = match unit {
        Unit::Bytes => {
            let part = u128::from(done.min(total)) * 100 / u128::from(total.max(1));
            format!("{part}% of {} {}/s", bytes(total), bytes(per_second))
        }
        Unit::Records => format!("{} of {} {}/s", count(done), count(total), count(per_second)),
        Unit::Rounds | Unit::Slots => format!("{done}/{total} {}/s", count(per_second)),
    };
    format!("{how_far} {}{}", span(left as u64), behind(now))
}

/// The same where all of the phase is done, or nobody can know how much there is: what follows it, how fast, and for how long it has been going on.
fn unmeasured(now: &Done, since: Duration) -> String {
    let how_far = match now.unit {
        _ if now.total > 0 => "done".to_owned(),
        Unit::Bytes => bytes(now.done),
        Unit::Records | Unit::Rounds | Unit::Slots => count(now.done),
    };
    let rate = count(per_second(now.records, since) as u64);
    let rate = format!("{rate}/s for {}", span(since.as_secs()));
    format!("{how_far}{} {rate}", behind(now))
}

fn behind(now: &Done) -> String {
    if now.stage.is_empty() { String::new() } else { format!("  {}", now.stage) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::how_far::tests::now;
    use crate::how_far::{HowFar, Phase};

    const COLUMNS: usize = 100;

    /// What is ahead of the line.
    const AHEAD: usize = "right[#######] ".len();

    fn done(unit: Unit, done: u64, total: u64, stage: &str) -> Done {
        Done { unit, done, total, stage: stage.to_owned(), ..Done::default() }
    }

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        let since = Duration::from_secs(25);
        let read = done(Unit::Bytes, 1 << 30, 4 << 30, "join 5 records 7 B");
        let found = measured(&read, since);
        assert_eq!(found, "25% of 4.00 GiB 41.0 MiB/s 1m15s  join 5 records 7 B");
        let rounds = done(Unit::Rounds, 0, 20, "");
        assert_eq!(measured(&rounds, since), "0/20 0/s 0s");
        let records = done(Unit::Records, 5_000, 20_000, "");
        assert_eq!(measured(&records, since), "5.00k of 20.0k 200/s 1m15s");
        // What is seen for the first time has been there for a while.
        assert_eq!(measured(&records, Duration::ZERO), "5.00k of 20.0k 50.0k/s 0s");
    }

    #[test]
    fn what_follows_a_phase_is_seen_as_it_goes_on() {
        let since = Duration::from_secs(75);
        let read = Done { records: 150, ..done(Unit::Bytes, 9, 9, "join 5 records 7 B") };
        assert_eq!(unmeasured(&read, since), "done  join 5 records 7 B 2/s for 1m15s");
        // As many rounds as it takes.
        let rounds = done(Unit::Rounds, 3, 0, "");
        assert_eq!(unmeasured(&rounds, since), "3 0/s for 1m15s");
    }

    #[test]
    fn the_longest_line_fits() {
        let verb = Some("combine_incoming");
        let many = 999_600_000_000;
        for (unit, total) in
            [(Unit::Bytes, 1023 << 40), (Unit::Rounds, 1_000_000), (Unit::Records, many)]
        {
            let mut how_far = HowFar::new(vec![Phase::new("right", total, unit)], 64);
            (0..63).for_each(|worker| how_far.look(worker, now(u32::MAX, verb, 0, 0)));
            let last = now(u32::MAX, verb, many, many);
            how_far.look(63, crate::event::Now { bytes_sent: 1023 << 40, ..last });
            how_far.tell(0, 0, total / 2);
            let now = how_far.now().unwrap();
            for since in [Duration::ZERO, Duration::from_secs(100 * 60 * 60 - 1)] {
                for found in [measured(&now, since), unmeasured(&now, since)] {
                    let columns = AHEAD + found.len();
                    assert!(columns <= COLUMNS, "{columns} columns: {found}");
                }
            }
        }
    }
}
