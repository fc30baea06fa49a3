//! A table, as requests and routes name it.

use weft_protocol::{Catalog, CatalogError, TableClass, TableId};

/// A table's number, and which partitions its objects are in. Neither ever changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) id: TableId,
    /// Of the table that is always there, [the map](weft_protocol::ClusterMap::default_class) says it.
    pub(crate) class: TableClass,
}

impl Table {
    /// The one that is always there.
    pub(crate) const DEFAULT: Self = Self { id: TableId::DEFAULT, class: TableClass::DEFAULT };

    /// The one of this name.
    pub(crate) fn named(name: &str, catalog: &Catalog) -> Result<Self, CatalogError> {
        let id = catalog.id_of(name)?;
        let class = catalog.class_of(id).expect("the catalog has it");
        Ok(Self { id, class })
    }
}
