//! The load of `kv bench`: fill, measure, clear.

use std::cell::RefCell;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hdrhistogram::Histogram;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weft_client::{Client, ClientError};
use weft_transport::Time;

/// How many keys one multi-operation names.
const BATCH: u64 = 10_000;

/// Latencies are told apart to a thousandth, up to a minute.
const LATENCY_MAX_NANOS: u64 = 60_000_000_000;

/// What is asked.
pub(super) struct Load {
    pub(super) keys: u64,
    pub(super) value: Vec<u8>,
    pub(super) concurrency: u32,
    pub(super) reads_percent: u32,
}

/// What came of it.
pub(super) struct Measured {
    pub(super) reads: Kind,
    pub(super) writes: Kind,
    pub(super) elapsed: Duration,
    pub(super) first_error: Option<ClientError>,
}

/// The operations of one kind.
pub(super) struct Kind {
    /// In nanoseconds, of those that succeeded.
    pub(super) latency: Histogram<u64>,
    pub(super) errors: u64,
}

impl Load {
    /// Stores every key.
    pub(super) async fn fill(&self, client: &Client) -> Result<(), ClientError> {
        for keys in self.batches() {
            let pairs: Vec<_> = keys.map(|index| (key(index), &self.value)).collect();
            client.multi_put(&pairs).try_collect().await?;
        }
        Ok(())
    }

    /// Removes every key.
    pub(super) async fn clear(&self, client: &Client) -> Result<(), ClientError> {
        for keys in self.batches() {
            let keys: Vec<_> = keys.map(key).collect();
            client.multi_delete(&keys).try_collect().await?;
        }
        Ok(())
    }

    fn batches(&self) -> impl Iterator<Item = std::ops::Range<u64>> {
        let count = self.keys;
        (0..count.div_ceil(BATCH)).map(move |batch| batch * BATCH..count.min((batch + 1) * BATCH))
    }

    /// Keeps `concurrency` operations under way for `duration`. Keys are drawn uniformly.
    pub(super) async fn measure(&self, client: &Client, duration: Duration) -> Measured {
        let begin = client.endpoint().clock().now();
        let measured = RefCell::new(Measured::new());
        let requesters = (0..self.concurrency)
            .map(|requester| self.request(client, requester, begin + duration, &measured));
        requesters.collect::<FuturesUnordered<_>>().collect::<()>().await;
        let mut measured = measured.into_inner();
        measured.elapsed = client.endpoint().clock().now().since(begin);
        measured
    }

    /// One operation after the other until `end`.
    async fn request(
        &self,
        client: &Client,
        requester: u32,
        end: Time,
        measured: &RefCell<Measured>,
    ) {
        let clock = client.endpoint().clock();
        let mut random = StdRng::seed_from_u64(u64::from(requester));
        let mut begin = clock.now();
        while begin < end {
            let is_read = random.random_range(0..100) < self.reads_percent;
            let key = key(random.random_range(0..self.keys));
            let outcome = if is_read {
                client.get(&key).await.map(drop)
            } else {
                client.put(&key, &self.value).await.map(drop)
            };
            let ended = clock.now();
            measured.borrow_mut().record(is_read, ended.since(begin), outcome);
            begin = ended;
        }
    }
}

impl Measured {
    fn new() -> Self {
        let (reads, writes) = (Kind::new(), Kind::new());
        Self { reads, writes, elapsed: Duration::ZERO, first_error: None }
    }

    /// Operations a second that succeeded.
    pub(super) fn throughput(&self) -> f64 {
        (self.reads.latency.len() + self.writes.latency.len()) as f64 / self.elapsed.as_secs_f64()
    }

    fn record(&mut self, is_read: bool, latency: Duration, outcome: Result<(), ClientError>) {
        let kind = if is_read { &mut self.reads } else { &mut self.writes };
        match outcome {
            Ok(()) => {
                let nanos = u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_MAX_NANOS);
                kind.latency.saturating_record(nanos);
            }
            Err(error) => {
                kind.errors += 1;
                self.first_error.get_or_insert(error);
            }
        }
    }
}

impl Kind {
    fn new() -> Self {
        let latency = Histogram::new_with_max(LATENCY_MAX_NANOS, 3);
        Self { latency: latency.expect("the bounds are good ones"), errors: 0 }
    }
}

/// `kv-bench:` and the index in ten digits, written without the formatting machinery: that costs
/// more than the operation.
fn key(mut index: u64) -> [u8; 19] {
    let mut key = *b"kv-bench:0000000000";
    for digit in key[9..].iter_mut().rev() {
        *digit = b'0' + (index % 10) as u8;
        index /= 10;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_numbered() {
        assert_eq!(&key(0), b"kv-bench:0000000000");
        assert_eq!(&key(1_234_567_890), b"kv-bench:1234567890");
    }
}
