//! What a playground consists of, as its directory says.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::process::getuid;
use serde::{Deserialize, Serialize};

use super::process::Identity;

const FILE: &str = "playground.json";

/// The nodes of a playground.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) nodes: Vec<Node>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) address: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) control: SocketAddr,
    #[serde(flatten)]
    pub(crate) process: Identity,
}

impl State {
    /// An address that leads to the cluster.
    pub(crate) fn cluster(&self) -> String {
        self.nodes.first().map_or_else(String::new, |node| node.address.to_string())
    }
}

/// A playground's directory, which nobody else starts or stops anything in while this lives.
#[derive(Debug)]
pub(super) struct Locked {
    dir: PathBuf,
    /// The lock goes with the file.
    _lock: File,
}

impl Locked {
    /// Takes the directory, made if need be.
    pub(super) fn create(dir: &Path) -> anyhow::Result<Self> {
        let context = || {
            format!(
                "cannot use {} for a playground; give a directory that can be made or written to by --dir",
                dir.display()
            )
        };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).with_context(context)?;
        refuse_of_others(dir)?;
        Self::lock(dir).with_context(context)
    }

    /// Takes the directory if there is a playground in it.
    pub(super) fn open(dir: &Path) -> anyhow::Result<Option<Self>> {
        if !dir.join(FILE).exists() {
            return Ok(None);
        }
        refuse_of_others(dir)?;
        let locked = Self::lock(dir);
        locked.map(Some).with_context(|| format!("cannot use {}", dir.display()))
    }

    fn lock(dir: &Path) -> io::Result<Self> {
        let dir = std::path::absolute(dir)?;
        let lock = File::open(&dir)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(Self { dir, _lock: lock })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// What was last written, if anything.
    pub(super) fn read(&self) -> anyhow::Result<Option<State>> {
        let path = self.dir.join(FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        if text.is_empty() {
            // A crash of the machine may leave a file without its bytes, and whatever it listed is
            // gone with the machine.
            return Ok(None);
        }
        let state = serde_json::from_slice(&text).with_context(|| {
            format!("{} is damaged; end its nodes by hand and remove it", path.display())
        });
        state.map(Some)
    }

    /// Replaces what was written, or leaves it as it was, also if the machine crashes meanwhile.
    pub(super) fn write(&self, state: &State) -> anyhow::Result<()> {
        let path = self.dir.join(FILE);
        let context = || format!("cannot write {}", path.display());
        let new = self.dir.join(format!("{FILE}.new"));
        let mut file = File::create(&new).with_context(context)?;
        serde_json::to_writer_pretty(&mut file, state).with_context(context)?;
        file.write_all(b"\n").and_then(|()| file.sync_all()).with_context(context)?;
        fs::rename(&new, &path).with_context(context)
    }

    /// Forgets the playground. Logs stay.
    pub(super) fn clear(&self) -> anyhow::Result<()> {
        let path = self.dir.join(FILE);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", path.display()))
            }
            _ => Ok(()),
        }
    }
}

/// The default directory may lie where anybody can make one, or a link to one; and what a list of somebody else's names is not to be stopped.
fn refuse_of_others(dir: &Path) -> anyhow::Result<()> {
    for metadata in [fs::symlink_metadata(dir), fs::metadata(dir)] {
        let owner = metadata.with_context(|| format!("cannot use {}", dir.display()))?.uid();
        if owner != getuid().as_raw() {
            bail!(
                "{} belongs to user {owner}, or what it leads to does: choose a directory of your own by --dir",
                dir.display()
            );
        }
    }
    Ok(())
}
