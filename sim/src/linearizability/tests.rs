//! Known good and bad histories.

mod brute_force;

use weft_transport::Time;

use super::register::Register;
use super::steps::{Step, steps};
use super::*;
use crate::history::{Action, Ending, Moment, Outcome};

/// Writes a history as a picture: each line is an operation on one key, `put a`, `get a`, `get -`,
/// `exists y`, `exists -`, `del y`, `del -`, then `@version` if one was told, then when it began
/// and ended; `?` is an unknown ending, `x` and a time one that was not applied.
///
/// Besides `cas 3:a` (a over version 3; `!5` in place of a version is a conflict with 5, and `-5` nothing
/// as of 5), `add 2=7` (the number is told), `app t=3` (the length is), `gap b<a@1` and
/// `gad a@1` (the value before is).
fn picture(lines: &[&str]) -> Vec<Operation> {
    let mut operations: Vec<Operation> = lines.iter().map(|line| operation(line)).collect();
    operations.sort_by_key(|operation| operation.invoked);
    operations
}

fn operation(line: &str) -> Operation {
    let words: Vec<&str> = line.split_whitespace().collect();
    if let [verb @ ("cas" | "add" | "app" | "gap" | "gad"), what, told @ .., begin, end] =
        &words[..]
    {
        return revising(verb, what, told.first().copied(), [begin, end]);
    }
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

fn revising(verb: &str, what: &str, told: Option<&str>, [begin, end]: [&str; 2]) -> Operation {
    let number = |text: &str| text.parse::<u64>().unwrap();
    let previous = |text: &str| {
        let (value, version) = text.split_once('@')?;
        Some((value.as_bytes().to_vec(), number(version)))
    };
    let version = told.map_or(0, |told| number(&told[1..]));
    let (action, outcome) = match verb {
        "cas" => {
            let (expected, value) = what.split_once(':').unwrap();
            let (expected, value) = (number(expected), value.as_bytes().to_vec());
            let outcome = match told.map(|told| &told[..1]) {
                Some("!") => Outcome::Conflict { version },
                Some("-") => Outcome::Absent { as_of: Some(version) },
                _ => Outcome::Written { version },
            };
            (Action::CompareAndSet { expected, value }, outcome)
        }
        "add" => {
            let (delta, sum) = what.split_once('=').unwrap_or((what, "0"));
            let outcome = Outcome::Counted { number: sum.parse().unwrap(), version };
            (Action::Increment(delta.parse().unwrap()), outcome)
        }
        "app" => {
            let (tail, len) = what.split_once('=').unwrap_or((what, "0"));
            let outcome = Outcome::Appended { len: number(len), version };
            (Action::Append(tail.as_bytes().to_vec()), outcome)
        }
        "gap" => {
            let (value, before) = what.split_once('<').unwrap_or((what, "-"));
            let outcome = Outcome::Replaced { previous: previous(before), version };
            (Action::GetAndPut(value.as_bytes().to_vec()), outcome)
        }
        _ => {
            let outcome = match previous(what) {
                None => Outcome::Absent { as_of: Some(version) },
                previous => Outcome::Replaced { previous, version },
            };
            (Action::GetAndDelete, outcome)
        }
    };
    let moment = |at: &str| Moment { order: number(at), time: Time::from_nanos(number(at)) };
    let ending = match end.as_bytes()[0] {
        b'?' => Ending::Unknown,
        b'x' => Ending::NotApplied(moment(&end[1..])),
        _ => Ending::Completed(moment(end), outcome),
    };
    Operation { client: 0, key: b"k".to_vec(), action, invoked: moment(begin), ending }
}

fn verdict(operations: &[Operation]) -> Verdict {
    let operations: Vec<&Operation> = operations.iter().collect();
    let (steps, values) = steps(&operations);
    Search::new(&steps, &values).run()
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
fn a_compare_and_set_writes_over_the_version_that_it_expects_only() {
    good(&["put a @1 0 1", "cas 1:b @2 2 3", "get b @2 4 5"]);
    good(&["cas 0:a @1 0 1", "cas 0:b !1 2 3", "get a @1 4 5"]);
    good(&["cas 7:a -0 0 1", "get - @0 2 3"]);
    bad(&["put a @1 0 1", "put b @2 2 3", "cas 1:c @3 4 5"]);
    bad(&["put a @1 0 1", "cas 1:b !1 2 3"]);
    bad(&["put a @1 0 1", "cas 7:b !2 2 3"]);
    bad(&["put a @1 0 1", "cas 1:b -1 2 3"]);
    bad(&["cas 0:a -0 0 1"]);
    bad(&["put a @1 0 1", "cas 0:b @2 2 3"]);
    // Both took the same version for the newest.
    bad(&["put a @1 0 1", "cas 1:b @2 2 6", "cas 1:c @3 3 7"]);
}

#[test]
fn a_compare_and_set_of_unknown_outcome_may_have_met_a_conflict() {
    good(&["put a @1 0 1", "cas 1:b 2 ?", "get b @2 3 4"]);
    good(&["put a @1 0 1", "cas 1:b 2 ?", "get a @1 3 4", "get b @2 5 6"]);
    good(&["put a @1 0 1", "cas 1:b 2 ?", "put c @2 3 4", "get c @2 5 6"]);
    bad(&["put a @1 0 1", "cas 1:b 2 ?", "put c @2 3 4", "get b @3 5 6"]);
    bad(&["put a @1 0 1", "cas 0:b 2 ?", "get b @2 3 4"]);
}

#[test]
fn numbers_add_up() {
    good(&["add 2=2 @1 0 1", "add 3=5 @2 2 3", "get 5 @2 4 5", "add -6=-1 @3 6 7"]);
    good(&["add 2=5 @2 0 9", "add 3=3 @1 1 8"]);
    bad(&["add 2=2 @1 0 9", "add 3=3 @2 1 8"]);
    bad(&["add 1=1 @1 0 1", "add 1=1 @2 2 3"]);
    bad(&["add 1=1 @1 0 1", "get 2 @2 2 3"]);
    bad(&["put a @1 0 1", "add 1=1 @2 2 3"]);
}

#[test]
fn additions_of_unknown_outcome_count_once_or_never() {
    good(&["add 1 0 ?", "add 1 1 ?", "add 1 2 ?", "add 1=3 @9 3 4", "add 1=4 @10 5 6"]);
    good(&["add 1=1 @1 0 1", "add 1 2 ?", "get 1 @1 3 4", "get 2 @2 5 6"]);
    good(&["add 1 0 ?", "add 5 1 ?", "get 6 @2 2 3"]);
    good(&["put 4 0 ?", "add 5 1 ?", "get 9 @2 2 3"]);
    good(&["put a @1 0 1", "add 5 1 ?", "get a @1 2 3"]);
    bad(&["add 1 0 ?", "add 1=3 @9 3 4"]);
    bad(&["add 1 0 ?", "get 1 @1 3 4", "get 2 @2 5 6"]);
    bad(&["add 1 0 ?", "get 1 @1 3 4", "add 1=1 @2 5 6"]);
    bad(&["add 1 0 x1", "get 1 @1 3 4"]);
}

#[test]
fn appends_are_all_there_in_their_order() {
    good(&["app a=1 @1 0 1", "app bc=3 @2 2 3", "get abc @2 4 5"]);
    good(&["app a=2 @2 0 9", "app b=1 @1 1 8", "get ba @2 10 11"]);
    bad(&["app a=2 @2 0 9", "app b=1 @1 1 8", "get ab @2 10 11"]);
    bad(&["app a=1 @1 0 1", "app b=1 @2 2 3"]);
    bad(&["app a=1 @1 0 1", "app b=2 @2 2 3", "get a @2 4 5"]);
    bad(&["app a=1 @1 0 1", "app b=2 @2 2 3", "get abb @3 4 5"]);
}

#[test]
fn appends_of_unknown_outcome_are_seen_by_what_is_appended_later() {
    good(&["app a 0 ?", "app b 1 ?", "app c=3 @9 2 3", "get bac @9 4 5"]);
    good(&["app a 0 ?", "app b 1 ?", "app c=2 @9 2 3", "get bc @9 4 5", "get bca @10 6 7"]);
    good(&["del y 0 ?", "put x @1 1 2", "app a 3 ?", "get a @3 4 5"]);
    bad(&["app a 0 ?", "app b 1 ?", "app c=2 @9 2 3", "get abc @9 4 5"]);
    bad(&["app a 0 ?", "get a @1 1 2", "app c=1 @9 3 4"]);
    bad(&["app a 0 ?", "app c=2 @9 2 3", "get ac @9 4 5", "get aca @10 6 7"]);
    // The length alone would fit what was there before.
    good(&["put aaa @1 0 1", "put bbb 2 ?", "app c=4 @9 3 4", "get bbbc @9 5 6"]);
}

#[test]
fn a_list_with_many_appends_of_unknown_outcome_is_searched_in_a_moment() {
    let mut lines: Vec<String> = (0..60).map(|tail| format!("app {tail:02} {tail} ?")).collect();
    // Applied from the last to the first, and half of them before anything is told.
    let order =
        |from: u32, to: u32| (from..to).rev().map(|tail| format!("{tail:02}")).collect::<String>();
    let (first, all) = (order(30, 60), format!("{}xx{}", order(30, 60), order(0, 30)));
    lines.push(format!("app xx={} @100 60 61", first.len() + 2));
    lines.push(format!("get {all} @200 62 63"));
    good(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    lines.push("app yy=124 @300 64 65".to_owned());
    lines.push(format!("get {all}yy @300 66 67"));
    good(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    lines.push(format!("get {all}yy0 @300 68 69"));
    bad(&lines.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn of_a_list_that_nobody_reads_only_lengths_are_searched() {
    let mut lines: Vec<String> = (0..60).map(|tail| format!("app {tail:02} {tail} ?")).collect();
    lines.push("app x=41 @100 60 61".to_owned());
    lines.push("app x=82 @200 62 63".to_owned());
    good(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    lines.push("app x=84 @300 64 65".to_owned());
    bad(&lines.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn what_is_replaced_is_what_was_there() {
    good(&["gap a<- @1 0 1", "gap b<a@1 @2 2 3", "gad b@2 @3 4 5", "gad - @3 6 7"]);
    bad(&["gap a<- @1 0 1", "gap b<- @2 2 3"]);
    bad(&["put a @1 0 1", "gap b<a@2 @3 2 3"]);
    bad(&["put a @1 0 1", "gad b@1 @2 2 3"]);
    bad(&["put a @1 0 1", "gad a@1 @1 2 3"]);
    bad(&["put a @1 0 1", "gad - @1 2 3"]);
    good(&["put a @1 0 1", "gap b 2 ?", "gad b@2 @3 3 4"]);
    good(&["put a @1 0 1", "gad - 2 ?", "gap b<- @3 3 4"]);
    // Two have taken the same value away.
    bad(&["put a @1 0 1", "gad a@1 @2 2 6", "gad a@1 @3 3 7"]);
}

#[test]
fn versions_alone_find_what_contradicts_their_order() {
    let check = |lines: &[&str]| {
        let operations = picture(lines);
        let operations: Vec<&Operation> = operations.iter().collect();
        versions::check(b"k", &operations).map_err(|wrong| wrong.what)
    };
    assert_eq!(check(&["put a @2 0 9", "put b @1 1 8", "get - @0 2 3", "get a @2 10 11"]), Ok(()));
    assert_eq!(check(&["put a 0 ?", "get a @1 2 3", "put b @2 3 4"]), Ok(()));
    let lower = Err("the later operation was told the lower version");
    assert_eq!(check(&["put a @2 0 1", "put b @1 2 3"]), lower);
    assert_eq!(check(&["put a @1 0 1", "put b @2 2 3", "get a @1 4 5"]), lower);
    assert_eq!(check(&["get - @7 0 1", "add 1=1 @7 2 3"]), lower);
    assert_eq!(check(&["put a @3 0 1", "put b @1 2 9", "get b @2 3 4"]), lower);
    let twice = Err("two changes have one version");
    assert_eq!(check(&["put a @1 0 9", "app b=2 @1 1 8"]), twice);
    let mixed = Err("two values have one version");
    assert_eq!(check(&["put a @1 0 1", "get b @1 2 3"]), mixed);
    assert_eq!(check(&["get a @1 0 1", "gap c<b@1 @2 2 3"]), mixed);
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
    let (steps, values) = steps(&operations);
    let mut search = Search::new(&steps, &values);
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
