//! What a run has met of what it is there to meet.

use super::Play;
use super::leaving::Counts;
use super::losses::Kept;
use super::nodes::Cluster;
use super::stopping::Stopped;
use super::tables::{Made, is_lasting};
use crate::history::{Ending, History, Operation};
use crate::ledger::Ledger;
use crate::nemesis::Kind;
use crate::scenario::Summary;
use crate::sometimes::Sometimes;

/// What has to come about in many seeds.
pub const REQUIRED: &[&str] = &[
    UNKNOWN,
    UNKNOWN_APPLIED,
    LOST,
    DELAYED,
    PROCESS_CRASHED,
    MACHINE_CRASHED,
    DISK_REPLACED,
    CUT,
    CUT_ONE_WAY,
    SPLIT,
    SLOWED,
    POWER_CUT,
    DISK_SLOW,
    DISK_FULL,
    DISK_FAILED,
    RECOVERED,
    EPOCH_CHANGED,
    GIVEN_UP,
    TABLE_MADE,
    TABLE_DROPPED,
    TABLE_ANEW,
    TABLE_ASKED,
];

const UNKNOWN: &str = "the outcome of a change is unknown";
const UNKNOWN_APPLIED: &str = "a change of unknown outcome was applied";
const LOST: &str = "a connection was lost";
const DELAYED: &str = "a pause kept a node from what it had to do";
const PROCESS_CRASHED: &str = "a process crashed and came back";
const MACHINE_CRASHED: &str = "a machine crashed and came back";
const DISK_REPLACED: &str = "a machine came back with an empty disk";
const CUT: &str = "nodes were cut off from others, and that was noticed";
const CUT_ONE_WAY: &str = "a way was cut in one direction, and that was noticed";
const SPLIT: &str = "hosts were split into two sides, and that was noticed";
const SLOWED: &str = "a way was slow";
const POWER_CUT: &str = "all machines lost power at once and came back";
const DISK_SLOW: &str = "a disk was slow";
const DISK_FULL: &str = "a disk was full, and something was to be written";
const DISK_FAILED: &str = "a disk failed, and the process was started again";
const RECOVERED: &str = "a node came back with what its log had of partitions";
const EPOCH_CHANGED: &str = "a partition changed hands";
const GIVEN_UP: &str = "a learner was given up";
const TABLE_MADE: &str = "a table was made while the cluster worked";
const TABLE_DROPPED: &str = "a table was dropped with what was in it";
const TABLE_ANEW: &str = "a table was made under the name of one that was dropped";
const TABLE_ASKED: &str = "a change of a table besides default was acknowledged";
const CHANGES_LOST: &str = "a change was acknowledged, and lost with all that held its partition";
const PARTITION_LOST: &str = "a partition was lost with all that held it";

/// The same where there is an operator.
pub const REQUIRED_OF_OPERATED: &[&str] = &[
    UNKNOWN,
    LOST,
    PROCESS_CRASHED,
    MACHINE_CRASHED,
    DISK_REPLACED,
    DISK_FULL,
    RECOVERED,
    EPOCH_CHANGED,
    TABLE_ASKED,
    CLOSED,
    FOUND_CLOSED,
    MIXED,
    LEAVING,
    STAYED,
    FORGOTTEN,
];

const CLOSED: &str = "a node was stopped, closed its logs in good order and came back";
const UNCLOSED: &str = "a node was stopped, could not close its logs and came back";
const FOUND_CLOSED: &str =
    "a node came back with all that it had of tables of disk when it was stopped";
const LEAVING: &str = "a node was told to leave";
const STAYED: &str = "a node was told to stay after all";
const FORGOTTEN: &str = "a node had left when it was told to stay, and came back";
const MIXED: &str = "some nodes kept nothing on disk though others did";

const LOST_THOUGH: [(Kept, &str); 3] = [
    (Kept::InMemory, "a change was lost that a node still had in memory"),
    (Kept::InLog, "a change was lost that a log still had, and all before it"),
    (Kept::Unclosed, "a change was lost that a log still had that was not closed"),
];

pub(super) fn sometimes(
    history: &History,
    ledger: &Ledger,
    summary: &Summary,
    play: &Play,
    cluster: &Cluster,
) -> Sometimes {
    let faults = &play.faults;
    let mut sometimes = Sometimes::new();
    REQUIRED.iter().for_each(|situation| sometimes.note(situation, 0));
    let operations = history.operations().iter();
    let unknown = operations.filter(|operation| {
        operation.action.is_mutation() && matches!(operation.ending, Ending::Unknown)
    });
    sometimes.note(UNKNOWN, unknown.count() as u64);
    sometimes.note(UNKNOWN_APPLIED, ledger.unknown_applied);
    sometimes.note(LOST, summary.connections_lost);
    sometimes.note(DELAYED, summary.delayed);
    sometimes.note(PROCESS_CRASHED, faults.of(Kind::CrashProcess).bit);
    sometimes.note(MACHINE_CRASHED, faults.of(Kind::CrashMachine).bit);
    sometimes.note(DISK_REPLACED, faults.of(Kind::Replace).bit);
    sometimes.note(CUT, faults.of(Kind::Isolate).bit + faults.of(Kind::CutPair).bit);
    sometimes.note(CUT_ONE_WAY, faults.of(Kind::CutOneWay).bit);
    sometimes.note(SPLIT, faults.of(Kind::Split).bit);
    sometimes.note(SLOWED, faults.of(Kind::Slow).bit);
    sometimes.note(POWER_CUT, faults.of(Kind::PowerCut).bit);
    sometimes.note(DISK_SLOW, faults.of(Kind::DiskSlow).bit);
    sometimes.note(DISK_FULL, faults.of(Kind::DiskFull).bit);
    sometimes.note(DISK_FAILED, faults.of(Kind::DiskFails).bit);
    sometimes.note(RECOVERED, cluster.recovered());
    sometimes.note(EPOCH_CHANGED, cluster.epochs_changed());
    sometimes.note(GIVEN_UP, cluster.given_up());
    let Made { made, dropped, anew } = cluster.made.get();
    sometimes.note(TABLE_MADE, made);
    sometimes.note(TABLE_DROPPED, dropped);
    sometimes.note(TABLE_ANEW, anew);
    let is_of_table = |operation: &&Operation| {
        let is_told = matches!(operation.ending, Ending::Completed(..));
        operation.action.is_mutation() && is_told && is_lasting(&operation.key)
    };
    let of_tables = history.operations().iter().filter(is_of_table);
    sometimes.note(TABLE_ASKED, of_tables.count() as u64);
    sometimes.note(CHANGES_LOST, cluster.lost_changes().len() as u64);
    sometimes.note(PARTITION_LOST, cluster.partitions_lost());
    if !play.options.orders.swarm.kinds.is_empty() {
        let Stopped { closed, unclosed, found } = cluster.stopped;
        sometimes.note(CLOSED, closed);
        sometimes.note(UNCLOSED, unclosed);
        sometimes.note(FOUND_CLOSED, found);
        let Counts { leaving, stayed, forgotten } = cluster.left.counts();
        sometimes.note(LEAVING, leaving);
        sometimes.note(STAYED, stayed);
        sometimes.note(FORGOTTEN, forgotten);
        sometimes.note(MIXED, u64::from(play.options.orders.diskless > 0));
    }
    for (kept, situation) in LOST_THOUGH {
        sometimes.note(situation, cluster.lost_though(kept));
    }
    sometimes
}
