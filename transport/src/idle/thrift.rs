//! Whether it costs anybody anything to sleep at once: then a thread that would spin does not.
//!
//! Spinning makes messages come faster to who waits for each. Where many come together, and are waited for most of
//! the time all the same, they may as well be waited for asleep: they come as fast as their senders go on by themselves, or
//! are held up by something else, and spinning is a core that is spent on some microseconds of theirs. From
//! what comes alone it cannot be told from many requesters who do each wait for a reply before they go on. So it is tried: the thread sleeps and
//! spins in turns, and if as many messages come asleep, it goes on so, and tries now and then whether that is still so.
//!
//! The rate at which messages come changes by itself, by more than is to be seen and for longer than a trial lasts: a disk is busy, another
//! thread has the core. So the turns are short, each is compared with the one beside it alone, and of all that come out so, the median counts.

use std::time::Duration;

use crate::time::Time;

/// For how long messages are counted at a time: some hundred waits; ...
const WINDOW: Duration = Duration::from_millis(20);

/// ... and in a trial, some dozens.
const TRIAL_WINDOW: Duration = Duration::from_micros(2500);

/// What sleeping is tried for: as many messages that come together, on average ...
const TOGETHER_MIN: u64 = 4;

/// ... and asleep no more turns with a single one than one in so many: what comes to who sleeps comes together, unless
/// somebody waits for each.
const SINGLE_SHARE: u64 = 2;

/// The part of the time that the thread waits for: less, and there is little to be spared.
const WAITING_MIN: f64 = 0.5;

/// Pairs of windows in a trial, one asleep and one awake in each.
const PAIRS: usize = 32;

/// After so many of them a trial ends if it is clear already.
const PAIRS_MIN: usize = 8;

/// A trial that is not over by then has nothing to say: the thread waits for longer than windows last.
const TRIAL_MAX: Duration = Duration::from_secs(1);

/// The part of messages that may be missing for sleeping.
const LOSS_MAX: f64 = 0.02;

/// It is clear that sleeping costs too much when so large a part is missing.
const LOSS_CLEAR: f64 = 0.2;

/// When sleeping is tried again that has cost too much; the pause doubles ...
const AGAIN_MIN: Duration = Duration::from_millis(100);

/// ... up to this.
const AGAIN_MAX: Duration = Duration::from_millis(6400);

/// How often a thread that sleeps tries whether more would come if it spun.
const CHECKED_EVERY: Duration = Duration::from_secs(1);

/// How the thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Awake,
    Asleep,
}

/// What the thread does.
#[derive(Debug)]
enum Phase {
    Steady(Wait),
    Trying(Box<Trial>),
}

/// What has come in a window.
#[derive(Debug, Default)]
struct Counts {
    messages: u64,
    /// Turns that brought some, and those that brought one.
    turns: u64,
    singles: u64,
    waited: Duration,
}

impl Counts {
    /// Whether messages come together, to a thread that waited so.
    fn come_together(&self, wait: Wait) -> bool {
        let are_single = wait == Wait::Asleep && self.singles * SINGLE_SHARE > self.turns;
        self.messages >= TOGETHER_MIN * self.turns && !are_single
    }
}

/// A trial that goes on.
#[derive(Debug)]
struct Trial {
    /// What the thread did before.
    usual: Wait,
    began: Time,
    /// How many messages came in a window asleep, where one came awake in the window beside it.
    ratios: [f64; PAIRS],
    pairs: usize,
    /// Messages a second in the first window of a pair, once it is over.
    first: Option<f64>,
}

impl Trial {
    fn new(usual: Wait, began: Time) -> Trial {
        Trial { usual, began, ratios: [0.0; PAIRS], pairs: 0, first: None }
    }

    /// How the thread waits now. What comes first in a pair alternates: whatever grows or falls counts for both alike.
    fn wait(&self) -> Wait {
        let is_first = self.first.is_none();
        match is_first == self.pairs.is_multiple_of(2) {
            true => Wait::Asleep,
            false => Wait::Awake,
        }
    }

    /// A window is over. Returns how the thread is to wait, once that is known.
    fn count(&mut self, rate: f64) -> Option<Wait> {
        let Some(first) = self.first.take() else {
            self.first = Some(rate);
            return None;
        };
        let is_second_awake = self.pairs.is_multiple_of(2);
        let (asleep, awake) = if is_second_awake { (first, rate) } else { (rate, first) };
        self.ratios[self.pairs] = asleep / awake;
        self.pairs += 1;
        let pairs = &mut self.ratios[..self.pairs];
        if !matches!(pairs.len(), PAIRS_MIN | PAIRS) {
            return None;
        }
        // In any order from now on.
        let middle = pairs.len() / 2;
        let (_, median, _) = pairs.select_nth_unstable_by(middle, f64::total_cmp);
        let is_loss = |part: f64| *median < 1.0 - part;
        match self.usual {
            _ if self.pairs == PAIRS => {
                Some(if is_loss(LOSS_MAX) { Wait::Awake } else { Wait::Asleep })
            }
            // Who sleeps and loses nothing by it does not spin for longer to see that.
            Wait::Asleep if !is_loss(LOSS_MAX) => Some(Wait::Asleep),
            _ => is_loss(LOSS_CLEAR).then_some(Wait::Awake),
        }
    }
}

/// What is known of that.
#[derive(Debug)]
pub(super) struct Thrift {
    phase: Phase,
    /// Since when messages are counted.
    began: Time,
    counts: Counts,
    /// When the other of the two is tried next.
    next: Time,
    pause: Duration,
}

impl Thrift {
    pub(super) fn new() -> Thrift {
        Thrift {
            phase: Phase::Steady(Wait::Awake),
            began: Time::ZERO,
            counts: Counts::default(),
            next: Time::ZERO,
            pause: AGAIN_MIN,
        }
    }

    /// Whether to sleep at once.
    pub(super) fn sleeps(&self) -> bool {
        self.wait() == Wait::Asleep
    }

    /// A wait took so long, spinning or asleep.
    pub(super) fn waited(&mut self, time: Duration) {
        self.counts.waited += time;
    }

    /// A turn has brought so many messages by `now`.
    pub(super) fn brought(&mut self, messages: u64, now: Time) {
        if messages == 0 {
            return;
        }
        self.counts.messages += messages;
        self.counts.turns += 1;
        self.counts.singles += u64::from(messages == 1);
        let time = now.since(self.began);
        if time >= self.window() {
            let counts = std::mem::take(&mut self.counts);
            self.began = now;
            self.conclude(&counts, time, now);
        }
    }

    fn wait(&self) -> Wait {
        match &self.phase {
            Phase::Steady(wait) => *wait,
            Phase::Trying(trial) => trial.wait(),
        }
    }

    fn window(&self) -> Duration {
        match &self.phase {
            Phase::Steady(_) => WINDOW,
            Phase::Trying(_) => TRIAL_WINDOW,
        }
    }

    fn conclude(&mut self, counts: &Counts, time: Duration, now: Time) {
        let come_together = counts.come_together(self.wait());
        // Of a window that a long silence was in, nothing can be said.
        let is_silent = time >= 2 * self.window();
        let rate = counts.messages as f64 / time.as_secs_f64();
        let is_spare = come_together
            && !is_silent
            && counts.waited.as_secs_f64() >= WAITING_MIN * time.as_secs_f64();
        match &mut self.phase {
            Phase::Steady(wait) if is_spare && now >= self.next => {
                self.phase = Phase::Trying(Box::new(Trial::new(*wait, now)));
            }
            Phase::Steady(_) if is_spare => {}
            Phase::Steady(wait) => *wait = Wait::Awake,
            Phase::Trying(trial) if !come_together || now.since(trial.began) > TRIAL_MAX => {
                self.keep_to(Wait::Awake, now);
            }
            Phase::Trying(trial) if is_silent => trial.first = None,
            Phase::Trying(trial) => {
                if let Some(wait) = trial.count(rate) {
                    self.keep_to(wait, now);
                }
            }
        }
    }

    /// A trial is over.
    fn keep_to(&mut self, wait: Wait, now: Time) {
        self.phase = Phase::Steady(wait);
        match wait {
            Wait::Asleep => (self.next, self.pause) = (now + CHECKED_EVERY, AGAIN_MIN),
            Wait::Awake => {
                self.next = now + self.pause;
                self.pause = (2 * self.pause).min(AGAIN_MAX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;

    /// A thread beside requesters, for so many turns. A turn comes `busy` after the last one if the thread spins, and `later` if it
    /// sleeps, and brings what `messages` says for that time. Returns the part of the turns before which it slept.
    fn slept(
        thrift: &mut Thrift,
        now: &mut Time,
        turns: u32,
        (busy, later): (Duration, Duration),
        messages: impl Fn(Duration) -> u64,
    ) -> f64 {
        let mut slept = 0;
        for _ in 0..turns {
            let time = if thrift.sleeps() { later } else { busy };
            slept += u32::from(thrift.sleeps());
            *now = *now + time;
            thrift.waited(time - Duration::from_micros(5));
            thrift.brought(messages(time), *now);
        }
        f64::from(slept) / f64::from(turns)
    }

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// Half a million a second, whatever the thread does.
    fn at_a_pace(time: Duration) -> u64 {
        time.as_micros() as u64 / 2
    }

    #[test]
    fn messages_at_a_pace_are_waited_for_asleep() {
        let (mut thrift, mut now) = (Thrift::new(), Time::ZERO);
        let slept = slept(&mut thrift, &mut now, 200_000, (us(30), us(50)), at_a_pace);
        assert!(slept > 0.95, "{slept}");
    }

    /// Ten requesters that wait for each reply: they are served half as often by who sleeps.
    #[test]
    fn who_waits_for_each_reply_is_waited_for_awake() {
        let (mut thrift, mut now) = (Thrift::new(), Time::ZERO);
        let slept = slept(&mut thrift, &mut now, 1_000_000, (us(15), us(30)), |_| 10);
        assert!(slept < 0.05, "{slept}");
    }

    /// Requesters who wait for each reply of a server that has much else to do: every tenth of a second it is half as fast or twice, and each
    /// turn takes up to a third more or less. Sleeping costs less than that.
    #[test]
    fn a_small_loss_is_seen_where_the_rate_goes_up_and_down() {
        let (mut thrift, mut now) = (Thrift::new(), Time::ZERO);
        let mut random = StdRng::seed_from_u64(7);
        let (mut asleep, mut whole) = (0, 0);
        for _ in 0..600 {
            let (strain, until) = (random.random_range(20..45), now + Duration::from_millis(100));
            while now < until {
                let turn = strain * random.random_range(70..130);
                let time = if thrift.sleeps() { turn * 110 / 100 } else { turn };
                asleep += u64::from(thrift.sleeps()) * time;
                whole += time;
                now = now + Duration::from_nanos(10 * time);
                thrift.waited(Duration::from_nanos(8 * time));
                thrift.brought(10, now);
            }
        }
        let part = asleep as f64 / whole as f64;
        assert!(part < 0.1, "{part}");
    }

    #[test]
    fn single_messages_are_waited_for_awake() {
        let (mut thrift, mut now) = (Thrift::new(), Time::ZERO);
        let slept = slept(&mut thrift, &mut now, 100_000, (us(30), us(45)), |_| 1);
        assert!(slept == 0.0, "{slept}");
    }

    /// One who waits for each reply, beside many who do not.
    #[test]
    fn single_ones_among_many_are_waited_for_awake() {
        let (mut thrift, mut now) = (Thrift::new(), Time::ZERO);
        slept(&mut thrift, &mut now, 10_000, (us(30), us(50)), at_a_pace);
        assert!(slept(&mut thrift, &mut now, 20_000, (us(30), us(50)), at_a_pace) > 0.8);
        let turn = std::cell::Cell::new(0);
        let mixed = |_| {
            turn.set(turn.get() + 1);
            if turn.get() % 3 == 0 { 20 } else { 1 }
        };
        let slept = slept(&mut thrift, &mut now, 20_000, (us(10), us(25)), mixed);
        assert!(slept < 0.05, "{slept}");
    }

    #[test]
    fn who_has_much_to_do_spins_in_between() {
        let (mut thrift, mut now) = (Thrift::new(), Time::ZERO);
        let slept = slept(&mut thrift, &mut now, 100_000, (us(9), us(9)), |_| 40);
        assert!(slept == 0.0, "{slept}");
    }

    /// Of requesters that are held up by something else, and later are not.
    #[test]
    fn what_has_changed_is_found_out() {
        let (mut thrift, mut now) = (Thrift::new(), Time::ZERO);
        let paced = (us(30), us(50));
        slept(&mut thrift, &mut now, 10_000, paced, at_a_pace);
        assert!(slept(&mut thrift, &mut now, 100_000, paced, at_a_pace) > 0.9);
        slept(&mut thrift, &mut now, 100_000, (us(15), us(30)), |_| 10);
        assert!(slept(&mut thrift, &mut now, 100_000, (us(15), us(30)), |_| 10) < 0.1);
        slept(&mut thrift, &mut now, 300_000, paced, at_a_pace);
        assert!(slept(&mut thrift, &mut now, 100_000, paced, at_a_pace) > 0.9);
        // Silence, and then one at a time.
        now = now + Duration::from_secs(10);
        let slept = slept(&mut thrift, &mut now, 10_000, (us(30), us(45)), |_| 1);
        assert!(slept < 0.1, "{slept}");
    }
}
