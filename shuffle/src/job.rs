//! The jobs that Weft ships.

pub mod graph;
pub mod pagerank;
pub mod terasort;
pub mod wordcount;
