//! Bounds of the simulator, each with its reason.

/// Configurations of one key that the linearizability search enters before it gives up: some
/// hundred megabytes of them. Histories of production code need a few an operation.
pub const CONFIGURATIONS_MAX: usize = 1 << 21;

/// What a disk writes whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// Steps of a world in one moment of virtual time; beyond that, it will never settle.
pub const STEPS_A_MOMENT_MAX: usize = 1 << 20;
