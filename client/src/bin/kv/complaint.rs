//! What went wrong, on stderr: what, where, what to do, and the code to look up.

#![expect(
    clippy::disallowed_methods,
    reason = "the one place of this program that writes to stderr"
)]

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Error;
use weft_client::{ClientError, ErrorCode};

use crate::control::ControlError;

/// There is nothing to add to what has been printed already; the exit code says the rest.
#[derive(Debug, thiserror::Error)]
#[error("failed")]
pub(crate) struct AlreadySaid;

/// The same, with an exit code of its own.
#[derive(Debug, thiserror::Error)]
#[error("ended with exit code {0}")]
pub(crate) struct EndsWith(pub(crate) u8);

/// The command line makes no sense in a way that the parser cannot tell.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongUsage(pub(crate) String);

/// Prints `error` and returns the exit code for it.
pub(crate) fn report(error: &Error) -> ExitCode {
    if error.is::<AlreadySaid>() {
        return ExitCode::FAILURE;
    }
    if let Some(EndsWith(code)) = error.downcast_ref::<EndsWith>() {
        return ExitCode::from(*code);
    }
    if is_broken_pipe(error) {
        // Whoever read the output has seen enough.
        return ExitCode::SUCCESS;
    }
    say(error);
    if error.is::<WrongUsage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// Prints `error`.
pub(crate) fn say(error: &Error) {
    let mut stderr = io::stderr().lock();
    // If stderr cannot be written to, there is nobody to tell.
    let _ = writeln!(stderr, "kv: {error:#}");
    if let Some(code) = error.chain().find_map(code_of) {
        let _ = writeln!(stderr, "    {code}: `kv explain {code}` says more");
    }
}

fn code_of(cause: &(dyn std::error::Error + 'static)) -> Option<ErrorCode> {
    let of_client = cause.downcast_ref::<ClientError>().map(ClientError::code);
    of_client.or_else(|| cause.downcast_ref::<ControlError>().and_then(ControlError::code))
}

/// Says what is wrong with one key among many, and goes on.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "kv: {text}");
}

fn is_broken_pipe(error: &Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
