//! Finds what the documents point at and the tree does not have.

use std::path::{Component, Path, PathBuf};

use super::{File, Finding};

/// Documents whose paths in backticks are promises too: a map is worth no more than its names.
const MAPS: &[&str] = &["ARCHITECTURE.md", "STYLE.md"];

/// The files and folders that a document links to, or a map names, which do not exist.
pub(super) fn dangling(file: &File, exists: impl Fn(&Path) -> bool) -> Vec<Finding> {
    if !file.path.ends_with(".md") {
        return Vec::new();
    }
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let mut missing = |path: PathBuf, what: &str| {
            if !exists(&path) {
                let place = format!("{}:{}", file.path, index + 1);
                findings.push(Finding::new(place, format!("`{what}` does not exist")));
            }
        };
        for target in link_targets(line) {
            missing(normalized(&folder.join(target)), target);
        }
        if MAPS.contains(&file.path.as_str()) {
            for path in paths_in_backticks(line) {
                missing(PathBuf::from(path), path);
            }
        }
    }
    findings
}

/// The targets of `[text](target)` that lie in the tree, without their `#section`.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?.split('#').next()?;
        (!target.is_empty() && !target.contains("://")).then_some(target)
    })
}

/// Code spans that are paths: they have a slash, and nothing that a path has not.
fn paths_in_backticks(line: &str) -> impl Iterator<Item = &str> {
    let is_path = |span: &&str| {
        let starts_in_the_tree = span.starts_with(|c: char| c.is_ascii_lowercase() || c == '.');
        let of_a_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        starts_in_the_tree && span.contains('/') && span.chars().all(of_a_path)
    };
    line.split('`').skip(1).step_by(2).filter(is_path)
}

/// `path` without `..`, which need not name a folder that exists.
fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normalized.pop();
            }
            Component::CurDir => {}
            other => normalized.push(other),
        }
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, tree: &[&str]) -> Vec<String> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        let found = dangling(&file, |path| tree.iter().any(|known| path == Path::new(known)));
        found.into_iter().map(|finding| format!("{} {}", finding.place, finding.what)).collect()
    }

    #[test]
    fn links_are_read_from_the_folder_of_their_document() {
        let text = "[a](wire-format.md) and [b](../README.md#numbers)\n[c](gone.md)";
        let found = check("docs/cli.md", text, &["docs/wire-format.md", "README.md"]);
        assert_eq!(found, ["docs/cli.md:2 `gone.md` does not exist"]);
    }

    #[test]
    fn addresses_and_sections_of_the_same_page_are_not_looked_for() {
        assert!(check("README.md", "[a](https://example.com/x) [b](#numbers)", &[]).is_empty());
    }

    #[test]
    fn a_map_must_name_what_exists() {
        let text = "`server/src/gone.rs` `server/` `Client::get` `a b/c` `--peers ID=HOST`";
        let found = check("ARCHITECTURE.md", text, &["server/"]);
        assert_eq!(found, ["ARCHITECTURE.md:1 `server/src/gone.rs` does not exist"]);
        assert!(check("README.md", text, &["server/"]).is_empty());
    }
}
