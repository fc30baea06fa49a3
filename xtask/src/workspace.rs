//! Where the tree and its products lie, and which crates it has, as cargo itself tells it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command;

/// The workspace that this program was built from.
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
    crates: Vec<Crate>,
}

/// A member of the workspace.
pub(crate) struct Crate {
    /// The package's name, such as `weft-transport`.
    pub(crate) name: String,
    /// Its folder, relative to the root, such as `transport`.
    pub(crate) folder: PathBuf,
    /// The members it links in its product; what only its tests use is not counted.
    pub(crate) links: Vec<String>,
}

impl Workspace {
    /// Asks cargo for the workspace around this crate.
    pub(crate) fn locate() -> Result<Workspace> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let text = command::output(
            Command::new("cargo")
                .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"])
                .arg(&manifest),
        )?;
        Workspace::from_metadata(&text).context("failed to read the output of cargo metadata")
    }

    fn from_metadata(text: &str) -> Result<Workspace> {
        let metadata: Value = serde_json::from_str(text)?;
        let path = |key: &str| metadata[key].as_str().map(PathBuf::from).context(key.to_owned());
        let root = path("workspace_root")?;
        let packages = metadata["packages"].as_array().context("packages")?;
        let crates = packages.iter().map(|package| Crate::from_package(package, &root));
        let crates = crates.collect::<Result<_>>()?;
        Ok(Workspace { target: path("target_directory")?, root, crates })
    }

    /// The folder that holds the workspace's Cargo.toml.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder that cargo builds into.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// The members of the workspace.
    pub(crate) fn crates(&self) -> &[Crate] {
        &self.crates
    }

    /// A program that `cargo build --release` makes.
    pub(crate) fn release_program(&self, name: &str) -> PathBuf {
        self.target.join("release").join(name)
    }

    /// A program that `cargo build` makes.
    pub(crate) fn debug_program(&self, name: &str) -> PathBuf {
        self.target.join("debug").join(name)
    }
}

impl Crate {
    fn from_package(package: &Value, root: &Path) -> Result<Crate> {
        let manifest = package["manifest_path"].as_str().context("manifest_path")?;
        let folder = Path::new(manifest).parent().context("manifest_path has no folder")?;
        let dependencies = package["dependencies"].as_array().context("dependencies")?;
        let links = dependencies
            .iter()
            .filter(|dependency| dependency["kind"] != "dev" && dependency["path"].is_string())
            .filter_map(|dependency| dependency["name"].as_str().map(str::to_owned))
            .collect();
        Ok(Crate {
            name: package["name"].as_str().context("name")?.to_owned(),
            folder: folder.strip_prefix(root)?.to_owned(),
            links,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Workspace;

    #[test]
    fn crates_know_their_folder_and_what_they_link() {
        let metadata = r#"{
            "workspace_root": "/weft", "target_directory": "/weft/target",
            "packages": [{
                "name": "weft-protocol", "manifest_path": "/weft/protocol/Cargo.toml",
                "dependencies": [
                    {"name": "weft-transport", "kind": null, "path": "/weft/transport"},
                    {"name": "weft-server", "kind": "dev", "path": "/weft/server"},
                    {"name": "thiserror", "kind": null}
                ]
            }]
        }"#;
        let workspace = Workspace::from_metadata(metadata).unwrap();
        let member = &workspace.crates()[0];
        assert_eq!(member.folder.to_str(), Some("protocol"));
        assert_eq!(member.links, ["weft-transport"]);
    }
}
