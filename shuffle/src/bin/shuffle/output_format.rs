//! What the lines of an output are like.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;
use weft_shuffle::JsonLines;

use crate::job::Flags;

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct OutputFormat {
    /// Lines of the output: tsv (values with tabs between) or json (an object each)
    #[arg(id = "format", long = "format", value_name = "tsv|json", default_value = "tsv", value_parser = lines)]
    lines: Lines,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    Tsv,
    Json,
}

const LINES: [(&str, Lines); 2] = [("tsv", Lines::Tsv), ("json", Lines::Json)];

fn lines(text: &str) -> Result<Lines, String> {
    let found = LINES.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, lines)| lines).ok_or_else(|| "not tsv or json".to_owned())
}

impl OutputFormat {
    /// Writes a record: `tsv` is its line without the end of that, `record` the same as an object.
    pub(crate) fn write(
        self,
        out: &mut impl Write,
        tsv: fmt::Arguments<'_>,
        record: &impl Serialize,
    ) -> io::Result<()> {
        match self.lines {
            Lines::Tsv => writeln!(out, "{tsv}"),
            Lines::Json => JsonLines::new(out).write(record),
        }
    }

    /// What a worker has to be told.
    pub(crate) fn add_to(self, flags: &mut Flags) {
        let name = LINES.into_iter().find(|(_, lines)| *lines == self.lines);
        name.into_iter().for_each(|(name, _)| flags.add("format", name));
    }
}
