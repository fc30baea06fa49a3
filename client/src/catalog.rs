//! How the nodes of a cluster come to agree about its tables: clients see to it.
//!
//! A node keeps the catalog that it was given last, and takes another one only in the place of the version that the client has read
//! from that very node. Whoever changes the tables reads the catalogs of all nodes, makes the next version of the newest one, and
//! gives it to one node after the other, by their ids. So of two that change them at the same time one finds another version at the
//! first node, and begins anew: what the first node has taken is decided. A newer catalog that is found at one of the others was made
//! of that. Should two catalogs of one version ever be about (the first node was started anew in between), the one of the last node
//! counts: whoever got that far was done everywhere.
//!
//! A node that was started anew knows no tables. Whoever is told by one that there is no such table gives it, and all that have an older
//! one, the newest catalog, and tries again.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, FutureExt, select};
use futures_util::stream::{FuturesOrdered, FuturesUnordered, StreamExt};
use weft_protocol::{
    Catalog, CatalogBytes, CatalogError, PutTables, PutTablesReply, TableId, Tables, TablesReply,
};
use weft_transport::{Body, Reply, Time};

use crate::core::Core;
use crate::error::ClientError;
use crate::limits::{CATALOG_PATIENCE, PAUSE_MAX};
use crate::remote::Remote;
use crate::retry::Effect;

/// A node, and the version of the catalog that it has.
type Known = (Arc<Remote>, u64);

impl Core {
    /// Asks one node, once.
    pub(crate) async fn ask_node(
        &self,
        remote: &Remote,
        request: impl Body,
        effect: Effect,
        deadline: Time,
    ) -> Result<(Reply, weft_transport::Connection), ClientError> {
        let connection = self.keeper.connect(&self.endpoint, remote, deadline).await?;
        match connection.call(request, deadline).await {
            Ok(reply) => Ok((reply, connection)),
            Err(error) => {
                Err(ClientError::of_call(&connection, error, effect, self.config.timeout))
            }
        }
    }

    /// The newest catalog of those nodes that answer. If it `will_do`, a node that hangs is not waited for longer than
    /// [`CATALOG_PATIENCE`] behind the first answer.
    ///
    /// # Errors
    /// The last one, if none does.
    pub(crate) async fn newest_catalog(
        &self,
        will_do: impl Fn(&Catalog) -> bool,
        deadline: Time,
    ) -> Result<Catalog, ClientError> {
        let (answers, failed) = self.first_catalogs(will_do, deadline).await;
        match newest(answers.into_iter().map(|(_, catalog)| catalog)) {
            Some(catalog) => Ok(catalog),
            None => Err(failed.expect("a cluster has a node")),
        }
    }

    /// The catalogs of the nodes that answer: of all until `deadline`, unless one that `will_do` is among those that have come
    /// [`CATALOG_PATIENCE`] after the first. And the last error.
    async fn first_catalogs(
        &self,
        will_do: impl Fn(&Catalog) -> bool,
        deadline: Time,
    ) -> (Vec<(Arc<Remote>, Catalog)>, Option<ClientError>) {
        let cluster = self.keeper.current_owned();
        let asked = cluster.remotes().iter().map(|remote| self.catalog_of(remote, deadline));
        let mut asked = asked.collect::<FuturesUnordered<_>>();
        let (mut answers, mut failed) = (Vec::<(Arc<Remote>, Catalog)>::new(), None);
        let mut patience = pin!(self.endpoint.sleep_until(Time::MAX).fuse());
        let mut is_over = false;
        loop {
            if is_over && answers.iter().any(|(_, catalog)| will_do(catalog)) {
                break;
            }
            let next = if is_over {
                asked.next().await
            } else {
                match select(asked.next(), patience.as_mut()).await {
                    Either::Left((next, _)) => next,
                    Either::Right(_) => {
                        is_over = true;
                        continue;
                    }
                }
            };
            match next {
                Some(Ok(answer)) => {
                    if answers.is_empty() {
                        let until = self.endpoint.clock().now() + CATALOG_PATIENCE;
                        patience.set(self.endpoint.sleep_until(until).fuse());
                    }
                    answers.push(answer);
                }
                Some(Err(error)) => failed = Some(error),
                None => break,
            }
        }
        answers.sort_by_key(|(remote, _)| remote.name().id);
        (answers, failed)
    }

    /// Has all nodes take the catalog that `change` makes of the newest one. Returns it.
    ///
    /// # Errors
    /// What `change` says, or a node that does not answer; nodes before it may have taken the new catalog then.
    pub(crate) async fn change_tables(
        &self,
        change: impl Fn(&Catalog) -> Result<Catalog, CatalogError>,
    ) -> Result<Catalog, ClientError> {
        let deadline = self.deadline();
        loop {
            let catalogs: Result<Vec<_>, _> = self.catalogs(deadline).await.into_iter().collect();
            let (known, current) = of_nodes(catalogs?);
            let mut current = current.expect("a cluster has a node");
            if current.version() == 0 {
                // Not from 1 on: after all nodes were started anew, a client that has an old table open is not to find another one
                // under its number.
                current = Catalog::numbered_after(TableId(self.random() as u16));
            }
            let next = change(&current).map_err(ClientError::Catalog)?;
            let (first, others) = known.split_first().expect("a cluster has a node");
            if self.give(first, &next, deadline).await?.is_none() {
                let given = self.give_all(others, &next, deadline).await;
                return given.map(|()| next).map_err(ClientError::after_others);
            }
            let again = self.endpoint.clock().now() + PAUSE_MAX.mul_f64(self.random_share());
            if again >= deadline {
                return Err(ClientError::TablesUnsettled { timeout: self.config.timeout });
            }
            self.endpoint.sleep_until(again).await;
        }
    }

    /// Gives the newest catalog to nodes that have an older one, as far as they answer; unless somebody has begun to do so since this
    /// was called.
    pub(crate) async fn settle_tables(&self, deadline: Time) {
        let asked_at = self.endpoint.clock().now();
        let mut settled = self.tables_settled.lock().await;
        if settled.is_some_and(|began| began >= asked_at) {
            return;
        }
        let began = self.endpoint.clock().now();
        let (answers, _) = self.first_catalogs(|_| true, deadline).await;
        let (mut behind, newest) = of_nodes(answers);
        if let Some(newest) = newest {
            behind.retain(|(_, version)| *version < newest.version());
            // Who does not answer is told when it does.
            let _ = self.give_all(&behind, &newest, deadline).await;
        }
        *settled = Some(began);
    }

    async fn catalogs(&self, deadline: Time) -> Vec<Result<(Arc<Remote>, Catalog), ClientError>> {
        let cluster = self.keeper.current_owned();
        let asked = cluster.remotes().iter().map(|remote| self.catalog_of(remote, deadline));
        asked.collect::<FuturesOrdered<_>>().collect().await
    }

    async fn catalog_of(
        &self,
        remote: &Arc<Remote>,
        deadline: Time,
    ) -> Result<(Arc<Remote>, Catalog), ClientError> {
        let asked = self.ask_node(remote, Tables, Effect::Read, deadline).await;
        let (reply, connection) = asked?;
        let reply = TablesReply::decode(&reply);
        let reply = reply.map_err(|error| ClientError::of_reply(&connection, error))?;
        Ok((Arc::clone(remote), reply.catalog))
    }

    /// Gives a decided `catalog` to nodes that are known to have older ones.
    async fn give_all(
        &self,
        known: &[Known],
        catalog: &Catalog,
        deadline: Time,
    ) -> Result<(), ClientError> {
        for known in known {
            let mut known = known.clone();
            // One that has an older catalog after all was started anew meanwhile.
            while let Some(version) = self.give(&known, catalog, deadline).await?
                && version < catalog.version()
            {
                known.1 = version;
            }
        }
        Ok(())
    }

    /// Gives `catalog` to a node in the place of the version that it is known to have. Returns the version that it has if that is another
    /// one; it stays then.
    async fn give(
        &self,
        (remote, known): &Known,
        catalog: &Catalog,
        deadline: Time,
    ) -> Result<Option<u64>, ClientError> {
        let mut buffer = Vec::new();
        let bytes = CatalogBytes::of(catalog, &mut buffer);
        let put = PutTables { expected: *known, catalog: bytes };
        let asked = self.ask_node(remote, put, Effect::Mutation, deadline).await;
        let (reply, connection) = asked?;
        match PutTablesReply::decode(&reply) {
            Ok(PutTablesReply::Done { .. }) => Ok(None),
            Ok(PutTablesReply::Conflict { version }) => Ok(Some(version)),
            Err(error) => Err(ClientError::of_reply(&connection, error)),
        }
    }
}

/// Which version each node has, and the newest catalog.
fn of_nodes(catalogs: Vec<(Arc<Remote>, Catalog)>) -> (Vec<Known>, Option<Catalog>) {
    let known = catalogs.iter().map(|(remote, catalog)| (Arc::clone(remote), catalog.version()));
    (known.collect(), newest(catalogs.into_iter().map(|(_, catalog)| catalog)))
}

/// Of the newest version; of several of these, the last node's.
fn newest(catalogs: impl IntoIterator<Item = Catalog>) -> Option<Catalog> {
    catalogs.into_iter().max_by_key(Catalog::version)
}
