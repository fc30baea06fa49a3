//! Bytes that a method gives, and that its caller reads where they were received.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use weft_transport::{Reply, Shared};

use crate::fingerprint::Fingerprint;

use super::error::{Malformed, Refusal};
use super::item::{Item, Writer};
use super::passing::Giving;
use super::returned::{Replied, Returned};

/// Bytes as a result. An implementation makes one of what it has, without copying it; a caller reads the part of the reply that it is.
#[derive(Clone)]
pub struct Blob(Bytes);

#[derive(Clone)]
enum Bytes {
    Owned(Vec<u8>),
    Counted(Arc<[u8]>),
    Shared(Shared),
    Received(Reply),
}

impl Deref for Blob {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Owned(bytes) => bytes,
            Bytes::Counted(bytes) => bytes,
            Bytes::Shared(bytes) => bytes,
            Bytes::Received(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Bytes::Owned(bytes))
    }
}

impl From<Arc<[u8]>> for Blob {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self(Bytes::Counted(bytes))
    }
}

impl From<Shared> for Blob {
    fn from(bytes: Shared) -> Self {
        Self(Bytes::Shared(bytes))
    }
}

impl AsRef<[u8]> for Blob {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Blob {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Blob {}

/// The length alone; what it holds may be large and secret.
impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blob").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// As a slice of its bytes.
impl Item for Blob {
    #[inline]
    fn end(&self, at: usize) -> usize {
        (&**self).end(at)
    }

    #[inline]
    fn put(self, out: &mut Writer<'_>) {
        (&*self).put(out);
    }
}

impl Returned for Blob {
    type Value = Blob;
    type Received = Blob;
    type Item = Blob;

    const FINGERPRINT: Fingerprint =
        Fingerprint::of_name("slice", &[<u8 as crate::Wire>::FINGERPRINT]);

    #[inline]
    fn give(value: Blob, _: &mut Giving<'_>) -> Result<Blob, Refusal> {
        Ok(value)
    }

    #[inline]
    fn receive(reply: &mut Replied<'_>) -> Result<Blob, Malformed> {
        Ok(Blob(Bytes::Received(reply.part()?)))
    }
}
