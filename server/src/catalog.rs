//! Which tables the node has: the catalog that clients gave to it, and the quotas that go with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_protocol::{Catalog, PutTablesReply, Slot, TableClass, TableEntry, TableId};
use weft_transport::{Charge, Memory, MemoryError, Purpose};

use crate::evictor::Evictor;
use crate::hot_keys::HotKeys;
use crate::partitions::Partitions;
use crate::store::{Partition, Quota, TableConfig};

/// The catalog, changed by one at a time.
#[derive(Debug)]
pub(crate) struct NodeCatalog {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    catalog: Catalog,
    /// Of the tables that have one.
    quotas: BTreeMap<TableId, Arc<Quota>>,
    /// For what all partitions know of the tables, whether anything is in them or not.
    charge: Charge,
}

impl NodeCatalog {
    /// The one table that is always there. What others take is charged to `memory`.
    pub(crate) fn new(memory: &Memory) -> NodeCatalog {
        let charge = memory.charge(0, Purpose::Partition).expect("charging nothing needs no room");
        let (catalog, quotas) = (Catalog::default(), BTreeMap::new());
        NodeCatalog { state: Mutex::new(State { catalog, quotas, charge }) }
    }

    pub(crate) fn get(&self) -> Catalog {
        self.state.lock().catalog.clone()
    }

    /// Has `catalog`, which has to be newer, in the place of the one of version `expected`: drops, creates and alters tables in all `partitions`, and
    /// has `hot_keys` forget those of tables that are not there any more. The caller may hold none of the partitions.
    ///
    /// # Errors
    /// [`MemoryError::LimitReached`] if more tables find no room; nothing has changed then.
    pub(crate) fn put(
        &self,
        partitions: &Partitions,
        evictor: &Evictor,
        hot_keys: &HotKeys,
        expected: u64,
        catalog: Catalog,
    ) -> Result<PutTablesReply, MemoryError> {
        let State { catalog: current, quotas, charge } = &mut *self.state.lock();
        if current.version() != expected || catalog.version() <= expected {
            return Ok(PutTablesReply::Conflict { version: current.version() });
        }
        let each = Partition::table_bytes(catalog.tables().len());
        let bytes = each * partitions.len() as u64;
        // Before anything is done, and for what there is until all is done.
        charge.resize(bytes.max(charge.bytes()))?;
        let stays =
            |table: &TableEntry| catalog.table(table.id).is_some_and(|next| is_same(table, next));
        let dropped: Vec<_> =
            current.tables().iter().filter(|table| !stays(table)).map(|table| table.id).collect();
        let default = (TableId::DEFAULT, catalog.default_options());
        let others = catalog.tables().iter().map(|table| (table.id, table.options));
        let tables: Vec<_> = std::iter::once(default).chain(others).collect();
        // Another table of the same number has nothing of what this one had.
        quotas.retain(|table, _| !dropped.contains(table));
        for table in &dropped {
            partitions.classes().set(*table, TableClass::DEFAULT);
        }
        for (table, options) in &tables {
            partitions.classes().set(*table, options.class());
            match options.quota_bytes.map(|quota_bytes| share(quota_bytes, *table, partitions)) {
                Some(limit) => quotas
                    .entry(*table)
                    .or_insert_with(|| Arc::new(Quota::new(limit)))
                    .set_limit(limit),
                None => drop(quotas.remove(table)),
            }
        }
        for position in 0..partitions.len() as u16 {
            let mut partition = partitions.lock(position);
            for table in &dropped {
                partition.drop_table(*table);
            }
            for (table, options) in &tables {
                let config = TableConfig {
                    id: *table,
                    ordered: options.ordered,
                    quota: quotas.get(table).cloned(),
                    eviction: options.eviction,
                };
                if partition.has_table(*table) {
                    partition.alter_table(config);
                } else {
                    partition.create_table(config);
                }
            }
        }
        evictor.take_note(&catalog);
        // Of a table under a number that another one had, no request was seen yet.
        hot_keys.keep_tables(|id| id == TableId::DEFAULT || current.table(id).is_some_and(stays));
        *current = catalog;
        charge.resize(bytes).expect("it has become no more");
        Ok(PutTablesReply::Done { version: current.version() })
    }
}

/// Whether a table is still the one that it was, whatever else of it has changed.
fn is_same(table: &TableEntry, next: &TableEntry) -> bool {
    (table.id, &table.name, table.options.ordered) == (next.id, &next.name, next.options.ordered)
}

/// The share of a quota that the node's slots have. Rounded up, so that a small quota lets something in.
fn share(quota_bytes: u64, table: TableId, partitions: &Partitions) -> u64 {
    let all = u128::from(Slot::COUNT);
    let share = (u128::from(quota_bytes) * partitions.slots(table) as u128).div_ceil(all);
    u64::try_from(share).expect("a share is at most the whole")
}
