//! The search against one that tries everything, on arbitrary histories and on those of a correct register.

use proptest::prelude::*;

use super::*;

/// Tries every order of every subset of the unknown steps: the definition, without any of the
/// search's reasoning.
fn explained_by_brute_force((steps, values): &(Vec<Step>, Values)) -> bool {
    fn extend(steps: &[Step], values: &Values, taken: &mut Vec<usize>, state: Register) -> bool {
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
            .filter_map(|step| Some((step, state.apply(steps[step].effect, values)?)))
            .collect();
        next.into_iter().any(|(step, after)| {
            taken.push(step);
            let explained = extend(steps, values, taken, after);
            taken.pop();
            explained
        })
    }
    extend(steps, values, &mut Vec::new(), Register::default())
}

/// Operations on one key with arbitrary outcomes; few values and versions, so that some can be
/// explained.
fn arbitrary_history(operations_max: usize) -> impl Strategy<Value = Vec<Operation>> {
    let operation = (0..10_u8, 0..3_u8, 1..5_u64, 0..6_u8);
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
        3 if found => (Action::Delete, Outcome::Removed { version }),
        3 => (Action::Delete, absent),
        4 | 5 => {
            let (action, conflict) = match verb {
                4 => (Action::CompareAndSet { expected: version - 1, value: name }, found),
                _ => (Action::CompareAndSet { expected: version, value: name }, value == 2),
            };
            let written = Outcome::Written { version: version + 1 };
            (action, if conflict { Outcome::Conflict { version } } else { written })
        }
        6 => {
            let number = i64::from(value) * 2 - 1;
            (Action::Increment(number), Outcome::Counted { number: version as i64, version })
        }
        7 => (Action::Append(name), Outcome::Appended { len: u64::from(value) + 1, version }),
        8 => {
            let previous = found.then(|| (vec![b'a'], version - 1));
            (Action::GetAndPut(name), Outcome::Replaced { previous, version })
        }
        _ if found => {
            let previous = Some((name, version - 1));
            (Action::GetAndDelete, Outcome::Replaced { previous, version })
        }
        _ => (Action::GetAndDelete, absent),
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
        let outcome = serve(&operations[index].action, &mut held, &mut newest);
        let Some(outcome) = outcome else {
            let Operation { invoked, ending, .. } = &mut operations[index];
            *ending = Ending::NotApplied(match ending {
                Ending::Completed(moment, _) => *moment,
                _ => *invoked,
            });
            continue;
        };
        if let Ending::Completed(_, told) = &mut operations[index].ending {
            *told = outcome;
        }
    }
    operations
}

/// What a correct register tells; nothing if it refuses.
fn serve(action: &Action, held: &mut Option<(Vec<u8>, u64)>, newest: &mut u64) -> Option<Outcome> {
    let absent = Outcome::Absent { as_of: newest.is_multiple_of(2).then_some(*newest) };
    let before = held.clone();
    let mut write = |value: Vec<u8>| {
        *newest += 1;
        *held = Some((value, *newest));
        *newest
    };
    Some(match (action, before) {
        (Action::Put(value), _) => Outcome::Written { version: write(value.clone()) },
        (Action::Increment(delta), before) => {
            let number = match before {
                Some((value, _)) => std::str::from_utf8(&value).ok()?.parse::<i64>().ok()?,
                None => 0,
            };
            let number = number + delta;
            Outcome::Counted { number, version: write(number.to_string().into_bytes()) }
        }
        (Action::Append(tail), before) => {
            let whole = [&before.map_or(Vec::new(), |(value, _)| value), &tail[..]].concat();
            Outcome::Appended { len: whole.len() as u64, version: write(whole) }
        }
        (Action::GetAndPut(value), previous) => {
            Outcome::Replaced { previous, version: write(value.clone()) }
        }
        (Action::CompareAndSet { expected: 0, value }, None) => {
            Outcome::Written { version: write(value.clone()) }
        }
        (Action::CompareAndSet { expected, value }, Some((_, version))) => {
            if *expected == version {
                Outcome::Written { version: write(value.clone()) }
            } else {
                Outcome::Conflict { version }
            }
        }
        (_, None) => absent,
        (Action::Get, Some((value, version))) => Outcome::Found { value: Some(value), version },
        (Action::Exists, Some((_, version))) => Outcome::Found { value: None, version },
        (Action::Delete | Action::GetAndDelete, previous) => {
            *newest += 1;
            *held = None;
            match action {
                Action::Delete => Outcome::Removed { version: *newest },
                _ => Outcome::Replaced { previous, version: *newest },
            }
        }
    })
}

fn agree(operations: &[Operation]) -> Result<bool, TestCaseError> {
    let references: Vec<&Operation> = operations.iter().collect();
    let explained = explained_by_brute_force(&steps(&references));
    let lines: Vec<String> = operations.iter().map(ToString::to_string).collect();
    let verdict = verdict(operations);
    prop_assert_ne!(verdict, Verdict::GaveUp);
    prop_assert_eq!(verdict == Verdict::Explained, explained, "{:#?}", lines);
    if versions::check(b"k", &references).is_err() {
        prop_assert!(!explained, "versions contradict what has an explanation: {:#?}", lines);
    }
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
        changed in (0..7_usize, 0..10_u8, 0..3_u8, 1..6_u64),
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
