//! What targets share that play whole exchanges: two endpoints in simulated time, graphs and an interface, and how an input is read as what a
//! hostile peer does.

pub mod graphs;
pub mod input;
pub mod interface;
pub mod world;
