//! The jobs that Weft ships.

pub mod components;
pub mod graph;
pub mod kmeans;
pub mod pagerank;
pub mod terasort;
pub mod top;
pub mod wordcount;
