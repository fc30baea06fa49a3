//! Since when something that a peer has to see to waits for it.

use crate::time::Time;

/// What waits for a peer to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stalled {
    /// Since when something has waited without a break.
    pub(super) began: Time,
    /// Since when the peer has taken nothing of it.
    pub(super) since: Time,
    /// How much it had taken then.
    taken: u64,
}

impl Stalled {
    /// What has come of `before` when `taken` of what waits has been taken.
    pub(super) fn follow(before: Option<Self>, taken: u64, now: Time) -> Self {
        match before {
            Some(stalled) if stalled.taken == taken => stalled,
            Some(stalled) => Self { since: now, taken, ..stalled },
            None => Self { began: now, since: now, taken },
        }
    }
}

/// A frame, or a large body, that has begun and not ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unfinished {
    /// When its beginning came.
    pub(super) since: Time,
    /// Which of the peer's it is.
    number: u64,
}

impl Unfinished {
    /// What has come of `before` when the one with this number is unfinished.
    pub(super) fn follow(before: Option<Self>, number: Option<u64>, now: Time) -> Option<Self> {
        let number = number?;
        before.filter(|same| same.number == number).or(Some(Self { since: now, number }))
    }
}
