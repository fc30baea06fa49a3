//! Operations whose write depends on what is there, done by the node in one step.

use std::time::Duration;

use weft_protocol::{ErrorCode, Key, UploadEffect, Value, Version};

use super::{Client, whole};
use crate::error::ClientError;
use crate::object::{Appended, Compared, Existence, Incremented, Replaced};
use crate::operation::append::AskAppend;
use crate::operation::compare_and_set::AskCompareAndSet;
use crate::operation::expire::AskExpire;
use crate::operation::get_and_delete::AskGetAndDelete;
use crate::operation::get_and_put::AskGetAndPut;
use crate::operation::increment::AskIncrement;

impl Client {
    /// Makes `value` the object of `key` if the object that is there has the version `expected`. The new
    /// object ceases to be after `lifetime`, if that is given.
    ///
    /// ```
    /// # use weft_server::{config::{Config, Host, HttpAddress, Settings}, node::Node};
    /// # let settings = Settings {
    /// #     listen: Some("127.0.0.1:0".parse().unwrap()),
    /// #     http: Some(HttpAddress::Off),
    /// #     control: Some(HttpAddress::Off),
    /// #     ..Settings::default()
    /// # };
    /// # let node = Node::start(&Config::resolve(settings, Host::of_this_process()).unwrap()).unwrap();
    /// # let address = node.address().to_string();
    /// # let client = weft_client::Client::connect_blocking(
    /// #     weft_client::ClientConfig::new([address]))?;
    /// # client.block_on(async {
    /// use weft_client::Compared;
    ///
    /// let first = client.put("pattern", "twill").await?;
    /// let second = client.compare_and_set("pattern", first, "satin", None).await?;
    /// assert!(second.written() > Some(first));
    ///
    /// let late = client.compare_and_set("pattern", first, "plain", None).await?;
    /// assert!(matches!(late, Compared::Conflict { version } if Some(version) == second.written()));
    /// # Ok::<(), weft_client::ClientError>(())
    /// # })?;
    /// # Ok::<(), weft_client::ClientError>(())
    /// ```
    ///
    /// A node that is started anew has no objects and gives out its versions anew: an object that has been written to it since can have
    /// the version of one that it had before.
    ///
    /// # Errors
    /// See [`put`](Self::put). That the object is another one is no error.
    pub async fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Version,
        value: impl AsRef<[u8]>,
        lifetime: Option<Duration>,
    ) -> Result<Compared, ClientError> {
        let (key, expires_at_ms) = (Key::new(key.as_ref())?, self.expiry(lifetime));
        let Ok(value) = Value::new(value.as_ref()) else {
            let upload = whole(key, value.as_ref(), expires_at_ms);
            let effect = UploadEffect::CompareAndSet(expected);
            return self.upload::<AskCompareAndSet<'_>>(upload, effect).await;
        };
        self.core.ask(self.table, AskCompareAndSet { key, expected, value, expires_at_ms }).await
    }

    /// Makes `value` the object of `key` if it has none. With a `lifetime` it is a lock that frees itself.
    ///
    /// # Errors
    /// See [`put`](Self::put). That there is an object is no error: it is
    /// [`Conflict`](Compared::Conflict), with its version.
    pub async fn put_if_absent(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: Option<Duration>,
    ) -> Result<Compared, ClientError> {
        self.compare_and_set(key, Version::NONE, value, lifetime).await
    }

    /// Adds `delta` to the decimal number that `key` holds, or to 0 if it has no object. An object that
    /// this creates ceases to be after `lifetime`, if that is given; one that is there keeps the
    /// expiry that it has.
    ///
    /// # Errors
    /// [`NotANumber`](weft_protocol::ErrorCode::NotANumber) and
    /// [`NumberOverflow`](weft_protocol::ErrorCode::NumberOverflow), after which nothing has changed; else see
    /// [`put`](Self::put).
    pub async fn increment(
        &self,
        key: impl AsRef<[u8]>,
        delta: i64,
        lifetime: Option<Duration>,
    ) -> Result<Incremented, ClientError> {
        let key = Key::new(key.as_ref())?;
        self.core
            .ask(self.table, AskIncrement { key, delta, expires_at_ms: self.expiry(lifetime) })
            .await
    }

    /// Adds `tail` to the end of the value of `key`, or to an empty one if it has no object. `lifetime` is as
    /// for [`increment`](Self::increment).
    ///
    /// # Errors
    /// [`ValueTooLarge`](weft_protocol::ErrorCode::ValueTooLarge) if the whole were longer than a value may be;
    /// else see [`put`](Self::put).
    pub async fn append(
        &self,
        key: impl AsRef<[u8]>,
        tail: impl AsRef<[u8]>,
        lifetime: Option<Duration>,
    ) -> Result<Appended, ClientError> {
        let (key, bytes) = (Key::new(key.as_ref())?, tail.as_ref());
        let (expires_at_ms, deadline) = (self.expiry(lifetime), self.core.deadline());
        if let Ok(tail) = Value::new(bytes) {
            let ask = AskAppend { key, tail, expires_at_ms };
            match self.core.ask_by(self.table, ask, deadline).await {
                Err(ClientError::Refused { code: ErrorCode::OnlyByUpload, .. }) => {}
                done => return done,
            }
        }
        self.core.append_by_upload(self.table, key, bytes, expires_at_ms, deadline).await
    }

    /// Makes `value` the object of `key`, until after `lifetime` if that is given, and returns the one that
    /// was there.
    ///
    /// # Errors
    /// See [`put`](Self::put).
    pub async fn get_and_put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: Option<Duration>,
    ) -> Result<Replaced, ClientError> {
        let (key, expires_at_ms) = (Key::new(key.as_ref())?, self.expiry(lifetime));
        let Ok(value) = Value::new(value.as_ref()) else {
            let upload = whole(key, value.as_ref(), expires_at_ms);
            return self.upload::<AskGetAndPut<'_>>(upload, UploadEffect::GetAndPut).await;
        };
        self.core.ask(self.table, AskGetAndPut { key, value, expires_at_ms }).await
    }

    /// Removes the object of `key`, and returns it.
    ///
    /// # Errors
    /// See [`delete`](Self::delete).
    pub async fn get_and_delete(&self, key: impl AsRef<[u8]>) -> Result<Replaced, ClientError> {
        self.core.ask(self.table, AskGetAndDelete { key: Key::new(key.as_ref())? }).await
    }

    /// Lets the object of `key` cease to be after `lifetime`, whatever expiry it had. Says whether there is one,
    /// and which version it has now: another, though the value is the same, unless its expiry is too.
    ///
    /// # Errors
    /// See [`put`](Self::put): it is written anew with its expiry.
    pub async fn expire(
        &self,
        key: impl AsRef<[u8]>,
        lifetime: Duration,
    ) -> Result<Existence, ClientError> {
        self.expire_at(Key::new(key.as_ref())?, self.expiry(Some(lifetime))).await
    }

    /// Takes the expiry of the object of `key` back. Says whether there is one, and which version it has now.
    ///
    /// # Errors
    /// See [`expire`](Self::expire).
    pub async fn persist(&self, key: impl AsRef<[u8]>) -> Result<Existence, ClientError> {
        self.expire_at(Key::new(key.as_ref())?, None).await
    }

    async fn expire_at(
        &self,
        key: Key<'_>,
        expires_at_ms: Option<u64>,
    ) -> Result<Existence, ClientError> {
        let deadline = self.core.deadline();
        match self.core.ask_by(self.table, AskExpire { key, expires_at_ms }, deadline).await {
            Err(ClientError::Refused { code: ErrorCode::OnlyByUpload, .. }) => {
                self.core.expire_by_upload(self.table, key, expires_at_ms, deadline).await
            }
            done => done,
        }
    }
}
