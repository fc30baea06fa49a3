//! A smaller run that fails in the same way: what people look at.

use std::mem::discriminant;

use crate::scenario::{Caps, Failure, Run, Size};

/// Makes a run that failed smaller, one number after the other, and then leaves out one fault after the
/// other, for as long as it fails in the same way; `run` is tried up to `runs_max` times. Returns the
/// smallest run that failed.
///
/// Nothing about a smaller run is the same as before, but that it is drawn from the same seed: so each
/// attempt is a run of its own, and some failures cannot be made smaller.
pub fn shrink(failed: Run, runs_max: u32, run: impl Fn(&Caps) -> Run) -> Run {
    let mut shrinking = Shrinking { smallest: failed, left: runs_max, run };
    loop {
        let before = shrinking.left;
        let mut any = false;
        for size in Size::ALL {
            any |= shrinking.reduce(size);
        }
        any |= shrinking.leave_out_faults();
        if !any || shrinking.left == 0 || shrinking.left == before {
            return shrinking.smallest;
        }
    }
}

struct Shrinking<R> {
    smallest: Run,
    left: u32,
    run: R,
}

impl<R: Fn(&Caps) -> Run> Shrinking<R> {
    /// Halves one number while that fails, then takes away smaller and smaller parts.
    fn reduce(&mut self, size: Size) -> bool {
        let mut any = false;
        let mut part = size.of(&self.smallest.sizes).div_ceil(2);
        while part > 0 {
            let now = size.of(&self.smallest.sizes);
            let less = now.saturating_sub(part).max(size.least());
            let mut caps = self.smallest.caps.clone();
            *caps.cap_mut(size) = Some(less);
            if less < now && self.fails_with(&caps) {
                any = true;
            } else {
                part /= 2;
            }
        }
        any
    }

    fn leave_out_faults(&mut self) -> bool {
        let mut any = false;
        let faults = self.smallest.caps.without.len() + self.smallest.sizes.faults as usize;
        for place in (0..faults).rev() {
            if !self.smallest.caps.without.contains(&place) {
                let mut caps = self.smallest.caps.clone();
                caps.without.push(place);
                caps.without.sort_unstable();
                any |= self.fails_with(&caps);
            }
        }
        any
    }

    fn fails_with(&mut self, caps: &Caps) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let smaller = (self.run)(caps);
        let is_same = match (&smaller.outcome, &self.smallest.outcome) {
            (Err(now), Err(before)) => is_same_failure(now, before),
            _ => false,
        };
        if is_same {
            self.smallest = smaller;
        }
        is_same
    }
}

/// A checker that says the same of other operations has found the same.
fn is_same_failure(now: &Failure, before: &Failure) -> bool {
    let tells_of_order =
        |failure: &Failure| matches!(failure, Failure::Linearizability(_) | Failure::Ledger(_));
    discriminant(now) == discriminant(before) || tells_of_order(now) && tells_of_order(before)
}
