//! The picture of the time: a lane for each worker, and in it what the worker did when.

use std::fmt::{self, Write as _};

use super::super::merged::MergedStage;
use super::super::told::{Told, ToldSpan};
use super::markup::{Plain, colour};
use crate::amounts::{count, time};

/// Of the lanes, and of what is ahead of them.
const WIDTH: f64 = 940.0;
const NAMES_WIDTH: f64 = 84.0;
const RIGHT: f64 = 20.0;

const LANE_HEIGHT: f64 = 26.0;
const GAP: f64 = 8.0;
const SCALE_HEIGHT: f64 = 26.0;

/// How many marks the scale has at most.
const MARKS_MAX: f64 = 8.0;

/// Pixels below which spans are drawn together; more where there are many workers, so that pages stay small.
const PIXELS_LEAST: f64 = 1.0;
const WORKERS_OF_A_PIXEL: f64 = 8.0;

/// Spans that are drawn in the same place, one above the other in the shares of their times.
#[derive(Clone, Debug, PartialEq)]
struct Cluster {
    began: f64,
    ended: f64,
    /// Of each stage: its number, how often it was there, how long, and how much of that it waited.
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    stage: u32,
    times: u64,
    seconds: f64,
    waiting: f64,
}

pub(super) fn write(
    out: &mut String,
    stages: &[MergedStage],
    told: &[Option<Told>],
) -> fmt::Result {
    let longest = told.iter().flatten().map(|told| told.seconds).fold(0.0, f64::max);
    if longest <= 0.0 {
        return out.write_str("<p class=\"soft\">No worker has told of its time.</p>\n");
    }
    let workers = told.len() as f64;
    let (width, height) =
        (NAMES_WIDTH + WIDTH + RIGHT, SCALE_HEIGHT + workers * (LANE_HEIGHT + GAP));
    writeln!(
        out,
        "<svg width=\"{width}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"time line\">"
    )?;
    out.write_str(
        "<defs><pattern id=\"waiting\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><path class=\"hatch\" d=\"M0 0 V6\"/></pattern></defs>\n",
    )?;
    let scale = WIDTH / longest;
    for mark in marks(longest) {
        let x = NAMES_WIDTH + mark * scale;
        writeln!(out, "<path class=\"grid\" d=\"M{x:.1} {} V{height}\"/>", SCALE_HEIGHT - 6.0)?;
        writeln!(
            out,
            "<text class=\"small\" x=\"{x:.1}\" y=\"12\" text-anchor=\"middle\">{}</text>",
            time(mark)
        )?;
    }
    for (worker, told) in told.iter().enumerate() {
        let y = SCALE_HEIGHT + worker as f64 * (LANE_HEIGHT + GAP);
        writeln!(
            out,
            "<text x=\"0\" y=\"{}\">worker {worker}</text>",
            y + LANE_HEIGHT / 2.0 + 4.0
        )?;
        let Some(told) = told else {
            writeln!(
                out,
                "<text class=\"small\" x=\"{}\" y=\"{}\">has told nothing</text>",
                NAMES_WIDTH + 8.0,
                y + LANE_HEIGHT / 2.0 + 4.0
            )?;
            continue;
        };
        let lane = told.seconds * scale;
        writeln!(
            out,
            "<rect class=\"lane\" x=\"{NAMES_WIDTH}\" y=\"{y}\" width=\"{lane:.2}\" height=\"{LANE_HEIGHT}\" rx=\"4\"/>"
        )?;
        let least = PIXELS_LEAST.max(workers / WORKERS_OF_A_PIXEL) / scale;
        for cluster in clusters(&told.timeline, least) {
            draw(out, stages, &cluster, scale, y)?;
        }
    }
    out.write_str("</svg>\n")
}

fn draw(
    out: &mut String,
    stages: &[MergedStage],
    cluster: &Cluster,
    scale: f64,
    y: f64,
) -> fmt::Result {
    let x = NAMES_WIDTH + cluster.began * scale;
    let width = ((cluster.ended - cluster.began) * scale).max(0.5);
    let all: f64 = cluster.parts.iter().map(|part| part.seconds).sum();
    let mut top = y;
    for part in &cluster.parts {
        let share = if all > 0.0 { part.seconds / all } else { 1.0 / cluster.parts.len() as f64 };
        let height = share * LANE_HEIGHT;
        if height < 0.3 {
            continue;
        }
        let verb = stages.iter().find(|stage| stage.number == part.stage);
        let verb = verb.map_or("", |stage| stage.verb.as_str());
        let times =
            if part.times > 1 { format!(", {} times", count(part.times)) } else { String::new() };
        let said = format!(
            "stage {}, {verb}{times}: {} from {} on, {} of it waiting",
            part.stage,
            time(part.seconds),
            time(cluster.began),
            time(part.waiting),
        );
        let class = colour(stages, part.stage);
        writeln!(
            out,
            "<rect class=\"f{class}\" x=\"{x:.2}\" y=\"{top:.2}\" width=\"{width:.2}\" height=\"{height:.2}\"><title>{}</title></rect>",
            Plain(said)
        )?;
        let waiting = if part.seconds > 0.0 { (part.waiting / part.seconds).min(1.0) } else { 0.0 };
        let hatched = waiting * height;
        if hatched >= 1.0 && width >= 2.0 {
            writeln!(
                out,
                "<rect class=\"wait\" x=\"{x:.2}\" y=\"{:.2}\" width=\"{width:.2}\" height=\"{hatched:.2}\"/>",
                top + height - hatched
            )?;
        }
        top += height;
    }
    Ok(())
}

/// Those that overlap are one, and so are neighbours as long as they have not become as wide as `least`.
fn clusters(timeline: &[ToldSpan], least: f64) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for span in timeline {
        let ToldSpan { stage, began, ended, times, seconds, waiting } = *span;
        let part = Part { stage, times, seconds, waiting };
        let is_small = |began: f64, ended: f64| ended - began < least;
        let with = clusters.last_mut().filter(|last| {
            let is_near = began - last.ended < least;
            began < last.ended
                || (is_near && is_small(last.began, last.ended) && is_small(began, ended))
        });
        match with {
            None => clusters.push(Cluster { began, ended, parts: vec![part] }),
            Some(last) => {
                last.ended = last.ended.max(ended);
                match last.parts.iter_mut().find(|known| known.stage == stage) {
                    None => last.parts.push(part),
                    Some(known) => {
                        known.times += times;
                        known.seconds += seconds;
                        known.waiting += waiting;
                    }
                }
            }
        }
    }
    clusters
}

/// Where the scale has marks: at 1, 2 or 5 of some power of ten.
fn marks(longest: f64) -> impl Iterator<Item = f64> {
    let power = 10_f64.powf((longest / MARKS_MAX).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
    let step = steps.into_iter().find(|step| longest / step <= MARKS_MAX).unwrap_or(longest);
    (0..=(longest / step) as u32).map(move |mark| f64::from(mark) * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(stage: u32, began: f64, ended: f64) -> ToldSpan {
        ToldSpan { stage, began, ended, times: 1, seconds: ended - began, waiting: 0.0 }
    }

    #[test]
    fn what_is_wide_enough_is_drawn_alone() {
        let spans = [span(0, 0.0, 1.0), span(1, 1.0, 2.5), span(0, 3.0, 4.0)];
        let found = clusters(&spans, 0.1);
        assert_eq!(found.len(), 3);
        assert_eq!((found[1].began, found[1].ended, found[1].parts.len()), (1.0, 2.5, 1));
    }

    #[test]
    fn many_short_spans_are_few_clusters_and_lose_no_time() {
        let spans: Vec<ToldSpan> = (0..10_000)
            .map(|at| span(at % 2, f64::from(at) * 1e-3, f64::from(at + 1) * 1e-3))
            .collect();
        let found = clusters(&spans, 0.1);
        assert!((50..=110).contains(&found.len()), "{}", found.len());
        let seconds: f64 =
            found.iter().flat_map(|cluster| &cluster.parts).map(|part| part.seconds).sum();
        assert!((seconds - 10.0).abs() < 1e-6, "{seconds}");
        assert!(found.windows(2).all(|pair| pair[0].ended <= pair[1].began));
    }

    #[test]
    fn what_was_put_together_stays_so() {
        let merged =
            |stage, began, ended| ToldSpan { times: 9, seconds: 0.4, ..span(stage, began, ended) };
        let found =
            clusters(&[merged(0, 0.0, 0.9), merged(1, 0.1, 1.0), merged(0, 1.0, 2.0)], 0.01);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].began, found[0].ended, found[0].parts.len()), (0.0, 1.0, 2));
    }

    #[test]
    fn a_scale_has_few_round_marks() {
        for (longest, expected) in [
            (1.0, vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
            (7.9, vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]),
            (1234.0, vec![0.0, 200.0, 400.0, 600.0, 800.0, 1000.0, 1200.0]),
        ] {
            let found: Vec<f64> = marks(longest).collect();
            let is_near = |(one, other): (&f64, &f64)| (one - other).abs() < 1e-9;
            assert!(
                found.len() == expected.len() && found.iter().zip(&expected).all(is_near),
                "{found:?}"
            );
        }
        assert!(marks(1e-6).count() <= 9);
    }
}
