//! Watches, for callers that block.

use super::BlockingClient;
use crate::client::Client;
use crate::error::ClientError;
use crate::object::Existence;
use crate::watch::{Watch, WatchEvent, WatchOptions};

impl BlockingClient {
    /// See [`Client::watch`].
    ///
    /// # Errors
    /// See [`Client::watch`].
    pub fn watch(
        &self,
        key: impl AsRef<[u8]>,
        options: WatchOptions,
    ) -> Result<BlockingWatch, ClientError> {
        let watch = self.client.block_on(self.client.watch(key, options))?;
        Ok(BlockingWatch { client: self.client.clone(), watch })
    }

    /// See [`Client::watch_prefix`].
    ///
    /// # Errors
    /// See [`Client::watch_prefix`].
    pub fn watch_prefix(
        &self,
        prefix: impl AsRef<[u8]>,
        options: WatchOptions,
    ) -> Result<BlockingWatch, ClientError> {
        let watch = self.client.block_on(self.client.watch_prefix(prefix, options))?;
        Ok(BlockingWatch { client: self.client.clone(), watch })
    }
}

/// A [`Watch`] for callers that block: an iterator, which ends behind an error that ended the watch. After any other it may be told to
/// go on.
#[derive(Debug)]
#[must_use = "what happens is told by asking for it"]
pub struct BlockingWatch {
    client: Client,
    watch: Watch,
}

impl BlockingWatch {
    /// See [`Watch::found`].
    pub fn found(&self) -> Option<Existence> {
        self.watch.found()
    }
}

impl Iterator for BlockingWatch {
    type Item = Result<WatchEvent, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.watch.is_ended() {
            return None;
        }
        Some(self.client.block_on(self.watch.next()))
    }
}
