//! The figure of a sweep, as the papers draw it: the size on a logarithmic axis, messages a second to the
//! left, bytes a second to the right, the machine's limit dashed beside ours, bars from the least to the
//! most of all runs.

use anyhow::anyhow;
use plotters::prelude::*;

use super::report::{Report, Side, Spread};

const PIXELS: (u32, u32) = (960, 560);
const RATE: RGBColor = RGBColor(31, 87, 166);
const BYTES: RGBColor = RGBColor(192, 80, 24);
/// Room above the highest point, for the legend.
const HEADROOM: f64 = 1.25;

/// One line of the figure.
struct Curve {
    name: String,
    color: RGBColor,
    dashed: bool,
    on_the_right: bool,
    /// The binary logarithm of the size, and the figure there.
    points: Vec<(f64, Spread)>,
}

/// Draws the sweep.
pub(super) fn svg(report: &Report<'_>) -> anyhow::Result<String> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, PIXELS).into_drawing_area();
    draw(report, &root).map_err(|error| anyhow!("failed to draw the figure: {error}"))?;
    drop(root);
    Ok(text)
}

fn draw(
    report: &Report<'_>,
    root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let curves = curves(report);
    let highest = |right: bool| {
        let points = curves.iter().filter(|curve| curve.on_the_right == right);
        let most = points.flat_map(|curve| &curve.points).map(|(_, spread)| spread.most);
        most.fold(f64::MIN_POSITIVE, f64::max) * HEADROOM
    };
    let logarithms = || report.plan.sizes.iter().map(|size| (*size as f64).log2());
    let first = logarithms().fold(f64::INFINITY, f64::min);
    let last = logarithms().fold(0.0, f64::max).max(first + 1.0);
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(root)
        .caption(report.heading(), ("sans-serif", 20))
        .margin(14)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .right_y_label_area_size(64)
        .build_cartesian_2d(first..last, 0.0..highest(false))?
        .set_secondary_coord(first..last, 0.0..highest(true));
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_labels(21)
        .x_label_formatter(&|logarithm| size_name(logarithm.exp2().round()))
        .x_desc("bytes of a message")
        .y_desc("M messages/s")
        .y_label_formatter(&|value| format!("{value:.0}"))
        .draw()?;
    chart
        .configure_secondary_axes()
        .y_desc("GB/s")
        .y_label_formatter(&|value| format!("{value:.1}"))
        .draw()?;
    for curve in &curves {
        let line = curve.points.iter().map(|(x, spread)| (*x, spread.median));
        let bars = curve.points.iter().map(|(x, spread)| {
            PathElement::new(vec![(*x, spread.least), (*x, spread.most)], curve.color.mix(0.4))
        });
        let style = curve.color.stroke_width(2);
        // The axes have types of their own, but draw alike.
        let series = match (curve.on_the_right, curve.dashed) {
            (false, false) => {
                chart.draw_series(bars)?;
                chart.draw_series(LineSeries::new(line, style).point_size(3))?
            }
            (false, true) => chart.draw_series(DashedLineSeries::new(line, 6, 4, style))?,
            (true, false) => {
                chart.draw_secondary_series(bars)?;
                chart.draw_secondary_series(LineSeries::new(line, style).point_size(3))?
            }
            (true, true) => {
                chart.draw_secondary_series(DashedLineSeries::new(line, 6, 4, style))?
            }
        };
        let (dashed, style) = (curve.dashed, curve.color.stroke_width(2));
        series.label(curve.name.clone()).legend(move |(x, y)| {
            // A dashed line is two strokes with a gap, the other two that meet.
            let gap = if dashed { 4 } else { 0 };
            EmptyElement::at((x, y))
                + PathElement::new(vec![(0, 0), (10 - gap / 2, 0)], style)
                + PathElement::new(vec![(10 + gap / 2, 0), (20, 0)], style)
        });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperMiddle)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()
}

fn curves(report: &Report<'_>) -> Vec<Curve> {
    let raw = format!("raw ({})", report.raw_method());
    let curve = |side: Side, on_the_right: bool| {
        let who = if side == Side::Weft { "Weft" } else { &raw };
        let what = if on_the_right { "GB/s" } else { "M messages/s" };
        let points = report.plan.sizes.iter().enumerate().map(|(index, size)| {
            let (spread, unit) = match on_the_right {
                true => (report.bytes(index, side), 1e9),
                false => (report.messages(index, side), 1e6),
            };
            ((*size as f64).log2(), spread.scaled(1.0 / unit))
        });
        Curve {
            name: format!("{who}, {what}"),
            color: if on_the_right { BYTES } else { RATE },
            dashed: side == Side::Raw,
            on_the_right,
            points: points.collect(),
        }
    };
    [(Side::Raw, false), (Side::Raw, true), (Side::Weft, false), (Side::Weft, true)]
        .map(|(side, right)| curve(side, right))
        .into()
}

fn size_name(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= 1048576.0 => format!("{}M", bytes / 1048576.0),
        bytes if bytes >= 1024.0 => format!("{}K", bytes / 1024.0),
        bytes => format!("{bytes}"),
    }
}

impl Spread {
    fn scaled(self, by: f64) -> Self {
        let Self { median, least, most } = self;
        Self { median: median * by, least: least * by, most: most * by }
    }
}
