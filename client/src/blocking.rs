//! The client for callers that block.

mod fields;
mod graph;
mod revising;
mod tables;
mod typed;
mod watches;
mod workers;

pub use self::tables::BlockingRange;
pub use self::watches::BlockingWatch;

use std::time::Duration;

use weft_protocol::Version;
use weft_transport::NodeId;

use crate::client::{Client, HotKeys, NodeStats};
use crate::config::ClientConfig;
use crate::error::ClientError;
use crate::multi::{Multi, MultiOutcome};
use crate::object::{Deleted, Existence, Lookup, RangeLookup};
use crate::scan::{Scan, ScanCursor, ScanOptions, Scanned};

/// A [`Client`] whose operations block. While a thread waits it drives the client's connections
/// itself, for others that wait as well as for itself. Clones are cheap; give one to each thread.
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
/// use weft_client::{BlockingClient, ClientConfig};
///
/// let client = BlockingClient::connect(ClientConfig::new([address]))?;
/// client.put("shuttle", "weft")?;
/// assert_eq!(&*client.get("shuttle")?.into_object().expect("it has just been put"), b"weft");
/// # Ok::<(), weft_client::ClientError>(())
/// ```
#[derive(Debug, Clone)]
pub struct BlockingClient {
    client: Client,
}

impl BlockingClient {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// See [`Client::connect`].
    ///
    /// # Errors
    /// See [`Client::connect`].
    pub fn connect(config: ClientConfig) -> Result<Self, ClientError> {
        Client::connect_blocking(config).map(Self::new)
    }

    /// The same client for callers that do not block.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// See [`Client::get`].
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Lookup, ClientError> {
        self.client.block_on(self.client.get(key))
    }

    /// See [`Client::get_range`].
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get_range(
        &self,
        key: impl AsRef<[u8]>,
        offset: u64,
        len_max: u32,
    ) -> Result<RangeLookup, ClientError> {
        self.client.block_on(self.client.get_range(key, offset, len_max))
    }

    /// See [`Client::exists`].
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn exists(&self, key: impl AsRef<[u8]>) -> Result<Existence, ClientError> {
        self.client.block_on(self.client.exists(key))
    }

    /// See [`Client::put`].
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Version, ClientError> {
        self.client.block_on(self.client.put(key, value))
    }

    /// See [`Client::put_expiring`].
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn put_expiring(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: Duration,
    ) -> Result<Version, ClientError> {
        self.client.block_on(self.client.put_expiring(key, value, lifetime))
    }

    /// See [`Client::delete`].
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<Deleted, ClientError> {
        self.client.block_on(self.client.delete(key))
    }

    /// See [`Client::multi_get`].
    pub fn multi_get<'a, K: AsRef<[u8]>>(&self, keys: &'a [K]) -> BlockingMulti<'a, Lookup> {
        self.wait_for(self.client.multi_get(keys))
    }

    /// See [`Client::multi_put`].
    pub fn multi_put<'a, K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &'a [(K, V)],
    ) -> BlockingMulti<'a, Version> {
        self.wait_for(self.client.multi_put(pairs))
    }

    /// See [`Client::multi_put_until`].
    pub fn multi_put_until<'a, K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        objects: &'a [(K, V, Option<u64>)],
    ) -> BlockingMulti<'a, Version> {
        self.wait_for(self.client.multi_put_until(objects))
    }

    /// See [`Client::multi_delete`].
    pub fn multi_delete<'a, K: AsRef<[u8]>>(&self, keys: &'a [K]) -> BlockingMulti<'a, Deleted> {
        self.wait_for(self.client.multi_delete(keys))
    }

    /// See [`Client::scan`].
    ///
    /// # Errors
    /// See [`Client::scan`].
    pub fn scan(&self, options: ScanOptions) -> Result<BlockingScan, ClientError> {
        Ok(BlockingScan { client: self.client.clone(), scan: self.client.scan(options)? })
    }

    /// See [`Client::stats`].
    pub fn stats(&self) -> Vec<NodeStats> {
        self.client.block_on(self.client.stats())
    }

    /// See [`Client::hot_keys`].
    ///
    /// # Errors
    /// See [`Client::hot_keys`].
    pub fn hot_keys(&self, most: usize) -> Result<HotKeys, ClientError> {
        self.client.block_on(self.client.hot_keys(most))
    }

    /// See [`Client::ping`].
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn ping(&self, node: NodeId) -> Result<Duration, ClientError> {
        self.client.block_on(self.client.ping(node))
    }

    fn wait_for<'a, T>(&self, outcomes: Multi<'a, T>) -> BlockingMulti<'a, T> {
        BlockingMulti { client: self.client.clone(), outcomes }
    }
}

/// A [`Scan`] for callers that block: an iterator. After an error it may be told to go on.
#[derive(Debug)]
#[must_use = "nothing is asked before the first object is asked for"]
pub struct BlockingScan {
    client: Client,
    scan: Scan,
}

impl BlockingScan {
    /// See [`Scan::cursor`].
    pub fn cursor(&self) -> ScanCursor {
        self.scan.cursor()
    }

    /// See [`Scan::is_between_pages`].
    pub fn is_between_pages(&self) -> bool {
        self.scan.is_between_pages()
    }
}

impl Iterator for BlockingScan {
    type Item = Result<Scanned, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.client.block_on(self.scan.next())
    }
}

/// A [`Multi`] for callers that block: an iterator.
#[derive(Debug)]
#[must_use = "nothing is asked before the first outcome is asked for"]
pub struct BlockingMulti<'a, T> {
    client: Client,
    outcomes: Multi<'a, T>,
}

impl<T> BlockingMulti<'_, T> {
    /// See [`Multi::collect`]; named apart from [`Iterator::collect`].
    pub fn collect_in_order(self) -> Vec<Result<T, ClientError>> {
        self.client.block_on(self.outcomes.collect())
    }

    /// See [`Multi::try_collect`].
    ///
    /// # Errors
    /// See [`Multi::try_collect`].
    pub fn try_collect_in_order(self) -> Result<Vec<T>, ClientError> {
        self.client.block_on(self.outcomes.try_collect())
    }
}

impl<T> Iterator for BlockingMulti<'_, T> {
    type Item = MultiOutcome<T>;

    fn next(&mut self) -> Option<MultiOutcome<T>> {
        self.client.block_on(self.outcomes.next())
    }
}
