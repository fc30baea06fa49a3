//! Tables: making, dropping, emptying and counting them, and a client of each.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use weft_protocol::{
    AlterTable, Catalog, CatalogError, CreateTable, CreateTableReply, DropTable, ErrorCode,
    ReplyError, TableAlteration, TableChangedReply, TableClass, TableEntry, TableId, TableOptions,
    TableStats, TableStatsReply, TableUse, Truncate, TruncateReply,
};
use weft_transport::{NodeId, Time};

use super::Client;
use crate::catalog::is_name;
use crate::cluster::Cluster;
use crate::error::ClientError;
use crate::limits::{CATALOG_PATIENCE, SERVER_PATIENCE};
use crate::range::{Range, RangeOptions};
use crate::remote::Remote;
use crate::retry::{Effect, Identity, MapNeed, Retry};
use crate::table::Table;

/// A table, and what the cluster holds of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSummary {
    /// Its name.
    pub name: String,
    /// Its number, which is not given to another one before all others have been given out.
    pub id: TableId,
    /// What it is like.
    pub options: TableOptions,
    /// Objects of all nodes, expired ones that no node has met included.
    pub objects: u64,
    /// Bytes of their records in the nodes' logs, headers included.
    pub bytes: u64,
}

impl Client {
    /// The same client for another table: all its operations are on objects of that one. A client that has just connected is for
    /// the table `default`, which is always there.
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
    /// use weft_client::{RangeOptions, TableOptions};
    ///
    /// let ordered = TableOptions { ordered: true, ..TableOptions::default() };
    /// let yarns = client.create_table("yarns", ordered).await?;
    /// for name in ["silk", "wool", "cotton"] {
    ///     yarns.put(name, "10 kg").await?;
    /// }
    /// assert!(!client.exists("silk").await?.exists, "the table default has no such key");
    ///
    /// let mut from_d = yarns.range(RangeOptions::from(b"d"))?;
    /// let first = from_d.next().await.expect("there is silk")?;
    /// assert_eq!(first.key, b"silk");
    /// assert_eq!(client.table("yarns").await?.count().await?, 3);
    /// # Ok::<(), weft_client::ClientError>(())
    /// # })?;
    /// # Ok::<(), weft_client::ClientError>(())
    /// ```
    ///
    /// # Errors
    /// [`ClientError::Catalog`] if there is none of this name. That is found out when all nodes have answered or their time is over; where
    /// one has the name, others that hang are waited for a quarter of a second.
    pub async fn table(&self, name: &str) -> Result<Self, ClientError> {
        // What another node may know besides is a table of this name that was made anew just now.
        let has_name = |catalog: &Catalog| catalog.id_of(name).is_ok();
        let catalog = self.core.newest_catalog(has_name, self.core.deadline()).await?;
        let table = Table::named(name, &catalog).map_err(ClientError::Catalog)?;
        Ok(Self { core: Arc::clone(&self.core), table })
    }

    /// Has the cluster make a table. Returns this client for it.
    ///
    /// # Errors
    /// [`ClientError::Catalog`] if there is one of this name, the name is none, or there are too many tables; [`ClientError::Undecided`]
    /// (`WEFT-1123`) if too few coordinators answer until the time is over.
    pub async fn create_table(
        &self,
        name: &str,
        options: TableOptions,
    ) -> Result<Self, ClientError> {
        // What no cluster could do needs nobody to decide it.
        Catalog::default().with(name, options).map_err(ClientError::Catalog)?;
        let request = |completion| CreateTable { completion, name, options };
        let id = self.core.change_tables(name, request, read_created).await?;
        let table = Table { id, class: options.class() };
        Ok(Self { core: Arc::clone(&self.core), table })
    }

    /// Changes the quota or the eviction of a table, which may be `default`, for the whole cluster. What is there stays as it is.
    ///
    /// # Errors
    /// [`ClientError::Catalog`] if there is none of this name; [`ClientError::Undecided`] (`WEFT-1123`) if too few coordinators answer until the
    /// time is over.
    pub async fn alter_table(
        &self,
        name: &str,
        change: TableAlteration,
    ) -> Result<(), ClientError> {
        check_named(name)?;
        let request = |completion| AlterTable { completion, name, change };
        self.core.change_tables(name, request, read_changed).await
    }

    /// Has the cluster drop a table, with all its objects. Clients of it are refused as soon as nodes have learned of it, which is
    /// within milliseconds.
    ///
    /// # Errors
    /// [`ClientError::Catalog`] if there is none of this name, or it is `default`; [`ClientError::Undecided`] (`WEFT-1123`) if too few
    /// coordinators answer until the time is over.
    pub async fn drop_table(&self, name: &str) -> Result<(), ClientError> {
        if name == TableId::DEFAULT_NAME {
            return Err(ClientError::Catalog(CatalogError::Default));
        }
        check_named(name)?;
        let request = |completion| DropTable { completion, name };
        self.core.change_tables(name, request, read_changed).await
    }

    /// All tables, `default` first, and what the cluster holds of each.
    ///
    /// # Errors
    /// See [`ClientError`]. All nodes that serve some table have to answer.
    pub async fn tables(&self) -> Result<Vec<TableSummary>, ClientError> {
        let catalog = self.core.newest_catalog(|_| true, self.core.deadline()).await?;
        let default = TableEntry {
            id: TableId::DEFAULT,
            name: TableId::DEFAULT_NAME.to_owned(),
            options: catalog.default_options(),
        };
        let classes: Vec<TableClass> = std::iter::once(&default)
            .chain(catalog.tables())
            .map(|table| table.options.class())
            .collect();
        let uses = self.table_uses(|cluster| Ok(cluster.servers_of(&classes))).await?;
        let summary = |TableEntry { id, name, options }: TableEntry| {
            let of_table = || uses.iter().filter(|table| table.table == id);
            TableSummary {
                name,
                id,
                options,
                objects: of_table().map(|table| table.objects).sum(),
                bytes: of_table().map(|table| table.bytes).sum(),
            }
        };
        Ok(std::iter::once(default).chain(catalog.tables().to_vec()).map(summary).collect())
    }

    /// How many objects this client's table has, expired ones that no node has met included: the sum of what each node holds as a primary when it is asked. While
    /// partitions change hands, some may be counted twice or not at all.
    ///
    /// # Errors
    /// See [`ClientError`]. Every partition has to be served by a node that answers.
    pub async fn count(&self) -> Result<u64, ClientError> {
        let uses = self.table_uses(|cluster| cluster.servers(self.table)).await?;
        let of_table = uses.into_iter().filter(|table| table.table == self.table.id);
        let objects: Vec<u64> = of_table.map(|table| table.objects).collect();
        // Of one that was made just now, nodes may not know yet that it has nothing.
        if objects.is_empty() && self.core.is_gone(self.table, self.core.deadline()).await {
            let name = format!("number {}", self.table.id);
            return Err(ClientError::Catalog(CatalogError::Unknown { name }));
        }
        Ok(objects.into_iter().sum())
    }

    /// Removes all objects of this client's table. Returns how many there were. What is written while this goes on may be removed or not.
    ///
    /// # Errors
    /// See [`ClientError`]; [`ClientError::PartlyApplied`] if some objects are gone, and others may not be.
    pub async fn truncate(&self) -> Result<u64, ClientError> {
        let deadline = self.core.deadline();
        let mut retry = Retry::new(Effect::Mutation, deadline);
        let (mut removed, mut is_partly) = (0, false);
        loop {
            let cluster = self.core.keeper.current_owned();
            let (table, map_epoch) = (self.table.id, cluster.map().epoch_low());
            let request = Truncate { table, map_epoch };
            let (servers, mut refused) = match cluster.servers(self.table) {
                Ok(servers) => (servers, None),
                Err(error) => (BTreeSet::new(), Some(error)),
            };
            let now = self.core.endpoint.clock().now();
            // As in `table_uses_by`: others may serve by a newer map, and need not answer.
            let remotes = if refused.is_none() { cluster.remotes() } else { &[] };
            let asked = remotes.iter().map(|remote| {
                let serves = servers.contains(&remote.name().id);
                let until = if serves { deadline } else { deadline.min(now + CATALOG_PATIENCE) };
                async move { (serves, self.truncate_node(remote, request, until).await) }
            });
            let all: Vec<(bool, Result<u64, _>)> =
                asked.collect::<FuturesOrdered<_>>().collect().await;
            for (serves, of_node) in all {
                match of_node {
                    Ok(objects) => {
                        removed += objects;
                        is_partly |= serves || objects > 0;
                    }
                    Err(_) if !serves => {}
                    Err(error) => {
                        // It goes from one partition to the next, up to the one that it does not serve.
                        is_partly |= error.code() == ErrorCode::NotServing;
                        refused.get_or_insert(error);
                    }
                }
            }
            let Some(error) = refused else {
                if self.is_newest(&cluster, deadline).await {
                    return Ok(removed);
                }
                continue;
            };
            // It may not have learned of the table yet, or partitions are changing hands. Nodes that have done it do it again: some of what was elsewhere may be theirs now.
            let need = retry.need(&error, cluster.epoch(), Identity::None);
            match need.and_then(|need| self.core.next_attempt(&mut retry, need)) {
                Some(next) => self.core.prepare(self.table, next, &mut retry).await,
                None if is_partly => return Err(error.after_others()),
                None => return Err(error),
            }
        }
    }

    async fn truncate_node(
        &self,
        remote: &Remote,
        request: Truncate,
        deadline: Time,
    ) -> Result<u64, ClientError> {
        let asked = self.core.ask_node(remote, request, Effect::Mutation, deadline).await;
        let (reply, connection) = asked?;
        let reply = TruncateReply::decode(&reply);
        Ok(reply.map_err(|error| ClientError::of_reply(&connection, error))?.removed)
    }

    /// The objects of this client's table, an ordered one, whose keys are within bounds, in the order of the keys: of all nodes,
    /// merged. Objects that are there from the beginning to the end are returned once; one that is written or removed meanwhile may
    /// be returned or not.
    ///
    /// # Errors
    /// [`ClientError::Limit`] if a bound is longer than a key may be. A table that is not ordered is told by the first object.
    pub fn range(&self, options: RangeOptions) -> Result<Range, ClientError> {
        Ok(Range::new(Arc::clone(&self.core), self.table, options)?)
    }

    /// What the nodes hold of each table. `servers` says which of a map's have to answer.
    ///
    /// All are asked, since others may serve by a newer map, and once more if there is one.
    async fn table_uses(
        &self,
        servers: impl Fn(&Cluster) -> Result<BTreeSet<NodeId>, ClientError>,
    ) -> Result<Vec<TableUse>, ClientError> {
        let deadline = self.core.deadline();
        let mut retry = Retry::new(Effect::Read, deadline);
        loop {
            let cluster = self.core.keeper.current_owned();
            let uses = match servers(&cluster) {
                Ok(servers) => self.table_uses_by(&cluster, &servers, deadline).await,
                Err(error) => Err(error),
            };
            let error = match uses {
                Ok(uses) if self.is_newest(&cluster, deadline).await => return Ok(uses),
                Ok(_) => continue,
                Err(error) => error,
            };
            // A node may have died, and others be about to serve what it did.
            let need = retry.need(&error, cluster.epoch(), Identity::None);
            match need.and_then(|need| self.core.next_attempt(&mut retry, need)) {
                Some(next) => self.core.prepare(self.table, next, &mut retry).await,
                None => return Err(error),
            }
        }
    }

    async fn table_uses_by(
        &self,
        cluster: &Cluster,
        servers: &BTreeSet<NodeId>,
        deadline: Time,
    ) -> Result<Vec<TableUse>, ClientError> {
        let now = self.core.endpoint.clock().now();
        let asked = cluster.remotes().iter().map(|remote| {
            let serves = servers.contains(&remote.name().id);
            let patience = if serves { SERVER_PATIENCE } else { CATALOG_PATIENCE };
            async move {
                let uses = self.table_uses_of(remote, deadline.min(now + patience)).await;
                uses.or_else(|error| if serves { Err(error) } else { Ok(Vec::new()) })
            }
        });
        let all: Vec<_> = asked.collect::<FuturesOrdered<_>>().collect().await;
        let all: Result<Vec<Vec<TableUse>>, ClientError> = all.into_iter().collect();
        Ok(all?.into_iter().flatten().collect())
    }

    async fn table_uses_of(
        &self,
        remote: &Remote,
        deadline: Time,
    ) -> Result<Vec<TableUse>, ClientError> {
        let asked = self.core.ask_node(remote, TableStats, Effect::Read, deadline).await;
        let (reply, connection) = asked?;
        let reply = TableStatsReply::decode(&reply);
        Ok(reply.map_err(|error| ClientError::of_reply(&connection, error))?.tables)
    }

    /// Whether the first node that answers knows of no newer map than `cluster` is of, now or when it was last asked, less than `MAP_FRESH` ago.
    async fn is_newest(&self, cluster: &Cluster, deadline: Time) -> bool {
        let keeper = &self.core.keeper;
        keeper.provide(&self.core.endpoint, MapNeed::Recheck, deadline).await;
        keeper.current_owned().epoch() == cluster.epoch()
    }
}

/// # Errors
/// [`CatalogError::Unknown`], if no table can have this name.
fn check_named(name: &str) -> Result<(), ClientError> {
    if is_name(name) {
        return Ok(());
    }
    Err(ClientError::Catalog(CatalogError::Unknown { name: name.to_owned() }))
}

fn read_created(message: &[u8]) -> Result<(TableId, u64), ReplyError<'_>> {
    let CreateTableReply { table, catalog_version } = CreateTableReply::decode(message)?;
    Ok((table, catalog_version))
}

fn read_changed(message: &[u8]) -> Result<((), u64), ReplyError<'_>> {
    let TableChangedReply { catalog_version } = TableChangedReply::decode(message)?;
    Ok(((), catalog_version))
}
