//! Records that are graphs of objects, written where they are sent from.

use std::fmt;
use std::marker::PhantomData;

use weft_object_derive::Wire;
use weft_transport::{Memory, MemoryError, Purpose};

use crate::arena::{Arena, Mark};
use crate::error::Full;
use crate::graph::{Built, Graph, Ref};
use crate::link::Link;
use crate::segment::{BODY_BYTES_MAX, PAGE_BYTES, Segment};
use crate::types::Types;
use crate::wire::Wire;

/// What a segment has for each record that is a graph: a link of four bytes to its root, in the order in which the records were written. So objects of the root's type may
/// lead to one another without being records.
#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
pub struct Root<R> {
    object: Link<R>,
}

impl<R> Root<R> {
    #[inline]
    pub(crate) fn object(self) -> Link<R> {
        self.object
    }
}

/// Fills one segment with records each of which is a graph with a root of type `R`, in registered memory. Each is built by a [`Graph`], as graphs are that are sent alone; all of
/// them are in pages of the same segment, so that a small one takes no room beside its objects but four bytes. They are read by
/// [`View::roots`](crate::View::roots), where they were received.
///
/// A link that was taken from another record leads there if it is one of the same segment, which does no harm, and is otherwise found when the segment is checked.
///
/// ```
/// use weft_object::{GraphSegmentWriter, Link, Root, Seq, Text, Types, Wire};
/// use weft_transport::{Memory, MemoryConfig, Purpose};
///
/// #[derive(Wire, Clone, Copy)]
/// #[repr(C)]
/// struct Author {
///     name: Text,
/// }
///
/// #[derive(Wire, Clone, Copy)]
/// #[repr(C)]
/// struct Book {
///     title: Text,
///     authors: Seq<Link<Author>>,
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 })?;
/// let types = Types::new().with::<Root<Book>>();
/// let mut writer = GraphSegmentWriter::<Book>::new(&memory, Purpose::Send, &types, 4096)?;
/// writer.push(|graph| {
///     let name = graph.text("Charles Babbage")?;
///     let babbage = graph.alloc(Author { name })?;
///     let title = graph.text("Passages from the Life of a Philosopher")?;
///     let authors = graph.seq(&[babbage.link()])?;
///     graph.alloc(Book { title, authors })
/// })?;
/// let segment = writer.freeze();
/// let view = segment.view(&types)?;
/// for book in view.roots::<Book>() {
///     let first = view.get(view.seq(book.authors)[0]);
///     assert_eq!(view.text(&first.name), "Charles Babbage");
/// }
/// # Ok(())
/// # }
/// ```
pub struct GraphSegmentWriter<R> {
    /// None if what was to build a record has panicked.
    arena: Option<Arena>,
    /// Where the next record begins.
    mark: Mark,
    len: usize,
    records: PhantomData<fn(R)>,
}

impl<R: Wire> GraphSegmentWriter<R> {
    /// An empty segment of up to `bytes` bytes of pages, which are allocated now.
    ///
    /// # Errors
    /// No memory for that many.
    ///
    /// # Panics
    /// If `bytes` is less than a page or more than [`BODY_BYTES_MAX`].
    pub fn new(
        memory: &Memory,
        purpose: Purpose,
        types: &Types,
        bytes: usize,
    ) -> Result<Self, MemoryError> {
        assert!((PAGE_BYTES..=BODY_BYTES_MAX).contains(&bytes), "a segment of {bytes} bytes");
        let arena = Some(Arena::of_one_block(memory, purpose, types, bytes)?);
        Ok(Self { arena, mark: Mark::default(), len: 0, records: PhantomData })
    }

    /// Appends the record that `build` builds, whose root is the object that it returns.
    ///
    /// # Errors
    /// That of `build`; or the segment is full. Nothing of the record is in the segment then.
    ///
    /// # Panics
    /// As for [`Graph::build`], or if [`Root<R>`] is none of the types. A writer is of no use after a panic.
    #[inline]
    pub fn push(
        &mut self,
        build: impl for<'g> FnOnce(&mut Graph<'g>) -> Result<Ref<'g, R>, Full>,
    ) -> Result<(), Full> {
        let arena = self.arena.take().expect(LOST);
        arena.mark(&mut self.mark);
        let (arena, built) = Graph::build_in(arena, build);
        let arena = self.arena.insert(arena);
        let appended = built.and_then(|Built { root, .. }| {
            let at = arena.reserve::<Root<R>>(1)?;
            arena.write(at, 0, Root { object: root });
            Ok(())
        });
        match appended {
            Ok(()) => self.len += 1,
            Err(_) => arena.take_back(&self.mark),
        }
        appended
    }

    /// Records written so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no record has been written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Completes the segment. Nothing is copied, unless it is small.
    ///
    /// # Panics
    /// What was to build a record has panicked.
    pub fn freeze(self) -> Segment {
        let mut segments = self.arena.expect(LOST).finish(0);
        segments.pop().expect("there is one block, and each becomes a segment")
    }
}

/// What a writer is after a panic.
const LOST: &str = "what was to build a record has panicked";

impl<R> fmt::Debug for GraphSegmentWriter<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphSegmentWriter").field("len", &self.len).finish_non_exhaustive()
    }
}
