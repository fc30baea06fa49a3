//! Who is told what becomes of the map.
//!
//! A node learns of each change, and that is when a watcher is told: how the cluster is then is asked of the coordinators, once for all watchers of
//! this node, and each is told what has changed since what it was told last.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::Stream;
use futures_util::stream::try_unfold;
use tokio::sync::{Mutex, watch};
use tonic::{Code, Status};
use weft_protocol::ErrorCode;
use weft_protocol::control::v1::MapUpdate;

use super::difference::MapView;
use super::refusal::status;
use super::service::Service;
use super::stopping;
use crate::limits::CONTROL_MAPS_KEPT;

/// The latest maps that were told, the newest last.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<VecDeque<Arc<MapView>>>);

/// A watcher, and what it knows.
struct Watcher {
    service: Service,
    known: Known,
    /// Up to which version of this node's map was looked.
    looked_at: u64,
    is_stopping: watch::Receiver<bool>,
}

enum Known {
    /// The version that it says it has; 0 for none.
    Version(u64),
    /// What it was told.
    Map(Arc<MapView>),
}

impl Service {
    /// What the watcher has to know, from now on.
    pub(super) fn watch_map(
        &self,
        known_version: u64,
    ) -> impl Stream<Item = Result<MapUpdate, Status>> + Send + 'static {
        let is_stopping = self.is_stopping();
        let known = Known::Version(known_version);
        let watcher = Watcher { service: self.clone(), known, looked_at: 0, is_stopping };
        try_unfold(watcher, |mut watcher| async move {
            let update = watcher.next().await?;
            Ok(Some((update, watcher)))
        })
    }

    /// The map, as of what the coordinators have committed when this is called, if that is not known here to be of `version_min` or above.
    async fn map_of(&self, version_min: Option<u64>) -> Result<Arc<MapView>, Status> {
        let mut kept = self.told().0.lock().await;
        if let (Some(newest), Some(version_min)) = (kept.back(), version_min)
            && newest.version >= version_min
        {
            return Ok(Arc::clone(newest));
        }
        // First, so that the catalog is no newer than the version says.
        let catalog_version = self.tables().await?.catalog_version;
        let view = Arc::new(MapView::new(self.cluster_status().await?, catalog_version));
        match kept.back() {
            Some(newest) if newest.version >= view.version => return Ok(Arc::clone(newest)),
            _ if kept.len() >= CONTROL_MAPS_KEPT => drop(kept.pop_front()),
            _ => {}
        }
        kept.push_back(Arc::clone(&view));
        Ok(view)
    }

    /// The map of a version, if it is among those that were told.
    async fn told_map(&self, version: u64) -> Option<Arc<MapView>> {
        let kept = self.told().0.lock().await;
        kept.iter().find(|view| view.version == version).cloned()
    }
}

impl Watcher {
    async fn next(&mut self) -> Result<MapUpdate, Status> {
        let Watcher { service, known, looked_at, is_stopping } = self;
        let update = Self::update(service, known, looked_at);
        tokio::select! {
            update = update => update,
            () = stopping(is_stopping) => {
                let message = "the node is being stopped; ask another one";
                Err(status(Code::Unavailable, ErrorCode::ShuttingDown, message))
            }
        }
    }

    async fn update(
        service: &Service,
        known: &mut Known,
        looked_at: &mut u64,
    ) -> Result<MapUpdate, Status> {
        let earlier = match known {
            Known::Version(version) => {
                let version = *version;
                let view = service.map_of(None).await?;
                *looked_at = view.version;
                if version == 0 {
                    *known = Known::Map(Arc::clone(&view));
                    return Ok(view.whole());
                }
                // It may be the newest one.
                let Some(earlier) = service.told_map(version).await else {
                    let message = format!(
                        "what has changed since version {version} is not known here; ask for the whole map"
                    );
                    return Err(status(Code::Aborted, ErrorCode::ChangedMeanwhile, message));
                };
                *known = Known::Map(Arc::clone(&earlier));
                if earlier.version < view.version {
                    *known = Known::Map(Arc::clone(&view));
                    return Ok(view.since(&earlier));
                }
                earlier
            }
            Known::Map(map) => Arc::clone(map),
        };
        loop {
            *looked_at = service.node().maps.newer_than(*looked_at).await;
            let view = service.map_of(Some(*looked_at)).await?;
            if view.version > earlier.version {
                *looked_at = view.version.max(*looked_at);
                *known = Known::Map(Arc::clone(&view));
                return Ok(view.since(&earlier));
            }
        }
    }
}
