//! What the environment says beside the `WEFT_*` variables, which the argument parser reads.

#![expect(clippy::disallowed_methods, reason = "the one place of this program that reads it")]

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::path::PathBuf;

/// The directory for this user's sockets and state, which goes away when the user logs out.
pub(crate) fn runtime_dir() -> Option<PathBuf> {
    env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The directory for what this user's programs keep and nobody has to.
pub(crate) fn state_dir() -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let named = env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(absolute);
    let home = || env::var_os("HOME").map(PathBuf::from).filter(absolute);
    named.or_else(|| Some(home()?.join(".local/state")))
}

/// Whether somebody types.
pub(crate) fn stdin_is_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Whether servers that are started will find something in the variable.
pub(crate) fn says_to_servers(variable: &str) -> bool {
    env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// The variables that programs of Weft may go by.
pub(crate) fn settings() -> impl Iterator<Item = OsString> {
    let is_setting = |name: &OsString| name.as_encoded_bytes().starts_with(b"WEFT_");
    env::vars_os().map(|(name, _)| name).filter(is_setting)
}

/// Whether the variable is set, and to nothing.
pub(crate) fn is_empty(variable: &OsStr) -> bool {
    env::var_os(variable).is_some_and(|value| value.is_empty())
}

/// The directories that programs are looked for in.
pub(crate) fn program_dirs() -> Vec<PathBuf> {
    env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default()
}
