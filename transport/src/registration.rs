//! What users' memory is registered with, and how much of it: cached, and bounded by `RLIMIT_MEMLOCK`.
//!
//! A registration belongs to memory and to a domain: a protection domain of a device, or, for links
//! whose bytes the kernel or the processor copies, the account alone. Making one costs a device a walk
//! through the pages, so it outlives its use: it is kept until the memory goes, or until another one
//! needs its room under the limit, and then those go first that have been out of use for longest (as
//! in MPI libraries and UCX, but with the owner saying when it is in use, so that no hook watches the
//! allocator).
//!
//! The limit is one for the process, and so is the cache.

mod cache;
#[cfg(any(test, feature = "verbs"))]
mod lending;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};

use crate::link::{VerbsDomain, VerbsRegistration};
#[cfg(feature = "verbs")]
use crate::memory::Shared;
use crate::memory::{Block, Extent, PAGE_BYTES};

use cache::{Cache, Found};

pub use cache::RegistrationStats;

static CACHE: Mutex<Cache> = Mutex::new(Cache::new());

/// How many bytes are registered in this process, and how that came about.
pub fn registration_stats() -> RegistrationStats {
    CACHE.lock().stats(limit_bytes())
}

/// What memory is registered with.
#[derive(Debug, Clone)]
pub(crate) enum Domain {
    /// The account alone: the link needs no pages to stay.
    Counted,
    /// A device, which reads and writes the pages by itself.
    Verbs(VerbsDomain),
}

impl Domain {
    fn key(&self) -> DomainKey {
        match self {
            Self::Counted => DomainKey(0),
            Self::Verbs(domain) => DomainKey(domain.key()),
        }
    }

    fn pin(&self, extent: &Extent) -> io::Result<Pinned> {
        Ok(match self {
            Self::Counted => Pinned::Counted,
            Self::Verbs(domain) => Pinned::Verbs(domain.register(extent)?),
        })
    }
}

/// Tells domains apart, for as long as something is registered with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DomainKey(usize);

/// What undoes a registration when it is dropped.
#[derive(Debug)]
enum Pinned {
    Counted,
    Verbs(VerbsRegistration),
}

#[cfg(any(test, feature = "verbs"))]
impl Pinned {
    /// The key by which a device knows the memory.
    fn key(&self) -> Option<u32> {
        match self {
            Self::Verbs(registration) => registration.key(),
            Self::Counted => None,
        }
    }
}

/// All registrations of one piece of memory, and how much has been sent from it without.
#[derive(Debug, Default)]
pub(crate) struct Registrations {
    known: Mutex<Vec<(DomainKey, u64)>>,
    /// Bytes that links of devices have copied out of it since it was last registered for being lent, or refused.
    copied_bytes: AtomicU64,
}

impl Registrations {
    /// A device's link has copied `count` bytes out of the memory.
    pub(crate) fn note_copied(&self, count: usize) {
        self.copied_bytes.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Undoes all of them, before the memory goes.
    pub(crate) fn undo(&self) {
        for (_, id) in std::mem::take(&mut *self.known.lock()) {
            // Undone when the lock is free again.
            let _undone = CACHE.lock().remove(id);
        }
    }
}

/// The key by which the device of `domain` knows `memory`, if its owner has registered it and has it in use.
#[cfg(feature = "verbs")]
pub(crate) fn key_in_use(memory: &Shared, domain: &VerbsDomain) -> Option<u32> {
    let known = memory.extent().registrations().known.lock();
    let (_, id) = known.iter().find(|(key, _)| *key == DomainKey(domain.key()))?;
    CACHE.lock().in_use(*id)?.key()
}

/// A registration that is in use. Dropping it leaves it in the cache.
#[derive(Debug)]
pub(crate) struct Registration {
    id: u64,
}

impl Registration {
    /// Registers `block` with `domain`, or finds that it is.
    ///
    /// # Errors
    /// See [`RegisterError`].
    pub(crate) fn make(block: &Block, domain: &Domain) -> Result<Self, RegisterError> {
        Self::make_within(limit_bytes(), block.extent(), domain)
    }

    /// As [`make`](Self::make), if no more than `limit_bytes` are registered together then.
    fn make_within(
        limit_bytes: u64,
        extent: &Extent,
        domain: &Domain,
    ) -> Result<Self, RegisterError> {
        let mut known = extent.registrations().known.lock();
        let key = domain.key();
        let mut found = None;
        let mut cache = CACHE.lock();
        known.retain(|(domain, id)| {
            let is_same = *domain == key;
            let state = if is_same { cache.use_again(*id) } else { cache.look(*id) };
            if is_same && state == Found::Here {
                found = Some(*id);
            }
            state == Found::Here
        });
        if let Some(id) = found {
            return Ok(Self { id });
        }
        let bytes = pinned_bytes(extent);
        let evicted = cache.reserve(bytes, limit_bytes)?;
        drop(cache);
        // Outside of the lock: undoing and making registrations takes a device its time.
        drop(evicted);
        match domain.pin(extent) {
            Ok(pinned) => {
                // A device's registration makes all of its pages resident.
                extent.touch(extent.len());
                let id = CACHE.lock().insert(bytes, pinned);
                known.push((key, id));
                Ok(Self { id })
            }
            Err(error) => {
                CACHE.lock().give_up(bytes);
                let os_error = error.raw_os_error().unwrap_or(0);
                Err(RegisterError::Device { requested_bytes: bytes, os_error })
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        CACHE.lock().end_use(self.id);
    }
}

/// Bytes of the pages that `extent` has a part of, as the kernel counts what is locked.
fn pinned_bytes(extent: &Extent) -> u64 {
    let start = extent.base().as_ptr() as usize;
    let end = (start + extent.len()).next_multiple_of(PAGE_BYTES);
    (end - start / PAGE_BYTES * PAGE_BYTES) as u64
}

/// How much this process may lock: the soft limit.
fn limit_bytes() -> u64 {
    getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX)
}

/// Why memory was not registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// More would be registered than the process may lock.
    #[error(
        "register {requested_bytes} bytes: {used_bytes} of the {limit_bytes} that this process may lock \
         (RLIMIT_MEMLOCK) are registered and in use; unregister buffers, or raise the limit: ulimit -l, \
         or LimitMEMLOCK= of a systemd unit"
    )]
    LimitReached {
        /// What was asked for, in whole pages.
        requested_bytes: u64,
        /// What is registered and in use. What is kept only for the next use has been given up.
        used_bytes: u64,
        /// The soft limit.
        limit_bytes: u64,
    },
    /// The device refused, or the kernel for it.
    #[error(
        "register {requested_bytes} bytes with the device: {}; if memory is what it lacks, raise RLIMIT_MEMLOCK, \
         under which its queues and receives count too: ulimit -l",
        io::Error::from_raw_os_error(*os_error)
    )]
    Device {
        /// What was asked for, in whole pages.
        requested_bytes: u64,
        /// What the system said (`errno`).
        os_error: i32,
    },
}
