//! Models of the roles: whole endpoints, with real sockets and shared memory, whose threads a checker
//! interrupts wherever they touch what they share.
//!
//! `cargo xtask models` runs these and the models of the rings, which stand beside them.

#[cfg(not(feature = "loom"))]
mod nodes;
#[cfg(not(feature = "loom"))]
mod roles;

/// Tries all orders of the threads of `model` in which none is interrupted more than so often, and all
/// that weak memory may do to them.
#[cfg(feature = "loom")]
pub(crate) fn check_orders(interruptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.max_branches = 10_000;
    builder.check(model);
}
