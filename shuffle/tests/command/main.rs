//! The `shuffle` command as a script meets it: ranks, reports, refusals, and workers that die.

#![expect(clippy::disallowed_methods, reason = "the tests run the program, and wait for it")]
#![expect(clippy::unwrap_used, reason = "in a test, what fails should panic")]

mod accounts;
mod agents;
mod balance;
mod bars;
mod cluster;
mod clustering;
mod connecting;
mod counting;
mod death;
mod generating;
mod job;
mod joining;
mod losses;
mod pages;
mod panics;
mod ranks;
mod recovery;
mod report;
mod skipping;
mod sorting;
mod spilling;
mod tables;
mod wrong_use;
