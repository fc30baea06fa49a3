//! Keeps the map: hands out the one at hand, and fetches a newer one when there is one.
//!
//! Any node can be asked. They are asked one after the other, the next as soon as one has failed or
//! has taken longer than its share of patience, and the first good answer counts; so a node that
//! hangs costs a quarter of a second and not the whole deadline. Whoever needs a newer map while
//! somebody is fetching it waits for that one instead of asking as well: a thousand requests that a
//! node sends elsewhere cost one fetch.
//!
//! Keeps the connections, too, each with its node: one that has ended is replaced with the node that has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::{ArcSwap, Guard};
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::lock::Mutex;
use futures_util::stream::FuturesUnordered;
use weft_protocol::{ClusterMap, ErrorCode, Map, MapReply, ReplyError};
use weft_transport::{Connection, Endpoint, Time};

use crate::cluster::Cluster;
use crate::error::{Attempt, ClientError};
use crate::limits::{FORMING_PAUSE, MAP_FRESH, MAP_PATIENCE};
use crate::remote::{Remote, connect_to};
use crate::retry::MapNeed;

/// The map of one cluster, and how to get a newer one.
#[derive(Debug)]
pub(crate) struct MapKeeper {
    bootstrap: Box<[Arc<str>]>,
    current: ArcSwap<Cluster>,
    /// When the last fetch ended; whoever holds the lock fetches.
    fetched: Mutex<Option<Time>>,
    /// Which node is asked first: another one each time.
    turn: AtomicUsize,
}

impl MapKeeper {
    /// Fetches the first map. Where a node answers that it has none yet, its cluster is being formed, or it is being started: that is waited for.
    pub(crate) async fn start(
        endpoint: &Endpoint,
        bootstrap: &[String],
        deadline: Time,
    ) -> Result<Self, ClientError> {
        let bootstrap: Box<[Arc<str>]> =
            bootstrap.iter().map(|text| text.as_str().into()).collect();
        let map = loop {
            let sources = bootstrap.iter().cloned().map(Source::Address);
            let (map, unanswered) = fetch(endpoint, sources, Wanted::default(), deadline).await;
            if let Some(map) = map {
                break map;
            }
            let next = endpoint.clock().now() + FORMING_PAUSE;
            if next >= deadline || !unanswered.iter().any(|one| one.is_forming) {
                let attempts = unanswered.into_iter().map(|one| one.attempt).collect();
                return Err(ClientError::ClusterNotReachable { attempts });
            }
            endpoint.sleep_until(next).await;
        };
        Ok(Self {
            bootstrap,
            current: ArcSwap::from_pointee(Cluster::new(Arc::new(map), None)),
            fetched: Mutex::new(Some(endpoint.clock().now())),
            turn: AtomicUsize::new(0),
        })
    }

    /// The cluster by the map at hand.
    #[inline]
    pub(crate) fn current(&self) -> Guard<Arc<Cluster>> {
        self.current.load()
    }

    /// The same, to be held for as long as one likes.
    pub(crate) fn current_owned(&self) -> Arc<Cluster> {
        self.current.load_full()
    }

    /// The connection to `remote`, opened if need be.
    pub(crate) async fn connect(
        &self,
        endpoint: &Endpoint,
        remote: &Remote,
        deadline: Time,
    ) -> Result<Connection, ClientError> {
        let open = remote.open().or_else(|| {
            // Another of the same node may have taken its place.
            self.current().remote(remote.name().id)?.open()
        });
        if let Some(connection) = open {
            return Ok(connection);
        }
        let connection = remote.connect(endpoint, deadline).await?;
        if !remote.keep(&connection) {
            // One that has ended is in the way.
            self.current.rcu(|current| match current.with_connection(remote.name(), &connection) {
                Some(renewed) => Arc::new(renewed),
                None => Arc::clone(current),
            });
        }
        Ok(connection)
    }

    /// Sees to what an attempt needs of the map. If it cannot be had, the map stays as it is: the
    /// attempt then fails for a reason of its own, or finds that all is well again.
    pub(crate) async fn provide(&self, endpoint: &Endpoint, need: MapNeed, deadline: Time) {
        if self.at_hand(need) {
            return;
        }
        let asked_at = endpoint.clock().now();
        let waiting = select(self.fetched.lock(), endpoint.sleep_until(deadline));
        let Either::Left((mut fetched, _)) = waiting.await else { return };
        // Somebody else may have fetched it in the meantime.
        let now = endpoint.clock().now();
        let just_fetched = fetched.is_some_and(|ended| match need {
            MapNeed::Lease | MapNeed::Recheck | MapNeed::Tables => now.since(ended) < MAP_FRESH,
            // What was fetched just before may be what said so.
            MapNeed::Lost | MapNeed::AtLeast(_) => ended > asked_at,
        });
        if just_fetched || self.at_hand(need) {
            return;
        }
        let known = self.current.load_full();
        let wanted = Wanted { known: Some(known.map()), need };
        let (map, _) = fetch(endpoint, self.sources(&known), wanted, deadline).await;
        if let Some(map) = map.filter(|map| map.epoch() > known.epoch()) {
            let map = Arc::new(map);
            self.current.rcu(|current| Cluster::new(Arc::clone(&map), Some(current)));
        }
        *fetched = Some(endpoint.clock().now());
    }

    fn at_hand(&self, need: MapNeed) -> bool {
        match need {
            MapNeed::Lease => true,
            MapNeed::Recheck | MapNeed::Lost | MapNeed::Tables => false,
            MapNeed::AtLeast(epoch) => self.current.load().epoch() >= epoch,
        }
    }

    /// Nodes of the map, and then, since all of these may have gone, the first addresses.
    fn sources<'a>(&'a self, known: &'a Cluster) -> impl Iterator<Item = Source<'a>> + 'a {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) as u64;
        known
            .in_turn(turn)
            .map(|remote| Source::Node(self, Arc::clone(remote)))
            .chain(self.bootstrap.iter().cloned().map(Source::Address))
    }
}

/// Who may be asked for the map.
enum Source<'a> {
    Node(&'a MapKeeper, Arc<Remote>),
    Address(Arc<str>),
}

/// Why there is no map from somebody.
struct Unanswered {
    attempt: Attempt,
    /// It answered that it has none yet.
    is_forming: bool,
}

/// The same before it is said whose it is.
struct NoMap {
    reason: String,
    is_forming: bool,
}

impl From<String> for NoMap {
    fn from(reason: String) -> Self {
        NoMap { reason, is_forming: false }
    }
}

/// Which map will do.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    known: Option<&'a ClusterMap>,
    need: MapNeed,
}

impl Default for Wanted<'_> {
    fn default() -> Self {
        Self { known: None, need: MapNeed::Recheck }
    }
}

/// The first answer that will do, and what came of those that were asked before. An answer without
/// a map says that the known one is the newest.
async fn fetch(
    endpoint: &Endpoint,
    sources: impl Iterator<Item = Source<'_>>,
    wanted: Wanted<'_>,
    deadline: Time,
) -> (Option<ClusterMap>, Vec<Unanswered>) {
    let mut sources = sources.fuse();
    let mut asked = FuturesUnordered::new();
    let mut unanswered: Vec<Unanswered> = Vec::new();
    loop {
        let is_forming = unanswered.iter().any(|one| one.is_forming);
        let now = endpoint.clock().now();
        let (patience, is_last) = match sources.next() {
            Some(source) => {
                asked.push(ask(endpoint, source, wanted, deadline));
                (now + MAP_PATIENCE, false)
            }
            None if asked.is_empty() => return (None, unanswered),
            // Whoever says nothing may not be there yet; those who have no map yet will have one, and are to be asked again.
            None if is_forming => (deadline.min(now + MAP_PATIENCE), true),
            None => (deadline, true),
        };
        match select(asked.next(), endpoint.sleep_until(patience)).await {
            Either::Left((Some(Ok(answer)), _)) => return (answer, unanswered),
            Either::Left((Some(Err(one)), _)) => unanswered.push(one),
            Either::Left((None, _)) => {}
            Either::Right(_) if is_last => return (None, unanswered),
            Either::Right(_) => {}
        }
    }
}

async fn ask(
    endpoint: &Endpoint,
    source: Source<'_>,
    wanted: Wanted<'_>,
    deadline: Time,
) -> Result<Option<ClusterMap>, Unanswered> {
    let (address, connected) = match source {
        Source::Node(keeper, remote) => {
            let connected = keeper.connect(endpoint, &remote, deadline).await;
            (Arc::clone(&remote.name().address), connected.map_err(|error| error.to_string()))
        }
        Source::Address(address) => {
            let connected = connect_to(endpoint, &address, deadline).await;
            (address, connected.map_err(|error| error.to_string()))
        }
    };
    let answer = match connected {
        Ok(connection) => ask_on(&connection, wanted, deadline).await,
        Err(reason) => Err(NoMap::from(reason)),
    };
    answer.map_err(|NoMap { reason, is_forming }| Unanswered {
        attempt: Attempt { address, reason: reason.into() },
        is_forming,
    })
}

/// The map that a node has, or nothing if that is the known one.
async fn ask_on(
    connection: &Connection,
    wanted: Wanted<'_>,
    deadline: Time,
) -> Result<Option<ClusterMap>, NoMap> {
    let mut known = wanted.known;
    loop {
        let request = Map { known_epoch: known.map_or(0, ClusterMap::epoch) };
        let reply = connection.call(request, deadline).await.map_err(|error| error.to_string())?;
        let reply = MapReply::decode(&reply).map_err(|error| NoMap {
            reason: error.to_string(),
            is_forming: matches!(&error, ReplyError::Refused(told) if told.code == ErrorCode::NotServing),
        })?;
        match wanted.need {
            MapNeed::AtLeast(epoch) if reply.epoch() < epoch => {
                let reason = format!("its map is of epoch {}, older than {epoch}", reply.epoch());
                return Err(reason.into());
            }
            _ => {}
        }
        match (reply, known) {
            (MapReply::Unchanged { .. }, _) => return Ok(None),
            (MapReply::Map(map), _) => return Ok(Some(map)),
            (MapReply::Difference(difference), Some(map)) => match difference.apply(map) {
                Ok(map) => return Ok(Some(map)),
                // To another map that is told by the same epoch. The whole is none's.
                Err(_) => known = None,
            },
            (MapReply::Difference(_), None) => {
                return Err("it tells the difference to a map that nobody has".to_owned().into());
            }
        }
    }
}
