//! Tables: making, dropping, emptying and counting them, and a client of each.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use weft_protocol::{
    Catalog, CatalogError, ErrorCode, TableAlteration, TableEntry, TableId, TableOptions,
    TableStats, TableStatsReply, TableUse, Truncate, TruncateReply,
};
use weft_transport::Time;

use super::Client;
use crate::error::ClientError;
use crate::range::{Range, RangeOptions};
use crate::remote::Remote;
use crate::retry::Effect;
use crate::table::Table;

/// A table, and what the cluster holds of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSummary {
    /// Its name.
    pub name: String,
    /// Its number, which is not given to another one before all others have been given out; after all nodes were started anew, only by chance.
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

    /// Makes a table on all nodes, which all have to answer. Returns this client for it.
    ///
    /// # Errors
    /// [`ClientError::Catalog`] if there is one of this name, the name is none, or there are too many tables;
    /// [`ClientError::PartlyApplied`] if a node does not answer and others have made it.
    pub async fn create_table(
        &self,
        name: &str,
        options: TableOptions,
    ) -> Result<Self, ClientError> {
        let catalog = self.core.change_tables(|catalog| catalog.with(name, options)).await?;
        let table = Table::named(name, &catalog).map_err(ClientError::Catalog)?;
        Ok(Self { core: Arc::clone(&self.core), table })
    }

    /// Changes the quota or the eviction of a table, which may be `default`, on all nodes, which all have to answer. What is there stays as it
    /// is.
    ///
    /// # Errors
    /// [`ClientError::Catalog`] if there is none of this name; [`ClientError::PartlyApplied`] if a node does not answer and others have changed it.
    pub async fn alter_table(
        &self,
        name: &str,
        change: TableAlteration,
    ) -> Result<(), ClientError> {
        self.core.change_tables(|catalog| catalog.altered(name, change)).await.map(drop)
    }

    /// Drops a table, with all its objects, on all nodes, which all have to answer. Clients of it are refused from then on.
    ///
    /// # Errors
    /// [`ClientError::Catalog`] if there is none of this name, or it is `default`; [`ClientError::PartlyApplied`] if a node does not
    /// answer and others have dropped it.
    pub async fn drop_table(&self, name: &str) -> Result<(), ClientError> {
        self.core.change_tables(|catalog| catalog.without(name)).await.map(drop)
    }

    /// All tables, `default` first, and what the cluster holds of each.
    ///
    /// # Errors
    /// See [`ClientError`]. All nodes have to answer.
    pub async fn tables(&self) -> Result<Vec<TableSummary>, ClientError> {
        let catalog = self.core.newest_catalog(|_| true, self.core.deadline()).await?;
        let default = TableEntry {
            id: TableId::DEFAULT,
            name: TableId::DEFAULT_NAME.to_owned(),
            options: catalog.default_options(),
        };
        let uses = self.table_uses().await?;
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

    /// How many objects this client's table has, expired ones that no node has met included.
    ///
    /// # Errors
    /// See [`ClientError`]. All nodes have to answer.
    pub async fn count(&self) -> Result<u64, ClientError> {
        let uses = self.table_uses().await?;
        let mut of_table = uses.iter().filter(|table| table.table == self.table.id).peekable();
        if of_table.peek().is_none() {
            let name = format!("number {}", self.table.id);
            return Err(ClientError::Catalog(CatalogError::Unknown { name }));
        }
        Ok(of_table.map(|table| table.objects).sum())
    }

    /// Removes all objects of this client's table. Returns how many there were.
    ///
    /// # Errors
    /// See [`ClientError`]; [`ClientError::PartlyApplied`] if the objects of some nodes are gone, and others did not answer.
    pub async fn truncate(&self) -> Result<u64, ClientError> {
        let cluster = self.core.keeper.current_owned();
        let (table, deadline) = (self.table.id, self.core.deadline());
        let request = Truncate { table, map_epoch: cluster.map().epoch_low() };
        let asked = cluster.remotes().iter().map(|remote| async move {
            let truncated = self.truncate_node(remote, request, deadline).await;
            if !matches!(&truncated, Err(error) if error.code() == ErrorCode::TableUnknown) {
                return truncated;
            }
            // It was started anew, maybe, and nobody has told it yet.
            self.core.settle_tables(deadline).await;
            self.truncate_node(remote, request, deadline).await
        });
        let all: Vec<Result<u64, _>> = asked.collect::<FuturesOrdered<_>>().collect().await;
        let is_partly = all.iter().any(Result::is_ok);
        let removed: Result<u64, ClientError> = all.into_iter().sum();
        removed.map_err(|error| if is_partly { error.after_others() } else { error })
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

    /// What each node holds of each table.
    async fn table_uses(&self) -> Result<Vec<TableUse>, ClientError> {
        let cluster = self.core.keeper.current_owned();
        let deadline = self.core.deadline();
        let asked = cluster.remotes().iter().map(|remote| async move {
            let asked = self.core.ask_node(remote, TableStats, Effect::Read, deadline).await;
            let (reply, connection) = asked?;
            let reply = TableStatsReply::decode(&reply);
            Ok(reply.map_err(|error| ClientError::of_reply(&connection, error))?.tables)
        });
        let all: Vec<_> = asked.collect::<FuturesOrdered<_>>().collect().await;
        let all: Result<Vec<Vec<TableUse>>, ClientError> = all.into_iter().collect();
        Ok(all?.into_iter().flatten().collect())
    }
}
