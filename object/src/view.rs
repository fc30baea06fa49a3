//! Using a graph where it was received.

#![expect(unsafe_code, reason = "lends what an assembly has checked")]

use std::marker::PhantomData;

use crate::assembly::{Assembly, Limits, Part};
use crate::bytes::{AlignedBytes, StableBytes};
use crate::error::{Invalid, OtherRoot};
use crate::graph_writer::Root;
use crate::link::{AnyLink, Link};
use crate::map::{Key, Map, MapView};
use crate::pages::{Checked, Page, Targets};
use crate::seq::Seq;
use crate::text::{Place, Text};
use crate::types::Types;
use crate::wire::Wire;

/// A graph of which every segment has been checked: each object may be used where it lies.
///
/// Following a link looks at its page and place again, which is as cheap as following it, so that a link of another graph finds
/// an object of its type or panics, and nothing else.
#[derive(Debug)]
pub struct View<B> {
    /// What the pages lie in.
    parts: Vec<Part<B>>,
    pages: Vec<Page>,
    types: Types,
    root: Option<(u32, u16)>,
}

/// A link was followed in a graph that it is not of.
const FOREIGN: &str = "a link is followed in its own graph";

impl<B> View<B> {
    /// # Safety
    /// All pages were checked, with all of them there, and lie in `parts`, each in the last whose first page is not behind it; there is an object of the type at the root's place where the
    /// root is said to be.
    pub(crate) unsafe fn new(
        parts: Vec<Part<B>>,
        pages: Vec<Page>,
        types: Types,
        root: Option<(u32, u16)>,
    ) -> Self {
        Self { parts, pages, types, root }
    }

    #[inline]
    pub(crate) fn targets(&self) -> Targets<'_> {
        // SAFETY: they lie in the parts, which are borrowed with them.
        unsafe { Targets::new(&self.pages, &self.types, true) }
    }

    #[inline]
    pub(crate) fn checked(&self) -> Checked<'_> {
        // SAFETY: no view is made before all pages were checked.
        unsafe { Checked::new(self.targets()) }
    }

    pub(crate) fn root_link(&self) -> Option<u32> {
        self.root.map(|(root, _)| root)
    }

    /// What it keeps: what the segments lie in.
    pub fn parts(&self) -> impl Iterator<Item = &B> {
        self.parts.iter().map(|part| &part.bytes)
    }

    /// The records of type `T`, a slice a page, in the order in which pages were begun. Of types whose size is no multiple of four, these
    /// are not objects alone: what lies between two that can be linked to is filled with records, which are the one before again.
    pub fn records<T: Wire>(&self) -> Records<'_, T> {
        Records { pages: self.checked(), next: 0, records: PhantomData }
    }

    /// The roots of the records that are graphs, in the order in which a [`GraphSegmentWriter`](crate::GraphSegmentWriter) has written them.
    pub fn roots<R: Wire>(&self) -> impl Iterator<Item = &R> {
        self.records::<Root<R>>().flatten().map(|root| self.get(root.object()))
    }

    /// The root.
    ///
    /// # Errors
    /// It is of another type, or there is none.
    pub fn root<T: Wire>(&self) -> Result<&T, OtherRoot> {
        let expected = T::NAME;
        let (root, place) = self.root.ok_or(OtherRoot { expected, found: None })?;
        let found = self.checked().records::<T>(root, 1);
        let name = || self.types.get(place).map(|info| info.name);
        found.map(|root| &root[0]).map_err(|_| OtherRoot { expected, found: name() })
    }

    /// The object to which a link leads.
    ///
    /// # Panics
    /// The link is of another graph, and there is no such object in this one.
    #[inline]
    pub fn get<T: Wire>(&self, link: Link<T>) -> &T {
        &self.checked().records::<T>(link.raw(), 1).expect(FOREIGN)[0]
    }

    /// The objects to which the links of a sequence lead, in their order. What [`get`](Self::get) does for each takes less for many, as most lead to the page to which
    /// the one before led.
    ///
    /// # Panics
    /// The sequence is of another graph, and there is none such in this one; the iterator panics as `get` does.
    #[inline]
    pub fn linked<T: Wire>(&self, links: Seq<Link<T>>) -> impl ExactSizeIterator<Item = &T> {
        let mut following = self.checked().following::<T>();
        self.seq(links).iter().map(move |link| following.get(link.raw()).expect(FOREIGN))
    }

    /// The object to which a link leads that may lead to objects of several types, if it is one of this type.
    pub fn downcast<T: Wire>(&self, link: AnyLink) -> Option<&T> {
        self.checked().records::<T>(link.raw(), 1).ok().map(|found| &found[0])
    }

    /// The elements of a sequence.
    ///
    /// # Panics
    /// It is of another graph, and there are none such in this one.
    #[inline]
    pub fn seq<T: Wire>(&self, seq: Seq<T>) -> &[T] {
        if seq.is_empty() {
            return &[];
        }
        self.checked().records::<T>(seq.first(), seq.count()).expect(FOREIGN)
    }

    /// A text.
    ///
    /// # Panics
    /// It is of another graph, and there is none such in this one.
    #[inline]
    pub fn text<'a>(&'a self, text: &'a Text) -> &'a str {
        match text.place() {
            Place::Here(text) => text,
            Place::There { first, len } => self.checked().text(first, len).expect(FOREIGN),
        }
    }

    /// A map, to be searched.
    ///
    /// # Panics
    /// It is of another graph, and there is none such in this one.
    pub fn map<K: Key, V: Wire>(&self, map: Map<K, V>) -> MapView<'_, K, V, B> {
        MapView::new(self, self.seq(map))
    }
}

impl<B: StableBytes> View<B> {
    /// Checks the segments of a graph, or of records, one behind the other, which may come from anywhere, against the types agreed on.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(bytes: B, types: &Types) -> Result<Self, Invalid> {
        let mut assembly = Assembly::new(types, Limits::NONE);
        assembly.add(bytes)?;
        assembly.finish()
    }

    /// The same graph in memory of its own, on the heap, so that what it was received in is free.
    ///
    /// Objects keep their places: this is a copy of bytes, without a look at any object.
    pub fn to_owned(&self) -> View<AlignedBytes> {
        let mut parts = Vec::with_capacity(self.parts.len());
        let mut pages = Vec::with_capacity(self.pages.len());
        for (at, part) in self.parts.iter().enumerate() {
            let (bytes, first_page) = (part.bytes.bytes(), part.first_page);
            let copy = AlignedBytes::copied(bytes);
            let end = self.parts.get(at + 1).map_or(self.pages.len(), |next| next.first_page);
            for page in &self.pages[first_page..end] {
                // SAFETY: the page lies in this part, whose bytes the copy has, aligned as they were, and the new view keeps it.
                pages.push(unsafe { page.moved(copy.bytes(), page.offset_in(bytes)) });
            }
            parts.push(Part { bytes: copy, first_page });
        }
        View { parts, pages, types: self.types.clone(), root: self.root }
    }
}

/// Objects of one type, as slices.
#[derive(Debug)]
pub struct Records<'a, T> {
    pages: Checked<'a>,
    next: usize,
    records: PhantomData<fn() -> T>,
}

impl<'a, T: Wire> Iterator for Records<'a, T> {
    type Item = &'a [T];

    fn next(&mut self) -> Option<&'a [T]> {
        while self.next < self.pages.len() {
            self.next += 1;
            if let found @ Some(_) = self.pages.page(self.next - 1) {
                return found;
            }
        }
        None
    }
}
