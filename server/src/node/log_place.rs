//! Where a node keeps its coordinator's log: in its data directory, or nowhere.

use std::path::PathBuf;

use weft_transport::NodeId;

use crate::coordinator::ClusterId;
use crate::coordinator::raft::{
    Batch, LogError, MemoryLog, RaftLog, Recovered, RocksLog, StoredLog, begin_life,
};

/// A coordinator's log, in the life that has begun, and what it holds.
pub(super) type OpenLog = (Box<dyn RaftLog + Send>, Recovered);

/// Where the log is, or is to be.
#[derive(Debug, Clone)]
pub(super) struct LogPlace {
    pub(super) node: NodeId,
    /// `None` where nothing is kept.
    pub(super) folder: Option<PathBuf>,
}

impl LogPlace {
    /// The log that an earlier life left, if it did. Nothing is changed, and that of another node or cluster is refused.
    pub(super) fn find(&self, cluster: Option<ClusterId>) -> Result<Option<StoredLog>, LogError> {
        let Some(folder) = &self.folder else { return Ok(None) };
        match StoredLog::read(folder) {
            Ok(log) => {
                log.recovered().check_owner(self.node, cluster)?;
                Ok(Some(log))
            }
            Err(LogError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Begins a life with the log that was found.
    pub(super) fn open(&self, found: StoredLog) -> Result<OpenLog, LogError> {
        let cluster = found.recovered().identity.cluster;
        let mut log: Box<dyn RaftLog + Send> = Box::new(found.open()?);
        let recovered = begin_life(&mut *log, self.node, Some(cluster))?;
        Ok((log, recovered))
    }

    /// Makes a log, with `first`.
    pub(super) fn make(&self, first: &Batch) -> Result<OpenLog, LogError> {
        let mut log: Box<dyn RaftLog + Send> = match &self.folder {
            Some(folder) => Box::new(RocksLog::create(folder, first)?),
            None => {
                let mut log = MemoryLog::new("memory");
                log.create(first)?;
                Box::new(log)
            }
        };
        let recovered = begin_life(&mut *log, self.node, None)?;
        Ok((log, recovered))
    }

    /// Puts the log of a member that was removed out of the way, once nobody has it open, if there is one.
    pub(super) fn put_away(&self) -> Result<(), LogError> {
        self.folder.as_deref().map_or(Ok(()), RocksLog::put_away)
    }
}
