//! The Prometheus text format.

use std::fmt::{self, Write};

use crate::report::{Family, Figure, Kind};

/// All figures as text. Those of a family come one after the other, as the format asks.
pub(super) fn render(figures: &[Figure]) -> String {
    let mut text = String::with_capacity(8 << 10);
    let mut last: Option<&Family> = None;
    for figure in figures {
        let is_first = last.is_none_or(|family| !std::ptr::eq(family, figure.family));
        write_figure(&mut text, figure, is_first).expect("a string takes what is written to it");
        last = Some(figure.family);
    }
    text
}

fn write_figure(text: &mut String, figure: &Figure, is_first: bool) -> fmt::Result {
    let Figure { family: Family { metric, label, kind, help, .. }, member, value } = figure;
    if is_first {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        writeln!(text, "# HELP {metric} {help}\n# TYPE {metric} {kind}")?;
    }
    match *member {
        "" => writeln!(text, "{metric} {value}"),
        member => writeln!(text, "{metric}{{{label}=\"{member}\"}} {value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ALONE: Family =
        Family { name: "a", metric: "weft_a", label: "", kind: Kind::Gauge, help: "One." };
    static SEVERAL: Family = Family {
        name: "b.",
        metric: "weft_b_total",
        label: "which",
        kind: Kind::Counter,
        help: "Some.",
    };

    #[test]
    fn a_family_is_described_once() {
        let text = render(&[
            Figure { family: &ALONE, member: "", value: 7 },
            Figure { family: &SEVERAL, member: "x", value: 1 },
            Figure { family: &SEVERAL, member: "y", value: 2 },
        ]);
        let expected = "# HELP weft_a One.\n# TYPE weft_a gauge\nweft_a 7\n\
            # HELP weft_b_total Some.\n# TYPE weft_b_total counter\n\
            weft_b_total{which=\"x\"} 1\nweft_b_total{which=\"y\"} 2\n";
        assert_eq!(text, expected);
    }
}
