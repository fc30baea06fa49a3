//! Known good and bad histories, and the search against one that tries everything.

use proptest::prelude::*;
use weft_transport::Time;

use super::register::{Register, Step, steps};
use super::*;
use crate::history::{Action, Ending, Moment, Outcome};

/// Writes a history as a picture: each line is an operation on one key, `put a`, `get a`, `get -`,
/// `exists y`, `exists -`, `del y`, `del -`, then `@version` if one was told, then when it began
/// and ended; `?` is an unknown ending, `x` and a time one that was not applied.
fn picture(lines: &[&str]) -> Vec<Operation> {
    let mut operations: Vec<Operation> = lines.iter().map(|line| operation(line)).collect();
    operations.sort_by_key(|operation| operation.invoked);
    operations
}

fn operation(line: &str) -> Operation {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (verb, value, version, [begin, end]) = match words[..] {
        [verb, value, version, begin, end] => {
            (verb, value, Some(version.strip_prefix('@').unwrap().parse().unwrap()), [begin, end])
        }
        [verb, value, begin, end] => (verb, value, None, [begin, end]),
        _ => panic!("{line}"),
    };
    let moment = |at: &str| {
        let order = at.parse().unwrap();
        Moment { order, time: Time::from_nanos(order) }
    };
    let value = (value != "-").then(|| value.as_bytes().to_vec());
    let known = !end.starts_with(['?', 'x']);
    let (action, outcome) = match verb {
        "put" => (
            Action::Put(value.clone().unwrap()),
            known.then(|| Outcome::Written { version: version.unwrap() }),
        ),
        verb => {
            let outcome = match (verb, value) {
                _ if !known => None,
                (_, None) => Some(Outcome::Absent { as_of: version }),
                ("get", value) => Some(Outcome::Found { value, version: version.unwrap() }),
                ("exists", _) => Some(Outcome::Found { value: None, version: version.unwrap() }),
                _ => Some(Outcome::Removed { version: version.unwrap() }),
            };
            let action = match verb {
                "get" => Action::Get,
                "exists" => Action::Exists,
                "del" => Action::Delete,
                _ => panic!("{line}"),
            };
            (action, outcome)
        }
    };
    let ending = match (outcome, end) {
        (Some(outcome), end) => Ending::Completed(moment(end), outcome),
        (None, "?") => Ending::Unknown,
        (None, end) => Ending::NotApplied(moment(&end[1..])),
    };
    Operation { client: 0, key: b"k".to_vec(), action, invoked: moment(begin), ending }
}

fn verdict(operations: &[Operation]) -> Verdict {
    let operations: Vec<&Operation> = operations.iter().collect();
    Search::new(&steps(&operations)).run()
}

fn good(lines: &[&str]) {
    assert_eq!(verdict(&picture(lines)), Verdict::Explained, "{lines:#?}");
}

fn bad(lines: &[&str]) {
    assert_eq!(verdict(&picture(lines)), Verdict::Unexplained, "{lines:#?}");
}

#[test]
fn one_client_alone() {
    good(&[]);
    good(&[
        "get - @0 0 1",
        "put a @1 2 3",
        "get a @1 4 5",
        "exists y @1 6 7",
        "del y @2 8 9",
        "get - @2 10 11",
    ]);
    bad(&["get a @1 0 1"]);
    bad(&["put a @1 0 1", "get - @1 2 3"]);
    bad(&["put a @1 0 1", "exists - @1 2 3"]);
    bad(&["put a @1 0 1", "del - @1 2 3"]);
    bad(&["del y @1 0 1"]);
    bad(&["exists y @1 0 1"]);
    bad(&["put a @1 0 1", "del y @2 2 3", "get a @1 4 5"]);
}

#[test]
fn a_stale_read_is_bad_only_after_the_write_returned() {
    good(&["put a @1 0 1", "put b @2 2 5", "get a @1 3 4"]);
    good(&["put a @1 0 1", "put b @2 2 5", "get b @2 3 4"]);
    bad(&["put a @1 0 1", "put b @2 2 3", "get a @1 4 5"]);
}

#[test]
fn a_value_once_seen_is_not_unseen() {
    good(&["put a @1 0 1", "put b @2 2 9", "get a @1 3 4", "get b @2 5 6"]);
    bad(&["put a @1 0 1", "put b @2 2 9", "get b @2 3 4", "get a @1 5 6"]);
}

#[test]
fn two_readers_agree_on_the_order_of_two_writers() {
    let writers = ["put a @1 0 20", "put b @2 1 21"];
    good(&[&writers[..], &["get a @1 2 3", "get b @2 4 5", "get b @2 6 7"]].concat());
    bad(&[&writers[..], &["get a @1 2 10", "get b @2 3 4", "get a @1 11 12"]].concat());
}

#[test]
fn versions_grow_and_name_one_value() {
    bad(&["put a @2 0 1", "put b @1 2 3"]);
    bad(&["put a @1 0 1", "put b @1 2 3"]);
    good(&["put a @2 0 9", "put b @1 1 8"]);
    bad(&["put a @1 0 1", "get a @2 2 3"]);
    bad(&["put a @3 0 1", "del y @3 2 3"]);
    bad(&["put a @3 0 1", "del y @4 2 3", "put b @4 4 5"]);
    good(&["put a @3 0 1", "del y @4 2 3", "put b @5 4 5"]);
    bad(&["put a @3 0 1", "del y @4 2 3", "get - @3 4 5"]);
    bad(&["get - @7 0 1", "put a @7 2 3"]);
    good(&["get - 0 1", "put a @7 2 3"]);
    bad(&["put a @1 0 1", "get - 2 3"]);
}

#[test]
fn a_lost_acknowledged_write_is_bad() {
    bad(&["put a @1 0 1", "put b @2 2 3", "get a @1 4 5"]);
    bad(&["put a @1 0 1", "get - @1 2 3"]);
}

#[test]
fn an_unknown_write_takes_effect_late_or_never() {
    good(&["put a @1 0 1", "put b 2 ?", "get a @1 3 4", "get a @1 5 6"]);
    good(&["put a @1 0 1", "put b 2 ?", "get a @1 3 4", "get b @2 5 6"]);
    good(&["put a @1 0 1", "put b 2 ?", "put c @2 3 4", "get b @3 5 6", "get b @3 7 8"]);
    good(&["put b 0 ?", "exists y @1 1 2", "get b @1 3 4"]);
    good(&["put b 0 ?", "del y @2 1 2", "get - @2 3 4"]);
    bad(&["put a @1 0 1", "put b 4 ?", "get b @2 2 3"]);
    bad(&["put a @1 0 1", "put b 2 ?", "get b @2 3 4", "get a @1 5 6"]);
}

#[test]
fn an_unknown_write_takes_effect_once() {
    bad(&["put a 0 ?", "get a @1 1 2", "put b @2 3 4", "get a @3 5 6"]);
    bad(&["put a 0 ?", "get a @1 1 2", "get a @2 3 4"]);
    good(&["put a 0 ?", "put a 1 ?", "get a @1 2 3", "get a @2 4 5"]);
}

#[test]
fn an_unknown_write_has_a_version_of_its_own() {
    bad(&["put a @1 0 1", "put b 2 ?", "get b @1 3 4"]);
    bad(&["put a @1 0 1", "del y @2 2 3", "put b 4 ?", "del y @3 5 6"]);
    good(&["put a @1 0 1", "del y @2 2 3", "put b 4 ?", "del y @4 5 6"]);
}

#[test]
fn an_unknown_delete_takes_effect_late_or_never() {
    good(&["put a @1 0 1", "del y 2 ?", "get a @1 3 4", "get - @2 5 6"]);
    good(&["put a @1 0 1", "del y 2 ?", "del - @2 3 4"]);
    bad(&["put a @1 0 1", "del y 2 ?", "get - @2 3 4", "get a @1 5 6"]);
    bad(&["put a @1 0 1", "del y 2 ?", "get - @1 3 4"]);
    bad(&["put a @1 0 1", "del y 2 ?", "get - @2 3 4", "put b @3 5 6", "get - @4 7 8"]);
}

#[test]
fn what_was_not_applied_is_never_seen() {
    good(&["put a @1 0 1", "put b 2 x3", "get a @1 4 5"]);
    bad(&["put a @1 0 1", "put b 2 x3", "get b @2 4 5"]);
}

#[test]
fn a_long_history_with_many_unknown_writes_is_searched_in_a_moment() {
    let mut lines = Vec::new();
    for round in 0..300 {
        let at = round * 10;
        lines.push(format!("put u{round} {at} ?"));
        lines.push(format!("put k{round} @{} {} {}", round * 2 + 1, at + 1, at + 4));
        lines.push(format!("get k{round} @{} {} {}", round * 2 + 1, at + 2, at + 5));
    }
    let operations = picture(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let operations: Vec<&Operation> = operations.iter().collect();
    let steps = steps(&operations);
    let mut search = Search::new(&steps);
    assert_eq!(search.run(), Verdict::Explained);
    assert!(search.configurations.len() < 2 * steps.len(), "{}", search.configurations.len());
}

#[test]
fn a_violation_shows_where_the_explanation_ends() {
    let operations = picture(&["put a @1 0 1", "put b @2 2 3", "get a @1 4 5", "get b @2 6 7"]);
    let operations: Vec<&Operation> = operations.iter().collect();
    let CheckError::NotLinearizable(violation) = check_key(b"k", &operations).unwrap_err() else {
        panic!("the search gave up")
    };
    assert_eq!(violation.explained, 1);
    assert_eq!(violation.state, "a at version 0.1");
    assert_eq!(violation.stuck, [operations[1].clone(), operations[2].clone()]);
    let text = violation.to_string();
    assert!(text.contains("the key holds a at version 0.1"), "{text}");
}

/// Tries every order of every subset of the unknown steps: the definition, without any of the
/// search's reasoning.
fn explained_by_brute_force(steps: &[Step]) -> bool {
    fn extend(steps: &[Step], taken: &mut Vec<usize>, state: Register) -> bool {
        let open = |step: usize| !taken.contains(&step);
        if (0..steps.len()).all(|step| !open(step) || steps[step].returned.is_none()) {
            return true;
        }
        let next: Vec<(usize, Register)> = (0..steps.len())
            .filter(|&step| open(step))
            .filter(|&step| {
                let precedes = |other: usize| steps[other].returned < Some(steps[step].invoked);
                (0..steps.len()).all(|other| {
                    !open(other) || steps[other].returned.is_none() || !precedes(other)
                })
            })
            .filter_map(|step| Some((step, state.apply(&steps[step])?)))
            .collect();
        next.into_iter().any(|(step, after)| {
            taken.push(step);
            let explained = extend(steps, taken, after);
            taken.pop();
            explained
        })
    }
    extend(steps, &mut Vec::new(), Register::default())
}

/// Operations on one key with arbitrary outcomes; few values and versions, so that some can be
/// explained.
fn arbitrary_history(operations_max: usize) -> impl Strategy<Value = Vec<Operation>> {
    let operation = (0..4_u8, 0..3_u8, 1..5_u64, 0..6_u8);
    prop::collection::vec((operation, any::<u32>(), any::<u32>()), 0..=operations_max).prop_map(
        |drawn| {
            // Ranks of the drawn numbers give events a total order.
            let mut events: Vec<(u32, usize)> = drawn
                .iter()
                .enumerate()
                .flat_map(|(index, (_, a, b))| [(*a, index * 2), (*b, index * 2 + 1)])
                .collect();
            events.sort_unstable();
            let mut orders = vec![0_u64; events.len()];
            for (order, (_, event)) in events.iter().enumerate() {
                orders[*event] = order as u64;
            }
            let mut operations: Vec<Operation> = drawn
                .iter()
                .enumerate()
                .map(|(index, ((verb, value, version, ending), ..))| {
                    let mut span = [orders[index * 2], orders[index * 2 + 1]];
                    span.sort_unstable();
                    drawn_operation(*verb, *value, *version, *ending, span)
                })
                .collect();
            operations.sort_by_key(|operation| operation.invoked);
            operations
        },
    )
}

fn drawn_operation(verb: u8, value: u8, version: u64, ending: u8, span: [u64; 2]) -> Operation {
    let [invoked, returned] = span.map(|order| Moment { order, time: Time::from_nanos(order) });
    let name = vec![b'a' + value];
    let absent = Outcome::Absent { as_of: (version < 4).then_some(version) };
    let found = value < 2;
    let (action, outcome) = match verb {
        0 => (Action::Put(name), Outcome::Written { version }),
        1 if found => (Action::Get, Outcome::Found { value: Some(name), version }),
        1 => (Action::Get, absent),
        2 if found => (Action::Exists, Outcome::Found { value: None, version }),
        2 => (Action::Exists, absent),
        _ if found => (Action::Delete, Outcome::Removed { version }),
        _ => (Action::Delete, absent),
    };
    let ending = match ending {
        0 | 1 => Ending::Unknown,
        _ => Ending::Completed(returned, outcome),
    };
    Operation { client: 0, key: b"k".to_vec(), action, invoked, ending }
}

/// Turns arbitrary operations into a history that a register did give: each takes effect at a point
/// between its invocation and its end, or, if unknown, at any later point or never.
fn honest(mut operations: Vec<Operation>, points: &[u32]) -> Vec<Operation> {
    let last = operations.iter().map(|operation| operation.invoked.order).max().unwrap_or(0) + 2;
    let mut order: Vec<(u64, usize)> = operations
        .iter()
        .enumerate()
        .filter_map(|(index, operation)| {
            let point = u64::from(points[index]);
            let begin = operation.invoked.order;
            match operation.ending {
                Ending::Completed(end, _) => {
                    Some((begin * 1000 + point % ((end.order - begin) * 1000), index))
                }
                _ if point.is_multiple_of(3) => None,
                _ => Some((begin * 1000 + point % ((last - begin) * 1000), index)),
            }
        })
        .collect();
    order.sort_unstable();
    let mut held: Option<(Vec<u8>, u64)> = None;
    let mut newest = 0;
    for (_, index) in order {
        let absent = Outcome::Absent { as_of: (newest % 2 == 0).then_some(newest) };
        let outcome = match (&operations[index].action, held.clone()) {
            (Action::Put(value), _) => {
                newest += 1;
                held = Some((value.clone(), newest));
                Outcome::Written { version: newest }
            }
            (_, None) => absent,
            (Action::Get, Some((value, version))) => Outcome::Found { value: Some(value), version },
            (Action::Exists, Some((_, version))) => Outcome::Found { value: None, version },
            (Action::Delete, Some(_)) => {
                newest += 1;
                held = None;
                Outcome::Removed { version: newest }
            }
        };
        if let Ending::Completed(_, told) = &mut operations[index].ending {
            *told = outcome;
        }
    }
    operations
}

fn agree(operations: &[Operation]) -> Result<bool, TestCaseError> {
    let references: Vec<&Operation> = operations.iter().collect();
    let explained = explained_by_brute_force(&steps(&references));
    let lines: Vec<String> = operations.iter().map(ToString::to_string).collect();
    prop_assert_eq!(verdict(operations) == Verdict::Explained, explained, "{:#?}", lines);
    Ok(explained)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_search_agrees_with_brute_force_on_arbitrary_histories(
        operations in arbitrary_history(6),
    ) {
        agree(&operations)?;
    }

    #[test]
    fn the_search_agrees_with_brute_force_where_one_reply_of_an_honest_history_is_changed(
        operations in arbitrary_history(7),
        points in prop::collection::vec(any::<u32>(), 7),
        changed in (0..7_usize, 0..4_u8, 0..3_u8, 1..6_u64),
    ) {
        let mut operations = honest(operations, &points);
        let (index, verb, value, version) = changed;
        if let Some(Operation { action, ending: Ending::Completed(_, outcome), .. }) =
            operations.get_mut(index)
        {
            let drawn = drawn_operation(verb, value, version, 5, [0, 1]);
            if std::mem::discriminant(action) == std::mem::discriminant(&drawn.action)
                && let Ending::Completed(_, lie) = drawn.ending
            {
                *outcome = lie;
            }
        }
        agree(&operations)?;
    }

    #[test]
    fn honest_histories_are_explained(
        operations in arbitrary_history(40),
        points in prop::collection::vec(any::<u32>(), 40),
    ) {
        let operations = honest(operations, &points);
        let lines: Vec<String> = operations.iter().map(ToString::to_string).collect();
        prop_assert_eq!(verdict(&operations), Verdict::Explained, "{:#?}", lines);
    }
}
