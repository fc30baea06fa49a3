//! Whose mutations are remembered, and for how long: clients that have leases, and those that are over.
//!
//! A partition remembers what a client has done until the client is over, and forgets it by an entry then. A copy of a request that comes later
//! must not be done, since it may have been before. So what is over is known before anything is forgotten, and asked for under the lock of the
//! partition that knows nothing of the client. Where the partition does know the client, nothing needs to be asked.
//!
//! Who is over is the coordinator's word, which [`learn`](Clients::learn) takes. A node that has none keeps leases itself, as long as nobody has said
//! anything: of the numbers that it has given out, and of those that other nodes like it have and that are heard of here. Such a client
//! is over here when it was not heard of for the time of a lease, by a renewal or by a mutation; elsewhere it may not be.

mod ending;
pub(crate) mod leasing;
mod over;
mod told;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use weft_protocol::{Member, OpenClientReply};
use weft_transport::Time;

use self::ending::Ended;
use self::over::Over;
use self::told::Told;
use crate::limits::{CLIENT_LEASE, CLIENTS_MAX};

/// What a node knows of clients.
#[derive(Debug)]
pub(crate) struct Clients {
    known: Mutex<Known>,
    /// How often some were over: who has ended those in a partition has to look again only when it is another number.
    endings: AtomicU64,
    ended: Mutex<Ended>,
}

#[derive(Debug)]
struct Known {
    own: OwnNumbers,
    /// Until when each client is one that is not heard of.
    ends: HashMap<u64, Time>,
    over: Over,
    /// What the coordinator has said.
    told: Option<Told>,
}

/// The numbers that this node has given out, in this life.
#[derive(Debug)]
struct OwnNumbers {
    first: u64,
    next: u64,
}

impl Clients {
    /// No clients. Numbers begin at one that no life of another node and no other life of `me` is likely to come near.
    pub(crate) fn new(seed: u64, me: Member) -> Clients {
        let first = mix(seed ^ mix(me.incarnation.0 ^ mix(me.node.0)));
        let own = OwnNumbers { first, next: first };
        let known = Known { own, ends: HashMap::new(), over: Over::default(), told: None };
        Clients {
            known: Mutex::new(known),
            endings: AtomicU64::new(1),
            ended: Mutex::new(Ended::default()),
        }
    }

    /// A client that there was not before, unless there are [`CLIENTS_MAX`].
    pub(crate) fn open(&self, now: Time) -> Option<OpenClientReply> {
        let known = &mut *self.known.lock();
        if known.ends.len() >= CLIENTS_MAX {
            return None;
        }
        let client = known.own.give_out();
        known.ends.insert(client, now + CLIENT_LEASE);
        Some(lease_of(client))
    }

    /// Has the lease of `client` begin anew, unless it is over. One that is not known was opened at another node.
    pub(crate) fn renew(&self, client: u64, now: Time) -> Option<OpenClientReply> {
        let known = &mut *self.known.lock();
        let has_room = known.ends.len() < CLIENTS_MAX || known.ends.contains_key(&client);
        if known.is_over(client) || !has_room {
            return None;
        }
        known.ends.insert(client, now + CLIENT_LEASE);
        Some(lease_of(client))
    }

    /// Whether what a client asks must not be done where nothing is remembered of it: it may have been done before.
    pub(crate) fn is_over(&self, client: u64) -> bool {
        self.known.lock().is_over(client)
    }

    /// Takes the coordinator's word. `expired` are clients whose leases have run out, and `last` is the last number that was given out. If this
    /// `is_whole`, all clients that have leases are `live`. It has to be told in the order in which it came about.
    pub(crate) fn learn(&self, is_whole: bool, live: &[u64], expired: &[u64], last: u64) {
        let known = &mut *self.known.lock();
        let is_news = match &mut known.told {
            Some(told) if !is_whole => told.add(expired, last, &known.over),
            None if !is_whole => {
                let news = expired.iter().filter(|client| known.over.insert(**client));
                news.count() > 0
            }
            told => {
                *told = Some(Told::new(live, last, &known.over));
                // Leases that this node gave out on its own are nobody's business any more.
                known.ends = HashMap::new();
                true
            }
        };
        if is_news {
            self.endings.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Entries of a primary have ended these clients.
    pub(crate) fn are_over(&self, clients: &[u64]) {
        if clients.is_empty() {
            return;
        }
        let known = &mut *self.known.lock();
        for client in clients {
            known.end(*client);
        }
        self.endings.fetch_add(1, Ordering::AcqRel);
    }

    /// Looks which clients are over, if nobody else says so. `heard` are those of which partitions remember something, and whether each
    /// has done something since the last look.
    fn look(&self, heard: &BTreeMap<u64, bool>, now: Time) {
        let known = &mut *self.known.lock();
        if known.told.is_some() {
            return;
        }
        for (client, is_heard) in heard {
            let is_known = known.ends.contains_key(client);
            if !known.is_over(*client) && (*is_heard || !is_known) {
                known.ends.insert(*client, now + CLIENT_LEASE);
            }
        }
        let is_past = |(client, end): (&u64, &Time)| (*end <= now).then_some(*client);
        let past: Vec<u64> = known.ends.iter().filter_map(is_past).collect();
        for client in &past {
            known.end(*client);
        }
        if !past.is_empty() {
            self.endings.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn endings(&self) -> u64 {
        self.endings.load(Ordering::Acquire)
    }

    /// Whether nobody else says which clients are over.
    fn are_own(&self) -> bool {
        self.known.lock().told.is_none()
    }

    /// Those of `clients` that are over.
    fn over_of(&self, clients: impl Iterator<Item = u64>) -> Vec<u64> {
        let known = self.known.lock();
        clients.filter(|client| known.is_over(*client)).collect()
    }
}

impl Known {
    fn is_over(&self, client: u64) -> bool {
        if self.over.contains(client) {
            return true;
        }
        match &self.told {
            Some(told) => told.is_over(client),
            None => self.own.contains(client) && !self.ends.contains_key(&client),
        }
    }

    fn end(&mut self, client: u64) {
        self.ends.remove(&client);
        if let Some(told) = &mut self.told {
            told.end(client);
        }
        if !self.is_over(client) {
            self.over.insert(client);
        }
    }
}

impl OwnNumbers {
    /// The next number. 0 is nobody.
    fn give_out(&mut self) -> u64 {
        let client = self.next.max(1);
        self.next = client.wrapping_add(1);
        client
    }

    fn contains(&self, client: u64) -> bool {
        client.wrapping_sub(self.first) < self.next.wrapping_sub(self.first)
    }
}

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
mod tests;
