//! Building a graph where it will be sent from.

#![expect(unsafe_code, reason = "lends records where its own handles say they are")]

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;

use weft_transport::{Memory, Purpose, Shared};

use crate::arena::{Arena, Position};
use crate::assembly::is_aligned;
use crate::cast;
use crate::error::Full;
use crate::frozen::Frozen;
use crate::link::Link;
use crate::map::Map;
use crate::pair::Pair;
use crate::seq::{Bytes, Seq};
use crate::text::Text;
use crate::types::Types;
use crate::wire::Wire;

/// The brand of a graph: the same lifetime for no two of them (Yanovski et al., "GhostCell", ICFP '21).
type Brand<'g> = PhantomData<fn(&'g ()) -> &'g ()>;

/// A graph of objects that is being built, in registered memory, as it will be sent: there is no other form of it.
///
/// Objects are allocated, led to from others by their [links](Ref::link), in any order, back and in cycles, and changed until the graph
/// is frozen. What nothing leads to any more stays, and is sent, until [`Frozen::compact`].
///
/// ```
/// use weft_object::{Frozen, Graph, Link, Text, Types, Wire};
/// use weft_transport::{Memory, MemoryConfig, Purpose};
///
/// #[derive(Wire, Clone, Copy)]
/// #[repr(C)]
/// struct Person {
///     name: Text,
///     friend: Option<Link<Person>>,
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 })?;
/// let types = Types::new().with::<Person>();
/// let graph: Frozen<Person> = Graph::build(&memory, Purpose::Send, &types, |graph| {
///     let name = graph.text("Ada")?;
///     let ada = graph.alloc(Person { name, friend: None })?;
///     let name = graph.text("Charles Babbage")?;
///     let charles = graph.alloc(Person { name, friend: Some(ada.link()) })?;
///     graph.get_mut(ada).friend = Some(charles.link());
///     Ok(ada)
/// })?;
/// let view = graph.view()?;
/// let ada = view.root::<Person>()?;
/// let friend = view.get(ada.friend.expect("she has one"));
/// assert_eq!(view.text(&friend.name), "Charles Babbage");
/// # Ok(())
/// # }
/// ```
///
/// Handles of one graph are of no use in another:
/// ```compile_fail
/// # use weft_object::{Frozen, Full, Graph, Ref, Types, Wire};
/// # use weft_transport::{Memory, Purpose};
/// # fn both(memory: &Memory, types: &Types) -> Result<(), Full> {
/// Graph::build(memory, Purpose::Send, types, |one| {
///     let object = one.alloc(7_u64)?;
///     Graph::build(memory, Purpose::Send, types, |other| {
///         *other.get_mut(object) = 8;
///         other.alloc(9_u64)
///     })?;
///     Ok(object)
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct Graph<'g> {
    arena: Arena,
    dead_bytes: u64,
    /// Code of the user's is writing what has been reserved, or has panicked while it was.
    is_writing: bool,
    brand: Brand<'g>,
}

/// A handle of an object of the graph that is being built: four bytes, to be copied.
pub struct Ref<'g, T> {
    raw: NonZeroU32,
    object: PhantomData<fn() -> T>,
    brand: Brand<'g>,
}

impl<T> Ref<'_, T> {
    /// What is written into other objects, to lead to this one.
    #[inline]
    pub fn link(self) -> Link<T> {
        Link::new(self.raw)
    }
}

impl<T> Clone for Ref<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ref<'_, T> {}

impl<T> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.link().fmt(f)
    }
}

/// What was built.
pub(crate) struct Built<R> {
    pub(crate) root: Link<R>,
    pub(crate) dead_bytes: u64,
}

impl Graph<'_> {
    /// A graph of objects of these `types`, whose root is the object that `build` returns, in blocks of `memory`.
    ///
    /// # Errors
    /// That of `build`.
    ///
    /// # Panics
    /// An object of another type is allocated; or code that was to write an object has panicked, and `build` has caught that.
    pub fn build<R: Wire>(
        memory: &Memory,
        purpose: Purpose,
        types: &Types,
        build: impl for<'g> FnOnce(&mut Graph<'g>) -> Result<Ref<'g, R>, Full>,
    ) -> Result<Frozen<R>, Full> {
        let (arena, built) = Graph::build_in(Arena::new(memory, purpose, types), build);
        let Built { root, dead_bytes } = built?;
        Ok(Frozen::new(arena.finish(root.raw()), types.clone(), dead_bytes))
    }

    /// Builds into an arena, beside what others have built there. Handles of theirs are of no use here.
    ///
    /// # Panics
    /// As for [`build`](Self::build); the arena is lost then.
    #[inline]
    pub(crate) fn build_in<R: Wire>(
        arena: Arena,
        build: impl for<'g> FnOnce(&mut Graph<'g>) -> Result<Ref<'g, R>, Full>,
    ) -> (Arena, Result<Built<R>, Full>) {
        let mut graph = Graph { arena, dead_bytes: 0, is_writing: false, brand: PhantomData };
        let root = build(&mut graph);
        graph.assert_written();
        let Graph { arena, dead_bytes, .. } = graph;
        (arena, root.map(|root| Built { root: root.link(), dead_bytes }))
    }
}

impl<'g> Graph<'g> {
    /// A new object.
    ///
    /// # Errors
    /// There is no room for it.
    ///
    /// # Panics
    /// `T` is none of the graph's types.
    #[inline]
    pub fn alloc<T: Wire>(&mut self, object: T) -> Result<Ref<'g, T>, Full> {
        let at = self.arena.reserve::<T>(1)?;
        self.arena.write(at, 0, object);
        let raw = NonZeroU32::new(at.raw).expect("no page has the number zero");
        Ok(Ref { raw, object: PhantomData, brand: PhantomData })
    }

    /// A new object that is made knowing its own link: one that leads to itself, or has a field for a link that is not known yet.
    ///
    /// # Errors
    /// There is no room for it.
    ///
    /// # Panics
    /// `T` is none of the graph's types.
    pub fn alloc_cyclic<T: Wire>(
        &mut self,
        object: impl FnOnce(Link<T>) -> T,
    ) -> Result<Ref<'g, T>, Full> {
        self.assert_written();
        let at = self.arena.reserve::<T>(1)?;
        let raw = NonZeroU32::new(at.raw).expect("no page has the number zero");
        self.is_writing = true;
        self.arena.write(at, 0, object(Link::new(raw)));
        self.is_writing = false;
        Ok(Ref { raw, object: PhantomData, brand: PhantomData })
    }

    /// An object as it is.
    #[inline]
    pub fn get<T: Wire>(&self, object: Ref<'g, T>) -> &T {
        let at = self.arena.position_of(object.raw.get());
        // SAFETY: by its brand the handle is one of `alloc` of this graph, which has written a `T` there; objects are never moved.
        unsafe { &self.arena.records(at, 1)[0] }
    }

    /// An object, to be changed.
    #[inline]
    pub fn get_mut<T: Wire>(&mut self, object: Ref<'g, T>) -> &mut T {
        let at = self.arena.position_of(object.raw.get());
        // SAFETY: as in `get`.
        unsafe { &mut self.arena.records_mut(at, 1)[0] }
    }

    /// A copy of these elements.
    ///
    /// # Errors
    /// There is no room for them, or they take more than 64 MiB.
    ///
    /// # Panics
    /// `T` is none of the graph's types.
    pub fn seq<T: Wire>(&mut self, elements: &[T]) -> Result<Seq<T>, Full> {
        if elements.is_empty() {
            return Ok(Seq::EMPTY);
        }
        let at = self.arena.reserve::<T>(elements.len())?;
        self.arena.write_bytes(at, cast::bytes_of(elements));
        Ok(Seq::new(at.raw, elements.len() as u32))
    }

    /// As many elements as `elements` has, written as they come.
    ///
    /// # Errors
    /// As for [`seq`](Self::seq).
    ///
    /// # Panics
    /// `T` is none of the graph's types, or there are fewer elements than `elements` has said.
    pub fn seq_from<T: Wire, I>(&mut self, elements: I) -> Result<Seq<T>, Full>
    where
        I: IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
    {
        let mut elements = elements.into_iter();
        let len = elements.len();
        if len == 0 {
            return Ok(Seq::EMPTY);
        }
        self.assert_written();
        let at = self.arena.reserve::<T>(len)?;
        self.is_writing = true;
        for index in 0..len {
            let element = elements.next().expect("an exact size is exact");
            self.arena.write(at, index, element);
        }
        self.is_writing = false;
        Ok(Seq::new(at.raw, len as u32))
    }

    /// New objects, as many as `objects` has, and a sequence with a link to each: what a vector of boxes is elsewhere. They are written as they come, which takes
    /// less time than one after the other.
    ///
    /// # Errors
    /// There is no room for them, or their links take more than 64 MiB.
    ///
    /// # Panics
    /// `T` is none of the graph's types, no type of the graph has a sequence of links to it, or there are fewer objects than `objects` has said.
    pub fn linked<T: Wire, I>(&mut self, objects: I) -> Result<Seq<Link<T>>, Full>
    where
        I: IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
    {
        let mut objects = objects.into_iter();
        let len = objects.len();
        if len == 0 {
            return Ok(Seq::EMPTY);
        }
        self.assert_written();
        // Before their links are reserved, so that these can be written whatever there is no room for.
        let (first, mut run) = self.reserve_run::<T>(len)?;
        self.is_writing = true;
        let mut next = || objects.next().expect("an exact size is exact");
        (0..run).for_each(|index| self.arena.write(first, index, next()));
        self.is_writing = false;
        let links = self.arena.reserve::<Link<T>>(len)?;
        self.is_writing = true;
        let (mut at, mut done) = (first, 0);
        loop {
            for index in 0..run {
                self.arena.write(links, done + index, at.link_to::<T>(index));
            }
            done += run;
            if done == len {
                break;
            }
            match self.reserve_run::<T>(len - done) {
                Ok(reserved) => (at, run) = reserved,
                Err(full) => {
                    (done..len)
                        .for_each(|rest| self.arena.write(links, rest, first.link_to::<T>(0)));
                    self.is_writing = false;
                    return Err(full);
                }
            }
            (0..run).for_each(|index| self.arena.write(at, index, next()));
        }
        self.is_writing = false;
        Ok(Seq::new(links.raw, len as u32))
    }

    /// Room for up to `len` objects, one behind the other, each of which can be led to; and for how many.
    #[inline]
    fn reserve_run<T: Wire>(&mut self, len: usize) -> Result<(Position, usize), Full> {
        let run = self.arena.run::<T>().min(len);
        self.arena.reserve::<T>(run).map(|at| (at, run))
    }

    /// Elements that were written before, to blocks of memory, or were received: from [`SHARED_MIN`](Self::SHARED_MIN) bytes on they are sent from where they lie, as a
    /// segment of their own that holds on to them. Fewer are copied, and so are those whose bytes do not begin at a multiple of eight or
    /// are not a multiple of it, and all that a [record of a segment](crate::GraphSegmentWriter) has.
    ///
    /// # Errors
    /// As for [`seq`](Self::seq).
    ///
    /// # Panics
    /// `T` is none of the graph's types, or `elements` are not whole elements.
    pub fn seq_shared<T: Wire>(&mut self, elements: &Shared) -> Result<Seq<T>, Full> {
        self.seq_shared_from(Self::SHARED_MIN, elements)
    }

    /// The same, shared from so many bytes on: to measure from how many that is worth it.
    #[doc(hidden)]
    pub fn seq_shared_from<T: Wire>(
        &mut self,
        shared_min: usize,
        elements: &Shared,
    ) -> Result<Seq<T>, Full> {
        const {
            let any_bytes = T::ALWAYS_VALID && !T::HAS_LINKS && !T::HAS_TRANSIENT;
            assert!(any_bytes, "bytes of which not all are a value that may leave");
        }
        let len = elements.len() / size_of::<T>();
        assert_eq!(elements.len(), len * size_of::<T>(), "a sequence is of whole elements");
        if len == 0 {
            return Ok(Seq::EMPTY);
        }
        let can_share = elements.len().is_multiple_of(8) && is_aligned(elements);
        if elements.len() >= shared_min && can_share && !self.arena.is_one_block() {
            return Ok(Seq::new(self.arena.share::<T>(elements, len)?, len as u32));
        }
        let at = self.arena.reserve::<T>(len)?;
        self.arena.write_bytes(at, elements);
        Ok(Seq::new(at.raw, len as u32))
    }

    /// Bytes from which on a sequence is rather [shared](Self::seq_shared) than copied. From 2 KiB on it takes less time, by measurement.
    pub const SHARED_MIN: usize = 4 << 10;

    /// Elements of a sequence of this graph, to be changed.
    ///
    /// # Panics
    /// It is a sequence of another graph, and there is none like it here; or it is [shared](Self::seq_shared); or what was to write some other object has panicked.
    pub fn seq_mut<T: Wire>(&mut self, seq: Seq<T>) -> &mut [T] {
        if seq.is_empty() {
            return &mut [];
        }
        self.assert_written();
        let at = self.arena.position::<T>(seq.first(), seq.len());
        let at = at.expect("a sequence is changed in its own graph, if it is not shared");
        // SAFETY: all that is reserved in pages of `T` was written as values of `T` at once, unless that has panicked, or is one written before
        // again.
        unsafe { self.arena.records_mut(at, seq.len()) }
    }

    /// A copy of a text. Up to seven bytes lie in the field itself and take no other room.
    ///
    /// # Errors
    /// There is no room for it, or it has more than 64 MiB.
    ///
    /// # Panics
    /// The text is longer than that, and no type of the graph has a [`Text`].
    #[inline]
    pub fn text(&mut self, text: &str) -> Result<Text, Full> {
        match Text::inline(text) {
            Some(text) => Ok(text),
            None => self.arena.long_text(text),
        }
    }

    /// A copy of these bytes.
    ///
    /// # Errors
    /// As for [`seq`](Self::seq).
    ///
    /// # Panics
    /// `u8` is none of the graph's types.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<Bytes, Full> {
        self.seq(bytes)
    }

    /// A map of these pairs. Of those with the same key, the last stays.
    ///
    /// # Errors
    /// As for [`seq`](Self::seq).
    ///
    /// # Panics
    /// The pairs' type is none of the graph's.
    pub fn map<K: Wire + Ord, V: Wire>(
        &mut self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Map<K, V>, Full> {
        let sorted: BTreeMap<K, V> = pairs.into_iter().collect();
        self.seq_from(sorted.into_iter().map(|(key, value)| Pair { key, value }))
    }

    /// A map with texts as keys, which are copied.
    ///
    /// # Errors
    /// As for [`seq`](Self::seq).
    ///
    /// # Panics
    /// The pairs' type is none of the graph's.
    pub fn text_map<'t, V: Wire>(
        &mut self,
        pairs: impl IntoIterator<Item = (&'t str, V)>,
    ) -> Result<Map<Text, V>, Full> {
        let sorted: BTreeMap<&str, V> = pairs.into_iter().collect();
        let mut pairs = Vec::with_capacity(sorted.len());
        for (key, value) in sorted {
            pairs.push(Pair { key: self.text(key)?, value });
        }
        self.seq(&pairs)
    }

    /// Notes that nothing leads to an object any more. It is sent all the same: see [`Frozen::dead_bytes`].
    pub fn abandon<T: Wire>(&mut self, object: Ref<'g, T>) {
        let _ = object;
        self.dead_bytes += size_of::<T>() as u64;
    }

    /// Notes that nothing leads to a sequence any more.
    pub fn abandon_seq<T: Wire>(&mut self, seq: Seq<T>) {
        self.dead_bytes += (seq.len() * size_of::<T>()) as u64;
    }

    /// Bytes that it takes so far, with what pages have left.
    pub fn len_bytes(&self) -> u64 {
        self.arena.bytes()
    }

    /// What was reserved for code of the user's has been written by it.
    fn assert_written(&self) {
        assert!(!self.is_writing, "a graph is used after a panic of what was to write it");
    }
}

impl fmt::Debug for Graph<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("bytes", &self.len_bytes()).finish_non_exhaustive()
    }
}
