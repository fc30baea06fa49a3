//! How far apart the two sides' processors are: how long a cache line takes from the one to the other and back.
//!
//! A virtual machine's processors are threads of its host, which may run them on two threads of one core, on two cores that share a
//! cache, or on cores that do not, and moves them as it likes: a line then takes some 40, 100 or 490 ns there and back on one
//! machine within minutes. All that goes through memory follows, rings in shared memory by a factor of three, so figures of
//! two distances are those of two machines.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use crossbeam_utils::CachePadded;
use serde_json::{Value, json};
use weft_transport::Clock;

use crate::affinity::{self, Placement, PlacementArgs};
use crate::bounds::{self, fraction};
use crate::report::rounded;
use crate::table::median;

/// Round trips of one reading: some microseconds, so that most of many are undisturbed ...
const ROUND_TRIPS: u64 = 50;

/// ... of so many, of which the median counts.
const READINGS: usize = 41;

/// How long all of it may take where the other side does not get to run.
const PATIENCE: Duration = Duration::from_millis(200);

/// After how many looks in vain the time is read.
const PATIENCE_EVERY: u32 = 4096;

/// How often `netbench apart` looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How many runs are taken anew at most, of one measurement.
const REPEATED_MAX: usize = 10;

/// Distances that differ by more than this are two: what a line takes varies by a tenth in one place.
const MOVED: f64 = 1.5;

/// Looks at the distance now. Nothing where the sides have no two processors of their own, or one of them did not get to run.
fn look(placement: Placement) -> anyhow::Result<Option<Duration>> {
    let Placement::Pinned { server, client } = placement else { return Ok(None) };
    if server == client {
        return Ok(None);
    }
    let line = Line::default();
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| affinity::pin(Some(server)).map(|()| line.echo()));
        let there_and_back = scope.spawn(|| {
            let outcome = affinity::pin(Some(client)).map(|()| line.measure(&Clock::system()));
            line.is_over.store(true, Ordering::Relaxed);
            outcome
        });
        let measured = there_and_back.join().expect("reading the clock cannot panic");
        echo.join().expect("passing a number on cannot panic")?;
        measured
    })
}

/// Whether these are two distances. What is not known has not changed.
fn differ(one: Option<Duration>, other: Option<Duration>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    let (near, far) = (one.min(other), one.max(other));
    far.as_secs_f64() > near.as_secs_f64() * MOVED
}

/// The distances at which something was measured.
#[derive(Clone)]
pub(crate) struct Distances {
    placement: Placement,
    looks: Vec<Duration>,
    /// Runs that were taken anew, because the distance had changed within them.
    repeated: usize,
}

impl Distances {
    /// Of what is measured between these two processors.
    pub(crate) fn of(placement: Placement) -> Self {
        Self { placement, looks: Vec::new(), repeated: 0 }
    }

    /// Takes a run, and takes it anew if the host has moved the processors meanwhile.
    pub(crate) fn still<T>(
        &mut self,
        mut run: impl FnMut() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut taken = self.still_all(&[()], |()| run())?;
        Ok(taken.pop().expect("one was taken"))
    }

    /// Takes a run of several parts that are compared with one another, and takes all of it anew if the host has moved the processors
    /// between the beginning and the end of any: they would be of two machines. Where that goes on and on, what comes is taken.
    pub(crate) fn still_all<P, T>(
        &mut self,
        parts: &[P],
        take: impl FnMut(&P) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        let placement = self.placement;
        self.still_by(parts, take, || look(placement))
    }

    fn still_by<P, T>(
        &mut self,
        parts: &[P],
        mut take: impl FnMut(&P) -> anyhow::Result<T>,
        mut look: impl FnMut() -> anyhow::Result<Option<Duration>>,
    ) -> anyhow::Result<Vec<T>> {
        'run: loop {
            let may_repeat = self.repeated < REPEATED_MAX;
            let first = look()?;
            let (mut taken, mut moved_to) = (Vec::with_capacity(parts.len()), None);
            for part in parts {
                taken.push(take(part)?);
                let now = look()?;
                if differ(first, now) {
                    if may_repeat {
                        self.repeated += 1;
                        continue 'run;
                    }
                    moved_to = now;
                }
            }
            self.looks.extend(first);
            self.looks.extend(moved_to);
            return Ok(taken);
        }
    }

    fn nanos(&self) -> Option<(f64, f64, f64)> {
        let nanos = || self.looks.iter().map(|distance| distance.as_secs_f64() * 1e9);
        let (least, most) = (self.looks.iter().min()?, self.looks.iter().max()?);
        Some((median(nanos()), least.as_secs_f64() * 1e9, most.as_secs_f64() * 1e9))
    }

    /// The member `apart` of reports; null where the distance is not known.
    pub(crate) fn json(&self) -> Value {
        let Some((median, least, most)) = self.nanos() else { return Value::Null };
        json!({
            "median_ns": rounded(median),
            "least_ns": rounded(least),
            "most_ns": rounded(most),
            "repeated_runs": self.repeated,
        })
    }

    /// Adds a line for a person, if there is anything to say.
    pub(crate) fn add_line(&self, text: &mut String) {
        if let Some(line) = self.line() {
            text.push('\n');
            text.push_str(&line);
        }
    }

    fn line(&self) -> Option<String> {
        let (median, least, most) = self.nanos()?;
        let mut line = format!(
            "processors {median:.0} ns apart ({least:.0} to {most:.0} by {} looks)",
            self.looks.len()
        );
        if self.repeated > 0 {
            line += &format!("; the host moved them in {} runs, taken anew", self.repeated);
        }
        if differ(self.looks.iter().min().copied(), self.looks.iter().max().copied()) {
            line += "; runs at more than one distance are those of more than one machine";
        }
        Some(line)
    }
}

#[derive(clap::Args)]
pub(crate) struct ApartOptions {
    /// Seconds in which to look, ten times a second
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = fraction)]
    seconds: f64,
    #[command(flatten)]
    placement: PlacementArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How long to look, checked.
pub(crate) struct ApartPlan {
    window: Duration,
    placement: Placement,
    json: bool,
}

impl ApartOptions {
    pub(crate) fn into_plan(self) -> Result<ApartPlan, String> {
        let placement = self.placement.into_placement()?;
        match placement {
            Placement::Pinned { server, client } if server != client => {}
            _ => {
                return Err(
                    "a distance takes two processors: give --server-cpu and --client-cpu two"
                        .to_owned(),
                );
            }
        }
        Ok(ApartPlan { window: bounds::window(self.seconds)?, placement, json: self.json })
    }
}

/// `netbench apart`: the distance, and whether it changes.
pub(crate) fn measure(plan: &ApartPlan) -> anyhow::Result<String> {
    let clock = Clock::system();
    let begun = clock.now();
    let mut distances = Distances::of(plan.placement);
    loop {
        distances.looks.extend(look(plan.placement)?);
        if clock.now().since(begun) + LOOK_EVERY > plan.window {
            break;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    if plan.json {
        return Ok(json!({
            "benchmark": "apart",
            "seconds": plan.window.as_secs_f64(),
            "server_cpu": plan.placement.server().map(|cpu| cpu.0),
            "client_cpu": plan.placement.client().map(|cpu| cpu.0),
            "apart": distances.json(),
        })
        .to_string());
    }
    distances
        .line()
        .context("neither side got to run beside the other: the machine is busy elsewhere")
}

/// A number that goes there, and one that comes back.
#[derive(Default)]
struct Line {
    there: CachePadded<AtomicU64>,
    back: CachePadded<AtomicU64>,
    is_over: CachePadded<AtomicBool>,
}

impl Line {
    fn echo(&self) {
        let mut next = 1;
        while !self.is_over.load(Ordering::Relaxed) {
            if self.there.load(Ordering::Acquire) == next {
                self.back.store(next, Ordering::Release);
                next += 1;
            }
            std::hint::spin_loop();
        }
    }

    fn measure(&self, clock: &Clock) -> Option<Duration> {
        let until = clock.now() + PATIENCE;
        let mut readings = [Duration::ZERO; READINGS];
        let mut number = 0;
        for reading in &mut readings {
            let begin = clock.now();
            for _ in 0..ROUND_TRIPS {
                number += 1;
                self.there.store(number, Ordering::Release);
                let mut looks = 0_u32;
                while self.back.load(Ordering::Acquire) != number {
                    std::hint::spin_loop();
                    looks = looks.wrapping_add(1);
                    if looks.is_multiple_of(PATIENCE_EVERY) && clock.now() > until {
                        return None;
                    }
                }
            }
            *reading = clock.now().since(begin);
        }
        readings.sort_unstable();
        Some(readings[READINGS / 2] / ROUND_TRIPS as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Duration = Duration::from_nanos(100);
    const FAR: Duration = Duration::from_nanos(490);

    #[test]
    fn a_line_comes_back() {
        // On a machine that is busy elsewhere it may take more than one try, each with a line of its own: an echo counts along.
        let came_back = (0..100).find_map(|_| {
            let line = Line::default();
            let distance = std::thread::scope(|scope| {
                scope.spawn(|| line.echo());
                let distance = line.measure(&Clock::system());
                line.is_over.store(true, Ordering::Relaxed);
                distance
            });
            distance.map(|distance| (distance, line.back.into_inner().into_inner()))
        });
        let (distance, passed) = came_back.expect("one try in a hundred");
        assert!(distance < PATIENCE);
        assert_eq!(passed, READINGS as u64 * ROUND_TRIPS, "every number came back");
    }

    /// Takes two parts at distances that change as told, and returns how often parts were taken.
    fn taken_at(distances: &mut Distances, seen: &[Duration]) -> usize {
        let (mut seen, mut taken) = (seen.iter().copied(), 0);
        let take = |part: &char| {
            taken += 1;
            Ok(*part)
        };
        let run = distances.still_by(&['a', 'b'], take, || Ok(seen.next()));
        assert_eq!(run.unwrap(), ['a', 'b']);
        taken
    }

    #[test]
    fn a_run_in_which_the_processors_move_is_taken_anew() {
        let mut distances = Distances::of(Placement::Unpinned);
        assert_eq!(taken_at(&mut distances, &[NEAR, NEAR, NEAR]), 2);
        assert_eq!(taken_at(&mut distances, &[NEAR, FAR, FAR, FAR, FAR]), 1 + 2);
        assert_eq!(taken_at(&mut distances, &[NEAR, NEAR, FAR, NEAR, NEAR, NEAR]), 2 + 2);
        assert_eq!((distances.repeated, &distances.looks[..]), (2, &[NEAR, FAR, NEAR][..]));
    }

    #[test]
    fn one_that_moves_for_ever_is_taken_and_told() {
        let mut distances = Distances::of(Placement::Unpinned);
        distances.repeated = REPEATED_MAX;
        assert_eq!(taken_at(&mut distances, &[NEAR, FAR, NEAR]), 2);
        assert_eq!(distances.looks, [NEAR, FAR]);
    }

    #[test]
    fn who_never_answers_is_given_up() {
        assert_eq!(Line::default().measure(&Clock::system()), None);
    }

    #[test]
    fn a_tenth_is_no_move_and_what_is_not_known_has_not_moved() {
        assert!(differ(Some(FAR), Some(NEAR)) && differ(Some(NEAR), Some(FAR)));
        assert!(!differ(Some(NEAR), Some(NEAR + NEAR / 10)));
        assert!(!differ(None, Some(NEAR)) && !differ(None, None));
    }

    #[test]
    fn what_is_not_pinned_is_taken_as_it_comes() {
        let mut distances = Distances::of(Placement::Unpinned);
        assert_eq!(distances.still(|| Ok(7)).unwrap(), 7);
        let broken: anyhow::Result<()> = distances.still(|| anyhow::bail!("it broke"));
        assert_eq!(broken.unwrap_err().to_string(), "it broke");
        assert_eq!((distances.repeated, distances.line()), (0, None));
    }

    #[test]
    fn the_line_says_when_there_were_two_distances() {
        let mut distances = Distances::of(Placement::Unpinned);
        assert_eq!((distances.line(), distances.json()), (None, Value::Null));
        distances.looks.push(NEAR);
        assert_eq!(distances.line().unwrap(), "processors 100 ns apart (100 to 100 by 1 looks)");
        distances.looks.push(FAR);
        distances.repeated = 1;
        assert_eq!(
            distances.line().unwrap(),
            "processors 295 ns apart (100 to 490 by 2 looks); the host moved them in 1 runs, taken anew; runs at \
             more than one distance are those of more than one machine"
        );
        assert_eq!(distances.json()["most_ns"], 490.0);
    }
}
