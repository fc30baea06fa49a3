//! Which clients have leases: whose mutations are remembered, and for how long.
//!
//! A node that is its own coordinator keeps them itself.

use std::collections::HashMap;

use parking_lot::Mutex;
use weft_protocol::OpenClientReply;
use weft_transport::{Incarnation, Time};

use crate::limits::{CLIENT_LEASE, CLIENTS_MAX};

/// Whether partitions remember what was done for clients. Without that nobody is given a lease: a client that has one sends a mutation
/// of which it does not know the outcome again, and counts on its being done once.
pub(crate) const COMPLETIONS_ARE_REMEMBERED: bool = false;

/// The leases of clients.
#[derive(Debug)]
pub(crate) struct Clients {
    leases: Mutex<Leases>,
}

#[derive(Debug)]
struct Leases {
    /// The number that is given out next.
    next: u64,
    /// Until when each client has its own.
    ends: HashMap<u64, Time>,
    /// Those that have run out are looked for when there are so many.
    looked_for_at: usize,
}

impl Clients {
    /// No leases. Numbers begin at one that no other life of any node is likely to come near.
    pub(crate) fn new(seed: u64, incarnation: Incarnation) -> Clients {
        let next = mix(seed ^ mix(incarnation.0));
        let leases = Leases { next, ends: HashMap::new(), looked_for_at: LOOKED_FOR_AT_MIN };
        Clients { leases: Mutex::new(leases) }
    }

    /// A client that there was not before, unless there are [`CLIENTS_MAX`].
    pub(crate) fn open(&self, now: Time) -> Option<OpenClientReply> {
        let leases = &mut *self.leases.lock();
        if leases.ends.len() >= leases.looked_for_at {
            leases.ends.retain(|_, end| *end > now);
            leases.looked_for_at = (2 * leases.ends.len()).clamp(LOOKED_FOR_AT_MIN, CLIENTS_MAX);
        }
        if leases.ends.len() >= CLIENTS_MAX {
            return None;
        }
        // 0 is nobody.
        let client = leases.next.max(1);
        leases.next = client.wrapping_add(1);
        leases.ends.insert(client, now + CLIENT_LEASE);
        Some(lease_of(client))
    }

    /// Has the lease of `client` begin anew, if it has one.
    pub(crate) fn renew(&self, client: u64, now: Time) -> Option<OpenClientReply> {
        let leases = &mut *self.leases.lock();
        let end = leases.ends.get_mut(&client).filter(|end| **end > now)?;
        *end = now + CLIENT_LEASE;
        Some(lease_of(client))
    }
}

/// So few leases are not worth a look.
const LOOKED_FOR_AT_MIN: usize = 64;

const _: () = assert!(CLIENT_LEASE.as_millis() <= u32::MAX as u128);

/// What a client is told. It counts from before it asked, and this node from after: the client's lease ends first.
fn lease_of(client: u64) -> OpenClientReply {
    OpenClientReply { client, lease_ms: CLIENT_LEASE.as_millis() as u32 }
}

/// Spreads numbers that are alike (SplitMix64).
fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_client_is_known_for_as_long_as_it_renews() {
        let clients = Clients::new(1, Incarnation(1));
        let lease_s = CLIENT_LEASE.as_secs();
        let OpenClientReply { client, lease_ms } = clients.open(at(0)).unwrap();
        assert_eq!(Duration::from_millis(lease_ms.into()), CLIENT_LEASE);
        assert_eq!(clients.renew(client, at(lease_s - 1)).unwrap().client, client);
        assert!(clients.renew(client, at(2 * lease_s - 2)).is_some());
        assert_eq!(clients.renew(client, at(3 * lease_s - 2)), None);
        assert_eq!(clients.renew(client, at(3 * lease_s - 2)), None, "it stays forgotten");
        assert_eq!(clients.renew(client + 1, at(0)), None);
    }

    #[test]
    fn numbers_are_nobodys_else() {
        let mut numbers = Vec::new();
        for (seed, incarnation) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            let clients = Clients::new(seed, Incarnation(incarnation));
            numbers.extend((0..1000).map(|_| clients.open(at(0)).unwrap().client));
        }
        numbers.sort_unstable();
        numbers.dedup();
        assert!(numbers.len() == 4000 && numbers[0] > 0);
    }

    #[test]
    fn there_is_a_limit_and_room_again_when_leases_run_out() {
        let clients = Clients::new(1, Incarnation(1));
        assert!((0..CLIENTS_MAX).all(|_| clients.open(at(0)).is_some()));
        assert_eq!(clients.open(at(1)), None);
        assert!(clients.open(at(0) + CLIENT_LEASE).is_some());
        assert_eq!(clients.leases.lock().ends.len(), 1);
    }
}
