//! What tables that are there for a short time have lost: those that are there in the end, since nobody was told that they were dropped.

use std::collections::{BTreeMap, BTreeSet};

use weft_protocol::{ClusterMap, Durability, Slot, TableOptions};

use super::tables::{BriefKey, brief_key};
use crate::history::{Ending, History, Operation};

/// A change that was acknowledged of a table of `fsync` and whose partition is lost, by the map of the end. `brief` are the tables in the order in which
/// they were made, and `names` those that there are in the end.
pub(super) fn lost_brief<'h>(
    history: &'h History,
    brief: &[TableOptions],
    map: &ClusterMap,
    names: &BTreeSet<&str>,
) -> Option<&'h Operation> {
    let operations = history.operations().iter();
    let noted: Vec<(&Operation, BriefKey<'_>)> =
        operations.filter_map(|operation| Some((operation, brief_key(&operation.key)?))).collect();
    // Of those with one name, only the last may be there: the ones before were dropped.
    let mut latest: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, BriefKey { table, round, .. }) in &noted {
        let last = latest.entry(table).or_insert(*round);
        *last = (*last).max(*round);
    }
    let is_lost = |(operation, of): &(&Operation, BriefKey<'_>)| {
        let BriefKey { table, round, key } = *of;
        let is_acknowledged = matches!(operation.ending, Ending::Completed { .. });
        let is_there = names.contains(table) && latest[table] == round;
        let (class, slot) = (brief[round].class(), Slot::of(key));
        let is_gone = map.partitions().iter().any(|entry| {
            let is_of_key = (entry.first_slot..=entry.last_slot).contains(&slot);
            entry.is_lost && entry.class == class && is_of_key
        });
        let is_change = operation.action.is_mutation() && is_acknowledged;
        is_change && is_there && is_gone && class.durability == Durability::Fsync
    };
    noted.into_iter().find(is_lost).map(|(operation, _)| operation)
}

#[cfg(test)]
mod tests {
    use weft_protocol::{NodeEntry, PartitionEntry};
    use weft_transport::{Incarnation, NodeId, Time};

    use super::*;
    use crate::history::{Action, Outcome, Recorder};

    const SYNCED: TableOptions = options(Durability::Fsync);

    const fn options(durability: Durability) -> TableOptions {
        TableOptions {
            ordered: false,
            quota_bytes: None,
            eviction: weft_protocol::Eviction::None,
            replicas: 1,
            durability,
        }
    }

    /// All partitions of such a table, lost or not.
    fn map(options: TableOptions, is_lost: bool) -> ClusterMap {
        let address = "10.0.0.1:7400".to_owned();
        let node = NodeEntry { id: NodeId(1), incarnation: Incarnation(1), address };
        let even = ClusterMap::even(vec![node], 2, 1).expect("a map");
        let entries = even.partitions().iter().map(|entry| PartitionEntry {
            class: options.class(),
            primary: entry.primary.filter(|_| !is_lost),
            members: if is_lost { Vec::new() } else { entry.members.clone() },
            is_lost,
            ..entry.clone()
        });
        ClusterMap::new(1, even.nodes().to_vec(), entries.collect()).expect("a map")
    }

    /// The key of the change that is found to be lost, of tables of which each was written to.
    fn lost(brief: &[TableOptions], map: &ClusterMap, names: &[&str]) -> Option<Vec<u8>> {
        let recorder = Recorder::new();
        for round in 0..brief.len() {
            let key = format!("brief-0 {round}/register-1");
            let put = Action::Put(b"value".to_vec());
            let id = recorder.invoke(1, key.as_bytes(), put, Time::ZERO);
            recorder.complete(id, Outcome::Written { version: 1 }, Time::ZERO);
        }
        let (history, names) = (recorder.history(), names.iter().copied().collect());
        lost_brief(&history, brief, map, &names).map(|operation| operation.key.clone())
    }

    #[test]
    fn what_was_synced_of_a_table_that_is_there_is_missed() {
        let (gone, whole) = (map(SYNCED, true), map(SYNCED, false));
        let last = Some(b"brief-0 1/register-1".to_vec());
        assert_eq!(lost(&[SYNCED, SYNCED], &gone, &["brief-0"]), last);
        assert_eq!(lost(&[SYNCED, SYNCED], &whole, &["brief-0"]), None);
        assert_eq!(lost(&[SYNCED, SYNCED], &gone, &["brief-1"]), None, "it was dropped");
        // The first of the name was dropped, or there could be no second.
        assert_eq!(lost(&[SYNCED, options(Durability::Memory)], &gone, &["brief-0"]), None);
        let in_memory = options(Durability::Memory);
        assert_eq!(lost(&[in_memory], &map(in_memory, true), &["brief-0"]), None);
    }
}
