use std::collections::BTreeMap;

use proptest::prelude::*;
use weft_transport::MemoryConfig;

use super::*;

/// Keys by address, as a log has them.
#[derive(Default)]
struct Keys(Vec<Vec<u8>>);

impl Keys {
    fn add(&mut self, key: &[u8]) -> Address {
        self.0.push(key.to_vec());
        Address::new(1, (self.0.len() - 1) * 8)
    }

    fn of(&self, address: Address) -> &[u8] {
        &self.0[address.offset() / 8]
    }
}

fn memory() -> Memory {
    Memory::new(MemoryConfig { limit_bytes: 64 << 20 }).unwrap()
}

fn insert(ordered: &mut Ordered, keys: &mut Keys, key: &[u8]) -> Address {
    let place = ordered.find(key, |address| keys.of(address)).unwrap_err();
    let place = ordered.prepare(place, key, |address| keys.of(address)).unwrap();
    let address = keys.add(key);
    ordered.insert(place, key, address, |address| keys.of(address));
    address
}

fn remove(ordered: &mut Ordered, keys: &Keys, key: &[u8]) {
    let place = ordered.find(key, |address| keys.of(address)).unwrap();
    ordered.remove(place, |address| keys.of(address));
}

fn check(ordered: &Ordered, keys: &Keys, model: &BTreeMap<Vec<u8>, Address>) {
    let all: Vec<_> = ordered.range(Bound::Unbounded, Bound::Unbounded, |a| keys.of(a)).collect();
    assert!(all.iter().eq(model.values()), "{} of {}", all.len(), model.len());
    assert_eq!(ordered.len(), model.len());
    assert_eq!(ordered.charge.bytes(), ordered.bytes() as u64);
    let separators: usize = ordered.pages.iter().map(|page| page.separator.len()).sum();
    assert_eq!(ordered.separator_bytes, separators);
    for (at, page) in ordered.pages.iter().enumerate() {
        assert!(page.entries.len() <= PAGE_ENTRIES);
        assert_eq!(page.separator.is_empty(), at == 0);
        for entry in &page.entries {
            let key = keys.of(entry.address);
            assert!(*key >= *page.separator);
            assert_eq!(entry.window, window(key, page.skip), "{key:?} behind {}", page.skip);
            let first = keys.of(page.entries[0].address);
            assert!(key.starts_with(&first[..page.skip]));
        }
    }
}

/// Keys of which many begin alike and some are the beginning of others.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let short = prop::collection::vec(prop_oneof![Just(0), Just(1), Just(b'a'), Just(255)], 0..7);
    let long = (0_u16..600).prop_map(|number| format!("user/profile/{number:05}").into_bytes());
    let longer = (0_u16..600, short.clone())
        .prop_map(|(number, tail)| [format!("user/{number}").as_bytes(), &tail].concat());
    prop_oneof![2 => short, 3 => long, 3 => longer]
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        1 => Just(Bound::Unbounded),
        3 => key().prop_map(Bound::Included),
        3 => key().prop_map(Bound::Excluded),
    ]
}

proptest! {
    /// The model is a sorted map.
    #[test]
    fn keys_are_found_in_their_order(
        steps in prop::collection::vec((key(), 0_u8..8), 1..3_000),
        bounds in prop::collection::vec((bound(), bound()), 8),
    ) {
        let memory = memory();
        let (mut ordered, mut keys) = (Ordered::new(&memory), Keys::default());
        let mut model = BTreeMap::new();
        for (step, (key, kind)) in steps.iter().enumerate() {
            // For a while more goes than comes.
            let removes = if step % 1_500 > 1_000 { *kind > 1 } else { *kind == 0 };
            match (ordered.find(key, |address| keys.of(address)), removes) {
                (Ok(_), true) => {
                    remove(&mut ordered, &keys, key);
                    prop_assert!(model.remove(key).is_some());
                }
                (Ok(place), false) => {
                    let address = keys.add(key);
                    ordered.replace(place, address);
                    prop_assert!(model.insert(key.clone(), address).is_some());
                }
                (Err(_), true) => prop_assert!(!model.contains_key(key)),
                (Err(_), false) => {
                    let address = insert(&mut ordered, &mut keys, key);
                    prop_assert!(model.insert(key.clone(), address).is_none());
                }
            }
        }
        check(&ordered, &keys, &model);
        for (lower, upper) in &bounds {
            let within = |key: &[u8]| {
                (match lower {
                    Bound::Unbounded => true,
                    Bound::Included(lower) => key >= &lower[..],
                    Bound::Excluded(lower) => key > &lower[..],
                }) && match upper {
                    Bound::Unbounded => true,
                    Bound::Included(upper) => key <= &upper[..],
                    Bound::Excluded(upper) => key < &upper[..],
                }
            };
            let expected: Vec<_> =
                model.iter().filter(|(key, _)| within(key)).map(|(_, address)| *address).collect();
            let (lower, upper) =
                (lower.as_ref().map(|key| &key[..]), upper.as_ref().map(|key| &key[..]));
            let range = || ordered.range(lower, upper, |address| keys.of(address));
            prop_assert_eq!(range().collect::<Vec<_>>(), expected.clone());
            let backwards: Vec<_> = expected.into_iter().rev().collect();
            prop_assert_eq!(range().rev().collect::<Vec<_>>(), backwards);
        }
    }
}

#[test]
fn keys_that_come_in_order_fill_their_pages() {
    let memory = memory();
    let (mut ordered, mut keys, mut model) =
        (Ordered::new(&memory), Keys::default(), BTreeMap::new());
    for number in 0..10 * PAGE_ENTRIES {
        let key = format!("key-{number:09}").into_bytes();
        model.insert(key.clone(), insert(&mut ordered, &mut keys, &key));
    }
    assert_eq!(ordered.pages.len(), 10);
    // A search reads a record to compare what all begin with, and one that it finds.
    assert!(ordered.pages.iter().all(|page| page.skip >= "key-00000".len()), "{ordered:?}");
    check(&ordered, &keys, &model);
    for key in model.keys().take(model.len() - 3) {
        remove(&mut ordered, &keys, key);
    }
    assert!(ordered.bytes() < 2 * PAGE_BYTES, "{} bytes for 3 keys", ordered.bytes());
    ordered.clear();
    assert_eq!((ordered.bytes(), memory.account().allocated_bytes), (0, 0));
}

#[test]
fn without_memory_nothing_changes() {
    let memory = memory();
    let (mut ordered, mut keys, mut model) =
        (Ordered::new(&memory), Keys::default(), BTreeMap::new());
    for number in 0..PAGE_ENTRIES {
        let key = format!("{number:05}").into_bytes();
        model.insert(key.clone(), insert(&mut ordered, &mut keys, &key));
    }
    let _all = memory.charge(memory.free_bytes(), Purpose::Index).unwrap();
    for key in [&b"00007x"[..], b"99999", b""] {
        let place = ordered.find(key, |address| keys.of(address)).unwrap_err();
        assert!(ordered.prepare(place, key, |address| keys.of(address)).is_err());
        check(&ordered, &keys, &model);
    }
}
