//! Replication of partitions: how every member of a partition comes to hold every entry, and how the right to order them passes on.
//!
//! These are state machines that do no I/O, read no clock and do not know the store: a [`Replica`] is told what happened (a
//! configuration was committed, an entry was made, a message came, something was applied or synced, time passed) and is asked for
//! what is to be done: [messages](Replica::poll_message), [acknowledgements](Replica::poll_acknowledgement) and
//! [effects](Effect). [`Leases`] are kept between nodes, for all partitions at once. `docs/replication.md` draws the protocol, its
//! invariants and why they hold; a seeded model of whole clusters, in `model`, tries them.
//!
//! - [`Replica`]: a partition on one node, in whatever role. `roles`: what it is at the moment. `configuring`: what a committed
//!   configuration changes.
//! - `receiving`: members and learners take entries. `fencing`: they are told that there is a new primary.
//! - `tenure`: a primary and its followers. `promotion`: from being named to serving. `committing`: what all have. `feeding`: how a
//!   learner gets what there is.
//! - `sending`: which message is next. `watching`: who does not answer.
//! - `tail`: entries that may have to be sent again. `early`: entries that came before those in front of them.

mod alone;
mod committing;
mod configuring;
mod early;
mod effect;
mod feeding;
mod fencing;
mod leases;
mod planted;
mod promotion;
mod receiving;
mod replica;
mod roles;
mod sending;
mod settings;
mod standing;
mod tail;
mod tenure;
mod watching;

#[cfg(test)]
mod by_hand;
#[cfg(test)]
mod model;

pub use effect::Effect;
pub use leases::{HeldLease, Leases};
pub use planted::PlantedBug;
pub use replica::{Handled, RecordError, Replica};
pub use settings::{LeaseSettings, Settings};
