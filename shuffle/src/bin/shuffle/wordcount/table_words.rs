//! The words of the values of a table.

use std::cell::Cell;

use weft_object::TextKey;
use weft_shuffle::{ClusterTable, Dataset, JobError, TableObject, Worker};

/// Takes values for texts, and passes over some that are none.
pub(super) struct TableWords<'t> {
    table: &'t ClusterTable,
    skip_limit: u64,
    skipped: Cell<u64>,
}

impl<'t> TableWords<'t> {
    /// Up to `skip_limit` values that are no texts are passed over, before the next one is an error.
    pub(super) fn new(table: &'t ClusterTable, skip_limit: u64) -> TableWords<'t> {
        TableWords { table, skip_limit, skipped: Cell::new(0) }
    }

    /// The words of the values of these objects.
    pub(super) fn of(
        &self,
        objects: impl Dataset<Item = TableObject>,
    ) -> impl Dataset<Item = TextKey> {
        objects.flat_map_into(|object, emit| match str::from_utf8(&object.value) {
            Ok(text) => text.split_whitespace().try_for_each(|word| emit(word.into())),
            Err(_) => self.pass_over(&object.key),
        })
    }

    /// Values that all workers have passed over: an exchange.
    pub(super) fn skipped_in_all(&self, worker: &Worker) -> Result<u64, JobError> {
        let found = worker.gather(self.skipped.get())?.iter().sum();
        if found > self.skip_limit {
            let (table, limit) = (self.table.name(), self.skip_limit);
            return Err(JobError::Job(format!(
                "the table {table} has {found} values that are no texts, where {limit} may be skipped; --skip-bad N skips up to N"
            )));
        }
        Ok(found)
    }

    fn pass_over(&self, key: &[u8]) -> Result<(), JobError> {
        if self.skipped.get() == self.skip_limit {
            let (table, key) = (self.table.name(), key.escape_ascii());
            return Err(JobError::Job(format!(
                "the value of the key \"{key}\" of the table {table} is no text: expected UTF-8; --skip-bad N skips up to N such values"
            )));
        }
        self.skipped.set(self.skipped.get() + 1);
        Ok(())
    }
}
