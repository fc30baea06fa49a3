//! Messages as programs have them, which encode them: made by a sender, and by who decodes them.

#![expect(
    clippy::vec_box,
    reason = "an object of its own each, as objects of Java are: that is what is measured"
)]

use weft_shuffle::job::pagerank::{LeavingSums, LeavingUpdates};

/// What a message has, so that it takes a segment, 50 to 64 KiB: updates by bitcode, which takes 12 bytes for one, ...
pub(crate) const BITCODE_LEN: usize = 5000;
/// ... sums or updates of 16 bytes ...
pub(crate) const VALUES_LEN: usize = 4000;
/// ... and updates with a pointer each.
pub(crate) const OBJECTS_LEN: usize = 3200;

/// What a vertex is given along one edge.
#[derive(Clone, Copy, Debug, bitcode::Encode, bitcode::Decode, rkyv::Archive, rkyv::Serialize)]
pub(crate) struct Update {
    pub(crate) vertex: u64,
    pub(crate) value: f64,
}

/// An object each.
#[derive(Debug, bitcode::Encode, bitcode::Decode, rkyv::Archive, rkyv::Serialize)]
pub(crate) struct Objects(pub(crate) Vec<Box<Update>>);

/// One behind the other.
#[derive(Debug, Default, bitcode::Encode, bitcode::Decode, rkyv::Archive, rkyv::Serialize)]
pub(crate) struct Values(pub(crate) Vec<Update>);

/// What vertices are given by all of a worker's.
#[derive(Debug, Default, bitcode::Encode, bitcode::Decode, rkyv::Archive, rkyv::Serialize)]
pub(crate) struct Arrays {
    pub(crate) vertices: Vec<u64>,
    pub(crate) values: Vec<f64>,
}

impl Update {
    fn of((vertex, value): (u64, f64)) -> Update {
        Update { vertex, value }
    }
}

impl Objects {
    pub(crate) fn of(leaving: &LeavingUpdates<'_>) -> Objects {
        Objects(leaving.iter().map(|update| Box::new(Update::of(update))).collect())
    }
}

impl Values {
    /// In the memory of those before.
    pub(crate) fn fill(&mut self, leaving: &LeavingUpdates<'_>) {
        self.0.clear();
        self.0.extend(leaving.iter().map(Update::of));
    }
}

impl Arrays {
    /// In the memory of those before.
    pub(crate) fn fill(&mut self, leaving: &LeavingSums<'_>) {
        self.vertices.clear();
        self.vertices.extend_from_slice(leaving.vertices());
        self.values.clear();
        self.values.extend(leaving.values());
    }
}
