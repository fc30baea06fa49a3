//! What each figure is called and means.

use weft_protocol::stat_name;

use crate::counters::Event;

/// A figure, or several that differ in one label.
#[derive(Debug)]
pub(crate) struct Family {
    /// The name in the stats operation; with members, what stands before theirs.
    pub(crate) name: &'static str,
    /// The name in `/metrics`.
    pub(crate) metric: &'static str,
    /// What tells members apart in `/metrics`.
    pub(crate) label: &'static str,
    pub(crate) kind: Kind,
    /// What it is, in one line.
    pub(crate) help: &'static str,
}

/// How a figure behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It only grows.
    Counter,
    /// It comes and goes.
    Gauge,
}

const fn gauge(name: &'static str, metric: &'static str, help: &'static str) -> Family {
    Family { name, metric, label: "", kind: Kind::Gauge, help }
}

const fn counter(name: &'static str, metric: &'static str, help: &'static str) -> Family {
    Family { name, metric, label: "", kind: Kind::Counter, help }
}

pub(super) static OBJECTS: Family = gauge(
    stat_name::OBJECTS,
    "weft_store_objects",
    "Objects, expired ones that nobody has asked for since included.",
);
pub(super) static LIVE_BYTES: Family = gauge(
    stat_name::LIVE_BYTES,
    "weft_store_live_bytes",
    "Bytes of the objects' records in the log.",
);
pub(super) static LOG_BYTES: Family =
    gauge("store.log_bytes", "weft_store_log_bytes", "Bytes of the log's segments.");
pub(super) static UPLOAD_BYTES: Family = gauge(
    "store.upload_bytes",
    "weft_store_upload_bytes",
    "Bytes of the log's segments that long values are being brought to.",
);
pub(super) static SEGMENTS: Family =
    gauge("store.segments", "weft_store_segments", "Segments of the log.");
pub(super) static PINNED_BYTES: Family = gauge(
    "store.pinned_bytes",
    "weft_store_pinned_bytes",
    "Bytes of segments that replies are being sent from.",
);
pub(super) static INDEX_BYTES: Family =
    gauge("store.index_bytes", "weft_store_index_bytes", "Bytes of the index.");
pub(super) static EXPIRED: Family = counter(
    "store.expired_removed",
    "weft_store_expired_removed_total",
    "Objects removed because they had expired.",
);
pub(super) static EVICTED: Family = counter(
    "store.evicted",
    "weft_store_evicted_total",
    "Objects removed to make room for others.",
);
pub(super) static EVICTED_BYTES: Family = counter(
    "store.evicted_bytes",
    "weft_store_evicted_bytes_total",
    "Bytes of their records in the log.",
);
pub(super) static PARTITIONS: Family =
    gauge(stat_name::PARTITIONS, "weft_store_partitions", "Partitions that the node owns.");

pub(super) static WATCHES: Family =
    gauge("watches.open", "weft_watches_open", "Watches that clients have open.");
pub(super) static WATCHES_FELL_BEHIND: Family = counter(
    "watches.fell_behind",
    "weft_watches_fell_behind_total",
    "Watches whose clients were told that events were dropped.",
);

pub(super) static CLEANER_MOVED: Family = counter(
    "cleaner.moved_bytes",
    "weft_cleaner_moved_bytes_total",
    "Bytes of records that were moved out of segments, so that these are free.",
);
pub(super) static CLEANER_FREED: Family = counter(
    "cleaner.freed_bytes",
    "weft_cleaner_freed_bytes_total",
    "Bytes of the segments that were emptied so.",
);

pub(super) static MEMORY_LIMIT: Family = gauge(
    stat_name::MEMORY_LIMIT_BYTES,
    "weft_memory_limit_bytes",
    "The limit on everything that the node holds.",
);
pub(super) static MEMORY_ALLOCATED: Family = gauge(
    stat_name::MEMORY_ALLOCATED_BYTES,
    "weft_memory_allocated_bytes",
    "Bytes counted against the limit.",
);
pub(super) static MEMORY_RESIDENT: Family = gauge(
    stat_name::MEMORY_RESIDENT_BYTES,
    "weft_memory_resident_bytes",
    "Bytes backed by pages, in use or free: what the process's resident size grew by.",
);
pub(super) static MEMORY_PURPOSE: Family = Family {
    name: stat_name::MEMORY_PURPOSE,
    metric: "weft_memory_purpose_bytes",
    label: "purpose",
    kind: Kind::Gauge,
    help: "Bytes counted against the limit, by what they are for.",
};

pub(super) static DURABLE_BYTES: Family = Family {
    name: "durable.bytes.",
    metric: "weft_durable_bytes",
    label: "log",
    kind: Kind::Gauge,
    help: "Bytes of the files of the log on disk.",
};
pub(super) static DURABLE_BACKLOG: Family = Family {
    name: "durable.backlog_bytes.",
    metric: "weft_durable_backlog_bytes",
    label: "log",
    kind: Kind::Gauge,
    help: "Bytes that wait to be written to the log on disk.",
};
pub(super) static DURABLE_FAILED: Family = Family {
    name: "durable.failed.",
    metric: "weft_durable_failed",
    label: "log",
    kind: Kind::Gauge,
    help: "Whether the log on disk has failed, so that nothing is acknowledged that it has to have: 0 or 1.",
};

pub(super) static OPERATIONS: Family = Family {
    name: stat_name::OPERATIONS,
    metric: "weft_operations_total",
    label: "operation",
    kind: Kind::Counter,
    help: "Requests that could be read, by operation.",
};

pub(super) static CONNECTIONS: Family =
    gauge(stat_name::CONNECTIONS, "weft_connections_open", "Open data connections.");
pub(super) static RETAINED: Family = gauge(
    "connections.retained_bytes",
    "weft_connections_retained_bytes",
    "Bytes of memory that messages keep beyond their handler.",
);
pub(super) static CPU: Family = counter(
    stat_name::CPU_MICROS,
    "weft_process_cpu_microseconds_total",
    "Processor time of the process.",
);
pub(super) static CPU_USER: Family = counter(
    "process.cpu_user_us",
    "weft_process_cpu_user_microseconds_total",
    "Processor time of the process outside the kernel.",
);
pub(super) static CPU_SYSTEM: Family = counter(
    "process.cpu_system_us",
    "weft_process_cpu_system_microseconds_total",
    "Processor time of the process in the kernel.",
);

/// The figure that counts an event.
pub(super) fn of_event(event: Event) -> &'static Family {
    match event {
        Event::Batch => &BATCHES,
        Event::Refused => &REFUSED,
        Event::Malformed => &MALFORMED,
        Event::OfStranger => &OF_STRANGERS,
        Event::Item => &ITEMS,
        Event::Unprocessed => &UNPROCESSED,
        Event::Hit => &HITS,
        Event::Miss => &MISSES,
        Event::ValueCopied => &VALUES_COPIED,
        Event::ValueGathered => &VALUES_GATHERED,
        Event::PinRefused => &PINS_REFUSED,
        Event::BytesRead => &BYTES_READ,
        Event::BytesWritten => &BYTES_WRITTEN,
        Event::Repeated => &REPEATED,
        Event::WriteWaited => &WRITES_WAITED,
        Event::TurnTaken => &TURNS_TAKEN,
    }
}

static BATCHES: Family = counter(
    "requests.batches",
    "weft_requests_batches_total",
    "Runs of requests that were worked off together.",
);
static REFUSED: Family = counter(
    stat_name::ERRORS,
    "weft_operations_failed_total",
    "Requests, and items of requests, that were answered with an error.",
);
static MALFORMED: Family = counter(
    "requests.malformed",
    "weft_requests_malformed_total",
    "Messages that were no request.",
);
static OF_STRANGERS: Family = counter(
    "requests.of_strangers",
    "weft_requests_of_strangers_total",
    "Messages between nodes that came from who is not in the map, or not yet.",
);
static ITEMS: Family = counter("items.executed", "weft_items_total", "Items of multi-operations.");
static UNPROCESSED: Family = counter(
    "items.unprocessed",
    "weft_items_unprocessed_total",
    "Items of multi-gets that were left for the client to ask again.",
);
static HITS: Family = counter("reads.hits", "weft_reads_hits_total", "Reads that found an object.");
static MISSES: Family =
    counter("reads.misses", "weft_reads_misses_total", "Reads that found none.");
static VALUES_COPIED: Family = counter(
    "values.copied",
    "weft_values_copied_total",
    "Values that were copied into their reply.",
);
static VALUES_GATHERED: Family = counter(
    "values.gathered",
    "weft_values_gathered_total",
    "Values that were sent from the segment that they lie in, without a copy.",
);
static PINS_REFUSED: Family = counter(
    "values.pins_refused",
    "weft_values_pins_refused_total",
    "Large values that were copied because enough segments were pinned.",
);
static BYTES_READ: Family =
    counter("values.bytes_read", "weft_values_read_bytes_total", "Bytes of values read.");
static BYTES_WRITTEN: Family =
    counter("values.bytes_written", "weft_values_written_bytes_total", "Bytes of values written.");
static REPEATED: Family = counter(
    "writes.repeated",
    "weft_writes_repeated_total",
    "Mutations that were asked for again and answered as they were the first time.",
);
static WRITES_WAITED: Family = counter(
    "writes.waited",
    "weft_writes_waited_total",
    "Writes that found no memory and waited for segments to be emptied.",
);
static TURNS_TAKEN: Family = counter(
    "requests.turns_taken",
    "weft_requests_turns_taken_total",
    "Requests that found too little memory to be worked off in and took turns at what is kept back.",
);
