//! The rules about names, sizes, unsafe code, foreign places and who may link whom.

use std::path::Path;

use super::source::code_only;
use super::{File, Finding};
use crate::workspace::Crate;

/// The only places where unsafe code may stand: a folder ends with a slash. An audit reads these.
const UNSAFE_PLACES: &[&str] = &[
    "transport/src/memory/",
    "transport/src/lane/",
    "transport/src/link/shm/mapping",
    "transport/src/link/shm/peer.rs",
    "transport/src/link/verbs/ffi",
    "transport/src/stream/readiness.rs",
    "transport/src/sync/latch.rs",
    "server/src/process/leaving.rs",
    "server/src/prefetch.rs",
    "client/src/typed/validated.rs",
    "object/src/wire.rs",
    "object/src/bytes.rs",
    "object/src/cast.rs",
    "object/src/pages.rs",
    "object/src/arena.rs",
    "object/src/graph.rs",
    "object/src/assembly.rs",
    "object/src/view.rs",
    "object/src/link.rs",
    "object/src/seq.rs",
    "object/src/text.rs",
    "object/src/text_key.rs",
    "object/src/channel/received.rs",
    "object/derive/src/lib.rs",
    "bench/src/bin/objects/rkyv_archives.rs",
];

/// Names that do not say which question a file answers.
const EMPTY_NAMES: &[&str] = &["mod", "util", "utils", "common", "helpers", "misc"];

const LINES_MAX: usize = 600;

/// What each member may link: a room stands above all that it uses. Test-only use is free.
const MAY_LINK: &[(&str, &[&str])] = &[
    ("weft-transport", &[]),
    ("weft-object", &["weft-transport", "weft-object-derive"]),
    ("weft-object-derive", &[]),
    ("weft-protocol", &["weft-transport"]),
    ("weft-client", &["weft-transport", "weft-protocol", "weft-object"]),
    ("weft-server", &["weft-transport", "weft-protocol", "weft-object"]),
    ("weft-shuffle", &["weft-transport", "weft-protocol", "weft-object", "weft-client"]),
    ("weft-ycsb", &["weft-transport", "weft-protocol", "weft-client"]),
    (
        "weft-sim",
        &[
            "weft-transport",
            "weft-object",
            "weft-protocol",
            "weft-client",
            "weft-server",
            "weft-shuffle",
        ],
    ),
    (
        "weft-bench",
        &[
            "weft-transport",
            "weft-object",
            "weft-protocol",
            "weft-client",
            "weft-server",
            "weft-shuffle",
        ],
    ),
    ("xtask", &[]),
];

/// Parts of addresses and paths that exist only around one machine. Written in halves, so that
/// this list does not find itself.
const FOREIGN_PLACES: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/fa", "rm/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("crates", ".io"),
    concat!("py", "pi.org"),
    concat!("npm", "js."),
    concat!("debian", ".org"),
];

/// A file's name is the question that it answers.
pub(super) fn file_name(file: &File) -> Option<Finding> {
    let path = Path::new(&file.path);
    let stem = path.file_stem()?.to_str()?;
    let is_empty =
        path.extension().is_some_and(|extension| extension == "rs") && EMPTY_NAMES.contains(&stem);
    is_empty.then(|| Finding::new(&file.path, format!("`{stem}` names no question: rename it")))
}

/// A long file answers two questions.
pub(super) fn file_length(file: &File) -> Option<Finding> {
    let lines = file.text.lines().count();
    let is_long = file.path.ends_with(".rs") && lines > LINES_MAX;
    is_long.then(|| {
        Finding::new(
            &file.path,
            format!("{lines} lines, at most {LINES_MAX}: which two questions does it answer?"),
        )
    })
}

/// The tree builds anywhere, so it names no place of one machine.
pub(super) fn foreign_place(file: &File) -> Vec<Finding> {
    if file.path.ends_with(".lock") {
        return Vec::new();
    }
    let lines = file.text.lines().enumerate();
    let findings = lines.flat_map(|(index, line)| {
        let found = FOREIGN_PLACES.iter().filter(|place| names(line, place));
        let place = format!("{}:{}", file.path, index + 1);
        found.map(move |found| Finding::new(&place, format!("names `{found}`")))
    });
    findings.collect()
}

/// A path counts only from its root: a folder of the same name deeper down is no place of a machine.
fn names(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !place.starts_with('/') || before.is_none_or(|c| !c.is_alphanumeric() && !"._-".contains(c))
    })
}

/// Unsafe code stands in the listed leaf modules only.
pub(super) fn unsafe_code(file: &File) -> Vec<Finding> {
    let is_rust = file.path.ends_with(".rs");
    if !is_rust || UNSAFE_PLACES.iter().any(|place| file.path.starts_with(place)) {
        return Vec::new();
    }
    let code = code_only(&file.text);
    let lines = code.lines().enumerate().filter(|(_, line)| has_word(line, "unsafe"));
    lines
        .map(|(index, _)| {
            let what = "unsafe code outside the modules that xtask/src/tidy/rules.rs lists";
            Finding::new(format!("{}:{}", file.path, index + 1), what)
        })
        .collect()
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

/// The map shows every crate.
pub(super) fn map_of_crates(files: &[File], crates: &[Crate]) -> Vec<Finding> {
    const MAP: &str = "ARCHITECTURE.md";
    let map = files.iter().find(|file| file.path == MAP).map_or("", |file| &file.text);
    let missing = crates.iter().filter(|member| {
        let folder = member.folder.display();
        !map.contains(&format!("`{folder}/`"))
    });
    missing
        .map(|member| {
            let folder = member.folder.display();
            Finding::new(MAP, format!("does not say what `{folder}/` is for"))
        })
        .collect()
}

/// A crate links only what stands below it.
pub(super) fn floors(crates: &[Crate]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in crates {
        let manifest = member.folder.join("Cargo.toml").display().to_string();
        let Some((_, allowed)) = MAY_LINK.iter().find(|(name, _)| *name == member.name) else {
            let what = format!("{} has no floor: add it to xtask/src/tidy/rules.rs", member.name);
            findings.push(Finding::new(manifest, what));
            continue;
        };
        let above = member.links.iter().filter(|link| !allowed.contains(&link.as_str()));
        findings.extend(
            above.map(|link| {
                Finding::new(&manifest, format!("{} may not link {link}", member.name))
            }),
        );
    }
    findings
}

/// Every crate takes the lints of the workspace.
pub(super) fn shared_lints(files: &[File], crates: &[Crate]) -> Vec<Finding> {
    let manifests = crates.iter().map(|member| member.folder.join("Cargo.toml"));
    let strays = manifests.filter(|manifest| {
        let file = files.iter().find(|file| Path::new(&file.path) == manifest);
        !file.is_some_and(|file| file.text.contains("[lints]\nworkspace = true"))
    });
    strays
        .map(|manifest| {
            Finding::new(manifest.display().to_string(), "does not take the workspace's lints")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn member(name: &str, folder: &str, links: &[&str]) -> Crate {
        let links = links.iter().map(|link| (*link).to_owned()).collect();
        Crate { name: name.to_owned(), folder: folder.into(), links }
    }

    #[test]
    fn names_that_answer_no_question_are_found() {
        assert!(file_name(&file("server/src/util.rs", "")).is_some());
        assert!(file_name(&file("server/src/store/mod.rs", "")).is_some());
        assert!(file_name(&file("server/src/store.rs", "")).is_none());
        assert!(file_name(&file("docs/common.md", "")).is_none());
    }

    #[test]
    fn a_file_may_have_600_lines_and_no_more() {
        assert!(file_length(&file("a.rs", &"x\n".repeat(600))).is_none());
        assert!(file_length(&file("a.rs", &"x\n".repeat(601))).is_some());
        assert!(file_length(&file("Cargo.lock", &"x\n".repeat(601))).is_none());
    }

    #[test]
    fn places_of_one_machine_are_found_with_their_line() {
        let text = format!("fine\nsee {}notes\n", FOREIGN_PLACES[0]);
        let found = foreign_place(&file("README.md", &text));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "README.md:2");
        assert_eq!(foreign_place(&file("Cargo.lock", &text)), []);
    }

    #[test]
    fn a_folder_of_the_same_name_deeper_down_is_no_place_of_a_machine() {
        let text = format!("network{}notes", FOREIGN_PLACES[0]);
        assert_eq!(foreign_place(&file("README.md", &text)), []);
    }

    #[test]
    fn unsafe_is_found_outside_the_leaf_modules_only() {
        let text = "fn f() {\n    unsafe { g() }\n}\n";
        assert_eq!(unsafe_code(&file("client/src/lib.rs", text))[0].place, "client/src/lib.rs:2");
        assert_eq!(unsafe_code(&file("transport/src/memory/region.rs", text)), []);
        assert_eq!(unsafe_code(&file("server/src/prefetch.rs", text)), []);
    }

    #[test]
    fn talking_of_unsafe_is_not_unsafe() {
        let text = "#![forbid(unsafe_code)]\n// unsafe\nconst A: &str = \"unsafe\";\n";
        assert_eq!(unsafe_code(&file("client/src/lib.rs", text)), []);
    }

    #[test]
    fn a_crate_missing_from_the_map_is_found() {
        let files = [file("ARCHITECTURE.md", "| `transport/` | moves frames |")];
        let crates = [member("a", "transport", &[]), member("b", "client", &[])];
        let found = map_of_crates(&files, &crates);
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("`client/`"), "{}", found[0].what);
    }

    #[test]
    fn a_crate_may_link_down_but_not_up_nor_stand_nowhere() {
        let down = member("weft-client", "client", &["weft-protocol"]);
        let up = member("weft-transport", "transport", &["weft-protocol"]);
        let nowhere = member("weft-attic", "attic", &[]);
        assert_eq!(floors(&[down]), []);
        assert_eq!(floors(&[up]).len(), 1);
        assert_eq!(floors(&[nowhere]).len(), 1);
    }

    #[test]
    fn a_crate_without_the_shared_lints_is_found() {
        let files = [
            file("client/Cargo.toml", "[package]\n[lints]\nworkspace = true\n"),
            file("server/Cargo.toml", "[package]\n"),
        ];
        let crates = [member("c", "client", &[]), member("s", "server", &[])];
        let found = shared_lints(&files, &crates);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "server/Cargo.toml");
    }
}
