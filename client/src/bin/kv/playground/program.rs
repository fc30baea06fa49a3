//! Where the server's program is.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::environment;

const NAME: &str = "weft-server";

/// The program that was given, the one beside `kv`, or the one on `PATH`.
pub(super) fn find_server(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = given {
        if !path.is_file() {
            bail!("--server-binary {}: there is no such file", path.display());
        }
        return std::path::absolute(path).context("cannot find the server's program");
    }
    let kv = std::env::current_exe().context("cannot find where kv is")?;
    let beside = kv.parent().map(Path::to_owned);
    let candidates =
        beside.into_iter().chain(environment::program_dirs()).map(|dir| dir.join(NAME));
    match candidates.clone().find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => bail!(
            "{NAME} is neither beside {} nor on PATH; build it (`cargo build --release`), or name \
             it by --server-binary",
            kv.display()
        ),
    }
}
