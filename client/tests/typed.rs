//! Values that are a program's types, on a real node: what comes back, and what bytes that are none come to.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config as ProptestConfig, TestRunner};
use rkyv::{Archive, Deserialize, Serialize};
use weft_client::{
    BlockingClient, ClientConfig, ClientError, Compared, ErrorCode, LinkPolicy, Typed, TypedError,
    TypedLookup, TypedObject, Version,
};
use weft_protocol::limits::{REQUEST_VALUE_MAX, VALUE_MAX};
use weft_server::config::{Config, Host, HttpAddress, Settings};
use weft_server::node::Node;

/// Bytes before an archive, as docs/typed-values.md draws them.
const TAG_LEN: usize = 16;

#[derive(Debug, Clone, PartialEq, Archive, Serialize, Deserialize)]
struct Cloth {
    pattern: String,
    threads: Vec<u64>,
    owner: Option<Box<str>>,
    dye: Dye,
}

#[derive(Debug, Clone, PartialEq, Archive, Serialize, Deserialize)]
enum Dye {
    None,
    Plant { name: String },
    Mixed(Vec<(u8, f64)>),
}

impl Typed for Cloth {
    const NAME: &'static str = "mill.Cloth/1";
}

/// Laid out like `Weight`, so that the bytes of one are valid as the other.
#[derive(Archive, Serialize)]
struct Length(u64);

impl Typed for Length {
    const NAME: &'static str = "mill.Length/1";
}

#[derive(Archive, Serialize)]
struct Weight(u64);

impl Typed for Weight {
    const NAME: &'static str = "mill.Weight/1";
}

/// The name of `Weight`, and another layout.
#[derive(Archive, Serialize)]
struct WeightAndUnit(u64, u8);

impl Typed for WeightAndUnit {
    const NAME: &'static str = Weight::NAME;
}

#[derive(Archive, Serialize)]
struct Bolt(Vec<u8>);

impl Typed for Bolt {
    const NAME: &'static str = "mill.Bolt/1";
}

/// A list whose links are aligned to more than its root.
#[derive(Archive, Serialize)]
struct Wide(Vec<u128>);

impl Typed for Wide {
    const NAME: &'static str = "mill.Wide/1";
}

#[derive(Archive, Serialize)]
struct Nothing;

impl Typed for Nothing {
    const NAME: &'static str = "mill.Nothing/1";
}

#[derive(Archive, Serialize)]
#[rkyv(serialize_bounds(__S: rkyv::ser::Writer, __S::Error: rkyv::rancor::Source))]
#[rkyv(bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: rkyv::rancor::Source)))]
struct Chain(#[rkyv(omit_bounds)] Option<Box<Chain>>);

impl Typed for Chain {
    const NAME: &'static str = "mill.Chain/1";
}

fn start() -> (Node, BlockingClient) {
    start_over(LinkPolicy::Auto)
}

fn start_over(link: LinkPolicy) -> (Node, BlockingClient) {
    let settings = Settings {
        listen: Some("127.0.0.1:0".parse().unwrap()),
        http: Some(HttpAddress::Off),
        control: Some(HttpAddress::Off),
        memory: Some("256MiB".parse().unwrap()),
        ..Settings::default()
    };
    let node = Node::start(&Config::resolve(settings, Host::of_this_process()).unwrap()).unwrap();
    let mut config = ClientConfig::new([node.address().to_string()]);
    config.timeout = Duration::from_secs(30);
    config.link = link;
    let client = BlockingClient::connect(config).unwrap();
    (node, client)
}

fn cloth() -> impl Strategy<Value = Cloth> {
    let dye = prop_oneof![
        Just(Dye::None),
        ".*".prop_map(|name| Dye::Plant { name }),
        prop::collection::vec(any::<(u8, f64)>(), 0..20).prop_map(Dye::Mixed),
    ];
    let threads = prop_oneof![
        prop::collection::vec(any::<u64>(), 0..40),
        prop::collection::vec(any::<u64>(), 2_000..5_000),
    ];
    (".*", threads, any::<Option<String>>(), dye).prop_map(|(pattern, threads, owner, dye)| Cloth {
        pattern,
        threads,
        owner: owner.map(String::into_boxed_str),
        dye,
    })
}

fn decoded(object: &TypedObject<Cloth>) -> Cloth {
    rkyv::deserialize::<Cloth, rkyv::rancor::Error>(&**object).unwrap()
}

fn found<T: Archive>(lookup: Result<TypedLookup<T>, TypedError>) -> TypedObject<T> {
    lookup.unwrap().into_object().unwrap()
}

fn plain() -> Cloth {
    Cloth {
        pattern: "a pattern that is too long to lie in a string's own bytes".to_owned(),
        threads: (0..50).collect(),
        owner: Some("the weaver of the village, by name".into()),
        dye: Dye::Mixed(vec![(1, 0.5), (2, 0.25)]),
    }
}

#[test]
fn what_was_put_is_what_is_got() {
    let (_node, client) = start();
    let mut runner = TestRunner::new(ProptestConfig { cases: 300, ..ProptestConfig::default() });
    let ran = runner.run(&cloth(), |cloth| {
        let version = client.put_as("cloth", &cloth).unwrap();
        let object = found(client.get_as::<Cloth>("cloth"));
        prop_assert_eq!(object.version(), version);
        // Through a move and a clone, with the first handle gone.
        let other = Box::new(object.clone());
        drop(object);
        prop_assert_eq!(decoded(&other), cloth);
        Ok(())
    });
    ran.unwrap();
}

#[test]
fn hostile_bytes_are_an_error_or_a_value() {
    let (_node, client) = start();
    client.put_as("cloth", &plain()).unwrap();
    let good = client.get("cloth").unwrap().into_object().unwrap().to_vec();
    let changes = (
        prop::collection::vec((TAG_LEN..good.len(), any::<u8>()), 0..4),
        prop_oneof![Just(good.len()), 0..good.len()],
    );
    let mut runner = TestRunner::new(ProptestConfig { cases: 2_000, ..ProptestConfig::default() });
    let ran = runner.run(&changes, |(flips, len)| {
        let mut bytes = good.clone();
        for (at, mask) in flips {
            bytes[at] ^= mask;
        }
        bytes.truncate(len);
        client.put("cloth", &bytes).unwrap();
        match client.get_as::<Cloth>("cloth") {
            Ok(lookup) => drop(decoded(&lookup.into_object().unwrap())),
            Err(TypedError::Malformed { expected, .. }) => prop_assert_eq!(expected, Cloth::NAME),
            Err(TypedError::Untyped { .. }) => prop_assert!(len < TAG_LEN),
            Err(error) => panic!("{error}"),
        }
        Ok(())
    });
    ran.unwrap();
}

#[test]
fn a_key_without_an_object_has_no_value() {
    let (_node, client) = start();
    let version = client.put_as("cloth", &plain()).unwrap();
    assert!(client.delete("cloth").unwrap().version > version);
    let lookup = client.get_as::<Cloth>("cloth").unwrap();
    assert!(matches!(lookup, TypedLookup::Absent { version: as_of } if as_of > version));
    client.put_as_expiring("cloth", &plain(), Duration::ZERO).unwrap();
    assert!(client.get_as::<Cloth>("cloth").unwrap().into_object().is_none());
}

#[test]
fn a_value_of_another_type_is_told_though_its_bytes_would_do() {
    let (_node, client) = start();
    let version = client.put_as("bale", &Weight(7)).unwrap();
    assert_eq!(found(client.get_as::<Weight>("bale")).0, 7);
    let error = client.get_as::<Length>("bale").unwrap_err();
    let TypedError::OtherType { expected, version: met } = error else { panic!("{error}") };
    assert_eq!((expected, met), (Length::NAME, version));
    // So is a type that has changed and was not renamed, where its size tells.
    let error = client.get_as::<WeightAndUnit>("bale").unwrap_err();
    assert!(matches!(error, TypedError::OtherType { .. }), "{error}");
    for foreign in [&b""[..], b"7", &[0; 24], &[0xff; 300]] {
        client.put("bale", foreign).unwrap();
        let error = client.get_as::<Weight>("bale").unwrap_err();
        assert!(matches!(error, TypedError::Untyped { .. }), "{error}");
    }
}

#[test]
fn a_value_is_written_only_over_the_version_that_was_read() {
    let (_node, client) = start();
    let none = Version::NONE;
    let first = client.compare_and_set_as("bale", none, &Weight(1), None).unwrap();
    let first = first.written().unwrap();
    let second = client.compare_and_set_as("bale", first, &Weight(2), None).unwrap();
    assert!(second.written() > Some(first));
    let late = client.compare_and_set_as("bale", first, &Weight(3), None).unwrap();
    assert!(matches!(late, Compared::Conflict { .. }));
    assert_eq!(found(client.get_as::<Weight>("bale")).0, 2);
}

#[test]
fn values_reach_from_nothing_to_the_limit() {
    let (_node, client) = start();
    client.put_as("key", &Nothing).unwrap();
    found(client.get_as::<Nothing>("key"));
    // The root is a pointer and a length of four bytes each, aligned to four.
    let fits = VALUE_MAX - TAG_LEN - 8;
    for len in [REQUEST_VALUE_MAX / 4 * 4 - TAG_LEN - 8, REQUEST_VALUE_MAX, fits] {
        client.put_as("key", &Bolt(vec![7; len])).unwrap();
        let bolt = found(client.get_as::<Bolt>("key"));
        assert_eq!((bolt.0.len(), bolt.0[len - 1], bolt.is_copy()), (len, 7, false));
    }
    let error = client.put_as("key", &Bolt(vec![7; fits + 4])).unwrap_err();
    let TypedError::Client(error @ ClientError::Limit(_)) = error else { panic!("{error}") };
    assert_eq!(error.code(), ErrorCode::ValueTooLarge);
}

#[test]
fn a_value_that_nests_too_deep_is_refused_and_does_no_harm() {
    let (_node, client) = start();
    let chain = |links| (0..links).fold(Chain(None), |rest, _| Chain(Some(Box::new(rest))));
    client.put_as("chain", &chain(500)).unwrap();
    found(client.get_as::<Chain>("chain"));
    client.put_as("chain", &chain(600)).unwrap();
    let error = client.get_as::<Chain>("chain").unwrap_err();
    let TypedError::Malformed { reason, .. } = error else { panic!("{error}") };
    assert!(!reason.contains("without error information"), "{reason}");
}

#[test]
fn values_over_what_a_handle_holds_are_used_where_they_were_received() {
    for link in [LinkPolicy::Auto, LinkPolicy::Tcp] {
        let (_node, client) = start_over(link);
        get_values_that_come_together(&client);
    }
}

fn get_values_that_come_together(client: &BlockingClient) {
    for len in [1_usize, 12, 100, 1_000, 2_000, 5_000, 20_000, 60_000] {
        for turn in 0..20 {
            let cloth = Cloth { threads: vec![7; len + turn], ..plain() };
            client.put_as(format!("cloth {turn}"), &cloth).unwrap();
            client.put_as(format!("wide {turn}"), &Wide(vec![7; len + turn])).unwrap();
        }
        // Replies that come together lie at whatever place of a buffer the ones before them leave.
        std::thread::scope(|scope| {
            let get = || {
                for turn in 0..20 {
                    let cloth = found(client.get_as::<Cloth>(format!("cloth {turn}")));
                    assert!(!cloth.is_copy(), "frames are aligned to eight bytes");
                    let wide = found(client.get_as::<Wide>(format!("wide {turn}")));
                    assert!(wide.0.iter().all(|number| *number == 7));
                }
            };
            for _ in 0..4 {
                scope.spawn(get);
            }
        });
    }
}
