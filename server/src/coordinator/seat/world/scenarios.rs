//! What coordinators do, from the founding of a cluster on.

use super::*;
use crate::coordinator::{
    Command, DenialKind, Outcome, Planner, Proposal, ProposalId, WorkerDescription, WorkerId,
};
use crate::limits::WORKER_LIFETIME;

const LONG: Duration = Duration::from_secs(30);

/// Names the seed of a run that fails.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

impl World {
    /// A cluster of so many hosts that is in order.
    fn settled(seed: u64, hosts: usize) -> Self {
        let mut world = Self::new(seed, hosts);
        world.settle();
        world
    }

    fn settle(&mut self) {
        self.run_until(LONG, "a cluster that is in order", Self::is_in_order);
        // Who was given the state a moment ago has heard nobody yet.
        self.run_for(Duration::from_millis(300));
        self.run_until(LONG, "a cluster that is in order", Self::is_in_order);
    }

    /// Whether everybody is there, knows all, and has its part.
    fn is_in_order(&self) -> bool {
        let Some(state) = self.state() else { return false };
        let coordinators = self.hosts.len().min(5);
        let voters = if coordinators.is_multiple_of(2) { coordinators - 1 } else { coordinators };
        let knows_all = |host: &Host| {
            let is_current = host.member().is_some_and(|member| state.is_current(member));
            host.known.version == state.version() && is_current
        };
        let is_served = |configuration: &weft_protocol::Configuration| {
            let wanted = self.hosts.len().min(3);
            configuration.primary.is_some() && configuration.members.len() == wanted
        };
        // Who has not left the configuration of before needs a majority of that one too.
        let members = self.leader().and_then(|leader| self.coordinator(leader));
        let members = members.map(|leader| leader.raft.members());
        let are_alike = |host: &Host| {
            host.coordinator.as_ref().is_none_or(|coordinator| {
                !coordinator.raft.is_changing_members()
                    && Some(coordinator.raft.members()) == members
            })
        };
        self.hosts.iter().all(knows_all)
            && self.hosts.iter().all(are_alike)
            && state.nodes().all(|node| node.is_up)
            && state.partitions().len() > 0
            && state.partitions().all(|(_, partition)| is_served(&partition.configuration))
            && self.votes() == (voters, coordinators - voters)
    }

    fn ask_of(&mut self, host: usize, ask: Ask) -> Answer {
        let now = self.now;
        let token = u64::MAX - self.made;
        self.made += 1;
        let coordinator = self.hosts[host].coordinator.as_mut().unwrap();
        coordinator.ask(now, token, ask);
        let answer = std::mem::take(&mut coordinator.answers);
        let answer = answer.into_iter().find(|(other, _)| *other == token);
        answer.expect("it is answered at once").1
    }

    fn primaries_on(&self, host: usize) -> usize {
        let node = NodeId(host as u64 + 1);
        let Some(state) = self.state() else { return 0 };
        let primary = |configuration: &weft_protocol::Configuration| configuration.primary;
        let primaries = state.partitions().filter_map(|(_, held)| primary(&held.configuration));
        primaries.filter(|primary| primary.node == node).count()
    }
}

#[test]
fn a_founder_leads_alone_and_at_once() {
    let mut world = World::new(1, 1);
    let took = world.run_until(LONG, "a cluster that is in order", World::is_in_order);
    assert!(took < Duration::from_millis(400), "{took:?}");
    assert_eq!(world.votes(), (1, 0));
}

#[test]
fn those_that_join_are_admitted_and_vote_when_that_makes_an_odd_number() {
    for (hosts, votes) in [(2, (1, 1)), (3, (3, 0)), (4, (3, 1)), (5, (5, 0)), (6, (5, 0))] {
        let world = World::settled(hosts as u64, hosts);
        assert_eq!(world.votes(), votes);
    }
}

#[test]
fn when_the_leader_ends_another_leads_and_knows_at_once_who_is_silent() {
    for seed in 0..20 {
        let _named = Named(seed);
        let mut world = World::settled(seed, 4);
        let former = world.leader().unwrap();
        assert!(world.primaries_on(former) > 0);
        world.stop(former, 0);
        let took = world.run_until(LONG, "another leader", |world| world.leader().is_some());
        assert_ne!(world.leader(), Some(former));
        let node = NodeId(former as u64 + 1);
        let more = world.run_until(LONG, "the node is down", |world| {
            world.state().is_some_and(|state| !state.node(node).unwrap().is_up)
        });
        // The silence began before it led: it waits for a commit, not for another half of a second.
        assert!(took > Duration::from_millis(500), "{took:?}");
        assert!(more < Duration::from_millis(300), "{more:?} after {took:?}");
        let without = |world: &World| world.primaries_on(former) == 0;
        let more = world.run_until(LONG, "other primaries", without);
        assert!(more < Duration::from_millis(300), "{more:?}");
        world.at(Duration::ZERO, Event::Boot { host: former });
        world.run_until(LONG, "order again", World::is_in_order);
    }
}

#[test]
fn a_new_leader_that_hears_nobody_gives_everybody_their_time() {
    let mut world = World::settled(3, 3);
    let former = world.leader().unwrap();
    let next = (former + 1) % 3;
    // All heartbeats of the others are of long ago.
    world.run_for(Duration::from_millis(100));
    let now = world.now + Duration::from_secs(60);
    let coordinator = world.hosts[next].coordinator.as_mut().unwrap();
    assert_eq!(coordinator.liveness.attentive_since(now), None);
    let state = coordinator.state().clone();
    let mut planner = Planner::new(coordinator.settings);
    let plan = planner.plan(&state, &coordinator.liveness, now);
    let marks = |command: &&Command| matches!(command, Command::MarkDown { .. });
    assert_eq!(plan.commands.iter().filter(marks).count(), 0);
    let later = now + Duration::from_millis(600);
    let plan = planner.plan(&state, &coordinator.liveness, later);
    assert_eq!(plan.commands.iter().filter(marks).count(), 3);
}

#[test]
fn a_node_that_is_silent_is_down_and_its_partitions_have_other_primaries() {
    let mut world = World::settled(7, 3);
    let leader = world.leader().unwrap();
    let silent = (leader + 1) % 3;
    let node = NodeId(silent as u64 + 1);
    world.stop(silent, 0);
    let took = world.run_until(LONG, "the node is down", |world| {
        world.state().is_some_and(|state| !state.node(node).unwrap().is_up)
    });
    assert!(took < Duration::from_millis(700), "{took:?}");
    world.run_until(Duration::from_millis(300), "other primaries", |world| {
        world.primaries_on(silent) == 0
    });
    // Those that are left know it.
    world.run_until(Duration::from_millis(300), "all know", |world| {
        let version = world.state().unwrap().version();
        world.hosts.iter().filter(|host| host.is_running).all(|host| host.known.version == version)
    });
}

#[test]
fn who_does_not_lead_says_who_does() {
    let mut world = World::settled(2, 3);
    let leader = world.leader().unwrap();
    for host in (0..3).filter(|host| *host != leader) {
        let Answer::NotLeader { leader: Some(named) } = world.ask_of(host, Ask::Status) else {
            panic!()
        };
        assert_eq!(host_of(named.node), leader);
        assert_eq!(named.data_address, format!("host{}:1", leader + 1));
    }
}

#[test]
fn what_only_a_leader_proposes_is_denied() {
    let mut world = World::settled(2, 1);
    let member = world.hosts[0].member().unwrap();
    let partition = weft_protocol::PartitionId(0);
    for command in [
        Command::MarkDown { member },
        Command::Forget { member },
        Command::RemoveMember { partition, expected_epoch: 1, member },
        Command::ExpireWorker { worker: WorkerId(1), renewal: 0 },
    ] {
        let ask = Ask::Propose(Proposal { id: ProposalId(9), command });
        let Answer::Decided(Err(denial)) = world.ask_of(0, ask) else { panic!() };
        assert_eq!(denial.kind, DenialKind::Invalid);
    }
    // What could not be read from the log never comes into it.
    let clients = vec![crate::coordinator::ClientId(1); crate::limits::RENEWALS_MAX + 1];
    let ask =
        Ask::Propose(Proposal { id: ProposalId(9), command: Command::RenewClients { clients } });
    let Answer::Decided(Err(denial)) = world.ask_of(0, ask) else { panic!() };
    assert_eq!(denial.kind, DenialKind::Invalid);
    let accepted = Command::AcceptLoss { partition, expected_epoch: 1, members: Vec::new() };
    let ask = Ask::Propose(Proposal { id: ProposalId(9), command: accepted });
    let Answer::Decided(Err(denial)) = world.ask_of(0, ask) else { panic!() };
    assert_eq!(denial.kind, DenialKind::Precondition);
}

#[test]
fn a_table_that_nodes_cannot_hold_is_denied_and_one_that_was_dropped_is_not_missed() {
    let mut world = World::new(7, 3);
    for host in &mut world.hosts[1..] {
        host.is_diskless = true;
    }
    world.settle();
    world.add_clients(1);
    world.quiet_clients();
    world.run_until(LONG, "answers", World::are_clients_done);
    let leader = world.leader().unwrap();
    let create = |replicas| {
        let durability = weft_protocol::Durability::Fsync;
        let options = TableOptions { replicas, durability, ..TableOptions::default() };
        Command::CreateTable { name: "synced".to_owned(), options }
    };
    let ask =
        |id: u128, command| Ask::Propose(Proposal { id: ProposalId(1_u128 << 110 | id), command });
    let Answer::Decided(Err(denial)) = world.ask_of(leader, ask(1, create(3))) else { panic!() };
    assert_eq!(denial.kind, DenialKind::Precondition);
    assert!(denial.message.contains("--data-dir"), "{denial}");
    let do_it = |world: &mut World, id, command| {
        let now = world.now;
        let coordinator = world.hosts[leader].coordinator.as_mut().unwrap();
        coordinator.ask(now, u64::MAX, ask(id, command));
        let asker = Asker::Client { client: 0 };
        world.hosts[leader].questions.insert(u64::MAX, (asker, u64::MAX));
        world.turn(leader);
        world.run_for(Duration::from_secs(1));
    };
    do_it(&mut world, 2, create(1));
    let partitions = |world: &World, is_unused| {
        let status = world.coordinator(leader).unwrap().status(world.now);
        let of_kind = status.partitions.iter().filter(|one| one.is_unused == is_unused);
        (of_kind.count(), status.nodes.iter().filter(|node| node.is_diskless).count())
    };
    assert_eq!((partitions(&world, false), partitions(&world, true)), ((8, 2), (0, 2)));
    do_it(&mut world, 3, Command::DropTable { name: "synced".to_owned() });
    assert_eq!((partitions(&world, false), partitions(&world, true)), ((4, 2), (4, 2)));
}

#[test]
fn what_is_asked_again_is_answered_alike_by_the_next_leader_too() {
    let mut world = World::settled(5, 3);
    world.add_clients(1);
    world.run_for(Duration::from_secs(3));
    world.quiet_clients();
    world.run_until(LONG, "answers", World::are_clients_done);
    let id = ProposalId(4711);
    let ask = Ask::Propose(Proposal { id, command: Command::OpenClient });
    let leader = world.leader().unwrap();
    let now = world.now;
    let coordinator = world.hosts[leader].coordinator.as_mut().unwrap();
    coordinator.ask(now, u64::MAX, ask.clone());
    world.hosts[leader].questions.insert(u64::MAX, (Asker::Client { client: 0 }, u64::MAX));
    world.turn(leader);
    world.run_for(Duration::from_millis(500));
    let Answer::Decided(Ok(first)) = world.ask_of(leader, ask.clone()) else { panic!() };
    assert!(matches!(first, Outcome::ClientOpened { .. }));
    world.stop(leader, 0);
    world.run_until(LONG, "another leader", |world| {
        world.state().is_some_and(|state| state.proposals.outcome(id).is_some())
    });
    let next = world.leader().unwrap();
    assert_eq!(world.ask_of(next, ask), Answer::Decided(Ok(first)));
}

/// The next leader knows the worker, has not heard of it yet, and gives it its time; then it is gone for whoever asks.
#[test]
fn a_worker_outlives_the_leader_that_it_registered_with() {
    let mut world = World::settled(5, 3);
    world.add_clients(1);
    world.run_for(Duration::from_secs(1));
    world.quiet_clients();
    world.run_until(LONG, "answers", World::are_clients_done);
    let description = WorkerDescription {
        address: "loom:9".to_owned(),
        slots: 4,
        build: "1f".to_owned(),
        process: 77,
    };
    let id = ProposalId(4712);
    let ask = Ask::Propose(Proposal {
        id,
        command: Command::RegisterWorker { former: None, description: description.clone() },
    });
    let leader = world.leader().unwrap();
    let now = world.now;
    let coordinator = world.hosts[leader].coordinator.as_mut().unwrap();
    coordinator.ask(now, u64::MAX, ask.clone());
    world.hosts[leader].questions.insert(u64::MAX, (Asker::Client { client: 0 }, u64::MAX));
    world.turn(leader);
    world.run_for(Duration::from_millis(500));
    let Answer::Decided(Ok(first)) = world.ask_of(leader, ask.clone()) else { panic!() };
    let Outcome::WorkerRegistered { worker } = first else { panic!("{first:?}") };
    // Most of its time is over.
    world.run_for(WORKER_LIFETIME - Duration::from_secs(1));
    world.stop(leader, 0);
    world.run_until(LONG, "another leader", |world| {
        world.state().is_some_and(|state| state.proposals.outcome(id).is_some())
    });
    let next = world.leader().unwrap();
    assert_eq!(world.ask_of(next, ask), Answer::Decided(Ok(first)));
    let is_there = |world: &World| {
        let workers = world.coordinator(next).unwrap().workers().workers;
        workers.iter().any(|known| known.worker == worker.0 && known.address == description.address)
    };
    world.run_for(WORKER_LIFETIME - Duration::from_secs(1));
    assert!(is_there(&world));
    world.run_for(Duration::from_secs(2));
    assert!(!is_there(&world));
}

#[test]
fn a_coordinator_that_lost_its_disk_comes_back_as_another_member() {
    let mut world = World::settled(9, 3);
    let leader = world.leader().unwrap();
    for host in [(leader + 1) % 3, leader] {
        let before = world.coordinator(host).unwrap().member();
        world.wipe(host);
        world.run_for(Duration::from_millis(700));
        world.at(Duration::ZERO, Event::Boot { host });
        world.run_until(LONG, "order again", World::is_in_order);
        assert!(world.coordinator(host).unwrap().member() > before);
    }
}

#[test]
fn a_vote_that_cannot_be_counted_on_is_told() {
    let mut world = World::settled(9, 3);
    let leader = world.leader().unwrap();
    let missed = |world: &World| {
        let status = world.coordinator(leader).unwrap().status(world.now);
        let missed = status.coordinators.into_iter().filter(|coordinator| coordinator.is_missed);
        missed.map(|coordinator| host_of(NodeId(coordinator.node))).collect::<Vec<_>>()
    };
    world.run_until(LONG, "all follow", |world| missed(world).is_empty());
    let silent = (leader + 1) % 3;
    world.stop(silent, 0);
    world.run_until(LONG, "it is missed", |world| missed(world) == [silent]);
    world.at(Duration::ZERO, Event::Boot { host: silent });
    world.run_until(LONG, "it follows again", |world| missed(world).is_empty());
}

#[test]
fn a_cluster_that_lost_its_power_goes_on_from_its_logs() {
    let mut world = World::settled(4, 3);
    world.add_clients(2);
    world.run_for(Duration::from_secs(4));
    (0..3).for_each(|host| world.stop(host, 0));
    world.run_for(Duration::from_secs(1));
    (0..3).for_each(|host| world.at(Duration::ZERO, Event::Boot { host }));
    world.run_for(Duration::from_secs(4));
    world.quiet_clients();
    world.run_until(LONG, "answers", World::are_clients_done);
    let created: usize = world.clients.iter().map(|client| client.tables.len()).sum();
    let state = world.state().unwrap();
    assert_eq!(state.catalog().tables().len(), created);
    assert!(created > 0);
}

#[test]
fn a_coordinator_whose_node_leaves_is_none_any_more_though_it_leads() {
    let mut world = World::settled(6, 4);
    let leader = world.leader().unwrap();
    let node = NodeId(leader as u64 + 1);
    let now = world.now;
    let leave =
        Ask::Propose(Proposal { id: ProposalId(1 << 90), command: Command::Leave { node } });
    let coordinator = world.hosts[leader].coordinator.as_mut().unwrap();
    coordinator.ask(now, u64::MAX, leave);
    world.add_clients(1);
    world.hosts[leader].questions.insert(u64::MAX, (Asker::Client { client: 0 }, u64::MAX));
    world.turn(leader);
    world.run_until(LONG, "the node is forgotten", |world| {
        world.state().is_some_and(|state| state.node(node).is_none())
    });
    assert_ne!(world.leader(), Some(leader));
    assert_eq!(world.votes(), (3, 0));
}

/// Everything at once, and order in the end.
fn trouble(seed: u64) {
    let _named = Named(seed);
    let hosts = 3 + (seed % 3) as usize;
    let mut world = World::settled(seed, hosts);
    world.add_clients(2);
    world.begin_trouble();
    world.run_for(Duration::from_secs(12));
    world.end_trouble();
    world.quiet_clients();
    world.run_until(LONG, "answers", World::are_clients_done);
    world.accept_losses();
    world.run_until(4 * LONG, "order again", World::is_in_order);
    let state = world.state().unwrap();
    for name in world.clients.iter().flat_map(|client| &client.tables) {
        assert!(state.catalog().id_of(name).is_ok(), "{name} was acknowledged");
    }
    assert!(world.checker.updates > 0);
}

impl World {
    /// What memory forgot is begun anew, as an operator would have it.
    fn accept_losses(&mut self) {
        for _ in 0..400 {
            self.run_for(Duration::from_millis(100));
            let Some(state) = self.state() else { continue };
            let lost = state.partitions().filter(|(_, held)| held.configuration.is_lost);
            let lost: Vec<_> = lost.map(|(id, held)| (id, held.configuration.epoch)).collect();
            let is_quiet = lost.is_empty() && state.nodes().all(|node| node.is_up);
            if is_quiet && self.hosts.iter().all(|host| host.has_joined) {
                return;
            }
            let leader = self.leader().unwrap();
            for (partition, expected_epoch) in lost {
                let members = Vec::new();
                let command = Command::AcceptLoss { partition, expected_epoch, members };
                let id = ProposalId(self.next_id() | 1 << 80);
                let ask = Ask::Propose(Proposal { id, command });
                let token = u64::MAX - self.made;
                self.made += 1;
                let now = self.now;
                let coordinator = self.hosts[leader].coordinator.as_mut().unwrap();
                coordinator.ask(now, token, ask);
                self.hosts[leader].questions.insert(token, (Asker::Client { client: 0 }, u64::MAX));
                self.turn(leader);
            }
        }
        panic!("losses stay\n{}", self.describe());
    }
}

const SEEDS: u64 = 60;

#[test]
fn whatever_breaks_nothing_acknowledged_is_lost_and_all_is_in_order_in_the_end() {
    (0..SEEDS).for_each(trouble);
}

#[test]
#[ignore = "takes minutes: for changes of the coordinator"]
#[expect(clippy::disallowed_methods, reason = "for whoever looks for a seed")]
fn whatever_breaks_many_times_over() {
    let number = |name, default| {
        std::env::var(name).ok().and_then(|text: String| text.parse().ok()).unwrap_or(default)
    };
    let first = number("WEFT_SEAT_FIRST_SEED", SEEDS);
    (first..first + number("WEFT_SEAT_SEEDS", 2_000)).for_each(trouble);
}
