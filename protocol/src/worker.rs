//! Workers: processes that do a cluster's work and are no nodes of it, as the coordinators keep them.
//!
//! ```text
//! slots u32 | process u32 | length of the address u16 | length of the build u16 | address | build
//! ```

use crate::codec::{Reader, Writer};
use crate::error::DecodeError;
use crate::limits::{ADDRESS_MAX, WORKER_BUILD_MAX};

/// What a process says of itself when it registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerDescription<'a> {
    /// Where others find it; of 1 to [`ADDRESS_MAX`] bytes.
    pub address: &'a str,
    /// How much it has room for.
    pub slots: u32,
    /// Which build of its program it is, so that those that work together can be equal; up to [`WORKER_BUILD_MAX`] bytes.
    pub build: &'a str,
    /// Its number in the system that it runs on, for people.
    pub process: u32,
}

impl<'a> WorkerDescription<'a> {
    /// Bytes of the shortest one.
    pub(crate) const LEN_MIN: usize = 13;

    /// Whether each part has a length that it may have.
    pub const fn is_within_limits(&self) -> bool {
        let address_len = self.address.len();
        1 <= address_len && address_len <= ADDRESS_MAX && self.build.len() <= WORKER_BUILD_MAX
    }

    pub(crate) const fn encoded_len(&self) -> usize {
        12 + self.address.len() + self.build.len()
    }

    /// One that is within limits.
    pub(crate) fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.slots);
        writer.u32(self.process);
        writer.u16(self.address.len() as u16);
        writer.u16(self.build.len() as u16);
        writer.bytes(self.address.as_bytes());
        writer.bytes(self.build.as_bytes());
    }

    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (slots, process) = (reader.u32()?, reader.u32()?);
        let (address_len, build_len) = (reader.u16()?, reader.u16()?);
        let address = reader.text(address_len, "worker address")?;
        let build = reader.text(build_len, "worker build")?;
        let worker = Self { address, slots, build, process };
        if worker.is_within_limits() { Ok(worker) } else { Err(DecodeError::WorkerLength) }
    }
}

/// A process that is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerEntry {
    /// Its number: those that registered earlier have lower ones.
    pub worker: u64,
    /// Where others find it.
    pub address: String,
    /// How much it has room for.
    pub slots: u32,
    /// Which build of its program it is.
    pub build: String,
    /// Its number in the system that it runs on.
    pub process: u32,
}

impl WorkerEntry {
    /// What it said of itself.
    pub fn description(&self) -> WorkerDescription<'_> {
        let Self { address, build, .. } = self;
        WorkerDescription { address, slots: self.slots, build, process: self.process }
    }
}
