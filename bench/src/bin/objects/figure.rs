//! What sending and receiving takes of each format, by the number of elements: a field a shape, both axes logarithmic.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::{Format, Report, Shape, chosen, name};

const PIXELS: (u32, u32) = (1600, 720);

const COLORS: [RGBColor; 7] = [
    RGBColor(31, 87, 166),
    RGBColor(192, 80, 24),
    RGBColor(226, 160, 120),
    RGBColor(62, 140, 80),
    RGBColor(130, 80, 160),
    RGBColor(160, 60, 90),
    RGBColor(110, 110, 110),
];

/// Below that, in nanoseconds an element, it is as good as nothing.
const LEAST_NS: f64 = 1e-4;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Draws them.
pub(crate) fn svg(reports: &[Report]) -> Result<String> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, PIXELS).into_drawing_area();
    draw(reports, &root).map_err(|error| anyhow!("failed to draw the figure: {error}"))?;
    drop(root);
    Ok(text)
}

fn draw(reports: &[Report], root: &Area<'_>) -> Drawn {
    root.fill(&WHITE)?;
    for (shape, field) in chosen::<Shape>(&[]).into_iter().zip(root.split_evenly((2, 4))) {
        let of_shape: Vec<&Report> =
            reports.iter().filter(|report| report.shape == name(shape)).collect();
        if !of_shape.is_empty() {
            draw_shape(&name(shape), &of_shape, &field)?;
        }
    }
    root.present()
}

fn draw_shape(shape: &str, reports: &[&Report], field: &Area<'_>) -> Drawn {
    let logarithms = || reports.iter().map(|report| f64::from(report.logarithm));
    let first = logarithms().fold(f64::INFINITY, f64::min);
    let last = logarithms().fold(0.0, f64::max).max(first + 1.0);
    let mut chart = ChartBuilder::on(field)
        .caption(shape, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(first..last, (LEAST_NS..400.0).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_labels(6)
        .x_label_formatter(&|logarithm| format!("2^{logarithm:.0}"))
        .x_desc("elements")
        .y_desc("send and receive, ns an element")
        .draw()?;
    for (format, color) in chosen::<Format>(&[]).into_iter().zip(COLORS) {
        let name = name(format);
        let line = reports.iter().filter(|report| report.format == name).map(|report| {
            let ns = report.ns.send.unwrap_or(0.0) + report.ns.receive.unwrap_or(0.0);
            let ns = ns / f64::from(1_u32 << report.logarithm);
            (f64::from(report.logarithm), ns.max(LEAST_NS))
        });
        let line: Vec<_> = line.collect();
        if line.is_empty() {
            continue;
        }
        chart
            .draw_series(LineSeries::new(line, color.stroke_width(2)).point_size(3))?
            .label(name)
            .legend(move |(x, y)| {
                PathElement::new(vec![(x, y), (x + 16, y)], color.stroke_width(2))
            });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.85))
        .draw()
}
