//! The target without a store, upstream's `BasicDB`: what remains is the cost of the driver.

use std::sync::Arc;

use rand::SeedableRng as _;

use super::{Crew, Driver, Mode, OpenError, Session as AnySession};
use crate::generator::Random;
use crate::pace::yield_once;
use crate::properties::UsageError;
use crate::record::Values;
use crate::workload::Workload;

/// Answers every read with the same record, and forgets what is written.
pub(crate) struct Basic {
    record: Arc<[Vec<u8>]>,
}

impl Basic {
    pub(super) fn open(workload: &Workload) -> Result<Basic, OpenError> {
        if workload.content.verifiable {
            return Err(OpenError::Usage(UsageError::Conflict {
                what: "the target basic stores nothing, so nothing can be verified".to_owned(),
                advice: "leave dataintegrity out, or name another target",
            }));
        }
        let mut values = Values::default();
        workload.content.fill(b"", &mut values, &mut Random::seed_from_u64(0));
        Ok(Basic { record: values.iter().map(|(_, value)| value.to_vec()).collect() })
    }

    pub(super) fn crew(&self, mode: Mode, requesters: usize) -> Crew {
        let session = || {
            let record = Arc::clone(&self.record);
            AnySession::Basic(Session { record, blocks: mode == Mode::Blocking })
        };
        Crew {
            driver: match mode {
                Mode::Blocking => Driver::Blocking,
                Mode::Async { .. } => Driver::Queue,
            },
            sessions: (0..requesters).map(|_| session()).collect(),
        }
    }
}

/// One requester's view of it. When shared it waits once an operation, as for a reply, so that the
/// cost of switching between requesters is measured too.
pub(crate) struct Session {
    record: Arc<[Vec<u8>]>,
    pub(super) blocks: bool,
}

impl Session {
    pub(super) async fn get(&mut self) -> Arc<[Vec<u8>]> {
        self.wait().await;
        Arc::clone(&self.record)
    }

    pub(super) async fn put(&mut self) {
        self.wait().await;
    }

    async fn wait(&mut self) {
        if !self.blocks {
            yield_once().await;
        }
    }
}
