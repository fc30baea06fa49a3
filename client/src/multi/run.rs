//! A multi-operation under way.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, Stream, StreamExt};
use weft_protocol::{LimitError, Member};
use weft_transport::{Applied, Connection, Replies, Reply, Time};

use super::share::{Asked, Failed, Known, Rest, Share};
use super::{AskMany, MultiOutcome};
use crate::core::{Core, heading, member_of};
use crate::error::{ClientError, NodeName};
use crate::remote::Remote;
use crate::retry::{Effect, MapNeed, Next, Retry, told};
use crate::session;
use crate::table::Table;

/// The outcomes of asking for `elements`, each with its position, by `deadline`. One that is an error already is its own outcome.
pub(crate) fn run<'a, O>(
    core: Arc<Core>,
    table: Table,
    elements: impl Iterator<Item = (usize, Result<O::Element, LimitError>)>,
    deadline: Time,
) -> impl Stream<Item = MultiOutcome<O::Answer>> + Send + 'a
where
    O: AskMany + 'a,
{
    let mut all = Share::default();
    let mut run =
        Run::<'a, O> { core, table, known: VecDeque::new(), under_way: FuturesUnordered::new() };
    for (position, element) in elements {
        match element {
            Ok(element) => all.push(position, element, None),
            Err(error) => run.known.push_back((position, Err(error.into()))),
        }
    }
    let retry = Retry::new(O::EFFECT, deadline);
    run.divide(all, retry);
    run
}

struct Run<'a, O: AskMany> {
    core: Arc<Core>,
    table: Table,
    known: VecDeque<Known<O::Answer>>,
    under_way: FuturesUnordered<BoxFuture<'a, Event<O::Element>>>,
}

/// Where a share is asked for, and by which map.
#[derive(Clone)]
struct Route {
    remote: Arc<Remote>,
    member: Member,
    map_epoch: u64,
    retry: Retry,
}

enum Event<E> {
    /// The share was not asked for.
    Unsent(Route, Share<E>, ClientError),
    /// Elements are not to be asked for again, since nobody remembers their numbers. The others are.
    Lapsed(Route, Share<E>, Vec<(usize, ClientError)>),
    /// A part of a reply has come.
    Part(Box<Answering<E>>, Reply),
    /// No more parts come.
    End(Route, Asked<E>, Option<ClientError>),
    /// What failed is to be tried again now.
    Due(Share<E>, Retry),
}

/// A request whose reply is coming in.
struct Answering<E> {
    route: Route,
    asked: Asked<E>,
    connection: Connection,
    replies: Replies,
}

impl<'a, O: AskMany + 'a> Stream for Run<'a, O> {
    type Item = MultiOutcome<O::Answer>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let run = self.get_mut();
        loop {
            if let Some((position, outcome)) = run.known.pop_front() {
                return Poll::Ready(Some(match outcome {
                    Ok(answer) => Ok((position, answer)),
                    Err(error) => Err((position, error)),
                }));
            }
            match ready!(run.under_way.poll_next_unpin(context)) {
                Some(event) => run.handle(event),
                None => return Poll::Ready(None),
            }
        }
    }
}

// Nothing in it is pinned: the futures are boxed.
impl<O: AskMany> Unpin for Run<'_, O> {}

impl<'a, O: AskMany + 'a> Run<'a, O> {
    fn handle(&mut self, event: Event<O::Element>) {
        match event {
            Event::Unsent(route, share, error) => {
                let failed = share.into_entries().map(|(position, element, doubt)| {
                    let (error, client) = (error.clone(), None);
                    Failed { position, element, error, client, doubt }
                });
                self.retry(failed.collect(), route.map_epoch, route.retry);
            }
            Event::Lapsed(route, share, lapsed) => {
                let lapsed = lapsed.into_iter().map(|(position, error)| (position, Err(error)));
                self.known.extend(lapsed);
                self.send(route, share);
            }
            Event::Part(mut answering, part) => {
                match answering.asked.take_part::<O>(&part, &mut self.known) {
                    Ok(()) => {
                        let receiving = receive::<O>(self.core.clone(), self.table, answering);
                        self.under_way.push(Box::pin(receiving));
                    }
                    Err(error) => self.ended(answering.route, answering.asked, Some(error)),
                }
            }
            Event::End(route, asked, error) => self.ended(route, asked, error),
            Event::Due(share, retry) => self.divide(share, retry),
        }
    }

    fn ended(&mut self, route: Route, asked: Asked<O::Element>, error: Option<ClientError>) {
        let Rest { again, failed } = asked.end(error);
        self.retry(failed, route.map_epoch, route.retry);
        self.send(route, again);
    }

    fn send(&mut self, route: Route, share: Share<O::Element>) {
        if !share.is_empty() {
            self.under_way.push(Box::pin(send::<O>(self.core.clone(), self.table, route, share)));
        }
    }

    /// Divides a share among the owners of its slots, and asks them.
    fn divide(&mut self, share: Share<O::Element>, retry: Retry) {
        let cluster = self.core.keeper.current_owned();
        let map_epoch = cluster.epoch();
        let table = self.table;
        let mut shares = BTreeMap::<_, (Arc<Remote>, Member, Share<_>)>::new();
        let mut unserved = Vec::new();
        for (position, element, doubt) in share.into_entries() {
            let slot = O::slot(&element);
            match cluster.primary(table, slot).zip(cluster.member(table, slot)) {
                Some((primary, member)) => {
                    let (_, _, share) = shares
                        .entry(member.node)
                        .or_insert_with(|| (Arc::clone(primary), member, Share::default()));
                    share.push(position, element, doubt);
                }
                None => {
                    let (error, client) = (cluster.unserved(table, slot), None);
                    unserved.push(Failed { position, element, error, client, doubt });
                }
            }
        }
        for (remote, member, share) in shares.into_values() {
            self.send(Route { remote, member, map_epoch, retry }, share);
        }
        self.retry(unserved, map_epoch, retry);
    }

    /// Tries again, all together and after one pause, what can be tried again; the rest is known
    /// to have failed.
    fn retry(&mut self, failed: Vec<Failed<O::Element>>, map_epoch: u64, mut retry: Retry) {
        let before = retry;
        let need_of = |failed: &Failed<_>| before.need(&failed.error, map_epoch, failed.identity());
        let need = failed.iter().filter_map(need_of).max();
        let next = need.and_then(|need| self.core.next_attempt(&mut retry, need));
        let mut share = Share::default();
        for failed in failed {
            match need_of(&failed) {
                Some(need) if next.is_some() => {
                    if let (MapNeed::Lease, Some(client)) = (need, failed.client) {
                        self.core.session.lost(client);
                    }
                    share.push(failed.position, failed.element, failed.doubt);
                }
                _ => {
                    let doubt = failed.doubt.map(|doubt| doubt.error);
                    let error = told(failed.error, doubt);
                    let error = self.core.give_up(error, O::slot(&failed.element));
                    self.known.push_back((failed.position, Err(error)));
                }
            }
        }
        if let Some(next) = next {
            self.under_way.push(Box::pin(wait(self.core.clone(), self.table, next, share, retry)));
        }
    }
}

/// Asks for as many of the elements as one request may be for.
async fn send<O: AskMany>(
    core: Arc<Core>,
    table: Table,
    route: Route,
    mut share: Share<O::Element>,
) -> Event<O::Element> {
    let (deadline, slot) = (route.retry.deadline(), share.slot::<O>());
    let connecting = core.keeper.connect(&core.endpoint, &route.remote, deadline);
    let timeout = core.config.timeout;
    let late = |applied| ClientError::DeadlineExceeded {
        node: route.remote.name().clone(),
        applied,
        effect: O::EFFECT,
        timeout,
    };
    let connected = core.unless_deposed(connecting, route.member, table, slot, deadline).await;
    let connection = match connected.unwrap_or_else(|| Err(late(Applied::No))) {
        Ok(connection) => connection,
        Err(error) => return Event::Unsent(route, share, error),
    };
    let map_epoch = route.map_epoch;
    let mut ticket = None;
    if O::EFFECT == Effect::Mutation {
        if share.doubtful().is_some() {
            // What comes of renewing it is seen at once.
            let _ = core.keep_lease(deadline).await;
            let now = core.endpoint.clock().now();
            if share.doubtful().is_some_and(|ticket| !ticket.is_good(now)) {
                let lapsed = share.lapse();
                return Event::Lapsed(route, share, lapsed);
            }
        } else {
            let unnumbered = heading(table, map_epoch, share.doubtful());
            let (_, count) = O::request(share.alike(), unnumbered);
            let (session, now) = (Arc::clone(&core.session), core.endpoint.clock().now());
            ticket = match session::begin(Arc::clone(&session), count as u64, now) {
                Some(ticket) => Some(ticket),
                None => match core.begin(session, count as u64, deadline).await {
                    Ok(ticket) => Some(ticket),
                    Err(error) => return Event::Unsent(route, share, error),
                },
            };
        }
    }
    let heading = heading(table, map_epoch, ticket.as_ref().or(share.doubtful()));
    let (request, count) = O::request(share.alike(), heading);
    let sending = connection.call_streamed(request, deadline);
    let sent = core.unless_deposed(sending, route.member, table, slot, deadline).await;
    let asked = Asked::new(share, count, ticket, route.remote.name().clone());
    match sent {
        Some(Ok(replies)) => {
            let answering = Box::new(Answering { route, asked, connection, replies });
            receive::<O>(core, table, answering).await
        }
        Some(Err(error)) => {
            let error = ClientError::of_call(&connection, error, O::EFFECT, timeout);
            Event::End(route, asked, Some(error))
        }
        // It waited to be written.
        None => {
            let error = late(Applied::No);
            Event::End(route, asked, Some(error))
        }
    }
}

async fn receive<O: AskMany>(
    core: Arc<Core>,
    table: Table,
    mut answering: Box<Answering<O::Element>>,
) -> Event<O::Element> {
    let Answering { route, asked, connection, replies } = &mut *answering;
    let (slot, deadline) = (asked.slot::<O>(), route.retry.deadline());
    let (effect, timeout) = (route.retry.effect(), core.config.timeout);
    let next =
        core.unless_deposed(replies.next(), member_of(connection), table, slot, deadline).await;
    let error = match next {
        Some(Some(Ok(part))) => return Event::Part(answering, part),
        Some(Some(Err(error))) => Some(ClientError::of_call(connection, error, effect, timeout)),
        Some(None) => None,
        None => {
            let (node, applied) = (NodeName::of_peer(connection), Applied::Maybe);
            Some(ClientError::DeadlineExceeded { node, applied, effect, timeout })
        }
    };
    let Answering { route, asked, .. } = *answering;
    Event::End(route, asked, error)
}

async fn wait<E>(
    core: Arc<Core>,
    table: Table,
    next: Next,
    share: Share<E>,
    mut retry: Retry,
) -> Event<E> {
    core.prepare(table, next, &mut retry).await;
    Event::Due(share, retry)
}
