//! [`Client`](crate::Client)'s operations whose write depends on what is there, for callers that block.

use std::time::Duration;

use weft_protocol::Version;

use super::BlockingClient;
use crate::error::ClientError;
use crate::object::{Appended, Compared, Existence, Incremented, Replaced};

impl BlockingClient {
    /// See [`Client::compare_and_set`](crate::Client::compare_and_set).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Version,
        value: impl AsRef<[u8]>,
        lifetime: Option<Duration>,
    ) -> Result<Compared, ClientError> {
        self.client.block_on(self.client.compare_and_set(key, expected, value, lifetime))
    }

    /// See [`Client::put_if_absent`](crate::Client::put_if_absent).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn put_if_absent(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: Option<Duration>,
    ) -> Result<Compared, ClientError> {
        self.client.block_on(self.client.put_if_absent(key, value, lifetime))
    }

    /// See [`Client::increment`](crate::Client::increment).
    ///
    /// # Errors
    /// See [`Client::increment`](crate::Client::increment).
    pub fn increment(
        &self,
        key: impl AsRef<[u8]>,
        delta: i64,
        lifetime: Option<Duration>,
    ) -> Result<Incremented, ClientError> {
        self.client.block_on(self.client.increment(key, delta, lifetime))
    }

    /// See [`Client::append`](crate::Client::append).
    ///
    /// # Errors
    /// See [`Client::append`](crate::Client::append).
    pub fn append(
        &self,
        key: impl AsRef<[u8]>,
        tail: impl AsRef<[u8]>,
        lifetime: Option<Duration>,
    ) -> Result<Appended, ClientError> {
        self.client.block_on(self.client.append(key, tail, lifetime))
    }

    /// See [`Client::get_and_put`](crate::Client::get_and_put).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get_and_put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: Option<Duration>,
    ) -> Result<Replaced, ClientError> {
        self.client.block_on(self.client.get_and_put(key, value, lifetime))
    }

    /// See [`Client::get_and_delete`](crate::Client::get_and_delete).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get_and_delete(&self, key: impl AsRef<[u8]>) -> Result<Replaced, ClientError> {
        self.client.block_on(self.client.get_and_delete(key))
    }

    /// See [`Client::expire`](crate::Client::expire).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn expire(
        &self,
        key: impl AsRef<[u8]>,
        lifetime: Duration,
    ) -> Result<Existence, ClientError> {
        self.client.block_on(self.client.expire(key, lifetime))
    }

    /// See [`Client::persist`](crate::Client::persist).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<Existence, ClientError> {
        self.client.block_on(self.client.persist(key))
    }
}
