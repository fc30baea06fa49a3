//! What is printed.

use serde_json::{Value, json};

use super::{Counted, Wordcount};
use crate::job::Asked as _;

/// The object that scripts rely on: docs/cli.md.
pub(super) fn object(job: &Wordcount, outcome: &Counted) -> Value {
    json!({
        "words": outcome.words,
        "distinct": outcome.distinct,
        "distinct_by_worker": outcome.distinct_by_worker,
        "lines_skipped": outcome.lines_skipped,
        "attempts": outcome.usage.attempts,
        "workers": job.common().workers,
        "seconds": outcome.usage.seconds,
        "bytes_shuffled": outcome.usage.bytes_shuffled,
        "bytes_spilled": outcome.usage.bytes_spilled,
        "peak_memory_bytes": outcome.usage.peak_memory_bytes,
        "top": outcome.top,
    })
}

pub(super) fn text(outcome: &Counted) -> String {
    let mut text = format!(
        "{} words, {} of them distinct, by worker {:?}\n\
         skipped           {} lines that are no text\n\
         {}",
        outcome.words,
        outcome.distinct,
        outcome.distinct_by_worker,
        outcome.lines_skipped,
        outcome.usage.text("counted"),
    );
    if !outcome.top.is_empty() {
        text += &format!("\n{:>20}  word\n", "times");
    }
    for top in &outcome.top {
        text += &format!("{:>20}  {}\n", top.count, shown(&top.word));
    }
    text
}

/// A word such that a terminal only shows it, whatever the text is.
fn shown(word: &str) -> String {
    let shown = |character: char| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    word.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_tells_a_terminal_nothing() {
        assert_eq!(shown("größe"), "größe");
        assert_eq!(shown("\u{1b}[31mred\u{9b}"), "\\u{1b}[31mred\\u{9b}");
    }
}
