//! What the command says beside the report, on standard error.

#![expect(
    clippy::disallowed_methods,
    reason = "the one place of this program that writes to stderr"
)]

use std::fmt::Display;
use std::io::{self, Write as _};

/// Says one line. A run goes on if nobody listens any more: `ycsb run … 2>&1 | head`.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
