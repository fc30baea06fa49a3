//! Watches: being told what happens to a key, or to the keys with a prefix.

use std::sync::Arc;

use weft_protocol::Key;

use super::Client;
use crate::error::ClientError;
use crate::watch::{Watch, WatchOptions};

impl Client {
    /// Has what happens to `key` told from now on: [`Watch::found`] says what there is at this moment, and each write, deletion, expiry and
    /// eviction after it is an event, without its value. None is left out without an error that says so.
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
    /// use weft_client::{KeyChange, WatchEvent, WatchOptions};
    ///
    /// let mut watch = client.watch("loom", WatchOptions::default()).await?;
    /// assert!(watch.found().is_some_and(|found| !found.exists));
    ///
    /// let version = client.put("loom", "oak").await?;
    /// let event = watch.next().await?;
    /// assert_eq!(
    ///     event,
    ///     WatchEvent::Key { key: b"loom".to_vec(), change: KeyChange::Written, version }
    /// );
    /// # Ok::<(), weft_client::ClientError>(())
    /// # })?;
    /// # Ok::<(), weft_client::ClientError>(())
    /// ```
    ///
    /// # Errors
    /// See [`ClientError`]; the node may take no more watches
    /// ([`ErrorCode::TooManyWatches`](crate::ErrorCode::TooManyWatches)).
    pub async fn watch(
        &self,
        key: impl AsRef<[u8]>,
        options: WatchOptions,
    ) -> Result<Watch, ClientError> {
        let key = Key::new(key.as_ref())?;
        Watch::of_key(Arc::clone(&self.core), self.table, key, options).await
    }

    /// The same of all keys that begin with `prefix`, those that come to be included: of all keys of the table, if it is empty. All
    /// nodes have to answer. What happened before this returns may be told or not; what happens afterwards is.
    ///
    /// # Errors
    /// See [`watch`](Self::watch).
    pub async fn watch_prefix(
        &self,
        prefix: impl AsRef<[u8]>,
        options: WatchOptions,
    ) -> Result<Watch, ClientError> {
        let prefix = Key::new(prefix.as_ref())?;
        Watch::of_prefix(Arc::clone(&self.core), self.table, prefix, options).await
    }
}
