//! Why a job stops.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use weft_client::ClientError;
use weft_object::{Invalid, TypesDiffer};
use weft_transport::{CallError, CloseReason, ConnectError, EndpointError, MemoryError};

use crate::checkpoint::CHECKPOINT_TABLE;
use crate::text_file::InputError;
use crate::worker::WorkerId;

/// Why a job stops. It stops on every worker: one that fails tells the others.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The worker could not begin.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// Another worker could not be reached.
    #[error("{worker} cannot be reached: {reason}")]
    Unreachable {
        /// Which.
        worker: WorkerId,
        /// Where it should be, and what happened.
        reason: ConnectError,
    },
    /// Another worker ended or can no longer be reached.
    #[error("{worker} is lost: {reason}")]
    Lost {
        /// Which.
        worker: WorkerId,
        /// What the connection to it ended with.
        reason: CloseReason,
    },
    /// Another worker's process is there and does nothing.
    #[error("{worker} hangs: it has answered nothing for {} s", .silence.as_secs_f64())]
    Hung {
        /// Which.
        worker: WorkerId,
        /// For how long.
        silence: Duration,
    },
    /// Another worker's process does not answer what it is asked in the beginning.
    #[error("{worker} does not answer: {reason}")]
    NoAnswer {
        /// Which.
        worker: WorkerId,
        /// What became of the question.
        reason: CallError,
    },
    /// Another worker stopped the job.
    #[error("{worker} stopped the job: {reason}")]
    Stopped {
        /// Which.
        worker: WorkerId,
        /// What it said.
        reason: String,
        /// Whether it had lost a worker.
        is_loss: bool,
    },
    /// Another worker runs another program.
    #[error("{worker} refuses to work with this one: {difference}")]
    Program {
        /// Which.
        worker: WorkerId,
        /// How this one differs, as the other says.
        difference: String,
    },
    /// Another worker sent what is no segment of records.
    #[error("{worker} sent something in stage {stage} that cannot be used: {reason}")]
    Block {
        /// Which.
        worker: WorkerId,
        /// In which stage.
        stage: u32,
        /// What is wrong with it.
        reason: Invalid,
    },
    /// Another worker broke the rules of the exchange.
    #[error("{worker} broke the protocol in stage {stage}: {what}")]
    Protocol {
        /// Which.
        worker: WorkerId,
        /// In which stage.
        stage: u32,
        /// What it did.
        what: &'static str,
    },
    /// A record was to go to a worker that the job does not have.
    #[error("a record is to go to {worker}, where there are {workers} workers from 0 on")]
    NoSuchWorker {
        /// Which.
        worker: WorkerId,
        /// How many there are.
        workers: usize,
    },
    /// The input cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// What memory has no room for could not be kept in a file.
    #[error("cannot keep what memory has no room for in {}: {error}; give a folder with room by --spill-dir, or more memory", .folder.display())]
    Spill {
        /// Where.
        folder: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// What was said to be the small side of a join is not small enough to be in memory.
    #[error(
        "the small side of a join has no room in the {} MiB of memory that each worker has; use `join`, which needs no room for either side (the command: leave --small-right out), or give more memory by --memory",
        .limit_bytes >> 20
    )]
    SmallSide {
        /// What each worker has, for this and for all else.
        limit_bytes: u64,
    },
    /// The state of a round could not be kept for another attempt.
    #[error("cannot keep the state of a round in {}: {error}; give a folder with room by --checkpoint-dir, or keep none by --checkpoint-every 0", .folder.display())]
    Checkpoint {
        /// Where.
        folder: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// The same in a table of a cluster.
    #[error(
        "cannot keep the state of a round in the table {CHECKPOINT_TABLE} of the cluster: {reason}"
    )]
    CheckpointTable {
        /// What its client says.
        reason: Box<ClientError>,
    },
    /// There is no such table, or no such cluster.
    #[error("cannot open the table {table} of the cluster: {reason}")]
    OpenTable {
        /// Which table.
        table: String,
        /// What the client says.
        reason: Box<ClientError>,
    },
    /// Objects of a table could not be read.
    #[error("cannot read the table {table} of the cluster: {reason}")]
    ReadTable {
        /// Which table.
        table: String,
        /// What the client says.
        reason: Box<ClientError>,
    },
    /// Objects could not be written into a table.
    #[error(
        "cannot write to the table {table} of the cluster: {failed} objects failed, that of the key \"{key}\" because {reason}"
    )]
    WriteTable {
        /// Which table.
        table: String,
        /// How many of those that were written at once.
        failed: usize,
        /// The key of the first one, in ASCII: other bytes are escaped, and it may be cut off.
        key: String,
        /// What the client says of that one.
        reason: Box<ClientError>,
    },
    /// A record that no segment has room for, such as a text of a million bytes as a key.
    #[error("a record needs {bytes} bytes, and at most {limit} can be exchanged in one piece")]
    TooLong {
        /// What a segment of it alone needs.
        bytes: usize,
        /// The longest segment.
        limit: usize,
    },
    /// A record of objects that no segment has room for.
    #[error(
        "a record's objects need more than {limit} bytes, which is as much as can be exchanged in one piece"
    )]
    GraphTooLong {
        /// The longest segment's pages, in bytes.
        limit: usize,
    },
    /// Memory has no room for what cannot go to files, such as what is known of each vertex of a graph.
    #[error(
        "memory has no room for what cannot go to files, such as what is known of each vertex: a worker needs at least {} MiB, where it may have {} MiB; give more by --memory, or more workers", .needed_bytes.div_ceil(1 << 20), .limit_bytes >> 20
    )]
    TooLittleMemory {
        /// What a worker needs, as far as it has come.
        needed_bytes: u64,
        /// What it may have.
        limit_bytes: u64,
    },
    /// The limit has no room.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// What the job itself found.
    #[error("{0}")]
    Job(String),
}

impl JobError {
    /// Whether a worker is gone or does not answer, which says nothing of the job: another attempt may well
    /// come to its end.
    pub fn is_loss(&self) -> bool {
        match self {
            Self::Stopped { is_loss, .. } => *is_loss,
            Self::Lost { .. } | Self::Hung { .. } | Self::NoAnswer { .. } => true,
            _ => matches!(self, Self::Unreachable { .. }),
        }
    }

    /// The other worker that it is about: the one that was lost, say, or has sent what it may not.
    pub fn about(&self) -> Option<WorkerId> {
        match self {
            Self::Unreachable { worker, .. }
            | Self::Lost { worker, .. }
            | Self::Hung { worker, .. }
            | Self::NoAnswer { worker, .. }
            | Self::Stopped { worker, .. }
            | Self::Program { worker, .. }
            | Self::Block { worker, .. }
            | Self::Protocol { worker, .. } => Some(*worker),
            _ => None,
        }
    }

    /// Whether it may only follow from what another worker has met, and tells better. Who does not
    /// answer in time is no consequence of anything: its process hangs.
    pub fn is_consequence(&self) -> bool {
        match self {
            Self::Lost { .. } | Self::Stopped { .. } => true,
            Self::Unreachable { reason, .. } => !matches!(
                reason,
                ConnectError::DeadlineExceeded { .. }
                    | ConnectError::Closed { reason: CloseReason::HandshakeTimeout, .. }
            ),
            _ => false,
        }
    }
}

/// How another worker's program differs from this one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramsDiffer {
    /// The records are not the same types.
    #[error(transparent)]
    Types(#[from] TypesDiffer),
    /// The types agree, but the executable is another one.
    #[error("it runs another build of this program")]
    Build,
    /// It means to be one of another number of workers, or has other arguments.
    #[error("it has other arguments")]
    Arguments,
    /// Its greeting makes no sense.
    #[error("its greeting is malformed")]
    Malformed,
}
