//! What the coordinators decide for clients, and which tables there are by that.
//!
//! Any node has the coordinators change the tables, and answers when that is decided, with the version of a catalog in which it is so. One node is
//! asked after the other, each for a while, under one completion id: so it is one proposal, that is done once.
//!
//! Nodes learn of a new catalog a moment later, each by itself. So this client remembers the newest version that it was told of, and takes no
//! older catalog for an answer: a node that does not know a table is asked again, until a catalog that is new enough says that there is no such table.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::{Either, FutureExt, select};
use futures_util::lock::Mutex;
use futures_util::stream::{FuturesUnordered, StreamExt};
use weft_protocol::{
    Catalog, CatalogError, Completion, ErrorCode, ReplyError, TableOptions, Tables, TablesReply,
};
use weft_transport::{Body, Reply, Time};

use crate::core::Core;
use crate::error::ClientError;
use crate::limits::{CATALOG_PATIENCE, DECISION_PATIENCE, SPREAD_PATIENCE};
use crate::remote::Remote;
use crate::retry::{Effect, Identity, MapNeed, Retry, told};
use crate::session::{Session, Ticket};
use crate::table::Table;

/// What this client has heard of the cluster's catalog.
#[derive(Debug, Default)]
pub(crate) struct CatalogHeard {
    /// The newest version.
    version: AtomicU64,
    /// What was found when nodes were last asked about a table that one does not know, and when that began; whoever holds the lock asks them.
    looked_up: Mutex<Option<(Time, Catalog)>>,
}

impl CatalogHeard {
    /// There is a catalog of this version.
    fn of(&self, version: u64) {
        self.version.fetch_max(version, Ordering::Relaxed);
    }

    fn is_outdated(&self, catalog: &Catalog) -> bool {
        catalog.version() < self.version.load(Ordering::Relaxed)
    }
}

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

    /// The newest catalog of those nodes that answer, at least as new as any that this client was told of. If it `will_do`, a node that hangs is not
    /// waited for longer than [`CATALOG_PATIENCE`] behind the first answer.
    ///
    /// # Errors
    /// The last one, if no node answers; [`ClientError::TablesUnsettled`] if those that do have older ones.
    pub(crate) async fn newest_catalog(
        &self,
        will_do: impl Fn(&Catalog) -> bool,
        deadline: Time,
    ) -> Result<Catalog, ClientError> {
        let mut retry = Retry::new(Effect::Read, deadline);
        loop {
            let will_do =
                |catalog: &Catalog| !self.catalog.is_outdated(catalog) && will_do(catalog);
            let (answers, failed) = self.first_catalogs(will_do, deadline).await;
            let Some(newest) = answers.into_iter().max_by_key(Catalog::version) else {
                return Err(failed.expect("a cluster has a node"));
            };
            if !self.catalog.is_outdated(&newest) {
                self.catalog.of(newest.version());
                return Ok(newest);
            }
            let Some(next) = self.next_attempt(&mut retry, MapNeed::Recheck) else {
                return Err(ClientError::TablesUnsettled { timeout: self.config.timeout });
            };
            self.endpoint.sleep_until(next.at).await;
        }
    }

    /// The catalogs of the nodes that answer: of all until `deadline`, unless one that `will_do` is among those that have come
    /// [`CATALOG_PATIENCE`] after the first. And the last error.
    async fn first_catalogs(
        &self,
        will_do: impl Fn(&Catalog) -> bool,
        deadline: Time,
    ) -> (Vec<Catalog>, Option<ClientError>) {
        let cluster = self.keeper.current_owned();
        let asked = cluster.remotes().iter().map(|remote| self.catalog_of(remote, deadline));
        let mut asked = asked.collect::<FuturesUnordered<_>>();
        let (mut answers, mut failed) = (Vec::<Catalog>::new(), None);
        let mut patience = pin!(self.endpoint.sleep_until(Time::MAX).fuse());
        let mut is_over = false;
        loop {
            if is_over && answers.iter().any(&will_do) {
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
        (answers, failed)
    }

    async fn catalog_of(
        &self,
        remote: &Arc<Remote>,
        deadline: Time,
    ) -> Result<Catalog, ClientError> {
        let asked = self.ask_node(remote, Tables, Effect::Read, deadline).await;
        let (reply, connection) = asked?;
        let reply = TablesReply::decode(&reply);
        Ok(reply.map_err(|error| ClientError::of_reply(&connection, error))?.catalog)
    }

    /// Whether there is no such table any more, by a catalog that is new enough and was asked for after this was called. As long as no node has one,
    /// it is taken to be there.
    pub(crate) async fn is_gone(&self, table: Table, deadline: Time) -> bool {
        let asked_at = self.endpoint.clock().now();
        let mut looked_up = self.catalog.looked_up.lock().await;
        let is_fresh = looked_up.as_ref().is_some_and(|(began, catalog)| {
            *began >= asked_at && !self.catalog.is_outdated(catalog)
        });
        if !is_fresh {
            let began = self.endpoint.clock().now();
            let Ok(catalog) = self.newest_catalog(|_| true, deadline).await else { return false };
            *looked_up = Some((began, catalog));
        }
        let found = looked_up.as_ref().map(|(_, catalog)| catalog.class_of(table.id));
        found.is_some_and(|class| class != Some(table.class))
    }

    /// Has the coordinators decide a `request` about the table of this name. Returns what is `read` from the reply, with the version of the catalog in which it is so; nodes know that one by then, as a rule.
    ///
    /// # Errors
    /// [`ClientError::Catalog`] if the rules of tables forbid it; [`ClientError::Undecided`] if the coordinators have not decided in time.
    pub(crate) async fn change_tables<B: Body, T>(
        &self,
        name: &str,
        request: impl Fn(Option<Completion>) -> B,
        read: impl Fn(&[u8]) -> Result<(T, u64), ReplyError<'_>>,
    ) -> Result<T, ClientError> {
        let deadline = self.deadline();
        let decided = self.propose(request, read, deadline).await;
        let (told, version) = decided.map_err(|error| forbidden(error, name))?;
        self.catalog.of(version);
        self.see_spread(deadline).await;
        Ok(told)
    }

    /// Has the coordinators decide a `request`, which is one and the same however often it has to be made. Returns what is `read` from the reply.
    ///
    /// # Errors
    /// What they say; [`ClientError::Undecided`] if they have not decided in time.
    pub(crate) async fn propose<B: Body, T>(
        &self,
        request: impl Fn(Option<Completion>) -> B,
        read: impl Fn(&[u8]) -> Result<T, ReplyError<'_>>,
        deadline: Time,
    ) -> Result<T, ClientError> {
        let ticket = self.begin_change(deadline).await?;
        self.have_decided(ticket.completion(), request, read, deadline).await
    }

    /// Has the coordinators do or say what can as well be done twice: one node is asked after the other until one answers.
    ///
    /// # Errors
    /// What they say, or the last error when the time is over.
    pub(crate) async fn ask_coordinators<T>(
        &self,
        request: impl Body + Copy,
        read: impl Fn(&[u8]) -> Result<T, ReplyError<'_>>,
    ) -> Result<T, ClientError> {
        let deadline = self.deadline();
        let mut retry = Retry::new(Effect::Read, deadline);
        for turn in self.random() >> 1.. {
            let cluster = self.keeper.current_owned();
            let remotes = cluster.remotes();
            let remote = &remotes[(turn % remotes.len() as u64) as usize];
            let until = self.endpoint.clock().now() + DECISION_PATIENCE;
            let until = if remotes.len() > 1 { deadline.min(until) } else { deadline };
            let error = match self.ask_node(remote, request, Effect::Read, until).await {
                Ok((reply, connection)) => match read(&reply) {
                    Ok(said) => return Ok(said),
                    Err(error) => ClientError::of_reply(&connection, error),
                },
                Err(error) => error,
            };
            let need = match error.code() {
                ErrorCode::CoordinatorsUnavailable => Some(MapNeed::Recheck),
                _ => retry.need(&error, cluster.epoch(), Identity::None),
            };
            let next = need.and_then(|need| self.next_attempt(&mut retry, need));
            let Some(next) = next else { return Err(error) };
            self.prepare(Table::DEFAULT, next, &mut retry).await;
        }
        unreachable!("there are more turns than time")
    }

    /// A number for what the coordinators are to decide. Whoever has no lease yet is given one by the coordinators too, so that is tried for as long as they are asked
    /// to decide.
    async fn begin_change(&self, deadline: Time) -> Result<Ticket<&Session>, ClientError> {
        let mut retry = Retry::new(Effect::Mutation, deadline);
        loop {
            let error = match self.begin(&*self.session, 1, deadline).await {
                Ok(ticket) => return Ok(ticket),
                Err(error) => error,
            };
            let epoch = self.keeper.current().epoch();
            let need = retry.need(&error, epoch, Identity::None);
            let Some(next) = need.and_then(|need| self.next_attempt(&mut retry, need)) else {
                let is_late = need.is_some() || self.endpoint.clock().now() >= deadline;
                return Err(if is_late { self.undecided(error) } else { error });
            };
            self.prepare(Table::DEFAULT, next, &mut retry).await;
        }
    }

    /// What a change of the tables ends with when its time is over, and the last attempt ended so.
    fn undecided(&self, last: ClientError) -> ClientError {
        match last {
            ClientError::Undecided { .. } => last,
            _ => ClientError::Undecided {
                timeout: self.config.timeout,
                applied: last.applied(),
                last: Box::new(last),
            },
        }
    }

    async fn have_decided<B: Body, R>(
        &self,
        completion: Option<Completion>,
        request: impl Fn(Option<Completion>) -> B,
        read: impl Fn(&[u8]) -> Result<R, ReplyError<'_>>,
        deadline: Time,
    ) -> Result<R, ClientError> {
        let mut retry = Retry::new(Effect::Mutation, deadline);
        let mut doubt = None;
        for turn in self.random() >> 1.. {
            let cluster = self.keeper.current_owned();
            let remotes = cluster.remotes();
            let remote = &remotes[(turn % remotes.len() as u64) as usize];
            let until = self.endpoint.clock().now() + DECISION_PATIENCE;
            let has_others = completion.is_some() && remotes.len() > 1;
            let until = if has_others { deadline.min(until) } else { deadline };
            let asked = self.ask_node(remote, request(completion), Effect::Mutation, until).await;
            let error = match asked {
                Ok((reply, connection)) => match read(&reply) {
                    Ok(decided) => return Ok(decided),
                    Err(error) => ClientError::of_reply(&connection, error),
                },
                Err(error) => error,
            };
            let is_unavailable = error.code() == ErrorCode::CoordinatorsUnavailable;
            if is_unavailable || error.is_in_doubt() {
                doubt = Some(error.clone());
            }
            let need = match (completion, &doubt) {
                // Of one and the same proposal, this is what was decided, whenever that was.
                _ if is_decision(error.code()) => return Err(error),
                (Some(_), _) if is_unavailable => Some(MapNeed::Recheck),
                (None, _) => retry.need(&error, cluster.epoch(), Identity::None),
                (Some(_), None) => retry.need(&error, cluster.epoch(), Identity::Certain),
                (Some(_), Some(_)) => retry.need(&error, cluster.epoch(), Identity::Doubtful),
            };
            // Another client's request would be another proposal.
            let need = need.filter(|need| *need != MapNeed::Lease);
            let Some(need) = need else { return Err(told(error, doubt)) };
            let Some(next) = self.next_attempt(&mut retry, need) else {
                return Err(self.undecided(told(error, doubt)));
            };
            self.prepare(Table::DEFAULT, next, &mut retry).await;
        }
        unreachable!("there are more turns than time")
    }

    /// Waits a while until all nodes that answer have as new a catalog as this client was told of, so that whoever is told that it is done finds it so.
    async fn see_spread(&self, deadline: Time) {
        let deadline = deadline.min(self.endpoint.clock().now() + SPREAD_PATIENCE);
        let mut retry = Retry::new(Effect::Read, deadline);
        loop {
            let (answers, _) = self.first_catalogs(|_| true, deadline).await;
            if !answers.is_empty()
                && !answers.iter().any(|catalog| self.catalog.is_outdated(catalog))
            {
                return;
            }
            let Some(next) = self.next_attempt(&mut retry, MapNeed::Recheck) else { return };
            self.endpoint.sleep_until(next.at).await;
        }
    }
}

/// Whether it is what the coordinators, or the rules that they go by, say of a change.
fn is_decision(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::TableExists
            | ErrorCode::TableUnknown
            | ErrorCode::TooManyTables
            | ErrorCode::TooManyWorkers
            | ErrorCode::TableNameMalformed
            | ErrorCode::UnsupportedReplicas
    )
}

/// A change of the table of this name that the coordinators have refused.
fn forbidden(error: ClientError, name: &str) -> ClientError {
    let name = || name.to_owned();
    ClientError::Catalog(match error.code() {
        ErrorCode::TableExists => CatalogError::Exists { name: name() },
        ErrorCode::TableUnknown => CatalogError::Unknown { name: name() },
        ErrorCode::TooManyTables => CatalogError::Full,
        _ => return error,
    })
}

/// Whether a table may have this name.
pub(crate) fn is_name(name: &str) -> bool {
    let made = Catalog::default().with(name, TableOptions::default());
    !matches!(made, Err(CatalogError::MalformedName { .. }))
}
