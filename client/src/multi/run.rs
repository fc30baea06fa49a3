//! A multi-operation under way.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, Stream, StreamExt};
use weft_protocol::{LimitError, TableId};
use weft_transport::{Connection, Replies, Reply, Time};

use super::share::{Asked, Known, Rest, Share};
use super::{AskMany, MultiOutcome};
use crate::core::Core;
use crate::error::ClientError;
use crate::remote::Remote;
use crate::retry::{Next, Retry};

/// The outcomes of asking for `elements`, each with its position, by `deadline`. One that is an error already is its own outcome.
pub(crate) fn run<'a, O>(
    core: Arc<Core>,
    table: TableId,
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
            Ok(element) => all.push(position, element),
            Err(error) => run.known.push_back((position, Err(error.into()))),
        }
    }
    let retry = Retry::new(O::EFFECT, deadline);
    run.divide(all, retry);
    run
}

struct Run<'a, O: AskMany> {
    core: Arc<Core>,
    table: TableId,
    known: VecDeque<Known<O::Answer>>,
    under_way: FuturesUnordered<BoxFuture<'a, Event<O::Element>>>,
}

/// Where a share is asked for, and by which map.
#[derive(Clone)]
struct Route {
    remote: Arc<Remote>,
    map_epoch: u64,
    retry: Retry,
}

enum Event<E> {
    /// The share was not asked for.
    Unsent(Route, Share<E>, ClientError),
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
                let failed =
                    share.iter().map(|(position, element)| (position, element, error.clone()));
                self.retry(failed.collect(), route.map_epoch, route.retry);
            }
            Event::Part(mut answering, part) => {
                match answering.asked.take_part::<O>(&part, &mut self.known) {
                    Ok(()) => self.under_way.push(Box::pin(receive(self.core.clone(), answering))),
                    Err(error) => self.ended(answering.route, answering.asked, Some(error)),
                }
            }
            Event::End(route, asked, error) => self.ended(route, asked, error),
            Event::Due(share, retry) => self.divide(share, retry),
        }
    }

    fn ended(&mut self, route: Route, asked: Asked<O::Element>, error: Option<ClientError>) {
        let Rest { again, failed } = asked.end(error);
        if !again.is_empty() {
            self.under_way.push(Box::pin(send::<O>(
                self.core.clone(),
                self.table,
                route.clone(),
                again,
            )));
        }
        self.retry(failed, route.map_epoch, route.retry);
    }

    /// Divides a share among the owners of its slots, and asks them.
    fn divide(&mut self, share: Share<O::Element>, retry: Retry) {
        let cluster = self.core.keeper.current_owned();
        let map_epoch = cluster.epoch();
        let mut shares = BTreeMap::<_, (Arc<Remote>, Share<_>)>::new();
        let mut unowned = Vec::new();
        for (position, element) in share.iter() {
            let slot = O::slot(&element);
            match cluster.owner(slot) {
                Some(owner) => {
                    let (_, share) = shares
                        .entry(owner.name().id)
                        .or_insert_with(|| (Arc::clone(owner), Share::default()));
                    share.push(position, element);
                }
                None => {
                    let error = ClientError::SlotUnowned { slot, epoch: map_epoch };
                    unowned.push((position, element, error));
                }
            }
        }
        for (remote, share) in shares.into_values() {
            let route = Route { remote, map_epoch, retry };
            self.under_way.push(Box::pin(send::<O>(self.core.clone(), self.table, route, share)));
        }
        self.retry(unowned, map_epoch, retry);
    }

    /// Tries again, all together and after one pause, what can be tried again; the rest is known
    /// to have failed.
    fn retry(
        &mut self,
        failed: Vec<(usize, O::Element, ClientError)>,
        map_epoch: u64,
        mut retry: Retry,
    ) {
        let before = retry;
        let needs = failed.iter().filter_map(|(_, _, error)| retry.need(error, map_epoch));
        let next = needs.max().and_then(|need| self.core.next_attempt(&mut retry, need));
        let mut share = Share::default();
        for (position, element, error) in failed {
            if next.is_some() && before.need(&error, map_epoch).is_some() {
                share.push(position, element);
            } else {
                let error = self.core.give_up(error, O::slot(&element));
                self.known.push_back((position, Err(error)));
            }
        }
        if let Some(next) = next {
            self.under_way.push(Box::pin(wait(self.core.clone(), next, share, retry)));
        }
    }
}

async fn send<O: AskMany>(
    core: Arc<Core>,
    table: TableId,
    route: Route,
    share: Share<O::Element>,
) -> Event<O::Element> {
    let deadline = route.retry.deadline();
    let connection = match core.keeper.connect(&core.endpoint, &route.remote, deadline).await {
        Ok(connection) => connection,
        Err(error) => return Event::Unsent(route, share, error),
    };
    let (request, count) = O::request(&share.elements, table, route.map_epoch as u32);
    let sent = connection.call_streamed(request, deadline).await;
    let asked = Asked::new(share, count, route.remote.name().clone());
    match sent {
        Ok(replies) => {
            receive(core, Box::new(Answering { route, asked, connection, replies })).await
        }
        Err(error) => {
            let timeout = core.config.timeout;
            let error = ClientError::of_call(&connection, error, O::EFFECT, timeout);
            Event::End(route, asked, Some(error))
        }
    }
}

async fn receive<E>(core: Arc<Core>, mut answering: Box<Answering<E>>) -> Event<E> {
    let error = match answering.replies.next().await {
        Some(Ok(part)) => return Event::Part(answering, part),
        Some(Err(error)) => {
            let Answering { route, connection, .. } = &*answering;
            let effect = route.retry.effect();
            Some(ClientError::of_call(connection, error, effect, core.config.timeout))
        }
        None => None,
    };
    let Answering { route, asked, .. } = *answering;
    Event::End(route, asked, error)
}

async fn wait<E>(core: Arc<Core>, next: Next, share: Share<E>, retry: Retry) -> Event<E> {
    core.prepare(next, retry.deadline()).await;
    Event::Due(share, retry)
}
