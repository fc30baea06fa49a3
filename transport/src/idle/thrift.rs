//! Whether it costs anybody anything to sleep at once: then a thread that would spin does not.
//!
//! Spinning makes messages come faster to who waits for each. Where many come together, and are waited for most of
//! the time all the same, they may as well be waited for asleep: they come as fast as their senders go on by themselves, or
//! are held up by something else, and spinning is a core that is spent on some microseconds of theirs. From
//! what comes alone it cannot be told from many requesters who do each wait for a reply before they go on. So it is tried: for a
//! while the thread sleeps, and if as many messages come as before, twice, it goes on so, and looks now and then whether that is
//! still so.

use std::time::Duration;

use crate::time::Time;

/// For how long messages are counted at a time: some hundred waits.
const WINDOW: Duration = Duration::from_millis(20);

/// What sleeping is tried for: as many messages that come together, on average ...
const TOGETHER_MIN: u64 = 4;

/// ... and asleep no more turns with a single one than one in so many: what comes to who sleeps comes together, unless
/// somebody waits for each.
const SINGLE_SHARE: u64 = 2;

/// Trials that have to come out well, one after the other: one may by chance.
const TRIALS: u32 = 2;

/// The part of the time that the thread waits for: less, and there is little to be spared.
const WAITING_MIN: f64 = 0.5;

/// The part of messages that may be missing for sleeping.
const LOSS_MAX: f64 = 0.02;

/// When sleeping is tried again that has cost too much; the pause doubles ...
const AGAIN_MIN: Duration = Duration::from_millis(100);

/// ... up to this.
const AGAIN_MAX: Duration = Duration::from_millis(6400);

/// How often a thread that sleeps spins for a while, to see whether more would come.
const CHECKED_EVERY: Duration = Duration::from_secs(1);

/// What the thread does, and what is known of the rate at which messages came, in messages a second.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Spinning,
    /// It sleeps; it span before.
    Trying {
        spinning: f64,
    },
    Sleeping,
    /// It spins; it slept before.
    Checking {
        sleeping: f64,
    },
}

/// What is known of that.
#[derive(Debug)]
pub(super) struct Thrift {
    phase: Phase,
    /// Since when messages are counted.
    began: Time,
    messages: u64,
    /// Turns that brought some, and those that brought one.
    turns: u64,
    singles: u64,
    waited: Duration,
    /// When the other of the two is tried next.
    next: Time,
    pause: Duration,
    /// Trials that have come out well.
    passed: u32,
}

impl Thrift {
    pub(super) fn new() -> Thrift {
        Thrift {
            phase: Phase::Spinning,
            began: Time::ZERO,
            messages: 0,
            turns: 0,
            singles: 0,
            waited: Duration::ZERO,
            next: Time::ZERO,
            pause: AGAIN_MIN,
            passed: 0,
        }
    }

    /// Whether to sleep at once.
    pub(super) fn sleeps(&self) -> bool {
        matches!(self.phase, Phase::Trying { .. } | Phase::Sleeping)
    }

    /// A wait took so long, spinning or asleep.
    pub(super) fn waited(&mut self, time: Duration) {
        self.waited += time;
    }

    /// A turn has brought so many messages by `now`.
    pub(super) fn brought(&mut self, messages: u64, now: Time) {
        if messages == 0 {
            return;
        }
        self.messages += messages;
        self.turns += 1;
        self.singles += u64::from(messages == 1);
        if now.since(self.began) >= WINDOW {
            self.conclude(now);
        }
    }

    fn conclude(&mut self, now: Time) {
        let time = now.since(self.began);
        let rate = self.messages as f64 / time.as_secs_f64();
        // Of a window that a long silence was in, nothing can be said.
        let is_many = self.messages >= TOGETHER_MIN * self.turns
            && !(self.sleeps() && self.singles * SINGLE_SHARE > self.turns)
            && time < 2 * WINDOW;
        let is_spare = is_many && self.waited.as_secs_f64() >= WAITING_MIN * time.as_secs_f64();
        self.phase = match self.phase {
            Phase::Spinning if is_spare && now >= self.next => Phase::Trying { spinning: rate },
            Phase::Trying { spinning } if is_many && rate >= spinning * (1.0 - LOSS_MAX) => {
                self.passed += 1;
                match self.passed < TRIALS {
                    true => Phase::Spinning,
                    false => {
                        (self.passed, self.pause) = (0, AGAIN_MIN);
                        self.next = now + CHECKED_EVERY;
                        Phase::Sleeping
                    }
                }
            }
            Phase::Sleeping if is_spare && now < self.next => Phase::Sleeping,
            Phase::Sleeping if is_spare => Phase::Checking { sleeping: rate },
            Phase::Checking { sleeping } if is_many && sleeping >= rate * (1.0 - LOSS_MAX) => {
                self.next = now + CHECKED_EVERY;
                Phase::Sleeping
            }
            Phase::Trying { .. } | Phase::Checking { .. } => {
                self.passed = 0;
                self.next = now + self.pause;
                self.pause = (2 * self.pause).min(AGAIN_MAX);
                Phase::Spinning
            }
            Phase::Spinning | Phase::Sleeping => Phase::Spinning,
        };
        (self.began, self.messages, self.waited) = (now, 0, Duration::ZERO);
        (self.turns, self.singles) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
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
