//! Writes objects into a table, some at once.

use weft_client::ClientError;

use crate::cluster_table::ClusterTable;
use crate::error::JobError;

/// Objects that are written with one operation.
const OBJECTS_AT_ONCE: usize = 1024;

/// Bytes of keys and values behind which no more objects wait: an object may have more by itself.
const BYTES_AT_ONCE: usize = 1 << 20;

/// As much of a key as an error shows, in bytes.
const KEY_SHOWN_MAX: usize = 40;

/// Writes objects of a job into a table.
///
/// Each is a put of its own: what is there by its key is replaced, and of several with one key, the last one that this worker writes stays. They are written as they
/// come, so others see some of them while the job runs, and those of a job that fails stay. Another attempt at the job writes the same again, which changes nothing but versions.
#[derive(Debug)]
#[must_use = "what waits is written in the end"]
pub struct TableWriter<'t> {
    table: &'t ClusterTable,
    waiting: Vec<(Vec<u8>, Vec<u8>)>,
    waiting_bytes: usize,
    written: u64,
}

impl<'t> TableWriter<'t> {
    pub(crate) fn new(table: &'t ClusterTable) -> TableWriter<'t> {
        TableWriter { table, waiting: Vec::new(), waiting_bytes: 0, written: 0 }
    }

    /// Writes an object, now or with others.
    ///
    /// # Errors
    /// [`JobError::WriteTable`] if one of those that were written could not be: it says which, and how many.
    pub fn write(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), JobError> {
        self.waiting_bytes += key.len() + value.len();
        self.waiting.push((key, value));
        let is_full = self.waiting.len() >= OBJECTS_AT_ONCE || self.waiting_bytes >= BYTES_AT_ONCE;
        if is_full { self.write_waiting() } else { Ok(()) }
    }

    /// Writes what waits. Returns how many objects were written in all.
    ///
    /// # Errors
    /// As of [`write`](Self::write).
    pub fn finish(mut self) -> Result<u64, JobError> {
        self.write_waiting()?;
        Ok(self.written)
    }

    fn write_waiting(&mut self) -> Result<(), JobError> {
        let mut first: Option<(usize, ClientError)> = None;
        let mut failed = 0;
        for outcome in self.table.client.multi_put(&self.waiting) {
            let Err((index, error)) = outcome else { continue };
            failed += 1;
            first.get_or_insert((index, error));
        }
        if let Some((index, reason)) = first {
            return Err(JobError::WriteTable {
                table: self.table.name.clone(),
                failed,
                key: shown(&self.waiting[index].0),
                reason: Box::new(reason),
            });
        }
        self.written += self.waiting.len() as u64;
        self.waiting.clear();
        self.waiting_bytes = 0;
        Ok(())
    }
}

/// A key such that a terminal can show it.
fn shown(key: &[u8]) -> String {
    match key.get(..KEY_SHOWN_MAX) {
        Some(beginning) if key.len() > KEY_SHOWN_MAX => format!("{}…", beginning.escape_ascii()),
        _ => key.escape_ascii().to_string(),
    }
}
