//! Round trips of several threads as one distribution.

use hdrhistogram::Histogram;

/// Round trips in nanoseconds, all threads' together.
pub(crate) struct Quantiles(Histogram<u64>);

impl Quantiles {
    /// # Errors
    /// If there was no round trip.
    pub(crate) fn of(histograms: &[Histogram<u64>]) -> anyhow::Result<Self> {
        let all = merge(histograms)?;
        anyhow::ensure!(!all.is_empty(), "no round trip ended while it was measured");
        Ok(Self(all))
    }

    /// The round trip that this part of all is no longer than, in microseconds.
    pub(crate) fn micros(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1e3
    }
}

pub(crate) fn merge(histograms: &[Histogram<u64>]) -> anyhow::Result<Histogram<u64>> {
    let mut all = Histogram::new(3)?;
    for histogram in histograms {
        all.add(histogram)?;
    }
    Ok(all)
}
