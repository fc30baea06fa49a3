//! Hot keys: what the nodes of a cluster are asked for the most.

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use weft_protocol::{HotKeysReply, KeyHeat, TableId};
use weft_transport::Time;

use super::Client;
use crate::error::{ClientError, NodeName};
use crate::remote::Remote;
use crate::retry::Effect;

/// A key, and how often the node that owns it was asked for it of late. Rates are estimates by samples, averaged over the last ten to
/// twenty seconds and less and less of the time before.
#[derive(Debug, Clone, PartialEq)]
pub struct HotKey {
    /// The node.
    pub node: NodeName,
    /// The key's table.
    pub table: TableId,
    /// The name of the table.
    pub table_name: String,
    /// The key, or its first [`HOT_KEY_BYTES_MAX`](weft_protocol::limits::HOT_KEY_BYTES_MAX) bytes if it is longer.
    pub key: Vec<u8>,
    /// How long the key is, in bytes.
    pub key_len: usize,
    /// CRC-32C of the whole key, which tells long ones apart that begin alike.
    pub checksum: u32,
    /// Requests a second that read the key.
    pub reads_per_second: f64,
    /// Requests a second that write it.
    pub writes_per_second: f64,
    /// With both it is likely (about 19 times in 20) that there were no fewer requests a second …
    pub least_per_second: f64,
    /// … and no more: what chance has in samples, and the requests that may have come before the node counted those for this key.
    pub most_per_second: f64,
    /// The key's part of all requests for keys that the node had, from 0 to 1.
    pub share: f64,
}

/// The keys that a cluster is asked for the most.
#[derive(Debug, Clone, Default)]
pub struct HotKeys {
    /// The hottest first.
    pub keys: Vec<HotKey>,
    /// Why nodes have said nothing, if some have not: theirs are not among the keys.
    pub unanswered: Vec<ClientError>,
}

impl HotKey {
    /// Whether [`key`](Self::key) is all of it.
    pub fn is_whole_key(&self) -> bool {
        self.key.len() == self.key_len
    }

    /// Requests a second for the key.
    pub fn requests_per_second(&self) -> f64 {
        self.reads_per_second + self.writes_per_second
    }

    fn new(
        node: &NodeName,
        reply: &HotKeysReply<'_>,
        heat: &KeyHeat<'_>,
        table_name: &str,
    ) -> Self {
        let seconds = reply.covered_ms.max(1) as f64 / 1e3;
        let one_in = f64::from(reply.sampled_one_in.max(1));
        let (seen, error) = (heat.requests() as f64, heat.error as f64);
        // The root of a number of samples is off by a half as its standard deviation, whatever the number: by 1 at most, mostly.
        let least = (seen.sqrt() - one_in.sqrt()).max(0.0).powi(2);
        let most = ((seen + error).sqrt() + one_in.sqrt()).powi(2);
        Self {
            node: node.clone(),
            table: heat.table,
            table_name: table_name.to_owned(),
            key: heat.kept.to_vec(),
            key_len: heat.key_len(),
            checksum: heat.checksum,
            reads_per_second: heat.reads as f64 / seconds,
            writes_per_second: heat.writes as f64 / seconds,
            least_per_second: least / seconds,
            most_per_second: most / seconds,
            share: (seen / reply.requests.max(1) as f64).min(1.0),
        }
    }
}

impl Client {
    /// The `most` keys that the cluster was asked for the most of late, of all tables, whether or not there are objects. One node
    /// looks at up to 128 keys. A node that does not answer is no error of the whole.
    ///
    /// ```
    /// # use weft_server::{config::{Config, Host, HttpAddress, Settings}, node::Node};
    /// # let settings = Settings {
    /// #     listen: Some("127.0.0.1:0".parse().unwrap()),
    /// #     http: Some(HttpAddress::Off),
    /// #     control: Some(HttpAddress::Off),
    /// #     ..Settings::default()
    /// # };
    /// # let node = Node::start(&Config::resolve(settings, Host::of_this_process()).unwrap()).unwrap();
    /// # let address = node.address().to_string();
    /// # let client = weft_client::Client::connect_blocking(
    /// #     weft_client::ClientConfig::new([address]))?;
    /// # client.block_on(async {
    /// client.multi_get(&["shuttle"; 10_000]).collect().await;
    /// let hot_keys = client.hot_keys(10).await?;
    /// assert_eq!(hot_keys.keys[0].key, b"shuttle");
    /// assert!(hot_keys.unanswered.is_empty());
    /// # Ok::<(), weft_client::ClientError>(())
    /// # })?;
    /// # Ok::<(), weft_client::ClientError>(())
    /// ```
    ///
    /// # Errors
    /// See [`ClientError`]: no node says which tables there are.
    pub async fn hot_keys(&self, most: usize) -> Result<HotKeys, ClientError> {
        let cluster = self.core.keeper.current_owned();
        let deadline = self.core.deadline();
        let catalog = self.core.newest_catalog(|_| true, deadline).await?;
        let name_of = |id| match catalog.table(id) {
            _ if id == TableId::DEFAULT => Some(TableId::DEFAULT_NAME),
            // It was dropped just now, or is so new that the catalog does not have it.
            table => table.map(|table| table.name.as_str()),
        };
        let keys_max = u32::try_from(most).unwrap_or(u32::MAX);
        let asked = cluster
            .remotes()
            .iter()
            .map(|remote| self.hot_keys_of(remote, keys_max, &name_of, deadline));
        let answers: Vec<_> = asked.collect::<FuturesOrdered<_>>().collect().await;
        let mut hot_keys = HotKeys::default();
        for answer in answers {
            match answer {
                Ok(keys) => hot_keys.keys.extend(keys),
                Err(error) => hot_keys.unanswered.push(error),
            }
        }
        // A key has one owner, so there is nothing to add up.
        let by_heat =
            |a: &HotKey, b: &HotKey| b.requests_per_second().total_cmp(&a.requests_per_second());
        hot_keys.keys.sort_by(by_heat);
        hot_keys.keys.truncate(most);
        Ok(hot_keys)
    }

    async fn hot_keys_of<'c>(
        &self,
        remote: &Remote,
        keys_max: u32,
        name_of: &impl Fn(TableId) -> Option<&'c str>,
        deadline: Time,
    ) -> Result<Vec<HotKey>, ClientError> {
        let request = weft_protocol::HotKeys { keys_max };
        let asked = self.core.ask_node(remote, request, Effect::Read, deadline).await;
        let (message, connection) = asked?;
        let reply = HotKeysReply::decode(&message);
        let reply = reply.map_err(|error| ClientError::of_reply(&connection, error))?;
        let named = reply.keys.iter().filter_map(|heat| {
            Some(HotKey::new(remote.name(), &reply, heat, name_of(heat.table)?))
        });
        Ok(named.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_transport::NodeId;

    use super::*;

    fn hot_key(reads: u64, error: u64, covered_ms: u64) -> HotKey {
        let node = NodeName { id: NodeId(1), address: Arc::from("here:1") };
        let kept = &b"loom"[..];
        let (table, key_len, checksum) = (TableId::DEFAULT, 4, crc32c::crc32c(kept));
        let heat = KeyHeat { table, key_len, kept, checksum, reads, writes: 0, error };
        let (requests, sampled_one_in) = (1_000_000, 64);
        let reply = HotKeysReply { covered_ms, requests, sampled_one_in, keys: vec![] };
        HotKey::new(&node, &reply, &heat, TableId::DEFAULT_NAME)
    }

    #[test]
    fn bounds_are_those_of_the_samples_and_of_what_came_before() {
        // 400 samples, so 361 to 441.
        let sure = hot_key(64 * 400, 0, 10_000);
        assert_eq!(sure.requests_per_second(), 2_560.0);
        assert_eq!((sure.least_per_second, sure.most_per_second), (36.1 * 64.0, 44.1 * 64.0));
        assert_eq!(sure.share, 0.0256);
        // One more that may have been 399 before.
        let unsure = hot_key(64, 64 * 399, 10_000);
        assert_eq!((unsure.least_per_second, unsure.most_per_second), (0.0, 44.1 * 64.0));
        let early = hot_key(64, 0, 0);
        assert_eq!((early.requests_per_second(), early.is_whole_key()), (64_000.0, true));
    }
}
