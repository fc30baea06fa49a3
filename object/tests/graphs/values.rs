//! Graphs as values.

use proptest::prelude::*;
use weft_object::{
    AlignedBytes, Graph, Invalid, InvalidValue, Limits, Link, Types, TypesDiffer, View, Wire,
};
use weft_transport::Purpose;

use super::isomorphic::{build, compare, models, types};
use crate::memory;

fn view(value: &[u8], types: &Types) -> Result<View<AlignedBytes>, InvalidValue> {
    View::of_value(AlignedBytes::copied(value), types, Limits::default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 5 } else { 200 }))]

    #[test]
    fn a_value_is_the_graph(models in models()) {
        let graph = build(&models);
        let value = graph.to_value();
        // Another list in another order, as another program may have it.
        let others = Types::new().with::<f32>().with::<Link<u64>>();
        for types in [types(), others.with::<super::isomorphic::Leaf>().with::<super::isomorphic::Node>()] {
            let found = compare(&view(&value, &types).unwrap(), &models)?;
            prop_assert_eq!(found, compare(&graph.view().unwrap(), &models)?);
        }
    }

    #[test]
    fn what_is_cut_or_longer_is_refused(models in models(), at in any::<prop::sample::Index>()) {
        let value = build(&models).to_value();
        prop_assert!(view(&value[..at.index(value.len())], &types()).is_err());
        prop_assert!(view(&[&value[..], &[0; 8]].concat(), &types()).is_err());
    }
}

#[test]
fn what_is_no_graph_or_of_other_types_says_so() {
    let graph = Graph::build(&memory(), Purpose::Send, &Types::new().with::<u64>(), |graph| {
        graph.alloc(7_u64)
    });
    let value = graph.unwrap().to_value();
    let of = |value: &[u8], types: &Types| view(value, types).map(|_| ()).unwrap_err();
    let types = Types::new().with::<u64>();
    assert_eq!(*view(&value, &types).unwrap().root::<u64>().unwrap(), 7);
    assert_eq!(of(b"a text that is as long as a header is", &types), InvalidValue::NoGraph);
    assert_eq!(of(b"", &types), InvalidValue::NoGraph);
    let unknown = Invalid::UnknownType { page: 0, place: 0 };
    assert_eq!(of(&value, &Types::new().with::<bool>()), InvalidValue::Invalid(unknown));

    #[derive(Wire, Clone, Copy)]
    #[repr(C)]
    struct Point {
        x: f64,
        y: f64,
    }
    mod other {
        #[derive(weft_object::Wire, Clone, Copy)]
        #[repr(C)]
        pub(super) struct Point {
            x: f64,
            y: f32,
            z: f32,
        }
    }
    let point = Types::new().with::<Point>();
    let graph = Graph::build(&memory(), Purpose::Send, &point, |graph| {
        graph.alloc(Point { x: 1.0, y: 2.0 })
    });
    let differ = of(&graph.unwrap().to_value(), &Types::new().with::<other::Point>());
    let InvalidValue::Types(TypesDiffer::Layout { name, .. }) = differ else { panic!("{differ}") };
    assert_eq!(name, "Point");
}
