//! `kv completions`: a script that teaches a shell to complete `kv`.

#![expect(clippy::disallowed_methods, reason = "the script is the output, whatever -o says")]

use std::io;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;

/// Print a completion script for a shell: `source <(kv completions bash)`
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Args::command(), "kv", &mut script);
        io::Write::write_all(&mut io::stdout(), &script)?;
        Ok(())
    }
}
