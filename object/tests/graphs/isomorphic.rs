//! Random graphs with sharing and cycles are the same graphs on the other side, and compacted.

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;
use weft_object::{
    AnyLink, Frozen, Full, Graph, Link, Map, Ref, Seq, StableBytes, Text, Types, View, Wire,
};
use weft_transport::Purpose;

use crate::{memory, received, sent};

#[derive(Wire, Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Node {
    pub(crate) number: u64,
    pub(crate) name: Text,
    pub(crate) children: Seq<Link<Node>>,
    pub(crate) by_name: Map<u32, u32>,
    pub(crate) left: Option<Link<Node>>,
    pub(crate) right: Option<Link<Node>>,
    pub(crate) any: Option<AnyLink>,
    pub(crate) kind: Kind,
}

#[derive(Wire, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    Plain,
    Odd,
}

#[derive(Wire, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Leaf {
    pub(crate) bytes: [u8; 3],
}

/// A node as the test knows it: what it leads to by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    name: String,
    children: Vec<usize>,
    pairs: Vec<(u32, u32)>,
    left: Option<usize>,
    right: Option<usize>,
    any: Option<Any>,
}

#[derive(Clone, Debug)]
enum Any {
    Node(usize),
    Leaf([u8; 3]),
}

pub(crate) fn types() -> Types {
    Types::new().with::<Node>().with::<Leaf>()
}

pub(crate) fn models() -> impl Strategy<Value = Vec<Model>> {
    let some = || proptest::option::weighted(0.7, any::<prop::sample::Index>());
    let model = (
        "[a-zäß€ ]{0,20}",
        proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
        proptest::collection::vec((0..20_u32, any::<u32>()), 0..6),
        some(),
        some(),
        proptest::option::of(prop_oneof![
            any::<prop::sample::Index>().prop_map(Ok),
            any::<[u8; 3]>().prop_map(Err),
        ]),
    );
    proptest::collection::vec(model, 1..120).prop_map(|drawn| {
        let count = drawn.len();
        let node = |index: prop::sample::Index| index.index(count);
        let models = drawn.into_iter().map(|(name, children, pairs, left, right, any)| Model {
            name,
            children: children.into_iter().map(node).collect(),
            pairs,
            left: left.map(node),
            right: right.map(node),
            any: any.map(|any| any.map_or_else(Any::Leaf, |index| Any::Node(node(index)))),
        });
        models.collect()
    })
}

/// The graph of the models, whose root is the first.
pub(crate) fn build(models: &[Model]) -> Frozen<Node> {
    Graph::build(&memory(), Purpose::Send, &types(), |graph| {
        let mut nodes: Vec<Ref<'_, Node>> = Vec::new();
        for (number, _) in models.iter().enumerate() {
            let kind = if number % 2 == 0 { Kind::Plain } else { Kind::Odd };
            nodes.push(graph.alloc(Node {
                number: number as u64,
                name: Text::EMPTY,
                children: Seq::EMPTY,
                by_name: Map::EMPTY,
                left: None,
                right: None,
                any: None,
                kind,
            })?);
        }
        for (model, node) in models.iter().zip(&nodes) {
            fill(graph, &nodes, model, *node)?;
        }
        Ok(nodes[0])
    })
    .unwrap()
}

fn fill<'g>(
    graph: &mut Graph<'g>,
    nodes: &[Ref<'g, Node>],
    model: &Model,
    node: Ref<'g, Node>,
) -> Result<(), Full> {
    let name = graph.text(&model.name)?;
    let children = graph.seq_from(model.children.iter().map(|child| nodes[*child].link()))?;
    let by_name = graph.map(model.pairs.iter().copied())?;
    let any = match model.any {
        Some(Any::Node(other)) => Some(nodes[other].link().any()),
        Some(Any::Leaf(bytes)) => Some(graph.alloc(Leaf { bytes })?.link().any()),
        None => None,
    };
    let link = |other: Option<usize>| other.map(|other| nodes[other].link());
    let node = graph.get_mut(node);
    (node.name, node.children, node.by_name, node.any) = (name, children, by_name, any);
    (node.left, node.right) = (link(model.left), link(model.right));
    Ok(())
}

/// That each model reached is one node, the same wherever it is led to. Returns how many are reached.
pub(crate) fn compare<B: StableBytes>(
    view: &View<B>,
    models: &[Model],
) -> Result<usize, TestCaseError> {
    let mut seen: HashMap<usize, *const Node> = HashMap::new();
    let mut todo = VecDeque::from([(0, view.root::<Node>().unwrap())]);
    while let Some((number, node)) = todo.pop_front() {
        if let Some(before) = seen.insert(number, node) {
            prop_assert!(std::ptr::eq(before, node), "{number} is two nodes");
            continue;
        }
        let model = &models[number];
        prop_assert_eq!(node.number, number as u64);
        prop_assert_eq!(node.kind, if number % 2 == 0 { Kind::Plain } else { Kind::Odd });
        prop_assert_eq!(view.text(&node.name), &model.name);
        let pairs: HashMap<u32, u32> = model.pairs.iter().copied().collect();
        let map = view.map(node.by_name);
        prop_assert_eq!(map.pairs().len(), pairs.len());
        for (key, value) in pairs {
            prop_assert_eq!(map.get(&key), Some(&value));
        }
        let children = view.seq(node.children);
        prop_assert_eq!(children.len(), model.children.len());
        todo.extend(model.children.iter().copied().zip(children.iter().map(|c| view.get(*c))));
        for (model, link) in [(model.left, node.left), (model.right, node.right)] {
            prop_assert_eq!(model.is_some(), link.is_some());
            todo.extend(model.zip(link.map(|link| view.get(link))));
        }
        match (&model.any, node.any) {
            (None, None) => {}
            (Some(Any::Leaf(bytes)), Some(link)) => {
                prop_assert_eq!(view.downcast::<Leaf>(link), Some(&Leaf { bytes: *bytes }));
            }
            (Some(Any::Node(other)), Some(link)) => {
                todo.push_back((*other, view.downcast::<Node>(link).unwrap()));
            }
            (model, link) => prop_assert!(false, "{model:?} is {link:?}"),
        }
    }
    Ok(seen.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 10 } else { 500 }))]

    #[test]
    fn a_graph_is_the_same_on_the_other_side(models in models()) {
        let graph = build(&models);
        let reached = compare(&graph.view().unwrap(), &models)?;
        let view = received(&sent(&graph), &types()).unwrap();
        prop_assert_eq!(compare(&view, &models)?, reached);
        prop_assert_eq!(compare(&view.to_owned(), &models)?, reached);

        let compacted = graph.compact(&memory(), Purpose::Send).unwrap();
        let view = received(&sent(&compacted), &types()).unwrap();
        prop_assert_eq!(compare(&view, &models)?, reached);
        prop_assert_eq!(view.records::<Node>().map(<[_]>::len).sum::<usize>(), reached);
        prop_assert!(compacted.len_bytes() <= graph.len_bytes());
        let again = compacted.compact(&memory(), Purpose::Send).unwrap();
        prop_assert_eq!(again.len_bytes(), compacted.len_bytes(), "there is nothing left to leave out");
    }
}
