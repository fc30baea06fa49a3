//! A host of a world: what it keeps from life to life, and what is gone with each.

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_transport::{Clock, Endpoint, ManualClock, SimNetwork, Skew, SkewedClock, Time};

use crate::disk::Disk;

/// What of a host's disk is there when it starts again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskFate {
    /// All that was written: only the process had gone.
    Kept,
    /// What was synced, and a drawn part of the rest: the power had gone.
    Torn,
    /// Nothing: it is a new one.
    Wiped,
}

/// A host, dead or alive.
pub(super) struct Host {
    pub(super) address: IpAddr,
    pub(super) network: SimNetwork,
    pub(super) disk: Arc<Mutex<Disk>>,
    pub(super) disk_seed: u64,
    /// `None`: it lives in the world's own time, from its beginning.
    pub(super) skew: Option<Skew>,
    /// Of this life.
    pub(super) clock: Clock,
    /// Which life this is or was, from 1.
    pub(super) life: u64,
    pub(super) is_up: bool,
    pub(super) seats: Vec<Seat>,
    /// It does nothing before then.
    pub(super) paused_until: Time,
}

/// An endpoint in its host.
pub(super) struct Seat {
    pub(super) endpoint: Endpoint,
    /// Something happened in its last turn, so there may be more.
    pub(super) is_active: bool,
}

impl Host {
    pub(super) fn new(
        address: IpAddr,
        skew: Option<Skew>,
        truth: &ManualClock,
        network: &SimNetwork,
        disk_seed: u64,
    ) -> Self {
        Host {
            address,
            network: network.at(address),
            disk: Arc::new(Mutex::new(Disk::new(disk_seed))),
            disk_seed,
            skew,
            clock: clock(skew, truth),
            life: 1,
            is_up: true,
            seats: Vec::new(),
            paused_until: Time::ZERO,
        }
    }

    /// Begins another life, in which its clock begins anew.
    pub(super) fn begin_life(&mut self, truth: &ManualClock, fate: DiskFate) {
        self.life += 1;
        self.is_up = true;
        self.paused_until = Time::ZERO;
        self.clock = clock(self.skew, truth);
        match fate {
            DiskFate::Kept => {}
            DiskFate::Torn => self.disk.lock().crash(),
            DiskFate::Wiped => {
                // Whoever still holds the old one holds what nobody reads again.
                let seed = self.disk_seed.wrapping_add(self.life);
                self.disk = Arc::new(Mutex::new(Disk::new(seed)));
            }
        }
    }

    /// When it has something to do next, by the world's time.
    pub(super) fn next_event(&self, now: Time) -> Option<Time> {
        if self.paused_until > now {
            return Some(self.paused_until);
        }
        let timer = self.seats.iter().filter_map(|seat| seat.endpoint.next_timer()).min()?;
        Some(match &self.clock {
            Clock::Skewed(clock) => clock.when(timer),
            Clock::Manual(_) | Clock::System(_) => timer,
        })
    }
}

impl Seat {
    pub(super) fn is_due(&self) -> bool {
        // Asked in any case: what has arrived is told once.
        self.endpoint.is_due() || self.is_active
    }

    /// Returns whether anything happened, so that there may be more.
    pub(super) fn turn(&mut self) -> bool {
        self.is_active = self.endpoint.turn();
        self.is_active
    }
}

fn clock(skew: Option<Skew>, truth: &ManualClock) -> Clock {
    match skew {
        Some(skew) => Clock::Skewed(SkewedClock::new(truth.clone(), skew).into()),
        None => Clock::Manual(truth.clone()),
    }
}
