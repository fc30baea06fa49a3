//! A follower takes entries, and its process ends at each of the points that a Ready has: what it promised is there, and it goes on.

use raft::eraftpb::MessageType;
use raft::prelude::Entry;
use weft_transport::{NodeId, Time};

use super::stage::{CLUSTER, Stage, Told, identity, opened};
use crate::coordinator::raft::{
    Batch, LogError, MemoryLog, RaftId, RaftLog, RaftNode, Recovered, RocksLog, Settings,
    begin_life,
};

/// Where the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    BeforeWrite,
    Written,
    Told,
    Sent,
    Applied,
}

const POINTS: [Point; 5] =
    [Point::BeforeWrite, Point::Written, Point::Told, Point::Sent, Point::Applied];

/// What a leader sends to a follower that has nothing: its vote, then entries, then word that they are committed.
fn letters() -> Vec<Vec<u8>> {
    let mut stage =
        Stage::with_settings(3, Settings { snapshot_entries: 3, ..Settings::default() });
    let mut letters = Vec::new();
    stage.actors[0].raft.campaign().unwrap();
    for round in 0..400 {
        stage.poll(0);
        while stage.write(0) {}
        if round % 10 == 5 && stage.actors[0].raft.leadership().is_own {
            let id = stage.next_id();
            stage.actors[0].raft.propose(id, vec![round as u8]).unwrap();
        }
        while let Some((_, message)) = stage.mail.front().cloned() {
            if message.to == RaftId(2) {
                letters.push(message.bytes);
            }
            stage.deliver();
        }
        while stage.write(1) {}
        stage.now = stage.now + stage.settings.tick / 4;
        stage.actors[0].raft.tick(stage.now);
    }
    letters
}

/// Plays the letters to a follower whose process ends at the `nth` time that it comes to `point`.
fn play(log: &mut dyn RaftLog, letters: &[Vec<u8>], point: Point, nth: usize) {
    let start = |log: &mut dyn RaftLog| -> RaftNode<Told> {
        let recovered: Recovered = begin_life(log, NodeId(1), Some(CLUSTER)).unwrap();
        let settings = Settings { snapshot_entries: 3, kept_entries: 1, ..Settings::default() };
        RaftNode::new(settings, recovered, Told::default(), Time::ZERO).unwrap()
    };
    let mut raft = start(log);
    let mut promised = 0;
    let mut came = 0;
    for letter in letters {
        let _ = raft.step(Time::ZERO, letter);
        let mut effects = raft.poll(Time::ZERO);
        let mut ends_here = |at: Point| {
            came += usize::from(at == point);
            at == point && came == nth
        };
        loop {
            let mut is_over = ends_here(Point::BeforeWrite);
            for write in std::mem::take(&mut effects.writes) {
                if is_over {
                    break;
                }
                log.write(&write.batch).unwrap();
                is_over = ends_here(Point::Written);
                if !is_over {
                    raft.on_written(Time::ZERO, write.number);
                    is_over = ends_here(Point::Told);
                }
            }
            if !is_over {
                for message in effects.messages.iter().map(opened) {
                    if message.msg_type == MessageType::MsgAppendResponse as i32 && !message.reject
                    {
                        promised = promised.max(message.index);
                    }
                }
                is_over = ends_here(Point::Sent) || ends_here(Point::Applied);
            }
            if is_over {
                let found = log.recover().unwrap();
                assert!(
                    found.last().index >= promised,
                    "{point:?} {nth}: promised {promised}, has {:?}",
                    found.last()
                );
                raft = start(log);
                break;
            }
            effects = raft.poll(Time::ZERO);
            if effects.writes.is_empty() && effects.messages.is_empty() {
                break;
            }
        }
    }
    check_whole(&log.recover().unwrap());
}

fn check_whole(found: &Recovered) {
    let indices: Vec<u64> = found.entries.iter().map(|entry: &Entry| entry.index).collect();
    assert!(indices.windows(2).all(|pair| pair[1] == pair[0] + 1));
    assert!(found.hard_state.commit >= found.applied().index);
}

fn founding() -> Batch {
    let members: Vec<_> = (0..3).map(|n| (RaftId(n + 1), NodeId(n))).collect();
    Batch::founding(identity(1, 2), &members, Vec::new())
}

#[test]
fn a_member_in_memory_keeps_its_promises_wherever_it_ends() {
    let letters = letters();
    assert!(letters.len() > 100, "{}", letters.len());
    for point in POINTS {
        for nth in 1..80 {
            let mut log = MemoryLog::new("memory");
            log.create(&founding()).unwrap();
            play(&mut Forgetful(log), &letters, point, nth);
        }
    }
}

/// A log in memory whose power goes whenever it is read anew.
struct Forgetful(MemoryLog);

impl RaftLog for Forgetful {
    fn recover(&mut self) -> Result<Recovered, LogError> {
        self.0.lose_power(0);
        self.0.recover()
    }

    fn write(&mut self, batch: &Batch) -> Result<(), LogError> {
        self.0.write(batch)
    }
}

/// A log in RocksDB that is opened anew whenever it is read.
struct Reopened {
    folder: tempfile::TempDir,
    log: Option<RocksLog>,
}

impl RaftLog for Reopened {
    fn recover(&mut self) -> Result<Recovered, LogError> {
        self.log = None;
        self.log.insert(RocksLog::open(self.folder.path())?).recover()
    }

    fn write(&mut self, batch: &Batch) -> Result<(), LogError> {
        self.log.as_mut().unwrap().write(batch)
    }
}

#[test]
fn a_member_on_a_disk_keeps_its_promises_wherever_its_process_ends() {
    let letters = letters();
    for point in POINTS {
        for nth in [1, 2, 7, 30] {
            let folder = tempfile::tempdir().unwrap();
            let log = Some(RocksLog::create(folder.path(), &founding()).unwrap());
            play(&mut Reopened { folder, log }, &letters[..60], point, nth);
        }
    }
}
