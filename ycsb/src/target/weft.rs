//! A Weft cluster: one object a record. It is a record of fields there too, of which an update changes one in the node
//! (`put_fields`); a single field is the whole value.
//!
//! All requesters use one client. Blocking: each calls from its own thread, and the client gathers
//! what the threads send. Async: the requesters of a thread are futures that the client drives on
//! that thread, with its links.

use std::time::Duration;

use weft_client::{
    Address, BlockingClient, CatalogError, Client, ClientConfig, ClientError, FieldChange, Lookup,
    NodeStats, Object, RangeOptions, Record, TableOptions, stat_name,
};

use super::{Crew, Driver, Mode, OpenError, Scanned, Session};
use crate::properties::{Properties, UsageError};
use crate::record::{Layout, Values};
use crate::workload::{Phase, Workload};

/// A cluster that answered.
pub(crate) struct Weft {
    client: Client,
}

impl Weft {
    pub(super) fn open(properties: &Properties, workload: &Workload) -> Result<Weft, OpenError> {
        let addresses = properties.required("weft.cluster")?;
        let bootstrap = bootstrap(properties, addresses)?;
        let timeout: u64 = properties.number("weft.timeout")?;
        if timeout == 0 {
            return Err(OpenError::Usage(properties.wrong("weft.timeout", "above 0")));
        }
        let poll = properties.required("weft.poll")?.parse();
        let expected = "one of busy, adaptive, park";
        let mut config = ClientConfig::new(bootstrap);
        config.timeout = Duration::from_millis(timeout);
        let link = properties.required("weft.link")?.parse();
        let links = "auto, tcp, shm or verbs";
        config.link = link.map_err(|_| properties.wrong("weft.link", links))?;
        config.poll = poll.map_err(|_| properties.wrong("weft.poll", expected))?;
        let unreachable = |error: ClientError| OpenError::Unreachable {
            target: "weft",
            address: addresses.to_owned(),
            reason: error.to_string(),
            advice: "start a cluster, such as by `kv playground`, or give its address by \
                     -p weft.cluster=HOST:PORT",
        };
        let client = Client::connect_blocking(config).map_err(unreachable)?;
        let named = properties.text("table").map(str::to_owned);
        let client = match named.or_else(|| workload.scans().then(|| "usertable".to_owned())) {
            Some(name) => table(&client.blocking(), &name, workload)?,
            None => client,
        };
        Ok(Weft { client })
    }

    pub(super) fn crew(&self, mode: Mode, requesters: usize) -> Crew {
        let session = || match mode {
            Mode::Blocking => Session::WeftBlocking(BlockingSession {
                client: self.client.blocking(),
                record: Vec::new(),
            }),
            Mode::Async { .. } => Session::WeftShared(SharedSession {
                client: self.client.clone(),
                record: Vec::new(),
            }),
        };
        Crew {
            driver: match mode {
                Mode::Blocking => Driver::Blocking,
                Mode::Async { .. } => Driver::Weft(self.client.clone()),
            },
            sessions: (0..requesters).map(|_| session()).collect(),
        }
    }

    /// What the connections that are open run over.
    pub(super) fn link(&self) -> Option<&'static str> {
        let stats = self.client.endpoint().stats();
        links(stats.connections, stats.shared_connections, stats.verbs_connections)
    }

    /// The sum over all nodes.
    pub(super) fn server_cpu_seconds(&self) -> Result<f64, String> {
        let nodes = self.client.blocking().stats().into_iter();
        nodes
            .map(|NodeStats { node, stats }| {
                let stats = stats.map_err(|error| error.to_string())?;
                let micros = stats.value(stat_name::CPU_MICROS);
                let micros = micros.ok_or_else(|| format!("{node} does not tell"))?;
                Ok(micros as f64 / 1e6)
            })
            .sum()
    }
}

/// The client of a table, which loading makes if there is none.
fn table(client: &BlockingClient, name: &str, workload: &Workload) -> Result<Client, OpenError> {
    let ordered = workload.scans();
    let found = match (client.table(name), workload.phase) {
        (Err(ClientError::Catalog(CatalogError::Unknown { .. })), Phase::Load) => {
            client.create_table(name, TableOptions { ordered, ..TableOptions::default() })
        }
        (found, _) => found,
    };
    let advice = if workload.scans() {
        "load the records with the same workload file first: it says whether they are kept in order"
    } else {
        "load the records first, or leave table out"
    };
    let failed = |error: ClientError| OpenError::Table {
        name: name.to_owned(),
        error: Box::new(error),
        advice,
    };
    let found = found.map_err(failed)?;
    // That it is not ordered would be told by every scan.
    if ordered
        && let Some(Err(error)) =
            found.range(RangeOptions::default()).ok().and_then(|mut range| range.next())
    {
        return Err(OpenError::Table {
            name: name.to_owned(),
            error: Box::new(error),
            advice: "name another table, or drop this one and load it anew",
        });
    }
    Ok(found.client().clone())
}

/// From `key` on, as many as a page has room for at a time.
fn range(key: &[u8], count: u64) -> RangeOptions {
    let page_objects = count.min(u64::from(u32::MAX)) as u32;
    RangeOptions { with_values: true, page_objects, ..RangeOptions::from(key) }
}

/// A requester that blocks.
pub(crate) struct BlockingSession {
    client: BlockingClient,
    /// Kept for its buffer.
    record: Vec<u8>,
}

impl BlockingSession {
    pub(super) fn get(&self, key: &[u8]) -> Result<Lookup, ClientError> {
        self.client.get(key)
    }

    pub(super) fn scan(
        &self,
        key: &[u8],
        layout: &Layout,
        count: u64,
    ) -> Result<Scanned, ClientError> {
        let client = self.client.client();
        client.block_on(scan(client, key, layout, count))
    }

    pub(super) fn put(
        &mut self,
        key: &[u8],
        layout: &Layout,
        values: &Values,
    ) -> Result<(), ClientError> {
        encode(layout, values, &mut self.record)?;
        self.client.put(key, &self.record).map(drop)
    }

    pub(super) fn put_fields(
        &self,
        key: &[u8],
        layout: &Layout,
        values: &Values,
    ) -> Result<(), ClientError> {
        self.client.change_fields(key, &changes(layout, values)?, None).map(drop)
    }
}

/// A requester whose client serves others too.
pub(crate) struct SharedSession {
    client: Client,
    /// Kept for its buffer.
    record: Vec<u8>,
}

impl SharedSession {
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) async fn get(&self, key: &[u8]) -> Result<Lookup, ClientError> {
        self.client.get(key).await
    }

    pub(super) async fn scan(
        &self,
        key: &[u8],
        layout: &Layout,
        count: u64,
    ) -> Result<Scanned, ClientError> {
        scan(&self.client, key, layout, count).await
    }

    pub(super) async fn put(
        &mut self,
        key: &[u8],
        layout: &Layout,
        values: &Values,
    ) -> Result<(), ClientError> {
        encode(layout, values, &mut self.record)?;
        self.client.put(key, &self.record).await.map(drop)
    }

    pub(super) async fn put_fields(
        &self,
        key: &[u8],
        layout: &Layout,
        values: &Values,
    ) -> Result<(), ClientError> {
        self.client.change_fields(key, &changes(layout, values)?, None).await.map(drop)
    }
}

async fn scan(
    client: &Client,
    key: &[u8],
    layout: &Layout,
    count: u64,
) -> Result<Scanned, ClientError> {
    let mut range = client.range(range(key, count))?;
    for _ in 0..count {
        let Some(object) = range.next().await.transpose()? else { break };
        if !object.value.is_some_and(|value| fits(&value, layout)) {
            return Ok(Scanned::Unexpected { key: object.key });
        }
    }
    Ok(Scanned::Whole)
}

/// The value of field `index` of a record, if it has it.
pub(super) fn field<'o>(object: &'o Object, layout: &Layout, index: usize) -> Option<&'o [u8]> {
    if layout.is_single() {
        return Some(object);
    }
    Record::parse(object).ok()?.get(layout.names()[index].as_bytes())
}

/// Whether a value is a record of as many fields.
pub(super) fn fits(object: &Object, layout: &Layout) -> bool {
    layout.is_single() || Record::parse(object).is_ok_and(|record| record.len() == layout.count())
}

/// Makes `record` the bytes of a record of `values`.
fn encode(layout: &Layout, values: &Values, record: &mut Vec<u8>) -> Result<(), ClientError> {
    record.clear();
    if layout.is_single() {
        values.iter().for_each(|(_, value)| record.extend_from_slice(value));
        return Ok(());
    }
    let names = layout.names();
    Ok(Record::encode(
        values.iter().map(|(index, value)| (names[index].as_bytes(), value)),
        record,
    )?)
}

fn changes<'v>(
    layout: &'v Layout,
    values: &'v Values,
) -> Result<Vec<FieldChange<'v>>, ClientError> {
    let change = |(index, value): (usize, &'v [u8])| {
        FieldChange::put(layout.names()[index].as_bytes(), value)
    };
    Ok(values.iter().map(change).collect::<Result<_, _>>()?)
}

/// The addresses of `weft.cluster`, each of the form that one has.
fn bootstrap(properties: &Properties, addresses: &str) -> Result<Vec<String>, UsageError> {
    let wrong = || properties.wrong("weft.cluster", "HOST:PORT,…");
    if properties.is_given_empty("weft.cluster") {
        return Err(wrong());
    }
    let parse = |address: &str| address.trim().parse::<Address>().map_err(|_| wrong());
    addresses.split(',').map(|address| Ok(parse(address)?.to_string())).collect()
}

/// What connections run over, of which some are shared and some over verbs.
fn links(all: u64, shared: u64, verbs: u64) -> Option<&'static str> {
    let plain = all.saturating_sub(shared + verbs);
    match (shared > 0, verbs > 0, plain > 0) {
        (false, false, false) => None,
        (false, false, true) => Some("tcp"),
        (true, false, false) => Some("shm"),
        (false, true, false) => Some("verbs"),
        (true, false, true) => Some("shm and tcp"),
        (true, true, false) => Some("shm and verbs"),
        (false, true, true) => Some("verbs and tcp"),
        (true, true, true) => Some("shm, verbs and tcp"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_that_connections_run_over_is_named() {
        for (all, shared, verbs, expected) in [
            (0, 0, 0, None),
            (3, 0, 0, Some("tcp")),
            (3, 3, 0, Some("shm")),
            (3, 0, 3, Some("verbs")),
            (3, 1, 0, Some("shm and tcp")),
            (3, 1, 2, Some("shm and verbs")),
            (3, 0, 1, Some("verbs and tcp")),
            (3, 1, 1, Some("shm, verbs and tcp")),
            // One that ended while they were counted.
            (1, 2, 0, Some("shm")),
        ] {
            assert_eq!(links(all, shared, verbs), expected, "{all}, {shared}, {verbs}");
        }
    }
}
