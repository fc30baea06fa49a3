//! Typed objects and graphs of them, born in wire format in registered memory.
//!
//! A [`Graph`] is built in blocks of [`weft_transport::Memory`], in the layout in which it is sent and used; an [`Assembly`] checks
//! its segments as they come, and a [`View`] then lends the objects where they lie. Sending is handing over blocks: no traversal, no encoding,
//! and no copy of what is long, which is the idea of Naos (Taranov et al., ATC '21) carried to memory that is registered from the start. That
//! a page holds one type, so that the check is one linear pass, is the design of typed pages drawn
//! in `docs/object-graphs.md`. A [`SegmentWriter`] does the same for records without links, a
//! [`TextSegmentWriter`] for such with texts, and a [`GraphSegmentWriter`] for records that are graphs each: the shuffle exchanges these.
//!
//! The invariant: **no byte is read that has not been validated**. A view exists only after the one
//! pass that checks every page.
//!
//! ```
//! use weft_object::{SegmentWriter, Types, View, Wire};
//! use weft_transport::{Memory, MemoryConfig, Purpose};
//!
//! #[derive(Wire, Clone, Copy, Debug, PartialEq)]
//! #[repr(C)]
//! struct Rank {
//!     vertex: u64,
//!     rank: f64,
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let memory = Memory::new(MemoryConfig { limit_bytes: 1 << 20 })?;
//! let types = Types::new().with::<Rank>();
//! let mut writer = SegmentWriter::<Rank>::new(&memory, Purpose::Send, &types, 4096)?;
//! writer.push(Rank { vertex: 7, rank: 0.5 })?;
//! let segment = writer.freeze();
//!
//! // What a peer would send: the head, and then the pages as they are.
//! let received = [segment.head(), segment.pages()].concat();
//! let aligned = weft_object::AlignedBytes::copied(&received);
//! let view = View::validate(aligned, &types)?;
//! let ranks: Vec<Rank> = view.records::<Rank>().flatten().copied().collect();
//! assert_eq!(ranks, [Rank { vertex: 7, rank: 0.5 }]);
//! # Ok(())
//! # }
//! ```

#![deny(unsafe_code)]

// The derive macro names this crate from outside; its tests and examples are inside.
extern crate self as weft_object;

mod arena;
mod assembly;
mod bytes;
mod cast;
pub mod channel;
mod compact;
mod error;
mod fingerprint;
mod frozen;
mod graph;
mod graph_writer;
mod link;
mod map;
mod pages;
mod pair;
mod record;
mod registry;
mod segment;
mod seq;
mod text;
mod text_key;
mod text_writer;
mod types;
mod value;
mod view;
mod wire;
mod writer;

pub mod service;

pub use assembly::{Assembly, Limits, is_aligned};
pub use bytes::{AlignedBytes, ReplyBytes, StableBytes};
pub use compact::Mover;
pub use error::{Fault, Full, Invalid, OtherRoot, TypesDiffer};
pub use fingerprint::{Field, Fingerprint};
pub use frozen::{CompactError, Frozen};
pub use graph::{Graph, Ref};
pub use graph_writer::{GraphSegmentWriter, Root};
pub use link::{AnyLink, Link};
pub use map::{Key, Map, MapView};
pub use pages::Targets;
pub use pair::Pair;
pub use record::Record;
pub use registry::Registry;
pub use segment::{BODY_BYTES_MAX, HEAD_BYTES_MAX, PAGE_BYTES, PAGES_MAX, Segment};
pub use seq::{Bytes, Seq};
pub use text::Text;
pub use text_key::TextKey;
pub use text_writer::{TextSegmentWriter, Texts};
pub use types::{TypeInfo, Types};
pub use value::InvalidValue;
pub use view::{Records, View};
pub use weft_object_derive::{Wire, service};
pub use wire::Wire;
pub use writer::SegmentWriter;
