//! The tables: stages, workers and attempts.

use std::fmt::{self, Write as _};

use super::super::merged::{Merged, MergedStage, StageEnd};
use super::super::told::Told;
use super::super::{Attempt, End};
use super::markup::{Plain, colour};
use crate::amounts::{bytes, count, time};

pub(super) fn stages(out: &mut String, merged: &Merged) -> fmt::Result {
    if merged.stages.is_empty() {
        return out.write_str("<p class=\"soft\">No worker has told of one.</p>\n");
    }
    let most = |of: fn(&MergedStage) -> f64| merged.stages.iter().map(of).fold(0.0, f64::max);
    let (longest, shuffled, spilled) = (
        most(|stage| stage.seconds),
        most(|stage| stage.bytes_shuffled as f64),
        most(|stage| stage.bytes_spilled as f64),
    );
    out.write_str("<table><thead><tr><th>stage</th><th>times</th><th>time</th><th>waiting</th><th>records</th><th>shuffled</th><th>skew</th><th>spilled</th></tr></thead><tbody>\n")?;
    for stage in &merged.stages {
        let MergedStage { number, verb, times, seconds, records_out, bytes_shuffled, .. } = stage;
        write!(
            out,
            "<tr><td><span class=\"dot b{}\"></span>{number} {}{}</td>",
            colour(&merged.stages, *number),
            Plain(verb),
            match stage.end {
                StageEnd::Done => "",
                StageEnd::Failed => " <b class=\"failed\">failed</b>",
                StageEnd::Stopped => " <b class=\"lost\">stopped</b>",
            }
        )?;
        write!(out, "<td>{}</td>", count(*times))?;
        write!(out, "<td>{}{}</td>", time(*seconds), Bar("", seconds / longest))?;
        let waiting = stage.waiting_part();
        write!(out, "<td>{:.0}%{}</td>", waiting * 100.0, Bar("wait", waiting))?;
        write!(out, "<td>{}</td>", count(*records_out))?;
        write!(
            out,
            "<td>{}{}</td>",
            bytes(*bytes_shuffled),
            Bar("", *bytes_shuffled as f64 / shuffled)
        )?;
        match stage.skew {
            // From all alike to all on one worker.
            Some(skew) => {
                let most = (stage.records_out_by_worker.len() as f64 - 1.0).max(1.0);
                write!(out, "<td>{skew:.2}{}</td>", Bar("skew", (skew - 1.0) / most))?;
            }
            None => out.write_str("<td class=\"soft\">–</td>")?,
        }
        let spill = stage.bytes_spilled;
        writeln!(out, "<td>{}{}</td></tr>", bytes(spill), Bar("spill", spill as f64 / spilled))?;
    }
    out.write_str("</tbody></table>\n")?;
    if merged.exchanges_merged > 0 {
        let merged = count(merged.exchanges_merged);
        writeln!(
            out,
            "<p class=\"note\">The program makes exchanges in more places than are kept apart: {merged} exchanges were counted with others of their verb.</p>"
        )?;
    }
    Ok(())
}

pub(super) fn workers(out: &mut String, merged: &Merged, told: &[Option<Told>]) -> fmt::Result {
    let sum = |of: fn(&MergedStage) -> &Vec<u64>, worker: usize| -> u64 {
        merged.stages.iter().map(|stage| of(stage)[worker]).sum()
    };
    let all = |of: fn(&MergedStage) -> &Vec<u64>| -> Vec<u64> {
        (0..told.len()).map(|worker| sum(of, worker)).collect()
    };
    let records = all(|stage| &stage.records_out_by_worker);
    let sent = all(|stage| &stage.bytes_sent_by_worker);
    let received = all(|stage| &stage.bytes_received_by_worker);
    let of_told = |of: fn(&Told) -> u64| -> Vec<u64> {
        told.iter().map(|told| told.as_ref().map_or(0, of)).collect()
    };
    let spilled = of_told(|told| told.bytes_spilled);
    let memory = of_told(|told| told.peak_memory_bytes);
    out.write_str("<table><thead><tr><th>worker</th><th>records</th><th>sent</th><th>received</th><th>spilled</th><th>memory at most</th></tr></thead><tbody>\n")?;
    for (worker, of_worker) in told.iter().enumerate() {
        write!(out, "<tr><td>{worker}</td>")?;
        if of_worker.is_none() {
            out.write_str("<td class=\"soft\" colspan=\"5\">has told nothing</td></tr>\n")?;
            continue;
        }
        write!(out, "<td>{}{}</td>", count(records[worker]), bar("", &records, worker))?;
        for (class, amounts) in
            [("", &sent), ("", &received), ("spill", &spilled), ("skew", &memory)]
        {
            write!(out, "<td>{}{}</td>", bytes(amounts[worker]), bar(class, amounts, worker))?;
        }
        out.write_str("</tr>\n")?;
    }
    out.write_str("</tbody></table>\n")
}

pub(super) fn attempts(out: &mut String, attempts: &[Attempt]) -> fmt::Result {
    if attempts.is_empty() {
        return out.write_str("<p class=\"soft\">None began: no worker was started.</p>\n");
    }
    out.write_str("<table><thead><tr><th>attempt</th><th>began</th><th>took</th><th>end</th><th>why</th></tr></thead><tbody>\n")?;
    for Attempt { attempt, began, seconds, end, error, failure } in attempts {
        let (class, end) = match end {
            End::Done => ("done", "done"),
            End::Lost => ("lost", "a worker was lost"),
            End::Failed => ("failed", "failed"),
        };
        let why = error.as_deref().unwrap_or("");
        let site = failure.as_ref().filter(|site| site.worker.is_some() || site.agent.is_some());
        let site = site.map(|site| format!("<br/><span class=\"soft\">{}</span>", Plain(site)));
        writeln!(
            out,
            "<tr><td>{attempt}</td><td>{}</td><td>{}</td><td class=\"{class}\">{end}</td><td class=\"text\">{}{}</td></tr>",
            time(*began),
            time(*seconds),
            Plain(why),
            site.unwrap_or_default()
        )?;
    }
    out.write_str("</tbody></table>\n")
}

/// A part of a whole.
struct Bar(&'static str, f64);

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bar(class, part) = self;
        // Nothing of nothing is nothing.
        let percent = if part.is_finite() { part.clamp(0.0, 1.0) * 100.0 } else { 0.0 };
        write!(
            f,
            "<span class=\"track\"><i class=\"{class}\" style=\"width:{percent:.1}%\"></i></span>"
        )
    }
}

/// Of the largest of several.
fn bar(class: &'static str, amounts: &[u64], of: usize) -> Bar {
    let most = amounts.iter().max().copied().unwrap_or(0);
    Bar(class, amounts[of] as f64 / most as f64)
}
