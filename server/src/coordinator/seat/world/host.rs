//! A host: a disk, a node that does as nodes do, and a coordinator once it was admitted.

use std::collections::{BTreeMap, VecDeque};

use weft_transport::{Incarnation, NodeId};

use super::checker::Known;
use super::*;
use crate::coordinator::raft::{MemoryLog, Write};
use crate::coordinator::{Command, Leader, Notice, Outcome, Proposal, ProposalId};
use crate::handler::{Report, Told};

pub(super) struct Host {
    node: NodeId,
    pub(super) disk: MemoryLog,
    pub(super) has_log: bool,
    /// The life that the disk is of.
    pub(super) life_on_disk: Option<Incarnation>,
    /// The founder's first life was joined by founding.
    pub(super) is_founder_new: bool,
    /// It joins without a disk for objects.
    pub(super) is_diskless: bool,
    /// What follows is gone with the process.
    pub(super) is_running: bool,
    pub(super) boot: u64,
    pub(super) coordinator: Option<Coordinator>,
    pub(super) writes: VecDeque<Write>,
    pub(super) questions: BTreeMap<u64, (Asker, u64)>,
    pub(super) questions_asked: u64,
    /// The version that was looked at last.
    pub(super) seen_version: u64,
    pub(super) leader: Option<Leader>,
    pub(super) life: Option<Incarnation>,
    joining: Option<Proposal>,
    pub(super) has_joined: bool,
    pub(super) known: Known,
    attempt: u64,
    asked_at: Time,
    admission: u128,
}

impl Host {
    pub(super) fn new(node: NodeId) -> Self {
        Self {
            node,
            disk: MemoryLog::new("disk"),
            has_log: false,
            life_on_disk: None,
            is_founder_new: false,
            is_diskless: false,
            is_running: false,
            boot: 0,
            coordinator: None,
            writes: VecDeque::new(),
            questions: BTreeMap::new(),
            questions_asked: 0,
            seen_version: 0,
            leader: None,
            life: None,
            joining: None,
            has_joined: false,
            known: Known::default(),
            attempt: 0,
            asked_at: Time::ZERO,
            admission: 0,
        }
    }

    /// What it presents to begin this life.
    pub(super) fn join(&self, incarnation: Incarnation) -> Join {
        let node = self.node;
        Join {
            cluster: self.life_on_disk.map(|_| CLUSTER),
            node,
            incarnation,
            last_incarnation: self.life_on_disk,
            complete: Vec::new(),
            wire_version: WIRE_VERSION,
            description: NodeDescription {
                data_address: format!("host{}:1", node.0),
                control_address: format!("host{}:2", node.0),
                zone: String::new(),
                capacity_bytes: 1 << 30,
                is_coordinator: node.0 <= 5,
                is_diskless: self.is_diskless,
            },
        }
    }

    pub(super) fn member(&self) -> Option<Member> {
        self.life.map(|incarnation| Member { node: self.node, incarnation })
    }

    /// The log is of no use any more.
    pub(super) fn forget_log(&mut self) {
        self.coordinator = None;
        self.disk = MemoryLog::new("disk");
        self.has_log = false;
        self.writes.clear();
        self.questions.clear();
    }

    pub(super) fn is_coordinator(&self) -> bool {
        self.node.0 <= 5
    }
}

impl World {
    pub(super) fn boot(&mut self, index: usize) {
        let now_ms = self.now.nanos() / 1_000_000;
        let now = self.now;
        let next_id = self.next_id();
        let host = &mut self.hosts[index];
        if host.is_running {
            return;
        }
        host.boot += 1;
        host.is_running = true;
        let (disk, boot) = (std::mem::replace(&mut host.disk, MemoryLog::new("disk")), host.boot);
        let fresh = Host { is_diskless: host.is_diskless, ..Host::new(host.node) };
        let (life_on_disk, has_log) = (host.life_on_disk, host.has_log);
        let is_founder_new = host.is_founder_new;
        let admission = next_id;
        *host = Host { disk, boot, has_log, life_on_disk, is_running: true, admission, ..fresh };
        if is_founder_new {
            (host.life, host.has_joined) = (life_on_disk, true);
        } else {
            let after_last = life_on_disk.map_or(0, |last| last.0 + 1);
            let incarnation = Incarnation(after_last.max(now_ms));
            let command = Command::Join(host.join(incarnation));
            host.joining = Some(Proposal { id: ProposalId(next_id), command });
            (host.life, host.life_on_disk) = (Some(incarnation), Some(incarnation));
        }
        if has_log {
            self.seat(index);
        }
        self.at(Duration::ZERO, Event::Beat { host: index, boot });
        self.checker.begin(self.hosts[index].member().unwrap());
        assert!(now <= self.now);
    }

    /// A coordinator begins with the log that is there.
    fn seat(&mut self, index: usize) {
        let settings = raft::Settings {
            seed: index as u64 ^ 0x51,
            // Small, so that snapshots are part of it.
            snapshot_entries: 64,
            kept_entries: 16,
            ..raft::Settings::default()
        };
        let settings = CoordinatorSettings { raft: settings, ..CoordinatorSettings::default() };
        let now = self.now;
        let host = &mut self.hosts[index];
        let recovered = begin_life(&mut host.disk, host.node, Some(CLUSTER)).unwrap();
        host.coordinator = Some(Coordinator::new(settings, recovered, now).unwrap());
        let boot = host.boot;
        self.at(Duration::ZERO, Event::Tick { host: index, boot });
    }

    /// The process ends; of what was not synced `kept` writes are there afterwards.
    pub(super) fn stop(&mut self, index: usize, kept: usize) {
        let host = &mut self.hosts[index];
        host.is_running = false;
        host.is_founder_new = false;
        host.boot += 1;
        host.coordinator = None;
        host.writes.clear();
        host.questions.clear();
        host.disk.lose_power(kept);
    }

    pub(super) fn wipe(&mut self, index: usize) {
        self.stop(index, 0);
        let host = &mut self.hosts[index];
        host.forget_log();
        host.life_on_disk = None;
    }

    /// A heartbeat, to all that may be coordinators, and what is to be asked.
    pub(super) fn beat(&mut self, index: usize) {
        let host = &self.hosts[index];
        let Some(member) = host.member() else { return };
        if host.has_joined {
            let told = self.reports(index, member);
            let known_version = host.known.version;
            let heartbeat = Heartbeat {
                cluster: CLUSTER,
                member,
                known_version,
                told,
                has_failed: false,
                unserved: Vec::new(),
            };
            let bytes = codec::encode_notice(&Notice::Heartbeat(heartbeat));
            for to in 0..self.hosts.len() {
                let bytes = bytes.clone();
                let event =
                    move || Event::Heartbeat { host: to, from: member, bytes: bytes.clone() };
                self.send(index, to, event);
            }
        }
        let host = &mut self.hosts[index];
        let waits = self.now.since(host.asked_at) < Duration::from_millis(300);
        if waits && host.asked_at > Time::ZERO {
            return;
        }
        let ask = if !host.has_joined {
            host.joining.clone().map(Ask::Propose)
        } else if host.is_coordinator() && !host.has_log {
            let id = ProposalId(1 << 100 | host.admission);
            Some(Ask::Admit { id, node: host.node })
        } else {
            None
        };
        let Some(ask) = ask else { return };
        host.attempt += 1;
        host.asked_at = self.now;
        let (attempt, asker) = (host.attempt, Asker::Host { host: index, boot: host.boot });
        let to = self.whom_to_ask(self.hosts[index].leader.clone());
        let bytes = codec::encode_ask(&ask);
        self.send(index, to, move || Event::Ask { host: to, asker, attempt, bytes: bytes.clone() });
    }

    /// Whoever is said to lead, or anybody.
    pub(super) fn whom_to_ask(&mut self, leader: Option<Leader>) -> usize {
        let anybody = self.random.below(self.hosts.len() as u64) as usize;
        match leader {
            Some(leader) if !self.random.one_in(4) => host_of(leader.node),
            _ => anybody,
        }
    }

    /// What a primary says of those that it has to do with.
    fn reports(&self, index: usize, own: Member) -> Vec<Told> {
        let mut told = Vec::new();
        let lives = |member: Member| {
            let other = &self.hosts[host_of(member.node)];
            let pair = (index.min(host_of(member.node)), index.max(host_of(member.node)));
            other.is_running && other.member() == Some(member) && !self.cuts.contains(&pair)
        };
        for (id, partition) in &self.hosts[index].known.partitions {
            let is = &partition.configuration;
            if is.primary != Some(own) {
                continue;
            }
            let others = is.members.iter().chain(&is.learners).filter(|other| **other != own);
            for &member in others {
                let report = match (lives(member), is.learners.contains(&member)) {
                    (false, _) => Report::Unreachable,
                    (true, true) => Report::CaughtUp,
                    (true, false) => continue,
                };
                told.push(Told { partition: *id, member, report, epoch: is.epoch });
            }
        }
        told
    }

    pub(super) fn host_answered(&mut self, index: usize, attempt: u64, answer: Answer) {
        let host = &mut self.hosts[index];
        if attempt != host.attempt {
            // To a question that was given up.
            return;
        }
        host.asked_at = Time::ZERO;
        match answer {
            Answer::NotLeader { leader } => host.leader = leader,
            Answer::Decided(Ok(Outcome::Joined { cluster, incarnation, .. })) => {
                assert_eq!((cluster, Some(incarnation)), (CLUSTER, host.life));
                host.has_joined = true;
            }
            Answer::Admitted { cluster, raft } if !host.has_log => {
                assert_eq!(cluster, CLUSTER);
                self.checker.admitted(host.node, raft);
                let identity = Identity { cluster, node: host.node, raft };
                host.disk.create(&Batch::joining(identity)).unwrap();
                host.has_log = true;
                host.admission |= u128::from(self.made) << 40;
                self.seat(index);
            }
            // Not now: its clock, a former life that is not down yet, another change. It asks again.
            _ => {
                host.asked_at = self.now;
            }
        }
    }

    pub(super) fn take_update(&mut self, index: usize, to: Member, bytes: &[u8]) {
        let Ok(Notice::Update(update)) = codec::decode_notice(bytes) else {
            panic!("an update is one")
        };
        let host = &mut self.hosts[index];
        if !host.is_running || host.member() != Some(to) {
            return;
        }
        let update: Update = *update;
        if update.since > host.known.version || update.version <= host.known.version {
            return;
        }
        host.known.take(update);
        self.checker.told(&host.known);
    }
}
