//! [`Client`](crate::Client)'s operations on values that are a program's types, for callers that block.

use std::time::Duration;

use weft_protocol::Version;

use super::BlockingClient;
use crate::object::Compared;
use crate::typed::{ReadTyped, TypedError, TypedLookup, WriteTyped};

impl BlockingClient {
    /// See [`Client::put_as`](crate::Client::put_as).
    ///
    /// # Errors
    /// See [`Client::put_as`](crate::Client::put_as).
    pub fn put_as<T: WriteTyped>(
        &self,
        key: impl AsRef<[u8]>,
        value: &T,
    ) -> Result<Version, TypedError> {
        self.client.block_on(self.client.put_as(key, value))
    }

    /// See [`Client::put_as_expiring`](crate::Client::put_as_expiring).
    ///
    /// # Errors
    /// See [`Client::put_as`](crate::Client::put_as).
    pub fn put_as_expiring<T: WriteTyped>(
        &self,
        key: impl AsRef<[u8]>,
        value: &T,
        lifetime: Duration,
    ) -> Result<Version, TypedError> {
        self.client.block_on(self.client.put_as_expiring(key, value, lifetime))
    }

    /// See [`Client::get_as`](crate::Client::get_as).
    ///
    /// # Errors
    /// See [`Client::get_as`](crate::Client::get_as).
    pub fn get_as<T: ReadTyped>(
        &self,
        key: impl AsRef<[u8]>,
    ) -> Result<TypedLookup<T>, TypedError> {
        self.client.block_on(self.client.get_as(key))
    }

    /// See [`Client::compare_and_set_as`](crate::Client::compare_and_set_as).
    ///
    /// # Errors
    /// See [`Client::put_as`](crate::Client::put_as).
    pub fn compare_and_set_as<T: WriteTyped>(
        &self,
        key: impl AsRef<[u8]>,
        expected: Version,
        value: &T,
        lifetime: Option<Duration>,
    ) -> Result<Compared, TypedError> {
        self.client.block_on(self.client.compare_and_set_as(key, expected, value, lifetime))
    }
}
