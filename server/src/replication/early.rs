//! Entries that came before those in front of them: messages overtake one another between the lanes of a connection. They are kept for
//! a short while, within a bound; beyond it they are dropped, and sent again.

use weft_protocol::Version;
use weft_protocol::replication::Entries;

/// Runs of entries behind a gap.
#[derive(Debug, Default)]
pub(super) struct Early {
    runs: Vec<EarlyRun>,
    bytes: usize,
}

/// A run, copied out of the message that it came in.
#[derive(Debug)]
pub(super) struct EarlyRun {
    pub(super) previous: Version,
    count: u32,
    bytes: Vec<u8>,
}

impl EarlyRun {
    pub(super) fn entries(&self) -> Entries<'_> {
        Entries::written(self.count, &self.bytes)
    }
}

impl Early {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.bytes = 0;
    }

    /// Keeps a run, if it is not there and there is room.
    pub(super) fn keep(&mut self, previous: Version, entries: Entries<'_>, bytes_max: usize) {
        let len = entries.bytes().len();
        let is_there =
            self.runs.iter().any(|run| run.previous == previous && run.count >= entries.count());
        if entries.is_empty() || is_there || self.bytes + len > bytes_max {
            return;
        }
        self.bytes += len;
        self.runs.push(EarlyRun {
            previous,
            count: entries.count(),
            bytes: entries.bytes().to_vec(),
        });
    }

    /// A run that begins at or before the entry behind `last`.
    pub(super) fn take(&mut self, last: u64) -> Option<EarlyRun> {
        let index = self.runs.iter().position(|run| run.previous.sequence() <= last)?;
        let run = self.runs.swap_remove(index);
        self.bytes -= run.bytes.len();
        Some(run)
    }
}
