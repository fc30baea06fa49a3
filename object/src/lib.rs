//! Typed object graphs, born in wire format in registered memory. The crate is so far a name and a
//! promise: no code stands behind it.
//!
//! What will live here: a builder that lays out a graph of typed nodes in blocks of
//! `weft_transport::Memory`, in the layout in which it is sent and used, and a view that checks
//! received blocks and then reads them where they lie. Sending a graph is handing over its blocks:
//! no traversal, no copy, no encoding, which is the idea of Naos (Taranov et al., ATC '21) carried
//! to memory that is registered from the start.
//!
//! The invariant: **it reads no byte that it has not validated**. A page holds one type, a link is
//! good if its page, bound and stride fit, and a view exists only after the one linear pass that
//! checks them all.
#![forbid(unsafe_code)]
