//! Seeded simulation of Weft clusters: the production cores in a world of which every event follows from a seed.
//!
//! # Layout
//! - [`history`]: what clients asked for and were told. [`linearizability`]: whether any order explains it.
#![forbid(unsafe_code)]

pub mod history;
pub mod limits;
pub mod linearizability;
