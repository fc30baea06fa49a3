//! The account as a page that needs nothing but itself: no script, no other file, no network.

mod graph;
mod lanes;
mod markup;
mod tables;

use std::fmt::{self, Write as _};

use self::markup::Plain;
use super::{End, Whole};
use crate::amounts::{bytes, count, time};

const STYLE: &str = include_str!("page/style.css");

/// The page.
pub(super) fn of(whole: &Whole<'_>) -> String {
    let mut page = String::new();
    write(&mut page, whole).expect("a string takes everything");
    page
}

fn write(out: &mut String, whole: &Whole<'_>) -> fmt::Result {
    let Whole { job, started, .. } = whole;
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{job}, {started}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>"
    )?;
    header(out, whole)?;
    let mut section = |name: &str, note: &str, write: &dyn Fn(&mut String) -> fmt::Result| {
        writeln!(out, "<section>\n<h2>{name}</h2>")?;
        if !note.is_empty() {
            writeln!(out, "<p class=\"note\">{note}</p>")?;
        }
        out.write_str("<div class=\"card\">\n")?;
        write(out)?;
        out.write_str("</div>\n</section>\n")
    };
    let (merged, told) = (&whole.merged, whole.told);
    section(
        "Stages",
        "What goes on with what, from top to bottom; dashed: the round before.",
        &|out| graph::write(out, merged),
    )?;
    section(
        "Time",
        "A lane for each worker from when they had met; hatched: how much of a stage it waited for others; blank: what the program does between stages.",
        &|out| lanes::write(out, &merged.stages, told),
    )?;
    section(
        "Stage by stage",
        "Time is that of the slowest worker, records are what came out, and skew is the most records of a worker by the mean: 1 where all have the same.",
        &|out| tables::stages(out, merged),
    )?;
    section("Workers", "", &|out| tables::workers(out, merged, told))?;
    section("Attempts", "", &|out| tables::attempts(out, whole.attempts))?;
    let version = env!("CARGO_PKG_VERSION");
    writeln!(out, "<footer>shuffle {version}, of Weft</footer>\n</main>\n</body>\n</html>")
}

fn header(out: &mut String, whole: &Whole<'_>) -> fmt::Result {
    let Whole { job, arguments, started, error, attempts, told, merged, .. } = whole;
    let (class, outcome) = if error.is_none() { ("done", "done") } else { ("failed", "failed") };
    writeln!(out, "<header>\n<h1>{job}</h1><span class=\"pill {class}\">{outcome}</span>")?;
    writeln!(out, "<p class=\"soft\">{started}</p>")?;
    let arguments: Vec<String> = arguments.iter().map(|argument| quoted(argument)).collect();
    writeln!(out, "<p class=\"command\">shuffle {}</p>", Plain(arguments.join(" ")))?;
    if let Some(error) = error {
        writeln!(out, "<p class=\"why\">{}</p>", Plain(error))?;
    }
    let sum = |amounts: &mut dyn Iterator<Item = u64>| amounts.sum::<u64>();
    let stages = || merged.stages.iter();
    let spilled = sum(&mut told.iter().flatten().map(|told| told.bytes_spilled));
    let memory = told.iter().flatten().map(|told| told.peak_memory_bytes).max();
    let lost = attempts.iter().filter(|attempt| attempt.end == End::Lost).count();
    let of_attempts = if lost > 0 {
        format!("{}, {lost} lost", attempts.len())
    } else {
        attempts.len().to_string()
    };
    // What few records do matters little: that all of a result goes to one worker, say.
    let largest = stages().max_by_key(|stage| (stage.bytes_shuffled, stage.records_out));
    let skew = largest.and_then(|stage| stage.skew);
    out.write_str("<dl class=\"figures\">\n")?;
    for (name, figure) in [
        ("took", time(whole.seconds)),
        ("workers", told.len().to_string()),
        ("attempts", of_attempts),
        ("records shuffled", count(sum(&mut stages().map(|stage| stage.records_shuffled)))),
        ("shuffled", bytes(sum(&mut stages().map(|stage| stage.bytes_shuffled)))),
        (
            "skew of the largest stage",
            skew.map_or_else(|| "–".to_owned(), |skew| format!("{skew:.2}")),
        ),
        ("spilled", bytes(spilled)),
        ("memory at most", memory.map_or_else(|| "–".to_owned(), bytes)),
    ] {
        writeln!(out, "<div><dt>{name}</dt><dd>{figure}</dd></div>")?;
    }
    out.write_str("</dl>\n</header>\n")
}

/// An argument as it is typed for a shell, if it has to be quoted.
fn quoted(argument: &str) -> String {
    let is_plain =
        |character: char| character.is_alphanumeric() || "-_./=:,+%@".contains(character);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}
