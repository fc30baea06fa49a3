//! `kv` on a terminal without a command: lines are read, each a command as behind `kv`, with history and completion.
//!
//! All of them go by one connection, so what takes a new program milliseconds takes a line none.

#![expect(clippy::disallowed_methods, reason = "it keeps a history")]

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{CommandFactory, Parser};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};

use crate::args::{Command, Global};
use crate::complaint::{self, note};
use crate::environment;
use crate::output::{Format, Output};

const PROMPT: &str = "kv> ";

/// A line.
#[derive(Debug, Parser)]
#[command(
    name = "",
    multicall = false,
    no_binary_name = true,
    disable_version_flag = true,
    after_help = "`exit` or Ctrl-D ends, `help COMMAND` or `COMMAND --help` says more."
)]
struct Line {
    /// How the result is printed
    #[arg(short, long, global = true, value_name = "FORMAT")]
    output: Option<Format>,

    /// The same as -o json
    #[arg(long, global = true)]
    json: bool,

    /// Table that keys are of
    #[arg(short, long, global = true, value_name = "NAME")]
    table: Option<String>,

    #[command(subcommand)]
    command: Command,
}

/// Reads lines until there are no more, or one says so.
pub(crate) fn run(global: &Global) -> anyhow::Result<()> {
    let mut editor: Editor<Words, FileHistory> =
        Editor::new().context("cannot read from the terminal")?;
    editor.set_helper(Some(Words::of_commands()));
    let history = history_file();
    if let Some(history) = &history {
        // There is none at first.
        let _ = editor.load_history(history);
    }
    loop {
        match editor.readline(PROMPT) {
            Ok(line) => {
                let line = line.trim();
                if line.is_empty() {
                    continue;
                }
                editor.add_history_entry(line).context("cannot keep the history")?;
                if ["exit", "quit"].contains(&line) {
                    break;
                }
                execute(line, global);
            }
            // The line is given up, not the program.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error).context("cannot read from the terminal"),
        }
    }
    if let Some(history) = &history
        && let Err(error) = editor.save_history(history)
    {
        note(&format!("cannot keep the history in {}: {error}", history.display()));
    }
    Ok(())
}

/// Does what a line says. What is wrong with it is told, and ends nothing.
fn execute(line: &str, global: &Global) {
    let Some(words) = shlex::split(line) else {
        return note("a quotation mark is missing");
    };
    let line = match Line::try_parse_from(words) {
        Ok(line) => line,
        Err(error) => {
            // Help as well. If there is nobody to tell, there is nothing to do.
            let _ = error.print();
            return;
        }
    };
    let format = if line.json { Some(Format::Json) } else { line.output };
    let mut output = Output::to_stdout(format.unwrap_or_else(|| global.format()));
    let done = line.command.run(&global.with_table(line.table), &mut output);
    if let Err(error) = done.and_then(|()| Ok(output.finish()?)) {
        complaint::report(&error);
    }
}

/// Where lines are kept from one time to the next.
fn history_file() -> Option<PathBuf> {
    let dir = environment::state_dir()?.join("weft");
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.is_ok().then(|| dir.join("kv_history"))
}

/// The words that may be completed: commands, and the flags of each.
struct Words {
    commands: Vec<(String, Vec<String>)>,
}

impl Words {
    fn of_commands() -> Words {
        let flags = |command: &clap::Command| {
            let flags = command.get_arguments().filter_map(|argument| argument.get_long());
            flags.map(|flag| format!("--{flag}")).collect()
        };
        let line = Line::command();
        let commands =
            line.get_subcommands().map(|command| (command.get_name().to_owned(), flags(command)));
        let own = ["help", "exit"].map(|word| (word.to_owned(), Vec::new()));
        Words { commands: commands.chain(own).collect() }
    }

    /// Where the last word of a line begins, and what may be meant by it.
    fn candidates(&self, line: &str) -> (usize, Vec<String>) {
        let start = line.rfind(' ').map_or(0, |space| space + 1);
        let (before, word) = line.split_at(start);
        let matching = |words: &mut dyn Iterator<Item = &String>| {
            words.filter(|candidate| candidate.starts_with(word)).cloned().collect()
        };
        let named = before.split_whitespace().next();
        let candidates = match named {
            None | Some("help") => matching(&mut self.commands.iter().map(|(name, _)| name)),
            Some(named) if word.starts_with('-') => {
                let command = self.commands.iter().find(|(name, _)| name == named);
                command.map_or(Vec::new(), |(_, flags)| matching(&mut flags.iter()))
            }
            // Keys and values are anything.
            Some(_) => Vec::new(),
        };
        (start, candidates)
    }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.candidates(&line[..position]))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}

impl Validator for Words {}

impl Helper for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_their_flags_are_completed() {
        let words = Words::of_commands();
        let candidates = |line: &str| words.candidates(line);
        assert_eq!(candidates("bigk"), (0, vec!["bigkeys".to_owned()]));
        assert_eq!(candidates("help bigk"), (5, vec!["bigkeys".to_owned()]));
        assert_eq!(candidates("put --if-v"), (4, vec!["--if-version".to_owned()]));
        assert_eq!(candidates("put bigk"), (4, vec![]), "a key is anything");
        assert!(candidates("").1.contains(&"exit".to_owned()));
        assert_eq!(candidates("nonsense --i").1, Vec::<String>::new());
    }

    #[test]
    fn the_lines_contradict_themselves_nowhere() {
        Line::command().debug_assert();
    }
}
