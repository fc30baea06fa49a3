//! What a run has met of what it is there to meet.

use weft_transport::SimCounters;

use crate::history::{Action, Ending, History, Outcome};
use crate::ledger::Ledger;
use crate::scenario::Summary;
use crate::sometimes::Sometimes;

/// What has to come about in many seeds.
pub const REQUIRED: &[&str] = &[
    UNKNOWN,
    UNKNOWN_APPLIED,
    NOT_APPLIED,
    REPEATED,
    CONFLICT,
    COMPARED,
    REPLACED,
    TAKEN,
    COUNTED,
    APPENDED,
    LOST,
    UNHEARD,
    CONNECT_UNHEARD,
    SLOWED,
    DELAYED,
    GONE,
];

const UNKNOWN: &str = "the outcome of a change is unknown";
const UNKNOWN_APPLIED: &str = "a change of unknown outcome was applied";
const NOT_APPLIED: &str = "a change was certainly not applied";
const REPEATED: &str = "a change was asked for again, and answered as before";
const CONFLICT: &str = "compare-and-set met another version";
const COMPARED: &str = "compare-and-set wrote over the version it expected";
const REPLACED: &str = "get-and-put replaced a value";
const TAKEN: &str = "get-and-delete took a value";
const COUNTED: &str = "a counter was counted up";
const APPENDED: &str = "a list was appended to";
const LOST: &str = "a connection was lost";
const UNHEARD: &str = "a send went nowhere";
const CONNECT_UNHEARD: &str = "an attempt to connect went nowhere";
const SLOWED: &str = "a way was slow";
const DELAYED: &str = "a pause kept a node from what it had to do";
const GONE: &str = "a node was gone for good";

pub(super) fn sometimes(
    history: &History,
    ledger: &Ledger,
    summary: &Summary,
    counters: &SimCounters,
    again: u64,
) -> Sometimes {
    let mut sometimes = Sometimes::new();
    REQUIRED.iter().for_each(|situation| sometimes.note(situation, 0));
    for operation in history.operations() {
        let situation = match (&operation.action, &operation.ending) {
            (action, Ending::Unknown) if action.is_mutation() => UNKNOWN,
            (action, Ending::NotApplied(_)) if action.is_mutation() => NOT_APPLIED,
            (_, Ending::Completed(_, Outcome::Conflict { .. })) => CONFLICT,
            (
                Action::CompareAndSet { expected: 1.., .. },
                Ending::Completed(_, Outcome::Written { .. }),
            ) => COMPARED,
            (
                Action::GetAndPut(_),
                Ending::Completed(_, Outcome::Replaced { previous: Some(_), .. }),
            ) => REPLACED,
            (Action::GetAndDelete, Ending::Completed(_, Outcome::Replaced { .. })) => TAKEN,
            (Action::Increment(_), Ending::Completed(..)) => COUNTED,
            (Action::Append(_), Ending::Completed(..)) => APPENDED,
            _ => continue,
        };
        sometimes.note(situation, 1);
    }
    sometimes.note(UNKNOWN_APPLIED, ledger.unknown_applied);
    sometimes.note(REPEATED, again);
    sometimes.note(LOST, counters.lost);
    sometimes.note(UNHEARD, counters.sends_held);
    sometimes.note(CONNECT_UNHEARD, counters.connects_held);
    sometimes.note(SLOWED, counters.sends_slowed);
    sometimes.note(DELAYED, summary.delayed);
    sometimes.note(GONE, summary.nodes_gone);
    sometimes
}
