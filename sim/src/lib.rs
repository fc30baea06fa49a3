//! Seeded simulation of Weft clusters: the production cores in a world of which every event follows
//! from a seed.
//!
//! # Layout
//! - [`scenario`]: what is simulated, and how it is judged. [`cluster`]: nodes and clients in a
//!   world.
//! - [`world`]: network, hosts and tasks in one virtual time. [`executor`]: which task goes on.
//! - [`nemesis`]: what disturbs a run. [`sometimes`]: whether it has met what it is there to meet.
//! - [`disk`]: what a crash leaves of files. The node's log runs on it, in the disk's own tests; [`logs`]: those of whole nodes.
//! - [`history`]: what clients asked for and were told. [`linearizability`]: whether any order
//!   explains it. [`ledger`]: whether every change that was acknowledged is there, once.
//! - [`planted`]: bugs that are put in, to see that they are found.
//! - [`shrink`]: a smaller run that fails in the same way.
//!
//! The crate holds no protocol logic: it links the production nodes and clients, and judges them by
//! what they say.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod disk;
pub mod executor;
pub mod history;
pub mod ledger;
pub mod limits;
pub mod linearizability;
pub mod logs;
pub mod nemesis;
pub mod planted;
pub mod scenario;
pub mod shrink;
pub mod sometimes;
pub mod world;
