//! Damaged graphs are refused or harmless: what is accepted is touched to the last byte.

use proptest::prelude::*;
use weft_object::{StableBytes, View};

use super::isomorphic::{Leaf, Node, build, models, types};
use crate::{received, sent};

/// Reads all that a view lends and all that its objects lead to. A sequence, a text and a link are each read once for each field that
/// has one, which bounds it.
fn touch<B: StableBytes>(view: &View<B>) {
    let mut sum = 0_u64;
    for node in view.records::<Node>().flatten() {
        sum ^= node.number;
        // A text that is not UTF-8 and an enum that is none would be undefined behaviour, so this is what a sanitizer sees.
        sum ^= view.text(&node.name).chars().map(u64::from).sum::<u64>();
        sum ^= format!("{:?}", node.kind).len() as u64;
        sum ^= view.seq(node.children).iter().fold(0, |sum, child| sum ^ view.get(*child).number);
        let map = view.map(node.by_name);
        sum ^= (0..20).filter_map(|key| map.get(&key)).map(|value| u64::from(*value)).sum::<u64>();
        for link in [node.left, node.right].into_iter().flatten() {
            sum ^= view.get(link).number;
        }
        if let Some(any) = node.any {
            sum ^= view.downcast::<Leaf>(any).map_or(0, |leaf| u64::from(leaf.bytes[2]));
            sum ^= view.downcast::<Node>(any).map_or(0, |node| node.number);
        }
    }
    for leaf in view.records::<Leaf>().flatten() {
        sum ^= u64::from(leaf.bytes[0]);
    }
    if let Ok(root) = view.root::<Node>() {
        sum ^= root.number;
    }
    std::hint::black_box(sum);
}

#[derive(Clone, Debug)]
enum Damage {
    Set(prop::sample::Index, u8),
    Flip(prop::sample::Index, u8),
    /// A word is another word, of the head, of a link or a length mostly.
    Word(prop::sample::Index, u32),
    Copy(prop::sample::Index, prop::sample::Index),
    Cut(prop::sample::Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    let word = prop_oneof![
        any::<u32>(),
        0..20_u32,
        // Links into the first pages.
        (1..12_u32, 0..1024_u32).prop_map(|(page, unit)| page << 10 | unit),
        Just(u32::MAX),
    ];
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (at(), 0..8_u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        (at(), word).prop_map(|(at, word)| Damage::Word(at, word)),
        (at(), at()).prop_map(|(from, to)| Damage::Copy(from, to)),
        at().prop_map(Damage::Cut),
    ]
}

fn inflict(bytes: &mut Vec<u8>, damage: &Damage) {
    let len = bytes.len();
    let word = |at: &prop::sample::Index| at.index(len / 4) * 4;
    match damage {
        _ if len < 8 => {}
        Damage::Set(at, byte) => bytes[at.index(len)] = *byte,
        Damage::Flip(at, bit) => bytes[at.index(len)] ^= 1 << bit,
        Damage::Word(at, new) => {
            let at = word(at);
            bytes[at..at + 4].copy_from_slice(&new.to_le_bytes());
        }
        Damage::Copy(from, to) => bytes.copy_within(word(from)..word(from) + 4, word(to)),
        Damage::Cut(at) => bytes.truncate(at.index(len)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        // Under miri, a thousand times slower, some.
        if cfg!(miri) { 20 } else {
            option_env!("WEFT_HOSTILE_CASES").map_or(3_000, |cases| cases.parse().unwrap())
        }
    ))]

    #[test]
    fn damaged_graphs_are_refused_or_harmless(
        models in models(),
        damages in proptest::collection::vec(damage(), 1..8),
        in_head in any::<bool>(),
    ) {
        let types = types();
        let mut segments = sent(&build(&models));
        touch(&received(&segments, &types).unwrap());
        for damage in &damages {
            let segment = segments.last_mut().unwrap();
            if in_head && segment.len() > 64 {
                let rest = segment.split_off(64);
                inflict(segment, damage);
                segment.extend(rest);
            } else {
                inflict(segment, damage);
            }
            if let Ok(view) = received(&segments, &types) {
                touch(&view);
            }
        }
    }
}
