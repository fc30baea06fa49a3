//! [`Client`](crate::Client)'s operations on fields of records, for callers that block.

use std::time::Duration;

use weft_protocol::{FieldChange, Version};

use super::BlockingClient;
use crate::error::ClientError;
use crate::object::FieldsLookup;

impl BlockingClient {
    /// See [`Client::get_fields`](crate::Client::get_fields).
    ///
    /// # Errors
    /// See [`Client::get_fields`](crate::Client::get_fields).
    pub fn get_fields<N: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        names: &[N],
    ) -> Result<FieldsLookup, ClientError> {
        self.client.block_on(self.client.get_fields(key, names))
    }

    /// See [`Client::put_fields`](crate::Client::put_fields).
    ///
    /// # Errors
    /// See [`Client::put_fields`](crate::Client::put_fields).
    pub fn put_fields<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        fields: &[(N, V)],
        lifetime: Option<Duration>,
    ) -> Result<Version, ClientError> {
        self.client.block_on(self.client.put_fields(key, fields, lifetime))
    }

    /// See [`Client::change_fields`](crate::Client::change_fields).
    ///
    /// # Errors
    /// See [`Client::put_fields`](crate::Client::put_fields).
    pub fn change_fields(
        &self,
        key: impl AsRef<[u8]>,
        changes: &[FieldChange<'_>],
        lifetime: Option<Duration>,
    ) -> Result<Version, ClientError> {
        self.client.block_on(self.client.change_fields(key, changes, lifetime))
    }
}
