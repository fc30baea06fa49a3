//! A log on a simulated disk, given what a seed says, and a model of what it has to keep.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weft_protocol::{PartitionId, Version};
use weft_server::durable::{
    Event, Identity, Log, Mode, Planted, Recovery, Replayed, Settings, Snapshot, State, perform,
    recover,
};
use weft_transport::{NodeId, Time};

use super::Disk;

pub(super) const FILE_BYTES: u64 = 8 << 10;
const KEYS: u8 = 12;
/// Bytes of an entry before what fills it up: its version and key.
const HEAD_BYTES: usize = 16;

/// What a partition holds: of each key the version that wrote it last, and how long that is.
pub(super) type Held = BTreeMap<u8, (Version, usize)>;

/// An entry of the model: its version, its key, and its length; `None` removes the key.
type Entry = (Version, u8, Option<usize>);

/// A partition since it began anew.
#[derive(Debug, Clone, Default)]
pub(super) struct Life {
    /// What it began with, and the entry up to which that tells.
    start: Held,
    start_last: Version,
    entries: Vec<Entry>,
    /// What the log has told.
    durable: Version,
    is_durable: bool,
    fenced: u32,
    epoch: u32,
}

impl Life {
    pub(super) fn last(&self) -> Version {
        self.entries.last().map_or(self.start_last, |entry| entry.0)
    }

    /// What it held after this entry.
    fn as_of(&self, last: Version) -> Held {
        let mut held = self.start.clone();
        for (version, key, len) in self.entries.iter().take_while(|entry| entry.0 <= last) {
            match len {
                Some(len) => drop(held.insert(*key, (*version, *len))),
                None => drop(held.remove(key)),
            }
        }
        held
    }

    fn holds(&self) -> Held {
        self.as_of(self.last())
    }
}

/// A partition, of which the log may have one life or the next after a crash.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) life: Life,
    before: Option<Life>,
    walk: Option<Walk>,
    /// Ends of snapshots that the log has not told to be durable.
    ends: usize,
}

impl Model {
    /// Whether this may be found after the power was cut.
    pub(super) fn allows(&self, last: Version, held: &Held) -> bool {
        let lives = [Some(&self.life), self.before.as_ref()];
        let is_possible =
            |life: &Life| (life.durable..=life.last()).contains(&last) && life.as_of(last) == *held;
        lives.into_iter().flatten().any(is_possible)
    }
}

/// A snapshot under way.
#[derive(Debug)]
struct Walk {
    next_key: u8,
    is_anew: bool,
}

/// The run of one seed.
pub(super) struct Run {
    pub(super) disk: Disk,
    pub(super) random: StdRng,
    identity: Identity,
    settings: Settings,
    pub(super) log: Option<Log>,
    pub(super) models: BTreeMap<PartitionId, Model>,
    now: Time,
    epoch: u32,
    pub(super) counts: Counts,
}

/// What happened in runs.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    pub(super) crashes: u64,
    pub(super) entries: u64,
    pub(super) durable: u64,
    pub(super) snapshots: u64,
    pub(super) lost_tails: u64,
}

pub(super) fn identity(mode: Mode) -> Identity {
    Identity { cluster: 77, node: NodeId(3), mode }
}

impl Run {
    pub(super) fn new(seed: u64, mode: Mode, planted: Option<Planted>) -> Run {
        let mut settings = Settings::default();
        settings.file_bytes = FILE_BYTES;
        settings.sync_interval = Duration::from_millis(10);
        settings.sync_bytes = 4 << 10;
        if let Some(bug) = planted {
            settings = settings.planted(bug);
        }
        Run {
            disk: Disk::new(seed),
            random: StdRng::seed_from_u64(seed ^ 0x5eed),
            identity: identity(mode),
            settings,
            log: None,
            models: BTreeMap::new(),
            now: Time::ZERO,
            epoch: 0,
            counts: Counts::default(),
        }
    }

    pub(super) fn log(&mut self) -> &mut Log {
        self.log.as_mut().expect("the log is started")
    }

    pub(super) fn recover(&mut self) -> Recovery {
        recover(&mut self.disk, self.identity, &self.settings).expect("the log can be read")
    }

    /// Recovers, compares, and goes on from what was found.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        let recovery = self.recover();
        self.compare(&recovery)?;
        self.log = Some(Log::new(self.settings.clone(), &recovery));
        Ok(())
    }

    /// Does what the log asks for until it is open, and makes partitions that there are not.
    pub(super) fn open(&mut self, partitions: u16) {
        self.drain();
        for partition in (0..partitions).map(PartitionId) {
            let now = self.now;
            if self.models.contains_key(&partition) {
                continue;
            }
            let epoch = self.next_epoch();
            if self.log().create(partition, epoch, now).is_ok() {
                let life = Life { epoch, ..Life::default() };
                self.models.insert(partition, Model { life, ends: 1, ..Model::default() });
            }
        }
        self.drain();
    }

    /// Each is higher than all before it, of whatever partition.
    fn next_epoch(&mut self) -> u32 {
        self.epoch += 1;
        self.epoch
    }

    /// A seeded thing that a node may do.
    pub(super) fn act(&mut self) {
        let partition = PartitionId(self.random.random_range(0..self.models.len() as u16));
        let live = self.live_bytes();
        if let Some(wanted) = self.log().snapshot_wanted(live) {
            self.begin(wanted, Snapshot::Own);
        }
        match self.random.random_range(0..100) {
            0..60 => self.append(partition),
            60..64 => self.fence(partition),
            64..66 => self.begin(partition, Snapshot::Own),
            66..96 => self.walk(),
            96..97 => self.anew(partition),
            _ => self.now = self.now + Duration::from_millis(3),
        }
    }

    /// A log that only grows.
    pub(super) fn act_without_snapshots(&mut self) {
        let partition = PartitionId(self.random.random_range(0..self.models.len() as u16));
        self.append(partition);
    }

    /// Writes a partition anew at once, if the log wants that.
    pub(super) fn snapshot_if_wanted(&mut self) {
        let live = self.live_bytes();
        if let Some(wanted) = self.log().snapshot_wanted(live) {
            self.begin(wanted, Snapshot::Own);
            while self.models[&wanted].walk.is_some() {
                self.walk();
            }
        }
    }

    /// Bytes of all that partitions hold.
    pub(super) fn live_bytes(&self) -> u64 {
        let live = self.models.values().flat_map(|model| model.life.holds());
        live.map(|(_, held)| held.1 as u64).sum()
    }

    /// Half a second later.
    pub(super) fn wait_for_room(&mut self) {
        self.now = self.now + Duration::from_millis(500);
    }

    fn append(&mut self, partition: PartitionId) {
        let count = self.random.random_range(1..4);
        let Some(model) = self.models.get_mut(&partition) else { return };
        let life = &mut model.life;
        // Entries of a new primary have a higher epoch.
        let epoch = if self.random.random_bool(0.02) { life.epoch } else { 0 };
        let epoch = epoch.max(life.last().epoch()).max(1);
        let (mut bytes, mut entries) = (Vec::new(), Vec::new());
        for index in 1..=count {
            let version = Version::new(epoch, life.last().sequence() + index);
            let key = self.random.random_range(0..KEYS);
            let len = if self.random.random_bool(0.05) { 3000 } else { 400 };
            let len = self.random.random_range(HEAD_BYTES..len);
            let len = self.random.random_bool(0.8).then_some(len.next_multiple_of(8));
            bytes.extend_from_slice(&entry_bytes(version, key, len));
            entries.push((version, key, len));
        }
        let (first, last) = (entries[0].0, entries[entries.len() - 1].0);
        let log = self.log.as_mut().expect("the log is started");
        let (start, end) = bytes.split_at(bytes.len() / 2);
        if log.append(partition, first, last, &[start, end], self.now).is_ok() {
            self.counts.entries += entries.len() as u64;
            life.entries.extend(entries);
        }
    }

    fn fence(&mut self, partition: PartitionId) {
        let (now, epoch) = (self.now, self.next_epoch());
        let Some(model) = self.models.get_mut(&partition) else { return };
        let log = self.log.as_mut().expect("the log is started");
        if log.fence(partition, epoch, now).is_ok() {
            model.life.epoch = epoch;
        }
    }

    fn begin(&mut self, partition: PartitionId, snapshot: Snapshot) {
        let now = self.now;
        let Some(model) = self.models.get_mut(&partition) else { return };
        // A replica that is being given a snapshot makes none of its own.
        if model.walk.as_ref().is_some_and(|walk| walk.is_anew) {
            return;
        }
        let log = self.log.as_mut().expect("the log is started");
        if log.begin_snapshot(partition, snapshot, now).is_ok() {
            model.walk = Some(Walk { next_key: 0, is_anew: snapshot != Snapshot::Own });
        }
    }

    /// The replica is given what another one holds.
    fn anew(&mut self, partition: PartitionId) {
        let epoch = self.next_epoch();
        let Some(model) = self.models.get(&partition) else { return };
        if model.before.is_some() || model.walk.is_some() || !model.life.is_durable {
            return;
        }
        let last = Version::new(epoch, model.life.last().sequence() + 5);
        let start: Held = (0..KEYS / 2).map(|key| (key, (last, 64))).collect();
        let life = Life { start, start_last: last, epoch, fenced: epoch, ..Life::default() };
        self.begin(partition, Snapshot::Anew { epoch, last });
        if let Some(model) = self.models.get_mut(&partition)
            && model.walk.is_some()
        {
            model.before = Some(std::mem::replace(&mut model.life, life));
        }
    }

    /// One step of a snapshot that is under way.
    fn walk(&mut self) {
        let now = self.now;
        let log = self.log.as_mut().expect("the log is started");
        let walking = self.models.iter_mut().find(|(_, model)| model.walk.is_some());
        let Some((partition, model)) = walking else { return };
        let Some(walk) = &mut model.walk else { return };
        if walk.next_key >= KEYS {
            if log.end_snapshot(*partition, now).is_ok() {
                self.counts.snapshots += 1;
                model.ends += 1;
                model.walk = None;
            }
            return;
        }
        let holds = model.life.holds();
        let part: Vec<_> = holds.range(walk.next_key..).take(3).collect();
        let records: Vec<Vec<u8>> = part
            .iter()
            .map(|(key, (version, len))| entry_bytes(*version, **key, Some(*len)))
            .collect();
        let pieces: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let next_key = part.last().map_or(KEYS, |(key, _)| **key + 1);
        if pieces.is_empty() || log.append_piece(*partition, &pieces, now).is_ok() {
            walk.next_key = next_key;
        }
    }

    /// Does the next thing that the log asks for; `false` if there is none.
    pub(super) fn step(&mut self) -> bool {
        let now = self.now;
        let Some(mut effect) = self.log().poll(now) else { return false };
        let outcome = perform(&mut self.disk, &mut effect);
        self.log().done(effect, outcome, now);
        self.listen();
        true
    }

    /// Does on the disk what the log asks for, and dies before it learns of it.
    pub(super) fn die_in_step(&mut self) {
        let now = self.now;
        if let Some(mut effect) = self.log().poll(now)
            && self.random.random_bool(0.5)
        {
            let _ = perform(&mut self.disk, &mut effect);
        }
        self.die();
    }

    /// The power goes.
    pub(super) fn die(&mut self) {
        self.counts.crashes += 1;
        self.log = None;
        self.disk.crash();
    }

    /// Does all that there is to do.
    pub(super) fn drain(&mut self) {
        loop {
            if self.step() {
                continue;
            }
            match self.log().next_at() {
                Some(at) if *self.log().state() != State::Full => self.now = self.now.max(at),
                _ => return,
            }
        }
    }

    fn listen(&mut self) {
        while let Some(event) = self.log().next_event() {
            match event {
                Event::Durable { partition, version } => {
                    if let Some(model) = self.models.get_mut(&partition) {
                        let before = model.before.as_mut();
                        let life = match before.filter(|before| version <= before.last()) {
                            Some(before) => before,
                            None => &mut model.life,
                        };
                        life.durable = life.durable.max(version);
                        self.counts.durable += 1;
                    }
                }
                Event::Fenced { partition, epoch } => {
                    if let Some(model) = self.models.get_mut(&partition) {
                        model.life.fenced = model.life.fenced.max(epoch);
                    }
                }
                Event::SnapshotDurable { partition } => {
                    if let Some(model) = self.models.get_mut(&partition) {
                        model.ends = model.ends.saturating_sub(1);
                        let is_anew = model.walk.as_ref().is_some_and(|walk| walk.is_anew);
                        if model.ends == 0 && !is_anew {
                            model.before = None;
                            model.life.is_durable = true;
                        }
                    }
                }
                Event::Opened
                | Event::BegunAnew { .. }
                | Event::Full
                | Event::Resumed
                | Event::MadeRoom => {}
                Event::Closed | Event::Poisoned { .. } => {}
            }
        }
    }

    /// Compares what was found with what has to be there, and takes it for what there is.
    pub(super) fn compare(&mut self, recovery: &Recovery) -> Result<(), String> {
        let mut found = replayed(&mut self.disk, recovery)?;
        let mode = self.identity.mode;
        if self.disk.outgrown() > 0 {
            return Err("a file is longer than what was kept for it".to_owned());
        }
        for (partition, model) in &mut self.models {
            let state = recovery.partition(*partition);
            let held = found.remove(partition).unwrap_or_default();
            let is_complete = state.completeness.is_complete();
            let lives = [Some(&model.life), model.before.as_ref()];
            let same = lives
                .into_iter()
                .flatten()
                .find(|life| life.last() >= state.last && life.as_of(state.last) == held);
            let context = format!("{partition} {state:?} holds {held:?}");
            let is_sure = model.life.is_durable || model.before.is_some();
            if !is_complete {
                let may_be = mode == Mode::Disk || model.before.is_some() || !is_sure;
                if !may_be {
                    return Err(format!("incomplete though synced: {context} {model:?}"));
                }
                continue;
            }
            let Some(life) = same else {
                return Err(format!("not what was given: {context}, but {:?}", model.life));
            };
            // In a log that is written behind, only what was closed is complete, and then all of it is there.
            let least = if mode == Mode::Disk { life.last() } else { life.durable };
            if state.last < least {
                return Err(format!("lost what was durable up to {least}: {context}"));
            }
            if state.epoch < life.fenced || state.epoch > life.epoch {
                return Err(format!("epoch not in {}..={}: {context}", life.fenced, life.epoch));
            }
            self.counts.lost_tails += u64::from(state.last < life.last());
            let mut life = life.clone();
            life.entries.retain(|entry| entry.0 <= state.last);
            (life.durable, life.fenced, life.epoch) = (state.last, state.epoch, state.epoch);
            life.is_durable = true;
            *model = Model { life, ..Model::default() };
        }
        for (partition, model) in &mut self.models {
            model.walk = None;
            if !recovery.partition(*partition).completeness.is_complete() {
                *model = Model::default();
            }
        }
        self.models
            .retain(|partition, _| recovery.partition(*partition).completeness.is_complete());
        Ok(())
    }
}

/// What all partitions hold when what was found is followed.
pub(super) fn replayed(
    disk: &mut Disk,
    recovery: &Recovery,
) -> Result<BTreeMap<PartitionId, Held>, String> {
    let mut found: BTreeMap<PartitionId, Held> = BTreeMap::new();
    let mut visit = |replayed: Replayed<'_>| {
        let (partition, mut bytes) = match replayed {
            Replayed::Piece { partition, records } => (partition, records),
            Replayed::Entries { partition, entries, .. } => (partition, entries),
            Replayed::Base { .. } | Replayed::BaseEnd { .. } => return,
        };
        let held = found.entry(partition).or_default();
        while let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() {
            let (version, rest_of_head) = head.split_at(8);
            let version = Version(u64::from_le_bytes(version.try_into().expect("8 bytes")));
            let key = rest_of_head[0];
            let len = u32::from_le_bytes(rest_of_head[4..].try_into().expect("4 bytes")) as usize;
            if len == 0 {
                held.remove(&key);
                bytes = rest;
            } else {
                held.insert(key, (version, len));
                bytes = &rest[len - HEAD_BYTES..];
            }
        }
    };
    let is_complete = |partition| recovery.partition(partition).completeness.is_complete();
    recovery.replay(disk, &mut { is_complete }, &mut visit).map_err(|error| error.to_string())?;
    Ok(found)
}

/// An entry's bytes: version, key, length, and what fills it up.
pub(super) fn entry_bytes(version: Version, key: u8, len: Option<usize>) -> Vec<u8> {
    let mut bytes = vec![key ^ 0x55; len.unwrap_or(HEAD_BYTES)];
    bytes[..8].copy_from_slice(&version.0.to_le_bytes());
    bytes[8..12].copy_from_slice(&[key, 0, 0, 0]);
    bytes[12..16].copy_from_slice(&(len.unwrap_or(0) as u32).to_le_bytes());
    bytes
}

impl Counts {
    pub(super) fn add(&mut self, other: Counts) {
        self.crashes += other.crashes;
        self.entries += other.entries;
        self.durable += other.durable;
        self.snapshots += other.snapshots;
        self.lost_tails += other.lost_tails;
    }
}
