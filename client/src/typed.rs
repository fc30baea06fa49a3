//! Values that are a program's types: archived by rkyv, tagged with what they are, and used in place.

mod tag;
mod validated;

use std::fmt;
use std::ops::Deref;

use rkyv::api::high::{HighSerializer, HighValidator, to_bytes_in};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use rkyv::{Archive, Portable, Serialize};
use weft_protocol::Version;

use self::tag::{TAG_LEN, TagMismatch};
use self::validated::Validated;
use crate::error::ClientError;
use crate::object::Object;

/// A type whose values can be stored as they are archived, and the name by which a get knows them again.
///
/// ```
/// use rkyv::{Archive, Serialize};
///
/// #[derive(Archive, Serialize)]
/// struct Cloth {
///     pattern: String,
///     threads: Vec<u32>,
/// }
///
/// impl weft_client::Typed for Cloth {
///     const NAME: &'static str = "mill.Cloth/1";
/// }
/// ```
pub trait Typed: Archive {
    /// What stands with each stored value. Choose another one whenever the type's fields, or what they mean, change: a get as a
    /// type of another name ends with [`TypedError::OtherType`].
    const NAME: &'static str;
}

/// What [`put_as`](crate::Client::put_as) takes. All types have it that are [`Typed`] and derive rkyv's `Serialize`.
pub trait WriteTyped:
    Typed + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, rancor::BoxedError>>
{
}

impl<T> WriteTyped for T where
    T: Typed + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, rancor::BoxedError>>
{
}

/// What [`get_as`](crate::Client::get_as) returns. All types have it that are [`Typed`] and derive rkyv's `Archive`, with its
/// feature `bytecheck`.
pub trait ReadTyped: Typed<Archived: CheckedArchive> {}

impl<T: Typed<Archived: CheckedArchive>> ReadTyped for T {}

/// An archived type whose bytes can be checked.
pub trait CheckedArchive:
    Portable + for<'a> CheckBytes<HighValidator<'a, rancor::BoxedError>>
{
}

impl<A> CheckedArchive for A where
    A: Portable + for<'a> CheckBytes<HighValidator<'a, rancor::BoxedError>>
{
}

/// A value of type `T` and its version. It reads as `T::Archived`.
///
/// The value is not decoded: it was checked once, and is read from the buffer that it was received into, which the
/// handle holds on to. What lies there unaligned was copied once, which [`is_copy`](Self::is_copy) says. Clones share the bytes.
pub struct TypedObject<T: Archive> {
    value: Validated<T::Archived>,
    version: Version,
}

impl<T: ReadTyped> TypedObject<T> {
    /// Checks that `object` holds a `T`.
    fn new(object: Object) -> Result<Self, TypedError> {
        let version = object.version();
        tag::check::<T>(&object).map_err(|mismatch| match mismatch {
            TagMismatch::None => TypedError::Untyped { expected: T::NAME, version },
            TagMismatch::Other => TypedError::OtherType { expected: T::NAME, version },
        })?;
        match Validated::new(object, TAG_LEN) {
            Ok(value) => Ok(Self { value, version }),
            Err(reason) => {
                let reason = reason.to_string().into();
                Err(TypedError::Malformed { expected: T::NAME, version, reason })
            }
        }
    }
}

impl<T: Archive> TypedObject<T> {
    /// The object's version: it grows with every write of the key.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether the value was copied out of the reply, because it did not lie there as its type has to be aligned, or is so short
    /// that it lies in the handle itself.
    pub fn is_copy(&self) -> bool {
        self.value.is_copy()
    }
}

impl<T: Archive<Archived: Portable>> Deref for TypedObject<T> {
    type Target = T::Archived;

    #[inline]
    fn deref(&self) -> &T::Archived {
        self.value.get()
    }
}

impl<T: Archive> Clone for TypedObject<T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), version: self.version }
    }
}

/// The version alone; values may be large and secret.
impl<T: Archive> fmt::Debug for TypedObject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedObject").field("version", &self.version).finish_non_exhaustive()
    }
}

/// What a get of a typed value found.
#[must_use = "a key may have no object"]
pub enum TypedLookup<T: Archive> {
    /// The value of the key.
    Found(TypedObject<T>),
    /// The key has no object.
    Absent {
        /// The newest version that the key's partition has given out, as of which there was none.
        version: Version,
    },
}

/// Of a `T` that may have no such form itself.
impl<T: Archive> fmt::Debug for TypedLookup<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(object) => f.debug_tuple("Found").field(object).finish(),
            Self::Absent { version } => f.debug_struct("Absent").field("version", version).finish(),
        }
    }
}

impl<T: ReadTyped> TypedLookup<T> {
    pub(crate) fn of(lookup: crate::Lookup) -> Result<Self, TypedError> {
        match lookup {
            crate::Lookup::Found(object) => TypedObject::new(object).map(Self::Found),
            crate::Lookup::Absent { version } => Ok(Self::Absent { version }),
        }
    }
}

impl<T: Archive> TypedLookup<T> {
    /// The value, if there is one.
    pub fn into_object(self) -> Option<TypedObject<T>> {
        match self {
            Self::Found(object) => Some(object),
            Self::Absent { .. } => None,
        }
    }

    /// The object's version, or the one as of which there was none.
    pub fn version(&self) -> Version {
        match self {
            Self::Found(object) => object.version(),
            Self::Absent { version } => *version,
        }
    }
}

/// Why a typed value was not written or cannot be had.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TypedError {
    /// The operation failed, whatever the value is.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The value could not be archived; nothing was sent.
    #[error("the {name} could not be archived: {reason}")]
    Archive {
        /// The name of the type.
        name: &'static str,
        /// The serializer's reason.
        reason: Box<str>,
    },
    /// The object was not written as a typed value.
    #[error(
        "the object of version {version} is no typed value, but a {expected} was asked for; read it by get"
    )]
    Untyped {
        /// The name of the type that was asked for.
        expected: &'static str,
        /// The version of the object.
        version: Version,
    },
    /// The object is a value of another type, or of this one as it was or as another program's rkyv lays it out.
    #[error(
        "the object of version {version} is not the {expected} that was asked for; get it as the type, and with the features of \
         rkyv, that it was put with"
    )]
    OtherType {
        /// The name of the type that was asked for.
        expected: &'static str,
        /// The version of the object.
        version: Version,
    },
    /// The object says that it is of the type, and its bytes are not.
    #[error(
        "the object of version {version} is no valid {expected}: {reason}; if all programs agree about the type, write it anew"
    )]
    Malformed {
        /// The name of the type that was asked for.
        expected: &'static str,
        /// The version of the object.
        version: Version,
        /// What is wrong with the bytes.
        reason: Box<str>,
    },
}

/// The stored form of `value`: its tag, and behind it its archive.
pub(crate) fn archive<T: WriteTyped>(value: &T) -> Result<AlignedVec, TypedError> {
    let mut stored = AlignedVec::with_capacity(TAG_LEN + size_of::<T::Archived>());
    stored.extend_from_slice(&tag::of::<T>());
    to_bytes_in::<_, rancor::BoxedError>(value, stored).map_err(|error| {
        let reason = error.to_string().into();
        TypedError::Archive { name: T::NAME, reason }
    })
}
