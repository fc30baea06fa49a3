//! What of a cluster's map has changed since an earlier one.

use std::collections::BTreeMap;

use weft_protocol::control::v1::{MapUpdate, Node, Partition, StatusResponse};

/// The map as of a version, in the API's terms.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MapView {
    pub(super) version: u64,
    catalog_version: u64,
    nodes: BTreeMap<u64, Node>,
    partitions: BTreeMap<u32, Partition>,
}

impl MapView {
    /// What is of the map in how the cluster is.
    pub(super) fn new(cluster: StatusResponse, catalog_version: u64) -> MapView {
        let nodes = cluster.nodes.into_iter().map(|mut node| {
            // It is another one at each look, and nothing that was agreed on.
            node.heard_ms_ago = None;
            (node.member.map_or(0, |member| member.node), node)
        });
        let partitions =
            cluster.partitions.into_iter().map(|partition| (partition.partition, partition));
        MapView {
            version: cluster.map_version,
            catalog_version,
            nodes: nodes.collect(),
            partitions: partitions.collect(),
        }
    }

    /// All of it.
    pub(super) fn whole(&self) -> MapUpdate {
        MapUpdate {
            version: self.version,
            is_whole: true,
            nodes: self.nodes.values().cloned().collect(),
            gone_nodes: Vec::new(),
            partitions: self.partitions.values().cloned().collect(),
            gone_partitions: Vec::new(),
            catalog_version: self.catalog_version,
        }
    }

    /// What is new or other than it was in `earlier`, and what is gone.
    pub(super) fn since(&self, earlier: &MapView) -> MapUpdate {
        let (nodes, gone_nodes) = changed(&earlier.nodes, &self.nodes);
        let (partitions, gone_partitions) = changed(&earlier.partitions, &self.partitions);
        MapUpdate {
            version: self.version,
            is_whole: false,
            nodes,
            gone_nodes,
            partitions,
            gone_partitions,
            catalog_version: self.catalog_version,
        }
    }
}

fn changed<K: Ord + Copy, V: PartialEq + Clone>(
    earlier: &BTreeMap<K, V>,
    now: &BTreeMap<K, V>,
) -> (Vec<V>, Vec<K>) {
    let is_other = |(key, value): &(&K, &V)| earlier.get(key) != Some(value);
    let other = now.iter().filter(is_other).map(|(_, value)| value.clone());
    let gone = earlier.keys().filter(|key| !now.contains_key(key)).copied();
    (other.collect(), gone.collect())
}
