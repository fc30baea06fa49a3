//! All operations on keys, as a program calls them, against an ordered map: random sequences on a real node.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use proptest::prelude::*;
use weft_client::{
    Appended, BlockingClient, ClientConfig, ClientError, Compared, Deleted, ErrorCode, Existence,
    FieldChange, FieldsLookup, Incremented, Lookup, RangeLookup, RangeOptions, Record, ScanOptions,
    Scanned, TableOptions, Version,
};
use weft_server::config::{Config, Host, HttpAddress, Settings};
use weft_server::node::Node;

#[derive(Clone, Debug)]
enum Step {
    Put(usize, Vec<u8>),
    Get(usize),
    Exists(usize),
    Delete(usize),
    GetRange { key: usize, offset: u64, len_max: u32 },
    PutIfAbsent(usize, Vec<u8>),
    CompareAndSet { key: usize, is_stale: bool, value: Vec<u8> },
    Increment(usize, i64),
    Append(usize, Vec<u8>),
    GetAndPut(usize, Vec<u8>),
    GetAndDelete(usize),
    PutField(usize, String, Vec<u8>),
    RemoveField(usize, String),
    Expire(usize, Duration),
    Persist(usize),
    MultiPut(Vec<(usize, Vec<u8>)>),
    MultiGet(Vec<usize>),
    MultiDelete(Vec<usize>),
}

const KEYS: usize = 12;

/// So long that nothing expires while the test runs.
const LONG: Duration = Duration::from_secs(3_600);

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..KEYS;
    let value = || {
        prop_oneof![
            4 => prop::collection::vec(any::<u8>(), 0..100),
            3 => (-50_i64..50).prop_map(|number| number.to_string().into_bytes()),
            1 => (0_usize..20_000).prop_map(|len| vec![0xA5; len]),
        ]
    };
    let delta = prop_oneof![4 => -50_i64..50, 1 => any::<i64>()];
    let lifetime = prop_oneof![Just(Duration::ZERO), Just(LONG)];
    let pair = || (key(), value());
    prop_oneof![
        3 => pair().prop_map(|(key, value)| Step::Put(key, value)),
        3 => key().prop_map(Step::Get),
        1 => key().prop_map(Step::Exists),
        1 => key().prop_map(Step::Delete),
        2 => (key(), 0_u64..120, 0_u32..120)
            .prop_map(|(key, offset, len_max)| Step::GetRange { key, offset, len_max }),
        2 => pair().prop_map(|(key, value)| Step::PutIfAbsent(key, value)),
        2 => (key(), any::<bool>(), value())
            .prop_map(|(key, is_stale, value)| Step::CompareAndSet { key, is_stale, value }),
        4 => (key(), delta).prop_map(|(key, delta)| Step::Increment(key, delta)),
        3 => pair().prop_map(|(key, tail)| Step::Append(key, tail)),
        2 => pair().prop_map(|(key, value)| Step::GetAndPut(key, value)),
        1 => key().prop_map(Step::GetAndDelete),
        3 => (key(), "[ab]", value()).prop_map(|(key, name, value)| Step::PutField(key, name, value)),
        1 => (key(), "[ab]").prop_map(|(key, name)| Step::RemoveField(key, name)),
        2 => (key(), lifetime).prop_map(|(key, lifetime)| Step::Expire(key, lifetime)),
        1 => key().prop_map(Step::Persist),
        1 => prop::collection::vec(pair(), 0..6).prop_map(Step::MultiPut),
        1 => prop::collection::vec(key(), 0..6).prop_map(Step::MultiGet),
        1 => prop::collection::vec(key(), 0..4).prop_map(Step::MultiDelete),
    ]
}

/// One node for all sequences; each has keys of its own. Clients of the table that is always there, and of one that is ordered.
fn clients() -> &'static [BlockingClient; 2] {
    static CLUSTER: OnceLock<(Node, [BlockingClient; 2])> = OnceLock::new();
    let (_, clients) = CLUSTER.get_or_init(|| {
        let settings = Settings {
            listen: Some("127.0.0.1:0".parse().unwrap()),
            http: Some(HttpAddress::Off),
            control: Some(HttpAddress::Off),
            memory: Some("128MiB".parse().unwrap()),
            ..Settings::default()
        };
        let config = Config::resolve(settings, Host::of_this_process()).unwrap();
        let node = Node::start(&config).unwrap();
        let client = BlockingClient::connect(ClientConfig::new([node.address().to_string()]));
        let client = client.unwrap();
        let ordered = TableOptions { ordered: true, ..TableOptions::default() };
        let table = client.create_table("ordered", ordered).unwrap();
        (node, [client, table])
    });
    clients
}

/// Values by key, each with the version that it was written with.
struct Checked {
    sequence: u64,
    model: BTreeMap<usize, (Vec<u8>, Version)>,
}

impl Checked {
    fn is_ordered(&self) -> bool {
        self.sequence % 2 == 1
    }

    fn client(&self) -> &'static BlockingClient {
        &clients()[usize::from(self.is_ordered())]
    }

    fn key(&self, number: usize) -> String {
        format!("{{{}}}-{number}", self.sequence)
    }

    fn value(&self, key: usize) -> Option<&[u8]> {
        self.model.get(&key).map(|(value, _)| &value[..])
    }

    fn version(&self, key: usize) -> Option<Version> {
        self.model.get(&key).map(|(_, version)| *version)
    }

    fn written(&mut self, key: usize, value: Vec<u8>, version: Version) {
        assert!(self.version(key).is_none_or(|before| before < version));
        self.model.insert(key, (value, version));
    }

    fn check(&self, key: usize, lookup: Lookup) {
        let found = lookup.into_object().map(|object| (object.to_vec(), object.version()));
        assert_eq!(found, self.model.get(&key).cloned());
    }

    fn take(&mut self, step: Step) {
        let client = self.client();
        match step {
            Step::Put(key, value) => {
                let version = client.put(self.key(key), &value).unwrap();
                self.written(key, value, version);
            }
            Step::Get(key) => self.check(key, client.get(self.key(key)).unwrap()),
            Step::Exists(key) => {
                let Existence { version, exists } = client.exists(self.key(key)).unwrap();
                assert_eq!(exists.then_some(version), self.version(key));
            }
            Step::Delete(key) => {
                let Deleted { existed, .. } = client.delete(self.key(key)).unwrap();
                assert_eq!(existed, self.model.remove(&key).is_some());
            }
            Step::GetRange { key, offset, len_max } => {
                let found = client.get_range(self.key(key), offset, len_max).unwrap();
                let found = match found {
                    RangeLookup::Found { bytes, value_len } => {
                        Some((bytes.to_vec(), value_len, bytes.version()))
                    }
                    RangeLookup::Absent { .. } => None,
                };
                let expected = self.model.get(&key).map(|(value, version)| {
                    let bytes = value.iter().skip(offset as usize).take(len_max as usize);
                    (bytes.copied().collect(), value.len() as u64, *version)
                });
                assert_eq!(found, expected);
            }
            Step::PutIfAbsent(key, value) => {
                let compared = client.put_if_absent(self.key(key), &value, None).unwrap();
                match self.version(key) {
                    Some(version) => assert_eq!(compared, Compared::Conflict { version }),
                    None => self.written(key, value, compared.written().unwrap()),
                }
            }
            Step::CompareAndSet { key, is_stale, value } => {
                let current = self.version(key);
                let stale = Version(current.map_or(1, |version| version.0 - 1));
                let expected = current.filter(|_| !is_stale).unwrap_or(stale);
                let compared = client.compare_and_set(self.key(key), expected, &value, Some(LONG));
                match (compared.unwrap(), current) {
                    (Compared::Written { version }, _) => {
                        assert_eq!(Some(expected), current);
                        self.written(key, value, version);
                    }
                    (Compared::Conflict { version }, Some(current)) => {
                        assert!(version == current && is_stale);
                    }
                    (Compared::Absent { .. }, None) => {}
                    (compared, current) => panic!("{compared:?} of {current:?}"),
                }
            }
            Step::Increment(key, delta) => {
                let text = self.value(key).map_or(Ok("0"), std::str::from_utf8);
                let number = text.ok().and_then(|text| {
                    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
                });
                let incremented = client.increment(self.key(key), delta, None);
                match number.map(|number| number.checked_add(delta)) {
                    None => assert_eq!(incremented.unwrap_err().code(), ErrorCode::NotANumber),
                    Some(None) => {
                        assert_eq!(incremented.unwrap_err().code(), ErrorCode::NumberOverflow);
                    }
                    Some(Some(sum)) => {
                        let Incremented { version, number } = incremented.unwrap();
                        assert_eq!(number, sum);
                        self.written(key, sum.to_string().into_bytes(), version);
                    }
                }
            }
            Step::Append(key, tail) => {
                let value = [self.value(key).unwrap_or_default(), &tail].concat();
                let appended = client.append(self.key(key), &tail, Some(LONG)).unwrap();
                let Appended { version, value_len } = appended;
                assert_eq!(value_len, value.len() as u64);
                self.written(key, value, version);
            }
            Step::GetAndPut(key, value) => {
                let replaced = client.get_and_put(self.key(key), &value, None).unwrap();
                let previous = replaced.previous.map(|object| (object.to_vec(), object.version()));
                assert_eq!(previous, self.model.get(&key).cloned());
                self.written(key, value, replaced.version);
            }
            Step::GetAndDelete(key) => {
                let removed = client.get_and_delete(self.key(key)).unwrap();
                let previous = removed.previous.map(|object| (object.to_vec(), object.version()));
                assert_eq!(previous, self.model.remove(&key));
            }
            Step::PutField(key, name, value) => {
                let fields = [(name.as_str(), &value)];
                let written = client.put_fields(self.key(key), &fields, Some(LONG));
                self.changed(key, written, &name, Some(value));
            }
            Step::RemoveField(key, name) => {
                let changes = [FieldChange::remove(name.as_bytes()).unwrap()];
                let written = client.change_fields(self.key(key), &changes, None);
                self.changed(key, written, &name, None);
            }
            Step::Expire(key, lifetime) => {
                let Existence { version, exists } = client.expire(self.key(key), lifetime).unwrap();
                self.rewritten(key, exists, version);
                if lifetime.is_zero() {
                    self.model.remove(&key);
                }
            }
            Step::Persist(key) => {
                let Existence { version, exists } = client.persist(self.key(key)).unwrap();
                self.rewritten(key, exists, version);
            }
            Step::MultiPut(pairs) => {
                let named: Vec<_> =
                    pairs.iter().map(|(key, value)| (self.key(*key), value)).collect();
                let versions = client.multi_put(&named).try_collect_in_order().unwrap();
                for ((key, value), version) in pairs.into_iter().zip(versions) {
                    self.written(key, value, version);
                }
            }
            Step::MultiGet(keys) => {
                let named: Vec<_> = keys.iter().map(|key| self.key(*key)).collect();
                let lookups = client.multi_get(&named).try_collect_in_order().unwrap();
                for (key, lookup) in keys.into_iter().zip(lookups) {
                    self.check(key, lookup);
                }
            }
            Step::MultiDelete(keys) => {
                let named: Vec<_> = keys.iter().map(|key| self.key(*key)).collect();
                let deleted = client.multi_delete(&named).try_collect_in_order().unwrap();
                for (key, Deleted { existed, .. }) in keys.into_iter().zip(deleted) {
                    assert_eq!(existed, self.model.remove(&key).is_some());
                }
            }
        }
    }

    /// A field of a record was to become `value`.
    fn changed(
        &mut self,
        key: usize,
        written: Result<Version, ClientError>,
        name: &str,
        value: Option<Vec<u8>>,
    ) {
        let record = self.value(key).map_or(Ok(Record::EMPTY), Record::parse);
        let Ok(record) = record else {
            assert_eq!(written.unwrap_err().code(), ErrorCode::NotARecord);
            return;
        };
        let fields = record.fields().map(|(name, value)| (name.to_vec(), value.to_vec()));
        let mut fields: BTreeMap<_, _> = fields.collect();
        match value {
            Some(value) => drop(fields.insert(name.as_bytes().to_vec(), value)),
            None => drop(fields.remove(name.as_bytes())),
        }
        let names: Vec<_> = fields.keys().cloned().chain([b"nobody".to_vec()]).collect();
        let FieldsLookup::Found(found) = self.client().get_fields(self.key(key), &names).unwrap()
        else {
            panic!("it has just been written")
        };
        assert_eq!(Some(found.version()), written.as_ref().ok().copied());
        let expected = fields.values().map(|value| Some(&value[..])).chain([None]);
        assert!(found.iter().eq(expected));
        // In which order the fields lie is the node's affair.
        let object = self.client().get(self.key(key)).unwrap().into_object().unwrap();
        assert_eq!(Record::parse(&object).unwrap().len(), fields.len());
        self.written(key, object.to_vec(), written.unwrap());
    }

    /// A scan returns what there is, and nothing else.
    fn check_scan(&self) {
        let key_prefix = format!("{{{}}}-", self.sequence).into_bytes();
        let range = RangeOptions { with_values: true, ..RangeOptions::prefix(&key_prefix[..]) };
        let options = ScanOptions { key_prefix, with_values: true, ..ScanOptions::default() };
        let owned = |scanned: Result<Scanned, ClientError>| {
            let scanned = scanned.unwrap();
            let value = scanned.value.unwrap();
            assert_eq!(scanned.value_len, value.len() as u64);
            (scanned.key, (value.to_vec(), scanned.version))
        };
        let mut scanned: Vec<_> = self.client().scan(options).unwrap().map(owned).collect();
        scanned.sort_unstable();
        let mut expected: Vec<_> = self
            .model
            .iter()
            .map(|(key, object)| (self.key(*key).into_bytes(), object.clone()))
            .collect();
        expected.sort_unstable();
        assert_eq!(scanned, expected);
        if self.is_ordered() {
            let range: Vec<_> = self.client().range(range).unwrap().map(owned).collect();
            assert_eq!(range, expected);
        }
    }

    /// Its expiry may have changed.
    fn rewritten(&mut self, key: usize, exists: bool, now: Version) {
        assert_eq!(exists, self.model.contains_key(&key));
        if let Some((_, version)) = self.model.get_mut(&key) {
            assert!(now >= *version);
            *version = now;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn operations_do_what_they_would_do_to_a_map(
        sequence: u64,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut checked = Checked { sequence, model: BTreeMap::new() };
        for step in steps {
            checked.take(step);
        }
        for key in 0..KEYS {
            checked.check(key, checked.client().get(checked.key(key)).unwrap());
        }
        checked.check_scan();
    }
}
