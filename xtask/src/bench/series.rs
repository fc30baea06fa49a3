//! The rounds of one figure, ours and the peer's, and which of them count.

use serde_json::{Value, json};

/// A round whose peer is worse than this part of what it should reach was disturbed.
const PEER_AT_LEAST: f64 = 0.9;

/// Which way a figure is good.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    Higher,
    Lower,
}

/// One figure, taken once a round beside its peer in the same round.
pub(super) struct Series {
    better: Better,
    /// What the peer reaches on this machine when it is quiet, if that is known.
    peer_baseline: Option<f64>,
    rounds: Vec<Round>,
}

struct Round {
    ours: f64,
    peer: f64,
}

/// The medians of the rounds that count.
#[derive(Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) ours: f64,
    pub(super) peer: f64,
    /// Median of the rounds' own ratios, ours to the peer's.
    pub(super) ratio: f64,
    pub(super) rounds: usize,
    pub(super) disturbed: usize,
}

impl Series {
    pub(super) fn new(better: Better, peer_baseline: Option<f64>) -> Series {
        Series { better, peer_baseline, rounds: Vec::new() }
    }

    pub(super) fn push(&mut self, ours: f64, peer: f64) {
        self.rounds.push(Round { ours, peer });
    }

    /// `None` if every round was disturbed.
    pub(super) fn summary(&self) -> Option<Summary> {
        let counted: Vec<&Round> =
            self.rounds.iter().filter(|round| !self.is_disturbed(round)).collect();
        Some(Summary {
            ours: median(counted.iter().map(|round| round.ours))?,
            peer: median(counted.iter().map(|round| round.peer))?,
            ratio: median(counted.iter().map(|round| round.ours / round.peer))?,
            rounds: self.rounds.len(),
            disturbed: self.rounds.len() - counted.len(),
        })
    }

    /// One line for a person; `wanted` is the ratio to hold the figure against.
    pub(super) fn line(&self, name: &str, unit: &str, wanted: Option<f64>) -> String {
        let Some(summary) = self.summary() else {
            return format!(
                "{name:<24} disturbed: no round in which the peer was as fast as it can"
            );
        };
        let Summary { ours, peer, ratio, rounds, disturbed } = summary;
        let sign = if self.better == Better::Higher { "at least" } else { "at most" };
        let wanted = wanted.map_or(String::new(), |wanted| format!(" ({sign} {wanted} wanted)"));
        let counted = rounds - disturbed;
        format!(
            "{name:<24} ours {ours:>9.3} peer {peer:>9.3} {unit:<7} ratio {ratio:.2}{wanted}, \
             {counted} of {rounds} rounds count"
        )
    }

    /// Every round, and the medians.
    pub(super) fn json(&self) -> Value {
        let rounds = self.rounds.iter().map(|round| {
            let disturbed = self.is_disturbed(round);
            json!({"ours": round.ours, "peer": round.peer, "disturbed": disturbed})
        });
        let summary = self.summary().map(
            |summary| json!({"ours": summary.ours, "peer": summary.peer, "ratio": summary.ratio}),
        );
        json!({"median": summary, "rounds": rounds.collect::<Vec<_>>()})
    }

    /// On a machine without a baseline the peer's best round is what it should reach.
    fn is_disturbed(&self, round: &Round) -> bool {
        let peers = self.rounds.iter().map(|round| round.peer);
        let expected = self.peer_baseline.unwrap_or_else(|| match self.better {
            Better::Higher => peers.fold(f64::MIN, f64::max),
            Better::Lower => peers.fold(f64::MAX, f64::min),
        });
        match self.better {
            Better::Higher => round.peer < expected * PEER_AT_LEAST,
            Better::Lower => round.peer > expected / PEER_AT_LEAST,
        }
    }
}

/// The middle value, or the mean of the two middle ones.
pub(super) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(better: Better, baseline: Option<f64>, rounds: &[(f64, f64)]) -> Series {
        let mut series = Series::new(better, baseline);
        rounds.iter().for_each(|&(ours, peer)| series.push(ours, peer));
        series
    }

    #[test]
    fn the_median_of_an_even_count_is_the_mean_of_the_middle() {
        assert_eq!(median([4.0, 1.0, 3.0].into_iter()), Some(3.0));
        assert_eq!(median([4.0, 1.0, 3.0, 2.0].into_iter()), Some(2.5));
        assert_eq!(median(std::iter::empty()), None);
    }

    #[test]
    fn a_round_with_a_slow_peer_does_not_count() {
        let rounds = [(20.0, 10.0), (10.0, 1.0), (22.0, 11.0)];
        let summary = series(Better::Higher, None, &rounds).summary().unwrap();
        assert_eq!((summary.ratio, summary.rounds, summary.disturbed), (2.0, 3, 1));
    }

    #[test]
    fn a_slow_peer_of_a_latency_is_one_that_takes_longer() {
        let rounds = [(60.0, 50.0), (60.0, 90.0)];
        let summary = series(Better::Lower, None, &rounds).summary().unwrap();
        assert_eq!((summary.ratio, summary.disturbed), (1.2, 1));
    }

    #[test]
    fn a_baseline_can_condemn_every_round() {
        let rounds = [(2.0, 1.0), (2.0, 1.0)];
        assert_eq!(series(Better::Higher, Some(2.0), &rounds).summary(), None);
    }
}
