//! The map, and those before it, so that a client that has one of these is told no more than what has changed.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::{Mutex, RwLock};
use weft_protocol::{ClusterMap, ErrorCode, ErrorReply, Map, MapReply, Member, NodeEntry};
use weft_transport::Incarnation;

use crate::limits::MAPS_KEPT;

/// The maps that a node has had, the current one last.
#[derive(Debug, Default)]
pub(crate) struct Maps {
    kept: RwLock<VecDeque<Arc<ClusterMap>>>,
    /// Those who wait for another one.
    waiting: Mutex<Vec<Waker>>,
}

impl Maps {
    /// The map to go by, once there is one.
    pub(crate) fn current(&self) -> Option<Arc<ClusterMap>> {
        self.kept.read().back().cloned()
    }

    /// Whether it is a node of the map, in this life. Where the map knows of no lives, which a list of peers does not, it is none.
    pub(crate) fn has(&self, member: Member) -> bool {
        let kept = self.kept.read();
        let node = kept.back().and_then(|map| map.node(member.node));
        let is_known = |node: &NodeEntry| node.incarnation != Incarnation(0);
        node.is_some_and(|node| is_known(node) && node.incarnation == member.incarnation)
    }

    /// Goes by `map` from now on, unless that is older than the one at hand. One of the same epoch takes its place.
    pub(crate) fn replace(&self, map: ClusterMap) {
        let mut kept = self.kept.write();
        let newest = kept.back().map_or(0, |map| map.epoch());
        if map.epoch() < newest {
            return;
        }
        if map.epoch() == newest || kept.len() >= MAPS_KEPT {
            let gone = if map.epoch() == newest { kept.pop_back() } else { kept.pop_front() };
            drop(gone);
        }
        kept.push_back(Arc::new(map));
        drop(kept);
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits for a map of a higher epoch, and returns that.
    pub(crate) async fn newer_than(&self, epoch: u64) -> u64 {
        poll_fn(|context| {
            let mut waiting = self.waiting.lock();
            // Whoever brings a newer one in after this look finds the waker.
            let current = self.current().map_or(0, |map| map.epoch());
            if current > epoch {
                return Poll::Ready(current);
            }
            if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// What a client is told.
    ///
    /// # Errors
    /// The node has no map yet.
    pub(crate) fn answer(&self, request: Map) -> Result<MapReply, ErrorReply<'static>> {
        let kept = self.kept.read();
        let current = kept.back().cloned();
        let current = current.ok_or_else(|| ErrorReply::new(ErrorCode::NotServing))?;
        let known = kept.binary_search_by_key(&request.known_epoch, |map| map.epoch());
        let known = known.ok().map(|index| Arc::clone(&kept[index]));
        drop(kept);
        Ok(match known {
            Some(known) => MapReply::since(&known, &current, request),
            None => MapReply::new(&current, request),
        })
    }
}

#[cfg(test)]
mod tests {
    use weft_transport::NodeId;

    use super::*;

    fn map(epoch: u64) -> ClusterMap {
        let node = |id| NodeEntry {
            id: NodeId(id),
            incarnation: Incarnation(epoch),
            address: format!("node{id}:7400"),
        };
        ClusterMap::even((1..=9).map(node).collect(), 64, epoch).unwrap()
    }

    #[test]
    fn a_client_is_told_what_has_changed_since_a_map_that_is_kept() {
        let maps = Maps::default();
        assert!(maps.answer(Map { known_epoch: 0 }).is_err());
        maps.replace(map(1));
        let epochs = 2..=MAPS_KEPT as u64 + 5;
        epochs.clone().for_each(|epoch| maps.replace(map(epoch)));
        let newest = *epochs.end();
        for known_epoch in 0..=newest + 1 {
            let known = map(known_epoch.max(1));
            match maps.answer(Map { known_epoch }).unwrap() {
                MapReply::Unchanged { epoch } => assert_eq!((epoch, known_epoch), (newest, newest)),
                MapReply::Difference(difference) => {
                    assert!((6..newest).contains(&known_epoch));
                    assert_eq!(difference.apply(&known).unwrap(), map(newest));
                }
                MapReply::Map(whole) => {
                    assert!(known_epoch < 6 || known_epoch > newest, "{known_epoch}");
                    assert_eq!(whole, map(newest));
                }
            }
        }
    }

    #[tokio::test]
    async fn who_waits_for_a_newer_map_is_told_of_it_alone() {
        let maps = Maps::default();
        maps.replace(map(3));
        assert_eq!(maps.newer_than(2).await, 3);
        let waiting = maps.newer_than(3);
        let bringing = async {
            tokio::task::yield_now().await;
            maps.replace(map(2));
            tokio::task::yield_now().await;
            maps.replace(map(5));
        };
        assert_eq!(futures_util::future::join(waiting, bringing).await.0, 5);
    }

    #[test]
    fn an_older_map_takes_no_newer_ones_place() {
        let maps = Maps::default();
        maps.replace(map(7));
        maps.replace(map(6));
        assert_eq!(maps.current().unwrap().epoch(), 7);
        let same = ClusterMap::even(map(1).nodes().to_vec(), 64, 7).unwrap();
        maps.replace(same.clone());
        assert_eq!(*maps.current().unwrap(), same);
        assert_eq!(maps.answer(Map { known_epoch: 7 }).unwrap(), MapReply::Unchanged { epoch: 7 });
    }
}
