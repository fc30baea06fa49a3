//! Which tables the node has: the catalog that it was told of, and the quotas that go with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_protocol::{Catalog, Slot, TableClass, TableEntry, TableId, TableOptions};
use weft_transport::{Charge, Memory, MemoryError, Purpose};

use crate::cluster::hosted::Due;
use crate::cluster::tables::WantedTable;
use crate::handler::NodeHandler;
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
    /// Whether it is the cluster's, and not that of a node that has heard of none yet.
    is_learned: bool,
}

impl NodeCatalog {
    /// The one table that is always there. What others take is charged to `memory`.
    pub(crate) fn new(memory: &Memory) -> NodeCatalog {
        let charge = memory.charge(0, Purpose::Partition).expect("charging nothing needs no room");
        let (catalog, quotas) = (Catalog::default(), BTreeMap::new());
        NodeCatalog { state: Mutex::new(State { catalog, quotas, charge, is_learned: false }) }
    }

    pub(crate) fn get(&self) -> Catalog {
        self.state.lock().catalog.clone()
    }
}

impl NodeHandler {
    /// The cluster has these tables from now on, unless a newer catalog is known. The partitions here come to have them as it is
    /// theirs to: those that this node is primary of at once, as far as they can take entries now.
    ///
    /// # Errors
    /// [`MemoryError::LimitReached`] if memory has no room for what partitions know of so many tables. They are there nevertheless, since all members of a
    /// partition have the same: what is short is the room for objects.
    pub fn learn_catalog(&self, catalog: &Catalog) -> Result<(), MemoryError> {
        let State { catalog: current, quotas, charge, is_learned } =
            &mut *self.catalog.state.lock();
        if *is_learned && catalog.version() <= current.version() {
            return Ok(());
        }
        let is_gone =
            |table: &&TableEntry| !catalog.table(table.id).is_some_and(|next| is_same(table, next));
        let gone: Vec<_> = current.tables().iter().filter(is_gone).cloned().collect();
        for table in &gone {
            quotas.remove(&table.id);
            self.partitions.classes().set(table.id, TableClass::DEFAULT);
        }
        if gone.iter().any(|table| catalog.table(table.id).is_some()) {
            // Another table has been given the number. First nobody has a table of it, so that nothing of the old one is taken for the new one's.
            let stay = current.tables().iter().filter(|table| !gone.contains(table));
            self.have_tables(quotas, current.default_options(), stay);
        }
        let default = (TableId::DEFAULT, catalog.default_options());
        let others = catalog.tables().iter().map(|table| (table.id, table.options));
        for (id, options) in std::iter::once(default).chain(others) {
            self.partitions.classes().set(id, options.class());
        }
        self.have_tables(quotas, catalog.default_options(), catalog.tables().iter());
        self.evictor.take_note(catalog);
        // Of a table under a number that another one had, no request was seen yet.
        let has_stayed = |id| current.table(id).is_some_and(|table| !gone.contains(table));
        self.hot_keys.keep_tables(|id| id == TableId::DEFAULT || has_stayed(id));
        self.sweeper.look_for_buried();
        let each = Partition::table_bytes(catalog.tables().len());
        (*current, *is_learned) = (catalog.clone(), true);
        charge.resize(each * self.partitions.len() as u64)
    }

    /// Has all partitions look at which tables there are now.
    fn have_tables<'c>(
        &self,
        quotas: &mut BTreeMap<TableId, Arc<Quota>>,
        default: TableOptions,
        others: impl Iterator<Item = &'c TableEntry>,
    ) {
        let others = others.map(|table| (table.id, table.options));
        let tables = std::iter::once((TableId::DEFAULT, default)).chain(others);
        let wanted = tables.map(|(id, options)| {
            let TableOptions { ordered, quota_bytes, eviction, .. } = options;
            let limit = quota_bytes.map(|bytes| share(bytes, id, &self.partitions));
            let config = TableConfig { id, ordered, quota: quota(quotas, id, limit), eviction };
            WantedTable { class: options.class(), config }
        });
        self.cluster.tables.set(wanted.collect());
        let (now, mut due) = (self.now_by_both(), Due::default());
        for position in self.partitions.positions() {
            self.partitions.host(position).look_at_tables(&self.cluster, now, &mut due);
        }
        self.cluster.deliver(&self.answers, &mut due);
    }

    /// Partitions have come or gone: quotas are shared by the slots that this node serves.
    pub(crate) fn share_quotas_anew(&self) {
        let state = self.catalog.state.lock();
        for (id, quota) in &state.quotas {
            let options = match *id {
                TableId::DEFAULT => Some(state.catalog.default_options()),
                id => state.catalog.table(id).map(|table| table.options),
            };
            if let Some(bytes) = options.and_then(|options| options.quota_bytes) {
                quota.set_limit(share(bytes, *id, &self.partitions));
            }
        }
    }
}

/// The quota of a table that has one from now on, or none.
fn quota(
    quotas: &mut BTreeMap<TableId, Arc<Quota>>,
    id: TableId,
    limit: Option<u64>,
) -> Option<Arc<Quota>> {
    let Some(limit) = limit else {
        quotas.remove(&id);
        return None;
    };
    let quota = quotas.entry(id).or_insert_with(|| Arc::new(Quota::new(limit)));
    quota.set_limit(limit);
    Some(Arc::clone(quota))
}

/// Whether a table is still the one that it was, whatever else of it has changed.
fn is_same(table: &TableEntry, next: &TableEntry) -> bool {
    (table.id, &table.name, table.options.ordered) == (next.id, &next.name, next.options.ordered)
}

/// The share of a quota that the slots have which this node serves: copies that it keeps for others are those others' affair. Rounded up, so that a small quota lets something in.
fn share(quota_bytes: u64, table: TableId, partitions: &Partitions) -> u64 {
    let all = u128::from(Slot::COUNT);
    let share = (u128::from(quota_bytes) * partitions.slots(table) as u128).div_ceil(all);
    u64::try_from(share).expect("a share is at most the whole")
}
