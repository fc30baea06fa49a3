//! Requests that favour the records inserted last, as YCSB's `SkewedLatestGenerator`: the distance
//! back from the newest record is zipfian.

use super::{Random, Zipfian};

/// Numbers from 1 to the newest record. Upstream never asks for record 0, and neither does this.
#[derive(Clone, Debug)]
pub(crate) struct Latest {
    distances: Zipfian,
}

impl Latest {
    /// `last` is the newest record when the run begins.
    pub(crate) fn new(last: u64, theta: f64) -> Latest {
        Latest { distances: Zipfian::new(last.max(1), theta) }
    }

    /// A record not newer than `last`, the newest record now.
    pub(crate) fn sample(&mut self, random: &mut Random, last: u64) -> u64 {
        self.distances.grow(last);
        last.saturating_sub(self.distances.sample(random))
    }
}
