//! What objects of several types have in common.

use std::fmt;

use crate::link::AnyLink;
use crate::pages::Checked;
use crate::view::View;
use crate::wire::Wire;

/// A closed set of types that are used as `S`, a trait object mostly, behind an [`AnyLink`].
///
/// ```
/// use weft_object::{Graph, Registry, Types, Wire};
/// # use weft_transport::{Memory, MemoryConfig, Purpose};
///
/// trait Shape {
///     fn area(&self) -> f64;
/// }
///
/// #[derive(Wire, Clone, Copy)]
/// #[repr(C)]
/// struct Square {
///     side: f64,
/// }
///
/// impl Shape for Square {
///     fn area(&self) -> f64 {
///         self.side * self.side
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 })?;
/// let shapes = Registry::<dyn Shape>::new().with::<Square>(|square| square);
/// let types = Types::new().with::<Square>().with::<weft_object::AnyLink>();
/// let graph = Graph::build(&memory, Purpose::Send, &types, |graph| {
///     let square = graph.alloc(Square { side: 3.0 })?.link();
///     graph.alloc(square.any())
/// })?;
/// let view = graph.view()?;
/// let shape = shapes.get(&view, *view.root()?).expect("it is a shape");
/// assert_eq!(shape.area(), 9.0);
/// # Ok(())
/// # }
/// ```
pub struct Registry<S: ?Sized + 'static> {
    entries: Vec<Entry<S>>,
}

/// How an object of one type is used, if that is what a link leads to.
type Entry<S> = Box<dyn for<'v> Fn(Checked<'v>, AnyLink) -> Option<&'v S> + Send + Sync>;

impl<S: ?Sized + 'static> Registry<S> {
    /// No types.
    pub fn new() -> Self {
        Self::default()
    }

    /// The set with one more type, used as `cast` says.
    pub fn with<T: Wire>(mut self, cast: fn(&T) -> &S) -> Self {
        self.entries.push(Box::new(move |objects, link| {
            let found = objects.records::<T>(link.raw(), 1).ok()?;
            Some(cast(&found[0]))
        }));
        self
    }

    /// The object to which a link leads, if it is of one of the types.
    pub fn get<'v, B>(&self, view: &'v View<B>, link: AnyLink) -> Option<&'v S> {
        self.entries.iter().find_map(|entry| entry(view.checked(), link))
    }
}

impl<S: ?Sized + 'static> Default for Registry<S> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<S: ?Sized + 'static> fmt::Debug for Registry<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("types", &self.entries.len()).finish()
    }
}
