//! Records as columns: the containers that Timely recommends for what is sent between processes, in
//! place of vectors encoded by bincode. They follow `examples/columnar.rs` of Timely 0.32.
//!
//! What arrives is read where it lies. What is sent stays as it was built until the transport
//! writes it out, and is looked at for its size only now and then, which is where they differ from
//! the example.

use std::collections::VecDeque;
use std::io::Write;

use columnar::bytes::indexed;
use columnar::bytes::stash::Stash;
use columnar::common::IterOwn;
use columnar::{Container, ContainerBytes, Index as _, Len as _};
use timely::Accountable;
use timely::bytes::arc::Bytes;
use timely::container::{
    ContainerBuilder, DrainContainer, LengthPreservingContainerBuilder, PushInto,
};

/// About how many words of eight bytes a column has when it is sent: half a mebibyte, of which two
/// fit into one of the transport's buffers.
const WORDS: usize = 1 << 16;

/// After how many records the size is looked at again.
const RECORDS_BETWEEN_LOOKS: usize = 256;

/// A batch of records.
#[derive(Clone)]
pub struct Column<C>(Stash<C, Bytes>);

/// Makes [`Column`]s of records.
#[derive(Default)]
pub struct ColumnBuilder<C> {
    current: C,
    full: VecDeque<Column<C>>,
    given: Option<Column<C>>,
}

impl<C: ContainerBytes> Column<C> {
    /// The records, wherever they lie.
    pub fn borrow(&self) -> C::Borrowed<'_> {
        self.0.borrow()
    }
}

impl<C: Default> Default for Column<C> {
    fn default() -> Self {
        Self(Stash::default())
    }
}

impl<C: ContainerBytes> Accountable for Column<C> {
    fn record_count(&self) -> i64 {
        self.borrow().len() as i64
    }
}

impl<C: ContainerBytes> DrainContainer for Column<C> {
    type Item<'a> = C::Ref<'a>;
    type DrainIter<'a> = IterOwn<C::Borrowed<'a>>;

    fn drain(&mut self) -> Self::DrainIter<'_> {
        self.borrow().into_index_iter()
    }
}

impl<C: ContainerBytes> timely::dataflow::channels::ContainerBytes for Column<C> {
    fn from_bytes(bytes: Bytes) -> Self {
        Self(Stash::try_from_bytes(bytes).expect("the same program wrote it"))
    }

    fn length_in_bytes(&self) -> usize {
        self.0.length_in_bytes()
    }

    fn into_bytes<W: Write>(&self, writer: &mut W) {
        self.0.write_bytes(writer).expect("it is written to memory");
    }
}

impl<C: Container + ContainerBytes + columnar::Push<T>, T> PushInto<T> for ColumnBuilder<C> {
    #[inline]
    fn push_into(&mut self, record: T) {
        self.current.push(record);
        if self.current.len().is_multiple_of(RECORDS_BETWEEN_LOOKS)
            && indexed::length_in_words(&self.current.borrow()) >= WORDS
        {
            self.full.push_back(Column(Stash::Typed(std::mem::take(&mut self.current))));
        }
    }
}

impl<C: ContainerBytes> ContainerBuilder for ColumnBuilder<C> {
    type Container = Column<C>;

    #[inline]
    fn extract(&mut self) -> Option<&mut Column<C>> {
        let full = self.full.pop_front()?;
        Some(self.given.insert(full))
    }

    fn finish(&mut self) -> Option<&mut Column<C>> {
        if !self.current.is_empty() {
            self.full.push_back(Column(Stash::Typed(std::mem::take(&mut self.current))));
        }
        self.given = self.full.pop_front();
        self.given.as_mut()
    }
}

impl<C: ContainerBytes> LengthPreservingContainerBuilder for ColumnBuilder<C> {}
