//! Ranges of an ordered table: every node's own part of the range, a page at a time, merged.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use weft_protocol::limits::SCAN_OBJECTS_MAX;
use weft_protocol::{Key, LimitError, Slot};

use crate::cluster::Cluster;
use crate::core::Core;
use crate::error::ClientError;
use crate::object::Lookup;
use crate::operation::get::AskGet;
use crate::operation::range::AskRange;
use crate::operation::scan::Page;
use crate::scan::Scanned;
use crate::table::Table;

/// Which objects a range is to return, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeOptions {
    /// Where keys begin.
    pub lower: Bound<Vec<u8>>,
    /// Where they end.
    pub upper: Bound<Vec<u8>>,
    /// Whether the largest key comes first.
    pub descending: bool,
    /// Whether values are wanted as well.
    pub with_values: bool,
    /// The most objects that each node is asked for at a time; 256 by default, 1,024 at most. Who wants a certain number of
    /// objects asks for no more.
    pub page_objects: u32,
}

impl Default for RangeOptions {
    fn default() -> Self {
        Self {
            lower: Bound::Unbounded,
            upper: Bound::Unbounded,
            descending: false,
            with_values: false,
            page_objects: SCAN_OBJECTS_MAX as u32 / 4,
        }
    }
}

impl RangeOptions {
    /// All keys from `key` on.
    pub fn from(key: impl Into<Vec<u8>>) -> Self {
        Self { lower: Bound::Included(key.into()), ..Self::default() }
    }

    /// All keys that begin with `prefix`.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> Self {
        let prefix = prefix.into();
        // The first key that does not begin so: the last byte that can be counted up is, and ends it.
        let mut behind = prefix.clone();
        while behind.pop_if(|last| *last == u8::MAX).is_some() {}
        let upper = match behind.last_mut() {
            Some(last) => {
                *last += 1;
                Bound::Excluded(behind)
            }
            None => Bound::Unbounded,
        };
        Self { lower: Bound::Included(prefix), upper, ..Self::default() }
    }
}

/// A range that is being read. It asks each node for a page when the one before it is used up; nodes keep nothing for it.
#[derive(Debug)]
#[must_use = "nothing is asked before it is told to go on"]
pub struct Range {
    core: Arc<Core>,
    table: Table,
    options: RangeOptions,
    /// Who has parts of the range, by the map of this epoch; 0 before the first.
    map_epoch: u64,
    parts: Vec<Part>,
}

/// What one node has of the range.
#[derive(Debug)]
struct Part {
    /// One of the node's slots.
    slot: Slot,
    page: VecDeque<Scanned>,
    has_more: bool,
    /// The last key that was asked for.
    last: Option<Vec<u8>>,
}

impl Range {
    pub(crate) fn new(
        core: Arc<Core>,
        table: Table,
        options: RangeOptions,
    ) -> Result<Self, LimitError> {
        key_of(options.lower.as_ref())?;
        key_of(options.upper.as_ref())?;
        Ok(Self { core, table, options, map_epoch: 0, parts: Vec::new() })
    }

    /// The next object, or `None` when all have been returned.
    ///
    /// # Errors
    /// See [`ClientError`]. The range may be told to go on.
    pub async fn next(&mut self) -> Option<Result<Scanned, ClientError>> {
        loop {
            if let Err(error) = self.turn_pages().await {
                return Some(Err(error));
            }
            let key = |part: &Part| part.page.front().map(|object| object.key.clone());
            let fronts =
                self.parts.iter().enumerate().filter_map(|(at, part)| Some((key(part)?, at)));
            let next = if self.options.descending { fronts.max() } else { fronts.min() };
            let (key, at) = next?;
            let mut object = self.parts[at].page.pop_front().expect("it was at the front");
            if !self.options.with_values || object.value.is_some() {
                self.go_behind(key);
                return Some(Ok(object));
            }
            // Too large for a page.
            match self.fetch_value(&object.key).await {
                Ok(Lookup::Found(found)) => {
                    object.version = found.version();
                    object.value_len = found.len() as u64;
                    object.value = Some(found);
                    self.go_behind(key);
                    return Some(Ok(object));
                }
                // Removed since.
                Ok(Lookup::Absent { .. }) => self.go_behind(key),
                Err(error) => {
                    self.parts[at].page.push_front(object);
                    return Some(Err(error));
                }
            }
        }
    }

    /// Lets the range begin behind `key`, should it have to be divided anew.
    fn go_behind(&mut self, key: Vec<u8>) {
        if self.options.descending {
            self.options.upper = Bound::Excluded(key);
        } else {
            self.options.lower = Bound::Excluded(key);
        }
    }

    /// Sees to it that each part shows its next object, or has none.
    async fn turn_pages(&mut self) -> Result<(), ClientError> {
        loop {
            let cluster = self.core.keeper.current_owned();
            if cluster.epoch() != self.map_epoch {
                self.divide(&cluster)?;
            }
            let (this, mut asked) = (&*self, FuturesUnordered::new());
            for (at, part) in this.parts.iter().enumerate() {
                if part.page.is_empty() && part.has_more {
                    asked.push(async move { (at, this.ask(part).await) });
                }
            }
            let mut pages = Vec::new();
            while let Some((at, page)) = asked.next().await {
                pages.push((at, page));
            }
            drop(asked);
            if pages.is_empty() {
                return Ok(());
            }
            let mut failed = None;
            for (at, page) in pages {
                match page {
                    // By another map the node may have other parts of the range.
                    Ok((_, epoch)) if epoch != self.map_epoch => self.map_epoch = 0,
                    Ok((page, _)) => {
                        let part = &mut self.parts[at];
                        part.has_more = page.cursor != 0;
                        if let Some(last) = page.objects.last() {
                            part.last = Some(last.key.clone());
                        }
                        part.page = page.objects.into();
                    }
                    Err(error) => failed = Some(error),
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
        }
    }

    /// Asks the part's node for the page behind its last key. Returns it, and the epoch of the node's map.
    async fn ask(&self, part: &Part) -> Result<(Page, u64), ClientError> {
        let (mut lower, mut upper) = (self.options.lower.as_ref(), self.options.upper.as_ref());
        if let Some(last) = &part.last {
            *(if self.options.descending { &mut upper } else { &mut lower }) =
                Bound::Excluded(last);
        }
        let ask = AskRange {
            slot: part.slot,
            lower: key_of(lower)?,
            upper: key_of(upper)?,
            descending: self.options.descending,
            objects_max: self.options.page_objects,
            with_values: self.options.with_values,
        };
        self.core.ask(self.table, ask).await
    }

    /// Finds out anew which nodes have parts of what is left of the range.
    fn divide(&mut self, cluster: &Cluster) -> Result<(), ClientError> {
        let part = |slot| Part { slot, page: VecDeque::new(), has_more: true, last: None };
        self.parts = cluster.slots_of_nodes(self.table)?.into_iter().map(part).collect();
        self.map_epoch = cluster.epoch();
        Ok(())
    }

    async fn fetch_value(&self, key: &[u8]) -> Result<Lookup, ClientError> {
        self.core.ask(self.table, AskGet { key: Key::new(key)? }).await
    }
}

fn key_of(bound: Bound<&Vec<u8>>) -> Result<Bound<Key<'_>>, LimitError> {
    Ok(match bound {
        Bound::Included(key) => Bound::Included(Key::new(key)?),
        Bound::Excluded(key) => Bound::Excluded(Key::new(key)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_first_key_that_does_not_begin_so() {
        let upper = |prefix: &[u8]| RangeOptions::prefix(prefix).upper;
        assert_eq!(upper(b"ab"), Bound::Excluded(b"ac".to_vec()));
        assert_eq!(upper(b"a\xff\xff"), Bound::Excluded(b"b".to_vec()));
        assert_eq!(upper(b"\xff"), Bound::Unbounded);
        assert_eq!(upper(b""), Bound::Unbounded);
        assert_eq!(RangeOptions::prefix(b"ab").lower, Bound::Included(b"ab".to_vec()));
    }
}
