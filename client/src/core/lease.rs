//! How a client comes by a lease, and keeps it.
//!
//! A lease is asked for before the first mutation. When half of it is over, one mutation of those that come renews it on its way; the others do not
//! wait for that. No thread and no timer does: a client that is idle for longer loses its lease and opens another, which costs the next mutation a round trip.

use std::ops::Deref;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use weft_protocol::{ErrorCode, OpenClient, OpenClientReply, RenewClient, RenewClientReply};
use weft_transport::{Applied, Body, Time};

use super::Core;
use crate::error::ClientError;
use crate::limits::{LEASE_PAUSE, MAP_PATIENCE, PAUSE_MIN, UNSUPPORTED_PAUSE};
use crate::retry::Effect;
use crate::session::{self, Session, Standing, Ticket};

impl Core {
    /// Numbers for `count` mutations, whatever has to be waited for.
    ///
    /// # Errors
    /// Why there is no lease; [`ClientError::TooManyUnderWay`]. No mutation has begun then.
    pub(crate) async fn begin<S: Deref<Target = Session> + Clone>(
        &self,
        session: S,
        count: u64,
        deadline: Time,
    ) -> Result<Ticket<S>, ClientError> {
        loop {
            self.keep_lease(deadline).await?;
            let now = self.endpoint.clock().now();
            if let Some(ticket) = session::begin(session.clone(), count, now) {
                return Ok(ticket);
            }
            // Others wait for a node that does not answer, as a rule, which is nothing to be woken by.
            if now + PAUSE_MIN >= deadline {
                return Err(ClientError::TooManyUnderWay { timeout: self.config.timeout });
            }
            self.endpoint.sleep_until(now + PAUSE_MIN).await;
        }
    }

    /// Has a lease, and renews it if it is time and nobody else does.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn keep_lease(&self, deadline: Time) -> Result<(), ClientError> {
        let now = self.endpoint.clock().now();
        match self.session.standing(now) {
            Standing::Good => return Ok(()),
            Standing::RenewalDue => {
                if self.session.is_renewer(now, now + LEASE_PAUSE) {
                    self.renew(now, deadline.min(now + LEASE_PAUSE)).await;
                }
            }
            Standing::Over => {}
        }
        if self.session.standing(self.endpoint.clock().now()) != Standing::Over {
            return Ok(());
        }
        let waiting = select(self.lease_kept.lock(), self.endpoint.sleep_until(deadline)).await;
        let now = self.endpoint.clock().now();
        // Who waited in vain asks by itself, and finds that there is no time left.
        if self.session.standing(now) != Standing::Over {
            return Ok(());
        }
        let opened = self.open(now, deadline).await;
        drop(waiting);
        opened
    }

    async fn open(&self, asked_at: Time, deadline: Time) -> Result<(), ClientError> {
        match self.ask_any(OpenClient, self.random(), deadline).await {
            Ok(OpenClientReply { client, lease_ms }) => {
                self.session.opened(client, asked_at, duration(lease_ms));
                Ok(())
            }
            Err(ClientError::Refused { code: ErrorCode::UnknownOperation, .. }) => {
                self.session.unsupported(asked_at + UNSUPPORTED_PAUSE);
                Ok(())
            }
            Err(error) if error.code() == ErrorCode::CoordinatorsUnavailable => {
                Err(ClientError::Undecided {
                    timeout: self.config.timeout,
                    applied: Applied::No,
                    last: Box::new(error),
                })
            }
            Err(error) => Err(error.not_sent()),
        }
    }

    /// If it fails, somebody tries again soon; the lease does until then. To ask in vain may take all of the pause between two tries, so it begins behind that: who has
    /// asked goes on with a lease that needs no look.
    async fn renew(&self, asked_at: Time, deadline: Time) {
        let Some(client) = self.session.client() else { return };
        // One and the same node, as long as that answers: of those that have no coordinator, each knows what it has heard itself.
        match self.ask_any(RenewClient { client }, client, deadline).await {
            Ok(RenewClientReply { lease_ms, .. }) => {
                self.session.renewed(client, asked_at, duration(lease_ms));
            }
            Err(ClientError::Refused { code: ErrorCode::ClientUnknown, .. }) => {
                self.session.lost(client);
            }
            Err(_) => {
                let next = self.endpoint.clock().now() + LEASE_PAUSE;
                self.session.not_renewed(client, next);
            }
        }
    }

    /// Asks one node after the other, each for a short while, until one answers the one or the other way. `choice` says where to begin.
    async fn ask_any(
        &self,
        request: impl Body + Copy,
        choice: u64,
        deadline: Time,
    ) -> Result<OpenClientReply, ClientError> {
        let cluster = self.keeper.current_owned();
        let remotes = cluster.remotes();
        let mut failed = None;
        for remote in cluster.in_turn(choice) {
            let now = self.endpoint.clock().now();
            let patience =
                if remotes.len() > 1 { deadline.min(now + MAP_PATIENCE) } else { deadline };
            let asked = self.ask_node(remote, request, Effect::Read, patience);
            let answer = match select(pin!(asked), self.endpoint.sleep_until(deadline)).await {
                Either::Left((answer, _)) => answer,
                Either::Right(_) => break,
            };
            let error = match answer {
                Ok((reply, connection)) => match OpenClientReply::decode(&reply) {
                    Ok(reply) => return Ok(reply),
                    Err(error) => ClientError::of_reply(&connection, error),
                },
                Err(error) => error,
            };
            let is_final = matches!(
                error,
                ClientError::Refused {
                    code: ErrorCode::UnknownOperation | ErrorCode::ClientUnknown,
                    ..
                }
            );
            if is_final {
                return Err(error);
            }
            failed = Some(error);
        }
        Err(failed.unwrap_or(ClientError::ClusterNotReachable { attempts: [].into() }))
    }
}

fn duration(lease_ms: u32) -> Duration {
    Duration::from_millis(lease_ms.into())
}
