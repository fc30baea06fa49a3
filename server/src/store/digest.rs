//! A number that is the same for partitions that are the same, in whatever order their records lie.

use weft_protocol::CompletionId;

use super::completion_record as record;
use super::completions::{Attempt, Remembered};
use super::outcome::Kept;
use super::partition::Partition;

/// Odd, and with as many ones as zeroes: the constants of wyhash.
const SECRETS: [u64; 3] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3];

/// What is hashed, so that an object is no table.
#[derive(Clone, Copy)]
enum What {
    Object = 1,
    Table = 2,
    Client = 3,
    Outcome = 4,
}

impl Partition {
    /// A sum over all that the partition says: keys, values, versions and expiries of the objects that have not expired, tables, and what
    /// is remembered of clients. Replicas that have applied the same entries have the same. Reads everything.
    ///
    /// It tells replicas that differ by mistake, not those that somebody makes alike. It is the same on all machines.
    pub fn digest(&self, now_ms: u64) -> u128 {
        let mut sum = 0_u128;
        let mut add = |what: What, parts: &[&[u8]]| sum = sum.wrapping_add(hash(what, parts));
        for (_, segment) in self.log.segments() {
            let live = segment.records().filter(|(_, record)| record.is_live());
            for (_, record) in live.filter(|(_, record)| !self.is_gone(record, now_ms)) {
                let (_, checked) = record.lasting_bytes().split_at(4);
                add(What::Object, &[checked]);
            }
        }
        for table in self.tables.iter() {
            let eviction = table.eviction.name().as_bytes();
            add(
                What::Table,
                &[&table.id().0.to_le_bytes(), &[u8::from(table.is_ordered())], eviction],
            );
        }
        for (client, state) in self.completions.clients_from(0) {
            let number = client.to_le_bytes();
            add(What::Client, &[&number, &state.first_incomplete.to_le_bytes()]);
            for (&sequence, Remembered { version, outcome }) in &state.outcomes {
                let id = CompletionId { client, sequence };
                let previous = outcome.previous().map(|previous| &previous.value);
                let previous = previous.and_then(Kept::bytes);
                let told = Attempt { id, first_incomplete: 0 };
                let told = record::done(told, outcome, previous.is_some());
                let value = previous.unwrap_or_default();
                add(What::Outcome, &[&number, &version.0.to_le_bytes(), &told, value]);
            }
        }
        sum
    }
}

fn hash(what: What, parts: &[&[u8]]) -> u128 {
    let mut state = mix(what as u64 ^ SECRETS[0], SECRETS[1]);
    for part in parts {
        let (words, rest) = part.as_chunks::<8>();
        for word in words {
            state = mix(state ^ u64::from_le_bytes(*word), SECRETS[1]);
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        state = mix(state ^ u64::from_le_bytes(last), SECRETS[2]);
        state = mix(state ^ part.len() as u64, SECRETS[0]);
    }
    u128::from(mix(state, SECRETS[1])) << 64 | u128::from(mix(state, SECRETS[2]))
}

fn mix(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    // A zero would stay one.
    product as u64 ^ (product >> 64) as u64 ^ one.rotate_left(32)
}
