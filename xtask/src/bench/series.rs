//! The rounds of one figure, ours and the peer's, and their medians.

use serde_json::{Value, json};

/// A peer below this part of what it reaches on a quiet machine makes the figures those of another machine.
const QUIET_AT_LEAST: f64 = 0.9;

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

/// The medians of all rounds. None is left out: in each, both had the same machine, and the median bears a few in
/// which they had not.
#[derive(Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) ours: f64,
    pub(super) peer: f64,
    /// Median of the rounds' own ratios, ours to the peer's.
    pub(super) ratio: f64,
    /// The least and the most of these.
    pub(super) ratios: [f64; 2],
    pub(super) rounds: usize,
    /// What the peer reached of what it does when nothing else runs, 1 being all of it.
    pub(super) of_quiet: Option<f64>,
}

impl Series {
    pub(super) fn new(better: Better, peer_baseline: Option<f64>) -> Series {
        Series { better, peer_baseline, rounds: Vec::new() }
    }

    pub(super) fn push(&mut self, ours: f64, peer: f64) {
        self.rounds.push(Round { ours, peer });
    }

    /// `None` of no rounds.
    pub(super) fn summary(&self) -> Option<Summary> {
        let peer = median(self.rounds.iter().map(|round| round.peer))?;
        let ratios = || self.rounds.iter().map(|round| round.ours / round.peer);
        Some(Summary {
            ours: median(self.rounds.iter().map(|round| round.ours))?,
            peer,
            ratio: median(ratios())?,
            ratios: [ratios().fold(f64::MAX, f64::min), ratios().fold(f64::MIN, f64::max)],
            rounds: self.rounds.len(),
            of_quiet: self.peer_baseline.map(|baseline| match self.better {
                Better::Higher => peer / baseline,
                Better::Lower => baseline / peer,
            }),
        })
    }

    /// One line for a person; `wanted` is the ratio to hold the figure against.
    pub(super) fn line(&self, name: &str, unit: &str, wanted: Option<f64>) -> String {
        let Some(summary) = self.summary() else {
            return format!("{name:<24} was not measured in any round");
        };
        let Summary { ours, peer, ratio, ratios: [least, most], rounds, of_quiet } = summary;
        let sign = if self.better == Better::Higher { "at least" } else { "at most" };
        let wanted = wanted.map_or(String::new(), |wanted| format!("{sign} {wanted} wanted, "));
        let disturbed = of_quiet.filter(|part| *part < QUIET_AT_LEAST).map(|part| {
            format!("; the peer is at {part:.2} of what it reaches here when nothing else runs")
        });
        format!(
            "{name:<24} ours {ours:>9.3} peer {peer:>9.3} {unit:<7} ratio {ratio:.2} ({wanted}{least:.2} to \
             {most:.2} in {rounds} rounds){}",
            disturbed.unwrap_or_default()
        )
    }

    /// Every round, and the medians.
    pub(super) fn json(&self) -> Value {
        let rounds =
            self.rounds.iter().map(|round| json!({"ours": round.ours, "peer": round.peer}));
        let summary = self.summary().map(|summary| {
            json!({
                "ours": summary.ours,
                "peer": summary.peer,
                "ratio": summary.ratio,
                "peer_to_quiet_machine": summary.of_quiet,
            })
        });
        json!({"median": summary, "rounds": rounds.collect::<Vec<_>>()})
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
    fn ratios_are_those_of_rounds_not_of_medians() {
        let rounds = [(20.0, 10.0), (10.0, 1.0), (33.0, 11.0)];
        let summary = series(Better::Higher, None, &rounds).summary().unwrap();
        assert_eq!((summary.ours, summary.peer), (20.0, 10.0));
        assert_eq!((summary.ratio, summary.ratios), (3.0, [2.0, 10.0]));
    }

    #[test]
    fn a_peer_that_is_slower_than_on_a_quiet_machine_is_told_either_way() {
        let slow = series(Better::Higher, Some(2.0), &[(2.0, 1.0)]);
        assert!(
            slow.line("rate", "M/s", None)
                .ends_with("the peer is at 0.50 of what it reaches here when nothing else runs")
        );
        let late = series(Better::Lower, Some(50.0), &[(60.0, 100.0)]);
        assert_eq!(late.summary().unwrap().of_quiet, Some(0.5));
        let quiet = series(Better::Lower, Some(50.0), &[(60.0, 52.0)]);
        assert!(
            quiet
                .line("latency", "us", Some(1.1))
                .ends_with("(at most 1.1 wanted, 1.15 to 1.15 in 1 rounds)")
        );
    }

    #[test]
    fn no_round_is_no_figure() {
        assert_eq!(series(Better::Higher, Some(2.0), &[]).summary(), None);
    }
}
