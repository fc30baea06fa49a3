//! Which class each table is of: whose partitions have its keys.

use std::sync::atomic::{AtomicU8, Ordering};

use weft_protocol::{Durability, TableClass, TableId, TableOptions};

/// How many classes there can be.
pub(super) const CLASSES: usize = TableOptions::REPLICAS_MAX as usize * Durability::ALL.len();

/// A class's number.
pub(super) fn class_index(class: TableClass) -> usize {
    let durability = Durability::ALL.iter().position(|one| *one == class.durability);
    let durability = durability.expect("all are listed");
    usize::from(class.replicas - 1) * Durability::ALL.len() + durability
}

/// The classes, by table: a byte each, so that finding one costs nothing beside the lookup of the key.
#[derive(Debug)]
pub(crate) struct Classes {
    by_table: Box<[AtomicU8]>,
}

impl Default for Classes {
    fn default() -> Classes {
        let default = class_index(TableClass::DEFAULT) as u8;
        Classes { by_table: (0..=u16::MAX).map(|_| AtomicU8::new(default)).collect() }
    }
}

impl Classes {
    /// The number of the class that `table` is of.
    #[inline]
    pub(super) fn index_of(&self, table: TableId) -> usize {
        usize::from(self.by_table[usize::from(table.0)].load(Ordering::Relaxed))
    }

    /// `table` is of `class` from now on.
    pub(crate) fn set(&self, table: TableId, class: TableClass) {
        self.by_table[usize::from(table.0)].store(class_index(class) as u8, Ordering::Relaxed);
    }
}
