//! The client: what a program calls.

mod fields;
mod graph;
mod hot_keys;
mod partitions;
mod revising;
mod tables;
mod typed;
mod watches;
mod workers;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

pub use self::hot_keys::{HotKey, HotKeys};
pub use self::partitions::TablePartition;
pub use self::tables::TableSummary;
pub use self::workers::Registration;
use futures_util::StreamExt;
use futures_util::lock::Mutex;
use futures_util::stream::FuturesOrdered;
use rand::random;
use weft_protocol::{
    ClusterMap, Key, Map, MapReply, Stats, StatsReply, UploadEffect, Value, Version,
};
use weft_transport::{
    Endpoint, EndpointConfig, Incarnation, Memory, MemoryConfig, MemoryError, NoHandler, NodeId,
    Time,
};

use crate::blocking::BlockingClient;
use crate::catalog::CatalogHeard;
use crate::config::ClientConfig;
use crate::core::{Ask, Core};
use crate::error::{ClientError, NodeName};
use crate::limits::{BACKOFF, MEMORY_MIN_BYTES};
use crate::map_keeper::MapKeeper;
use crate::multi::{Multi, put_all, run};
use crate::object::{Deleted, Existence, Lookup, RangeLookup};
use crate::operation::delete::AskDelete;
use crate::operation::exists::AskExists;
use crate::operation::get::AskGet;
use crate::operation::get_range::AskGetRange;
use crate::operation::multi_delete::AskMultiDelete;
use crate::operation::multi_get::AskMultiGet;
use crate::operation::put::AskPut;
use crate::remote::Remote;
use crate::retry::Effect;
use crate::scan::{Scan, ScanOptions};
use crate::session::Session;
use crate::table::Table;
use crate::upload::{Start, Upload, Uploading};

/// A client of one cluster and one of its [tables](Self::table). Clones are the same client: they share its connections, its map
/// and its thread, so one is enough for a process, and so do the clients of other tables that it hands out.
///
/// Its futures run on any executor, for the client has a thread of its own that sends and receives.
/// A thread that has nothing else to do should wait by [`block_on`](Self::block_on) instead, or use
/// [`blocking`](Self::blocking): then it drives the connections itself while it waits, which saves
/// waking it.
///
/// Every operation ends within [`ClientConfig::timeout`], and is tried again within this time for as long as that can help. A mutation has its effect
/// once, however often it is tried: nodes remember what they have done for a client, for as long as that has a lease, which it keeps by itself. Where they do
/// not, or the time is over, the error of a mutation that may have been applied says so ([`ClientError::applied`]).
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
/// use weft_client::{Client, ClientConfig, ClientError};
///
/// async fn weave(client: &Client) -> Result<(), ClientError> {
///     let version = client.put(b"shuttle", b"weft").await?;
///     let object = client.get(b"shuttle").await?.into_object().expect("it has just been put");
///     assert_eq!((&*object, object.version()), (&b"weft"[..], version));
///     assert!(client.delete(b"shuttle").await?.existed);
///     Ok(())
/// }
///
/// let client = Client::connect_blocking(ClientConfig::new([address]))?;
/// client.block_on(weave(&client))?;
/// # Ok::<(), ClientError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    core: Arc<Core>,
    table: Table,
}

/// What a node says of itself, or why it says nothing.
#[derive(Debug, Clone)]
pub struct NodeStats {
    /// The node.
    pub node: NodeName,
    /// Its counters; [`stat_name`](weft_protocol::stat_name) names those that programs look up.
    pub stats: Result<StatsReply<'static>, ClientError>,
}

impl Client {
    /// Starts a client and fetches the cluster's map.
    ///
    /// # Errors
    /// [`ClientError::ClusterNotReachable`] as soon as every address has failed, or at the deadline;
    /// [`ClientError::Endpoint`] and [`ClientError::Memory`] if this process lacks the means.
    pub async fn connect(config: ClientConfig) -> Result<Self, ClientError> {
        let endpoint = start_endpoint(&config)?;
        Self::with_endpoint(endpoint, config).await
    }

    /// The same, waiting for it on this thread.
    ///
    /// # Errors
    /// See [`connect`](Self::connect).
    pub fn connect_blocking(config: ClientConfig) -> Result<Self, ClientError> {
        let endpoint = start_endpoint(&config)?;
        endpoint.block_on(Self::with_endpoint(endpoint.clone(), config))
    }

    /// A client on an endpoint that exists already: one that serves as well, or a simulated one. Of
    /// the configuration only the addresses and the timeout count. How soon a node that comes back is
    /// noticed is up to the endpoint's back-off; [`BACKOFF`] is that of a client's own.
    ///
    /// # Errors
    /// See [`connect`](Self::connect).
    pub async fn with_endpoint(
        endpoint: Endpoint,
        config: ClientConfig,
    ) -> Result<Self, ClientError> {
        let deadline = endpoint.clock().now() + config.timeout;
        let keeper = MapKeeper::start(&endpoint, &config.bootstrap, deadline).await?;
        let random = AtomicU64::new(endpoint.node().0);
        let core = Arc::new(Core {
            endpoint,
            config,
            keeper,
            session: Arc::new(Session::new()),
            lease_kept: Mutex::default(),
            catalog: CatalogHeard::default(),
            random,
        });
        Ok(Self { core, table: Table::DEFAULT })
    }

    /// The same client for callers that block.
    pub fn blocking(&self) -> BlockingClient {
        BlockingClient::new(self.clone())
    }

    /// Runs `future` on this thread until it is done, driving the client's connections in between.
    /// Many operations can be under way in one future.
    ///
    /// # Panics
    /// On a simulated endpoint.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.core.endpoint.block_on(future)
    }

    /// The endpoint that the client sends and receives by.
    pub fn endpoint(&self) -> &Endpoint {
        &self.core.endpoint
    }

    /// The object of `key`, or the version as of which it has none.
    ///
    /// # Errors
    /// See [`ClientError`].
    #[inline]
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Lookup, ClientError> {
        self.core.ask(self.table, AskGet { key: Key::new(key.as_ref())? }).await
    }

    /// Bytes of the value of `key`: at most `len_max` of them from `offset` on, fewer where the value ends. They
    /// are all that is sent.
    ///
    /// # Errors
    /// See [`ClientError`]. That the value ends before `offset` is no error: there are no bytes then.
    pub async fn get_range(
        &self,
        key: impl AsRef<[u8]>,
        offset: u64,
        len_max: u32,
    ) -> Result<RangeLookup, ClientError> {
        self.core
            .ask(self.table, AskGetRange { key: Key::new(key.as_ref())?, offset, len_max })
            .await
    }

    /// Whether `key` has an object, and as of which version.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn exists(&self, key: impl AsRef<[u8]>) -> Result<Existence, ClientError> {
        self.core.ask(self.table, AskExists { key: Key::new(key.as_ref())? }).await
    }

    /// Makes `value` the object of `key`. Returns the object's version.
    ///
    /// # Errors
    /// See [`ClientError`]; [`ClientError::applied`] says whether it may have been done nevertheless.
    #[inline]
    pub async fn put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Version, ClientError> {
        self.put_until(key.as_ref(), value.as_ref(), None).await
    }

    /// The same, for an object that ceases to be after `lifetime`, by this machine's clock.
    ///
    /// # Errors
    /// See [`put`](Self::put).
    pub async fn put_expiring(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: Duration,
    ) -> Result<Version, ClientError> {
        self.put_until(key.as_ref(), value.as_ref(), self.expiry(Some(lifetime))).await
    }

    /// When what lives for `lifetime` from now on ceases to be, in milliseconds of Unix time.
    fn expiry(&self, lifetime: Option<Duration>) -> Option<u64> {
        let lifetime_ms = u64::try_from(lifetime?.as_millis()).unwrap_or(u64::MAX);
        Some(self.core.endpoint.clock().unix_millis().saturating_add(lifetime_ms))
    }

    #[inline]
    async fn put_until(
        &self,
        key: &[u8],
        value: &[u8],
        expires_at_ms: Option<u64>,
    ) -> Result<Version, ClientError> {
        let key = Key::new(key)?;
        let Ok(value) = Value::new(value) else {
            let upload = whole(key, value, expires_at_ms);
            return self.upload::<AskPut<'_>>(upload, UploadEffect::Put).await;
        };
        self.core.ask(self.table, AskPut { key, value, expires_at_ms }).await
    }

    /// Brings a value that is too long for one request.
    #[cold]
    fn upload<'a, A: Ask + 'a>(
        &'a self,
        upload: Upload<'a>,
        effect: UploadEffect,
    ) -> Uploading<'a, A::Answer> {
        self.core.upload::<A>(self.table, upload, effect, self.core.deadline())
    }

    /// Removes the object of `key`. It is no error if there is none.
    ///
    /// # Errors
    /// See [`ClientError`]; [`ClientError::applied`] says whether it may have been done nevertheless.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<Deleted, ClientError> {
        self.core.ask(self.table, AskDelete { key: Key::new(key.as_ref())? }).await
    }

    /// The objects of many keys, from all the nodes that own some, in the order in which they come.
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
    /// use weft_client::Lookup;
    ///
    /// client.put(b"warp", b"lengthwise").await?;
    ///
    /// let keys = ["warp", "selvedge"];
    /// let mut objects = client.multi_get(&keys);
    /// while let Some(outcome) = objects.next().await {
    ///     match outcome {
    ///         Ok((index, Lookup::Found(object))) => {
    ///             println!("{} has {} bytes", keys[index], object.len());
    ///         }
    ///         Ok((index, Lookup::Absent { version })) => {
    ///             println!("{} has no object as of {version}", keys[index]);
    ///         }
    ///         Err((index, error)) => println!("{} is not to be had: {error}", keys[index]),
    ///     }
    /// }
    /// # Ok::<(), weft_client::ClientError>(())
    /// # })?;
    /// # Ok::<(), weft_client::ClientError>(())
    /// ```
    pub fn multi_get<'a, K: AsRef<[u8]>>(&self, keys: &'a [K]) -> Multi<'a, Lookup> {
        let elements = keys.iter().map(|key| Key::new(key.as_ref())).enumerate();
        let (core, deadline) = (Arc::clone(&self.core), self.core.deadline());
        Multi::new(run::<AskMultiGet<'a>>(core, self.table, elements, deadline), keys.len())
    }

    /// Writes many pairs of key and value, each a put of its own: some may succeed and others fail. Of several with one key, the last
    /// one stays.
    pub fn multi_put<'a, K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &'a [(K, V)],
    ) -> Multi<'a, Version> {
        let objects = pairs.iter().map(|(key, value)| (key.as_ref(), value.as_ref(), None));
        put_all(Arc::clone(&self.core), self.table, objects)
    }

    /// The same, each with the time at which its object ceases to be, in milliseconds of Unix time, if it does.
    pub fn multi_put_until<'a, K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        objects: &'a [(K, V, Option<u64>)],
    ) -> Multi<'a, Version> {
        let objects = objects
            .iter()
            .map(|(key, value, expires_at_ms)| (key.as_ref(), value.as_ref(), *expires_at_ms));
        put_all(Arc::clone(&self.core), self.table, objects)
    }

    /// Removes the objects of many keys, each a delete of its own: some may succeed and others fail.
    pub fn multi_delete<'a, K: AsRef<[u8]>>(&self, keys: &'a [K]) -> Multi<'a, Deleted> {
        let elements = keys.iter().map(|key| Key::new(key.as_ref())).enumerate();
        let (core, deadline) = (Arc::clone(&self.core), self.core.deadline());
        Multi::new(run::<AskMultiDelete<'a>>(core, self.table, elements, deadline), keys.len())
    }

    /// All objects, or those whose keys have a prefix, in an order of the nodes' own. Every object that is there from
    /// the beginning of the scan to its end is returned at least once (once, unless a node starts anew meanwhile); one
    /// that is written or removed meanwhile may be returned or not.
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
    /// use weft_client::ScanOptions;
    ///
    /// client.multi_put(&[("yarn:1", "wool"), ("yarn:2", "silk"), ("loom", "oak")]).collect().await;
    /// let options = ScanOptions { key_prefix: b"yarn:".to_vec(), ..ScanOptions::default() };
    /// let mut scan = client.scan(options)?;
    /// let mut keys = Vec::new();
    /// while let Some(object) = scan.next().await {
    ///     keys.push(object?.key);
    /// }
    /// keys.sort();
    /// assert_eq!(keys, [b"yarn:1", b"yarn:2"]);
    /// # Ok::<(), weft_client::ClientError>(())
    /// # })?;
    /// # Ok::<(), weft_client::ClientError>(())
    /// ```
    ///
    /// # Errors
    /// [`ClientError::Limit`] if the prefix is longer than a key may be.
    pub fn scan(&self, options: ScanOptions) -> Result<Scan, ClientError> {
        Ok(Scan::new(Arc::clone(&self.core), self.table, options)?)
    }

    /// The map that the client goes by.
    pub fn map(&self) -> Arc<ClusterMap> {
        Arc::clone(self.core.keeper.current().map())
    }

    /// What each node of the map says of itself, by id. One that does not answer is no error of the
    /// whole.
    pub async fn stats(&self) -> Vec<NodeStats> {
        let cluster = self.core.keeper.current_owned();
        let deadline = self.core.deadline();
        let asked = cluster.remotes().iter().map(|remote| async move {
            let stats = self.stats_of(remote, deadline).await;
            NodeStats { node: remote.name().clone(), stats }
        });
        asked.collect::<FuturesOrdered<_>>().collect().await
    }

    async fn stats_of(
        &self,
        remote: &Remote,
        deadline: Time,
    ) -> Result<StatsReply<'static>, ClientError> {
        let asked = self.core.ask_node(remote, Stats, Effect::Read, deadline).await;
        let (reply, connection) = asked?;
        let stats = StatsReply::decode(&reply);
        Ok(stats.map_err(|error| ClientError::of_reply(&connection, error))?.into_owned())
    }

    /// Asks one node for next to nothing, once. Returns how long the answer took, without
    /// connecting.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn ping(&self, node: NodeId) -> Result<Duration, ClientError> {
        let cluster = self.core.keeper.current_owned();
        let Some(remote) = cluster.remote(node) else {
            return Err(ClientError::UnknownNode { node });
        };
        let deadline = self.core.deadline();
        let connection = self.core.keeper.connect(&self.core.endpoint, remote, deadline).await?;
        let clock = self.core.endpoint.clock();
        let asked_at = clock.now();
        let timeout = self.core.config.timeout;
        let reply = connection.call(Map { known_epoch: cluster.epoch() }, deadline).await;
        let reply = reply
            .map_err(|error| ClientError::of_call(&connection, error, Effect::Read, timeout))?;
        let round_trip = clock.now().since(asked_at);
        MapReply::decode(&reply).map_err(|error| ClientError::of_reply(&connection, error))?;
        Ok(round_trip)
    }
}

/// The upload of a value of which the node has nothing.
fn whole<'a>(key: Key<'a>, bytes: &'a [u8], expires_at_ms: Option<u64>) -> Upload<'a> {
    Upload { key, start: Start::NONE, bytes, expires_at_ms, keeps_expiry: false }
}

fn start_endpoint(config: &ClientConfig) -> Result<Endpoint, ClientError> {
    let memory_of = |error: MemoryError| ClientError::Memory(Arc::new(error));
    let limit_bytes = config.memory_limit_bytes.max(MEMORY_MIN_BYTES);
    let memory = Memory::new(MemoryConfig { limit_bytes }).map_err(memory_of)?;
    // Nobody connects to a client, so nobody has to tell one life of it from another.
    let mut settings = EndpointConfig::new(NodeId::client(random()), Incarnation(1), memory);
    settings.poll = config.poll;
    settings.links = config.link;
    settings.verbs = config.verbs.clone();
    settings.reactors = config.reactors;
    settings.backoff = BACKOFF;
    Endpoint::start(settings, Arc::new(NoHandler))
        .map_err(|error| ClientError::Endpoint(Arc::new(error)))
}

#[cfg(test)]
mod tests {
    use weft_protocol::{TableAlteration, TableOptions, WorkerDescription};

    use super::*;
    use crate::range::RangeOptions;
    use crate::watch::WatchOptions;

    /// A multi-threaded executor takes all of them. That this compiles is the test.
    #[expect(dead_code, reason = "it is only compiled")]
    fn futures_can_move_between_threads(client: &Client, keys: &[Vec<u8>]) {
        fn check(_: impl Send) {}
        check(Client::connect(ClientConfig::new(["127.0.0.1:7400"])));
        check(client.get("key"));
        check(client.put("key", "value"));
        check(client.put_expiring("key", "value", Duration::ZERO));
        check(client.exists("key"));
        check(client.delete("key"));
        check(client.get_range("key", 0, 1));
        check(client.compare_and_set("key", Version::NONE, "value", None));
        check(client.increment("key", 1, None));
        check(client.append("key", "tail", None));
        check(client.get_and_put("key", "value", None));
        check(client.get_and_delete("key"));
        check(client.expire("key", Duration::ZERO));
        check(client.get_fields("key", &["name"]));
        check(client.put_fields("key", &[("name", "value")], None));
        check(async { client.scan(ScanOptions::default()).unwrap().next().await });
        check(client.multi_get(keys).try_collect());
        check(client.table("name"));
        check(client.create_table("name", TableOptions::default()));
        check(client.alter_table("name", TableAlteration::default()));
        check(client.drop_table("name"));
        check(client.tables());
        let worker = WorkerDescription { address: "host:1", slots: 1, build: "", process: 1 };
        check(client.register_worker(worker, None));
        check(client.renew_worker(1));
        check(client.unregister_worker(1));
        check(client.workers());
        check(client.truncate());
        check(client.count());
        check(async { client.range(RangeOptions::default()).unwrap().next().await });
        check(client.watch("key", WatchOptions::default()));
        check(client.watch_prefix("key", WatchOptions::default()));
        check(async { client.watch("key", WatchOptions::default()).await?.next().await });
        check(client.stats());
        check(client.ping(NodeId(1)));
    }
}
