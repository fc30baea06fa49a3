//! Sorted pairs, one key after the other.

use std::cmp::Ordering;

use weft_object::{Pair, Record, Wire};

use super::merge::Merge;
use crate::error::JobError;

/// Goes through sorted pairs, of which it shows the next one's key.
#[derive(Debug)]
pub(crate) struct Cursor<K, V, F> {
    merge: Merge<Pair<K, V>, F>,
    next: Option<Pair<K, V>>,
}

impl<K, V, F> Cursor<K, V, F>
where
    K: Ord,
    V: Wire,
    Pair<K, V>: Record,
    F: Fn(&Pair<K, V>, &Pair<K, V>) -> Ordering,
{
    pub(crate) fn new(mut merge: Merge<Pair<K, V>, F>) -> Result<Cursor<K, V, F>, JobError> {
        let next = merge.next()?;
        Ok(Cursor { merge, next })
    }

    /// The key of the next pair, if there is one.
    #[inline]
    pub(crate) fn key(&self) -> Option<&K> {
        self.next.as_ref().map(|pair| &pair.key)
    }

    /// Goes past the next pair.
    #[inline]
    pub(crate) fn pass(&mut self) -> Result<(), JobError> {
        self.next = self.merge.next()?;
        Ok(())
    }

    /// The value of the next pair, if that has this key, and goes past it.
    #[inline]
    pub(crate) fn take_of(&mut self, key: &K) -> Result<Option<V>, JobError> {
        match &self.next {
            Some(Pair { key: next, value }) if next == key => {
                let value = *value;
                self.pass()?;
                Ok(Some(value))
            }
            _ => Ok(None),
        }
    }
}
