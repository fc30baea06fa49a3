//! Tables are created, dropped and altered.

use weft_protocol::{Catalog, CatalogError, TableAlteration, TableId, TableOptions};

use crate::coordinator::command::{Applied, Outcome};
use crate::coordinator::rejection::Rejection;
use crate::coordinator::state::ClusterState;

impl ClusterState {
    /// Without tables but the one that is always there.
    pub(super) fn first_catalog(default: TableOptions) -> Result<Catalog, Rejection> {
        let catalog = Catalog::restored(0, TableId::DEFAULT, default, Vec::new());
        // An order is all else that could be wrong with it.
        let error = match default.ordered {
            true => CatalogError::Default,
            false => CatalogError::Replicas { replicas: default.replicas },
        };
        catalog.map_err(|_| error.into())
    }

    pub(super) fn create_table(&mut self, name: &str, options: TableOptions) -> Applied {
        let catalog = self.catalog.with(name, options).map_err(Rejection::from)?;
        let id = catalog.last_given();
        self.replace_catalog(catalog);
        Ok(Outcome::TableCreated { id })
    }

    pub(super) fn drop_table(&mut self, name: &str) -> Applied {
        let catalog = self.catalog.without(name).map_err(Rejection::from)?;
        self.replace_catalog(catalog);
        Ok(Outcome::Done)
    }

    pub(super) fn alter_table(&mut self, name: &str, change: TableAlteration) -> Applied {
        let catalog = self.catalog.altered(name, change).map_err(Rejection::from)?;
        self.replace_catalog(catalog);
        Ok(Outcome::Done)
    }

    /// The catalog is another one. Classes that it is the first to need are without partitions until they are placed; those that it needs no more
    /// keep theirs, which are empty and cost little, for the next table of the kind.
    pub(super) fn replace_catalog(&mut self, catalog: Catalog) {
        self.classes.entry(catalog.default_options().class()).or_default();
        for table in catalog.tables() {
            self.classes.entry(table.options.class()).or_default();
        }
        self.catalog = catalog;
        self.catalog_changed_at = self.next_version();
    }
}
