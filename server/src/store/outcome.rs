//! What came of a client's request, kept so that the same request gets the same answer again.
//!
//! Whatever a client was told has to stay true: not only what a request did, but also that it did nothing. A copy of the request may still be on
//! its way, left over from a connection that has ended, and come when the key is such that it would do something. So a conflict, an
//! absent key and a refusal by what a key holds are outcomes as well. A refusal for want of room is none as long as
//! the node may ask again; who gives up says so ([`Partition::give_up`](super::Partition::give_up)).

use weft_protocol::Version;
use weft_protocol::limits::{FIELDS_MAX, KEY_MAX};
use weft_transport::{Memory, MemoryError, Purpose, Shared};

use super::error::StoreError;
use super::partition::Deleted;
use super::revising::{Appended, Compared, Expired, Incremented, Replaced};
use super::uploading::Completed;

/// Previous values that are longer stay where they are; of shorter ones a copy is kept, since a view keeps a whole segment, which no
/// cleaner could empty.
pub(super) const COPIED_MAX: usize = 64 << 10;

/// What came of a request.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// A put, of a value or of fields, was done.
    Put(Version),
    /// A compare-and-set was done, or met something else.
    Compared(Compared),
    /// A delete was done, or met nothing.
    Deleted(Deleted),
    /// An increment was done.
    Incremented(Incremented),
    /// An append was done.
    Appended(Appended),
    /// An expiry was set, or met nothing.
    Expired(Expired),
    /// A get-and-put or a get-and-delete was done.
    Replaced {
        /// The version of the mutation, or the newest if there was nothing to remove.
        version: Version,
        /// What was there before.
        previous: Option<Previous>,
    },
    /// Nothing was done, and never will be.
    Refused(Refusal),
}

/// An object that was there before a request.
#[derive(Clone, Debug)]
pub struct Previous {
    /// Its version.
    pub version: Version,
    /// Its value.
    pub value: Kept,
}

/// A value that is kept for a request that may be repeated.
#[derive(Clone, Debug)]
pub enum Kept {
    /// In a copy.
    Copied(Box<[u8]>),
    /// Where it was.
    Pinned(Shared),
    /// It was not there any more where the request's entry was applied. So while a snapshot has not come whole; after that only if
    /// the object had expired there for longer than clocks may differ.
    Missing,
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The value was no number.
    NotANumber,
    /// The sum would have been none.
    NumberOverflow,
    /// The value was no record of fields.
    NotARecord,
    /// There would have been so many fields.
    TooManyFields(u32),
    /// The whole value would have been so long that it has to be uploaded.
    OnlyByUpload(u32),
    /// The whole value would have been so long.
    ValueTooLarge {
        /// That many bytes.
        len: u32,
        /// The most that there may be.
        limit: u32,
    },
    /// The key was so long.
    KeyTooLong(u32),
    /// The node has given up.
    GivenUp,
}

/// The answer to a mutation, which can be given again.
pub trait Answer: Sized {
    /// What of it is kept.
    fn outcome(&self) -> Outcome;

    /// The answer that was given; `None` if that was to another kind of request.
    ///
    /// # Errors
    /// When there is no memory for it.
    fn again(outcome: &Outcome, memory: &Memory) -> Result<Option<Self>, MemoryError>;
}

macro_rules! answers {
    ($($answer:ty = $outcome:ident;)*) => {
        $(impl Answer for $answer {
            fn outcome(&self) -> Outcome {
                Outcome::$outcome(*self)
            }

            fn again(outcome: &Outcome, _: &Memory) -> Result<Option<Self>, MemoryError> {
                let Outcome::$outcome(answer) = outcome else { return Ok(None) };
                Ok(Some(*answer))
            }
        })*
    };
}

answers! {
    Version = Put;
    Compared = Compared;
    Deleted = Deleted;
    Incremented = Incremented;
    Appended = Appended;
    Expired = Expired;
}

impl Answer for Replaced {
    fn outcome(&self) -> Outcome {
        let kept = |(version, value): &(Version, Shared)| Previous {
            version: *version,
            value: Kept::Pinned(value.clone()),
        };
        Outcome::Replaced { version: self.version, previous: self.previous.as_ref().map(kept) }
    }

    fn again(outcome: &Outcome, memory: &Memory) -> Result<Option<Replaced>, MemoryError> {
        let Outcome::Replaced { version, previous } = outcome else { return Ok(None) };
        let Some(previous) = previous else {
            return Ok(Some(Replaced { version: *version, previous: None }));
        };
        // Without the value it is not the answer that was given.
        let Some(value) = previous.value.shared(memory)? else { return Ok(None) };
        Ok(Some(Replaced { version: *version, previous: Some((previous.version, value)) }))
    }
}

impl Answer for Completed {
    fn outcome(&self) -> Outcome {
        match self {
            Completed::Put(version) => Outcome::Put(*version),
            Completed::Compared(compared) => Outcome::Compared(*compared),
            Completed::Replaced(replaced) => replaced.outcome(),
        }
    }

    fn again(outcome: &Outcome, memory: &Memory) -> Result<Option<Completed>, MemoryError> {
        Ok(match outcome {
            Outcome::Put(version) => Some(Completed::Put(*version)),
            Outcome::Compared(compared) => Some(Completed::Compared(*compared)),
            other => Replaced::again(other, memory)?.map(Completed::Replaced),
        })
    }
}

impl Kept {
    /// A copy of a value that lies nowhere else.
    pub(super) fn copied(value: &[u8], memory: &Memory) -> Result<Kept, MemoryError> {
        if value.len() <= COPIED_MAX {
            return Ok(Kept::Copied(value.into()));
        }
        Ok(Kept::Pinned(shared(value, memory)?))
    }

    /// The value, unless it is missing.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Kept::Copied(bytes) => Some(bytes),
            Kept::Pinned(view) => Some(view),
            Kept::Missing => None,
        }
    }

    /// A view of the value, unless it is missing.
    ///
    /// # Errors
    /// When there is no memory for a copy that can be shared.
    pub fn shared(&self, memory: &Memory) -> Result<Option<Shared>, MemoryError> {
        match self {
            Kept::Copied(bytes) => shared(bytes, memory).map(Some),
            Kept::Pinned(view) => Ok(Some(view.clone())),
            Kept::Missing => Ok(None),
        }
    }
}

impl Outcome {
    /// What was there before, if that is a part of it.
    pub(super) fn previous(&self) -> Option<&Previous> {
        let Outcome::Replaced { previous, .. } = self else { return None };
        previous.as_ref()
    }

    pub(super) fn previous_mut(&mut self) -> Option<&mut Previous> {
        let Outcome::Replaced { previous, .. } = self else { return None };
        previous.as_mut()
    }

    /// Heap memory of it that is charged with the completions: copies. Views keep blocks, which are counted as such.
    pub(super) fn heap_bytes(&self) -> usize {
        match self.previous() {
            Some(Previous { value: Kept::Copied(bytes), .. }) => bytes.len(),
            _ => 0,
        }
    }
}

impl Refusal {
    /// What of an error is an outcome: that which depends on what the request says and what the key holds. What depends on room is none, nor is
    /// an upload that is not there, which may come yet.
    pub(super) fn of(error: &StoreError) -> Option<Refusal> {
        Some(match *error {
            StoreError::NotANumber => Refusal::NotANumber,
            StoreError::NumberOverflow => Refusal::NumberOverflow,
            StoreError::NotARecord => Refusal::NotARecord,
            StoreError::TooManyFields { count, .. } => Refusal::TooManyFields(count as u32),
            StoreError::OnlyByUpload { len } => Refusal::OnlyByUpload(len as u32),
            StoreError::ValueTooLarge { len, limit } => {
                Refusal::ValueTooLarge { len: len as u32, limit: limit as u32 }
            }
            StoreError::KeyTooLong { len, .. } => Refusal::KeyTooLong(len as u32),
            StoreError::MemoryLimit(_)
            | StoreError::QuotaReached { .. }
            | StoreError::TableUnknown { .. }
            | StoreError::UploadUnknown
            | StoreError::NoDataDirectory { .. }
            | StoreError::PartitionIncomplete { .. }
            | StoreError::VersionsExhausted { .. }
            | StoreError::EpochsExhausted { .. }
            | StoreError::SegmentsExhausted { .. } => return None,
        })
    }

    /// The error that a request was refused with; `None` if the node had given up.
    pub fn error(self) -> Option<StoreError> {
        Some(match self {
            Refusal::NotANumber => StoreError::NotANumber,
            Refusal::NumberOverflow => StoreError::NumberOverflow,
            Refusal::NotARecord => StoreError::NotARecord,
            Refusal::TooManyFields(count) => {
                StoreError::TooManyFields { count: count as usize, limit: FIELDS_MAX }
            }
            Refusal::OnlyByUpload(len) => StoreError::OnlyByUpload { len: len as usize },
            Refusal::ValueTooLarge { len, limit } => {
                StoreError::ValueTooLarge { len: len as usize, limit: limit as usize }
            }
            Refusal::KeyTooLong(len) => {
                StoreError::KeyTooLong { len: len as usize, limit: KEY_MAX }
            }
            Refusal::GivenUp => return None,
        })
    }
}

fn shared(value: &[u8], memory: &Memory) -> Result<Shared, MemoryError> {
    // No block is empty.
    let mut block = memory.allocate(value.len().max(1), Purpose::Log)?;
    block.mark_touched(value.len());
    block[..value.len()].copy_from_slice(value);
    Ok(block.freeze().narrow(0..value.len()))
}
