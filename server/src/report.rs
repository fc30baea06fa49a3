//! How a node is, as figures: the one list that both the stats operation and `/metrics` show.

mod family;

use weft_protocol::{Operation, StatsReply};
use weft_transport::Purpose;

pub(crate) use self::family::{Family, Kind};
use crate::counters::Event;
use crate::handler::NodeHandler;
use crate::logs::Logs;
use crate::process::CpuTime;

/// What the shell around a node knows and the node does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Open data connections.
    pub connections: u64,
    /// Bytes of memory that bodies keep which were retained beyond their handler.
    pub retained_bytes: u64,
    /// What the process has used.
    pub cpu: CpuTime,
}

/// One number.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) family: &'static Family,
    /// Which one of its family it is, if there are several.
    pub(crate) member: &'static str,
    pub(crate) value: u64,
}

/// All figures, those of a family one after the other.
pub(crate) fn figures(node: &NodeHandler) -> Vec<Figure> {
    let mut figures = Vec::with_capacity(64);
    let mut add = |family, member, value| figures.push(Figure { family, member, value });

    let store = node.partitions.stats();
    add(&family::OBJECTS, "", store.objects);
    add(&family::LIVE_BYTES, "", store.live_bytes);
    add(&family::LOG_BYTES, "", store.log_bytes);
    add(&family::UPLOAD_BYTES, "", store.upload_bytes);
    add(&family::SEGMENTS, "", store.segments);
    add(&family::PINNED_BYTES, "", node.pins.survey(&node.partitions));
    add(&family::INDEX_BYTES, "", store.index_bytes);
    add(&family::EXPIRED, "", store.expired_removed);
    add(&family::EVICTED, "", node.evictor.objects());
    add(&family::EVICTED_BYTES, "", node.evictor.bytes());
    add(&family::PARTITIONS, "", node.partitions.led() as u64);
    add(&family::CLEANER_MOVED, "", node.cleaner.moved_bytes());
    add(&family::CLEANER_FREED, "", node.cleaner.freed_bytes());

    add(&family::WATCHES, "", node.watches.open_count());
    add(&family::WATCHES_FELL_BEHIND, "", node.watches.fell_behind());

    add(&family::MEMORY_LIMIT, "", node.memory.limit_bytes());
    add(&family::MEMORY_ALLOCATED, "", node.memory.allocated_bytes());
    add(&family::MEMORY_RESIDENT, "", node.memory.resident_bytes());
    for purpose in Purpose::ALL {
        add(&family::MEMORY_PURPOSE, purpose.name(), node.memory.allocated_for(purpose));
    }

    let logs: Vec<_> = node.logs().into_iter().flat_map(Logs::journals).collect();
    for journal in &logs {
        add(&family::DURABLE_BYTES, journal.mode().name(), journal.with(|log, _| log.bytes()));
    }
    for journal in &logs {
        let backlog_bytes = journal.with(|log, _| log.backlog_bytes());
        add(&family::DURABLE_BACKLOG, journal.mode().name(), backlog_bytes as u64);
    }
    for journal in &logs {
        add(&family::DURABLE_FAILED, journal.mode().name(), u64::from(journal.has_failed()));
    }

    let counts = node.counters.total();
    for &operation in Operation::all() {
        add(&family::OPERATIONS, operation.name(), counts.requests(operation));
    }
    for event in Event::ALL {
        add(family::of_event(event), "", counts.count(event));
    }

    if let Some(surroundings) = &*node.surroundings.read() {
        let Surroundings { connections, retained_bytes, cpu } = surroundings();
        add(&family::CONNECTIONS, "", connections);
        add(&family::RETAINED, "", retained_bytes);
        add(&family::CPU, "", cpu.user_us + cpu.system_us);
        add(&family::CPU_USER, "", cpu.user_us);
        add(&family::CPU_SYSTEM, "", cpu.system_us);
    }
    figures
}

/// The answer to the stats operation.
pub(crate) fn stats(node: &NodeHandler) -> StatsReply<'static> {
    let mut reply = StatsReply {
        node: node.node,
        incarnation: node.incarnation,
        uptime_ms: node.uptime_ms(),
        counters: Vec::new(),
    };
    for Figure { family, member, value } in figures(node) {
        match member {
            "" => reply.push(family.name, value),
            _ => reply.push(format!("{}{member}", family.name), value),
        }
    }
    reply
}
