//! Calls of the control port: of one node after the other, until one answers.

use std::fmt;
use std::io;
use std::time::Duration;

use tokio::runtime::{self, Runtime};
use tokio::time::{Instant, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use weft_client::{Address, ErrorCode};
use weft_protocol::control::ERROR_CODE;
use weft_protocol::control::v1::control_client::ControlClient;
use weft_protocol::control::v1::{ListWorkersRequest, StatusRequest, StatusResponse, Worker};

/// The longest answer that is taken, in bytes: many times what is to be said of the largest cluster.
const ANSWER_MAX: usize = 256 << 20;

/// The control ports of a cluster's nodes, any of which will do.
pub(crate) struct Control {
    runtime: Runtime,
    addresses: Vec<Address>,
    patience: Duration,
}

/// A node's control port.
pub(crate) type Calls = ControlClient<Channel>;

/// What a call does to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing: it asks.
    Question,
    /// It changes something, even where no answer comes.
    Change,
}

impl Kind {
    /// What to say where no answer came, of which a change would have this `code`.
    fn unanswered(self, code: ErrorCode) -> ErrorCode {
        match self {
            Kind::Question => ErrorCode::ClusterNotReachable,
            Kind::Change => code,
        }
    }
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// No address led to an answer.
    #[error("no node of the cluster answered: {}; check the addresses (--control), and that most of the nodes run", Attempts(.attempts))]
    Unanswered {
        /// What came of each address, in their order.
        attempts: Vec<Attempt>,
    },
    /// The cluster refused.
    #[error("{message}")]
    Refused {
        /// Why, in its words.
        message: String,
        /// The number beside it.
        code: Option<ErrorCode>,
    },
}

/// An address that was asked in vain.
#[derive(Debug)]
pub(crate) struct Attempt {
    address: Address,
    reason: String,
    code: ErrorCode,
}

impl Control {
    /// Of `addresses`, all of which are given `patience` together.
    pub(crate) fn new(addresses: Vec<Address>, patience: Duration) -> io::Result<Control> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Control { runtime, addresses, patience })
    }

    /// How the cluster is.
    pub(crate) fn status(&self) -> Result<StatusResponse, ControlError> {
        let status =
            async |mut calls: Calls| Ok(calls.status(StatusRequest {}).await?.into_inner());
        self.block_on(self.call_any(&self.addresses, Kind::Question, status))
    }

    /// Which workers are registered.
    pub(crate) fn workers(&self) -> Result<Vec<Worker>, ControlError> {
        let workers = async |mut calls: Calls| {
            Ok(calls.list_workers(ListWorkersRequest {}).await?.into_inner().workers)
        };
        self.block_on(self.call_any(&self.addresses, Kind::Question, workers))
    }

    /// Has a change made by one node after the other until one answers. It may be made by several, so it is one that bears that.
    pub(crate) fn change<T>(
        &self,
        change: impl AsyncFn(Calls) -> Result<T, Status>,
    ) -> Result<T, ControlError> {
        self.block_on(self.call_any(&self.addresses, Kind::Change, change))
    }

    /// Has `call` made of one node after the other, in the order of `addresses`.
    pub(crate) async fn call_any<T>(
        &self,
        addresses: &[Address],
        kind: Kind,
        call: impl AsyncFn(Calls) -> Result<T, Status>,
    ) -> Result<T, ControlError> {
        let until = Instant::now() + self.patience;
        let mut attempts = Vec::new();
        for (address, left) in addresses.iter().zip((1..=addresses.len() as u32).rev()) {
            // One that is silent leaves the others their part.
            let part = until.saturating_duration_since(Instant::now()) / left;
            let (reason, code) = match timeout(part, connect(address)).await {
                Ok(Ok(calls)) => {
                    let part = until.saturating_duration_since(Instant::now()) / left;
                    match timeout(part, call(calls)).await {
                        Ok(Ok(answer)) => return Ok(answer),
                        Ok(Err(status)) if !is_for_another(&status) => {
                            return Err(ControlError::refused(&status));
                        }
                        Ok(Err(status)) => {
                            let code = code_of(&status);
                            let lost = kind.unanswered(ErrorCode::DisconnectedMaybeApplied);
                            (reason_of(&status), code.unwrap_or(lost))
                        }
                        Err(_) => {
                            let late = kind.unanswered(ErrorCode::DeadlineMaybeApplied);
                            ("no answer in time".to_owned(), late)
                        }
                    }
                }
                Ok(Err(reason)) => (reason, ErrorCode::ClusterNotReachable),
                Err(_) => ("no connection in time".to_owned(), ErrorCode::ClusterNotReachable),
            };
            attempts.push(Attempt { address: address.clone(), reason, code });
        }
        Err(ControlError::Unanswered { attempts })
    }

    /// The nodes' addresses.
    pub(crate) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

impl ControlError {
    pub(crate) fn refused(status: &Status) -> Self {
        Self::Refused { message: status.message().to_owned(), code: code_of(status) }
    }

    /// The stable code, of which `kv explain` says more. Of several addresses, that of the one that may have done what was asked.
    pub(crate) fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => *code,
            Self::Unanswered { attempts } => {
                let codes = || attempts.iter().map(|attempt| attempt.code);
                codes().find(|code| code.may_have_been_applied()).or_else(|| codes().next_back())
            }
        }
    }
}

async fn connect(address: &Address) -> Result<Calls, String> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"));
    // What is an address to us may be none to others.
    let endpoint = endpoint.map_err(|error| error.to_string())?;
    let channel = endpoint.connect().await.map_err(|error| root_of(&error))?;
    Ok(ControlClient::new(channel).max_decoding_message_size(ANSWER_MAX))
}

/// Whether another node may know more.
pub(crate) fn is_for_another(status: &Status) -> bool {
    let is_theirs = status.metadata().contains_key(ERROR_CODE);
    match status.code() {
        Code::Unavailable => code_of(status) != Some(ErrorCode::NotYet),
        // Of a connection that broke, or of something that is no control port.
        _ => !is_theirs && !matches!(status.code(), Code::OutOfRange | Code::Unimplemented),
    }
}

fn code_of(status: &Status) -> Option<ErrorCode> {
    let number = status.metadata().get(ERROR_CODE)?.to_str().ok()?;
    number.parse().ok().and_then(ErrorCode::from_number)
}

/// What a node said, or what became of the connection to it.
fn reason_of(status: &Status) -> String {
    if status.metadata().contains_key(ERROR_CODE) {
        return status.message().to_owned();
    }
    let source = std::error::Error::source(status);
    source.map_or_else(|| status.message().to_owned(), root_of)
}

/// The innermost of an error's sources, which says most.
fn root_of(error: &dyn std::error::Error) -> String {
    let mut root: &dyn std::error::Error = error;
    while let Some(source) = root.source() {
        root = source;
    }
    root.to_string()
}

struct Attempts<'a>(&'a [Attempt]);

impl fmt::Display for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Attempt { address, reason, .. }) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{address} ({reason})")?;
        }
        Ok(())
    }
}
