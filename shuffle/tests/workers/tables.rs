//! Tables of a cluster are read by all workers together, and written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;

use weft_client::{BlockingClient, ClientConfig, TableOptions};
use weft_server::config::{Config, Host, HttpAddress, Settings};
use weft_server::node::Node;
use weft_shuffle::{ClusterTable, Dataset, JobError, TableObject, TableShare, records};

use crate::threads::{run, share};

/// A cluster of one node.
struct Cluster {
    node: Node,
}

impl Cluster {
    fn start() -> Cluster {
        let settings = Settings {
            listen: Some("127.0.0.1:0".parse().unwrap()),
            http: Some(HttpAddress::Off),
            control: Some(HttpAddress::Off),
            memory: Some("256MiB".parse().unwrap()),
            reactors: Some(1.try_into().unwrap()),
            ..Settings::default()
        };
        let config = Config::resolve(settings, Host::of_this_process()).unwrap();
        Cluster { node: Node::start(&config).unwrap() }
    }

    fn config(&self) -> ClientConfig {
        ClientConfig::new([self.node.address().to_string()])
    }

    fn client(&self) -> BlockingClient {
        BlockingClient::connect(self.config()).unwrap()
    }

    fn open(&self, name: &str) -> Result<ClusterTable, JobError> {
        ClusterTable::open(self.config(), name)
    }
}

/// What a table has that was filled with so many objects.
fn objects(count: usize) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let object = |number| (format!("key {number}").into(), format!("{}", number * 7).into());
    (0..count).map(object).collect()
}

#[test]
fn each_object_is_read_by_one_worker_and_no_worker_has_more_partitions_than_its_share() {
    let cluster = Cluster::start();
    let table = cluster.client().create_table("read", TableOptions::default()).unwrap();
    let expected = objects(5000);
    let pairs: Vec<_> = expected.iter().collect();
    table.multi_put(&pairs).try_collect_in_order().unwrap();
    // Too large for a page.
    let large = vec![b'x'; 3 << 20];
    table.put("large", &large).unwrap();
    for workers in [1, 2, 3, 5] {
        let parts = run(workers, |worker| {
            let table = cluster.open("read").unwrap();
            let (own, slots_read) = (table.share(worker).unwrap(), AtomicU64::new(0));
            let found = own.objects(&slots_read).to_vec(worker).unwrap();
            assert_eq!(own.partitions_beside(), own.partitions().len(), "they are on this machine");
            worker.gather(0_u64).unwrap();
            let found = found.into_iter().map(|TableObject { key, value }| (key, value.to_vec()));
            (found.collect::<Vec<_>>(), own.partitions().to_vec(), slots_read.into_inner())
        });
        assert_eq!(parts.iter().map(|part| part.2).sum::<u64>(), TableShare::SLOTS_TO_READ);
        let partitions: Vec<usize> = parts.iter().map(|part| part.1.len()).collect();
        let most = partitions.iter().sum::<usize>().div_ceil(workers);
        assert!(partitions.iter().all(|partitions| *partitions <= most), "{partitions:?}");
        let count = parts.iter().map(|part| part.0.len()).sum::<usize>();
        assert_eq!(count, expected.len() + 1, "each is read once");
        let mut found: BTreeMap<_, _> = parts.into_iter().flat_map(|part| part.0).collect();
        assert!(found.remove(&b"large"[..]) == Some(large.clone()));
        assert!(found == expected, "{workers} workers");
    }
}

#[test]
fn records_become_objects_and_another_attempt_changes_nothing() {
    let cluster = Cluster::start();
    let written = cluster.client().create_table("written", TableOptions::default()).unwrap();
    for _ in 0..2 {
        let counts = run(2, |worker| {
            let table = cluster.open("written").unwrap();
            let pairs = records(share(worker, 5000))
                .map(|number| (format!("key {number}"), format!("{}", number * 7)));
            let count = pairs.into_table(worker, &table).unwrap();
            worker.gather(0_u64).unwrap();
            count
        });
        assert_eq!(counts, [2500, 2500]);
        let keys: Vec<_> = objects(5000).into_keys().collect();
        let found = written.multi_get(&keys).try_collect_in_order().unwrap();
        let values = found.into_iter().map(|found| found.into_object().unwrap().to_vec());
        assert!(values.eq(objects(5000).into_values()));
        assert_eq!(written.count().unwrap(), 5000);
    }
}

#[test]
fn what_cannot_be_opened_or_written_is_named() {
    let cluster = Cluster::start();
    let absent = cluster.open("absent").unwrap_err();
    assert!(matches!(absent, JobError::OpenTable { .. }), "{absent}");
    assert!(absent.to_string().contains("the table absent of the cluster"), "{absent}");
    run(1, |worker| {
        let table = cluster.open("default").unwrap();
        // A key may not be so long; the others are written.
        let long = "k".repeat(100_000);
        let keys = ["a", &long, "b"].map(|key| (key.to_owned(), "value"));
        let failed = records(keys).into_table(worker, &table).unwrap_err();
        let JobError::WriteTable { table, failed: 1, key, .. } = failed else { panic!("{failed}") };
        assert_eq!((table.as_str(), key), ("default", format!("{}…", "k".repeat(40))));
    });
    let keys: BTreeSet<_> = ["a", "b"].into();
    let client = cluster.client();
    assert!(keys.iter().all(|key| client.exists(key).unwrap().exists));
    // And a table that goes while it is read.
    let gone = cluster.client().create_table("gone", TableOptions::default()).unwrap();
    gone.put("key", "value").unwrap();
    run(1, |worker| {
        let table = cluster.open("gone").unwrap();
        let own = table.share(worker).unwrap();
        cluster.client().drop_table("gone").unwrap();
        let failed = own.objects(&AtomicU64::new(0)).to_vec(worker).unwrap_err();
        assert!(matches!(failed, JobError::ReadTable { .. }), "{failed}");
    });
}
