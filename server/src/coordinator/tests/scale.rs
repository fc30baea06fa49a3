//! What a plan costs in a large cluster: by how often nodes are looked at, which no busy machine changes.

use std::time::Duration;

use weft_protocol::{Configuration, TableOptions};
use weft_transport::Time;

use super::{apply, first_join, found, member};
use crate::coordinator::{ClusterState, Command, Liveness, Plan, Planner, PlannerSettings, codec};
use crate::handler::{Report, Told};
use crate::limits::ENTRY_MAX;

const NODES: u64 = 1_000;
const PARTITIONS: u16 = 4_096;

struct Leader {
    state: ClusterState,
    liveness: Liveness,
    planner: Planner,
    now: Time,
    silent: Vec<u64>,
}

impl Leader {
    fn plan(&mut self, after: Duration) -> Plan {
        self.now = self.now + after;
        let heard = self.state.nodes().filter(|node| !self.silent.contains(&node.id.0));
        for node in heard {
            self.liveness.heard(node.member(), self.state.version(), self.now);
        }
        let plan = self.planner.plan(&self.state, &self.liveness, self.now);
        for command in &plan.commands {
            apply_unchecked(&mut self.state, command);
        }
        plan
    }
}

/// A comparison with what was before would take longer than all else.
fn apply_unchecked(state: &mut ClusterState, command: &Command) {
    let id = crate::coordinator::ProposalId::NONE;
    let proposal = crate::coordinator::Proposal { id, command: command.clone() };
    state.apply(&proposal).unwrap();
}

#[test]
fn a_plan_for_a_thousand_nodes_looks_at_few_of_them() {
    let mut state = ClusterState::default();
    apply(&mut state, found(TableOptions::default(), PARTITIONS)).unwrap();
    for node in 1..=NODES {
        let join = first_join(node, &format!("zone{}", node % 5));
        apply_unchecked(&mut state, &Command::Join(join));
    }
    let settings = PlannerSettings::default();
    let liveness = Liveness::new(settings.down_after);
    let planner = Planner::new(settings);
    let mut leader = Leader { state, liveness, planner, now: Time::from_nanos(1), silent: vec![] };

    let plan = leader.plan(Duration::ZERO);
    let [Command::Place { partitions, .. }] = &plan.commands[..] else { panic!("one placement") };
    assert_eq!(partitions.len(), usize::from(PARTITIONS));
    assert!(plan.looked_at < 20 * usize::from(PARTITIONS), "{}", plan.looked_at);
    check_even(&leader.state);

    // At rest nothing is looked for.
    let plan = leader.plan(Duration::from_millis(50));
    assert_eq!((plan.commands.len(), plan.looked_at), (0, 0));

    // A node dies: its dozen of partitions is taken care of, and nothing else.
    let dead = member(7, 7);
    leader.silent.push(7);
    leader.plan(Duration::from_millis(400));
    let plan = leader.plan(Duration::from_millis(200));
    assert_eq!(plan.commands, [Command::MarkDown { member: dead }]);
    let plan = leader.plan(Duration::from_millis(50));
    assert!((11..=14).contains(&plan.commands.len()), "{} commands", plan.commands.len());
    let mut looked_at = 0;
    let mut added = 0;
    for _ in 0..200 {
        let plan = leader.plan(Duration::from_millis(50));
        looked_at += plan.looked_at;
        added += plan.commands.len();
        promote_all(&mut leader);
    }
    assert!(added >= 12, "{added}");
    assert!(looked_at < 100 * usize::from(PARTITIONS), "{looked_at} in 200 plans");
}

#[test]
fn an_entry_takes_the_placement_of_the_largest_class_and_a_snapshot_all_of_them() {
    let members = |index: u64| {
        (0..3).map(|at| member((index * 7 + at * 31) % 2_000 + 1, u64::MAX)).collect::<Vec<_>>()
    };
    let partitions = (0..u64::from(PARTITIONS)).map(members).collect();
    let class = TableOptions::default().class();
    let command = Command::Place { class, partitions };
    let id = crate::coordinator::ProposalId(u128::MAX);
    let proposal = crate::coordinator::Proposal { id, command };
    let bytes = codec::encode_entry(std::slice::from_ref(&proposal)).unwrap();
    assert!(bytes.len() * 8 < ENTRY_MAX, "{} bytes", bytes.len());
    assert_eq!(codec::decode_entry(&bytes), Ok(vec![proposal]));
}

fn promote_all(leader: &mut Leader) {
    for (id, partition) in leader.state.partitions() {
        let Configuration { epoch, ref learners, .. } = partition.configuration;
        for learner in learners {
            let (partition, report) = (id, Report::CaughtUp);
            let told = Told { partition, member: *learner, report, epoch };
            leader.liveness.told(*learner, &told, leader.now);
        }
    }
}

fn check_even(state: &ClusterState) {
    let mut held = vec![(0, 0); NODES as usize + 1];
    for (_, partition) in state.partitions() {
        for member in &partition.configuration.members {
            held[member.node.0 as usize].0 += 1;
        }
        held[partition.configuration.primary.unwrap().node.0 as usize].1 += 1;
    }
    // 12.3 each, and primary of 4.1.
    assert!(held[1..].iter().all(|held| (11..=14).contains(&held.0)), "{held:?}");
    assert!(held[1..].iter().all(|held| (3..=6).contains(&held.1)), "{held:?}");
}
