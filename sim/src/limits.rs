//! Bounds of the simulator, each with its reason.

/// Configurations of one key that the linearizability search enters before it gives up: some hundred megabytes of them. Histories of
/// production code need a few an operation.
pub const CONFIGURATIONS_MAX: usize = 1 << 21;
