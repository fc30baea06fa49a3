//! A node of a few lines, right or wrong as told: it knows put, get, exists, delete, append and increment.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use weft_protocol::{
    AppendReply, ClusterMap, DeleteReply, ErrorCode, ErrorReply, ExistsReply, GetReply,
    IncrementReply, MapReply, OpenClientReply, PutReply, RenewClient, Request, Version,
};
use weft_sim::cluster::Seat;
use weft_transport::{Batch, Body, Handler, IncomingKind};

/// What is wrong with the node; most bugs strike every few operations only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    None,
    /// A get is told the object before the present one.
    StaleRead,
    /// A put is told a version, and nothing is written.
    AcknowledgeWithoutApplying,
    /// A put is told that there is no memory for it, and it is written.
    ApplyRefused,
    /// A put is written, and once more some operations later, as a retransmission would.
    ApplyTwice,
    /// A delete is told that it removed the object, which stays.
    LoseDelete,
    /// After a delete, versions of the key begin again.
    ReuseVersion,
    /// A get is told the value of one write and the version of the next.
    MixedVersion,
    /// A get is told a value with one byte changed.
    ChangedByte,
    /// What is asked again under its number is done again.
    ForgetNumbers,
}

pub(crate) struct Toy {
    node: u64,
    map: ClusterMap,
    bug: Bug,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Vec<u8>, Object>,
    /// What each key held before its present object.
    former: BTreeMap<Vec<u8>, Object>,
    newest: u64,
    operations: u64,
    /// A put to be written again, and when.
    again: Option<(u64, Vec<u8>, Vec<u8>)>,
    /// What mutations were told, by their numbers.
    told: BTreeMap<(u64, u64), Vec<u8>>,
    clients: u64,
}

#[derive(Clone)]
struct Object {
    value: Vec<u8>,
    version: u64,
}

impl Toy {
    pub(crate) fn new(seat: &Seat, bug: Bug) -> Self {
        let node = seat.options.node.0;
        Toy { node, map: seat.map.clone(), bug, state: Mutex::default() }
    }
}

impl Handler for Toy {
    fn handle(&self, batch: &mut Batch<'_>) {
        let mut state = self.state.lock();
        while let Some(incoming) = batch.next() {
            let IncomingKind::Call(call) = incoming.kind else { continue };
            let request =
                Request::decode(incoming.body).expect("the client's requests are well-formed");
            let number = request.completion().map(|told| (told.id.client, told.id.sequence));
            let known = number.and_then(|number| state.told.get(&number).cloned());
            let answer = match known {
                Some(told) if self.bug != Bug::ForgetNumbers => told,
                _ => self.answer(&mut state, request),
            };
            batch.reply(call, &answer[..]);
            if let Some(number) = number {
                state.told.insert(number, answer);
            }
        }
    }
}

impl Toy {
    fn answer(&self, state: &mut State, request: Request<'_>) -> Vec<u8> {
        state.operations += 1;
        if let Some((_, key, value)) = state.again.take_if(|(at, ..)| *at <= state.operations) {
            state.write(&key, &value);
        }
        // Few are deletes of what is there.
        let strikes = state.operations.is_multiple_of(5) || self.bug == Bug::LoseDelete;
        let bug = if strikes { self.bug } else { Bug::None };
        match request {
            Request::Get(get) => {
                let mut object = state.objects.get(&*get.key).cloned();
                if let Some(former) = state.former.get(&*get.key) {
                    match (bug, &mut object) {
                        (Bug::StaleRead, object) => *object = Some(former.clone()),
                        (Bug::MixedVersion, Some(object)) => object.value.clone_from(&former.value),
                        _ => {}
                    }
                }
                if let (Bug::ChangedByte, Some(object)) = (bug, &mut object) {
                    // Of a number it is still one.
                    if let Some(byte) = object.value.first_mut() {
                        *byte ^= 1;
                    }
                }
                bytes(state.found(object.as_ref()))
            }
            Request::Exists(exists) => {
                let object = state.objects.get(&*exists.key);
                let version = Version(object.map_or(state.newest, |object| object.version));
                bytes(ExistsReply { version, exists: object.is_some() })
            }
            Request::Put(put) => match bug {
                Bug::AcknowledgeWithoutApplying => {
                    state.newest += 1;
                    bytes(PutReply { version: Version(state.newest) })
                }
                Bug::ApplyRefused => {
                    state.write(&put.target.key, &put.value);
                    bytes(ErrorReply::memory_limit(0))
                }
                _ => {
                    let version = state.write(&put.target.key, &put.value);
                    if bug == Bug::ApplyTwice && state.again.is_none() {
                        let at = state.operations + 4;
                        state.again = Some((at, put.target.key.to_vec(), put.value.to_vec()));
                    }
                    bytes(PutReply { version })
                }
            },
            Request::Delete(delete) => {
                let existed = state.objects.contains_key(&*delete.target.key);
                state.newest += u64::from(existed);
                let version = Version(state.newest);
                if bug != Bug::LoseDelete {
                    state.objects.remove(&*delete.target.key);
                }
                if self.bug == Bug::ReuseVersion && existed {
                    state.newest -= 2;
                }
                bytes(DeleteReply { version, existed })
            }
            Request::Append(append) => {
                let key = &*append.target.key;
                let held = state.objects.get(key).map_or(&[][..], |object| &object.value);
                let whole = [held, &append.tail].concat();
                let twice = [&whole[..], &append.tail].concat();
                let value_len = whole.len() as u64;
                match state.build(bug, key, &whole, &twice) {
                    Some(version) => bytes(AppendReply { version, value_len }),
                    None => bytes(ErrorReply::memory_limit(0)),
                }
            }
            Request::Increment(increment) => {
                let key = &*increment.target.key;
                let held = state.objects.get(key).map_or("0", |object| {
                    std::str::from_utf8(&object.value).expect("counters hold nothing but numbers")
                });
                let held: i64 = held.parse().expect("counters hold nothing but numbers");
                let number = held + increment.delta;
                let [once, twice] = [number, number + increment.delta].map(|sum| sum.to_string());
                match state.build(bug, key, once.as_bytes(), twice.as_bytes()) {
                    Some(version) => bytes(IncrementReply { version, number }),
                    None => bytes(ErrorReply::memory_limit(0)),
                }
            }
            Request::OpenClient(_) => {
                state.clients += 1;
                bytes(OpenClientReply { client: self.node << 32 | state.clients, lease_ms: 60_000 })
            }
            Request::RenewClient(RenewClient { client }) => {
                bytes(OpenClientReply { client, lease_ms: 60_000 })
            }
            Request::Map(map) => bytes(MapReply::new(&self.map, map)),
            _ => bytes(ErrorReply::new(ErrorCode::UnknownOperation)),
        }
    }
}

fn bytes(body: impl Body) -> Vec<u8> {
    let mut bytes = vec![0; body.len()];
    body.write(&mut bytes);
    bytes
}

impl State {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Version {
        self.newest += 1;
        let object = Object { value: value.to_vec(), version: self.newest };
        if let Some(former) = self.objects.insert(key.to_vec(), object) {
            self.former.insert(key.to_vec(), former);
        }
        Version(self.newest)
    }

    /// Writes what a change makes of what was there: once, or as the bug has it. Returns the version that is
    /// told, if one is.
    fn build(&mut self, bug: Bug, key: &[u8], once: &[u8], twice: &[u8]) -> Option<Version> {
        match bug {
            Bug::AcknowledgeWithoutApplying => {
                self.newest += 1;
                Some(Version(self.newest))
            }
            Bug::ApplyRefused => {
                self.write(key, once);
                None
            }
            Bug::ApplyTwice => Some(self.write(key, twice)),
            _ => Some(self.write(key, once)),
        }
    }

    fn found<'a>(&self, object: Option<&'a Object>) -> GetReply<'a> {
        match object {
            Some(Object { value, version }) => {
                GetReply::Found { version: Version(*version), value }
            }
            None => GetReply::Absent { version: Version(self.newest) },
        }
    }
}
