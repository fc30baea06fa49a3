//! What one node is asked of a multi-operation, and how far that has come.
//!
//! A share is asked for by one request after the other, each for as many of its elements as fit,
//! from the first on. Without I/O: it takes the parts of replies and says what they mean.

use weft_protocol::{DecodeError, ReplyError};
use weft_transport::{Applied, Reply};

use super::{Answered, AskMany, Reading};
use crate::error::{ClientError, NodeName};

/// Elements of the caller's list, with the positions they have there.
#[derive(Debug, Clone)]
pub(super) struct Share<E> {
    pub(super) positions: Vec<usize>,
    pub(super) elements: Vec<E>,
}

impl<E> Default for Share<E> {
    fn default() -> Self {
        Self { positions: Vec::new(), elements: Vec::new() }
    }
}

impl<E: Copy> Share<E> {
    pub(super) fn push(&mut self, position: usize, element: E) {
        self.positions.push(position);
        self.elements.push(element);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, E)> {
        self.positions.iter().copied().zip(self.elements.iter().copied())
    }
}

/// What has become known of some elements of the caller's list, by position.
pub(super) type Known<A> = (usize, Result<A, ClientError>);

/// A share of which one request is under way.
#[derive(Debug)]
pub(super) struct Asked<E> {
    share: Share<E>,
    /// Which of the elements that the request names have been answered.
    answered: Vec<bool>,
    /// What is to be asked again, of this node and at once.
    again: Share<E>,
    /// What was refused.
    refused: Vec<(usize, E, ClientError)>,
    node: NodeName,
}

/// What is left when a request has come to its end.
pub(super) struct Rest<E> {
    /// To be asked of the same node at once.
    pub(super) again: Share<E>,
    /// What was refused or got no answer, and why.
    pub(super) failed: Vec<(usize, E, ClientError)>,
}

impl<E: Copy> Asked<E> {
    /// The first `count` elements of `share` have been asked of `node`.
    pub(super) fn new(share: Share<E>, count: usize, node: NodeName) -> Self {
        let answered = vec![false; count.min(share.elements.len())];
        Self { share, answered, again: Share::default(), refused: Vec::new(), node }
    }

    /// Takes what a part of the reply says; answers go to `known`.
    pub(super) fn take_part<O: AskMany<Element = E>>(
        &mut self,
        part: &Reply,
        known: &mut impl Extend<Known<O::Answer>>,
    ) -> Result<(), ClientError> {
        let Self { share, answered, again, refused, node } = self;
        let take = |Answered { index, reading }: Answered<'_, O::Answer>| {
            // The server is a peer: it may name what was not asked for, or something twice.
            match answered.get_mut(index) {
                Some(answered) if !*answered => *answered = true,
                _ => return,
            }
            let (position, element) = (share.positions[index], share.elements[index]);
            match reading {
                Reading::Answer(answer) => known.extend([(position, Ok(answer))]),
                Reading::Unprocessed => again.push(position, element),
                Reading::Refused(reply) => {
                    refused.push((position, element, ClientError::refused(node.clone(), reply)));
                }
            }
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
        let Self { share, answered, mut again, refused: mut failed, node } = self;
        let silence = error.clone().unwrap_or_else(|| missing(&node, &answered));
        let unsent = error.map(not_sent);
        for (index, (position, element)) in share.iter().enumerate() {
            match (answered.get(index), &unsent) {
                (Some(true), _) => {}
                (Some(false), _) => failed.push((position, element, silence.clone())),
                (None, Some(error)) => failed.push((position, element, error.clone())),
                (None, None) => again.push(position, element),
            }
        }
        Rest { again, failed }
    }
}

/// What to say of keys that the node has left out.
fn missing(node: &NodeName, answered: &[bool]) -> ClientError {
    let missing = answered.iter().filter(|&&answered| !answered).count();
    ClientError::MalformedReply { node: node.clone(), reason: DecodeError::Truncated { missing } }
}

/// The same failure, for what had not been part of a request yet.
fn not_sent(error: ClientError) -> ClientError {
    match error {
        ClientError::Disconnected { node, effect, reason, .. } => {
            ClientError::Disconnected { node, applied: Applied::No, effect, reason }
        }
        ClientError::DeadlineExceeded { node, effect, timeout, .. } => {
            ClientError::DeadlineExceeded { node, applied: Applied::No, effect, timeout }
        }
        error => error,
    }
}
