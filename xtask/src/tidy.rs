//! The rules of the house that no other tool checks; STYLE.md gives their reasons.
//!
//! Each rule is a function from the tree to what breaks it, so that its tests need no files.

mod links;
mod rules;
mod source;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::command;
use crate::workspace::Workspace;

/// One file of the tree: its path from the root, and its text.
struct File {
    path: String,
    text: String,
}

/// Something that breaks a rule: where, and what.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    place: String,
    what: String,
}

impl Finding {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Finding {
        Finding { place: place.into(), what: what.into() }
    }
}

/// Applies every rule to every file that git would commit.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let files = files_of_the_tree()?;
    let mut findings = Vec::new();
    for file in &files {
        findings.extend(rules::file_name(file));
        findings.extend(rules::file_length(file));
        findings.extend(rules::foreign_place(file));
        findings.extend(rules::unsafe_code(file));
        findings.extend(links::dangling(file, |path| PathBuf::from(path).exists()));
    }
    findings.extend(rules::map_of_crates(&files, workspace.crates()));
    findings.extend(rules::floors(workspace.crates()));
    findings.extend(rules::shared_lints(&files, workspace.crates()));
    for Finding { place, what } in &findings {
        println!("{place}: {what}");
    }
    if !findings.is_empty() {
        bail!("the tree breaks {} rules of the house", findings.len());
    }
    println!("{} files keep the rules of the house", files.len());
    Ok(())
}

/// Committed files and those that could be: what git ignores is nobody's to read.
fn files_of_the_tree() -> Result<Vec<File>> {
    let listing = command::output(Command::new("git").args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    let mut files = Vec::new();
    for path in listing.split('\0').filter(|path| !path.is_empty()) {
        // A file that was deleted but not committed is listed still; a binary one has no text.
        if let Ok(text) = std::fs::read_to_string(path) {
            files.push(File { path: path.to_owned(), text });
        }
    }
    Ok(files)
}
