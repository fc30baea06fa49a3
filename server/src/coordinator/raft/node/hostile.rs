//! What a peer that follows no rules can send: nothing of it ends the process.

use raft::eraftpb::{
    ConfState, Entry, EntryType, Message, MessageType, Snapshot, SnapshotMetadata,
};
use raft_codec::Message as _;
use weft_transport::NodeId;

use super::stage::{Stage, identity, opened, sealed};
use crate::coordinator::raft::inspection::check_members;
use crate::coordinator::raft::roster::{Roster, StateRecord};
use crate::coordinator::raft::{Batch, ClusterId, Dropped, RaftId, Settings, Unfit};

fn message(kind: MessageType, term: u64) -> Message {
    let mut message = Message::default();
    message.set_msg_type(kind);
    message.term = term;
    message
}

/// A follower in term 1 with a log up to 2 or so, and what member 1 says to it.
fn said(change: impl FnOnce(&mut Message)) -> Result<(), Dropped> {
    let mut stage = Stage::new(3);
    stage.elect(0);
    stage.agree(0, b"one");
    let term = stage.actors[0].raft.leadership().term;
    let mut message = message(MessageType::MsgHeartbeat, term);
    change(&mut message);
    let now = stage.now;
    stage.actors[1].raft.step(now, &sealed(0, 1, 2, message))
}

fn unfit(change: impl FnOnce(&mut Message)) -> Unfit {
    match said(change) {
        Err(Dropped::Unfit { from: RaftId(1), unfit }) => unfit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_would_end_the_process_is_said_to_be_unfit() {
    said(|_| ()).unwrap();
    assert_eq!(unfit(|message| message.msg_type = 77), Unfit::Type);
    assert_eq!(unfit(|message| message.set_msg_type(MessageType::MsgPropose)), Unfit::Type);
    assert_eq!(unfit(|message| message.set_msg_type(MessageType::MsgTransferLeader)), Unfit::Type);
    assert_eq!(unfit(|message| message.term = 0), Unfit::Term);
    assert_eq!(unfit(|message| message.term = u64::MAX), Unfit::Bounds);
    assert_eq!(unfit(|message| message.commit = 1000), Unfit::CommitBeyondLog);
    assert_eq!(unfit(|message| message.priority = -1), Unfit::Type);
    let append = |message: &mut Message, entries: &[(u64, u64, i32)]| {
        message.set_msg_type(MessageType::MsgAppend);
        (message.index, message.log_term) = (1, 1);
        let entry = |(index, term, kind): &(u64, u64, i32)| {
            let mut entry = Entry::default();
            (entry.index, entry.term, entry.entry_type) = (*index, *term, *kind);
            entry
        };
        message.entries = entries.iter().map(entry).collect();
    };
    assert_eq!(unfit(|message| append(message, &[(2, 1, 9)])), Unfit::Entries);
    assert_eq!(unfit(|message| append(message, &[(3, 1, 0)])), Unfit::Entries);
    // raft-rs takes term 0 for that of everything beyond the log, and so for a match.
    let beyond = |message: &mut Message| {
        append(message, &[]);
        (message.index, message.log_term, message.commit) = (26, 0, 27);
    };
    assert_eq!(unfit(beyond), Unfit::Entries);
    assert_eq!(unfit(|message| append(message, &[(2, 1, 0), (4, 1, 0)])), Unfit::Entries);
    assert_eq!(unfit(|message| append(message, &[(2, 1 << 40, 0)])), Unfit::Entries);
    assert_eq!(unfit(|message| append(message, &[(2, 1, 0), (3, 1, 0)])), Unfit::Contradiction);
    assert_eq!(unfit(|message| message.set_msg_type(MessageType::MsgSnapshot)), Unfit::Snapshot);
    assert_eq!(
        unfit(|message| {
            message.set_msg_type(MessageType::MsgReadIndex);
            message.term = 0;
        }),
        Unfit::Context
    );
    assert_eq!(
        unfit(|message| message.set_msg_type(MessageType::MsgReadIndexResp)),
        Unfit::Context
    );
}

#[test]
fn who_is_not_who_they_say_or_not_here_is_not_heard() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    stage.restart(2, 0);
    stage.ticks(2);
    let now = stage.now;
    let step = |stage: &mut Stage, bytes: &[u8]| stage.actors[0].raft.step(now, bytes).unwrap_err();
    let beat = || message(MessageType::MsgHeartbeatResponse, 2);
    let good = sealed(1, 2, 1, beat());
    let mut other = good.clone();
    other[4] ^= 1;
    assert!(matches!(step(&mut stage, &other), Dropped::OtherCluster(ClusterId(4))));
    assert!(matches!(
        step(&mut stage, &sealed(1, 2, 3, beat())),
        Dropped::OtherMember { to: RaftId(3), .. }
    ));
    assert_eq!(step(&mut stage, &sealed(2, 3, 1, beat())), Dropped::EarlierLife(RaftId(3)));
    assert!(matches!(
        step(&mut stage, &sealed(0, 1, 1, beat())),
        Dropped::Unfit { unfit: Unfit::Sender, .. }
    ));
    assert!(matches!(step(&mut stage, &sealed(9, 9, 1, beat())), Dropped::Unused(_)));
    for len in 0..good.len() {
        let cut = stage.actors[0].raft.step(now, &good[..len]);
        assert!(len >= 52 || matches!(cut, Err(Dropped::Malformed(_))));
    }
    let mut forged = good.clone();
    forged[20] ^= 1;
    assert!(matches!(step(&mut stage, &forged), Dropped::Malformed(_)));
}

#[test]
fn a_learner_without_anything_refuses_a_vote_without_ending() {
    let mut stage = Stage::new(1);
    stage.add(&Batch::joining(identity(1, 2)));
    let mut ask = message(MessageType::MsgRequestPreVote, 1);
    ask.index = 0;
    let now = stage.now;
    let _ = stage.actors[1].raft.step(now, &sealed(0, 1, 2, ask));
    stage.poll(1);
    assert!(stage.actors[1].raft.campaign().is_err(), "nobody to lead");
}

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[(self.next() % all.len() as u64) as usize]
    }

    fn number(&mut self) -> u64 {
        if self.next().is_multiple_of(40) {
            return self.of(&[40, 1 << 48, (1 << 48) + 1, u64::MAX]);
        }
        self.next() % 8
    }

    fn message(&mut self) -> Message {
        let msg_type = (self.next() % 21) as i32 - 1;
        let mut message = Message { msg_type, ..Message::default() };
        (message.term, message.log_term) = (self.next() % 6, self.next() % 4);
        if message.msg_type == MessageType::MsgReadIndex as i32 {
            message.term = 0;
        }
        (message.index, message.commit) = (self.number(), self.number());
        (message.commit_term, message.reject_hint) = (self.next() % 8, self.number());
        message.reject = self.next().is_multiple_of(2);
        message.request_snapshot = u64::from(self.next().is_multiple_of(50));
        if self.next().is_multiple_of(4) {
            message.context = self.of(&[&b"CampaignTransfer"[..], b"x"]).to_vec();
        }
        let first = message.index.max(1).wrapping_add(1);
        for n in 0..self.next() % 4 {
            let mut entry = Entry::default();
            (entry.index, entry.term) = (first.wrapping_add(n), self.next() % 8);
            entry.entry_type = self.of(&[0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 5]);
            entry.data = (0..self.next() % 9).map(|_| self.next() as u8).collect();
            message.entries.push(entry);
        }
        if !self.next().is_multiple_of(5) {
            message.log_term = message.log_term.max(1);
            message.term = message.term.max(message.log_term);
            message.index = message.index.max(1);
            (0..)
                .zip(&mut message.entries)
                .for_each(|(n, entry)| entry.index = first.wrapping_add(n));
            message.entries.iter_mut().for_each(|entry| entry.term = message.log_term);
        }
        if message.msg_type == MessageType::MsgSnapshot as i32 {
            let (index, term) = (self.number(), self.next() % 8);
            let metadata = SnapshotMetadata { conf_state: Some(self.conf_state()), index, term };
            let roster = Roster::founding(&[(RaftId(1), NodeId(0))]);
            let snapshot = Snapshot {
                data: StateRecord::encode(&roster, vec![1, 7]),
                metadata: Some(metadata),
            };
            message.snapshot = Some(snapshot);
        }
        message
    }

    fn ids(&mut self, most: u64) -> Vec<u64> {
        (0..self.next() % (most + 1)).map(|_| self.next() % 6).collect()
    }

    fn conf_state(&mut self) -> ConfState {
        let voters = if self.next().is_multiple_of(2) { vec![1, 2, 3] } else { self.ids(4) };
        let learners = self.ids(2);
        let is_joint = self.next().is_multiple_of(3);
        let voters_outgoing = self.ids(if is_joint { 4 } else { 0 });
        let learners_next = self.ids(u64::from(is_joint));
        let auto_leave = self.next().is_multiple_of(3);
        ConfState { voters, learners, voters_outgoing, learners_next, auto_leave }
    }
}

#[test]
fn members_that_pass_are_members_that_raft_restores() {
    let mut draw = Draw(3);
    let mut passed = 0;
    for _ in 0..20_000 {
        let conf_state = draw.conf_state();
        if check_members(&conf_state).is_ok() {
            passed += 1;
            // Panics if raft-rs cannot.
            let store = raft::storage::MemStorage::new();
            store.wl().set_conf_state(conf_state);
            let logger = slog::Logger::root(slog::Discard, slog::o!());
            let config = raft::Config { id: 1, ..raft::Config::default() };
            raft::RawNode::new(&config, store, &logger).unwrap();
        }
    }
    assert!(passed > 500, "{passed}");
}

#[test]
fn no_message_ends_the_process() {
    let mut heard = 0_u64;
    for seed in 0..300 {
        let mut draw = Draw(seed);
        let settings = Settings { snapshot_entries: 4, kept_entries: 1, ..Settings::default() };
        let mut stage = Stage::with_settings(3, settings);
        stage.add(&Batch::joining(identity(3, 9)));
        if seed % 4 > 0 {
            stage.elect(0);
        }
        if seed % 4 == 2 {
            // Others are in between two configurations.
            let (id, now) = (stage.next_id(), stage.now);
            stage.actors[0].raft.admit(now, id, NodeId(2)).unwrap();
            stage.poll(0);
        }
        for _ in 0..200 {
            let to = (draw.next() % 4) as usize;
            let own = stage.actors[to].raft.identity().raft.0;
            let from = draw.of(&[1, 2, 3, 4, 9]);
            let now = stage.now;
            let bytes = sealed(from as usize - 1, from, own, draw.message());
            heard += u64::from(stage.actors[to].raft.step(now, &bytes).is_ok());
            stage.poll(to);
            match draw.next() % 8 {
                0 => stage.now = stage.now + stage.settings.tick,
                1 => {
                    stage.actors[to].raft.tick(now + stage.settings.tick * 40);
                    stage.poll(to);
                }
                2 => while stage.write(to) {},
                3 if stage.actors[0].raft.leadership().is_own => {
                    let id = stage.next_id();
                    let _ = stage.actors[0].raft.propose(id, vec![1]);
                    stage.poll(0);
                }
                // A good message, with a bit of it flipped.
                4 => {
                    if let Some((_, mut message)) = stage.mail.pop_front() {
                        let bit = draw.next() as usize % (message.bytes.len() * 8);
                        message.bytes[bit / 8] ^= 1 << (bit % 8);
                        if let Some(actor) = stage.actors.get_mut(message.node.0 as usize) {
                            let _ = actor.raft.step(now, &message.bytes);
                            stage.poll(message.node.0 as usize);
                        }
                    }
                }
                5 => drop(stage.deliver()),
                _ => {}
            }
        }
    }
    assert!(heard > 5_000, "{heard} messages were heard at all");
}

#[test]
fn an_entry_that_is_no_change_of_members_changes_none() {
    let mut stage = Stage::new(3);
    stage.elect(0);
    let term = stage.actors[0].raft.leadership().term;
    let last = stage.actors[1].raft.applied();
    let mut append = message(MessageType::MsgAppend, term);
    (append.index, append.log_term) = (last.index, last.term);
    let data = [vec![0xff; 9], Vec::new(), raft::eraftpb::ConfChangeV2::default().encode_to_vec()];
    for (n, data) in (0..).zip(data) {
        let mut entry = Entry::default();
        (entry.index, entry.term, entry.data) = (last.index + 1 + n, term, data);
        entry.set_entry_type(EntryType::EntryConfChangeV2);
        append.entries.push(entry);
    }
    append.commit = last.index + 3;
    let now = stage.now;
    stage.actors[1].raft.step(now, &sealed(0, 1, 2, append)).unwrap();
    stage.poll(1);
    while stage.write(1) {}
    assert_eq!(stage.actors[1].raft.applied().index, last.index + 3);
    assert_eq!(stage.actors[1].raft.members().len(), 3);
    assert!(stage.mail.iter().any(|(_, message)| !opened(message).reject));
}
