//! What one node is asked of a multi-operation, and how far that has come.
//!
//! A share is asked for by one request after the other, each for as many of its elements as fit,
//! from the first on. Without I/O: it takes the parts of replies and says what they mean.

use std::sync::Arc;

use weft_protocol::limits::MULTI_KEYS_MAX;
use weft_protocol::{DecodeError, ReplyError, Slot};
use weft_transport::Reply;

use super::{Answered, AskMany, Reading};
use crate::error::{ClientError, NodeName};
use crate::retry::Identity;
use crate::session::{Session, Ticket};

/// The number of a mutation that may have been applied, and why that is not known.
#[derive(Debug)]
pub(super) struct Doubt {
    pub(super) ticket: Ticket<Arc<Session>>,
    pub(super) error: ClientError,
}

/// Elements of the caller's list, with the positions they have there, and those with their numbers that may have been applied.
#[derive(Debug)]
pub(super) struct Share<E> {
    positions: Vec<usize>,
    elements: Vec<E>,
    doubts: Vec<Option<Doubt>>,
}

impl<E> Default for Share<E> {
    fn default() -> Self {
        Self { positions: Vec::new(), elements: Vec::new(), doubts: Vec::new() }
    }
}

impl<E: Copy> Share<E> {
    pub(super) fn push(&mut self, position: usize, element: E, doubt: Option<Doubt>) {
        self.positions.push(position);
        self.elements.push(element);
        self.doubts.push(doubt);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The slot of one of its elements.
    pub(super) fn slot<O: AskMany<Element = E>>(&self) -> Slot {
        O::slot(&self.elements[0])
    }

    /// The elements that one request may be for, if they fit it: none of them is in doubt, or all are, and have numbers that follow one
    /// another.
    pub(super) fn alike(&self) -> &[E] {
        let is_alike = |pair: &[Option<Doubt>]| match (&pair[0], &pair[1]) {
            (None, None) => true,
            (Some(one), Some(next)) => one.ticket.is_followed_by(&next.ticket),
            _ => false,
        };
        let fits = &self.doubts[..self.doubts.len().min(MULTI_KEYS_MAX)];
        let count = 1 + fits.windows(2).take_while(|pair| is_alike(pair)).count();
        &self.elements[..count.min(fits.len())]
    }

    /// The number of the first element, if it is in doubt.
    pub(super) fn doubtful(&self) -> Option<&Ticket<Arc<Session>>> {
        Some(&self.doubts.first()?.as_ref()?.ticket)
    }

    /// Ends those of the elements that are in doubt, since nodes do not remember them any more. Returns what is to be told of them.
    pub(super) fn lapse(&mut self) -> Vec<(usize, ClientError)> {
        let mut rest = Self::default();
        let mut lapsed = Vec::new();
        for (position, element, doubt) in std::mem::take(self).into_entries() {
            match doubt {
                Some(doubt) => lapsed.push((position, doubt.error)),
                None => rest.push(position, element, None),
            }
        }
        *self = rest;
        lapsed
    }

    pub(super) fn into_entries(self) -> impl Iterator<Item = (usize, E, Option<Doubt>)> {
        let numbered = self.positions.into_iter().zip(self.elements).zip(self.doubts);
        numbered.map(|((position, element), doubt)| (position, element, doubt))
    }
}

/// What has become known of some elements of the caller's list, by position.
pub(super) type Known<A> = (usize, Result<A, ClientError>);

/// What became of an element that a request names.
#[derive(Debug, Clone)]
enum State {
    /// Nothing yet.
    Asked,
    Answered,
    /// It is to be asked again, of this node and at once.
    Unprocessed,
    Refused(ClientError),
}

/// A share of which one request is under way.
#[derive(Debug)]
pub(super) struct Asked<E> {
    share: Share<E>,
    /// Of the elements that the request names.
    states: Vec<State>,
    /// The numbers of these, if none of them was in doubt.
    ticket: Option<Ticket<Arc<Session>>>,
    node: NodeName,
}

/// An element that was refused or got no answer, and why.
#[derive(Debug)]
pub(super) struct Failed<E> {
    pub(super) position: usize,
    pub(super) element: E,
    pub(super) error: ClientError,
    /// The client that asked for it, if it had a number.
    pub(super) client: Option<u64>,
    pub(super) doubt: Option<Doubt>,
}

impl<E> Failed<E> {
    pub(super) fn identity(&self) -> Identity {
        match (self.client, &self.doubt) {
            (_, Some(_)) => Identity::Doubtful,
            (Some(_), None) => Identity::Certain,
            (None, None) => Identity::None,
        }
    }
}

/// What is left when a request has come to its end.
pub(super) struct Rest<E> {
    /// To be asked of the same node at once.
    pub(super) again: Share<E>,
    pub(super) failed: Vec<Failed<E>>,
}

impl<E: Copy> Asked<E> {
    /// The first `count` elements of `share` have been asked of `node`, under the numbers of `ticket`, or those that they have.
    pub(super) fn new(
        share: Share<E>,
        count: usize,
        ticket: Option<Ticket<Arc<Session>>>,
        node: NodeName,
    ) -> Self {
        let states = vec![State::Asked; count.min(share.elements.len())];
        Self { share, states, ticket, node }
    }

    /// One of its elements.
    pub(super) fn slot<O: AskMany<Element = E>>(&self) -> Slot {
        self.share.slot::<O>()
    }

    /// Takes what a part of the reply says; answers go to `known`.
    pub(super) fn take_part<O: AskMany<Element = E>>(
        &mut self,
        part: &Reply,
        known: &mut impl Extend<Known<O::Answer>>,
    ) -> Result<(), ClientError> {
        let Self { share, states, node, .. } = self;
        let take = |Answered { index, reading }: Answered<'_, O::Answer>| {
            // The server is a peer: it may name what was not asked for, or something twice.
            let Some(state @ State::Asked) = states.get_mut(index) else { return };
            *state = match reading {
                Reading::Answer(answer) => {
                    known.extend([(share.positions[index], Ok(answer))]);
                    State::Answered
                }
                Reading::Unprocessed => State::Unprocessed,
                Reading::Refused(reply) => {
                    State::Refused(ClientError::refused(node.clone(), reply))
                }
            };
        };
        O::answers(part, take).map_err(|error| match error {
            ReplyError::Refused(reply) => ClientError::refused(node.clone(), reply),
            ReplyError::Malformed(reason) => {
                ClientError::MalformedReply { node: node.clone(), reason }
            }
        })
    }

    /// The last part has been taken, or none comes any more because of `error`.
    pub(super) fn end(self, error: Option<ClientError>) -> Rest<E> {
        let Self { share, states, ticket, node } = self;
        let silence = error.clone().unwrap_or_else(|| missing(&node, &states));
        let unsent = error.map(ClientError::not_sent);
        let client = ticket.as_ref().and_then(Ticket::client);
        // What was answered is done. So is what was refused: asked of another node it is another request. But of what was refused by a node that was not the
        // primary any more, nobody knows.
        let is_silence_open = silence.is_in_doubt();
        let is_open = |state: &State| match state {
            State::Asked => is_silence_open,
            State::Refused(error) => error.is_in_doubt(),
            State::Answered | State::Unprocessed => false,
        };
        let kept = client.is_some() && states.iter().any(is_open);
        let mut tickets = ticket.filter(|_| kept).map(Ticket::split).into_iter().flatten();
        let mut states = states.into_iter();
        let mut rest = Rest { again: Share::default(), failed: Vec::new() };
        for (position, element, doubt) in share.into_entries() {
            let (state, ticket) = (states.next(), tickets.next());
            let client = client.or(doubt.as_ref().and_then(|doubt| doubt.ticket.client()));
            let mut fail = |error, doubt| {
                rest.failed.push(Failed { position, element, error, client, doubt });
            };
            match (state, &unsent) {
                (Some(State::Answered), _) => {}
                (Some(State::Refused(error)), _) if error.is_in_doubt() => {
                    let ticket = doubt.map(|doubt| doubt.ticket).or(ticket);
                    let doubt = ticket.map(|ticket| Doubt { ticket, error: error.clone() });
                    fail(error, doubt);
                }
                (Some(State::Refused(error)), _) => fail(error, doubt),
                (Some(State::Asked), _) => {
                    let ticket = ticket.filter(|_| is_silence_open);
                    let ticket = doubt.map(|doubt| doubt.ticket).or(ticket);
                    let error = silence.clone();
                    let doubt = ticket.map(|ticket| Doubt { ticket, error: error.clone() });
                    fail(error, doubt);
                }
                (Some(State::Unprocessed), _) | (None, None) => {
                    rest.again.push(position, element, doubt);
                }
                (None, Some(error)) => fail(error.clone(), doubt),
            }
        }
        rest
    }
}

/// What to say of keys that the node has left out.
fn missing(node: &NodeName, states: &[State]) -> ClientError {
    let missing = states.iter().filter(|state| matches!(state, State::Asked)).count();
    ClientError::MalformedReply { node: node.clone(), reason: DecodeError::Truncated { missing } }
}
