//! How far an export or import has come, on disk beside its file, so that one that was stopped can go on.

#![expect(clippy::disallowed_methods, reason = "this is where it is kept")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use weft_client::{BlockingClient, NodeName, NodeStats};

/// What is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    /// What is being done, so that nothing else goes on with it.
    #[serde(default)]
    task: Option<String>,
    /// Objects.
    pub(crate) objects: u64,
    /// Bytes of the file that they are in.
    pub(crate) bytes: u64,
    /// Where the scan goes on.
    #[serde(default)]
    pub(crate) cursor: Option<String>,
    /// Of the objects, those that had expired and were left out.
    #[serde(default)]
    pub(crate) expired: u64,
    /// Of an import, the nodes that they are on, each with its incarnation: one that starts anew has lost them.
    #[serde(default)]
    nodes: BTreeMap<u64, u64>,
}

impl Done {
    /// Nothing of a task.
    pub(crate) fn of(task: &str) -> Self {
        Self { task: Some(task.to_owned()), ..Self::default() }
    }

    /// Notes which nodes there are. Returns one that has started anew since that was noted last; of one that does not
    /// answer nothing is known.
    pub(crate) fn note_nodes(&mut self, client: &BlockingClient) -> Option<NodeName> {
        let mut anew = None;
        for NodeStats { node, stats } in client.stats() {
            let Ok(stats) = stats else { continue };
            let before = self.nodes.insert(stats.node.0, stats.incarnation.0);
            if before.is_some_and(|before| before != stats.incarnation.0) {
                anew = Some(node);
            }
        }
        anew
    }
}

/// Where that is kept.
#[derive(Debug)]
pub(crate) struct Progress {
    path: PathBuf,
}

impl Progress {
    /// `FILE.progress`
    pub(crate) fn beside(file: &Path) -> Self {
        let mut name = OsString::from(file);
        name.push(".progress");
        Self { path: name.into() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What was done of `task`, if it was not all.
    pub(crate) fn load(&self, task: &str) -> anyhow::Result<Option<Done>> {
        let context = || format!("cannot read {}", self.path.display());
        let done: Done = match fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(context)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(context),
        };
        match &done.task {
            Some(other) if other != task => {
                bail!("{} is of an {other}: this is an {task}", self.path.display())
            }
            Some(_) | None => Ok(Some(done)),
        }
    }

    /// Keeps what is done; what was kept before stays if this fails in the middle.
    pub(crate) fn save(&self, done: &Done) -> anyhow::Result<()> {
        let context = || format!("cannot write {}", self.path.display());
        let new = self.path.with_extension("progress.new");
        fs::write(&new, serde_json::to_vec(done)?).with_context(context)?;
        fs::rename(&new, &self.path).with_context(context)
    }

    /// Nothing is left to do.
    pub(crate) fn remove(&self) -> anyhow::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

/// Objects so far and a second, on stderr if that is a terminal.
pub(crate) fn counter() -> ProgressBar {
    let style = "{human_pos} objects, {per_sec}, {elapsed}";
    let style = ProgressStyle::with_template(style).expect("the template is one");
    ProgressBar::new_spinner().with_style(style)
}
