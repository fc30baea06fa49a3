//! The names of the counters in a stats reply that programs look up. They keep their meaning; a node
//! may leave one out or add others.

/// Objects that are there.
pub const OBJECTS: &str = "store.objects";

/// Bytes of live records in the log: headers, keys, values, padding.
pub const LIVE_BYTES: &str = "store.live_bytes";

/// Partitions that the node owns.
pub const PARTITIONS: &str = "store.partitions";

/// The hard memory limit.
pub const MEMORY_LIMIT_BYTES: &str = "memory.limit_bytes";

/// Bytes counted against the limit.
pub const MEMORY_ALLOCATED_BYTES: &str = "memory.allocated_bytes";

/// Bytes backed by pages, in use or free: what the process's resident size grows by.
pub const MEMORY_RESIDENT_BYTES: &str = "memory.resident_bytes";

/// Before the name of a purpose: bytes allocated for it, as in `memory.purpose.log`.
pub const MEMORY_PURPOSE: &str = "memory.purpose.";

/// Open connections.
pub const CONNECTIONS: &str = "connections.open";

/// Before the name of an [`Operation`](crate::Operation): requests for it that were answered, as in
/// `operations.get`.
pub const OPERATIONS: &str = "operations.";

/// Requests that were answered with an error.
pub const ERRORS: &str = "operations_failed";

/// Processor time that the process has used, in microseconds.
pub const CPU_MICROS: &str = "process.cpu_us";
