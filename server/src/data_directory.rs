//! The directory in which a node keeps what outlives it: whose it is, which life of the node was the last, and the folders of its logs.
//!
//! ```text
//! DIR/lock                  held for as long as the process lives
//! DIR/node.toml             cluster, node, incarnation
//! DIR/coordinator/          the coordinator's log, where there is one
//! DIR/coordinator.removed/  that of a member that was removed
//! DIR/objects/              the logs of partitions
//! ```
//!
//! `node.toml` is written anew, beside the old one and in its place at once, before a life begins: whatever crashes, it names the latest life that can have
//! said anything.

#![expect(clippy::disallowed_methods, reason = "this is the shell that owns the directory")]

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weft_transport::{Incarnation, NodeId};

use crate::coordinator::{ClusterId, Timing};

/// The version of `node.toml`.
const FORMAT: u32 = 1;

const IDENTITY: &str = "node.toml";
const IDENTITY_NEXT: &str = "node.toml.next";
const COORDINATOR: &str = "coordinator";
const OBJECTS: &str = "objects";

/// A data directory that this process owns.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    past: Option<Past>,
    /// Nobody else has the directory while this is open.
    _lock: File,
}

/// What a directory says of the node's past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Past {
    /// The node.
    pub node: NodeId,
    /// The cluster that it is of, if it had joined one, and the time that its nodes keep.
    pub cluster: Option<(ClusterId, Timing)>,
    /// The last life that it has begun.
    pub incarnation: Incarnation,
}

/// `node.toml`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IdentityFile {
    format: u32,
    node: u64,
    /// Sixteen bytes in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heartbeat_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
    incarnation: u64,
}

/// Why a data directory cannot be used. Nothing in it was changed.
#[derive(Debug, Error)]
pub enum DataDirectoryError {
    /// The system refuses something.
    #[error("cannot {action} {}; check --data-dir", path.display())]
    System {
        /// What was to be done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another process has it.
    #[error(
        "the data directory {} is in use by another process: stop that one, or give this node a --data-dir of its own",
        path.display()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// It is another node's.
    #[error(
        "the data directory {} is of node {found}, and this is node {expected}; nothing was changed: give --node-id {found}, or each node a --data-dir of its own",
        path.display()
    )]
    OtherNode {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        found: u64,
        /// Who asks.
        expected: u64,
    },
    /// The file was not written like that.
    #[error(
        "{} is damaged: {reason}; nothing was changed: restore the file, or move the directory away and let the node begin anew", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A newer version wrote it.
    #[error(
        "{} has format {found}, and this version reads {FORMAT}; nothing was changed: use the version that wrote it", path.display()
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

impl DataDirectory {
    /// Opens a directory, which is made if there is none, for this process alone.
    ///
    /// # Errors
    /// [`DataDirectoryError`].
    pub fn open(path: &Path) -> Result<DataDirectory, DataDirectoryError> {
        fs::create_dir_all(path).map_err(system("make", path))?;
        let lock_path = path.join("lock");
        let lock = File::create(&lock_path).map_err(system("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(DataDirectoryError::InUse { path: path.to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(system("lock", &lock_path)(source)),
        }
        let identity = path.join(IDENTITY);
        let past = read(&identity)?;
        if past.is_none() && has_logs(path) {
            // It is written before any of them. Another identity would make of all that they hold an earlier life's of somebody else.
            return Err(damaged(&identity, "it is missing, and there are logs beside it"));
        }
        Ok(DataDirectory { path: path.to_owned(), past, _lock: lock })
    }

    /// What it says of the node's past; nothing, if there is none.
    pub fn past(&self) -> Option<Past> {
        self.past
    }

    /// Refuses the directory of another node.
    ///
    /// # Errors
    /// [`DataDirectoryError::OtherNode`].
    pub fn check_node(&self, node: NodeId) -> Result<(), DataDirectoryError> {
        match self.past {
            Some(past) if past.node != node => Err(DataDirectoryError::OtherNode {
                path: self.path.clone(),
                found: past.node.0,
                expected: node.0,
            }),
            _ => Ok(()),
        }
    }

    /// Writes down who this is from now on. When this returns it survives a loss of power.
    ///
    /// # Errors
    /// [`DataDirectoryError::System`].
    pub fn write(&mut self, past: Past) -> Result<(), DataDirectoryError> {
        let next = self.path.join(IDENTITY_NEXT);
        let identity = IdentityFile {
            format: FORMAT,
            node: past.node.0,
            cluster: past.cluster.map(|(cluster, _)| cluster.to_string()),
            heartbeat_ms: past.cluster.map(|(_, timing)| ms(timing.heartbeat())),
            lease_ms: past.cluster.map(|(_, timing)| ms(timing.lease())),
            incarnation: past.incarnation.0,
        };
        let text = toml::to_string(&identity).expect("numbers and a text are written as toml");
        let mut file = File::create(&next).map_err(system("make", &next))?;
        file.write_all(text.as_bytes()).map_err(system("write", &next))?;
        file.sync_all().map_err(system("sync", &next))?;
        let path = self.path.join(IDENTITY);
        fs::rename(&next, &path).map_err(system("replace", &path))?;
        let directory = File::open(&self.path).map_err(system("open", &self.path))?;
        directory.sync_all().map_err(system("sync", &self.path))?;
        self.past = Some(past);
        Ok(())
    }

    /// Where the coordinator's log is.
    pub fn coordinator(&self) -> PathBuf {
        self.path.join(COORDINATOR)
    }

    /// Where the logs of partitions are.
    pub fn objects(&self) -> PathBuf {
        self.path.join(OBJECTS)
    }
}

/// Whether anything is in the folders of logs.
fn has_logs(path: &Path) -> bool {
    let has_any = |folder: &str| {
        fs::read_dir(path.join(folder)).is_ok_and(|mut entries| entries.next().is_some())
    };
    has_any(COORDINATOR) || has_any(OBJECTS)
}

fn read(path: &Path) -> Result<Option<Past>, DataDirectoryError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            return Err(damaged(path, "it is no text"));
        }
        Err(error) => return Err(system("read", path)(error)),
    };
    let file: IdentityFile =
        toml::from_str(&text).map_err(|error| damaged(path, error.message()))?;
    if file.format != FORMAT {
        return Err(DataDirectoryError::Format { path: path.to_owned(), found: file.format });
    }
    let cluster = match (file.cluster, file.heartbeat_ms, file.lease_ms) {
        (Some(digits), Some(heartbeat_ms), Some(lease_ms)) => {
            let cluster = u128::from_str_radix(&digits, 16)
                .map_err(|_| damaged(path, "the cluster is no number of 32 hexadecimal digits"))?;
            let (heartbeat, lease) =
                (Duration::from_millis(heartbeat_ms), Duration::from_millis(lease_ms));
            let timing = Timing::new(heartbeat, lease);
            let timing = timing.map_err(|error| damaged(path, &error.to_string()))?;
            Some((ClusterId(cluster), timing))
        }
        (None, None, None) => None,
        _ => {
            return Err(damaged(
                path,
                "cluster, heartbeat_ms and lease_ms are there together, or none of them is",
            ));
        }
    };
    let incarnation = Incarnation(file.incarnation);
    if incarnation.0 == u64::MAX {
        return Err(damaged(path, "there is no higher incarnation than the last one"));
    }
    Ok(Some(Past { node: NodeId(file.node), cluster, incarnation }))
}

fn ms(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

fn damaged(path: &Path, reason: &str) -> DataDirectoryError {
    DataDirectoryError::Damaged { path: path.to_owned(), reason: reason.trim().to_owned() }
}

fn system(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataDirectoryError {
    let path = path.to_owned();
    move |source| DataDirectoryError::System { action, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past() -> Past {
        let (heartbeat, lease) = (Duration::from_millis(20), Duration::from_millis(700));
        let timing = Timing::new(heartbeat, lease).unwrap();
        Past {
            node: NodeId(3),
            cluster: Some((ClusterId(0xfeed_0000_0000_0000_0000_0000_0000_0001), timing)),
            incarnation: Incarnation(1_800_000_000_000),
        }
    }

    #[test]
    fn what_was_written_is_there_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("of/node");
        let mut directory = DataDirectory::open(&path).unwrap();
        assert_eq!(directory.past(), None);
        let joining = Past { cluster: None, ..past() };
        for past in [joining, past()] {
            directory.write(past).unwrap();
            drop(directory);
            directory = DataDirectory::open(&path).unwrap();
            assert_eq!(directory.past(), Some(past));
        }
        directory.check_node(NodeId(3)).unwrap();
        let error = directory.check_node(NodeId(4)).unwrap_err().to_string();
        assert!(error.contains("of node 3, and this is node 4"), "{error}");
    }

    #[test]
    fn logs_without_the_file_that_says_whose_they_are_are_left_alone() {
        for log in ["coordinator/CURRENT", "objects/fsync/0000000000000001.log"] {
            let folder = tempfile::tempdir().unwrap();
            let mut directory = DataDirectory::open(folder.path()).unwrap();
            directory.write(past()).unwrap();
            drop(directory);
            fs::create_dir_all(folder.path().join(log).parent().unwrap()).unwrap();
            fs::write(folder.path().join(log), "a log").unwrap();
            fs::rename(folder.path().join(IDENTITY), folder.path().join("away")).unwrap();
            let error = DataDirectory::open(folder.path()).unwrap_err().to_string();
            assert!(error.contains("is missing, and there are logs beside it"), "{error}");
            assert!(!folder.path().join(IDENTITY).exists());
            fs::rename(folder.path().join("away"), folder.path().join(IDENTITY)).unwrap();
            DataDirectory::open(folder.path()).unwrap();
        }
    }

    #[test]
    fn a_directory_is_for_one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = DataDirectory::open(folder.path()).unwrap();
        let error = DataDirectory::open(folder.path()).unwrap_err();
        assert!(matches!(error, DataDirectoryError::InUse { .. }), "{error}");
        drop(first);
        DataDirectory::open(folder.path()).unwrap();
    }

    #[test]
    fn a_file_that_was_not_written_so_is_left_alone() {
        for (text, part) in [
            ("", "missing field"),
            (
                "format = 1\nnode = 3\nincarnation = 5\ncluster = \"no\"\nheartbeat_ms = 50\nlease_ms = 500\n",
                "hexadecimal",
            ),
            ("format = 1\nnode = 3\nincarnation = 5\ncluster = \"1\"\n", "together"),
            (
                "format = 1\nnode = 3\nincarnation = 5\ncluster = \"1\"\nheartbeat_ms = 50\nlease_ms = 5\n",
                "heartbeats",
            ),
            ("format = 1\nnode = 3\nincarnation = 5\nzone = 1\n", "unknown field"),
            ("format = 2\nnode = 3\nincarnation = 5\n", "has format 2"),
            ("format = 1\nnode = 3\nincarnation = 18446744073709551615\n", "no higher incarnation"),
            ("\u{fffd}\0", "damaged"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(IDENTITY);
            fs::write(&path, text).unwrap();
            let error = DataDirectory::open(folder.path()).unwrap_err().to_string();
            assert!(error.contains(part), "{text:?}: {error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(IDENTITY), [0xff, 0xfe]).unwrap();
        let error = DataDirectory::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("it is no text"), "{error}");
    }
}
