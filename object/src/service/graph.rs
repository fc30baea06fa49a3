//! Graphs as arguments and results: their segments one behind the other, with the number of bytes ahead.

use std::fmt;
use std::marker::PhantomData;

use crate::assembly::{Assembly, Limits};
use crate::bytes::{ReplyBytes, StableBytes};
use crate::fingerprint::Fingerprint;
use crate::frozen::Frozen;
use crate::types::Types;
use crate::view::View;
use crate::wire::Wire;

use super::argument::Argument;
use super::error::{Malformed, Refusal, ServiceError};
use super::item::{Item, Reader, Writer, end_of};
use super::passing::{Giving, Passing};
use super::returned::{Replied, Returned};

/// A graph that a method was given: checked, and lying where it was received. The proxy is given a `&Frozen<R>` that was built with the
/// [types](super::Client::types) of the interface.
pub struct GraphRef<'a, R> {
    view: View<&'a [u8]>,
    root: PhantomData<fn() -> R>,
}

impl<'a, R: Wire> GraphRef<'a, R> {
    /// The root.
    pub fn root(&self) -> &R {
        self.view.root().expect("the root's type was looked at")
    }

    /// The graph, for all that the root leads to.
    pub fn view(&self) -> &View<&'a [u8]> {
        &self.view
    }
}

impl<R> fmt::Debug for GraphRef<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphRef").finish_non_exhaustive()
    }
}

/// A graph that a method gave: checked, and lying where it was received, which it holds on to.
pub struct GraphReply<R> {
    view: View<ReplyBytes>,
    root: PhantomData<fn() -> R>,
}

impl<R: Wire> GraphReply<R> {
    /// The root.
    pub fn root(&self) -> &R {
        self.view.root().expect("the root's type was looked at")
    }

    /// The graph, for all that the root leads to.
    pub fn view(&self) -> &View<ReplyBytes> {
        &self.view
    }
}

impl<R> fmt::Debug for GraphReply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphReply").finish_non_exhaustive()
    }
}

/// The graph of `bytes`, which something else has bounded. What is found wrong lies somewhere behind `at`.
fn view<R: Wire, B: StableBytes>(bytes: B, types: &Types, at: usize) -> Result<View<B>, Malformed> {
    let mut assembly = Assembly::new(types, Limits::NONE);
    assembly.add(bytes).map_err(|invalid| Malformed::Graph { at, invalid })?;
    let view = assembly.finish().map_err(|invalid| Malformed::Graph { at, invalid })?;
    match view.root::<R>() {
        Ok(_) => Ok(view),
        Err(root) => Err(Malformed::Root { at, root }),
    }
}

/// The number of bytes, and the segments.
impl<R> Item for &Frozen<R> {
    fn end(&self, at: usize) -> usize {
        end_of(end_of(at, size_of::<u64>()), self.len_bytes() as usize)
    }

    fn put(self, out: &mut Writer<'_>) {
        out.value(self.len_bytes());
        let mut space = out.space(self.len_bytes() as usize);
        for segment in self.segments() {
            for part in [segment.head(), segment.pages()] {
                let (filled, rest) = space.split_at_mut(part.len());
                filled.copy_from_slice(part);
                space = rest;
            }
        }
    }
}

/// Owned, otherwise as `&Frozen`.
impl<R> Item for Frozen<R> {
    fn end(&self, at: usize) -> usize {
        (&self).end(at)
    }

    fn put(self, out: &mut Writer<'_>) {
        (&self).put(out);
    }
}

/// By the name of its root, as a link: what the types are is agreed on when the service is imported, where an older layout may be read as well.
const fn fingerprint<R: Wire>() -> Fingerprint {
    Fingerprint::of_reference("graph", R::IDENTITY)
}

impl<'a, R: Wire> Argument<'a> for GraphRef<'a, R> {
    type Value = Self;
    type Given = &'a Frozen<R>;
    type Item = &'a Frozen<R>;

    const FINGERPRINT: Fingerprint = fingerprint::<R>();

    fn collect(types: Types) -> Types {
        types.with::<R>()
    }

    fn pass(given: Self::Given, passing: &mut Passing<'_>) -> Result<Self::Item, ServiceError> {
        let is_same = passing.contract().types.is_same(given.types());
        if is_same { Ok(given) } else { Err(ServiceError::GraphTypes) }
    }

    fn take(arguments: &mut Reader<'a>) -> Result<Self, Malformed> {
        let bytes = arguments.slice::<u8>()?;
        let at = arguments.at() - bytes.len();
        Ok(Self { view: view::<R, _>(bytes, arguments.types(), at)?, root: PhantomData })
    }
}

impl<R: Wire> Returned for Frozen<R> {
    type Value = Frozen<R>;
    type Received = GraphReply<R>;
    type Item = Frozen<R>;

    const FINGERPRINT: Fingerprint = fingerprint::<R>();

    fn collect(types: Types) -> Types {
        types.with::<R>()
    }

    fn give(value: Frozen<R>, giving: &mut Giving<'_>) -> Result<Frozen<R>, Refusal> {
        if giving.contract().types.is_same(value.types()) {
            return Ok(value);
        }
        let what = "the graph was built with other types than those of the interface".to_owned();
        Err(Refusal::Result { what })
    }

    fn receive(reply: &mut Replied<'_>) -> Result<GraphReply<R>, Malformed> {
        let bytes = ReplyBytes::new(reply.part()?);
        let at = reply.items.at() - bytes.bytes().len();
        Ok(GraphReply { view: view::<R, _>(bytes, reply.items.types(), at)?, root: PhantomData })
    }
}
