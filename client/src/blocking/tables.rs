//! Tables, for callers that block.

use weft_protocol::{TableAlteration, TableOptions};

use super::BlockingClient;
use crate::client::{Client, TablePartition, TableSummary};
use crate::error::ClientError;
use crate::range::{Range, RangeOptions};
use crate::scan::Scanned;

impl BlockingClient {
    /// See [`Client::table`].
    ///
    /// # Errors
    /// See [`Client::table`].
    pub fn table(&self, name: &str) -> Result<Self, ClientError> {
        self.client.block_on(self.client.table(name)).map(Self::new)
    }

    /// See [`Client::partitions`].
    pub fn partitions(&self) -> Vec<TablePartition> {
        self.client.partitions()
    }

    /// See [`Client::create_table`].
    ///
    /// # Errors
    /// See [`Client::create_table`].
    pub fn create_table(&self, name: &str, options: TableOptions) -> Result<Self, ClientError> {
        self.client.block_on(self.client.create_table(name, options)).map(Self::new)
    }

    /// See [`Client::alter_table`].
    ///
    /// # Errors
    /// See [`Client::alter_table`].
    pub fn alter_table(&self, name: &str, change: TableAlteration) -> Result<(), ClientError> {
        self.client.block_on(self.client.alter_table(name, change))
    }

    /// See [`Client::drop_table`].
    ///
    /// # Errors
    /// See [`Client::drop_table`].
    pub fn drop_table(&self, name: &str) -> Result<(), ClientError> {
        self.client.block_on(self.client.drop_table(name))
    }

    /// See [`Client::tables`].
    ///
    /// # Errors
    /// See [`Client::tables`].
    pub fn tables(&self) -> Result<Vec<TableSummary>, ClientError> {
        self.client.block_on(self.client.tables())
    }

    /// See [`Client::count`].
    ///
    /// # Errors
    /// See [`Client::count`].
    pub fn count(&self) -> Result<u64, ClientError> {
        self.client.block_on(self.client.count())
    }

    /// See [`Client::truncate`].
    ///
    /// # Errors
    /// See [`Client::truncate`].
    pub fn truncate(&self) -> Result<u64, ClientError> {
        self.client.block_on(self.client.truncate())
    }

    /// See [`Client::range`].
    ///
    /// # Errors
    /// See [`Client::range`].
    pub fn range(&self, options: RangeOptions) -> Result<BlockingRange, ClientError> {
        Ok(BlockingRange { client: self.client.clone(), range: self.client.range(options)? })
    }
}

/// A [`Range`] for callers that block: an iterator. After an error it may be told to go on.
#[derive(Debug)]
#[must_use = "nothing is asked before the first object is asked for"]
pub struct BlockingRange {
    client: Client,
    range: Range,
}

impl Iterator for BlockingRange {
    type Item = Result<Scanned, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.client.block_on(self.range.next())
    }
}
