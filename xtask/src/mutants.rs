//! Breaks the transport on purpose, in one place after the other, and sees that its trials notice.
//!
//! Each change is made in a copy of the tree, so that the product knows nothing of this. One that no test fails
//! for says that a property is weaker than it seems; one that cannot be made any more, because the code has
//! gone on, is found by this program's own tests.

mod list;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::command;
use crate::workspace::Workspace;

use list::{MUTANTS, Mutant, Trial};

/// What `cargo xtask mutants` is told.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only those whose description contains this; may be given several times
    #[arg(long, value_name = "WORDS")]
    only: Vec<String>,
}

impl Options {
    fn choose(&self, mutant: &Mutant) -> bool {
        self.only.is_empty() || self.only.iter().any(|words| mutant.what.contains(words))
    }
}

/// What nextest exits with when tests have run and failed, rather than not been built.
const TESTS_FAILED: i32 = 100;

/// Tries all mutants; fails if one lives.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let tree = workspace.target().join("mutants");
    copy_tree(workspace.root(), &tree)?;
    let chosen: Vec<_> = MUTANTS.iter().filter(|mutant| options.choose(mutant)).collect();
    ensure!(!chosen.is_empty(), "no mutant is described by `{}`", options.only.join("` or `"));
    let mut trials: Vec<Trial> = chosen.iter().map(|mutant| mutant.trial).collect();
    trials.sort_unstable();
    trials.dedup();
    for trial in trials {
        ensure!(try_out(&tree, trial)?.is_none(), "`{}` fails without any change", trial.0);
    }
    let mut lived = Vec::new();
    for mutant in &chosen {
        println!("-- {}", mutant.what);
        let path = tree.join(mutant.file);
        let sound = fs::read_to_string(&path).with_context(|| mutant.file.to_owned())?;
        fs::write(&path, mutant.apply(&sound)?)?;
        let noticed = try_out(&tree, mutant.trial);
        fs::write(&path, &sound)?;
        match noticed? {
            Some(after) => println!("noticed after {:.0} s\n", after.as_secs_f64()),
            None => lived.push(mutant.what),
        }
    }
    let count = chosen.len();
    if !lived.is_empty() {
        bail!("{} of {count} changes were not noticed: {}", lived.len(), lived.join("; "));
    }
    println!("all {count} changes were noticed");
    Ok(())
}

/// Runs `trial` in `tree`. Returns after how long it failed, building included, if it did.
fn try_out(tree: &Path, (name, target): Trial) -> Result<Option<Duration>> {
    // What failed before is not what is asked now.
    let failures = tree.join("transport/proptest-regressions");
    if failures.exists() {
        fs::remove_dir_all(failures)?;
    }
    let began = Instant::now();
    let mut test = Command::new("cargo");
    // In a folder of its own: cargo takes a package of the same name and place in its tree for the same, and what
    // was built from a change for what the tree itself would be built to.
    test.current_dir(tree).env("CARGO_TARGET_DIR", tree.join("target"));
    // That it fails is enough; by how little is not asked.
    test.env("PROPTEST_MAX_SHRINK_ITERS", "0");
    test.args(["nextest", "run", "--package", "weft-transport", target, "--no-default-features"]);
    test.args(["--cargo-quiet", "--status-level", "none", "--failure-output", "never"]);
    test.args(["--filterset", &format!("test(={name})")]);
    let output = test.output()?;
    match output.status.code() {
        Some(0) => Ok(None),
        Some(TESTS_FAILED) => Ok(Some(began.elapsed())),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`{}` could not be run:\n{said}", command::line(&test))
        }
    }
}

/// Copies what is under version control. What is there and the same stays as it is, so that little is built.
fn copy_tree(root: &Path, tree: &Path) -> Result<()> {
    let listed = command::output(Command::new("git").args(["ls-files", "-z"]).current_dir(root))?;
    for name in listed.split_terminator('\0') {
        let (from, to) = (root.join(name), tree.join(name));
        // One that has been deleted is listed until that is committed.
        let Ok(bytes) = fs::read(&from) else { continue };
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        let parent = to.parent().context("a file of the tree is in a folder")?;
        fs::create_dir_all(parent)?;
        fs::write(&to, bytes)?;
    }
    Ok(())
}

impl Mutant {
    /// The text of its file with the change.
    fn apply(&self, sound: &str) -> Result<String> {
        let count = sound.matches(self.before).count();
        ensure!(count == 1, "{}: {count} places for `{}`", self.file, self.before);
        Ok(sound.replacen(self.before, self.after, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_can_be_made_in_one_place_of_the_tree() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above");
        for mutant in MUTANTS {
            let sound = fs::read_to_string(root.join(mutant.file)).expect(mutant.file);
            let broken = mutant.apply(&sound).expect(mutant.what);
            assert_ne!(sound, broken, "{}", mutant.what);
        }
    }
}
