//! What becomes of an operation whose first attempt came to nothing: connect, wait, fetch maps and try again, as long as the deadline
//! and [`Retry`] allow it.

use std::pin::Pin;

use weft_protocol::Slot;
use weft_transport::{Applied, Connection, Time};

use super::{Ask, Core, heading, member_of};
use crate::error::ClientError;
use crate::retry::{Effect, Identity, MapNeed, Retry, told};
use crate::session::{Session, Standing, Ticket};
use crate::table::Table;

/// A failed attempt, and the epoch of the map that it went by.
pub(super) type Failed = (ClientError, u64);

impl Core {
    /// Goes on after an attempt with the numbers of `ticket` that came to nothing, or could not begin.
    #[cold]
    pub(super) fn persist<'a, A: Ask + 'a>(
        &'a self,
        table: Table,
        ask: A,
        mut ticket: Option<Ticket<&'a Session>>,
        mut failed: Option<Failed>,
        deadline: Time,
    ) -> Pin<Box<dyn Future<Output = Result<A::Answer, ClientError>> + Send + 'a>> {
        Box::pin(async move {
            let slot = ask.slot();
            let mut retry = Retry::new(A::EFFECT, deadline);
            let mut doubt = None;
            loop {
                if let Some((error, epoch)) = failed.take() {
                    let client = ticket.as_ref().and_then(Ticket::client);
                    if client.is_some() && error.is_in_doubt() {
                        doubt = Some(error.clone());
                    }
                    let identity = match (client, &doubt) {
                        (None, _) => Identity::None,
                        (Some(_), None) => Identity::Certain,
                        (Some(_), Some(_)) => Identity::Doubtful,
                    };
                    let need = retry.need(&error, epoch, identity);
                    let Some(next) = need.and_then(|need| self.next_attempt(&mut retry, need))
                    else {
                        return Err(self.give_up(told(error, doubt), slot));
                    };
                    if let (MapNeed::Lease, Some(client)) = (next.map, client) {
                        self.session.lost(client);
                    }
                    self.prepare(table, next, &mut retry).await;
                }
                if A::EFFECT == Effect::Mutation {
                    ticket = match self.renumbered(ticket.take(), &doubt, deadline).await {
                        Ok(ticket) => Some(ticket),
                        Err(error) if doubt.is_some() => return Err(error),
                        Err(error) => {
                            failed = Some((error, 0));
                            continue;
                        }
                    };
                }
                match self.try_once(table, &ask, ticket.as_ref(), deadline).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => failed = Some(error),
                }
            }
        })
    }

    /// The numbers of the next attempt: the same as before, as long as nodes remember what was done under them, or until they can be others.
    ///
    /// # Errors
    /// `doubt`, if they are not remembered and must not be others; else why there are none.
    async fn renumbered<'a>(
        &'a self,
        ticket: Option<Ticket<&'a Session>>,
        doubt: &Option<ClientError>,
        deadline: Time,
    ) -> Result<Ticket<&'a Session>, ClientError> {
        if let Some(ticket) = ticket {
            let standing = self.session.standing(self.endpoint.clock().now());
            if standing == Standing::RenewalDue {
                // What comes of that is seen below.
                let _ = self.keep_lease(deadline).await;
            }
            if ticket.is_good(self.endpoint.clock().now()) {
                return Ok(ticket);
            }
            if let Some(doubt) = doubt {
                return Err(doubt.clone());
            }
        }
        self.begin(&*self.session, 1, deadline).await
    }

    /// One attempt, by the map at hand.
    async fn try_once<A: Ask>(
        &self,
        table: Table,
        ask: &A,
        ticket: Option<&Ticket<&Session>>,
        deadline: Time,
    ) -> Result<A::Answer, Failed> {
        let slot = ask.slot();
        let (connection, epoch) = self.connect_primary(table, slot, A::EFFECT, deadline).await?;
        let call = connection.call(ask.request(heading(table, epoch, ticket)), deadline);
        let member = member_of(&connection);
        let answer = match self.unless_deposed(call, member, table, slot, deadline).await {
            Some(called) => self.answer::<A>(called, &connection),
            None => {
                let node = crate::error::NodeName::of_peer(&connection);
                let (applied, timeout) = (Applied::Maybe, self.config.timeout);
                Err(ClientError::DeadlineExceeded { node, applied, effect: A::EFFECT, timeout })
            }
        };
        answer.map_err(|error| (error, epoch))
    }

    /// A connection to the node that serves `slot`, opened if need be, and the epoch of the map that says
    /// so.
    async fn connect_primary(
        &self,
        table: Table,
        slot: Slot,
        effect: Effect,
        deadline: Time,
    ) -> Result<(Connection, u64), Failed> {
        let cluster = self.keeper.current_owned();
        let epoch = cluster.epoch();
        let primary = cluster.primary(table, slot).zip(cluster.member(table, slot));
        let Some((remote, member)) = primary else {
            return Err((cluster.unserved(table, slot), epoch));
        };
        let connecting = self.keeper.connect(&self.endpoint, remote, deadline);
        match self.unless_deposed(connecting, member, table, slot, deadline).await {
            Some(connected) => {
                connected.map(|connection| (connection, epoch)).map_err(|error| (error, epoch))
            }
            None => {
                let (node, timeout) = (remote.name().clone(), self.config.timeout);
                let applied = Applied::No;
                let error = ClientError::DeadlineExceeded { node, applied, effect, timeout };
                Err((error, epoch))
            }
        }
    }
}
