//! Several workers on one machine: what they compute, what they send, and how they fail.

#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

mod checkpoints;
mod datasets;
mod failing;
mod graphs;
mod grouping;
mod joining;
mod objects;
mod partitioning;
mod reducing;
mod sending;
mod sorting;
mod stages;
mod tables;
mod text_keys;
mod texts;
mod threads;
