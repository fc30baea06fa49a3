//! Results on stdout: a table for people, JSON for programs, raw bytes for pipes.

#![expect(
    clippy::disallowed_methods,
    reason = "the one place of this program that writes to stdout"
)]

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use clap::ValueEnum;
use comfy_table::{CellAlignment, ContentArrangement, Table, TableStyle};
use serde::Serialize;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// One JSON value
    Json,
    /// Values byte for byte, one figure a line, nothing else
    Raw,
}

impl Format {
    /// For people on a terminal, for pipes elsewhere.
    pub(crate) fn for_stdout() -> Self {
        if io::stdout().is_terminal() { Self::Table } else { Self::Raw }
    }
}

/// Stdout, and the form that it is to have.
pub(crate) struct Output {
    pub(crate) format: Format,
    stdout: BufWriter<StdoutLock<'static>>,
}

impl Output {
    pub(crate) fn to_stdout(format: Format) -> Self {
        Self { format, stdout: BufWriter::new(io::stdout().lock()) }
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stdout.write_all(bytes)
    }

    /// Text and the end of its line.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.stdout, "{}", text.as_ref())
    }

    /// One JSON value on a line of its own.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.stdout, value)?;
        self.stdout.write_all(b"\n")
    }

    /// Rows under a heading, with columns from `numbers_from` on to the right.
    pub(crate) fn table<R, C>(
        &mut self,
        heading: &[&str],
        rows: R,
        numbers_from: usize,
    ) -> io::Result<()>
    where
        R: IntoIterator<Item = C>,
        C: IntoIterator<Item = String>,
    {
        let mut table = Table::new();
        table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(heading.iter().copied());
        for row in rows {
            table.add_row(row);
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            let padding = if index == 0 { (0, 1) } else { (1, 1) };
            column.set_padding(padding);
            if index >= numbers_from {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in table.lines() {
            writeln!(self.stdout, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// Everything so far is on its way.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}
